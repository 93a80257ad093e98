"""Kernels, the one-class Gaussian process and kernel PCA, straight from their formulas.

Kernels are functions of two rows, matrices are filled one entry at a time, and every learner holds
all of them and inverts or decomposes what it needs, whatever that costs.
"""

from math import exp, fsum, log, pi, sqrt, tanh

import array_api_strict
import numpy as np
import pytest

# ------------------------------------------------------------------------------- array libraries


def strict(x):
    return array_api_strict.asarray(x)


def strict_device(x):
    """An array that stands for one on a GPU: it cannot be mixed with arrays of the host."""
    return array_api_strict.asarray(x, device=array_api_strict.Device("device1"))


def torch(x):
    return pytest.importorskip("torch", reason="torch is not installed").from_numpy(x.copy())


LIBRARIES = [strict, strict_device, torch]
every_library = pytest.mark.parametrize("library", LIBRARIES)


def on_host(x):
    """The same numbers as NumPy."""
    return x if isinstance(x, np.ndarray) else np.from_dlpack(x)


def assert_beside(x, other):
    """x is of the library, the precision and the place of the other."""
    assert type(x) is type(other)
    assert x.dtype == other.dtype
    assert getattr(x, "device", None) == getattr(other, "device", None)


# --------------------------------------------------------------------------------------- kernels


def dot(x, z):
    return fsum(float(a) * float(b) for a, b in zip(x, z, strict=True))


def squared_distance(x, z):
    return fsum((float(a) - float(b)) ** 2 for a, b in zip(x, z, strict=True))


def _additive_chi2(x, z):
    terms = zip(map(float, x), map(float, z), strict=True)
    return -fsum((a - b) ** 2 / (a + b) for a, b in terms if a + b != 0)


def _cosine(x, z):
    lengths = sqrt(dot(x, x)) * sqrt(dot(z, z))
    return dot(x, z) / lengths if lengths else 0.0


def kernel(name, gamma=1.0, degree=3.0, coef0=1.0):
    """The kernel of that name in scikit-learn, as a function of two rows."""

    def polynomial(x, z):
        return (gamma * dot(x, z) + coef0) ** degree

    return {
        "additive_chi2": _additive_chi2,
        "chi2": lambda x, z: exp(gamma * _additive_chi2(x, z)),
        "cosine": _cosine,
        "laplacian": lambda x, z: exp(
            -gamma * fsum(abs(float(a) - float(b)) for a, b in zip(x, z, strict=True))
        ),
        "linear": dot,
        "poly": polynomial,
        "polynomial": polynomial,
        "rbf": lambda x, z: exp(-gamma * squared_distance(x, z)),
        "sigmoid": lambda x, z: tanh(gamma * dot(x, z) + coef0),
    }[name]


def similarities(k, X, Z):
    """``k(x_i, z_j)``, of shape (n, m)."""
    return np.array([[k(x, z) for z in Z] for x in X])


def gamma_scale(X):
    """``1 / (d · Var X)``."""
    entries = [float(value) for row in X for value in row]
    mean = fsum(entries) / len(entries)
    variance = fsum((value - mean) ** 2 for value in entries) / len(entries)
    return 1 / (len(X[0]) * variance)


def gamma_median(X):
    """``1 / (2 m)``, m the median squared distance of two different rows."""
    pairs = [squared_distance(X[i], X[j]) for i in range(len(X)) for j in range(i)]
    return 1 / (2 * np.median([pair for pair in pairs if pair > 0]))


# ------------------------------------------------------------------------------ Gaussian process


def gp_score(name, mean, variance):
    """One of the four scores of Kemmler et al., of one row."""
    if name == "mean":
        return mean
    if name == "variance":
        return -variance
    if name == "density":
        return -0.5 * log(2 * pi * variance) - (1 - mean) ** 2 / (2 * variance)
    return log(max(mean, 1e-12) / sqrt(variance))


