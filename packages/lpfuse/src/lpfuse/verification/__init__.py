"""Certificates checked by code that shares nothing with what wrote them.

`lpfuse.optim` finds weights and certifies them. This package knows nothing of it, and the contracts
of imports keep it so: it states the problem anew, and recomputes both sides of the certificate in
rational numbers, or with compensated sums.

>>> import numpy as np
>>> from lpfuse import LpFusion, verify
>>> S = np.random.default_rng(0).normal([1.0, 0.5], 0.5, size=(200, 2))
>>> verify(LpFusion().fit(S), S).holds
True
"""

from lpfuse.verification.claims import Verification, verify

__all__ = ["Verification", "verify"]
