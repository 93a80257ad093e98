"""
What does a fused detector see?
===============================

Two columns can be looked at. Four detectors draw four borders around the same rows; the fused one
draws one, and says how strange each place is.
"""

# %%
# Two half moons of normal rows, and a dozen known anomalies between them.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons
from sklearn.ensemble import IsolationForest

from lpfuse import SVDD, FusedDetector, GMMDetector, KNNDetector

rng = np.random.default_rng(0)
normal, _ = make_moons(300, noise=0.08, random_state=0)
known = rng.normal([0.5, 0.25], [0.35, 0.1], size=(12, 2))
X, y = np.concatenate([normal, known]), np.repeat([1, -1], [300, 12])

detectors = [
    ("forest", IsolationForest(random_state=0)),
    ("mixture", GMMDetector()),
    ("SVDD", SVDD(nu=0.05)),
    ("neighbours", KNNDetector()),
]
fused = FusedDetector(detectors, random_state=0).fit(X, y)

# %%
# Blue is normal, red is strange; the line is where one in twenty normal rows would be flagged.
a, b = np.meshgrid(np.linspace(-1.7, 2.7, 90), np.linspace(-1.2, 1.7, 70))
places = np.column_stack([a.ravel(), b.ravel()])
columns = [*fused.detector_scores(places).T, fused.score_samples(places)]
lines = [*np.quantile(fused.detector_scores(normal), 0.05, axis=0), fused.offset_]
names = [
    f"{name}, weight {weight:.2f}"
    for name, weight in zip(fused.detector_names_, fused.weights_, strict=True)
]

figure, axes = plt.subplots(2, 3, figsize=(9, 5), layout="constrained")
for ax, scores, line, name in zip(axes.flat, columns, lines, [*names, "fused"], strict=False):
    rank = np.searchsorted(np.sort(scores), scores).reshape(a.shape)
    ax.contourf(a, b, rank, 12, cmap="coolwarm_r", alpha=0.8)
    ax.contour(a, b, scores.reshape(a.shape), [line], colors="black")
    ax.scatter(*normal.T, s=3, color="white")
    ax.scatter(*known.T, s=14, color="black", marker="x")
    ax.set_title(name)
    ax.set_axis_off()
axes[1, 2].set_axis_off()
axes[1, 2].text(0, 0.5, "white: normal rows\n×: known anomalies\nline: threshold")
plt.show()
