r"""Rows that keep coming: say when they stop being like those before, with a bound on false alarms.

`DriftMonitor` watches what a fused detector says of rows, what each of its detectors says, and the
columns. Each of these streams of numbers is compared with reference rows by the bins that values
fall into, whose chances are known exactly, up to what so many reference rows cannot tell. A bet
against "nothing has changed" is a martingale: with the chances :math:`P_0` of what came, and
:math:`P_k` of it had one of K things happened, such as a shift by half a standard deviation or a
sensor that is stuck,

.. math:: E_t = \sum_k \sum_\tau \pi_{k \tau} \prod_{s = \tau}^t \frac{P_k^{(s)}}{P_0^{(s)}},
    \qquad \sum_{k, \tau} \pi_{k \tau} = 1, \qquad P(\exists t: E_t \ge 1/\alpha) \le \alpha

by Ville's inequality: over any length of time. There is a stake on every time :math:`\tau` of the
change, so that a stream that was calm for long is watched as keenly as a new one, or nearly so.
"""

from lpfuse.monitor._counts import StreamCounts
from lpfuse.monitor._monitor import DriftMonitor
from lpfuse.monitor._status import Drift, DriftStatus

__all__ = ["Drift", "DriftMonitor", "DriftStatus", "StreamCounts"]
