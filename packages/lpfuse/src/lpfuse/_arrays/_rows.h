/* A block of rows of scores, read from memory once: residuals r = 1 − y (sᵀw + b), Σ c α y s, and
   what vectors with one entry a row add up to.

   Rounding: sᵀw is a sum of R products, in some order. Sums over rows are those of chunks of at most
   CHUNK_ROWS rows, added up chunk after chunk: `optim._bounds.in_a_row` counts on it. */

#ifndef LPFUSE_ROWS_H
#define LPFUSE_ROWS_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(_MSC_VER) && !defined(__clang__)
#define restrict __restrict
#endif

/* One function for each kind of processor, chosen when the library is loaded. */
#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 12
#include <features.h>
#if defined(__GLIBC__)
#define EVERY_PROCESSOR __attribute__((target_clones("default", "arch=x86-64-v3")))
#endif
#endif
#ifndef EVERY_PROCESSOR
#define EVERY_PROCESSOR
#endif

#define CHUNK_ROWS 1024
/* Rows that are at hand between their two uses. On 1,000,000 x 36 and 281,250 x 128 scores 4 KiB
   and 8 KiB took 1.3 and 1.35 times as long as one read; 16 KiB, half of the first cache, 1.6. */
#define TILE_BYTES 8192
#define TILE_ROWS 64

typedef struct {
    ptrdiff_t m, R, stride; /* rows, scores a row, and from one row to the next */
    const double *y, *c;    /* labels and costs; NULL: all 1 */
} Rows;

typedef struct {
    const double *w;
    double b;
    const double *alpha; /* multipliers; NULL: 1 where r > band, else 0 */
    double band;
} Point;

typedef struct {
    double *r;       /* (m,) */
    double *pull;    /* (R,), at 0; NULL: not wanted */
    double *size;    /* the largest |s|; NULL: not wanted */
    double *scratch; /* (R,) */
} Sums;

#define NUMBER double
#define NAME(x) x##_double
#define TARGET
#define LANES 2
#include "_rows_loops.h"
#undef NUMBER
#undef NAME
#define NUMBER float
#define NAME(x) x##_float
#include "_rows_loops.h"
#undef NUMBER
#undef NAME
#undef TARGET
#undef LANES

/* A second form for processors with AVX2, chosen at run time. Vectors of AVX-512 were not faster:
   memory sets the pace. */
#if defined(__x86_64__) && defined(__GNUC__)
#define LPFUSE_WIDE 1
#define NUMBER double
#define NAME(x) x##_double_wide
#define TARGET __attribute__((target("avx2,fma")))
#define LANES 4
#include "_rows_loops.h"
#undef NUMBER
#undef NAME
#define NUMBER float
#define NAME(x) x##_float_wide
#include "_rows_loops.h"
#undef NUMBER
#undef NAME
#undef TARGET
#undef LANES
#endif

/* Whether the processor has what the wide form needs. */
static int wide_vectors(void) {
#if defined(LPFUSE_WIDE)
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
    return 0;
#endif
}

static void read_rows(const void *S, int is_float, int wide, Rows rows, Point point, Sums sums) {
#if defined(LPFUSE_WIDE)
    if (wide && is_float) read_rows_float_wide((const float *)S, rows, point, sums);
    else if (wide) read_rows_double_wide((const double *)S, rows, point, sums);
    else
#endif
    if (is_float) read_rows_float((const float *)S, rows, point, sums);
    else read_rows_double((const double *)S, rows, point, sums);
    (void)wide;
}

/* The largest |s| of each row. */
static void sizes_of_rows(const void *S, int is_float, Rows rows, double *restrict sizes) {
    const double *s = (const double *)S;
    const float *t = (const float *)S;
    if (is_float)
        for (ptrdiff_t i = 0; i < rows.m; i++)
            sizes[i] = largest_float(t + i * rows.stride, rows.R, 0.0);
    else
        for (ptrdiff_t i = 0; i < rows.m; i++)
            sizes[i] = largest_double(s + i * rows.stride, rows.R, 0.0);
}

