"""
A detector goes blind. Do the weights notice?
=============================================

Labels come late and one by one, and what was right last month is wrong today. Weights that are
fitted to the last rows every so often notice; weights of the first month do not.
"""

# %%
# Three detectors. The first is the best, until its sensor breaks at row 1,000; from then on the
# second one is. One row in ten is an anomaly, and every label is told after the row was scored.
import matplotlib.pyplot as plt
import numpy as np

from lpfuse import LpFusion

rng = np.random.default_rng(0)
n, window, every = 2000, 300, 25
y = np.where(rng.random(n) < 0.1, -1, 1)
use = np.where(np.arange(n)[:, None] < n // 2, [0.9, 0.3, 0.2], [0.0, 0.9, 0.2])
S = y[:, None] * use + rng.normal(scale=0.5, size=(n, 3))

# %%
# The fixed weights are fitted to the first rows. The others are fitted to the last 300 rows, every
# 25 rows; each row is scored before its label is used:
fixed = LpFusion(p=2, class_weight="balanced", nonnegative=True).fit(S[:window], y[:window])
moving = fixed
weights, losses = [], []
for t in range(window, n):
    if t % every == 0:
        moving = LpFusion(p=2, class_weight="balanced", nonnegative=True)
        moving.fit(S[t - window : t], y[t - window : t])
    weights.append(moving.weights_)
    candidates = np.stack([moving.weights_, fixed.weights_, np.full(3, 3**-0.5)])
    cost = 1.0 if y[t] < 0 else 1 / 9  # both classes count alike
    losses.append(cost * np.maximum(0, 1 - y[t] * candidates @ S[t]))

# %%
# The weights move as the window fills with rows from after the change:
at = np.arange(window, n)
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
left.plot(at, weights, label=["first detector", "second", "third"])
left.axvline(n // 2, color="0.7", ls=":")
left.set(xlabel="row", ylabel="weight", title="Weights of the last 300 rows")
left.legend(frameon=False)
right.plot(at, np.cumsum(losses, axis=0), label=["window", "fitted at the start", "average"])
right.axvline(n // 2, color="0.7", ls=":")
right.set(xlabel="row", ylabel="loss so far", title="What they cost")
right.legend(frameon=False)
plt.show()

# %%
# Each fit comes with a certificate for its window:
print(moving.certificate_.status, moving.weights_.round(2))
