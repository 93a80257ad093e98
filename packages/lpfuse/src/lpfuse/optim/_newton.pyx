# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The compiled form of `systems`: the same classes, methods and formulas, without arrays between.

`systems` explains the formulas and is what serves where nothing was compiled. Loops over rows are
in `_loops.h`; those over coordinates are here.
"""

from libc.math cimport INFINITY, fabs, fmax, fmin, isfinite, pow, sqrt
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

from scipy.linalg.cython_blas cimport dgemv, dsyrk
from scipy.linalg.cython_lapack cimport dpotrf, dpotrs

import numpy as np

from lpfuse.optim.balls import GroupBall
from lpfuse.optim.newton import Breakdown, GroupPairs, PairsState

cdef extern from "_newton_loops.h" nogil:
    void centred_pairs(
        Py_ssize_t m, double mu, const double *r, const double *c, double *x0, double *x1,
        double *z0, double *z1
    )
    void prepare_rows(
        Py_ssize_t m, const double *x0, const double *x1, const double *z0, const double *z1,
        double *per_x0, double *per_x1, double *per_z0, double *per_z1, double *D
    )
    void aim_at_zero(
        Py_ssize_t m, const double *r, const double *D, double *shift0, double *shift1,
        double *force
    )
    void aim_at(
        Py_ssize_t m, double target, double curved, const double *r, const double *D,
        const double *per_z0, const double *per_z1, const double *dx0, const double *dx1,
        const double *dz, double *shift0, double *shift1, double *force
    )
    void direction_of_rows(
        Py_ssize_t m, const double *slide, const double *force, const double *D,
        const double *shift0, const double *shift1, const double *x0, const double *x1,
        const double *per_x0, const double *per_x1, const double *per_z0, const double *per_z1,
        double *dx0, double *dx1, double *dz, double *least_x, double *least_z
    )
    double products_after(
        Py_ssize_t m, double primal, double dual, const double *x0, const double *x1,
        const double *z0, const double *z1, const double *dx0, const double *dx1, const double *dz
    )
    double move_rows(
        Py_ssize_t m, double primal, double dual, const double *c, const double *slide,
        const double *dx0, const double *dx1, const double *dz, double *r, double *x0, double *x1,
        double *z0, double *z1, double *hinges
    )
    double smoothed_slopes(
        Py_ssize_t m, double band, double step, const double *r, const double *slide,
        const double *c, double *ahead, double *alpha
    )
    double largest_size(Py_ssize_t m, const double *x)
    void weighted_gram(Py_ssize_t m, Py_ssize_t size, const double *A, const double *D, double *H)
    void times_rows(Py_ssize_t m, Py_ssize_t size, const double *A, const double *f, double *out)
    void times_columns(Py_ssize_t m, Py_ssize_t size, const double *A, const double *w, double *out)
    void scaled_part(
        Py_ssize_t m, Py_ssize_t size, Py_ssize_t start, Py_ssize_t count, Py_ssize_t width,
        const double *A, const double *root, double *out
    )
    void add_gram(Py_ssize_t width, Py_ssize_t size, const double *P, double *H)
    void roots_of(Py_ssize_t m, const double *D, double *root)

cdef enum:
    FEW = 6  # up to so many coordinates rows need not be scaled before they are multiplied
    MODERATE = 256  # up to so many, products of our own beat BLAS
    ROWS = 256  # that are scaled at a time: they stay in a core's cache until they are used


cdef void _read(double *target, values, Py_ssize_t n):
    """Copy n numbers."""
    cdef const double[::1] source
    if n:
        source = np.ascontiguousarray(values, dtype=np.float64).reshape(-1)
        memcpy(target, &source[0], n * sizeof(double))


cdef object _array(const double *source, Py_ssize_t n):
    """n numbers as an array of their own."""
    values = np.empty(n)
    cdef double[::1] target = values
    if n:
        memcpy(&target[0], source, n * sizeof(double))
    return values


cdef double _longest(double least):
    """The largest step with x + step·dx ≥ 0, from the least dx/x; no limit is 1e30."""
    return -1.0 / least if least < 0.0 else 1e30


cdef inline double _power(double t, double e) noexcept nogil:
    return sqrt(t) if e == 0.5 else pow(t, e)


cdef inline Py_ssize_t _padded(Py_ssize_t count) noexcept nogil:
    """The next multiple of the four numbers that are multiplied at a time."""
    return (count + 3) // 4 * 4


cdef class _System:
    """A model, the pairs of its ball, and the factor of the Newton matrix."""

    cdef Py_ssize_t m, size, R, slacks, kinds
    cdef Py_ssize_t G, N, n_pairs  # groups, order of the Newton matrix, pairs of the ball
    cdef bint lifted, bounded
    cdef double sigma, radius, exponent, eta, t_missing, d_eta
    # Of groups: `a` and `b`, the exponents of t and m in τ; the group of each weight.
    cdef double a, b
    cdef const Py_ssize_t[::1] of
    cdef const double[:, ::1] columns, quadratic
    cdef const double[::1] costs, linear
    cdef const double *A
    cdef const double *c
    cdef const double *g
    cdef const double *Q
    cdef double *store
    cdef double *row_store
    # Of the ball: slacks and shares x, multipliers z, their directions (kinds × R); the rest R each.
    cdef double *bx
    cdef double *bz
    cdef double *bdx
    cdef double *bdz
    cdef double *bd
    cdef double *bh
    cdef double *error
    cdef double *base
    cdef double *v
    cdef double *bend
    cdef double *Ktt
    cdef double *Kwt
    cdef double *border
    cdef double *t_slope
    cdef double *gt
    cdef double *ball_pull
    cdef double *by_t
    cdef double *Kmt
    cdef double *ww
    cdef double *wt
    # Of the groups, G each.
    cdef double *etas
    cdef double *d_etas
    cdef double *group_slope
    cdef double *group_missing
    cdef double *gamma
    cdef double *E
    cdef double *tt
    cdef double *s
    cdef double *t_pull
    cdef double *scale
    # Of all coordinates.
    cdef double *point
    cdef double *gradient
    cdef double *pull
    cdef double *dw
    cdef double *z1
    cdef double *spare
    cdef double *pull_here
    cdef double *pull_ahead
    cdef double *H
    cdef double *L
    cdef double *part

    def __cinit__(self, model, w, *more):
        self.columns = np.ascontiguousarray(model.columns, dtype=np.float64)
        self.costs = np.ascontiguousarray(model.costs, dtype=np.float64)
        self.linear = np.ascontiguousarray(model.linear, dtype=np.float64)
        self.m, self.size = self.columns.shape[1], self.columns.shape[0]
        self.R = self.size - model.free
        self.A = &self.columns[0, 0] if self.m else NULL
        self.c = &self.costs[0] if self.m else NULL
        self.g = &self.linear[0]
        self.Q = NULL
        if model.quadratic is not None:
            self.quadratic = np.ascontiguousarray(model.quadratic, dtype=np.float64)
            self.Q = &self.quadratic[0, 0]

        if isinstance(model.ball, GroupBall):
            self.of = model.ball.of
            self.G = max(model.ball.groups) + 1
        self.N = self.size + self.G
        cdef Py_ssize_t R = self.R, size = self.size, part = ROWS * self.size, N = self.N
        cdef Py_ssize_t numbers = 50 * R + (8 + N) * N + size * size + part
        self.store = <double *> calloc(numbers, sizeof(double))
        if self.store == NULL:
            raise MemoryError()
        cdef double *at = self.store
        self.bx = at  # at most four kinds of pairs: two bounds, w ≥ 0 and the shares
        self.bz = at + 4 * R
        self.bdx = at + 8 * R
        self.bdz = at + 12 * R
        self.bd = at + 16 * R
        self.bh = at + 20 * R
        self.error = at + 24 * R
        self.base = at + 27 * R
        self.v = at + 28 * R
        self.bend = at + 29 * R
        self.Ktt = at + 30 * R
        self.Kwt = at + 31 * R
        self.border = at + 32 * R
        self.t_slope = at + 33 * R
        self.gt = at + 34 * R
        self.ball_pull = at + 35 * R
        self.by_t = at + 36 * R
        self.Kmt = at + 37 * R
        self.ww = at + 38 * R
        self.wt = at + 39 * R
        at += 40 * R
        self.etas = at  # there are at most R groups
        self.d_etas = at + R
        self.group_slope = at + 2 * R
        self.group_missing = at + 3 * R
        self.gamma = at + 4 * R
        self.E = at + 5 * R
        self.tt = at + 6 * R
        self.s = at + 7 * R
        self.t_pull = at + 8 * R
        self.scale = at + 9 * R
        at += 10 * R
        self.point = at
        self.gradient = at + N
        self.pull = at + 2 * N
        self.dw = at + 3 * N
        self.z1 = at + 4 * N
        self.spare = at + 5 * N
        self.pull_here = at + 6 * N
        self.pull_ahead = at + 7 * N
        self.H = at + 8 * N
        self.L = self.H + size * size
        self.part = self.L + N * N
        _read(self.point, w, size)

    def __dealloc__(self):
        free(self.store)
        free(self.row_store)

    cdef double *row_arrays(self, int n) except NULL:
        """Room for n arrays with one entry a row, and one number more: never none at all."""
        self.row_store = <double *> calloc(n * self.m + 1, sizeof(double))
        if self.row_store == NULL:
            raise MemoryError()
        return self.row_store

    cpdef surround(self, ball, place):
        """Add the pairs of the ball: as they start at w, or as they were left there."""
        cdef Py_ssize_t R = self.R
        self.lifted = ball.p < INFINITY
        self.bounded = ball.nonnegative and ball.centre is not None
        self.sigma = 0.0 if ball.nonnegative and not self.bounded else 1.0
        self.radius, self.exponent = ball.room, 1.0 / ball.p
        self.slacks = 2 + self.bounded
        self.kinds = self.slacks + self.lifted
        self.n_pairs = self.kinds * R
        if self.G:
            self.surround_groups(ball, place)
            return
        if self.bounded:
            _read(self.base, ball.centre, R)
        if isinstance(place, PairsState):
            _read(self.bx, place.x, self.kinds * R)
            _read(self.bz, place.z, self.kinds * R)
            _read(self.v, place.v, R)
            self.eta = place.eta
        else:
            _read(self.v, ball.from_centre(_array(self.point, R)), R)
            self.start_ball(ball.p, place.product, place.evenness)

    cdef void start_ball(self, double p, double product, double evenness) noexcept nogil:
        """Slacks, shares and multipliers around v, all products alike."""
        cdef Py_ssize_t i, j, R = self.R, t = self.slacks * R
        cdef double size, tau, whole = 0.0, even = 1.0 / R, least, bend
        self.eta = 0.0
        if self.lifted:
            for j in range(R):
                size = pow(fabs(self.v[j] / self.radius), p)
                self.bx[t + j] = size
                whole += size
        for j in range(R):
            tau = self.radius
            if self.lifted:
                size = self.bx[t + j] / whole if whole > 0.0 else even
                self.bx[t + j] = evenness * even + (1.0 - evenness) * size
                tau = self.reach_of(self.bx[t + j])
            least = 0.05 * tau
            self.bx[j] = fmax(tau - self.v[j], least)
            self.bx[R + j] = fmax(self.sigma * tau + self.v[j], least)
            if self.bounded:
                self.bx[2 * R + j] = fmax(self.v[j] + self.base[j], least)
        for i in range(self.kinds * R):
            self.bz[i] = product / self.bx[i]
        if self.lifted:
            for j in range(R):
                tau = self.reach_of(self.bx[t + j])
                bend = self.exponent * tau / self.bx[t + j]
                self.eta += (
                    (self.bz[j] + self.sigma * self.bz[R + j]) * bend + self.bz[t + j]
                ) / R

    cdef inline double reach_of(self, double t) noexcept nogil:
        """τ(t)."""
        return self.radius * _power(t, self.exponent)

    cdef surround_groups(self, ball, place):
        """As `GroupPairs`, which starts them."""
        cdef Py_ssize_t R = self.R
        pairs = GroupPairs(ball, _array(self.point, R), place)
        self.lifted, self.kinds, self.n_pairs = True, 3, 3 * R + self.G
        self.a, self.b = pairs.a, pairs.b
        _read(self.bx, pairs.x, self.n_pairs)
        _read(self.bz, pairs.z, self.n_pairs)
        _read(self.v, pairs.v, R)
        _read(self.etas, pairs.eta[:-1], self.G)
        self.eta = pairs.eta[-1]

    @property
    def w(self):
        """Where the system stands."""
        return _array(self.point, self.size)

    @property
    def state(self):
        """Where the pairs of the ball are."""
        x, z = _array(self.bx, self.n_pairs), _array(self.bz, self.n_pairs)
        if self.G:
            etas = np.append(_array(self.etas, self.G), self.eta)
            return PairsState(x, z, _array(self.v, self.R), etas)
        x, z = x.reshape(self.kinds, self.R), z.reshape(self.kinds, self.R)
        return PairsState(x, z, _array(self.v, self.R), self.eta)

    def steepest(self):
        """The largest entry of the slope, by size."""
        return largest_size(self.size, self.gradient)

    # ------------------------------------------------------------------------------ the products

    cdef void rows_times(self, const double *f, double *out) noexcept nogil:
        """out = A f."""
        cdef int m = <int> self.m, size = <int> self.size, one = 1
        cdef double zero = 0.0, unit = 1.0
        cdef Py_ssize_t j
        if m == 0:
            for j in range(self.size):
                out[j] = 0.0
        elif self.size <= FEW:
            times_rows(self.m, self.size, self.A, f, out)
        else:
            dgemv(
                b"T", &m, &size, &unit, <double *> self.A, &m, <double *> f, &one, &zero, out, &one
            )

    cdef void columns_times(self, const double *w, double *out) noexcept nogil:
        """out = Aᵀ w."""
        cdef int m = <int> self.m, size = <int> self.size, one = 1
        cdef double zero = 0.0, unit = 1.0
        if m == 0:
            return
        if self.size <= FEW:
            times_columns(self.m, self.size, self.A, w, out)
        else:
            dgemv(
                b"N", &m, &size, &unit, <double *> self.A, &m, <double *> w, &one, &zero, out, &one
            )

    cdef void gram(self, const double *D, double *root) noexcept nogil:
        """H = A D Aᵀ, its lower triangle; `root` has room for one number a row."""
        cdef Py_ssize_t i, start, count, size = self.size, most = ROWS
        for i in range(size * size):
            self.H[i] = 0.0
        if size <= FEW:
            weighted_gram(self.m, size, self.A, D, self.H)
            return
        roots_of(self.m, D, root)
        start = 0
        while start < self.m:
            count = min(most, self.m - start)
            scaled_part(self.m, size, start, count, _padded(count), self.A, root, self.part)
            self.add_part(count)
            start += count

    cdef void add_part(self, Py_ssize_t count) noexcept nogil:
        """H += the products of `count` scaled rows."""
        cdef int n = <int> self.size, k = <int> _padded(count)
        cdef double unit = 1.0
        if self.size <= MODERATE:
            add_gram(k, self.size, self.part, self.H)
        else:
            dsyrk(b"L", b"T", &n, &k, &unit, self.part, &k, &unit, self.H, &n)

    cdef void add_quadratic(self) noexcept nogil:
        cdef Py_ssize_t i
        if self.Q != NULL:
            for i in range(self.size * self.size):
                self.H[i] += self.Q[i]

    cdef void set_slope(self, const double *pull) noexcept nogil:
        """slope = g + Q w − pull."""
        cdef Py_ssize_t i, j, size = self.size
        cdef double curved
        for i in range(size):
            curved = 0.0
            if self.Q != NULL:
                for j in range(size):
                    curved += self.Q[i * size + j] * self.point[j]
            self.gradient[i] = self.g[i] - pull[i] + curved

    # ---------------------------------------------------------------------------------- the ball

    cdef void press(self, double *out) noexcept nogil:
        """Add what the multipliers of the ball add to the slope."""
        cdef Py_ssize_t j, R = self.R
        for j in range(R):
            out[j] += self.bz[j] - self.bz[R + j]
            if self.bounded:
                out[j] -= self.bz[2 * R + j]

    cdef void linearise(self) noexcept nogil:
        """Prepare a step of the ball, and add its diagonal to H."""
        cdef Py_ssize_t j, R = self.R, k = self.slacks, t = self.slacks * R
        cdef double sigma = self.sigma, tau, up, down, floor, press, bend, curve
        cdef double squared, sum_t = 0.0, both = (1.0 + sigma) * (1.0 + sigma)
        for j in range(self.n_pairs):
            self.bd[j] = self.bz[j] / self.bx[j]
        if self.G:
            self.linearise_groups()
            return
        for j in range(R):
            tau = self.radius
            if self.lifted:
                tau = self.reach_of(self.bx[t + j])
            self.error[j] = self.bx[j] + self.v[j] - tau
            self.error[R + j] = self.bx[R + j] - self.v[j] - sigma * tau
            up, down, floor = self.bd[j], self.bd[R + j], 0.0
            if self.bounded:
                self.error[2 * R + j] = self.bx[2 * R + j] - self.v[j] - self.base[j]
                floor = self.bd[2 * R + j]
            if not self.lifted:
                self.H[j * (self.size + 1)] += up + down + floor
                continue
            bend = self.exponent * tau / self.bx[t + j]
            press = self.bz[j] + sigma * self.bz[R + j]
            curve = press * bend * ((1.0 - self.exponent) / self.bx[t + j]) + self.bd[t + j]
            squared = bend * bend
            self.bend[j] = bend
            self.Ktt[j] = squared * (up + sigma * down) + curve
            self.Kwt[j] = bend * (sigma * down - up)
            self.border[j] = self.Kwt[j] / self.Ktt[j]
            self.t_slope[j] = self.eta - press * bend - self.bz[t + j]
            sum_t += self.bx[t + j]
            self.H[j * (self.size + 1)] += (
                ((up + down) * curve + both * squared * up * down) / self.Ktt[j] + floor
            )
        self.t_missing = 1.0 - sum_t

    cdef void linearise_groups(self) noexcept nogil:
        """See `GroupPairs.bordered`; Ktt, Kwt, bend, border, t_slope are those of m here."""
        cdef Py_ssize_t g, j, R = self.R, first = 3 * self.R
        cdef double sigma = self.sigma, e = self.exponent, both = (1.0 + sigma) * (1.0 + sigma)
        cdef double m, t, tau, up, down, dm, press, mixed, pairs, in_m, in_t, by_m, by_t, slope, Kmm
        self.t_missing = 1.0
        for g in range(self.G):
            t = self.bx[first + g]
            self.scale[g] = self.radius * pow(t, self.a)
            slope = pow(t, e)
            self.group_missing[g] = slope
            slope *= e / t
            self.group_slope[g] = self.eta - self.etas[g] * slope - self.bz[first + g]
            self.gamma[g] = slope
            self.tt[g] = self.etas[g] * slope * ((1.0 - e) / t) + self.bd[first + g]
            self.E[g] = 0.0
            self.t_missing -= t
        for j in range(R):
            g = self.of[j]
            m, t = self.bx[2 * R + j], self.bx[first + g]
            up, down, dm = self.bd[j], self.bd[R + j], self.bd[2 * R + j]
            tau = self.scale[g] * _power(m, self.b)
            self.error[j] = self.bx[j] + self.v[j] - tau
            self.error[R + j] = self.bx[R + j] - self.v[j] - sigma * tau
            by_m, by_t = self.b * tau / m, self.a * tau / t
            press, pairs = self.bz[j] + sigma * self.bz[R + j], up + sigma * down
            mixed = press * by_m * (self.a / t)
            in_m = press * by_m * ((1.0 - self.b) / m) + dm
            in_t = press * by_t * ((1.0 - self.a) / t)
            Kmm = by_m * by_m * pairs + in_m
            self.bend[j], self.by_t[j], self.Ktt[j] = by_m, by_t, Kmm
            self.Kmt[j] = by_m * by_t * pairs - mixed
            self.Kwt[j] = by_m * (sigma * down - up)
            self.border[j] = self.Kwt[j] / Kmm
            self.t_slope[j] = self.etas[g] - press * by_m - self.bz[2 * R + j]
            self.ww[j] = ((up + down) * in_m + both * by_m * by_m * up * down) / Kmm
            self.wt[j] = (sigma * down - up) * (by_t * in_m + by_m * mixed) / Kmm
            self.tt[g] += (
                pairs * (by_t * by_t * in_m + by_m * by_m * in_t + 2.0 * by_m * by_t * mixed)
                + in_t * dm
                + press * press * by_m * by_t * ((1.0 - self.a - self.b) / (m * t))
            ) / Kmm
            self.group_missing[g] -= m
            self.group_slope[g] -= press * by_t
            self.E[g] += 1.0 / Kmm
            self.gamma[g] += self.Kmt[j] / Kmm

    cdef void assemble_groups(self) noexcept nogil:
        """L = the Newton matrix in (w, t), its lower triangle."""
        cdef Py_ssize_t g, i, j, R = self.R, size = self.size, N = self.N
        for i in range(N * N):
            self.L[i] = 0.0
        for j in range(size):
            memcpy(self.L + j * N + j, self.H + j * size + j, (size - j) * sizeof(double))
        for j in range(R):
            g = self.of[j]
            self.L[j * (N + 1)] += self.ww[j]
            self.L[j * N + size + g] = self.wt[j] + self.border[j] * self.gamma[g] / self.E[g]
            for i in range(j, R):
                if self.of[i] == g:
                    self.L[j * N + i] += self.border[i] * self.border[j] / self.E[g]
        for g in range(self.G):
            self.L[(size + g) * (N + 1)] = self.tt[g] + self.gamma[g] * self.gamma[g] / self.E[g]

    cdef bint factorise_groups(self) noexcept nogil:
        cdef Py_ssize_t i, N = self.N
        cdef int n = <int> N, info = 1, one = 1
        cdef double ridge = 1e-15, more = 1.0
        for attempt in range(5):
            more *= 1.0 + ridge
            self.assemble_groups()
            for i in range(N):
                self.L[i * (N + 1)] *= more
            dpotrf(b"L", &n, self.L, &n, &info)
            if info == 0 and isfinite(self.L[N * N - 1]):
                break
            ridge *= 100.0
        else:
            return False
        for i in range(N):
            self.z1[i] = -1.0 if i >= self.size else 0.0
        dpotrs(b"L", &n, &one, self.L, &n, self.z1, &n, &info)
        return True

    cdef void aim_groups(self) noexcept nogil:
        """See `GroupPairs.right_side`; `bh` is known."""
        cdef Py_ssize_t g, j, R = self.R
        cdef double up, down, press
        for g in range(self.G):
            self.s[g] = -self.group_missing[g]
            self.t_pull[g] = self.bh[3 * R + g] - self.group_slope[g]
        for j in range(R):
            g = self.of[j]
            up = self.bh[j] + self.bd[j] * self.error[j]
            down = self.bh[R + j] + self.bd[R + j] * self.error[R + j]
            press = up + self.sigma * down
            self.gt[j] = self.bend[j] * press + self.bh[2 * R + j] - self.t_slope[j]
            self.ball_pull[j] = down - up
            self.t_pull[g] += self.by_t[j] * press - self.Kmt[j] * self.gt[j] / self.Ktt[j]
            self.s[g] += self.gt[j] / self.Ktt[j]
        for g in range(self.G):
            self.t_pull[g] += self.gamma[g] * self.s[g] / self.E[g]
        for j in range(R):
            g = self.of[j]
            self.ball_pull[j] += self.border[j] * (self.s[g] / self.E[g] - self.gt[j])

    cdef void solve_for_groups(self) noexcept nogil:
        """See `GroupPairs.multiplier_step` and `GroupPairs.direction`."""
        cdef Py_ssize_t g, i, j, R = self.R, size = self.size, first = 3 * self.R
        cdef int n = <int> self.N, info, one = 1
        cdef double top = self.t_missing, bottom = 0.0, dm, dt, moved
        for i in range(size):
            self.dw[i] = self.pull[i] + (self.ball_pull[i] if i < R else 0.0)
        for g in range(self.G):
            self.dw[size + g] = self.t_pull[g]
        dpotrs(b"L", &n, &one, self.L, &n, self.dw, &n, &info)
        for g in range(self.G):
            top -= self.dw[size + g]
            bottom += self.z1[size + g]
        self.d_eta = top / bottom
        for i in range(self.N):
            self.dw[i] += self.d_eta * self.z1[i]
        for g in range(self.G):
            self.d_etas[g] = self.s[g] - self.gamma[g] * self.dw[size + g]
            self.bdx[first + g] = self.dw[size + g]
        for j in range(R):
            self.d_etas[self.of[j]] -= self.border[j] * self.dw[j]
        for g in range(self.G):
            self.d_etas[g] /= self.E[g]
        for j in range(R):
            g = self.of[j]
            dt = self.dw[size + g]
            dm = self.gt[j] - self.Kwt[j] * self.dw[j] - self.Kmt[j] * dt - self.d_etas[g]
            dm /= self.Ktt[j]
            moved = self.bend[j] * dm + self.by_t[j] * dt
            self.bdx[j] = moved - self.dw[j] - self.error[j]
            self.bdx[R + j] = self.sigma * moved + self.dw[j] - self.error[R + j]
            self.bdx[2 * R + j] = dm
        for i in range(self.n_pairs):
            self.bdz[i] = self.bh[i] - self.bd[i] * self.bdx[i]

    cdef bint factorise(self) noexcept nogil:
        """The Cholesky factor of H plus the ball's diagonal; whether there is one."""
        cdef Py_ssize_t i, size = self.size, R = self.R
        cdef int n = <int> size, info, one = 1
        cdef double ridge = 1e-15
        if self.G:
            return self.factorise_groups()
        for attempt in range(5):
            for i in range(size):
                self.H[i * (size + 1)] *= 1.0 + ridge
            memcpy(self.L, self.H, size * size * sizeof(double))
            dpotrf(b"L", &n, self.L, &n, &info)
            if info == 0 and isfinite(self.L[size * size - 1]):
                break
            ridge *= 100.0
        else:
            return False
        if self.lifted:
            for i in range(size):
                self.z1[i] = self.border[i] if i < R else 0.0
            dpotrs(b"L", &n, &one, self.L, &n, self.z1, &n, &info)
        return True

    cdef void aim_ball(self, double target, double curved) noexcept nogil:
        """Right-hand side in w of the step to products target − curved·dx·dz."""
        cdef Py_ssize_t j, i, R = self.R, t = self.slacks * R
        cdef double up, down, floor, aimed
        for i in range(self.n_pairs):
            aimed = target - curved * self.bdx[i] * self.bdz[i]
            self.bh[i] = (aimed - self.bx[i] * self.bz[i]) / self.bx[i]
        if self.G:
            self.aim_groups()
            return
        for j in range(R):
            up = self.bh[j] + self.bd[j] * self.error[j]
            down = self.bh[R + j] + self.bd[R + j] * self.error[R + j]
            floor = 0.0
            if self.bounded:
                floor = self.bh[2 * R + j] + self.bd[2 * R + j] * self.error[2 * R + j]
            self.ball_pull[j] = down + floor - up
            if self.lifted:
                self.gt[j] = self.bend[j] * (up + self.sigma * down)
                self.gt[j] += self.bh[t + j] - self.t_slope[j]
                self.ball_pull[j] -= self.border[j] * self.gt[j]

    cdef void solve_for(self) noexcept nogil:
        """dw and dη for the right-hand side `pull`, and the direction of the ball's pairs."""
        cdef Py_ssize_t i, j, R = self.R, size = self.size, t = self.slacks * R
        cdef int n = <int> size, info, one = 1
        cdef double top, bottom, dt, moved
        if self.G:
            self.solve_for_groups()
            return
        for i in range(size):
            self.dw[i] = self.pull[i] + (self.ball_pull[i] if i < R else 0.0)
        dpotrs(b"L", &n, &one, self.L, &n, self.dw, &n, &info)
        self.d_eta = 0.0
        if self.lifted:
            top, bottom = -self.t_missing, 0.0
            for j in range(R):
                top += (self.gt[j] - self.Kwt[j] * self.dw[j]) / self.Ktt[j]
                bottom += (1.0 + self.Kwt[j] * self.z1[j]) / self.Ktt[j]
            self.d_eta = top / bottom
            for i in range(size):
                self.dw[i] += self.d_eta * self.z1[i]
        for j in range(R):
            self.bdx[j] = -self.dw[j] - self.error[j]
            self.bdx[R + j] = self.dw[j] - self.error[R + j]
            if self.bounded:
                self.bdx[2 * R + j] = self.dw[j] - self.error[2 * R + j]
            if self.lifted:
                dt = (self.gt[j] - self.Kwt[j] * self.dw[j] - self.d_eta) / self.Ktt[j]
                self.bdx[t + j] = dt
                moved = self.bend[j] * dt
                self.bdx[j] += moved
                self.bdx[R + j] += self.sigma * moved
        for i in range(self.n_pairs):
            self.bdz[i] = self.bh[i] - self.bd[i] * self.bdx[i]

    cdef void least_of_ball(self, double *least_x, double *least_z) noexcept nogil:
        cdef Py_ssize_t i
        for i in range(self.n_pairs):
            least_x[0] = fmin(least_x[0], self.bdx[i] / self.bx[i])
            least_z[0] = fmin(least_z[0], self.bdz[i] / self.bz[i])

    cdef double ball_products(self) noexcept nogil:
        cdef Py_ssize_t i
        cdef double products = 0.0
        for i in range(self.n_pairs):
            products += self.bx[i] * self.bz[i]
        return products

    cdef void move_ball(self, double primal, double dual) noexcept nogil:
        """Take the step, and return slacks to τ ∓ v where that changes them little."""
        cdef Py_ssize_t i, j, R = self.R, t = self.slacks * R
        cdef double tau
        for i in range(self.n_pairs):
            self.bx[i] += primal * self.bdx[i]
            self.bz[i] += dual * self.bdz[i]
        for i in range(self.size):
            self.point[i] += primal * self.dw[i]
        self.eta += dual * self.d_eta
        for i in range(self.G):
            self.etas[i] += dual * self.d_etas[i]
        for j in range(R):
            self.v[j] += primal * self.dw[j]
            if self.G:
                tau = self.radius * pow(self.bx[3 * R + self.of[j]], self.a)
                tau *= _power(self.bx[2 * R + j], self.b)
                self.settle(j, tau - self.v[j])
                self.settle(R + j, self.sigma * tau + self.v[j])
            elif self.lifted:
                tau = self.reach_of(self.bx[t + j])
                self.settle(j, tau - self.v[j])
                self.settle(R + j, self.sigma * tau + self.v[j])
                if self.bounded:
                    self.settle(2 * R + j, self.v[j] + self.base[j])

    cdef inline void settle(self, Py_ssize_t i, double exact) noexcept nogil:
        if fabs(exact - self.bx[i]) < 0.5 * self.bx[i]:
            self.bx[i] = exact


