/* Regression trees of several outputs with random thresholds: those of scikit-learn's
   DecisionTreeRegressor(splitter="random"), which draws from the same generator in the same order.

   Every column that varies gets one random threshold in a node, and the best of them splits it: the
   largest |L|²/n_L + |R|²/n_R, with the sums of the outputs on both sides. These are compared in
   single precision first, and in double precision where they differ by less than its rounding. */

#ifndef LPFUSE_TREES_H
#define LPFUSE_TREES_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
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

#define CONSTANT 1e-7f  /* a range up to which a column is taken for constant */
#define PURE 2.220446049250313e-16
#define ROUNDING 9.5367431640625e-07 /* 2⁻²⁰: sixteen times that of single precision */
#define LARGEST_DRAW 2147483647.0

/* Rows to learn from. */
typedef struct {
    ptrdiff_t n, inputs, outputs, width; /* width: outputs, rounded up */
    ptrdiff_t most;                      /* columns tried in a node; of those that vary, one or more */
    const float *columns;                /* (inputs, n) */
    const double *targets;               /* (n, outputs) */
    const float *rounded;                /* (n, width), the same in single precision */
    const double *squares;               /* (n,), their squared lengths */
    const double *told;                  /* (n, values): what leaves hold the means of */
    ptrdiff_t values;
} Learners;

/* Memory for one node. */
typedef struct {
    int32_t *order, *lefts, *rights; /* (n,) */
    float *values;                   /* (n,) */
    int64_t *features, *constants;   /* (inputs,) */
    int64_t *tried, *counts;         /* (inputs,) */
    double *thresholds, *gains;      /* (inputs,) */
    float *sum, *whole;              /* (width,) */
    double *total, *left, *sizes;    /* (outputs,) */
} Memory;

/* Nodes in the order in which they are made; of leaves alone the value is computed. */
typedef struct {
    int64_t *left, *right, *feature, *samples;
    double *threshold, *value;
} Tree;

typedef struct {
    int64_t start, stop, depth, parent, is_left, constants;
    double impurity;
} Waiting;

static uint32_t draw(uint32_t *state)
{
    if (*state == 0)
        *state = 1;
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state % 2147483648u;
}

EVERY_PROCESSOR
static void extremes(const float *column, const int32_t *order, ptrdiff_t n, float *values,
                     float *low, float *high)
{
    float least = INFINITY, most = -INFINITY;
    for (ptrdiff_t i = 0; i < n; i++)
        values[i] = column[order[i]];
#pragma omp simd reduction(min : least) reduction(max : most)
    for (ptrdiff_t i = 0; i < n; i++) {
        least = values[i] < least ? values[i] : least;
        most = values[i] > most ? values[i] : most;
    }
    *low = least;
    *high = most;
}

/* The largest number in single precision that is no larger. */
static float rounded_down(double threshold)
{
    float found = (float)threshold;
    return (double)found > threshold ? nextafterf(found, -INFINITY) : found;
}

/* Deals rows out to the sides of a threshold; returns how many are left of it. */
static ptrdiff_t deal_out(const float *values, const int32_t *order, ptrdiff_t n, float bound,
                          int32_t *lefts, int32_t *rights)
{
    ptrdiff_t left = 0;
    for (ptrdiff_t i = 0; i < n; i++) { /* without a branch, which would be guessed wrong */
        lefts[left] = order[i];
        rights[i - left] = order[i];
        left += values[i] <= bound;
    }
    return left;
}

/* |S|²/n + |T − S|²/m, for the sums S over n listed rows, and T over these and m others. */
EVERY_PROCESSOR
static double rough_gain(const float *rows, ptrdiff_t width, const int32_t *listed, ptrdiff_t n,
                         ptrdiff_t m, const float *whole, double square, float *sum)
{
    float own = 0.0f, along = 0.0f;
    memcpy(sum, rows + listed[0] * width, width * sizeof(float));
    for (ptrdiff_t i = 1; i < n; i++) {
        const float *row = rows + listed[i] * width;
#pragma omp simd
        for (ptrdiff_t k = 0; k < width; k++)
            sum[k] += row[k];
    }
#pragma omp simd reduction(+ : own, along)
    for (ptrdiff_t k = 0; k < width; k++) {
        own += sum[k] * sum[k];
        along += sum[k] * whole[k];
    }
    return own / (double)n + (square - 2.0 * along + own) / (double)m;
}

