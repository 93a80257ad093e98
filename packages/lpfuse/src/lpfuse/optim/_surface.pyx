# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The compiled form of `surface`: the same class and formulas, without arrays between."""

from libc.math cimport copysign, fabs, fmax, fmin, isfinite, pow
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

from scipy.linalg.cython_blas cimport dgemv
from scipy.linalg.cython_lapack cimport dpotrf, dpotrs

import numpy as np

from lpfuse.optim.newton import Breakdown
from lpfuse.optim.newton import ENOUGH, SHORTER

cdef extern from "_surface_loops.h" nogil:
    double rounded_hinges(
        Py_ssize_t m, double band, const double *c, const double *at, const double *r, double *alpha
    )
    void one_less(Py_ssize_t m, double *r)
    double hinges_of(Py_ssize_t m, const double *c, const double *r)
    double n_smaller(Py_ssize_t m, double band, const double *r)
    void add_gram(Py_ssize_t width, Py_ssize_t size, const double *P, double *H)
    void times_rows(Py_ssize_t m, Py_ssize_t size, const double *A, const double *f, double *out)
    void times_columns(Py_ssize_t m, Py_ssize_t size, const double *A, const double *w, double *out)

cdef enum:
    FEW = 8  # up to so many coordinates loops of our own beat a call of BLAS
    PART = 512  # rows that are gathered at a time: a multiple of the lanes of `add_gram`

    SPARED = 1 << 20  # numbers of memory that the next system may take over: 8 MB

cdef double _SHORTER = SHORTER, _ENOUGH = ENOUGH
# A path makes system after system of the same size, and fresh pages take longer than the steps.
# Taken and left with the lock of the interpreter held.
cdef double *_spare = NULL
cdef Py_ssize_t _spare_size = 0


cdef double *_taken(Py_ssize_t numbers) except NULL:
    global _spare, _spare_size
    cdef double *store
    if _spare != NULL and _spare_size == numbers:
        store, _spare, _spare_size = _spare, NULL, 0
        return store
    store = <double *> calloc(numbers, sizeof(double))
    if store == NULL:
        raise MemoryError()
    return store


cdef void _left(double *store, Py_ssize_t numbers):
    global _spare, _spare_size
    if store == NULL:
        return
    if numbers <= SPARED:
        store, _spare, _spare_size = _spare, store, numbers
    free(store)


cdef object _array(const double *source, Py_ssize_t n):
    """n numbers as an array of their own."""
    values = np.empty(n)
    cdef double[::1] target = values
    if n:
        memcpy(&target[0], source, n * sizeof(double))
    return values


cdef double _norm(Py_ssize_t R, double p, const double *x) noexcept nogil:
    cdef double top = 0.0, total = 0.0
    cdef Py_ssize_t j
    for j in range(R):
        top = fmax(top, fabs(x[j]))
    if top == 0.0:
        return 0.0
    for j in range(R):
        total += pow(fabs(x[j]) / top, p)
    return top * pow(total, 1.0 / p)


