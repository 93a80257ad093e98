"""
I have only score files. Can I fuse them?
=========================================

Your detectors ran elsewhere, and each left a column of scores. Say what a high score means; nothing
is guessed, and scores may be missing.
"""

# %%
# A camera, whose scores are high for normal parts, and a microphone, whose are high for bad ones.
import warnings

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from lpfuse import FusedDetector
from lpfuse.adapters import ScoreColumn

rng = np.random.default_rng(0)


def parts(n_normal, n_bad):
    """Scores of both tools, and the truth."""
    y = np.repeat([1, -1], [n_normal, n_bad])
    camera = 1.2 * y + rng.normal(size=len(y))
    sound = np.exp(-0.4 * y + 0.8 * rng.normal(size=len(y)))
    return pd.DataFrame({"camera": camera, "sound": sound}), y


table, y = parts(400, 25)
tools = [
    ("camera", ScoreColumn(high="normal"), "camera"),
    ("sound", ScoreColumn(high="anomaly"), "sound"),
]
fused = FusedDetector(tools, cv="prefit", random_state=0).fit(table, y)
for name, weight in zip(fused.detector_names_, fused.weights_, strict=True):
    print(f"{weight:.2f}  {name}")

# %%
# What the fusion makes of every pair of scores; the white line is the threshold:
camera, sound = np.meshgrid(np.linspace(-4, 4, 150), np.linspace(0, 8, 150))
grid = pd.DataFrame({"camera": camera.ravel(), "sound": sound.ravel()})
margin = fused.decision_function(grid).reshape(camera.shape)
figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
shown = ax.contourf(camera, sound, margin, 20, cmap="coolwarm_r", vmin=-1, vmax=1)
ax.contour(camera, sound, margin, [0], colors="white")
ax.scatter(*table[y == 1].to_numpy().T, s=5, color="black", label="normal")
ax.scatter(*table[y == -1].to_numpy().T, s=20, color="gold", edgecolor="black", label="bad")
ax.legend(loc="upper right")
ax.set(
    title="What two scores say together",
    xlabel="camera: high = normal",
    ylabel="sound: high = bad",
    xlim=(-4, 4),
    ylim=(0, 8),
)
figure.colorbar(shown, label="score minus threshold")
plt.show()

# %%
# Today the camera failed for one part. The microphone decides, against a threshold of its own, and
# you are told:
today = pd.DataFrame({"camera": [2.0, np.nan], "sound": [0.5, 9.0]})
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    print(fused.predict(today))
print(told[0].message)
