"""
A detector goes blind. Do the weights notice?
=============================================

Labels come late and one by one, and what was right last month is wrong today.
:meth:`lpfuse.LpFusion.partial_fit` follows them, and bounds what can be lost by following: never
more than a constant to the average of the detectors, however long the stream.
"""

# %%
# Three detectors. The first is the best, until its sensor breaks at row 1,000; from then on the
# second one is. One row in ten is an anomaly, and every label is told after the row was scored.
import matplotlib.pyplot as plt
import numpy as np

from lpfuse import LpFusion

rng = np.random.default_rng(0)
n, start = 2000, 200
y = np.where(rng.random(n) < 0.1, -1, 1)
use = np.where(np.arange(n)[:, None] < n // 2, [0.9, 0.3, 0.2], [0.0, 0.9, 0.2])
S = y[:, None] * use + rng.normal(scale=0.5, size=(n, 3))

# %%
# The first call is a fit, and its weights are those that never change. Each row after it is scored
# first, and learnt from then:
fusion = LpFusion(p=2, class_weight="balanced", nonnegative=True).partial_fit(S[:start], y[:start])
fixed = fusion.weights_.copy()
weights, losses = [], []
for row, label in zip(S[start:], y[start:], strict=True):
    weights.append(fusion.weights_)
    cost = fusion.online_.row(row, label, 1.0).cost
    candidates = np.stack([fusion.weights_, fixed, np.full(3, 3**-0.5)])
    losses.append(cost * np.maximum(0, 1 - label * candidates @ row))
    fusion.partial_fit([row], [label])

# %%
# The weights move within a hundred rows or so, of which ten are anomalies:
at = np.arange(start, n)
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
left.plot(at, weights, label=["first detector", "second", "third"])
left.axvline(n // 2, color="0.7", ls=":")
left.set(xlabel="row", ylabel="weight", title="Weights in use")
left.legend(frameon=False)
right.plot(at, np.cumsum(losses, axis=0), label=["following", "fitted at the start", "average"])
right.axvline(n // 2, color="0.7", ls=":")
right.set(xlabel="row", ylabel="loss so far", title="What they cost")
right.legend(frameon=False)
plt.show()

# %%
# What is proven, beside what happened: the loss of the weights in use is at most that of the
# average plus the first number, and that of the best fixed weights plus the second, whatever rows
# had come.
online = fusion.online_
for name, bound in online.regret_bounds().items():
    print(f"regret to the {name}: at most {bound:.1f}")
print(f"loss of the weights in use {online.losses['used']:.1f}, of the average", end=" ")
print(f"{online.losses['average']:.1f}")
