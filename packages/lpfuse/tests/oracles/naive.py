"""The fusion problem, its dual and its certificate, one number at a time.

A problem is anything with the fields S, y, costs, ball (p, nonnegative, centre, radius), loss.name
and fit_intercept; its methods are not asked.
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
    return fsum(gains) - support(problem.ball, total)


def support(ball, v):
    """max {vᵀw : w in the ball}: the least r‖u‖_q + uᵀw₀ over u = v, or over u ≥ v with w ≥ 0."""
    v = [float(x) for x in v]
    q, r = conjugate(ball.p), ball.radius
    if ball.centre is None:
        return r * norm([max(0.0, x) for x in v] if ball.nonnegative else v, q)
    centre = [float(x) for x in ball.centre]

    def bound(u):
        return r * norm(u, q) + fsum(x * c for x, c in zip(u, centre, strict=True))

    if not ball.nonnegative or r == 0:
        return bound(v)
    # u_j = max(v_j, −λ c_j^{p−1}) for some λ, with c = w₀/r: c_j ≥ 1 is never in the way. The bound
    # is convex in λ.
    share = [0.0 if c == 0 else inf if c >= r else (c / r) ** (ball.p - 1) for c in centre]
    top = max(map(abs, v))
    if top == 0:
        return 0.0

    def at(power):
        level = 10.0**power * top
        return bound([max(x, -level * s) if s < inf else x for x, s in zip(v, share, strict=True)])

    low, high = -30.0, 310.0
    for _ in range(400):
        third = (high - low) / 3
        low, high = (
            (low, high - third) if at(low + third) <= at(high - third) else (low + third, high)
        )
    return min(at(low), at(high), bound([max(x, 0.0) for x in v]), bound(v))


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
