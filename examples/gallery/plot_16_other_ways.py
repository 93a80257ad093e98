"""
Would a plain sum do as well?
=============================

Often, yes. All ways to fuse have one interface in lpfuse, so that you can see them win or lose on
your own scores.
"""

# %%
# Two pools of five detectors, with twenty labelled anomalies each. In the first all are equally
# good; in the second two are good, one is fair, one is useless, and one a copy of the useless one.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import roc_auc_score

from lpfuse import FixedRule, LpFusion
from lpfuse.fusion import BestSingle, LogisticStacker

rng = np.random.default_rng(0)


def alike(n_normal, n_anomalies):
    """Scores of five detectors that are equally good, high = normal, and the truth."""
    y = np.repeat([1, -1], [n_normal, n_anomalies])
    return (0.6 * y[:, None] + rng.normal(size=(len(y), 5))) / 3, y


def mixed(n_normal, n_anomalies):
    """The same of good, fair and useless ones."""
    y = np.repeat([1, -1], [n_normal, n_anomalies])
    S = y[:, None] * [0.9, 0.8, 0.5, 0.0, 0.0] + rng.normal(size=(len(y), 5))
    S[:, 4] = S[:, 3] + 0.1 * rng.normal(size=len(y))
    return S / 3, y


rivals = {
    "LpFusion(p=2)": LpFusion(p=2, class_weight="balanced", nonnegative=True),
    "sum": FixedRule("sum"),
    "median": FixedRule("median"),
    "min": FixedRule("min"),
    "vote": FixedRule("vote"),
    "best single": BestSingle(),
    "logistic stacker": LogisticStacker(),
}


def areas(scores):
    """AUC of every rival on fresh rows, for ten draws of training rows."""
    fresh, truth = scores(2000, 2000)
    draws = [scores(300, 20) for _ in range(10)]
    return [
        [roc_auc_score(truth, rival.fit(*draw).score_samples(fresh)) for draw in draws]
        for rival in rivals.values()
    ]


# %%
# Where all are alike nothing beats the sum. With useless ones in the pool, learnt weights pay:
figure, axes = plt.subplots(1, 2, figsize=(9, 4), layout="constrained", sharey=True)
for ax, scores, title in zip(axes, (alike, mixed), ("equally good", "some useless"), strict=True):
    ax.boxplot(areas(scores), orientation="horizontal", tick_labels=list(rivals))
    ax.set(title=title, xlabel="AUC on fresh rows")
axes[0].invert_yaxis()
plt.show()
