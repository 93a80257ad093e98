// How search orders what it finds: guides first, decisions and stored measurements last. The other numbers are Sphinx's own.
var Scorer = {
  score: (result) => {
    const [page, title, anchor, , found] = result;
    const words = (new URLSearchParams(location.search).get("q") ?? "").toLowerCase().trim();
    const score = found + (!anchor && words && title.toLowerCase().includes(words) ? 8 : 0);
    if (/^(adr|research)\//.test(page) || page === "changelog") return score - 12;
    if (/^(benchmarks|results|gallery)\b/.test(page)) return score - 4;
    return page.includes("/") ? score : score + 8;
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