def gp(K, new, diagonal, noise, weights=None):
    """Means and variances of rows with the similarities `new` to rows with the matrix K.

    The variances are those of an observation, noise included; `diagonal` is ``k(x, x)``.
    """
    n = len(K)
    if n == 0:
        return np.zeros(len(new)), np.asarray(diagonal) + noise
    noises = [noise / (1.0 if weights is None else weights[i]) for i in range(n)]
    inverse = np.linalg.inv(K + np.diag(noises))
    means = [float(row @ inverse @ np.ones(n)) for row in new]
    variances = [
        float(prior - row @ inverse @ row) + noise for row, prior in zip(new, diagonal, strict=True)
    ]
    return np.array(means), np.array(variances)


def gp_scores(name, k, X, new, noise, weights=None):
    """The scores of new rows after training on X."""
    priors = [k(x, x) for x in new]
    moments = gp(similarities(k, X, X), similarities(k, new, X), priors, noise, weights)
    return np.array([gp_score(name, *pair) for pair in zip(*moments, strict=True)])


def gp_scores_of_features(name, Phi, new, diagonal, noise, weights=None):
    """The same with ``ΦΦᵀ`` for the kernel, but for ``k(x, x)``, which stays that of the kernel."""
    moments = gp(Phi @ Phi.T, new @ Phi.T, diagonal, noise, weights)
    return np.array([gp_score(name, *pair) for pair in zip(*moments, strict=True)])


def without(values, i):
    """All entries but one."""
    return np.delete(np.asarray(values), i, axis=0)


def gp_leave_one_out(name, k, X, noise, weights=None):
    """The score of each row after really training on the others."""
    weights = np.ones(len(X)) if weights is None else weights
    return np.array(
        [
            gp_scores(name, k, without(X, i), X[i : i + 1], noise, without(weights, i))[0]
            for i in range(len(X))
        ]
    )


def gp_leave_one_out_of_features(name, Phi, diagonal, noise, weights=None):
    weights = np.ones(len(Phi)) if weights is None else weights
    return np.array(
        [
            gp_scores_of_features(
                name,
                without(Phi, i),
                Phi[i : i + 1],
                diagonal[i : i + 1],
                noise,
                without(weights, i),
            )[0]
            for i in range(len(Phi))
        ]
    )


# ------------------------------------------------------------------------------------ kernel PCA


def kernel_pca(k, X, new):
    """Squared distances of new rows to the mean, their projections, and the variances.

    The matrix is centred by subtracting means of rows, of columns, and of all, in loops; all
    components come, the largest variance first, those without any left out.
    """
    n, K, T = len(X), similarities(k, X, X), similarities(k, new, X)
    row_means = [fsum(row) / n for row in K]
    grand_mean = fsum(row_means) / n
    centred = np.array(
        [[K[i, j] - row_means[i] - row_means[j] + grand_mean for j in range(n)] for i in range(n)]
    )
    centred_new = np.array(
        [[row[j] - fsum(row) / n - row_means[j] + grand_mean for j in range(n)] for row in T]
    )
    distances = np.array(
        [k(x, x) - 2 * fsum(row) / n + grand_mean for x, row in zip(new, T, strict=True)]
    )
    values, vectors = np.linalg.eigh(centred)
    values, vectors = values[::-1], vectors[:, ::-1]
    some = values > 1e-10 * max(values.sum(), 1e-10)
    projections = centred_new @ (vectors[:, some] / np.sqrt(values[some]))
    return distances, projections, values[some] / n


def kernel_pca_scores(k, X, new, q):
    """Minus the squared error of a reconstruction from the first q components."""
    distances, projections, _ = kernel_pca(k, X, new)
    return -(distances - (projections[:, :q] ** 2).sum(axis=1))


def pca_scores(X, new, q):
    """The same for the linear kernel, by principal components of the rows themselves."""
    mean = X.mean(axis=0)
    axes = np.linalg.svd(X - mean, full_matrices=False)[2][:q]
    residuals = (new - mean) - (new - mean) @ axes.T @ axes
    return -(residuals**2).sum(axis=1)