EVERY_PROCESSOR
static void add_rows(const double *rows, ptrdiff_t width, const int32_t *listed, ptrdiff_t n,
                     double *sum)
{
    memset(sum, 0, width * sizeof(double));
    for (ptrdiff_t i = 0; i < n; i++) {
        const double *row = rows + listed[i] * width;
#pragma omp simd
        for (ptrdiff_t k = 0; k < width; k++)
            sum[k] += row[k];
    }
}

EVERY_PROCESSOR
static double squared_total_of_sizes(const double *rows, ptrdiff_t width, const int32_t *listed,
                                     ptrdiff_t n, double *sizes)
{
    double all = 0.0;
    memset(sizes, 0, width * sizeof(double));
    for (ptrdiff_t i = 0; i < n; i++) {
        const double *row = rows + listed[i] * width;
#pragma omp simd
        for (ptrdiff_t k = 0; k < width; k++)
            sizes[k] += fabs(row[k]);
    }
    for (ptrdiff_t k = 0; k < width; k++)
        all += sizes[k] * sizes[k];
    return all;
}

static double exact_gain(const double *sum, const double *total, ptrdiff_t outputs, double n, double m)
{
    double own = 0.0, other = 0.0;
    for (ptrdiff_t k = 0; k < outputs; k++) {
        double there = total[k] - sum[k];
        own += sum[k] * sum[k];
        other += there * there;
    }
    return own / n + other / m;
}

static double impurity_of(double squares, const double *sum, ptrdiff_t outputs, double n)
{
    double found = squares / n;
    for (ptrdiff_t k = 0; k < outputs; k++)
        found -= sum[k] / n * (sum[k] / n);
    return found / outputs;
}

/* Sums of the outputs left of a column's threshold, from the smaller side. */
static ptrdiff_t sums_left(const Learners *rows, const Memory *memory, const int32_t *order,
                           ptrdiff_t n, int64_t feature, double threshold, double *sum)
{
    float low, high;
    extremes(rows->columns + feature * rows->n, order, n, memory->values, &low, &high);
    ptrdiff_t left = deal_out(memory->values, order, n, rounded_down(threshold), memory->lefts, memory->rights);
    if (left <= n - left) {
        add_rows(rows->targets, rows->outputs, memory->lefts, left, sum);
        return left;
    }
    add_rows(rows->targets, rows->outputs, memory->rights, n - left, sum);
    for (ptrdiff_t k = 0; k < rows->outputs; k++)
        sum[k] = memory->total[k] - sum[k];
    return left;
}

/* Splits a node at the best of random thresholds; false where none leaves `fewest` rows on both
   sides. `left` then holds the sums of the outputs there. */
static int split(const Learners *rows, Memory *memory, int32_t *order, ptrdiff_t n, ptrdiff_t fewest,
                 int64_t *constants, uint32_t *state, int64_t *feature, double *threshold,
                 ptrdiff_t *lefts)
{
    int64_t *features = memory->features;
    ptrdiff_t open = rows->inputs, drawn = 0, known = *constants, found = 0, tried = 0;
    double best = -INFINITY, square = 0.0, slack;
    slack = ROUNDING * squared_total_of_sizes(rows->targets, rows->outputs, order, n, memory->sizes);
    for (ptrdiff_t k = 0; k < rows->outputs; k++) {
        memory->whole[k] = (float)memory->total[k];
        square += memory->total[k] * memory->total[k];
    }
    for (ptrdiff_t visited = 0; open > known + found && (visited < rows->most || visited <= found + drawn); visited++) {
        ptrdiff_t j = drawn + draw(state) % (open - found - drawn);
        if (j < known) {
            int64_t swapped = features[drawn];
            features[drawn++] = features[j];
            features[j] = swapped;
            continue;
        }
        j += found;
        int64_t f = features[j];
        float low, high;
        extremes(rows->columns + f * rows->n, order, n, memory->values, &low, &high);
        if (high <= low + CONSTANT) {
            features[j] = features[known + found];
            features[known + found++] = f;
            continue;
        }
        features[j] = features[--open];
        features[open] = f;
        double at = ((double)high - (double)low) * draw(state) / LARGEST_DRAW + low;
        if (at == high)
            at = low;
        float bound = rounded_down(at);
        ptrdiff_t here = deal_out(memory->values, order, n, bound, memory->lefts, memory->rights);
        ptrdiff_t smaller = here <= n - here ? here : n - here;
        if (smaller < fewest)
            continue;
        const int32_t *side = here <= n - here ? memory->lefts : memory->rights;
        double gain = rough_gain(rows->rounded, rows->width, side, smaller, n - smaller, memory->whole, square, memory->sum);
        memory->thresholds[tried] = at;
        memory->gains[tried] = gain;
        memory->counts[tried] = here;
        memory->tried[tried++] = f;
        best = gain > best ? gain : best;
    }
    memcpy(features, memory->constants, known * sizeof(int64_t));
    memcpy(memory->constants + known, features + known, found * sizeof(int64_t));
    *constants = known + found;
    if (!tried)
        return 0;
    /* The first of the best; where others are close, by the exact gain. */
    ptrdiff_t chosen = -1, close = 0;
    for (ptrdiff_t t = tried - 1; t >= 0; t--) {
        close += memory->gains[t] < best && !(memory->gains[t] < best - 2.0 * slack);
        chosen = memory->gains[t] == best || chosen < 0 ? t : chosen;
    }
    double exact = -INFINITY;
    for (ptrdiff_t t = 0; close && t < tried; t++) {
        if (memory->gains[t] < best - 2.0 * slack)
            continue;
        ptrdiff_t here = sums_left(rows, memory, order, n, memory->tried[t], memory->thresholds[t], memory->left);
        double gain = exact_gain(memory->left, memory->total, rows->outputs, here, n - here);
        if (gain > exact) {
            exact = gain;
            chosen = t;
        }
    }
    *feature = memory->tried[chosen];
    *threshold = memory->thresholds[chosen];
    *lefts = sums_left(rows, memory, order, n, *feature, *threshold, memory->left);
    memcpy(order, memory->lefts, *lefts * sizeof(int32_t)); /* each side in its order */
    memcpy(order + *lefts, memory->rights, (n - *lefts) * sizeof(int32_t));
    return 1;
}

