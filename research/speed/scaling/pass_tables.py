"""Passes on a device as tables and a figure: beside a copy of the scores, and within fits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from research.common.drawing import new_figure
from research.common.store import Record
from research.common.tables import NOTHING, commit_name, milliseconds, page, prose, table
from research.speed.solver.problems import ALL_P, NEGATIVE_FRACTION

from .figure import COLOURS
from .results import Results

PASS_KINDS = ("device-check", "device-kernel", "device-pass", "device-split", "device-budget")
PASSES = {"partition": "partition", "examine": "certificate"}  # as stored, and as told
FORMS = ("plain", "fused")
SPLIT_FORMS = FORMS[::-1]
SHOWN = "negatives"  # the setting of the figure: kernels alone are timed with labels

ROOFLINE_NOTES = """A *partition* pass parts rows into decided and undecided ones, a *certificate*
pass bounds the gap; one candidate is that of a fit, several are those of a path. *Plain*: torch's
own operations, as passes are now. *Fused*: Triton kernels, which the library had at that commit and
has no longer ([decision 0043](../adr/0043-what-does-not-pay-leaves.md)). Whole passes by the clock,
what the host does for them included, medians of repeats by turns. *Of the copy*: bytes of S over
the time, as a share of the bytes a second that `copy_` of S moves in the same run (reading and
writing counted): a pass that read S once and did nothing else would reach about all of it. *Kernel
alone*: by events of the device, the fastest of the cuts of rows that were tried; its bytes are all
that it reads and writes."""

SPLIT_NOTES = """Fits to a certified 1e-8 and the nine-p path, float64, in milliseconds: medians of
repeats, fused (former kernels) and plain (as now) by turns. The parts are of one further run, a
fused one where there is one, and add up to its own time. *Entrance*: checks of the input. *Passes*:
the sample, partitions, multipliers and certificates, with how many of partitions and certificates
there were. *Host*: all else, the small problems between passes. The gap is the
certificate's own."""


class Pass(NamedTuple):
    """One kind of pass on one table of scores: seconds by form, and shares of the copy."""

    name: str
    candidates: int
    setting: str
    dtype: str
    seconds: dict[str, float]
    shares: dict[str, float]
    kernel: Record | None

    @property
    def told(self) -> str:
        return f"{PASSES[self.name]}, {self.candidates}"


def commits_of(results: Results, records: Iterable[Record]) -> str:
    """The commits that records were measured at, in words."""
    used = {r.get("environment") for r in records}
    found = [commit_name(e) for key, e in results.environments.items() if key in used]
    return ", ".join(sorted(set(found))) or "not told"


def pass_section(results: Results, figure: str) -> str:
    """Both tables of each device, and the figure where there is something to draw."""
    texts = []
    for device in results.devices("device-split") or results.devices("device-pass"):
        found = [r for kind in PASS_KINDS for r in results.select(kind, device=device)]
        texts += [f"Measured on {device}, commit {commits_of(results, found)}."]
        texts += [prose(checks(results, device))]
        texts += [prose(ROOFLINE_NOTES), pass_table(results, device)]
        if shown(results, device):
            texts += [f"![{alternative(results, device)}]({figure})"]
        texts += ["### Where a fit's time goes", prose(SPLIT_NOTES), split_table(results, device)]
    return page(*texts) if texts else NOTHING


def checks(results: Results, device: str) -> str:
    """How many comparisons of kernels with plain torch and exact sums came out right."""
    found = results.select("device-check", device=device)
    if not found:
        return "These runs did not compare the kernels with plain torch."
    wrong = [f"{r['form']} ({r['dtype']})" for r in found if not r["right"]]
    told = f"; not {', '.join(wrong)}" if wrong else ""
    return f"""Sums of kernels agree with plain torch, and on few rows with exact sums, to what
        rounding allows in {len(found) - len(wrong)} of {len(found)} comparisons{told}."""


def found_passes(results: Results, device: str) -> list[Pass]:
    """Whole passes whose table of scores was copied in the same run, too."""
    groups: dict[tuple[str, str, str], dict[str, Record]] = {}
    for r in results.select("device-pass", device=device):
        what, form = r["form"].rsplit(", ", 1)
        groups.setdefault((r["setting"], r["dtype"], what), {})[form] = r
    passes = []
    for (setting, dtype, what), by_form in groups.items():
        kernels = results.select("device-kernel", device=device, dtype=dtype)
        copies = [r for r in kernels if r["form"] == "copy"]
        if copies:
            unit = copies[-1]["bandwidth"]
            seconds = {form: r["seconds"] for form, r in by_form.items()}
            shares = {f: r["moved_bytes"] / r["seconds"] / unit for f, r in by_form.items()}
            name, candidates = what.split()
            alone = [r for r in kernels if r["form"].startswith(f"{what}, ")]
            same = [r for r in alone if r["setting"] == setting]
            best = min(same, key=lambda r: r["seconds"], default=None)
            passes.append(Pass(name, int(candidates), setting, dtype, seconds, shares, best))
    return passes


