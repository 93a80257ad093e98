"""
What does p do?
===============

One number sets the character of a fusion: p = 1 keeps few detectors, p = ∞ keeps them all.
:func:`lpfuse.lp_path` solves a whole grid of p at once.
"""

# %%
# Six detectors, from good to useless, and forty known anomalies among four hundred rows. Scores are
# made up, high = normal.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import roc_auc_score

from lpfuse import lp_path
from lpfuse.plots import PathDisplay

rng = np.random.default_rng(0)
quality = np.array([1.0, 0.8, 0.6, 0.4, 0.2, 0.0])


def scores(n_normal, n_anomalies):
    """Scores of the six, and the truth."""
    y = np.repeat([1, -1], [n_normal, n_anomalies])
    return 0.4 * (y[:, None] * quality + rng.normal(size=(len(y), 6))), y


S, y = scores(360, 40)
path = lp_path(S, y, ps=[1, 1.1, 1.25, 1.5, 2, 3, 5, 10, float("inf")], class_weight="balanced")

# %%
# Each line is a detector. To the left only the best have a say; to the right all speak, as far as
# the data allow:
names = [f"quality {value}" for value in quality]
PathDisplay.from_path(path, names=names)
plt.show()

# %%
# Every one of these solutions is proven:
print("largest relative gap:", max(c.relative_gap for c in path.certificates))

# %%
# Which p is best is a question to fresh rows, not to taste. Here the middle does well, for five of
# six detectors know something, and not the same:
fresh, truth = scores(2000, 2000)
areas = [roc_auc_score(truth, fresh @ weights) for weights in path.weights]
figure, ax = plt.subplots(figsize=(6, 3), layout="constrained")
ax.plot(range(len(areas)), areas, "o-")
ax.axhline(roc_auc_score(truth, fresh.sum(axis=1)), color="gray", ls="--", label="plain sum")
ax.set_xticks(range(len(areas)), [f"{p:g}" for p in path.ps])
ax.set(
    title="Fresh rows tell which p is best",
    xlabel="p",
    ylabel="AUC on fresh rows",
)
ax.legend()
plt.show()
