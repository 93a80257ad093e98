"""
Would a plain sum do as well?
=============================

Often, yes. All ways to fuse have one interface in lpfuse, so that you can see them win or lose on
your own scores.
"""

# %%
# Five detectors: two good ones, a fair one, a useless one, and a copy of the useless one. Twenty
# anomalies are labelled.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import roc_auc_score

from lpfuse import FixedRule, LpFusion
from lpfuse.fusion import BestSingle, DecisionTemplates, LogisticStacker, SwarmWeights

rng = np.random.default_rng(0)


def scores(n_normal, n_anomalies):
    """Scores, high = normal, and the truth."""
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
    "swarm": SwarmWeights(random_state=0),
    "templates": DecisionTemplates(),
}
fresh, truth = scores(2000, 2000)
areas = {name: [] for name in rivals}
for _ in range(10):
    S, y = scores(300, 20)
    for name, rival in rivals.items():
        areas[name].append(roc_auc_score(truth, rival.fit(S, y).score_samples(fresh)))

# %%
# Each box is ten draws of training rows. With useless detectors in the pool, learnt weights pay; make
# them all equally good, and the sum is hard to beat:
figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
order = sorted(areas, key=lambda name: np.mean(areas[name]))
ax.boxplot([areas[name] for name in order], orientation="horizontal", tick_labels=order)
ax.set(xlabel="AUC on fresh rows")
plt.show()
