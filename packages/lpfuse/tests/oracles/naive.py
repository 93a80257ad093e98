"""The fusion problem, its dual and its certificate, one number at a time.

A problem is anything with the fields S, y, costs, ball (p, nonnegative), loss.name and
fit_intercept; its methods are not asked.
"""

from math import fsum, inf


def value(problem, w, b=0.0):
    """f(w, b) = Σ c_i loss(1 − y_i (s_iᵀw + b))."""
    losses = {"hinge": lambda r: max(0.0, r), "least_squares": lambda r: r * r}
    loss = losses[problem.loss.name]
    rows = zip(*_rows(problem), strict=True)
    return fsum(
        c * loss(1 - y * (fsum(s * x for s, x in zip(row, w, strict=True)) + b))
        for row, y, c in rows
    )


def dual_value(problem, alpha):
    """D(α) = Σ c_i gain(α_i) − max {(Σ c_i α_i y_i s_i)ᵀ z : z in the ball}.

    −∞ where α proves nothing: outside [0, 1] for the hinge, not balanced with an intercept.
    """
    alpha = [float(a) for a in alpha]
    hinge = problem.loss.name == "hinge"
    if hinge and not all(0 <= a <= 1 for a in alpha):
        return -inf
    S, labels, costs = _rows(problem)
    forces = [c * a * y for a, y, c in zip(alpha, labels, costs, strict=True)]
    if problem.fit_intercept and abs(fsum(forces)) > 1e-9 * fsum(costs):
        return -inf
    gains = [c * (a if hinge else a - a * a / 4) for a, c in zip(alpha, costs, strict=True)]
    total = [fsum(f * row[j] for f, row in zip(forces, S, strict=True)) for j in range(len(S[0]))]
    if problem.ball.nonnegative:
        total = [max(0.0, v) for v in total]
    return fsum(gains) - norm(total, conjugate(problem.ball.p))


def relative_gap(problem, primal, dual):
    """(f − D) / max(f, 1e-3 Σ c)."""
    return (primal - dual) / max(primal, 1e-3 * fsum(_rows(problem)[2]))


def norm(v, p):
    """‖v‖_p; the largest entry is divided out, or powers overflow."""
    sizes = [abs(float(x)) for x in v]
    top = max(sizes)
    if top == 0 or p == inf:
        return top
    return top * fsum((x / top) ** p for x in sizes) ** (1 / p)


def conjugate(p):
    """q with 1/p + 1/q = 1."""
    if p == 1:
        return inf
    return 1.0 if p == inf else p / (p - 1)


def _rows(problem):
    S = [[float(s) for s in row] for row in problem.S]
    labels = [1.0] * len(S) if problem.y is None else [float(y) for y in problem.y]
    costs = [1.0] * len(S) if problem.costs is None else [float(c) for c in problem.costs]
    return S, labels, costs
