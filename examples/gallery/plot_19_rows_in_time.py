"""
Is this row unlike the rows before it?
======================================

Rows of a machine come in time order, and normal changes slowly. With ``time=`` or
``order="time"``, :class:`lpfuse.FusedDetector` sees windows of the last rows, and its p-values
follow slow changes.
"""

# %%
# Four sensors that remember the row before, and warm up for days. The last 400 rows of the
# healthy start are followed by 3,000 others, with two faults: an unsteady flow, and a jump.
import matplotlib.pyplot as plt
import numpy as np

from lpfuse import FusedDetector
from lpfuse.time import alarm_episodes

rng = np.random.default_rng(0)
rows = rng.normal(size=(3400, 4))
for t in range(1, len(rows)):
    rows[t] = 0.7 * rows[t - 1] + 0.7 * rows[t]
rows += 2 * np.linspace(0, 1, len(rows))[:, None]
rows[1400:1440, 1] += 3 * rng.normal(size=40)
rows[2600:2640, 2] -= 6
start, later = rows[:400], rows[400:]

# %%
# One fit, two questions. The fixed level asks whether a row is unlike the training rows, the
# adaptive one whether it is unlike the training rows and the last rows.
fused = FusedDetector(random_state=0).fit(start, order="time")
pvalues = {level: fused.pvalues(later, level=level) for level in ("fixed", "adaptive")}
print(fused.calibration_promise_.sentence())
calm = [*range(1000), *range(1100, 2200), *range(2300, 3000)]
for level, p in pvalues.items():
    print(f"{level}: {np.mean(p[calm] <= 0.05):.0%} of calm rows")

# %%
# Alarms that belong together are one episode. Where few shall be told, ask for p-values of 1 %:
episodes = alarm_episodes(pvalues["adaptive"], 0.01)
for each in episodes:
    print(f"rows {each.start} to {each.end}: {each.n_alarms} alarms, p = {each.pvalue:.2g}")

# %%
# The warm-up is an alarm without end by the fixed level. The adaptive level follows it, and shows
# the faults:
figure, axes = plt.subplots(2, 1, figsize=(8, 4.5), sharex=True, layout="constrained")
for ax, (level, p) in zip(axes, pvalues.items(), strict=True):
    for first, end in ((1000, 1040), (2200, 2240)):
        ax.axvspan(first, end, color="0.85", lw=0)
    ax.plot(-np.log10(p), lw=0.8)
    ax.axhline(-np.log10(0.05), color="gray", ls="--", lw=1)
    ax.set(ylabel="−log₁₀ p", title=f"{level} level: faults are grey, 5 % is dashed")
axes[1].plot([each.start for each in episodes], [0.1] * len(episodes), "^", color="tab:red")
axes[1].set(xlabel="row after the training rows; triangles: an episode begins")
plt.show()
