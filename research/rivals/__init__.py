"""Whoever lpfuse is compared with, one a file or a line.

- `solvers/`: other ways to solve the fusion problem (`solvers/_interface.py` says what one is).
- `detectors/`: other makers of the same one-class learners (`detectors/__init__.py`).
- `fusion.py`: other ways to fuse scores, and whole ensembles, under the names that tables show.
- `dynamic.py`, `iterative.py`, `local.py`, `pools.py`, `related.py`, `search.py`, `templates.py`:
  those of the literature that the library does not have.

None is installed with the library; one whose package is missing is left out.
"""