cdef class InteriorSystem(_System):
    """See `systems.InteriorSystem`."""

    cdef double *r
    cdef double *x0
    cdef double *x1
    cdef double *z0
    cdef double *z1_
    cdef double *per_x0
    cdef double *per_x1
    cdef double *per_z0
    cdef double *per_z1
    cdef double *D
    cdef double *shift0
    cdef double *shift1
    cdef double *force
    cdef double *slide
    cdef double *dx0
    cdef double *dx1
    cdef double *dz
    cdef readonly double products, hinges

    def __init__(self, model, w, residual, double mu):
        cdef double *at = self.row_arrays(17)
        cdef Py_ssize_t m = self.m
        self.r = at
        self.x0 = at + m
        self.x1 = at + 2 * m
        self.z0 = at + 3 * m
        self.z1_ = at + 4 * m
        self.per_x0 = at + 5 * m
        self.per_x1 = at + 6 * m
        self.per_z0 = at + 7 * m
        self.per_z1 = at + 8 * m
        self.D = at + 9 * m
        self.shift0 = at + 10 * m
        self.shift1 = at + 11 * m
        self.force = at + 12 * m
        self.slide = at + 13 * m
        self.dx0 = at + 14 * m
        self.dx1 = at + 15 * m
        self.dz = at + 16 * m
        _read(self.r, residual, self.m)
        with nogil:
            centred_pairs(self.m, mu, self.r, self.c, self.x0, self.x1, self.z0, self.z1_)
            self.rows_times(self.z0, self.pull)
            self.set_slope(self.pull)

    cpdef surround(self, ball, place):
        _System.surround(self, ball, place)
        self.move_rows_of(0.0, 0.0)  # sums up their products

    @property
    def count(self):
        """How many pairs there are."""
        return 2 * self.m + self.n_pairs

    @property
    def alpha(self):
        """The multipliers of the rows."""
        return _array(self.z0, self.m)

    def factor(self):
        """Factor the Newton matrix at this point, and evaluate the slope."""
        cdef bint done
        with nogil:
            prepare_rows(
                self.m, self.x0, self.x1, self.z0, self.z1_,
                self.per_x0, self.per_x1, self.per_z0, self.per_z1, self.D,
            )
            self.gram(self.D, self.force)
            self.add_quadratic()
            self.linearise()
            done = self.factorise()
            self.rows_times(self.z0, self.pull)
            self.set_slope(self.pull)
            self.press(self.gradient)
        if not done:
            raise Breakdown("the Newton matrix is not positive definite")

    def aim(self, double target, bint curved, int refinements):
        """The direction to products `target`; returns its longest steps, primal and dual."""
        cdef double least_x = 0.0, least_z = 0.0, whole = 0.0
        cdef Py_ssize_t i
        cdef int k
        with nogil:
            if target == 0.0 and not curved:
                aim_at_zero(self.m, self.r, self.D, self.shift0, self.shift1, self.force)
            else:
                aim_at(
                    self.m, target, curved, self.r, self.D, self.per_z0, self.per_z1,
                    self.dx0, self.dx1, self.dz, self.shift0, self.shift1, self.force,
                )
            self.aim_ball(target, curved)
            self.rows_times(self.force, self.pull)
            for i in range(self.size):
                self.pull[i] -= self.gradient[i]
            self.direct(&least_x, &least_z)
            for k in range(refinements):
                self.refine()
                self.direct(&least_x, &least_z)
            self.least_of_ball(&least_x, &least_z)
            for i in range(self.size):
                whole += self.dw[i]
        if not isfinite(whole):
            raise Breakdown("the step is not finite")
        return _longest(least_x), _longest(least_z)

    cdef void direct(self, double *least_x, double *least_z) noexcept nogil:
        """The direction of all pairs for the right-hand side `pull`."""
        self.solve_for()
        self.columns_times(self.dw, self.slide)
        direction_of_rows(
            self.m, self.slide, self.force, self.D, self.shift0, self.shift1, self.x0, self.x1,
            self.per_x0, self.per_x1, self.per_z0, self.per_z1, self.dx0, self.dx1, self.dz,
            least_x, least_z,
        )

    cdef void refine(self) noexcept nogil:
        """Take what a full step would leave of the slope off the right-hand side."""
        cdef Py_ssize_t i, j, R = self.R, size = self.size
        cdef double left
        self.rows_times(self.dz, self.spare)
        for i in range(size):
            left = self.gradient[i] - self.spare[i]
            if i < R:
                left += self.bdz[i] - self.bdz[R + i]
                if self.bounded:
                    left -= self.bdz[2 * R + i]
            if self.Q != NULL:
                for j in range(size):
                    left += self.Q[i * size + j] * self.dw[j]
            self.pull[i] -= left

    def left(self, double primal, double dual):
        """The sum of products after a step of these lengths."""
        cdef Py_ssize_t i
        cdef double products = products_after(
            self.m, primal, dual, self.x0, self.x1, self.z0, self.z1_, self.dx0, self.dx1, self.dz
        )
        for i in range(self.n_pairs):
            products += (self.bx[i] + primal * self.bdx[i]) * (self.bz[i] + dual * self.bdz[i])
        return products

    def move(self, double primal, double dual):
        """Take the step, with lengths of their own for slacks and multipliers."""
        with nogil:
            self.move_ball(primal, dual)
            self.move_rows_of(primal, dual)

    cdef void move_rows_of(self, double primal, double dual) noexcept nogil:
        self.products = self.ball_products() + move_rows(
            self.m, primal, dual, self.c, self.slide, self.dx0, self.dx1, self.dz,
            self.r, self.x0, self.x1, self.z0, self.z1_, &self.hinges,
        )


