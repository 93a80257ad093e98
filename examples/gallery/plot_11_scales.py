"""
My detectors' scores are on different scales. What now?
=======================================================

A log-likelihood of −4,000 and a distance of 0.3 cannot be added. A scaler brings scores onto one
scale, by thresholds learnt from normal rows: :class:`lpfuse.TwoSidedMinMax` onto about ±1,
:class:`lpfuse.TailScaler` onto one on which the loudest detector is heard.
"""

# %%
# Scores of two detectors, high = normal: 500 normal rows, ten anomalies that the first one sees,
# and ten that the second one sees.
import matplotlib.pyplot as plt
import numpy as np

from lpfuse import TailScaler, TwoSidedMinMax

rng = np.random.default_rng(0)
S = np.column_stack([-np.exp(rng.normal(5, 0.8, 520)), rng.normal(0.3, 0.02, 520)])
normal = S[:500]
S[500:510, 0] = -np.exp(rng.normal(8, 0.5, 10))
S[510:, 1] = rng.normal(0.2, 0.02, 10)
y = np.repeat([1, -1], [500, 20])

# %%
# ``clip=True`` cuts off what lies outside, "soft" bends it, so that the order stays; the last one
# goes on falling the stranger a row is:
scalers = {
    "as they come": None,
    "TwoSidedMinMax(clip=True)": TwoSidedMinMax(clip=True),
    "TwoSidedMinMax(clip='soft')": TwoSidedMinMax(clip="soft"),
    "TailScaler()": TailScaler(),
}
figure, axes = plt.subplots(2, 2, figsize=(8, 6), layout="constrained")
for ax, (name, scaler) in zip(axes.flat, scalers.items(), strict=True):
    scaled = S if scaler is None else scaler.fit(normal).transform(S)
    for label, colour in ((1, "tab:blue"), (-1, "tab:red")):
        ax.scatter(*scaled[y == label].T, s=8, color=colour, alpha=0.6)
    ax.set(title=name, xlabel="detector 1", ylabel="detector 2")
axes[0, 0].legend(["normal", "anomaly"])
plt.show()

# %%
# How many of the twenty anomalies are among the twenty lowest sums?
for name, scaler in scalers.items():
    scaled = S if scaler is None else scaler.fit(normal).transform(S)
    lowest = np.argsort(scaled.sum(axis=1))[:20]
    print(f"{(y[lowest] < 0).sum():3d}  {name}")
