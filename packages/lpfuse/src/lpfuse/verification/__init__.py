"""Certificates checked by code that imports nothing of what wrote them.

`lpfuse.optim` finds weights and certifies them. This package states the problem anew, and
recomputes both sides of the certificate in rational numbers, or with compensated sums; the
contracts of imports keep the two apart. What both use checks and converts the input, or writes
messages, and computes no figure of a proof:

- `check_scores` and `column_names` of `lpfuse._validation.tables`,
- `check_labels` and `check_sample_weight` of `lpfuse._validation.params`,
- `is_blocked`, `is_numpy` and `to_host` of `lpfuse._arrays.operations`,
- `number` and `quote` of `lpfuse._format`.

The scale of a `FusedDetector` is recomputed by a new fit of its own class. A test compares this
list with the imports.

>>> import numpy as np
>>> from lpfuse import LpFusion, verify
>>> S = np.random.default_rng(0).normal([1.0, 0.5], 0.5, size=(200, 2))
>>> verify(LpFusion().fit(S), S).holds
True
"""

from lpfuse.verification.claims import Verification, verify

__all__ = ["Verification", "verify"]
