"""
How do I know that the weights are optimal?
===========================================

You compute it. A certificate holds a number that no allowed weights can go below, and all that is
needed to compute that number again. The paper's algorithm, beside it, stops far from the optimum.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

from lpfuse import LpFusion
from lpfuse.optim import Problem, solve

rng = np.random.default_rng(7)
y = np.where(rng.random(400) < 0.1, -1, 1)
S = y[:, None] * [0.8, 0.5, 0.3, 0.1] + rng.normal(0, 0.6, (400, 4))
fusion = LpFusion(p=2).fit(S, y)
print(fusion.certificate_)

# %%
# **Check it.** For any α between 0 and 1 the lower side holds, whatever the solver did; q = 2, for
# p = 2.
w, alpha = fusion.weights_, fusion.certificate_.alpha
upper = np.maximum(0, 1 - y * (S @ w)).sum()
lower = alpha.sum() - np.linalg.norm((alpha * y) @ S, 2)
print(f"{lower:.9f} ≤ optimum ≤ {upper:.9f}")

# %%
# **Beside the paper's algorithm.** Frank–Wolfe as printed, for more and more steps, against the
# certified solver. The curve is what the certificate proves after so many steps:
problem = Problem(S, y, p=2.0)
best = solve(problem).certificate
steps = [3, 10, 30, 100, 300, 1000, 3000]
gaps = []
for limit in steps:
    theirs = solve(problem, solver="frank-wolfe", tol=1e-12, max_iter=limit).certificate
    gaps.append((theirs.primal - best.primal) / best.primal)

figure, ax = plt.subplots(figsize=(6, 3.5), layout="constrained")
ax.loglog(steps, gaps, "o-", label="Frank–Wolfe, as published")
ax.axhline(best.relative_gap, color="tab:green", label="certified solver: proven gap")
ax.set(
    title="How close to the optimum, after so many steps",
    xlabel="steps",
    ylabel="relative distance to the optimum",
)
ax.legend()
plt.show()
