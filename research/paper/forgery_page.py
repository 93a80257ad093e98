"""The page of forgeries never seen: our figures beside the paper's two tables, or by themselves."""

from __future__ import annotations

from collections.abc import Sequence

from research.common.comparison import Figures
from research.common.protocol import SETTINGS
from research.common.ranks import mean_ranks
from research.common.store import Row
from research.common.tables import markdown, page, prose
from research.paper import paper
from research.paper.forgery import FACEFORENSICS, STAND_IN
from research.paper.forgery_methods import CHOSEN, DEFAULT, PAPERS
from research.rivals.fusion import NOTES

MISSING = "–"
QUALITIES = {"c40": "Low quality (c40)", "c23": "High quality (c23)", "raw": "Uncompressed"}

# What the tables call it, the setting, and the method.
OURS = (
    ("lpfuse, non-pure, p chosen", "non-pure", CHOSEN),
    ("lpfuse, non-pure", "non-pure", DEFAULT),
    ("lpfuse, pure", "pure", DEFAULT),
    ("the paper's method, measured here", "non-pure", PAPERS),
    ("sum", "pure", "sum"),
    ("best single learner", "non-pure", "best single"),
)
OWN_NOTES = {
    CHOSEN: "the weights of `FusedDetector`, with ρ and p chosen on validation",
    PAPERS: """free signs, no intercept, no balance of the classes, scores from 0 to 1 without
        clipping, with ρ and p chosen on validation""",
    "best single": """the learner with the highest AUC on validation; without validation, on the
        training clips, or the one that agrees most with the others""",
}


def forgery_page(rows: Sequence[Row]) -> str:
    """All tables, as Markdown.

    Parameters
    ----------
    rows : sequence of dict
        From :func:`research.paper.forgery.leave_one_manipulation_out`, of one collection.

    Returns
    -------
    str
        For "FaceForensics++" with the paper's figures, as printed, above ours; "–" where nothing
        was printed or measured.
    """
    if not rows:
        raise ValueError("There is nothing to show: no rows. Measure something first.")
    collection = rows[0]["collection"]
    told = dict.fromkeys(text for row in rows for text in row["warnings"])
    measured = dict.fromkeys(row["quality"] for row in rows)
    shown = dict.fromkeys([*paper.FACEFORENSICS, *measured] if _is_papers(rows) else measured)
    notes = {**NOTES, **OWN_NOTES}
    names = dict.fromkeys(row["method"] for row in rows)
    learners = {row["method"] for row in rows if row["is_learner"]}
    if "swarm" in names and "exhaustive" not in names:
        names["exhaustive"] = None
        notes["exhaustive"] = (
            f"left out: the grid over {len(learners)} learners has too many points"
        )
    return page(
        f"# Forgeries never seen in training: {collection or 'clips of your own'}",
        prose(_about(rows)),
        *(["**Mind:**", "\n".join(f"- {text}" for text in told)] if told else []),
        *(
            part
            for quality in shown
            for part in _sections(quality, [row for row in rows if row["quality"] == quality], rows)
        ),
        *(_claims() if _is_papers(rows) else []),
        "## Who is who",
        "\n".join(prose(f"- *{name}*: {notes[name]}.") for name in names if name in notes),
    )


def _is_papers(rows: Sequence[Row]) -> bool:
    return bool(rows[0]["collection"] == FACEFORENSICS)


def _about(rows: Sequence[Row]) -> str:
    text = """Each kind of forgery is left out of training and validation, and is then to be told
        from genuine videos of the test. Nobody is in two of training, validation and test. *Pure*:
        genuine clips alone teach the weights; *non-pure*: forgeries of the other kinds do, too.
        The threshold behind the accuracy has the best G-mean on validation clips or, where there
        are none, on training clips. In brackets, 95 % intervals after Newcombe, for which clips of
        the same people count once."""
    if _is_papers(rows):
        return f"{text} Rows above ours are as the paper prints them."
    told = f"""{text} These clips are not FaceForensics++: what is measured on them is no evidence
        for or against the paper's figures."""
    if rows[0]["collection"] == STAND_IN:
        told += """ The stand-in is made on the spot, of three faces and simple manipulations. It
            proves the plumbing from the video to the verdict, and nothing else."""
    return told


