/* Loops over the rows of a model: formulas of `systems.py`, one row after the other.

   Arrays have one entry a row and never overlap. Of a pair of slacks, 0 is s with its multiplier α,
   1 is ξ with c − α. Sums and minima are in the order that is quickest: what they prove is proven
   elsewhere, by code that shares nothing with this. */

#ifndef LPFUSE_LOOPS_H
#define LPFUSE_LOOPS_H

#include <math.h>
#include <stddef.h>

/* One function for each kind of processor, chosen when the library is loaded. */
#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 12
#include <features.h>
#if defined(__GLIBC__)
#define EVERY_PROCESSOR __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#endif
#endif
#ifndef EVERY_PROCESSOR
#define EVERY_PROCESSOR
#endif

#if defined(_MSC_VER)
#define restrict __restrict
#endif

/* The pairs at the products mu: α s = (c − α) ξ = μ with ξ − s = r, a quadratic equation a row. */
EVERY_PROCESSOR
static void centred_pairs(ptrdiff_t m, double mu, const double *restrict r,
                          const double *restrict c, double *restrict x0, double *restrict x1,
                          double *restrict z0, double *restrict z1) {
#pragma omp simd
    for (ptrdiff_t i = 0; i < m; i++) {
        double half = mu / c[i], root = sqrt(r[i] * r[i] + 4.0 * half * half);
        double size = fabs(r[i]);
        double large = 0.5 * (root + size), small = 2.0 * half * half / (root + size);
        x0[i] = (r[i] < 0.0 ? large : small) + half;
        x1[i] = (r[i] > 0.0 ? large : small) + half;
        z0[i] = mu / x0[i];
        z1[i] = mu / x1[i];
    }
}

/* 1/x, 1/z, and D = 1/(s/α + ξ/(c − α)). */
EVERY_PROCESSOR
static void prepare_rows(ptrdiff_t m, const double *restrict x0, const double *restrict x1,
                         const double *restrict z0, const double *restrict z1,
                         double *restrict per_x0, double *restrict per_x1,
                         double *restrict per_z0, double *restrict per_z1, double *restrict D) {
#pragma omp simd
    for (ptrdiff_t i = 0; i < m; i++) {
        per_x0[i] = 1.0 / x0[i];
        per_x1[i] = 1.0 / x1[i];
        per_z0[i] = 1.0 / z0[i];
        per_z1[i] = 1.0 / z1[i];
        D[i] = 1.0 / (x0[i] / z0[i] + x1[i] / z1[i]);
    }
}

/* Towards products 0: no shift, and force = D r. */
EVERY_PROCESSOR
static void aim_at_zero(ptrdiff_t m, const double *restrict r, const double *restrict D,
                        double *restrict shift0, double *restrict shift1, double *restrict force) {
#pragma omp simd
    for (ptrdiff_t i = 0; i < m; i++) {
        shift0[i] = shift1[i] = 0.0;
        force[i] = D[i] * r[i];
    }
}

/* Towards products target − curved·dx·dz: shift = target/z, force = D (r + shift0 − shift1). */
EVERY_PROCESSOR
static void aim_at(ptrdiff_t m, double target, double curved, const double *restrict r,
                   const double *restrict D, const double *restrict per_z0,
                   const double *restrict per_z1, const double *restrict dx0,
                   const double *restrict dx1, const double *restrict dz,
                   double *restrict shift0, double *restrict shift1, double *restrict force) {
#pragma omp simd
    for (ptrdiff_t i = 0; i < m; i++) {
        shift0[i] = (target - curved * dx0[i] * dz[i]) * per_z0[i];
        shift1[i] = (target + curved * dx1[i] * dz[i]) * per_z1[i];
        force[i] = D[i] * (r[i] + shift0[i] - shift1[i]);
    }
}

