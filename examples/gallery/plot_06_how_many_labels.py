"""
How many anomalies must I label?
================================

Two may be too few, five help, and more help more. The same rows with 0 to 20 labelled anomalies,
ten times each, and what the fused detector makes of them.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import StandardScaler

from lpfuse import FusedDetector, GMMDetector, KernelPCADetector, KNNDetector

X, benign = load_breast_cancer(return_X_y=True)
X = StandardScaler().fit_transform(X)
normal, anomalies = X[benign == 1], X[benign == 0]

# %%
# Each detector sees two columns of its own, so that some know much and others little.
makers = [GMMDetector(), KernelPCADetector(), KNNDetector()]
detectors = [
    (f"columns {first} and {first + 1}", makers[i % 3], [first, first + 1])
    for i, first in enumerate(range(0, 30, 2))
]


def area(n_labels, seed):
    """AUC on rows that took no part, with so many labelled anomalies."""
    rng = np.random.default_rng(seed)
    n, a = rng.permutation(normal), rng.permutation(anomalies)
    train, y = np.concatenate([n[:200], a[:n_labels]]), np.repeat([1, -1], [200, n_labels])
    fused = FusedDetector(detectors, cv=3, calibration="plain", random_state=0).fit(train, y)
    test, truth = np.concatenate([n[200:], a[20:]]), np.repeat([1, -1], [157, 192])
    plain = fused.scaler_.transform(fused.detector_scores(test)).sum(axis=1)
    return roc_auc_score(truth, fused.score_samples(test)), roc_auc_score(truth, plain)


labels = [0, 2, 5, 10, 20]
areas = np.array([[area(n, seed) for seed in range(10)] for n in labels])

# %%
# Each point is a draw of rows, the lines are means:
figure, ax = plt.subplots(figsize=(6, 3.5), layout="constrained")
for column, (name, colour) in enumerate([("learnt weights", "tab:blue"), ("plain sum", "gray")]):
    ax.plot(labels, areas[:, :, column], "o", color=colour, ms=3, alpha=0.6)
    ax.plot(labels, areas[:, :, column].mean(axis=1), color=colour, label=name)
ax.set(title="What labels bring", xlabel="labelled anomalies", ylabel="AUC on fresh rows")
ax.legend()
plt.show()
