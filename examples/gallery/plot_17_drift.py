"""
Have my rows changed since the model was fitted?
================================================

A model that was right in May may be wrong in June. :class:`lpfuse.monitor.DriftMonitor` says when
rows stop being like those before, and which column moved; a false alarm, ever, has at most the
probability that you chose.
"""

# %%
# Four sensors. After 3,000 rows the second one is replaced, and reads a little higher.
import matplotlib.pyplot as plt
import numpy as np

from lpfuse import FusedDetector
from lpfuse.monitor import DriftMonitor

rng = np.random.default_rng(0)
names = ["bar", "flow", "heat", "noise"]
fused = FusedDetector(["gmm", "histogram"], random_state=0).fit(rng.normal(size=(3000, 4)))
rows = rng.normal(size=(4000, 4))
rows[3000:, 1] += 0.5

# %%
# Batches of fifty rows. The monitor keeps a few kilobytes, however long the stream is.
monitor = DriftMonitor(level=0.01).fit(fused, column_names=names)
evidence = []
for batch in np.split(rows, 80):
    status = monitor.update(batch, fused.verdicts(batch))
    evidence.append(status.evidence)
print(status.sentence())

# %%
# Evidence is what betting against "nothing has changed" would have won. It falls while nothing
# happens, and grows by a constant factor with every row once something has:
figure, ax = plt.subplots(figsize=(7, 3.5), layout="constrained")
after = np.arange(50, 4001, 50)
for stream in evidence[0]:
    moved = stream == status.drifts[0].stream
    style = {"lw": 2, "label": stream} if moved else {"lw": 0.8, "color": "0.7"}
    ax.plot(after, [each[stream] for each in evidence], **style)
ax.axhline(2, color="gray", ls="--", lw=1)
ax.text(0, 2.2, "declared: once in a hundred streams, at most, that never change", fontsize=8)
ax.set(xlabel="row", ylabel="evidence, as a power of ten", title="Evidence that rows have changed")
ax.legend(loc="upper left", bbox_to_anchor=(0, 0.8))
plt.show()

# %%
# If the new rows are fine, move the threshold to them. Detectors and weights stay:
new = rng.normal(size=(3000, 4))
new[:, 1] += 0.5
before = np.mean(fused.predict(new[2000:]) < 0)
fused.recalibrate(new[:2000])
print(f"alarms: {before:.1%} before, {np.mean(fused.predict(new[2000:]) < 0):.1%} after")
