"""Which detectors a fusion trusts, and how far."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from lpfuse._format import number
from lpfuse.optim import Certificate
from lpfuse.plots._drawing import (
    PLAIN,
    axes,
    bar_look,
    bar_style,
    caption,
    labels_of,
    largest,
    learnt,
    name_bars,
    names_of,
    numbers,
    require_matplotlib,
    title,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.container import BarContainer

NEGLIGIBLE = 1e-3  # of the largest weight: what a solver leaves of a zero; chosen by hand


class WeightsDisplay:
    """The weight of each detector, the largest first.

    Parameters
    ----------
    weights : array-like of shape (R,)
        One weight a detector.
    names : sequence of R str, optional
        Names of the detectors; "detector j" otherwise.
    certificate : Certificate, optional
        Proof of the weights' quality, put into words under the title.

    Attributes
    ----------
    bars_ : BarContainer
        The bars, from the top.
    ax_ : Axes
        Where they are drawn.
    figure_ : Figure
        The figure of the axes.

    Examples
    --------
    >>> import numpy as np
    >>> from lpfuse import LpFusion
    >>> from lpfuse.plots import WeightsDisplay
    >>> S = np.random.default_rng(0).normal([0.1, 1.0, 0.5], 0.5, size=(200, 3))
    >>> display = WeightsDisplay.from_estimator(LpFusion(p=2).fit(S))
    >>> [label.get_text() for label in display.ax_.get_yticklabels()]
    ['detector 1', 'detector 2', 'detector 0']
    >>> display.figure_.savefig("weights.png")  # doctest: +SKIP
    """

    bars_: BarContainer
    ax_: Axes
    figure_: Any

    def __init__(
        self,
        weights: Any,
        names: Sequence[Any] | None = None,
        certificate: Certificate | None = None,
    ) -> None:
        self.weights = weights
        self.names = names
        self.certificate = certificate

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, ax: Axes | None = None, max_detectors: int = 20, **kwargs: Any
    ) -> Self:
        """Draw the weights of a fitted estimator.

        Parameters
        ----------
        estimator : estimator
            Anything fitted that has ``weights_``: `LpFusion`, `FixedRule`, `FusedDetector`.
        ax : Axes, optional
            Where to draw; a new figure otherwise.
        max_detectors : int, default=20
            How many bars at most, those of the largest weights.
        **kwargs
            For matplotlib's ``barh``.

        Returns
        -------
        WeightsDisplay
            What was drawn.
        """
        weights = learnt(estimator, "weights_")
        names = names_of(estimator, len(weights))
        display = cls(weights, names, getattr(estimator, "certificate_", None))
        return display.plot(ax, max_detectors=max_detectors, **kwargs)

    def plot(self, ax: Axes | None = None, *, max_detectors: int = 20, **kwargs: Any) -> Self:
        """Draw the weights.

        Parameters
        ----------
        ax : Axes, optional
            Where to draw; a new figure otherwise.
        max_detectors : int, default=20
            How many bars at most, those of the largest weights.
        **kwargs
            For matplotlib's ``barh``.

        Returns
        -------
        WeightsDisplay
            The display itself.
        """
        require_matplotlib(type(self))
        weights = numbers("weights", self.weights, ndim=1)
        names = labels_of(self.names, len(weights))
        sizes = np.abs(weights)
        shown = largest(sizes, max_detectors=max_detectors)
        ax = axes(ax, height=1.1 + 0.29 * len(shown))
        looks = [bar_look(j) for j in shown]
        look = {key: [each[key] for each in looks] for key in looks[0]}
        bars = ax.barh(range(len(shown)), weights[shown], **bar_style(look, kwargs))
        told = ["≈ 0" if 0 < s < NEGLIGIBLE * sizes.max() else "" for s in sizes[shown]]
        told = [text or number(weight) for text, weight in zip(told, weights[shown], strict=True)]
        ax.bar_label(bars, told, padding=3, fontsize="small", **PLAIN)
        ax.margins(x=0.2)  # room for these numbers
        name_bars(ax, [names[j] for j in shown])
        left_out = np.delete(sizes, shown)
        rest = (
            f"\n({len(left_out)} more, none beyond ±{left_out.max():.2g})" if len(left_out) else ""
        )
        ax.set_xlabel("weight" + rest, **PLAIN)
        if self.certificate is not None:
            caption(ax, _in_words(self.certificate))
        title(ax, "Fusion weights", captioned=self.certificate is not None)
        self.bars_, self.ax_, self.figure_ = bars, ax, ax.figure
        return self


def _in_words(certificate: Certificate) -> str:
    if certificate.relative_gap <= 0:
        return "proven: no other weights have a lower loss"
    gap = f"{certificate.relative_gap:.2g}"
    if certificate.status == "optimal":
        return f"proven: within {gap} of the least loss (relative)"
    return f"not optimal: up to {gap} above the least loss (relative)"
