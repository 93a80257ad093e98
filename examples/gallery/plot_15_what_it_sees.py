"""
What does a fused detector see?
===============================

Two columns can be looked at. Four detectors draw four borders around the same rows; the fused one
draws one, and known anomalies tell it whose border to follow.
"""

# %%
# Two half moons of normal rows, and a dozen known anomalies between them.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons
from sklearn.ensemble import IsolationForest

from lpfuse import SVDD, FusedDetector, GMMDetector, KernelPCADetector

rng = np.random.default_rng(0)
normal, _ = make_moons(300, noise=0.08, random_state=0)
known = rng.normal([0.5, 0.25], [0.35, 0.1], size=(12, 2))
X, y = np.concatenate([normal, known]), np.repeat([1, -1], [300, 12])

detectors = [
    ("forest", IsolationForest(random_state=0)),
    ("mixture", GMMDetector()),
    ("SVDD", SVDD(nu=0.05)),
    ("kernel PCA", KernelPCADetector()),
]
plain = FusedDetector(detectors, random_state=0).fit(normal)
taught = FusedDetector(detectors, random_state=0).fit(X, y)

# %%
# Blue is normal, red is strange; the line is where one in twenty normal rows would be flagged. From
# normal rows alone nothing tells who is right, and the detector that sees the space between the
# moons weighs little. The known anomalies speak for it:
a, b = np.meshgrid(np.linspace(-1.7, 2.7, 90), np.linspace(-1.2, 1.7, 70))
places = np.column_stack([a.ravel(), b.ravel()])
fused = (plain.score_samples(places), taught.score_samples(places))
columns = [*plain.detector_scores(places).T, *fused]
lines = np.quantile(plain.detector_scores(normal), 0.05, axis=0)
lines = [*lines, plain.offset_, taught.offset_]
names = [*plain.detector_names_, "fused, normal rows alone", "fused, with known anomalies"]

figure, axes = plt.subplots(2, 3, figsize=(9, 5), layout="constrained")
for ax, scores, line, name in zip(axes.flat, columns, lines, names, strict=True):
    rank = np.searchsorted(np.sort(scores), scores).reshape(a.shape)
    ax.contourf(a, b, rank, 12, cmap="coolwarm_r", alpha=0.8)
    ax.contour(a, b, scores.reshape(a.shape), [line], colors="black", linestyles="solid")
    ax.scatter(*normal.T, s=3, color="white")
    ax.scatter(*known.T, s=14, color="black", marker="x")
    ax.set_title(name, fontsize=10)
    ax.set_axis_off()
plt.show()

# %%
for name, *weights in zip(taught.detector_names_, plain.weights_, taught.weights_, strict=True):
    print(f"{weights[0]:.2f} → {weights[1]:.2f}  {name}")
