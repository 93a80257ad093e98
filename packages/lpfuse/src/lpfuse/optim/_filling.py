"""Water-filling: the farthest point of a ball along a direction, where entries have a least value.

    maximise  vᵀz   subject to   ‖z‖_p ≤ 1,   z ≥ −c          (c ≥ 0)

Its dual proves what the maximum is: vᵀz ≤ uᵀz + (u − v)ᵀc ≤ ‖u‖_q + (u − v)ᵀc for *every* u ≥ v.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lpfuse._arrays.operations import Host

if TYPE_CHECKING:
    from lpfuse.optim.balls import LpBall


def fill(unit: LpBall, v: Host, c: Host) -> tuple[Host, Host]:
    """The best z, and the best u ≥ v, over the unit ball.

    Entries that would fall below −c_j stay there, and the others share what is left of the ball,
    until none falls below: at most R times, for what the others get only grows. At the optimum
    |u_j| = λ|z_j|^{p−1}, so u_j = −λ c_j^{p−1} where z_j = −c_j, and u = v elsewhere.

    Examples
    --------
    >>> from lpfuse.optim import LpBall
    >>> z, u = fill(LpBall(2.0), np.array([3.0, -4.0]), np.array([0.0, 0.6]))
    >>> z, u.round(6)
    (array([ 0.8, -0.6]), array([ 3.  , -2.25]))
    """
    p, low = unit.p, np.zeros(v.size, dtype=bool)
    with np.errstate(all="ignore"):  # c may be infinite: no bound
        while True:
            left = max(1.0 - float((c[low] ** p).sum()), 0.0) ** (1.0 / p)
            rest = np.where(low, 0.0, v)
            z = np.where(low, -c, left * unit.linear_oracle(-rest))
            below = z < -c
            if not below.any():
                break
            low |= below
        pull, bend = unit.dual_norm(rest), c[low] ** (p - 1.0)
        level = pull / left ** (p - 1.0) if pull > 0.0 else 0.0
        level = min(level, float((-v[low] / bend).min(initial=np.inf)))
        u = v.copy()
        u[low] = np.maximum(v[low], -level * bend)
        return z, u
