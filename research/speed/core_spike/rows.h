/* The loops of the rows' part of a step, for the forms in Cython and in C++. */
#ifndef CORE_SPIKE_ROWS_H
#define CORE_SPIKE_ROWS_H

#ifdef __cplusplus
#define restrict __restrict
#endif
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && defined(__gnu_linux__)
#define FOR_EACH_CPU __attribute__((target_clones("default", "avx2", "avx512f")))
#else
#define FOR_EACH_CPU
#endif

#include <math.h>

/* D = 1 / (s/alpha + xi/(c - alpha)), and the rows scaled by its root. x and z hold (2, m). */
FOR_EACH_CPU static void scale_rows(long m, long R, const double *restrict columns,
                                    const double *restrict x, const double *restrict z,
                                    double *restrict ratio, double *restrict D,
                                    double *restrict root, double *restrict scaled)
{
#pragma omp simd
    for (long i = 0; i < m; i++) {
        ratio[i] = x[i] / z[i];
        ratio[m + i] = x[m + i] / z[m + i];
        D[i] = 1.0 / (ratio[i] + ratio[m + i]);
        root[i] = sqrt(D[i]);
    }
    for (long j = 0; j < R; j++) {
#pragma omp simd
        for (long i = 0; i < m; i++)
            scaled[j * m + i] = columns[j * m + i] * root[i];
    }
}

/* force = D (r + t1 - t2). */
FOR_EACH_CPU static void push_rows(long m, const double *restrict residual,
                                   const double *restrict target, const double *restrict D,
                                   double *restrict force)
{
#pragma omp simd
    for (long i = 0; i < m; i++)
        force[i] = D[i] * (residual[i] + (target[i] - target[m + i]));
}

/* dx and dz of both pairs; the steepest falls dx/x and dz/z into `worst`. */
FOR_EACH_CPU static void turn_rows(long m, const double *restrict x, const double *restrict z,
                                   const double *restrict ratio, const double *restrict D,
                                   const double *restrict force, const double *restrict target,
                                   const double *restrict slide, double *restrict dx,
                                   double *restrict dz, double *restrict worst)
{
    double primal = 0.0, dual = 0.0;
#pragma omp simd reduction(min : primal, dual)
    for (long i = 0; i < m; i++) {
        const double d_alpha = force[i] - D[i] * slide[i];
        const double ds = target[i] - x[i] - ratio[i] * d_alpha;
        const double dxi = target[m + i] - x[m + i] + ratio[m + i] * d_alpha;
        const double p1 = ds / x[i], p2 = dxi / x[m + i];
        const double d1 = d_alpha / z[i], d2 = -d_alpha / z[m + i];
        dz[i] = d_alpha;
        dz[m + i] = -d_alpha;
        dx[i] = ds;
        dx[m + i] = dxi;
        const double p = p1 < p2 ? p1 : p2, d = d1 < d2 ? d1 : d2;
        primal = p < primal ? p : primal;
        dual = d < dual ? d : dual;
    }
    worst[0] = primal;
    worst[1] = dual;
}

/* Targets of the corrector, divided by z: (mu - dx dz) / z. */
FOR_EACH_CPU static void aim_rows(long m, double mu, const double *restrict dx,
                                  const double *restrict dz, const double *restrict z,
                                  double *restrict target)
{
#pragma omp simd
    for (long i = 0; i < 2 * m; i++)
        target[i] = (mu - dx[i] * dz[i]) / z[i];
}

FOR_EACH_CPU static void move_rows(long m, double primal, double dual, const double *restrict dx,
                                   const double *restrict dz, const double *restrict slide,
                                   double *restrict x, double *restrict z,
                                   double *restrict residual)
{
#pragma omp simd
    for (long i = 0; i < 2 * m; i++) {
        x[i] += primal * dx[i];
        z[i] += dual * dz[i];
    }
#pragma omp simd
    for (long i = 0; i < m; i++)
        residual[i] -= primal * slide[i];
}

#endif