def _sections(quality: str | None, rows: Sequence[Row], every: Sequence[Row]) -> list[str]:
    """One quality: the main table, accuracies, every method, every learner."""
    is_papers = _is_papers(every)
    present = list(dict.fromkeys(row["kind"] for row in (rows or every)))
    kinds = list(paper.FORGERIES) if is_papers else present
    title = QUALITIES.get(quality or "", quality or "As they are")
    printed = _printed(quality, kinds) if is_papers else []
    found = [f"## {title}: AUC of videos in %"]
    found.append(markdown([["", *kinds], *printed, *_ours(rows, kinds, "auc")]))
    if not rows:
        return [*found, "Not measured here at this quality."]
    videos = [
        f"{row['n_genuine']} genuine and {row['n_forged']} forged of {kind}"
        for kind in present
        for row in [next(row for row in rows if row["kind"] == kind)]
    ]
    found.append(prose(f"Test videos: {'; '.join(videos)}."))
    found.append("### Accuracy in % (mean of the two hit rates)")
    found.append(markdown([["", *kinds], *_ours(rows, kinds, "accuracy")]))
    fused = _complete([row for row in rows if not row["is_learner"]], present)
    single = [row for row in rows if row["is_learner"] and row["setting"] == rows[0]["setting"]]
    found += ["### Every method: means over the kinds", _everyone(Figures(fused))]
    found += ["### Single learners: AUC in %", _learners(single, kinds)]
    return found


def _printed(quality: str | None, kinds: Sequence[str]) -> list[list[str]]:
    table = paper.FACEFORENSICS.get(quality or "", {})
    return [
        [
            f"**{method} (the paper)**" if method == paper.THIS_WORK else method,
            *(f"{row[kind]:.1f}" if kind in row else MISSING for kind in kinds),
        ]
        for method, row in table.items()
    ]


def _ours(rows: Sequence[Row], kinds: Sequence[str], metric: str) -> list[list[str]]:
    """Our rows of a table; while none is measured, the first of them with dashes."""
    by_place = {(row["setting"], row["method"], row["metric"], row["kind"]): row for row in rows}
    table = [
        [name, *(_cell(by_place, setting, method, metric, kind) for kind in kinds)]
        for name, setting, method in OURS
    ]
    measured = [row for row in table if set(row[1:]) != {MISSING}]
    return measured or table[:1]


def _cell(
    by_place: dict[tuple[str, str, str, str], Row],
    setting: str,
    method: str,
    metric: str,
    kind: str,
) -> str:
    row = by_place.get((setting, method, metric, kind))
    if row is None:
        return MISSING
    if metric == "auc":
        return f"{row['value']:.1f} [{row['low']:.0f}, {row['high']:.0f}]"
    balanced = by_place[setting, method, "balanced_accuracy", kind]
    return f"{row['value']:.1f} ({balanced['value']:.1f})"


def _complete(rows: Sequence[Row], kinds: Sequence[str]) -> list[Row]:
    """Those of methods that were measured on every kind: others have no mean to compare."""
    seen: dict[tuple[str, str], set[str]] = {}
    for row in rows:
        seen.setdefault((row["setting"], row["method"]), set()).add(row["kind"])
    return [row for row in rows if seen[row["setting"], row["method"]] == set(kinds)]


def _everyone(figures: Figures) -> str:
    """Mean AUC, mean rank, mean accuracy and mean G-mean of all methods, in every setting."""
    columns: dict[str, dict[str, list[str]]] = {}
    settings = [setting for setting in SETTINGS if figures.methods(setting)]
    for setting in settings:
        names = figures.methods(setting)
        aucs = figures.table(setting, names)
        means = (
            aucs.mean(axis=0),
            mean_ranks(aucs),
            *(
                figures.table(setting, names, metric).mean(axis=0)
                for metric in ("accuracy", "g_mean")
            ),
        )
        for name, *numbers in zip(names, *means, strict=True):
            columns.setdefault(name, {})[setting] = [f"{number:.1f}" for number in numbers]
    empty = [""] * 4
    heads = [
        head for setting in settings for head in (f"{setting}: AUC", "rank", "accuracy", "G-mean")
    ]
    body = [
        [name, *(cell for setting in settings for cell in by_setting.get(setting, empty))]
        for name, by_setting in columns.items()
    ]
    return markdown([["", *heads], *body])


def _learners(rows: Sequence[Row], kinds: Sequence[str]) -> str:
    values = {(row["method"], row["kind"]): row["value"] for row in rows if row["metric"] == "auc"}
    body = [
        [
            name,
            *(f"{values[name, kind]:.1f}" if (name, kind) in values else MISSING for kind in kinds),
        ]
        for name in dict.fromkeys(name for name, _ in values)
    ]
    return markdown([["", *kinds], *body])


def _claims() -> list[str]:
    """What the paper's tables say of its own claims, by arithmetic."""
    lines = []
    for quality, claimed in paper.FORGERY_CLAIMS.items():
        leads = paper.forgery_leads(quality)
        alone = [kind for kind, lead in leads.items() if lead is None]
        ahead = sum(lead is not None and lead > 0 for lead in leads.values())
        lines.append(
            prose(
                f"""- {QUALITIES[quality]}: better than the existing approaches on {claimed} of
                {len(leads)} subsets, it says. On {", ".join(alone)} it prints no other approach;
                of the {len(leads) - len(alone)} with rivals it is ahead on {ahead}."""
            )
        )
    return ["## What the paper claims of its tables", "\n".join(lines)]