def pass_table(results: Results, device: str) -> str:
    rows = []
    for found in found_passes(results, device):
        times = [milliseconds(found.seconds[f]) if f in found.seconds else "–" for f in FORMS]
        shares = [_percent(found.shares.get(f)) for f in FORMS]
        cells = [cell for pair in zip(times, shares, strict=True) for cell in pair]
        alone = ["–", "–", "–"]
        if found.kernel is not None:
            cut = found.kernel["form"].split(", ", 1)[1]
            share = _percent(found.kernel["share"])
            alone = [milliseconds(found.kernel["seconds"]), share, cut]
        rows.append([found.told, found.setting, found.dtype, *cells, *alone])
    head = ["pass, candidates", "setting", "data"]
    for form in (*FORMS, "kernel alone"):
        head += [f"{form}, ms", "of the copy"]
    return table([*head, "its cut"], rows)


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f} %"


def split_table(results: Results, device: str) -> str:
    rows = []
    for setting in NEGATIVE_FRACTION:
        for p in (*ALL_P, "path"):
            by_form = {
                r["form"]: r for r in results.select("device-split", device=device,
                                                     setting=setting, p=p)
            }  # fmt: skip
            if by_form:
                named = [setting, "the path" if p == "path" else p]
                told = (by_form.get(form) for form in SPLIT_FORMS)
                times = ["–" if record is None else _whole(record["seconds"]) for record in told]
                split = next(by_form[form] for form in SPLIT_FORMS if form in by_form)
                rows.append([*named, *times, *_parts(split)])
    head = ["setting", "p", "fused, ms", "plain, ms", "entrance", "passes", "host", "host's share"]
    return table([*head, "gap"], rows)


def _whole(seconds: float) -> str:
    """Milliseconds, also of paths that take more than a second."""
    return milliseconds(seconds) if seconds < 0.9995 else f"{1e3 * seconds:,.0f}"


def _parts(record: Record) -> Sequence[str]:
    """Entrance, passes with their number, the host and its share, and the gap."""
    parts, calls = record["parts"], record["calls"]
    entrance = parts.get("entrance", 0.0)
    passes = sum(parts.values()) - entrance
    count = calls.get("partition", 0) + calls.get("examine", 0)
    return [
        milliseconds(entrance),
        f"{milliseconds(passes)} ({count})",
        _whole(record["host_seconds"]),
        f"{100 * record['host_seconds'] / record['split']:.0f} %",
        f"{record['relative_gap']:.1e}",
    ]


# ---------------------------------------------------------------------------------------- figure


def shown(results: Results, device: str) -> list[Pass]:
    """The passes of the figure: those with both forms."""
    found = [f for f in found_passes(results, device) if f.setting == SHOWN]
    return [f for f in found if set(FORMS) <= set(f.shares)]


def alternative(results: Results, device: str) -> str:
    """The figure in words, for who cannot see it."""
    passes = shown(results, device)
    bars = {form: [f.shares[form] for f in passes] for form in FORMS}
    bars["the fused kernel alone"] = [f.kernel["share"] for f in passes if f.kernel]
    ranges = [
        f"{name} {_percent(min(shares))} to {_percent(max(shares))}"
        for name, shares in bars.items()
        if shares
    ]
    kinds = ", ".join(dict.fromkeys(PASSES[f.name] for f in passes))
    return f"Bars: share of the copy bandwidth by pass ({kinds}), {SHOWN}: {'; '.join(ranges)}"


def draw_roofline(results: Results, out: Path) -> bool:
    """Bars of each pass, a panel for each precision; False where there is nothing to draw."""
    devices = [d for d in results.devices("device-pass") if shown(results, d)]
    if not devices:
        return False
    passes = shown(results, devices[0])
    precisions = list(dict.fromkeys(f.dtype for f in passes))
    figure = new_figure(8.4, 3.8)
    panels = figure.subplots(1, len(precisions), sharey=True, squeeze=False)[0]
    for panel, dtype in zip(panels, precisions, strict=True):
        own = [f for f in passes if f.dtype == dtype]
        bars = {form: [100 * f.shares[form] for f in own] for form in FORMS}
        bars["fused, kernel alone"] = [100 * f.kernel["share"] if f.kernel else 0.0 for f in own]
        for k, (label, heights) in enumerate(bars.items()):
            places = [i + 0.27 * (k - 1) for i in range(len(own))]
            drawn = panel.bar(places, heights, 0.25, color=COLOURS[k], label=label)
            panel.bar_label(drawn, fmt="%.1f", fontsize=7, padding=1)
        panel.axhline(100, color="0.4", lw=0.8, ls="--")
        panel.set_xticks(range(len(own)), [f"{PASSES[f.name]}\n{f.candidates}" for f in own])
        panel.tick_params(axis="x", labelsize=8)
        panel.set(xlabel="pass, and its candidates", ylim=(0, 109))
        panel.set_title(dtype, fontsize=10)
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("share of the copy bandwidth, %")
    sizes = results.select("device-pass", device=devices[0])[0]
    figure.suptitle(
        f"How near passes come to a copy of the scores: {devices[0]}, "
        f"{sizes['n']:,} × {sizes['R']}, {SHOWN}",
        fontsize=11,
    )
    handles, names = panels[0].get_legend_handles_labels()
    figure.legend(handles, names, frameon=False, fontsize=9, loc="outside lower center", ncols=3)
    figure.savefig(out, dpi=110, metadata={"Software": None})
    return True
