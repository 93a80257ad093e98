"use strict";
(() => {
  const summary = JSON.parse(document.getElementById("summary").textContent);
  const byId = (id) => document.getElementById(id);
  const all = (selector) => Array.from(document.querySelectorAll(selector));
  const say = (id, text) => { const place = byId(id); if (place) place.textContent = text; };
  const fixed = (value) => value.toFixed(3);
  const minus = (text) => text.replace("-", "−");
  const percent = (share) => minus((Math.round(1000 * share) / 10 + 0).toFixed(1)) + " %";
  const points = ([x, y]) => x.map((at, i) => `${100 * at},${100 - 100 * y[i]}`).join(" ");

  // A detector's curves stand out while it is pointed at, or chosen.
  const lit = (j, on) => all(`.curve[data-j="${j}"]`).forEach((curve) => curve.classList.toggle("lit", on));
  all("#weights tr[data-j]").forEach((row) => {
    const j = row.dataset.j, button = row.querySelector("button");
    const pressed = () => button.getAttribute("aria-pressed") === "true";
    row.addEventListener("pointerenter", () => lit(j, true));
    row.addEventListener("pointerleave", () => lit(j, pressed()));
    button.addEventListener("click", () => {
      button.setAttribute("aria-pressed", String(!pressed()));
      lit(j, pressed());
    });
  });

  const slider = byId("p");
  if (!slider) return;
  const path = summary.path, last = path.length - 1;
  const chosen = path.findIndex((entry) => entry.chosen);

  const show = (k) => {
    const entry = path[k], at = 100 * k / last;
    const judged = entry.auc !== null;
    slider.setAttribute("aria-valuetext", `p = ${entry.label}` + (judged ? `, AUC ${fixed(entry.auc)}` : ""));
    say("p-now", entry.label);
    byId("reset").hidden = k === chosen;
    all(".cursor").forEach((line) => line.setAttribute("d", `M${at} 0V100`));
    all("#weights tr[data-j]").forEach((row) => {
      const share = entry.shares[row.dataset.j];
      row.querySelector("rect").setAttribute("width", `${100 * Math.abs(share)}%`);
      row.querySelector(".pct").textContent = percent(share);
    });
    if (!judged) return;
    say("auc-now", fixed(entry.auc));
    say("auc-fusion", fixed(entry.auc));
    say("ap-now", fixed(entry.average_precision));
    const dot = byId("auc-dot"), { low, high } = dot.dataset;
    dot.setAttribute("d", `M${at} ${100 - 100 * (entry.auc - low) / (high - low)}h0`);
    byId("roc-fusion").setAttribute("points", points(entry.roc));
    byId("pr-fusion").setAttribute("points", points(entry.pr));
    byId("roc").setAttribute("aria-label", `ROC curves. At p = ${entry.label} the fusion has an AUC of ${fixed(entry.auc)}.`);
    byId("pr").setAttribute("aria-label", `Precision–recall curves. At p = ${entry.label} the fusion has an average precision of ${fixed(entry.average_precision)}.`);
  };

  slider.addEventListener("input", () => show(Number(slider.value)));
  byId("reset").addEventListener("click", () => {
    slider.value = chosen;
    show(chosen);
    slider.focus();
  });
  document.documentElement.classList.add("moves");
  show(Number(slider.value));
})();
