"""
Nobody has looked at my rows. Where do I start?
===============================================

``fit`` takes rows that nobody looked at, ``query`` says which to look at, ``teach`` learns from the
answers, and ``audit_answers`` says from these alone how good the detector is.
"""

# %%
# Digits: threes are normal, and among 140 of them hide twelve eights. Nobody says which.
import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.metrics import roc_auc_score

from lpfuse import FusedDetector

digits = load_digits()
threes, eights = (digits.data[digits.target == kind] for kind in (3, 8))
pca = PCA(10, random_state=0).fit(digits.data)
pictures = np.concatenate([threes[:140], eights[:12]])
truth = np.repeat([1, -1], [140, 12])
X = pca.transform(pictures)

# Rows of one writer stand together in this set, and ``fit`` notices and warns: false alarms on
# other writers may exceed the rate. They take no part on this page.
warnings.filterwarnings("ignore", message="Consecutive rows resemble each other")
fused = FusedDetector(random_state=0).fit(X)

# %%
# **Ask.** Sixteen rows, most of them among the strangest, some from all rows alike. With each comes
# the chance with which it was asked: that is what lets sixteen answers speak for all rows.
rows, chances = fused.query(X, 16, explore=0.2, random_state=0, return_chances=True)
figure, axes = plt.subplots(2, 8, figsize=(8, 2.6), layout="constrained")
for ax, row, chance in zip(axes.flat, rows, chances, strict=True):
    ax.imshow(pictures[row].reshape(8, 8), cmap="gray_r")
    ax.set_title(f"{chance:.0%}", fontsize=8, color="tab:red" if truth[row] < 0 else "black")
    ax.axis("off")
figure.suptitle("What a person is asked, with the chance of asking; eights in red", fontsize=10)
plt.show()

# %%
# **Teach**, and look at digits that took no part:
test = np.concatenate([threes[140:], eights[12:]])
test_y = np.repeat([1, -1], [len(threes) - 140, len(eights) - 12])
test = pca.transform(test)
before = roc_auc_score(test_y, fused.score_samples(test))
taught = fused.teach(X[rows], truth[rows], chances=chances)
after = roc_auc_score(test_y, taught.score_samples(test))
print(f"AUC on other threes and eights: {before:.3f} before, {after:.3f} after 16 answers")

# %%
# **How good is it**, from the answers alone? The intervals tell how little sixteen answers say:
print(taught.audit_answers().summary())