/* The direction that belongs to dw, by its slide aᵀdw; the least dx/x and dz/z. */
EVERY_PROCESSOR
static void direction_of_rows(ptrdiff_t m, const double *restrict slide,
                              const double *restrict force, const double *restrict D,
                              const double *restrict shift0, const double *restrict shift1,
                              const double *restrict x0, const double *restrict x1,
                              const double *restrict per_x0, const double *restrict per_x1,
                              const double *restrict per_z0, const double *restrict per_z1,
                              double *restrict dx0, double *restrict dx1, double *restrict dz,
                              double *least_x, double *least_z) {
    double worst_x = 0.0, worst_z = 0.0;
#pragma omp simd reduction(min : worst_x, worst_z)
    for (ptrdiff_t i = 0; i < m; i++) {
        double d = force[i] - D[i] * slide[i];
        double a = shift0[i] - x0[i] - x0[i] * per_z0[i] * d;
        double b = shift1[i] - x1[i] + x1[i] * per_z1[i] * d;
        dz[i] = d;
        dx0[i] = a;
        dx1[i] = b;
        a *= per_x0[i];
        b *= per_x1[i];
        worst_x = a < worst_x ? a : worst_x;
        worst_x = b < worst_x ? b : worst_x;
        a = d * per_z0[i];
        b = -d * per_z1[i];
        worst_z = a < worst_z ? a : worst_z;
        worst_z = b < worst_z ? b : worst_z;
    }
    *least_x = worst_x;
    *least_z = worst_z;
}

/* Σ of the products after a step of these lengths. */
EVERY_PROCESSOR
static double products_after(ptrdiff_t m, double primal, double dual, const double *restrict x0,
                             const double *restrict x1, const double *restrict z0,
                             const double *restrict z1, const double *restrict dx0,
                             const double *restrict dx1, const double *restrict dz) {
    double sum = 0.0;
#pragma omp simd reduction(+ : sum)
    for (ptrdiff_t i = 0; i < m; i++)
        sum += (x0[i] + primal * dx0[i]) * (z0[i] + dual * dz[i]) +
               (x1[i] + primal * dx1[i]) * (z1[i] - dual * dz[i]);
    return sum;
}

/* Take the step; returns Σ of the products, and Σ c ξ in *hinges. */
EVERY_PROCESSOR
static double move_rows(ptrdiff_t m, double primal, double dual, const double *restrict c,
                        const double *restrict slide, const double *restrict dx0,
                        const double *restrict dx1, const double *restrict dz,
                        double *restrict r, double *restrict x0, double *restrict x1,
                        double *restrict z0, double *restrict z1, double *hinges) {
    double sum = 0.0, cost = 0.0;
#pragma omp simd reduction(+ : sum, cost)
    for (ptrdiff_t i = 0; i < m; i++) {
        r[i] -= primal * slide[i];
        x0[i] += primal * dx0[i];
        x1[i] += primal * dx1[i];
        z0[i] += dual * dz[i];
        z1[i] -= dual * dz[i];
        sum += x0[i] * z0[i] + x1[i] * z1[i];
        cost += c[i] * x1[i];
    }
    *hinges = cost;
    return sum;
}

/* Slopes α of the smoothed hinges at the residuals r − step·slide; how many are in the band. */
EVERY_PROCESSOR
static double smoothed_slopes(ptrdiff_t m, double band, double step, const double *restrict r,
                              const double *restrict slide, const double *restrict c,
                              double *restrict ahead, double *restrict alpha) {
    double inside = 0.0, per_band = 0.5 / band;
#pragma omp simd reduction(+ : inside)
    for (ptrdiff_t i = 0; i < m; i++) {
        double now = r[i] - step * slide[i], share = 0.5 + now * per_band;
        share = share < 0.0 ? 0.0 : share;
        share = share > 1.0 ? 1.0 : share;
        ahead[i] = now;
        alpha[i] = share * c[i];
        inside += fabs(now) < band ? 1.0 : 0.0;
    }
    return inside;
}

EVERY_PROCESSOR
static double largest_size(ptrdiff_t m, const double *restrict x) {
    double most = 0.0;
#pragma omp simd reduction(max : most)
    for (ptrdiff_t i = 0; i < m; i++) {
        double size = fabs(x[i]);
        most = size > most ? size : most;
    }
    return most;
}

/* Products for few coordinates, where a call of BLAS costs more than its work. ------------------ */

/* Add A D Aᵀ to the lower triangle of H (column-major, size × size), for A of shape (size, m). */
EVERY_PROCESSOR
static void weighted_gram(ptrdiff_t m, ptrdiff_t size, const double *restrict A,
                          const double *restrict D, double *restrict H) {
    for (ptrdiff_t j = 0; j < size; j++)
        for (ptrdiff_t k = 0; k <= j; k++) {
            const double *restrict a = A + j * m, *restrict b = A + k * m;
            double sum = 0.0;
#pragma omp simd reduction(+ : sum)
            for (ptrdiff_t i = 0; i < m; i++) sum += a[i] * D[i] * b[i];
            H[k * size + j] += sum;
        }
}

