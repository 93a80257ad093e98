r"""One ℓp problem for the experts of all classes (ours): joint weights, with a certificate.

A profile holds scores :math:`s_{imj}` of row i under expert j of class m (`rivals.classes`). Class
k has the fused score :math:`f_k(x_i)`, which is linear in its weights :math:`w_k`:

.. math::

    \text{one weight an expert:} \quad & f_k(x_i) = \sum_j w_{kj} s_{ikj} \\
    \text{shared:} \quad & \text{the same with } w_{kj} = w_j \\
    \text{crossed:} \quad & f_k(x_i) = \sum_{mj} w_{kmj} s_{imj}

and the weights W of all classes minimise one of

.. math::

    \text{margins:} \quad & \sum_i c_i \sum_{k \ne y_i} \max(0, 1 - f_{y_i}(x_i) + f_k(x_i)) \\
    \text{one against all:} \quad & \sum_i c_i \sum_k \max(0, 1 - y_{ik} f_k(x_i))

over a ball, with :math:`y_{ik} = 1` for rows of class k, −1 for others. Every term is the hinge of
a linear function of W, so that the whole is a problem of `LpFusion` on other rows: in "margins" a
pair (i, k) gives a row with ``s_i`` in the block of its class and ``−s_i`` in that of k. The
certificate of `LpFusion` bounds the joint optimum.

The ball is that of ℓp over all weights, or of a group norm: a family is what an expert weighs in
all classes, or what a class gives its experts. With "one against all", p = ∞ over classes and q
within them, the problem falls apart into one of ℓq for each class.
"""

from __future__ import annotations

import warnings
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from lpfuse import LpFusion
from lpfuse._arrays.operations import Host
from lpfuse._validation.tables import DirectionWarning

__all__ = ["FORMS", "JointLp", "JointRows", "joint_rows"]

FORMS = ("margins", "shared margins", "crossed margins", "one against all")
Form = Literal["margins", "shared margins", "crossed margins", "one against all"]
Grouping = Literal["learners", "classes", "random"]


class JointRows(NamedTuple):
    """Rows of the joint problem.

    Attributes
    ----------
    scores : ndarray of shape (terms, K J); J if weights are shared, K K J if crossed
        The weights of a class are in consecutive columns, those of crossed experts by class.
    labels : ndarray of shape (terms,)
        The sign in the hinge.
    row : ndarray of shape (terms,)
        The row of the profile that each term is of.
    """

    scores: Host
    labels: Host
    row: NDArray[np.intp]


def joint_rows(profile: Host, labels: Host, form: Form = "margins") -> JointRows:
    """Write the terms of a joint objective as scores and labels of `LpFusion`.

    Parameters
    ----------
    profile : ndarray of shape (n, K, J)
        Scores, high = the row belongs to the class.
    labels : ndarray of shape (n,)
        The class of each row, from 0; −1: none of them. Such rows have no margins.
    form : {"margins", "shared margins", "crossed margins", "one against all"}
        The objective.

    Examples
    --------
    >>> import numpy as np
    >>> profile = np.array([[[1.0, 2.0], [3.0, 4.0]]])  # a row, two classes, two experts
    >>> joint_rows(profile, np.array([1])).scores
    array([[-1., -2.,  3.,  4.]])
    >>> joint_rows(profile, np.array([1]), "shared margins").scores
    array([[2., 2.]])
    >>> rows = joint_rows(profile, np.array([1]), "one against all")
    >>> rows.scores.tolist(), rows.labels.tolist()
    ([[1.0, 2.0, 0.0, 0.0], [0.0, 0.0, 3.0, 4.0]], [-1.0, 1.0])
    """
    profile = seen_by_classes(profile, form)
    n, classes, experts = profile.shape
    own = labels[:, None] == np.arange(classes)
    if form == "one against all":
        row, k = np.divmod(np.arange(n * classes), classes)
        blocks = np.zeros((n * classes, classes, experts))
        blocks[np.arange(n * classes), k] = profile[row, k]
        return JointRows(blocks.reshape(len(row), -1), np.where(own[row, k], 1.0, -1.0), row)
    row, other = np.nonzero(~own & own.any(axis=1)[:, None])
    ours, theirs = profile[row, labels[row]], profile[row, other]
    ones = np.ones(len(row))
    if form == "shared margins":
        return JointRows(ours - theirs, ones, row)
    blocks = np.zeros((len(row), classes, experts))
    blocks[np.arange(len(row)), labels[row]] = ours
    blocks[np.arange(len(row)), other] = -theirs
    return JointRows(blocks.reshape(len(row), -1), ones, row)


