"""
How many false alarms will I get?
=================================

You ask for a rate, and the threshold is set by normal rows that nothing behind the score has seen.
So the rate holds on new rows, whatever the detectors are worth.
"""

# %%
# Healthy machines run in one of two ways; 600 of them teach, 4,000 new ones judge.
import matplotlib.pyplot as plt
import numpy as np

from lpfuse import FusedDetector, GMMDetector, KernelPCADetector, KNNDetector
from lpfuse.threshold import calibration_promise

rng = np.random.default_rng(0)


def healthy(n):
    """Rows of four columns, around two places."""
    return rng.choice([-2.0, 2.0], size=(n, 1)) + rng.normal(size=(n, 4))


detectors = [("gmm", GMMDetector()), ("kpca", KernelPCADetector()), ("knn", KNNDetector())]
fused = FusedDetector(detectors, random_state=0).fit(healthy(600))
new = healthy(4000)

# %%
# A p-value says how strange a row is on a scale that means the same for all detectors: a row is
# flagged at the rate α where its p-value is at most α. One fit serves every rate:
pvalues = fused.pvalues(new)
rates = np.linspace(0.01, 0.2, 20)
found = [(pvalues <= rate).mean() for rate in rates]
promised = [calibration_promise(600, rate, out_of_fold=True) for rate in rates]
print(promised[4].sentence())

# %%
# What was asked for, and what came:
figure, ax = plt.subplots(figsize=(5, 4), layout="constrained")
ax.plot(rates, rates, color="gray", ls="--", label="asked for")
ax.plot(rates, found, "o-", ms=4, label="measured on 4,000 new rows")
ax.set(
    title="False alarms asked for, and got",
    xlabel="false-alarm rate asked for",
    ylabel="share of normal rows flagged",
)
ax.legend()
plt.show()

# %%
# The price of a low rate is anomalies that are missed. Broken machines do something in between:
broken = fused.pvalues(rng.normal(scale=1.5, size=(2000, 4)))
figure, ax = plt.subplots(figsize=(5, 4), layout="constrained")
ax.plot(rates, [(broken <= rate).mean() for rate in rates], "o-", ms=4, color="tab:red")
ax.set(
    title="What each rate finds",
    xlabel="false-alarm rate asked for",
    ylabel="share of broken machines found",
    ylim=(0, 1),
)
plt.show()
