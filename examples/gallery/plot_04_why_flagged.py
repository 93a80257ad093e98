"""
Why was this row flagged?
=========================

An alarm is of use to someone who knows where to look. Two questions have two answers: which
*detectors* found the row strange, and which *columns* made them do so.
"""

# %%
# Benign tumours are normal; ten columns are enough here.
import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer

from lpfuse import FusedDetector
from lpfuse.plots import AttributionsDisplay, ContributionsDisplay

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
X = X.iloc[:, :10]
benign, malignant = X[y == 1], X[y == 0]
fused = FusedDetector(random_state=0).fit(benign[:300])

# %%
# **Which detectors.** Contributions add up to the score. The strangest malignant rows, and what
# each detector took from them:
ContributionsDisplay.from_estimator(fused, malignant, max_rows=6)
plt.show()

# %%
# **Which columns.** Shapley values of the score, with two standard errors to either side. Values
# below zero speak for an anomaly:
strangest = malignant.iloc[[fused.score_samples(malignant).argmin()]]
why = fused.explain(strangest, random_state=0)
AttributionsDisplay.from_explanation(why)
plt.show()

# %%
# The same in words, the columns that pushed the score down beyond doubt, the first one first:
print(why.reasons(0))
