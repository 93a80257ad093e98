"use strict";
(() => {
  const table = document.getElementById("alarms");
  if (!table) return;
  const byId = (id) => document.getElementById(id);
  const { alarm_list: { rows } } = JSON.parse(byId("summary").textContent);
  const heads = Array.from(table.querySelectorAll("thead th"));
  const columns = heads.map((head) => Number(head.dataset.place));
  const narrow = window.matchMedia("(max-width: 40rem)").matches; // cards, which are longer than lines
  const size = Number(narrow ? table.dataset.cards : table.dataset.page), body = table.tBodies[0];
  const [LABEL, SCORE, P_VALUE, WHY] = [1, 2, 3, 4];
  const known = { "1": "normal", "-1": "anomaly", "0": "unlabelled" };

  // As `readable` in Python: three digits at least, no power of ten.
  const readable = (value) => {
    const size = Math.abs(value);
    if (size === 0) return "0";
    if (size >= 1e15) return value.toPrecision(3).replace("-", "−");
    const decimals = Math.min(Math.max(2 - Math.floor(Math.log10(size)), 0), 6);
    const [whole, rest] = size.toFixed(decimals).split(".");
    const text = whole.replace(/\B(?=(\d{3})+$)/g, ",") + (rest ? `.${rest}` : "");
    return /[1-9]/.test(text) ? (value < 0 ? "−" : "") + text : "0";
  };
  const told = (value, place) => {
    if (value === null) return "–";
    if (place === LABEL) return known[value];
    return place === SCORE || place === P_VALUE ? readable(value) : String(value);
  };

  // Sorting keeps the order of equal rows, and puts what is missing last.
  const collator = new Intl.Collator("en-GB", { numeric: true });
  const sorted = (place, falling) => {
    if (place < 0) return rows;
    const texts = place >= WHY;
    const compare = texts ? (a, b) => collator.compare(told(a, place), told(b, place)) : (a, b) => a - b;
    return rows.slice().sort(({ [place]: a }, { [place]: b }) => {
      if (a === null || b === null) return (a === null) - (b === null);
      return falling ? compare(b, a) : compare(a, b);
    });
  };

  let order = rows, at = 0, by = -1, falling = false;
  const last = Math.max(0, Math.ceil(rows.length / size) - 1);
  const show = () => {
    body.replaceChildren(...order.slice(at * size, (at + 1) * size).map((row) => {
      const line = document.createElement("tr");
      columns.forEach((place, k) => {
        const cell = document.createElement(k ? "td" : "th");
        if (!k) cell.scope = "row";
        cell.dataset.name = heads[k].dataset.name;
        if (place === SCORE || place === P_VALUE) cell.className = "v";
        const text = document.createElement("bdi");
        text.textContent = told(row[place], place);
        cell.append(text);
        line.append(cell);
      });
      return line;
    }));
    const from = at * size + 1, to = Math.min(rows.length, (at + 1) * size);
    byId("alarms-now").textContent = `${from.toLocaleString("en-GB")} to ${to.toLocaleString("en-GB")} of ${rows.length.toLocaleString("en-GB")}`;
    ["first", "before"].forEach((name) => { byId(`alarms-${name}`).disabled = at === 0; });
    ["after", "last"].forEach((name) => { byId(`alarms-${name}`).disabled = at === last; });
    heads.forEach((head, k) => {
      if (columns[k] === by) head.setAttribute("aria-sort", falling ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
  };
  const sort = (place, down) => {
    [by, falling, at] = [place, down, 0];
    order = sorted(place, down);
    byId("alarms-by").value = String(place);
    byId("alarms-turn").disabled = place < 0;
    show();
  };
  const go = (k) => { at = Math.min(last, Math.max(0, k)); show(); };

  byId("alarms-first").addEventListener("click", () => go(0));
  byId("alarms-before").addEventListener("click", () => go(at - 1));
  byId("alarms-after").addEventListener("click", () => go(at + 1));
  byId("alarms-last").addEventListener("click", () => go(last));
  byId("alarms-by").addEventListener("change", (event) => sort(Number(event.target.value), false));
  byId("alarms-turn").addEventListener("click", () => sort(by, !falling));
  heads.forEach((head, k) => head.querySelector("button").addEventListener("click", () => {
    sort(columns[k], by === columns[k] && !falling);
  }));
  document.documentElement.classList.add("pages");
  sort(-1, false);
})();
