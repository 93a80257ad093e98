"""
A thousand rows, a hundred alarms: which are real?
==================================================

Of ten thousand normal rows 500 fall below a 5 % threshold.
:func:`lpfuse.threshold.control_false_discoveries` chooses the rows of a batch so that the share of
false ones among the chosen is bounded instead.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

from lpfuse import FusedDetector, GMMDetector, KernelPCADetector
from lpfuse.threshold import control_false_discoveries

rng = np.random.default_rng(1)
detectors = [("gmm", GMMDetector()), ("kpca", KernelPCADetector())]
fused = FusedDetector(detectors, calibration="split", random_state=0)
fused.fit(rng.normal(size=(3000, 3)))

batch = np.concatenate([rng.normal(size=(950, 3)), rng.normal(4, 1, size=(50, 3))])
is_anomaly = np.repeat([False, True], [950, 50])
pvalues = fused.pvalues(batch)

# %%
# The smaller the rate, the fewer are chosen, and the more of these are real:
rates = np.array([0.05, 0.1, 0.2, 0.3, 0.5])
chosen = [control_false_discoveries(pvalues, rate=rate) for rate in rates]
chosen.append(pvalues <= 0.05)
right = np.array([(c & is_anomaly).sum() for c in chosen])
wrong = np.array([(c & ~is_anomaly).sum() for c in chosen])

figure, ax = plt.subplots(figsize=(7, 3.5), layout="constrained")
names = [f"rate {rate:g}" for rate in rates] + ["p-value\n≤ 0.05"]
ax.bar(names, right, color="tab:blue", label="anomalies")
ax.bar(names, wrong, bottom=right, color="tab:orange", label="normal rows")
ax.axhline(50, color="gray", ls="--", lw=1)
ax.set(
    title="Anomalies and false ones among the rows chosen",
    ylabel="rows chosen; 50 anomalies in all",
)
ax.legend(loc="upper left")
plt.show()
