"""The method of the paper in one call: its learners, grids, normalisation, ℓp and threshold.

`Pipeline` is the method as it is printed, for whoever wants to repeat or cite its figures; for work
of one's own `FusedDetector` is ahead of it (``docs/results/uci.md``). What stands beside it are its
parts: the grid of learners, and the choice among them.
"""

from lpfuse.paper._candidates import LEARNERS, Candidate, best_of_each, candidates, fit_candidates
from lpfuse.paper._pipeline import PAPER_RHOS, Pipeline

__all__ = [
    "LEARNERS",
    "PAPER_RHOS",
    "Candidate",
    "Pipeline",
    "best_of_each",
    "candidates",
    "fit_candidates",
]
