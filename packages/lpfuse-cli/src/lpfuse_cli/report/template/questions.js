"use strict";
(() => {
  const byId = (id) => document.getElementById(id);
  const { header, answers, key, questions } = JSON.parse(byId("questions").textContent);
  const sections = questions.map((_, k) => byId(`q${k}`));
  const choices = Array.from(document.querySelectorAll(".choice"));
  const last = questions.length; // the place behind the questions, when all are answered

  // A browser may refuse to keep anything, for pages from files above all.
  let kept = true;
  const load = () => {
    try {
      const found = JSON.parse(localStorage.getItem(key));
      localStorage.setItem(`${key}-`, "");
      localStorage.removeItem(`${key}-`);
      if (Array.isArray(found)) return questions.map((_, k) => answers[answers.indexOf(found[k])] ?? null);
    } catch { kept = false; }
    return questions.map(() => null);
  };
  const given = load(), undoable = [];
  let at = 0, exported = true;

  const keep = () => {
    try { localStorage.setItem(key, JSON.stringify(given)); } catch { kept = false; }
    byId("unkept").hidden = kept;
  };
  const count = () => given.filter((answer) => answer !== null).length;
  const file = () => [header, ...questions.flatMap(({ before, behind }, k) => given[k] === null ? [] : [before + given[k] + behind])].join("\n") + "\n";
  const tell = (text) => { byId("told").textContent = text; };

  const show = (k, focus = true) => {
    at = k;
    sections.forEach((section, i) => { section.hidden = i !== k; });
    byId("done").hidden = k !== last;
    choices.forEach((choice) => {
      choice.disabled = k === last;
      choice.setAttribute("aria-pressed", String(k < last && given[k] === answers[choice.dataset.answer]));
    });
    byId("back").disabled = k === 0;
    byId("next").disabled = k >= (count() === last ? last : last - 1);
    byId("undo").disabled = undoable.length === 0;
    byId("export").disabled = count() === 0;
    byId("export").classList.toggle("ready", count() === last);
    byId("progress").value = count();
    byId("count").textContent = `${count()} of ${last} answered`;
    byId("csv").value = count() ? file() : "";
    if (!focus) return;
    window.scrollTo(0, 0);
    byId(k === last ? "h-done" : `h${k}`).focus({ preventScroll: true });
  };

  // Where the next row without an answer is: behind this one, or else from the beginning.
  const open = (k) => {
    const free = given.flatMap((answer, i) => (answer === null ? [i] : []));
    return free.find((i) => i > k) ?? free[0] ?? last;
  };
  const answer = (text) => {
    if (at === last) return;
    undoable.push([at, given[at]]);
    given[at] = text;
    exported = false;
    keep();
    tell(`Row ${questions[at].row}: ${text}. ${count()} of ${last} answered.`);
    show(open(at));
  };
  const undo = () => {
    if (!undoable.length) return;
    const [k, before] = undoable.pop();
    given[k] = before;
    keep();
    tell(`Undone: row ${questions[k].row} ${before === null ? "has no answer" : `is ${before} again`}.`);
    show(k);
  };
  const save = () => {
    const url = URL.createObjectURL(new Blob([file()], { type: "text/csv;charset=utf-8" }));
    const link = Object.assign(document.createElement("a"), { href: url, download: "answers.csv" });
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(url), 60000);
    exported = true;
    tell(`${count()} answers exported to answers.csv.`);
  };
  const copy = async () => {
    byId("csv").select();
    try { await navigator.clipboard.writeText(file()); } catch { document.execCommand("copy"); }
    tell(`${count()} answers copied.`);
  };

  choices.forEach((choice) => choice.addEventListener("click", () => answer(answers[choice.dataset.answer])));
  byId("back").addEventListener("click", () => show(at - 1));
  byId("next").addEventListener("click", () => show(at + 1));
  byId("undo").addEventListener("click", undo);
  byId("export").addEventListener("click", save);
  byId("copy").addEventListener("click", copy);
  document.addEventListener("keydown", (event) => {
    if (!byId("keys").checked || event.altKey || event.ctrlKey || event.metaKey || event.target.id === "csv") return;
    const does = {
      ArrowLeft: "back", ArrowRight: "next", u: "undo",
      ...Object.fromEntries(answers.map((text) => [text[0], text])),
    }[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (does === undefined) return;
    event.preventDefault();
    if (answers.includes(does)) { if (!event.repeat) answer(does); } else byId(does).click();
  });
  // Nothing that was answered is lost in silence.
  window.addEventListener("beforeunload", (event) => { if (!kept && !exported) event.preventDefault(); });

  byId("answers").hidden = false;
  byId("unkept").hidden = kept;
  show(open(-1), false);
})();
