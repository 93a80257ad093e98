"""Which rows of a batch to declare anomalies, when the share of false ones shall be small."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import false_discovery_control

from lpfuse._arrays.operations import Host
from lpfuse._checks.arguments import check_share, check_values
from lpfuse.threshold._offsets import in_memory

# p-values are fractions and often lie on a line exactly: rounding (1e-16) must not decide.
ON_THE_LINE = 1 + 1e-12


def control_false_discoveries(pvalues: Any, rate: float) -> NDArray[np.bool_]:
    r"""Which rows of a batch to declare anomalies, so that few of those declared are normal.

    Benjamini and Hochberg's rule: with the p-values of the m rows in ascending order, declare the
    first j rows for the largest j such that

    .. math:: p_{(j)} \le \mathrm{rate} \cdot j / m

    Parameters
    ----------
    pvalues : array-like, or Dask array or series, of shape (m,)
        Of one batch, for instance from :func:`conformal_pvalues`. NaN where there is none: such a
        row is never declared, and does not count. Dask's are brought into memory.
    rate : float in (0, 1]
        The false discovery rate: the expected share of normal rows among those declared, where
        none declared counts as zero.

    Returns
    -------
    ndarray of shape (m,)
        True for the rows declared anomalies.

    Notes
    -----
    Conformal p-values of one batch all lean on one calibration set, and so are not independent.
    Bates et al. (2023) show that they depend positively (PRDS), and that the rule therefore keeps
    the rate (indeed the rate times the share of normal rows), when

    * scores saw none of the calibration rows, as in split calibration: for scores that come out
      of folds there is no such theorem;
    * the rows of the batch are independent of each other and of the calibration rows, and the
      normal ones follow the same distribution;
    * scores have no ties, or `random_state` broke them.

    The rate is an average over batches and calibration sets. With n calibration rows no p-value
    is below 1/(n + 1): fewer than m / (rate · (n + 1)) anomalies in a batch cannot be declared.

    References
    ----------
    Benjamini and Hochberg (1995). Controlling the false discovery rate. Journal of the Royal
    Statistical Society B 57(1), 289–300.

    Bates et al. (2023): see :func:`conformal_pvalues`.

    Examples
    --------
    >>> from lpfuse.threshold import control_false_discoveries
    >>> control_false_discoveries([0.01, 0.04, 0.03, 0.5], rate=0.1)
    array([ True,  True,  True, False])
    """
    known = check_pvalues(pvalues)
    level = check_rate(rate)
    declared = ~np.isnan(known)
    adjusted = false_discovery_control(known[declared], method="bh")
    declared[declared] = adjusted <= level * ON_THE_LINE
    return declared


def check_pvalues(pvalues: Any) -> Host:
    """P-values of one batch in memory, NaN where there is none."""
    known = check_values(in_memory(pvalues), "pvalues", may_miss=True)
    if ((known < 0) | (known > 1)).any():
        raise ValueError(
            f"pvalues must lie in [0, 1], got values from {np.nanmin(known):g} to "
            f"{np.nanmax(known):g}. Turn scores into p-values with conformal_pvalues."
        )
    return known


def check_rate(rate: Any) -> float:
    """A false discovery rate."""
    return check_share("rate", rate, of="the rows declared anomalies", at_most=1)