cdef class SurfaceSystem:
    """See `surface.SurfaceSystem`."""

    cdef Py_ssize_t m, size, R, taken, numbers
    cdef double p, radius, band, value, cost
    cdef bint has_centre
    cdef readonly bint inside
    cdef readonly double moved
    cdef readonly Py_ssize_t n_near
    cdef const double[:, ::1] columns
    cdef const double[::1] costs, linear
    cdef const double *A
    cdef const double *c
    cdef const double *g
    cdef double *store
    cdef double *centre
    cdef double *point
    cdef double *there
    cdef double *x_
    cdef double *ahead
    cdef double *dw
    cdef double *aside
    cdef double *pull_
    cdef double *v
    cdef double *dv
    cdef double *extent
    cdef double *power
    cdef double *H
    cdef double *part
    cdef double *r_
    cdef double *r_ahead
    cdef double *at
    cdef double *alpha_
    cdef double *before
    cdef double *slide
    cdef Py_ssize_t *near

    def __cinit__(self, model, x, free_part, bint inside):
        self.columns = np.ascontiguousarray(model.columns, dtype=np.float64)
        self.costs = np.ascontiguousarray(model.costs, dtype=np.float64)
        self.linear = np.ascontiguousarray(model.linear, dtype=np.float64)
        cdef Py_ssize_t i, m = self.columns.shape[1], size = self.columns.shape[0]
        self.m, self.size, self.R = m, size, size - model.free
        self.A = &self.columns[0, 0] if m else NULL
        self.c = &self.costs[0] if m else NULL
        self.g = &self.linear[0]
        ball = model.ball
        self.p, self.radius, self.inside = ball.p, ball.radius, inside
        self.has_centre = ball.centre is not None
        self.numbers = (13 + size + PART) * size + 7 * m + 1
        self.store = _taken(self.numbers)
        self.cost = 0.0
        cdef double *at = self.store
        self.centre = at
        self.point = at + size
        self.there = at + 2 * size
        self.x_ = at + 3 * size
        self.ahead = at + 4 * size
        self.dw = at + 5 * size  # and the second side of the same system after it
        self.aside = at + 6 * size
        self.pull_ = at + 7 * size
        self.v = at + 8 * size
        self.dv = at + 9 * size
        self.extent = at + 10 * size
        self.power = at + 11 * size
        self.H = at + 13 * size
        self.part = self.H + size * size
        at = self.part + PART * size
        self.r_ = at
        self.r_ahead = at + m
        self.at = at + 2 * m
        self.alpha_ = at + 3 * m
        self.before = at + 4 * m
        self.slide = at + 5 * m
        self.near = <Py_ssize_t *> (at + 6 * m)
        cdef const double[::1] given = np.concatenate([x, free_part])
        cdef const double[::1] middle
        if self.has_centre:
            middle = np.ascontiguousarray(ball.centre, dtype=np.float64)
            memcpy(self.centre, &middle[0], self.R * sizeof(double))
        memcpy(self.x_, &given[0], size * sizeof(double))
        for i in range(m):
            self.at[i] = 0.5 * self.c[i]
            self.cost += self.c[i]
        with nogil:
            self.place(self.x_, self.point)
            self.residuals_at(self.point, self.r_)

    def __dealloc__(self):
        _left(self.store, self.numbers)

    @property
    def x(self):
        return _array(self.x_, self.R)

    @property
    def free(self):
        return _array(self.x_ + self.R, self.size - self.R)

    @property
    def w(self):
        return _array(self.point, self.size)

    @property
    def r(self):
        return _array(self.r_, self.m)

    @property
    def alpha(self):
        return _array(self.alpha_, self.m)

    @property
    def pull(self):
        return _array(self.pull_, self.size)

    def bounds(self):
        """The objective, and the bound that α proves where b is not free; less the constant."""
        cdef double primal = hinges_of(self.m, self.c, self.r_), dual = 0.0, q = self.p / (self.p - 1.0)
        cdef Py_ssize_t i
        for i in range(self.size):
            primal += self.g[i] * self.point[i]
        for i in range(self.m):
            dual += self.alpha_[i]
        dual -= self.radius * _norm(self.R, q, self.pull_)
        if self.has_centre:
            for i in range(self.R):
                dual -= self.pull_[i] * self.centre[i]
        return primal, dual

    def n_within(self, double band):
        """Rows so near to their kink."""
        return n_smaller(self.m, band, self.r_)

    def look(self, double band):
        """Round the hinges with this band."""
        with nogil:
            self.band = band
            self.value = self.rounded(self.point, self.r_, self.alpha_)
            self.pull_here()

    def hold(self):
        """Round the hinges around the multipliers of now."""
        memcpy(self.at, self.alpha_, self.m * sizeof(double))

    def follow(self):
        """Round them around what the last step, a whole one, says that they will be."""
        cdef Py_ssize_t i, k
        cdef double a
        memcpy(self.at, self.before, self.m * sizeof(double))
        for k in range(self.taken):
            i = self.near[k]
            a = self.before[i] - self.c[i] / (2.0 * self.band) * self.slide[k]
            self.at[i] = fmin(fmax(a, 0.0), self.c[i])

    cdef void place(self, const double *x, double *w) noexcept nogil:
        """w at x; a free coordinate follows as it is."""
        cdef Py_ssize_t j
        for j in range(self.R):
            w[j] = self.radius * x[j]
            if self.has_centre:
                w[j] += self.centre[j]
        for j in range(self.R, self.size):
            w[j] = x[j]

    cdef void residuals_at(self, const double *w, double *r) noexcept nogil:
        cdef int m = <int> self.m, size = <int> self.size, one = 1
        cdef double zero = 0.0, unit = 1.0
        if self.size <= FEW or self.m == 0:  # BLAS knows no rows of length 0
            times_columns(self.m, self.size, self.A, w, r)
        else:
            dgemv(b"N", &m, &size, &unit, <double *> self.A, &m, <double *> w, &one, &zero, r, &one)
        one_less(self.m, r)

    cdef double rounded(self, const double *w, const double *r, double *alpha) noexcept nogil:
        cdef double value = rounded_hinges(self.m, self.band, self.c, self.at, r, alpha)
        cdef Py_ssize_t i
        for i in range(self.size):
            value += self.g[i] * w[i]
        return value

    cdef void pull_here(self) noexcept nogil:
        """A α − g."""
        cdef int m = <int> self.m, size = <int> self.size, one = 1
        cdef double zero = 0.0, unit = 1.0
        cdef Py_ssize_t i
        if self.size <= FEW or self.m == 0:  # BLAS knows no rows of length 0
            times_rows(self.m, self.size, self.A, self.alpha_, self.pull_)
        else:
            dgemv(
                b"T", &m, &size, &unit, <double *> self.A, &m, self.alpha_, &one, &zero, self.pull_,
                &one
            )
        for i in range(self.size):
            self.pull_[i] -= self.g[i]

    def newton(self, Py_ssize_t wanted):
        """The step from here; about `wanted` rows are enough to tell the curvature."""
        cdef bint done
        cdef double whole = 0.0, eta = 0.0
        cdef Py_ssize_t i, j, k, R = self.R, size = self.size
        with nogil:
            self.curvature(wanted)
            if size > R:  # an intercept with no row in the band has nothing else to hold it
                self.H[size * size - 1] += 1e-9 * self.cost / self.band
            for j in range(R):
                eta += self.pull_[j] * self.x_[j]
            self.inside = self.inside or eta <= 0.0
            done = self.step_inside() if self.inside else self.step_held(eta)
            for i in range(size):
                whole += self.dw[i]
            self.moved = 0.0
            for k in range(self.taken):
                self.slide[k] = 0.0
            for j in range(size):
                for k in range(self.taken):
                    self.slide[k] += self.dw[j] * self.A[j * self.m + self.near[k]]
            for k in range(self.taken):
                self.moved = fmax(self.moved, fabs(self.slide[k]))
        if not (done and isfinite(whole)):
            raise Breakdown("the Newton matrix is not positive definite, or the step not finite")

    cdef void curvature(self, Py_ssize_t wanted) noexcept nogil:
        """H = A_J κ A_Jᵀ, its lower triangle, by about `wanted` rows of J."""
        cdef Py_ssize_t i, j, k, count = 0, stride, size = self.size, start = 0, part, width
        for i in range(size * size):
            self.H[i] = 0.0
        for i in range(self.m):
            if self.alpha_[i] > 0.0 and self.alpha_[i] < self.c[i]:
                self.near[count] = i
                count += 1
        self.n_near = count
        stride = max(1, count // wanted)
        self.taken = 0
        i = 0
        while i < count:
            self.near[self.taken] = self.near[i]
            self.taken += 1
            i += stride
        for k in range(self.taken):  # slides are computed after this
            self.slide[k] = (self.c[self.near[k]] * stride / (2.0 * self.band)) ** 0.5
        while start < self.taken:
            part = min(<Py_ssize_t> PART, self.taken - start)
            width = (part + 3) // 4 * 4
            for j in range(size):
                for k in range(part):
                    self.part[j * width + k] = self.slide[start + k] * self.A[j * self.m + self.near[start + k]]
                for k in range(part, width):
                    self.part[j * width + k] = 0.0
            add_gram(width, size, self.part, self.H)
            start += part

    cdef bint step_inside(self) noexcept nogil:
        """Inside the ball the rows alone decide."""
        cdef int n = <int> self.size, info, one = 1
        cdef Py_ssize_t i, size = self.size
        cdef double top = 0.0
        for i in range(size):
            top = fmax(top, self.H[i * (size + 1)])
            self.dw[i] = self.pull_[i]
        for i in range(size):
            self.H[i * (size + 1)] += 1e-9 * top + 1e-300
        dpotrf(b"L", &n, self.H, &n, &info)
        if info == 0:
            dpotrs(b"L", &n, &one, self.H, &n, self.dw, &n, &info)
        return info == 0

    cdef bint step_held(self, double eta) noexcept nogil:
        """On its surface they turn."""
        cdef int n = <int> self.size, info, two = 2
        cdef Py_ssize_t i, j, R = self.R, size = self.size
        cdef double p = self.p, scale = eta * (p - 1.0) / self.radius, top = 0.0, phi, d_eta, lower = 0.0
        for i in range(size):
            self.dw[i], self.aside[i] = self.pull_[i], 0.0
        for j in range(R):
            self.extent[j] = fabs(self.x_[j])
            self.power[j] = pow(self.extent[j], p - 2.0)
            self.dv[j] = scale * fmin(self.power[j], 1e60)
            self.H[j * (size + 1)] += self.dv[j]
            phi = pow(self.extent[j], p - 1.0)
            self.v[j] = copysign(phi, self.x_[j])
            self.dw[j] -= eta * self.v[j]
            self.aside[j] = self.v[j]
        for i in range(size):
            top = fmax(top, self.H[i * (size + 1)])
        # Past p = 2 a weight near zero is not held by the ball at all.
        for i in range(size):
            self.H[i * (size + 1)] += 1e-14 * self.H[i * (size + 1)] + (1e-12 * top if p > 2.0 else 0.0)
        dpotrf(b"L", &n, self.H, &n, &info)
        if info != 0:
            return False
        dpotrs(b"L", &n, &two, self.H, &n, self.dw, &n, &info)
        d_eta = 0.0
        for j in range(R):
            d_eta += self.v[j] * self.dw[j]
            lower += self.v[j] * self.aside[j]
        d_eta /= lower
        for i in range(size):
            self.dw[i] -= d_eta * self.aside[i]
        for j in range(R):
            self.dv[j] = self.dv[j] * self.dw[j] + d_eta * self.v[j]
            self.v[j] *= eta
        return True

    cdef bint go(self, double length) noexcept nogil:
        """x after a part of the step; whether it has left the inside of the ball."""
        cdef Py_ssize_t j, R = self.R
        cdef double p = self.p, top = 0.0, norm, size, most
        for j in range(R, self.size):
            self.ahead[j] = self.x_[j] + length * self.dw[j]
        if p < 2.0 and not self.inside:  # v changes little where x vanishes, or grows many times
            for j in range(R):
                self.ahead[j] = self.v[j] + length * self.dv[j]
                top = fmax(top, fabs(self.ahead[j]))
            for j in range(R):
                self.ahead[j] = copysign(pow(fabs(self.ahead[j]) / top, 1.0 / (p - 1.0)), self.ahead[j])
            norm = _norm(R, p, self.ahead)
            for j in range(R):
                self.ahead[j] /= norm
            return False
        for j in range(R):
            self.ahead[j] = self.x_[j] + length * self.dw[j] / self.radius
            if not self.inside:
                # |x|^{p−1} bends sharply: it may grow by what its tangent says, and a little.
                size = fabs(self.ahead[j])
                most = fmax((p - 1.0) * self.power[j] * (size - self.extent[j]), 0.0)
                most = pow(self.extent[j] * self.power[j] + most + 0.1, 1.0 / (p - 1.0))
                self.ahead[j] = copysign(fmin(size, most), self.ahead[j])
        norm = _norm(R, p, self.ahead)
        if self.inside and not norm > 1.0:
            return False
        for j in range(R):
            self.ahead[j] /= norm
        return True

    def search(self, int tries):
        """Take as much of the step as lets the rounded objective fall; returns how much, or 0."""
        cdef double length = 1.0, gain = 0.0, value
        cdef bint out
        cdef int k
        cdef Py_ssize_t i
        with nogil:
            for i in range(self.size):
                gain += self.pull_[i] * self.dw[i]
            for k in range(tries):
                out = self.go(length)
                self.place(self.ahead, self.there)
                self.residuals_at(self.there, self.r_ahead)
                value = self.rounded(self.there, self.r_ahead, self.before)
                if value <= self.value - _ENOUGH * length * gain + 1e-13 * fabs(self.value):
                    self.x_, self.ahead = self.ahead, self.x_
                    self.point, self.there = self.there, self.point
                    self.r_, self.r_ahead = self.r_ahead, self.r_
                    self.alpha_, self.before = self.before, self.alpha_
                    self.value = value
                    self.pull_here()
                    self.inside = self.inside and not out
                    break
                length *= _SHORTER
            else:
                length = 0.0
        return length


cdef class _Projection:
    """The active set of `newton.nearest_by_newton`, and room for its steps."""

    cdef Py_ssize_t n, R, k
    cdef bint held
    cdef double p, radius, norm, far
    cdef const double[:, ::1] rows
    cdef const double[::1] uniform, centre
    cdef Py_ssize_t[::1] chosen
    cdef unsigned char[::1] taken
    cdef double[::1] w, x, extent, power, push, H, off, nu, change
    cdef double[:, ::1] M

    def __init__(self, ball, uniform, rows, start):
        self.n, self.R = rows.shape
        self.p, self.radius = ball.p, ball.radius
        self.rows = np.ascontiguousarray(rows, dtype=np.float64)
        self.uniform = np.ascontiguousarray(uniform, dtype=np.float64)
        self.centre = np.zeros(self.R) if ball.centre is None else ball.centre
        self.chosen, self.taken = np.zeros(self.n, dtype=np.intp), np.zeros(self.n, dtype=np.uint8)
        self.w = np.array(start, dtype=np.float64)
        self.x, self.extent, self.power, self.push, self.H, self.off = np.zeros((6, self.R))
        self.nu, self.change = np.zeros((2, self.R + 1))
        self.M = np.zeros((self.R + 1, self.R + 1))

    cdef double product(self, Py_ssize_t i) noexcept nogil:
        """a_iᵀw."""
        cdef Py_ssize_t j
        cdef double total = 0.0
        for j in range(self.R):
            total += self.rows[i, j] * self.w[j]
        return total

    cdef double gauge(self) noexcept nogil:
        """‖v‖_p; x = v on return."""
        cdef Py_ssize_t j
        for j in range(self.R):
            self.x[j] = (self.w[j] - self.centre[j]) / self.radius
        return _norm(self.R, self.p, &self.x[0])

    cdef inline const double *column(self, Py_ssize_t a) noexcept nogil:
        """A binding row, or after them the slope of the norm."""
        return &self.rows[self.chosen[a], 0] if a < self.k else &self.push[0]

    cdef bint solve(self, Py_ssize_t m) noexcept nogil:
        """change = (Bᵀ H⁻¹ B)⁻¹ change; whether columns of B are independent."""
        cdef Py_ssize_t a, b, j
        cdef int order = <int> m, lead = <int> (self.R + 1), one = 1, info = 0
        cdef const double *left
        cdef const double *right
        cdef double total
        for a in range(m):
            left = self.column(a)
            for b in range(a, m):
                right, total = self.column(b), 0.0
                for j in range(self.R):
                    total += left[j] * right[j] / self.H[j]
                self.M[a, b] = total
        if m > 0:  # the upper triangle by rows is the lower one of LAPACK
            dpotrf(b"L", &order, &self.M[0, 0], &lead, &info)
            if info == 0:
                dpotrs(b"L", &order, &one, &self.M[0, 0], &lead, &self.change[0], &lead, &info)
        return info == 0

    cdef bint step(self, bint fresh) noexcept nogil:
        """A Newton step with this active set; whether it exists."""
        cdef Py_ssize_t a, j, R = self.R, m = self.k + self.held
        cdef double size, total, bend = 0.0
        cdef const double *column
        self.norm = self.gauge()
        for j in range(R):
            size = fabs(self.x[j]) / fmax(self.norm, 1e-300)
            self.extent[j], self.power[j] = size, pow(size, self.p - 2.0)
            self.push[j] = -copysign(self.power[j] * size, self.x[j])
            self.H[j] = 1.0
        if fresh:
            for a in range(m):
                column, total = self.column(a), 0.0
                for j in range(R):
                    total += column[j] * (self.w[j] - self.uniform[j])
                self.change[a] = total
            if not self.solve(m):
                return False
            for a in range(m):
                self.nu[a] = self.change[a]
        if self.held:
            bend = fmax(self.nu[m - 1], 0.0) * (self.p - 1.0) / (self.norm * self.radius)
            for j in range(R):
                self.H[j] += bend * self.power[j]
        for j in range(R):
            self.off[j] = self.uniform[j] - self.w[j]
        for a in range(m):
            column = self.column(a)
            for j in range(R):
                self.off[j] += self.nu[a] * column[j]
        for a in range(m):
            column = self.column(a)
            total = 1.0 - self.product(self.chosen[a]) if a < self.k else (self.norm - 1.0) * self.radius
            for j in range(R):
                total -= column[j] * self.off[j] / self.H[j]
            self.change[a] = total
        if not self.solve(m):
            return False
        for a in range(m):
            column = self.column(a)
            self.nu[a] += self.change[a]
            for j in range(R):
                self.off[j] += self.change[a] * column[j]
        self.far = 0.0
        for j in range(R):
            size = self.off[j] / self.H[j]
            if not isfinite(size):
                return False
            self.far = fmax(self.far, fabs(size))
            self.off[j] = self.w[j] + size
        if self.held:
            for j in range(R):  # |x|^{p−1} curves sharply: see `newton._capped`
                total = fabs(self.push[j]) + 0.1
                size = (self.off[j] - self.centre[j]) / self.radius
                total += fmax((self.p - 1.0) * self.power[j] * (fabs(size) - self.extent[j]), 0.0)
                self.x[j] = copysign(fmin(fabs(size), pow(total, 1.0 / (self.p - 1.0))), size)
            size = _norm(R, self.p, &self.x[0])
            for j in range(R):
                self.off[j] = self.centre[j] + self.radius * self.x[j] / size
                self.far = fmax(self.far, fabs(self.off[j] - self.w[j]))
        for j in range(R):
            self.w[j] = self.off[j]
        return self.far < 1e3

    cdef void drop(self, Py_ssize_t a) noexcept nogil:
        """Take a row out of the active set."""
        cdef Py_ssize_t b
        self.taken[self.chosen[a]] = 0
        for b in range(a, self.k - 1):
            self.chosen[b] = self.chosen[b + 1]
        for b in range(a, self.k + self.held - 1):
            self.nu[b] = self.nu[b + 1]
        self.k -= 1

    cdef bint add(self, double least) noexcept nogil:
        """Take in rows with margins below this; whether they are few enough for the next step."""
        cdef Py_ssize_t i
        cdef double last = self.nu[self.k] if self.held else 0.0
        for i in range(self.n):
            if not self.taken[i] and self.product(i) < least:
                if self.k == self.R:
                    return False
                self.chosen[self.k], self.nu[self.k], self.taken[i] = i, 0.0, 1
                self.k += 1
        if self.held:
            self.nu[self.k] = last
        return True

    cdef int run(self) noexcept nogil:
        """1 where the conditions hold, else 0."""
        cdef Py_ssize_t a, k, m, worst
        cdef double least
        cdef bint fresh = True, outside
        self.held = self.gauge() > 0.9  # by its surface, or nearly
        if not self.add(1.0 + 1e-6):
            return 0
        for _ in range(40):
            m = self.k + self.held
            if m > self.R or not self.step(fresh):
                return 0
            fresh, worst, least = False, 0, 0.0
            for a in range(m):
                if self.nu[a] < least:
                    least = self.nu[a]
            # Signs are known before convergence; with a wrong one full precision is not needed.
            if self.far > (1e-3 if least < 0.0 else 1e-13):
                continue
            if self.held and self.nu[m - 1] < 0.0:  # the ball is not active
                self.held = False
                continue
            if least < 0.0:
                for a in range(self.k):
                    worst = a if self.nu[a] < self.nu[worst] else worst
                self.drop(worst)
                continue
            k, least = self.k, self.gauge()
            outside = not self.held and least > 1.0
            if not self.add(1.0 - 1e-10):
                return 0
            if self.k == k and not outside:
                return least <= 1.0 + 1e-12
            if outside:
                if self.k == self.R:
                    return 0
                self.held, self.nu[self.k] = True, 0.0
        return 0


def nearest_by_newton(ball, uniform, rows, start):
    """See `newton.nearest_by_newton`."""
    cdef _Projection found = _Projection(ball, uniform, rows, start)
    return np.asarray(found.w) if found.run() else None