/* Grows a tree, depth first, left before right; returns the number of nodes. */
static ptrdiff_t grow(const Learners *rows, Memory *memory, ptrdiff_t fewest, uint32_t state,
                      Waiting *stack, Tree *tree, int64_t *deepest)
{
    ptrdiff_t waiting = 1, nodes = 0, outputs = rows->outputs;
    for (ptrdiff_t i = 0; i < rows->n; i++)
        memory->order[i] = (int32_t)i;
    for (ptrdiff_t f = 0; f < rows->inputs; f++)
        memory->features[f] = f;
    stack[0] = (Waiting){0, rows->n, 0, -1, 0, 0, INFINITY};
    *deepest = 0;
    while (waiting) {
        Waiting now = stack[--waiting];
        int32_t *order = memory->order + now.start;
        int64_t feature = -2, constants = now.constants;
        ptrdiff_t n = now.stop - now.start, lefts = 0;
        double squares = 0.0, threshold = -2.0;
        add_rows(rows->targets, outputs, order, n, memory->total);
        for (ptrdiff_t i = 0; i < n; i++)
            squares += rows->squares[order[i]];
        if (now.parent < 0)
            now.impurity = impurity_of(squares, memory->total, outputs, n);
        int inner = n >= 2 && n >= 2 * fewest && !(now.impurity <= PURE);
        inner = inner && split(rows, memory, order, n, fewest, &constants, &state, &feature, &threshold, &lefts);
        ptrdiff_t node = nodes++;
        tree->feature[node] = feature;
        tree->threshold[node] = threshold;
        tree->samples[node] = n;
        tree->left[node] = tree->right[node] = -1;
        double *value = tree->value + node * rows->values;
        add_rows(rows->told, rows->values, order, inner ? 0 : n, value);
        for (ptrdiff_t k = 0; k < rows->values; k++)
            value[k] /= n;
        if (now.parent >= 0)
            (now.is_left ? tree->left : tree->right)[now.parent] = node;
        *deepest = now.depth > *deepest ? now.depth : *deepest;
        if (!inner)
            continue;
        double of_left = 0.0;
        for (ptrdiff_t i = 0; i < lefts; i++)
            of_left += rows->squares[order[i]];
        double left = impurity_of(of_left, memory->left, outputs, lefts);
        for (ptrdiff_t k = 0; k < outputs; k++)
            memory->left[k] = memory->total[k] - memory->left[k];
        double right = impurity_of(squares - of_left, memory->left, outputs, n - lefts);
        int64_t middle = now.start + lefts;
        stack[waiting++] = (Waiting){middle, now.stop, now.depth + 1, node, 0, constants, right};
        stack[waiting++] = (Waiting){now.start, middle, now.depth + 1, node, 1, constants, left};
    }
    return nodes;
}

#endif
