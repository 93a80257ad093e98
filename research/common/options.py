"""What a user can ask of an experiment, however it is asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Options:
    """What all experiments take.

    Attributes
    ----------
    out : Path
        Folder for the rows; pages and figures go there, too, unless `pages` is set.
    data : Path or None
        Folder with the data sets; None: where `research.common.datasets` looks by itself.
    jobs : int
        Processes; −1 is one on each core.
    seeds : int
        Number of random splits.
    quick : bool
        Fewer splits and thinner grids, for a first look.
    sets : tuple of str
        Data sets, by name or by path; none: those of the experiment.
    label, normal : str or None
        Of a user's own file: the column with the classes, and the class that is normal.
    show : bool
        Tables of what is stored; measure nothing.
    pages : Path or None
        Folder for pages and figures; None: `out`.
    progress : callable or None
        Called with the number of splits done and the number of all.

    Examples
    --------
    >>> Options(sets=("iris", "my.csv"), label="status", normal="ok").seeds
    10
    """

    out: Path = Path("results")
    data: Path | None = None
    jobs: int = 1
    seeds: int = 10
    quick: bool = False
    sets: tuple[str, ...] = ()
    label: str | None = None
    normal: str | None = None
    show: bool = False
    pages: Path | None = None
    progress: Callable[[int, int], None] | None = None

    @property
    def page_folder(self) -> Path:
        """Where pages and figures go."""
        return self.out if self.pages is None else self.pages