cdef class SmoothedSystem(_System):
    """See `systems.SmoothedSystem`."""

    cdef double *r
    cdef double *r_ahead
    cdef double *slide
    cdef double *alpha
    cdef double *scratch
    cdef double band, promised, inside_ahead, cost
    cdef readonly double n_inside

    def __init__(self, model, w, residual, double band):
        cdef double *at = self.row_arrays(5)
        cdef Py_ssize_t i
        self.r = at
        self.r_ahead = at + self.m
        self.slide = at + 2 * self.m
        self.alpha = at + 3 * self.m
        self.scratch = at + 4 * self.m
        _read(self.r, residual, self.m)
        for i in range(self.m):
            self.cost += self.c[i]
        self.look(band)

    @property
    def residuals(self):
        """r at this point."""
        return _array(self.r, self.m)

    cpdef look(self, double band):
        """Smooth with this band."""
        with nogil:
            self.band = band
            self.n_inside = smoothed_slopes(
                self.m, band, 0.0, self.r, self.r, self.c, self.r_ahead, self.alpha
            )
            self.rows_times(self.alpha, self.pull_here)
            self.set_slope(self.pull_here)

    def newton(self, double product, Py_ssize_t wanted):
        """The step to products `product` of the ball; its longest lengths, gain and curvature."""
        cdef double least_x = 0.0, least_z = 0.0, gain = 0.0, whole = 0.0
        cdef Py_ssize_t i, j, size = self.size
        cdef bint done
        with nogil:
            self.press(self.gradient)
            self.curvature(wanted)
            self.add_quadratic()
            for i in range(size):
                self.spare[i] = self.H[i * (size + 1)]  # before the ball adds to it
                self.pull[i] = -self.gradient[i]
            self.linearise()
            done = self.factorise()
            if done:
                self.aim_ball(product, 0.0)
                self.solve_for()
                self.columns_times(self.dw, self.slide)
                self.least_of_ball(&least_x, &least_z)
                self.promised = 0.0
                for j in range(size):
                    whole += self.dw[j]
                    gain -= self.gradient[j] * self.dw[j]
                    self.promised += self.dw[j] * self.spare[j] * self.dw[j]
                    for i in range(j + 1, size):
                        self.promised += 2.0 * self.dw[i] * self.H[j * size + i] * self.dw[j]
        if not (done and isfinite(whole)):
            raise Breakdown("the Newton matrix is not positive definite, or the step not finite")
        return _longest(least_x), _longest(least_z), gain, self.promised

    cdef void curvature(self, Py_ssize_t wanted) noexcept nogil:
        """H = the curvature of the rows in the band, by at most about `wanted` of them."""
        cdef Py_ssize_t i, count = 0, start, stride, taken = 0, size = self.size
        cdef Py_ssize_t most = ROWS
        cdef Py_ssize_t *chosen = <Py_ssize_t *> self.scratch
        cdef double weight
        for i in range(size * size):
            self.H[i] = 0.0
        for i in range(self.m):
            if fabs(self.r[i]) < self.band:
                chosen[count] = i
                count += 1
        stride = max(1, count // wanted)
        weight = 0.5 * stride / self.band
        i = 0
        while i < count:
            chosen[taken] = chosen[i]
            self.alpha[taken] = sqrt(self.c[chosen[i]] * weight)
            taken += 1
            i += stride
        start = 0
        while start < taken:
            self.gather(chosen + start, self.alpha + start, min(most, taken - start))
            self.add_part(min(most, taken - start))
            start += most
        if size > self.R:  # an intercept with no row in the band has nothing else to hold it
            self.H[size * size - 1] += 1e-6 * self.cost / self.band

    cdef void gather(
        self, const Py_ssize_t *chosen, const double *root, Py_ssize_t count
    ) noexcept nogil:
        """The chosen rows, each times its factor, into `part`."""
        cdef Py_ssize_t i, j, width = _padded(count)
        for j in range(self.size):
            for i in range(count):
                self.part[j * width + i] = root[i] * self.A[j * self.m + chosen[i]]
            for i in range(count, width):
                self.part[j * width + i] = 0.0

    def ahead(self, double step):
        """By how much the slope along a step of this length overshoots what was promised."""
        cdef double overshoot = -step * self.promised
        cdef Py_ssize_t i
        with nogil:
            self.inside_ahead = smoothed_slopes(
                self.m, self.band, step, self.r, self.slide, self.c, self.r_ahead, self.alpha
            )
            self.rows_times(self.alpha, self.pull_ahead)
            for i in range(self.size):
                overshoot += (self.pull_here[i] - self.pull_ahead[i]) * self.dw[i]
        return overshoot

    def move(self, double primal, double dual):
        """Take the step whose length `ahead` was asked last."""
        with nogil:
            self.r, self.r_ahead = self.r_ahead, self.r
            self.pull_here, self.pull_ahead = self.pull_ahead, self.pull_here
            self.n_inside = self.inside_ahead
            self.move_ball(primal, dual)
            self.set_slope(self.pull_here)

    def largest_slide(self):
        """How far a margin moves at most along the last step, at length 1."""
        return largest_size(self.m, self.slide)

    def stationarity(self):
        """How far the slope and the ball's multipliers are from balance."""
        cdef Py_ssize_t i
        cdef double free = 0.0, most = 0.0
        memcpy(self.spare, self.gradient, self.size * sizeof(double))
        self.press(self.spare)
        for i in range(self.size):
            if i < self.R:
                most = fmax(most, fabs(self.spare[i]))
            else:
                free = fmax(free, fabs(self.spare[i]))
        return max(free, self.radius * most)