/* Append the positions of zeros: most groups of eight have none, which one comparison tells. */
static inline ptrdiff_t add_zeros(ptrdiff_t start, ptrdiff_t end, const int8_t *restrict side,
                                  int64_t *restrict found, ptrdiff_t count) {
    const uint64_t ones = 0x0101010101010101u, tops = 0x8080808080808080u;
    for (ptrdiff_t i = start; i < end; i += 8) {
        ptrdiff_t last = i + 8 < end ? i + 8 : end;
        uint64_t eight = 0;
        if (last == i + 8) memcpy(&eight, side + i, 8);
        if (!((eight - ones) & ~eight & tops)) continue;
        for (ptrdiff_t k = i; k < last; k++) {
            found[count] = k;
            count += side[k] == 0;
        }
    }
    return count;
}

/* Where rows lie at a band around the kink: side is +1 on the rising piece, −1 at zero or without
   cost, 0 near; `near` gets the positions of the latter, unless it is NULL. Returns how many they are; sums: Σ c max(0,
   r), and Σ c and Σ c y over rows with r > beyond. */
EVERY_PROCESSOR static ptrdiff_t sides_of(ptrdiff_t m, const double *restrict r, const double *restrict y,
                          const double *restrict c, double band, double beyond,
                          int8_t *restrict side,
                          int64_t *restrict near, double *restrict sums) {
    ptrdiff_t count = 0;
    sums[0] = sums[1] = sums[2] = 0.0;
    for (ptrdiff_t start = 0; start < m; start += CHUNK_ROWS) {
        ptrdiff_t end = start + CHUNK_ROWS < m ? start + CHUNK_ROWS : m;
        double value = 0.0, rising = 0.0, signed_sum = 0.0;
#define ADD_SIDES(cost, label)                                           \
    for (ptrdiff_t i = start; i < end; i++) {                            \
        double up = r[i] > beyond ? (cost) : 0.0;                        \
        value += (cost) * (r[i] <= 0.0 ? 0.0 : r[i]);                    \
        rising += up;                                                    \
        signed_sum += (label) * up;                                      \
    }
#define SET_SIDES(idle)                                                       \
    for (ptrdiff_t i = start; i < end; i++)                                   \
        side[i] = (int8_t)((idle) ? -1 : (r[i] > band) - (r[i] < -band));
        if (c && y) {
#pragma omp simd reduction(+ : value, rising, signed_sum)
            ADD_SIDES(c[i], y[i])
        } else if (c) {
#pragma omp simd reduction(+ : value, rising, signed_sum)
            ADD_SIDES(c[i], 1.0)
        } else if (y) {
#pragma omp simd reduction(+ : value, rising, signed_sum)
            ADD_SIDES(1.0, y[i])
        } else {
#pragma omp simd reduction(+ : value, rising, signed_sum)
            ADD_SIDES(1.0, 1.0)
        }
        sums[0] += value, sums[1] += rising, sums[2] += signed_sum;
        if (c) {
#pragma omp simd
            SET_SIDES(c[i] == 0.0)
        } else {
#pragma omp simd
            SET_SIDES(0)
        }
        if (near) count = add_zeros(start, end, side, near, count);
    }
    return count;
}

/* Σ c max(0, r), and the same where each r is larger by `off` and by two roundings of itself. */
EVERY_PROCESSOR static void hinge_sums(ptrdiff_t m, const double *restrict r, const double *restrict c, double off,
                       double rounding, double *restrict sums) {
    sums[0] = sums[1] = 0.0;
    for (ptrdiff_t start = 0; start < m; start += CHUNK_ROWS) {
        ptrdiff_t end = start + CHUNK_ROWS < m ? start + CHUNK_ROWS : m;
        double value = 0.0, highest = 0.0;
#define ADD_HINGES(cost)                                                   \
    for (ptrdiff_t i = start; i < end; i++) {                              \
        double high = r[i] + (off + rounding * fabs(r[i]));                \
        value += (cost) * (r[i] <= 0.0 ? 0.0 : r[i]); /* NaN is not lost */ \
        highest += (cost) * (high <= 0.0 ? 0.0 : high);                    \
    }
        if (c) {
#pragma omp simd reduction(+ : value, highest)
            ADD_HINGES(c[i])
        } else {
#pragma omp simd reduction(+ : value, highest)
            ADD_HINGES(1.0)
        }
        sums[0] += value, sums[1] += highest;
    }
}

