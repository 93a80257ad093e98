/* The k-th nearest of many rows: candidates by products in single precision, told apart by
   differences in double precision.

   Single precision is off by no more than `slack`. So a row is nearer than the k-th one for sure
   where its value is below that of the k-th by more than two slacks, and farther where it is above
   by as much. Rows between are compared by differences, which decide: the result is exact. */

#ifndef LPFUSE_NEIGHBOURS_H
#define LPFUSE_NEIGHBOURS_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

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

#define PART 64     /* values of which the least is known */
#define FEW 16      /* neighbours that a list holds */
#define DIRECTLY 64 /* anchors up to which distances are computed in double precision at once */

typedef struct {
    double square;
    int64_t place;
} Candidate;

/* The anchors of a subset of the columns. */
typedef struct {
    const double *rows; /* all rows, d numbers each */
    ptrdiff_t d;
    const int64_t *sample; /* which rows are anchors */
    ptrdiff_t size;
    const int64_t *columns; /* which columns count; NULL: all */
    ptrdiff_t K;
} Anchors;

static int by_square(const void *left, const void *right)
{
    double a = ((const Candidate *)left)->square, b = ((const Candidate *)right)->square;
    return (a > b) - (a < b);
}

EVERY_PROCESSOR
static double square_of_all(const double *x, const double *row, ptrdiff_t d)
{
    double sum = 0.0;
#pragma omp simd reduction(+ : sum)
    for (ptrdiff_t j = 0; j < d; j++)
        sum += (x[j] - row[j]) * (x[j] - row[j]);
    return sum;
}

static double square_of(const double *x, const Anchors *anchors, int64_t place)
{
    const double *row = anchors->rows + anchors->sample[place] * anchors->d;
    double sum = 0.0;
    if (!anchors->columns)
        return square_of_all(x, row, anchors->d);
    for (ptrdiff_t j = 0; j < anchors->K; j++) {
        double apart = x[anchors->columns[j]] - row[anchors->columns[j]];
        sum += apart * apart;
    }
    return sum;
}

/* The least value of each part of `PART` values; also the least of all. */
EVERY_PROCESSOR
static float least_of_parts(const float *values, ptrdiff_t n, float *least)
{
    float all = INFINITY;
    for (ptrdiff_t start = 0, part = 0; start < n; start += PART, part++) {
        const float *some = values + start;
        ptrdiff_t m = n - start < PART ? n - start : PART;
        float low = INFINITY;
#pragma omp simd reduction(min : low)
        for (ptrdiff_t j = 0; j < m; j++)
            low = some[j] < low ? some[j] : low;
        least[part] = low;
        all = low < all ? low : all;
    }
    return all;
}

/* The k-th smallest value, k at most `FEW`. */
static float kth_of_few(const float *values, ptrdiff_t n, const float *least, ptrdiff_t k)
{
    float best[FEW];
    for (ptrdiff_t j = 0; j < k; j++)
        best[j] = INFINITY;
    for (ptrdiff_t start = 0, part = 0; start < n; start += PART, part++) {
        if (!(least[part] < best[k - 1]))
            continue;
        ptrdiff_t stop = start + PART < n ? start + PART : n;
        for (ptrdiff_t i = start; i < stop; i++) {
            float value = values[i];
            if (value < best[k - 1]) {
                ptrdiff_t j = k - 1;
                for (; j > 0 && best[j - 1] > value; j--)
                    best[j] = best[j - 1];
                best[j] = value;
            }
        }
    }
    return best[k - 1];
}

EVERY_PROCESSOR
static int32_t count_up_to(const float *values, ptrdiff_t n, float bound)
{
    int32_t count = 0;
#pragma omp simd reduction(+ : count)
    for (ptrdiff_t i = 0; i < n; i++)
        count += values[i] <= bound;
    return count;
}

EVERY_PROCESSOR
static float largest_finite(const float *values, ptrdiff_t n, float start)
{
    float all = start;
#pragma omp simd reduction(max : all)
    for (ptrdiff_t i = 0; i < n; i++) {
        float value = values[i] < INFINITY ? values[i] : start;
        all = value > all ? value : all;
    }
    return all;
}

/* Two values with the k-th smallest between them, or equal to the second: few others are. */
static void around_kth(const float *values, ptrdiff_t n, ptrdiff_t k, double slack, double *low,
                       double *high)
{
    float below = (float)*low, up_to = largest_finite(values, n, below);
    int32_t less = 0, enough = (int32_t)n;
    if (count_up_to(values, n, below) >= k)
        up_to = below;
    for (int step = 0; step < 64 && up_to - below > slack && enough - less > 2; step++) {
        float middle = below + (up_to - below) / 2;
        int32_t count = count_up_to(values, n, middle);
        if (count >= k) {
            up_to = middle;
            enough = count;
        } else {
            below = middle;
            less = count;
        }
    }
    *low = below;
    *high = up_to;
}

/* The k nearest anchors of a row, the k-th one last; `values` are off by `slack` at most.

   With `every` all k are written, else the last one alone, where the k-th one is. */
static void nearest(const double *x, const Anchors *anchors, const float *values, double slack,
                    ptrdiff_t k, int every, float *least, int32_t *listed, Candidate *found)
{
    ptrdiff_t n = anchors->size, sure = 0, open = 0, count = 0;
    double low = least_of_parts(values, n, least), high = low;
    if (k > FEW)
        around_kth(values, n, k, slack, &low, &high);
    else if (k > 1)
        low = high = kth_of_few(values, n, least, k);
    low -= 2.0 * slack;
    high += 2.0 * slack;
    for (ptrdiff_t start = 0, part = 0; start < n; start += PART, part++) {
        if (least[part] > high)
            continue;
        ptrdiff_t stop = start + PART < n ? start + PART : n;
        for (ptrdiff_t i = start; i < stop; i++) { /* without a branch, which would be guessed wrong */
            listed[count] = (int32_t)i;
            sure += values[i] < low;
            count += (values[i] <= high) & (values[i] < INFINITY) & (every | (values[i] >= low));
        }
    }
    Candidate *between = found + sure;
    for (ptrdiff_t j = 0, placed = 0; j < count; j++) {
        int64_t i = listed[j];
        Candidate one = {square_of(x, anchors, i), i};
        if (values[i] < low) {
            found[placed++] = one;
        } else if (k > 1) {
            between[open++] = one;
        } else if (!open || one.square < between[0].square) {
            between[0] = one;
            open = 1;
        }
    }
    if (open > 1)
        qsort(between, open, sizeof(Candidate), by_square);
}

/* The squared distance to the k-th of a few anchors, whose columns lie side by side. */
EVERY_PROCESSOR
static double kth_directly(const double *x, const Anchors *anchors, const double *side_by_side,
                           ptrdiff_t k, ptrdiff_t own)
{
    double squares[DIRECTLY] = {0.0};
    ptrdiff_t n = anchors->size;
    for (ptrdiff_t c = 0; c < anchors->K; c++) {
        double value = x[anchors->columns ? anchors->columns[c] : c];
        const double *column = side_by_side + c * n;
#pragma omp simd
        for (ptrdiff_t i = 0; i < n; i++)
            squares[i] += (value - column[i]) * (value - column[i]);
    }
    if (own >= 0)
        squares[own] = INFINITY;
    for (ptrdiff_t j = 0;; j++) {
        ptrdiff_t first = j;
        for (ptrdiff_t i = j + 1; i < n; i++)
            if (squares[i] < squares[first])
                first = i;
        if (j == k - 1)
            return squares[first];
        double swapped = squares[j];
        squares[j] = squares[first];
        squares[first] = swapped;
    }
}

#endif
