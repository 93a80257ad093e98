"""``lpfuse faces score``: a verdict on a video, or on many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from math import isfinite
from os.path import commonpath
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

import typer

from lpfuse_cli import console
from lpfuse_faces.cli import _extraction as extraction
from lpfuse_faces.cli import _options as options

if TYPE_CHECKING:
    from lpfuse_faces._detector import VideoDetector
    from lpfuse_faces._explanation import Explained
    from lpfuse_faces.contact_sheet import ContactSheet

DEFAULT_MODEL = Path("faces.lpfuse")
MOST_ROWS = 40  # that a table on the screen has
FEW = 3  # regions and learners that are named
INDENT: dict[str, Any] = {"initial_indent": "  ", "subsequent_indent": "    "}


def score(
    ctx: typer.Context,
    videos: options.Videos,
    model: options.Model = DEFAULT_MODEL,
    out: options.Scores = None,
    sheet: options.Sheet = None,
    sheets: options.Sheets = None,
    cache: options.MaybeCache = None,
    quality: options.Quality = None,
    weights: options.Weights = None,
    jobs: options.Jobs = -1,
    device: options.MaybeDevice = None,
    detector_weights: options.DetectorWeights = None,
    limit: options.Limit = None,
    as_json: console.Json = False,
    quiet: console.Quiet = False,
) -> None:
    """Tell whether videos are genuine or forged, and what speaks against them.

    Videos are read as the model was trained. Scores are high for genuine videos.
    """
    from lpfuse_faces import Limits
    from lpfuse_faces._model_file import extractor_of, load_model

    silent = as_json or console.is_quiet(ctx, quiet)
    with console.remarks(silent) as remarks:
        paths = _paths(videos, quality)
        _check_targets(out, sheet, sheets, paths, [model, *videos, *paths])
        trained = load_model(_there(model))
        measure = extractor_of(
            trained,
            weights=options.weight_files(weights),
            detector_weights=detector_weights,
            device=device,
            limits=Limits.of(limit or ()),
        )
        if cache is not None:
            extraction.check_cache(cache)
        done = extraction.extract_with(measure, paths, cache, jobs, silent or len(paths) == 1)
        verdicts = explain(trained, done, done.extraction.features)
        if out is not None:
            write_scores(out, verdicts, done)
        drawn = _draw(verdicts, done, sheet, sheets)
    if as_json:
        told = {str(path): explained.values for path, explained in verdicts.items()}
        skipped = done.values["skipped"]
        console.show_json(
            {"model": str(model), "videos": told, "skipped": skipped, "warnings": remarks}
        )
    else:
        _tell(verdicts, done, silent)
    if not silent:
        for file in filter(None, (out, *drawn)):
            typer.echo(f"Written to {file}.")
        if len(verdicts) == 1 and not drawn:
            typer.echo("For a contact sheet, which shows what was seen: --sheet sheet.html")


def explain(
    model: VideoDetector, done: extraction.FeaturesReport, paths: Iterable[Path]
) -> dict[Path, Explained]:
    """Return a verdict on each of these videos."""
    from lpfuse_faces._explanation import Explained, usual_contributions

    usual = usual_contributions(model)
    features = done.extraction.features
    return {path: Explained(model.verdict(features[path]), usual) for path in paths}


def _paths(given: Sequence[Path], quality: str | None) -> list[Path]:
    """Return the videos; a file is taken for one whatever its name is."""
    found: list[Path] = []
    for path in given:
        if path.is_dir() or path.suffix.casefold() == ".csv":
            found += [clip.path for clip in extraction.clips_of(path, quality)]
        else:
            found.append(path)
    return list(dict.fromkeys(found))


def _there(model: Path) -> Path:
    if not model.expanduser().exists():
        raise FileNotFoundError(
            f"There is no model {str(model)!r}. Train one: lpfuse faces train WHERE --cache DIR -o "
            f"{DEFAULT_MODEL}. Or name another: --model FILE"
        )
    return model


def _check_targets(
    out: Path | None,
    sheet: Path | None,
    sheets: Path | None,
    paths: Sequence[Path],
    sources: Sequence[Path],
) -> None:
    """Refuse, before any work, what could not be written."""
    from lpfuse._files import check_writable
    from lpfuse_cli.tables import check_table_target
    from lpfuse_faces.contact_sheet import check_suffix

    if out is not None:
        check_table_target(out, sources)
    if sheet is not None:
        if len(paths) > 1:
            raise ValueError(
                f"--sheet shows one video, and there are {len(paths)}. For a sheet of each: "
                "--sheets DIR"
            )
        check_suffix(sheet)
        check_writable(sheet, sources)
    if sheets is not None:
        if sheets.exists() and not sheets.is_dir():
            raise ValueError(f"{str(sheets)!r} is there, and is no folder. Name another.")
        check_writable(sheets / "sheet.html" if sheets.is_dir() else sheets)


def _draw(
    verdicts: dict[Path, Explained],
    done: extraction.FeaturesReport,
    sheet: Path | None,
    sheets: Path | None,
) -> list[Path]:
    """Return the contact sheets that are asked for, one after the other."""
    from lpfuse._files import write_errors
    from lpfuse_faces.contact_sheet import write_sheet

    targets: list[tuple[Path, Path]] = []
    if sheet is not None:
        targets += [(path, sheet) for path in verdicts]
    if sheets is not None:
        sheets.mkdir(exist_ok=True)
        targets += zip(verdicts, (sheets / name for name in sheet_names(verdicts)), strict=True)
    for path, target in targets:
        with write_errors(target.name):
            write_sheet(sheet_of(path, verdicts[path], done), target)
    return [*([] if sheet is None else [sheet]), *([] if sheets is None else [sheets])]


def sheet_of(path: Path, explained: Explained, done: extraction.FeaturesReport) -> ContactSheet:
    """Return the contact sheet of a video."""
    from lpfuse_faces.contact_sheet import contact_sheet

    features = done.extraction.features[path]
    return contact_sheet(path, features, explained, done.extractor.settings)


def sheet_names(paths: Iterable[Path]) -> list[str]:
    """Return a name for the sheet of each video; those of equal names are numbered.

    Examples
    --------
    >>> sheet_names([Path("a/clip.mp4"), Path("b/clip.mp4"), Path("b/other.mp4")])
    ['clip.html', 'clip-2.html', 'other.html']
    """
    seen: Counter[str] = Counter()
    found = []
    for path in paths:
        seen[path.stem] += 1
        number = f"-{seen[path.stem]}" if seen[path.stem] > 1 else ""
        found.append(f"{path.stem}{number}.html")
    return found


# ------------------------------------------------------------------------------------------- words


def write_scores(
    out: Path, verdicts: dict[Path, Explained], done: extraction.FeaturesReport
) -> None:
    """A table with a row for each video; those that could not be read have no score."""
    from lpfuse.ensemble.components import CONTRIBUTION
    from lpfuse_cli.tables import table_writer
    from lpfuse_faces._extras import needed

    pl = needed("polars", "Writing tables", extra="cli")
    rows: list[dict[str, Any]] = []
    for path, explained in verdicts.items():
        verdict = explained.verdict
        parts = () if verdict.contributions is None else verdict.contributions
        scores = {
            "score": verdict.score,
            "threshold": explained.threshold,
            "p_value": verdict.pvalue,
            **{
                f"{CONTRIBUTION}{name}": part
                for name, part in zip(verdict.learner_names, map(float, parts), strict=False)
            },
        }
        rows.append(
            {
                "video": str(path),
                "verdict": verdict.verdict,
                "frames": verdict.n_frames,
                "faces": verdict.n_frames - verdict.n_without_face,
                "note": "; ".join(verdict.warnings),
                **{name: value if isfinite(value) else None for name, value in scores.items()},
            }
        )
    for path, reason in done.extraction.skipped.items():
        rows.append({"video": str(path), "verdict": "unreadable", "note": reason})
    with table_writer(out) as add:
        add(pl.DataFrame(rows, infer_schema_length=None))


def _tell(verdicts: dict[Path, Explained], done: extraction.FeaturesReport, silent: bool) -> None:
    if len(verdicts) == 1 and not done.extraction.skipped:
        (explained,) = verdicts.values()
        typer.echo(in_words(explained, silent))
        return
    order = sorted(verdicts, key=lambda path: _strangeness(verdicts[path]))
    shown = order if silent else order[:MOST_ROWS]
    console.show(verdict_table({path: verdicts[path] for path in shown}), silent)
    if not silent:
        if len(shown) < len(order):
            typer.echo(f"… and {len(order) - len(shown):,} more, less strange; -o FILE has all.")
        extraction.tell_skipped(done, silent)
        counts = Counter(explained.verdict.verdict for explained in verdicts.values())
        told = ", ".join(f"{count:,} {verdict}" for verdict, count in counts.most_common())
        typer.echo(f"\n{len(verdicts):,} videos: {told}.")


def _strangeness(explained: Explained) -> tuple[bool, float]:
    return not explained.verdict.has_face, explained.verdict.score


def verdict_table(verdicts: dict[Path, Explained]) -> str:
    """Return a line for each video."""
    from lpfuse._format import shortened

    rows = []
    for name, explained in zip(short_names(verdicts), verdicts.values(), strict=True):
        verdict = explained.verdict
        faces = f"{verdict.n_frames - verdict.n_without_face} of {verdict.n_frames}"
        marked = f"{verdict.verdict} (!)" if verdict.warnings else verdict.verdict
        figures = [_figure(verdict.score), _figure(verdict.pvalue)]
        rows.append([shortened(name), marked, *figures, faces])
    return console.table(["video", "verdict", "score", "p-value", "faces"], rows)


def short_names(paths: Iterable[Path]) -> list[str]:
    """Return names of videos without the folders that they share.

    Examples
    --------
    >>> short_names([Path("a/genuine/clip.mp4"), Path("a/forged/clip.mp4")])
    ['genuine/clip.mp4', 'forged/clip.mp4']
    """
    whole = [path.absolute() for path in paths]
    shared = commonpath([path.parent for path in whole])
    return [path.relative_to(shared).as_posix() for path in whole]


def _figure(value: float) -> str:
    return f"{value:.3g}" if isfinite(value) else ""


def in_words(explained: Explained, short: bool) -> str:
    """Return the verdict on one video, and what led to it."""
    from lpfuse._format import plain
    from lpfuse_faces._explanation import NO_BREAK

    verdict = explained.verdict
    head = f"{plain(verdict.name)}: {verdict.verdict}"
    beware = [f"Beware: {text}." for text in verdict.warnings]
    if short:
        score = [f"score {_figure(verdict.score)}"] if verdict.has_face else []
        return ". ".join([", ".join([head, *score]), *beware])
    sentences = [*explained.sentences(FEW), *beware]
    return "\n".join([head, *(fill(text, 78, **INDENT) for text in sentences)]).replace(
        NO_BREAK, " "
    )