/* Σ c α and Σ c |α|, and the least and the largest α: NaN where one is NaN. */
EVERY_PROCESSOR static void multiplier_sums(ptrdiff_t m, const double *restrict alpha, const double *restrict c,
                            double *restrict sums) {
    double low = INFINITY, high = -INFINITY;
    sums[0] = sums[1] = 0.0;
    for (ptrdiff_t start = 0; start < m; start += CHUNK_ROWS) {
        ptrdiff_t end = start + CHUNK_ROWS < m ? start + CHUNK_ROWS : m;
        double net = 0.0, mass = 0.0, least = low, most = high, odd = 0.0;
#define ADD_MULTIPLIERS(cost)                  \
    for (ptrdiff_t i = start; i < end; i++) {  \
        double a = alpha[i], b = (cost) * a;   \
        net += b;                              \
        mass += fabs(b);                       \
        odd += a == a ? 0.0 : 1.0;             \
        least = a < least ? a : least;         \
        most = a > most ? a : most;            \
    }
        if (c) {
#pragma omp simd reduction(+ : net, mass, odd) reduction(min : least) reduction(max : most)
            ADD_MULTIPLIERS(c[i])
        } else {
#pragma omp simd reduction(+ : net, mass, odd) reduction(min : least) reduction(max : most)
            ADD_MULTIPLIERS(1.0)
        }
        sums[0] += net, sums[1] += mass;
        low = odd ? NAN : least, high = odd ? NAN : most;
        if (odd) break;
    }
    sums[2] = low, sums[3] = high;
}

/* Positions of rows with a cost and with α = 1 though r < 0, or α = 0 though r > 0. */
EVERY_PROCESSOR static ptrdiff_t crossed_rows(ptrdiff_t m, const double *restrict r, const double *restrict alpha,
                              const double *restrict c, int64_t *restrict found) {
    ptrdiff_t count = 0;
    int8_t right[CHUNK_ROWS];
    for (ptrdiff_t start = 0; start < m; start += CHUNK_ROWS) {
        ptrdiff_t end = start + CHUNK_ROWS < m ? start + CHUNK_ROWS : m, before = count;
#pragma omp simd
        for (ptrdiff_t i = start; i < end; i++) {
            int wrong = ((alpha[i] == 1.0) & (r[i] < 0.0)) | ((alpha[i] == 0.0) & (r[i] > 0.0));
            right[i - start] = (int8_t)!(wrong & (c ? c[i] > 0.0 : 1));
        }
        count = add_zeros(0, end - start, right, found, count);
        for (ptrdiff_t k = before; k < count; k++) found[k] += start;
    }
    return count;
}

/* Of rows in layers of |r|, from the kink outwards, every k-th of each. Returns how many those are;
   `counts` has all, and `left` how many are passed over before the next one is taken: both at 0. */
static ptrdiff_t layered_rows(ptrdiff_t m, const double *restrict r, const double *restrict c,
                              ptrdiff_t layers, const double *restrict bands,
                              const int64_t *restrict strides, int64_t *restrict counts,
                              int64_t *restrict left, int64_t *restrict found,
                              int64_t *restrict layer) {
    ptrdiff_t count = 0;
    for (ptrdiff_t i = 0; i < m; i++) {
        double size = fabs(r[i]);
        ptrdiff_t k = layers - 1;
        if (!(size <= bands[k]) || (c && !(c[i] > 0.0))) continue;
        while (k > 0 && size <= bands[k - 1]) k--;
        counts[k]++;
        if (left[k] == 0) {
            found[count] = i;
            layer[count] = k;
            count++;
            left[k] = strides[k];
        }
        left[k]--;
    }
    return count;
}

#endif
