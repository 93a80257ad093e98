"""``python -m research.notebook``: run the notebooks of ``examples`` anew, and store their output.

With names of files, only these.

Cells that time something carry the tag `timing`: what they show changes from run to run. The tag
`sampled` marks rankings by estimates, whose order may turn on a last digit. All others show the
same on every machine, and a test compares.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAPER = ROOT / "examples" / "paper.ipynb"
NOTEBOOKS = (PAPER, *sorted((ROOT / "examples" / "notebooks").glob("*.ipynb")))
VARYING = {"timing", "sampled"}
# The sets that the notebook fits learners to come with scikit-learn; those of a folder of one's own
# may differ in a row.
HIDDEN = ("LPFUSE_DATA",)


def executed(path: Path = PAPER, seconds_a_cell: int = 300) -> Any:
    """The notebook after a run from the root of the clone; a cell that fails raises its error."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook,
        timeout=seconds_a_cell,
        kernel_name="python3",  # of the interpreter that runs this
        record_timing=False,
        resources={"metadata": {"path": str(ROOT)}},
    )
    client.execute(env=_environment(os.environ))
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    return notebook


def _environment(here: Mapping[str, str]) -> dict[str, str]:
    """What the kernel finds: packages where this process found them, and no folder of sets."""
    kept = {name: value for name, value in here.items() if name not in HIDDEN}
    return kept | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "MPLBACKEND": "agg"}


def shown(notebook: Any) -> Iterator[tuple[str, str]]:
    """Pairs of a cell's id and what it shows as text; a picture is told by its name alone."""
    for cell in notebook.cells:
        if cell.cell_type != "code" or VARYING & {*cell.metadata.get("tags", [])}:
            continue
        for output in cell.outputs:
            if output.output_type == "stream":
                yield cell.id, output.text
            else:
                data = output.data
                yield cell.id, data.get("text/markdown") or data["text/plain"]


def main(names: Sequence[str]) -> None:
    """Run them, and write them back."""
    import nbformat

    for path in [Path(name).resolve() for name in names] or NOTEBOOKS:
        nbformat.write(executed(path), path)
        print(f"{path.relative_to(ROOT)}: run anew.")


if __name__ == "__main__":
    main(sys.argv[1:])
