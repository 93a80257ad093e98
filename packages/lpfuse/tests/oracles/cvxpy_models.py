"""The fusion problem as models of cvxpy: the one set of them, for tests and for timed rivals.

With rows a_i = y_i s_i of A and costs c:

    primal   minimise  Σ c_i ℓ(1 − a_iᵀw − y_i b)   subject to   ‖w‖_p ≤ 1
    slacks   minimise  cᵀξ                          subject to   ξ ≥ 1 − A w,  ξ ≥ 0,  ‖w‖_p ≤ 1
    dual     minimise  ‖v‖_q − Σβ                   subject to   v = Aᵀβ,  0 ≤ β ≤ c

cvxpy writes ‖w‖_p with second-order cones, which is exact for rational p; its power cones were
tried too and were slower or failed (CLARABEL gives up at p = 32/31). This file needs nothing but
cvxpy, so that `research` can load it from here.
"""

import warnings

import cvxpy as cp

TIGHT = 1e-11  # beyond what CLARABEL reaches on some problems; the tests see what it did reach


def primal(
    rows, p, *, costs=None, labels=None, loss="hinge", nonnegative=False, centre=0.0, radius=1.0
):
    """The problem as one would state it; with `labels` there is an intercept.

    Returns the model, w, and b (None without labels).
    """
    w = cp.Variable(rows.shape[1], nonneg=nonnegative)
    b = None if labels is None else cp.Variable()
    residuals = 1.0 - rows @ w if b is None else 1.0 - rows @ w - labels * b
    losses = {"hinge": cp.pos, "least_squares": cp.square}[loss](residuals)
    total = cp.sum(losses) if costs is None else costs @ losses
    return cp.Problem(cp.Minimize(total), [cp.norm(w - centre, p) <= radius]), w, b


def primal_with_slacks(rows, p, costs):
    """The hinge with explicit slacks: α is the multiplier of their constraint, divided by c.

    Returns the model, w, and that constraint.
    """
    w, slack = cp.Variable(rows.shape[1]), cp.Variable(rows.shape[0], nonneg=True)
    margin = slack >= 1.0 - rows @ w
    return cp.Problem(cp.Minimize(costs @ slack), [margin, cp.norm(w, p) <= 1.0]), w, margin


def dual(rows, q, costs):
    """The dual of the hinge; w is minus the multiplier of the equation v = Aᵀβ.

    Returns the model, β, and that equation.
    """
    beta, v = cp.Variable(rows.shape[0], nonneg=True), cp.Variable(rows.shape[1])
    gathered = v == rows.T @ beta
    model = cp.Problem(cp.Minimize(cp.norm(v, q) - cp.sum(beta)), [gathered, beta <= costs])
    return model, beta, gathered


def minimise(objective, constraints, tolerance=TIGHT):
    """Run CLARABEL as far as it gets."""
    run_tightly(cp.Problem(cp.Minimize(objective), constraints), tolerance)


def run_tightly(model, tolerance=TIGHT):
    """Run CLARABEL as far as it gets."""
    tolerances = ("tol_gap_abs", "tol_gap_rel", "tol_feas")
    run(model, "CLARABEL", max_iter=500, **dict.fromkeys(tolerances, tolerance))


def run(model, solver, **options):
    """Solve, whatever the solver says about its accuracy: whoever asked will see."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "may be inaccurate", approximated norms
        model.solve(solver=solver, **options)


def solver_seconds(model):
    """What the solver reports; some tell their set-up apart from the solve."""
    stats = model.solver_stats
    return float(stats.setup_time or 0.0) + float(stats.solve_time or 0.0)