def seen_by_classes(profile: Host, form: Form) -> Host:
    """The scores that each class fuses: of its own experts, or of all of them."""
    if form != "crossed margins":
        return profile
    n, classes, experts = profile.shape
    return np.broadcast_to(profile.reshape(n, 1, -1), (n, classes, classes * experts))


class JointLp:
    """The class of the largest fused score, with weights of all classes from one problem.

    Parameters
    ----------
    form : {"margins", "shared margins", "crossed margins", "one against all"}
        The objective.
    groups : {None, "learners", "classes", "random"}
        Families of the norm: the weights of a learner in all classes (of an expert where experts
        are crossed), those of a class, or, as a control, those of learners dealt out at random.
        None, and where weights are shared: ℓp over all.
    seed : int
        Of random families.
    **parameters
        Those of `LpFusion`: p, q, radius, nonnegative, …

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> labels = np.arange(60) % 3
    >>> knows = np.where(labels[:, None] == np.arange(3), 0.5, -0.5)
    >>> profile = rng.normal(size=(60, 3, 2)) * [0.1, 1.0] + knows[:, :, None] * [1.0, 0.0]
    >>> joint = JointLp(groups="learners", p=1.0).fit(profile, labels, None)
    >>> joint.weights_.round(2)[:, 1]  # the expert that guesses is left out for all classes
    array([0., 0., 0.])
    >>> joint.certificate_.status, float((joint.predict(profile, None) == labels).mean())
    ('optimal', 1.0)
    """

    def __init__(
        self,
        form: Form = "margins",
        *,
        groups: Grouping | None = None,
        seed: int = 0,
        **parameters: Any,
    ) -> None:
        self.form = form
        self.groups = groups
        self.seed = seed
        self.parameters = parameters

    def fit(self, profile: Host, labels: Host, X: Any = None, sample_weight: Any = None) -> Self:
        """Learn the weights of all classes."""
        classes, experts = seen_by_classes(profile[:1], self.form).shape[1:]
        rows = joint_rows(profile, labels, self.form)
        costs = None if sample_weight is None else np.asarray(sample_weight)[rows.row]
        families: dict[str, Any] = {}
        if self.groups is not None and self.form != "shared margins":
            families["groups"] = self._families(classes, experts)
        self.fusion_ = LpFusion(**({"nonnegative": True} | self.parameters | families))
        with warnings.catch_warnings():  # experts of two classes disagree, as they should
            warnings.simplefilter("ignore", DirectionWarning)
            self.fusion_.fit(rows.scores, rows.labels, costs)
        self.certificate_ = self.fusion_.certificate_
        self.weights_ = np.broadcast_to(
            self.fusion_.weights_.reshape(-1, experts), (classes, experts)
        )
        return self

    def predict(self, profile: Host, X: Any = None) -> Host:
        """The class of each row, of shape (n,)."""
        classes: Host = self.score_samples(profile).argmax(axis=1)
        return classes

    def score_samples(self, profile: Host) -> Host:
        """The fused score of each class, of shape (n, K)."""
        seen = seen_by_classes(profile, self.form)
        scores: Host = np.einsum("ikj,kj->ik", seen, self.weights_)
        return scores

    def _families(self, classes: int, experts: int) -> Host:
        learner = np.tile(np.arange(experts), classes)
        if self.groups == "random":
            return np.random.default_rng([self.seed, 11]).permutation(learner)
        return learner if self.groups == "learners" else np.repeat(np.arange(classes), experts)
