"""Pictures of a fusion: its weights, how they change with p, and why a row is strange.

Displays in scikit-learn's manner: a constructor stores, ``from_…`` computes and draws, ``plot``
draws again. A figure of their own (no `ax` given) gives names the room they need; one of yours does
with ``layout="constrained"``. A detector looks the same in every display. matplotlib is imported
when something is drawn.
"""

from lpfuse.plots.displays import (
    AttributionsDisplay,
    ContributionsDisplay,
    PathDisplay,
    WeightsDisplay,
)

__all__ = ["AttributionsDisplay", "ContributionsDisplay", "PathDisplay", "WeightsDisplay"]
