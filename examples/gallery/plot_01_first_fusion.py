"""
Which of my detectors should I trust?
=====================================

You run several detectors, and they disagree. :class:`lpfuse.FusedDetector` learns how far to trust
each, from the rows and the few anomalies that you know, and proves that its weights are optimal.
"""

# %%
# One class of scikit-learn's wines is normal, the others are not. Half of the rows teach.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.neighbors import LocalOutlierFactor

from lpfuse import FusedDetector, GMMDetector, KernelPCADetector
from lpfuse.plots import WeightsDisplay

X, kind = load_wine(return_X_y=True)
y = np.where(kind == 1, 1, -1)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0, stratify=y, test_size=0.5)

# %%
# Four detectors of three makers, two of which see a part of the columns only.
detectors = [
    ("forest", IsolationForest(random_state=0)),
    ("neighbours", LocalOutlierFactor(novelty=True)),
    ("mixture of four columns", GMMDetector(), [0, 1, 2, 3]),
    ("kernel PCA of the others", KernelPCADetector(), list(range(4, 13))),
]
fused = FusedDetector(detectors, random_state=0).fit(X_train, y_train)
print(fused.certificate_)

# %%
# The weights, with the proof in words below them:
WeightsDisplay.from_estimator(fused)
plt.show()

# %%
# Does it pay? The area under the ROC curve of each detector, and of the fusion, on rows that nobody
# learnt from:
scores = fused.detector_scores(X_test)
areas = {
    name: roc_auc_score(y_test, s) for name, s in zip(fused.detector_names_, scores.T, strict=True)
}
areas["fused"] = roc_auc_score(y_test, fused.score_samples(X_test))
for name, area in areas.items():
    print(f"{area:.3f}  {name}")
