"""
I use PyOD. What changes?
=========================

Nothing: its detectors go into a :class:`lpfuse.FusedDetector` as they are, and their sign is turned
for you. PyOD's scores are high for anomalies, lpfuse's are high for normal rows.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from pyod.models.hbos import HBOS
from pyod.models.knn import KNN
from pyod.models.lof import LOF
from sklearn.datasets import load_wine
from sklearn.metrics import roc_auc_score

from lpfuse import FusedDetector
from lpfuse.pyod import PyODFused

X, kind = load_wine(return_X_y=True)
rng = np.random.default_rng(0)
normal, others = rng.permutation(X[kind == 1]), rng.permutation(X[kind != 1])
train, y = np.concatenate([normal[:45], others[:10]]), np.repeat([1, -1], [45, 10])
test, truth = np.concatenate([normal[45:], others[10:]]), np.repeat([1, -1], [26, 97])

# %%
# **PyOD's detectors in lpfuse**, with ten known anomalies. (Detectors that score a row by what
# else is in its batch, such as COPOD, are refused by name: no threshold could hold for them.)
detectors = [("HBOS", HBOS()), ("KNN", KNN()), ("LOF", LOF())]
fused = FusedDetector(detectors, random_state=0).fit(train, y)
scores = fused.detector_scores(test)
areas = [roc_auc_score(truth, column) for column in scores.T]
areas.append(roc_auc_score(truth, fused.score_samples(test)))

figure, ax = plt.subplots(figsize=(6, 2.5), layout="constrained")
bars = ax.barh([*fused.detector_names_, "fused"], areas, color=["silver"] * 3 + ["tab:blue"])
ax.bar_label(bars, fmt="%.3f", padding=3)
ax.set(title="Detectors of PyOD, alone and fused", xlabel="AUC on fresh rows", xlim=(0.4, 1.08))
ax.invert_yaxis()
plt.show()

# %%
# **lpfuse in PyOD's words.** ``PyODFused`` has ``labels_`` of 0 and 1, ``decision_scores_`` and
# probabilities, and goes wherever a detector of PyOD goes:
clf = PyODFused(contamination=0.1, random_state=0).fit(train)
print(clf.labels_.sum(), "of", len(train), "training rows are outliers")
print(clf.predict_proba(test[:2]).round(3))
