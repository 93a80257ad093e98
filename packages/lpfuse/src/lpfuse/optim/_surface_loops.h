/* Loops over the rows of a model: formulas of `surface.py`, one row after the other. */

#ifndef LPFUSE_SURFACE_LOOPS_H
#define LPFUSE_SURFACE_LOOPS_H

#include "_newton_loops.h"

/* r becomes 1 − margin; α = clip(α₀ + c r/2δ, 0, c); returns Σ α r − (α − α₀)² δ/c. */
EVERY_PROCESSOR
static double rounded_hinges(ptrdiff_t m, double band, const double *restrict c,
                             const double *restrict at, const double *restrict r,
                             double *restrict alpha) {
    double sum = 0.0, half = 0.5 / band;
#pragma omp simd reduction(+ : sum)
    for (ptrdiff_t i = 0; i < m; i++) {
        double a = at[i] + c[i] * half * r[i];
        a = a > 0.0 ? a : 0.0;
        a = a < c[i] ? a : c[i];
        alpha[i] = a;
        sum += a * r[i] - (a - at[i]) * (a - at[i]) * band / c[i];
    }
    return sum;
}

EVERY_PROCESSOR
static void one_less(ptrdiff_t m, double *restrict r) {
#pragma omp simd
    for (ptrdiff_t i = 0; i < m; i++)
        r[i] = 1.0 - r[i];
}

/* Σ c max(r, 0). */
EVERY_PROCESSOR
static double hinges_of(ptrdiff_t m, const double *restrict c, const double *restrict r) {
    double sum = 0.0;
#pragma omp simd reduction(+ : sum)
    for (ptrdiff_t i = 0; i < m; i++)
        sum += c[i] * (r[i] > 0.0 ? r[i] : 0.0);
    return sum;
}

/* How many r are smaller than the band, by size. */
EVERY_PROCESSOR
static double n_smaller(ptrdiff_t m, double band, const double *restrict r) {
    double count = 0.0;
#pragma omp simd reduction(+ : count)
    for (ptrdiff_t i = 0; i < m; i++)
        count += fabs(r[i]) < band ? 1.0 : 0.0;
    return count;
}

#endif