EVERY_PROCESSOR
static void times_rows(ptrdiff_t m, ptrdiff_t size, const double *restrict A,
                       const double *restrict f, double *restrict out) {
    for (ptrdiff_t j = 0; j < size; j++) {
        const double *restrict a = A + j * m;
        double sum = 0.0;
#pragma omp simd reduction(+ : sum)
        for (ptrdiff_t i = 0; i < m; i++) sum += a[i] * f[i];
        out[j] = sum;
    }
}

EVERY_PROCESSOR
static void times_columns(ptrdiff_t m, ptrdiff_t size, const double *restrict A,
                          const double *restrict w, double *restrict out) {
#pragma omp simd
    for (ptrdiff_t i = 0; i < m; i++) out[i] = w[0] * A[i];
    for (ptrdiff_t j = 1; j < size; j++) {
        const double *restrict a = A + j * m;
        double factor = w[j];
#pragma omp simd
        for (ptrdiff_t i = 0; i < m; i++) out[i] += factor * a[i];
    }
}

/* Columns of A times the roots of their weights, for rows start … start + count, each followed by
   zeros up to `width`. */
EVERY_PROCESSOR
static void scaled_part(ptrdiff_t m, ptrdiff_t size, ptrdiff_t start, ptrdiff_t count,
                        ptrdiff_t width, const double *restrict A, const double *restrict root,
                        double *restrict out) {
    for (ptrdiff_t j = 0; j < size; j++) {
        const double *restrict a = A + j * m + start;
        double *restrict o = out + j * width;
#pragma omp simd
        for (ptrdiff_t i = 0; i < count; i++) o[i] = a[i] * root[start + i];
        for (ptrdiff_t i = count; i < width; i++) o[i] = 0.0;
    }
}

/* Add P Pᵀ to the lower triangle of H, for P of shape (size, width) and a width that is a multiple
   of LANES: sixteen products at a time, so that a number once read is used four times. */
#define LANES 4
#if defined(__GNUC__)
typedef double lanes __attribute__((vector_size(8 * LANES), aligned(8)));

EVERY_PROCESSOR
static void add_gram(ptrdiff_t width, ptrdiff_t size, const double *restrict P,
                     double *restrict H) {
    for (ptrdiff_t j = 0; j < size; j += 4)
        for (ptrdiff_t k = 0; k <= j; k += 4) {
            const double *a[4], *b[4];
            lanes sums[4][4] = {{{0.0}}};
            for (int q = 0; q < 4; q++) {  /* past the last one, that one again: not used */
                a[q] = P + (j + q < size ? j + q : size - 1) * width;
                b[q] = P + (k + q < size ? k + q : size - 1) * width;
            }
            for (ptrdiff_t i = 0; i < width; i += LANES) {
                lanes x[4];
                for (int q = 0; q < 4; q++) x[q] = *(const lanes *)(a[q] + i);
                for (int s = 0; s < 4; s++) {
                    lanes y = *(const lanes *)(b[s] + i);
                    for (int q = 0; q < 4; q++) sums[q][s] += x[q] * y;
                }
            }
            for (int q = 0; q < 4 && j + q < size; q++)
                for (int s = 0; s < 4 && k + s <= j + q; s++) {
                    lanes sum = sums[q][s];
                    H[(k + s) * size + j + q] += (sum[0] + sum[1]) + (sum[2] + sum[3]);
                }
        }
}
#else
static void add_gram(ptrdiff_t width, ptrdiff_t size, const double *restrict P,
                     double *restrict H) {
    for (ptrdiff_t j = 0; j < size; j++)
        for (ptrdiff_t k = 0; k <= j; k++) {
            double sum = 0.0;
#pragma omp simd reduction(+ : sum)
            for (ptrdiff_t i = 0; i < width; i++) sum += P[j * width + i] * P[k * width + i];
            H[k * size + j] += sum;
        }
}
#endif

EVERY_PROCESSOR
static void roots_of(ptrdiff_t m, const double *restrict D, double *restrict root) {
#pragma omp simd
    for (ptrdiff_t i = 0; i < m; i++) root[i] = sqrt(D[i]);
}

#endif
