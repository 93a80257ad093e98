"""
Does a saved model give the same verdicts, without Python too?
==============================================================

``fused.save`` writes a file that holds no pickle, and :func:`lpfuse.load` reads it.
:func:`lpfuse.onnx_export.to_onnx` writes the whole scorer for onnxruntime, which runs in other
languages as well.
"""

# %%
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import onnxruntime
from sklearn.datasets import load_wine
from sklearn.ensemble import IsolationForest

import lpfuse
from lpfuse import FusedDetector, GMMDetector
from lpfuse.onnx_export import to_onnx

X, kind = load_wine(return_X_y=True)
detectors = [("forest", IsolationForest(n_estimators=50)), ("mixture", GMMDetector())]
fused = FusedDetector(detectors, random_state=0).fit(X[kind == 1])

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "wine.lpfuse"
    fused.save(path)
    loaded = lpfuse.load(path)
    print(f"{path.stat().st_size / 1024:.0f} KiB")

session = onnxruntime.InferenceSession(to_onnx(fused).SerializeToString())
(other,) = session.run(["scores"], {"X": X})

# %%
# The file gives the same scores to the last digit; onnxruntime the same but for rounding:
ours = fused.score_samples(X)
print("file:", np.abs(loaded.score_samples(X) - ours).max())
print("ONNX:", np.abs(other.ravel() - ours).max())

figure, ax = plt.subplots(figsize=(4.5, 4.5), layout="constrained")
for label, name in enumerate(load_wine().target_names):
    ax.scatter(ours[kind == label], other.ravel()[kind == label], s=12, label=name)
ax.axline((0, 0), slope=1, color="gray", lw=0.8)
ax.axvline(fused.offset_, color="gray", ls="--", lw=0.8)
ax.set(title="One score, two programs", xlabel="score in Python", ylabel="score by onnxruntime")
ax.legend(title="dashed: threshold")
plt.show()
