"""
Rows never end. How do I keep alarms trustworthy?
=================================================

A fixed threshold raises false alarms for ever, at the rate that you chose. Where each alarm costs a
visit, it is the share of false ones *among the alarms* that should be bounded:
:class:`lpfuse.threshold.OnlineDiscoveries` does that over all batches so far.
"""

# %%
# 300 batches of twenty rows. One row in twenty is an anomaly.
import matplotlib.pyplot as plt
import numpy as np

from lpfuse import FusedDetector, GMMDetector, HistogramDetector
from lpfuse.threshold import OnlineDiscoveries

rng = np.random.default_rng(0)
detectors = [("gmm", GMMDetector()), ("histogram", HistogramDetector())]
fused = FusedDetector(detectors, calibration="split", random_state=0)
fused.fit(rng.normal(size=(15_000, 3)))

is_anomaly = rng.random((300, 20)) < 0.05
batches = rng.normal(size=(300, 20, 3)) + 3 * is_anomaly[:, :, None]

# %%
# Decisions are made batch by batch, and never taken back:
stream = OnlineDiscoveries(rate=0.1)
pvalues = np.array([fused.pvalues(batch) for batch in batches])
declared = np.array([stream.update(batch) for batch in pvalues])
flagged = pvalues <= 0.05

# %%
# The share of false alarms among all so far:
figure, ax = plt.subplots(figsize=(7, 3.5), layout="constrained")
for name, alarms in {"threshold of 5 %": flagged, "OnlineDiscoveries(rate=0.1)": declared}.items():
    false, total = (np.cumsum(a.sum(axis=1)) for a in (alarms & ~is_anomaly, alarms))
    ax.plot(false / np.maximum(total, 1), label=f"{name}: {total[-1]} alarms")
ax.axhline(0.1, color="gray", ls="--", lw=1)
ax.set(
    title="False alarms so far, batch by batch",
    xlabel="batch",
    ylabel="share of alarms that are false",
    ylim=(0, 1),
)
ax.legend()
plt.show()
print(f"anomalies found: {declared[is_anomaly].mean():.0%} of {is_anomaly.sum()}")
