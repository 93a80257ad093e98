/* Loops over rows of scores, for one type of score and one kind of processor: see `_rows.h`.

   NUMBER is the type of a score, NAME(x) the name of this form of a function, TARGET says for which
   processor, and LANES how many numbers it handles at a time. All sums are of double precision. */

#if defined(__GNUC__)

typedef double NAME(doubles) __attribute__((vector_size(8 * LANES), aligned(8), may_alias));
typedef NUMBER NAME(numbers)
    __attribute__((vector_size(sizeof(NUMBER) * LANES), aligned(sizeof(NUMBER)), may_alias));
typedef __typeof__((NAME(numbers)){0} > (NAME(numbers)){0}) NAME(bits);
#define DOUBLES(p) __builtin_convertvector(*(const NAME(numbers) *)(p), NAME(doubles))
#define WEIGHTS(p) (*(const NAME(doubles) *)(p))
#define SIZES(p) ((NAME(numbers))((NAME(bits))(*(const NAME(numbers) *)(p)) & ~(NAME(bits))(-(NAME(numbers)){0})))
#define KEEP_LARGER(m, x) { NAME(numbers) v = (x); NAME(bits) up = v > m; \
    m = (NAME(numbers))((up & (NAME(bits))v) | (~up & (NAME(bits))m)); }

/* sᵀw. Four sums side by side, and one row after the other: rows taken together would be read from
   several places at once, which a processor does not foresee as well as one stream. */
TARGET static inline double NAME(fused)(const NUMBER *s, ptrdiff_t R, const double *w) {
    NAME(doubles) a = {0}, b = {0}, c = {0}, d = {0};
    ptrdiff_t j = 0;
    for (; j + 4 * LANES <= R; j += 4 * LANES) {
        a += DOUBLES(s + j) * WEIGHTS(w + j);
        b += DOUBLES(s + j + LANES) * WEIGHTS(w + j + LANES);
        c += DOUBLES(s + j + 2 * LANES) * WEIGHTS(w + j + 2 * LANES);
        d += DOUBLES(s + j + 3 * LANES) * WEIGHTS(w + j + 3 * LANES);
    }
    for (; j + LANES <= R; j += LANES) a += DOUBLES(s + j) * WEIGHTS(w + j);
    a = (a + b) + (c + d);
    double sum = 0.0;
    for (int k = 0; k < LANES; k++) sum += a[k];
    for (; j < R; j++) sum += s[j] * w[j];
    return sum;
}

/* pull += g_1 s_1 + … + g_4 s_4: four rows at once, for then the sums are read and written once. */
TARGET static inline void NAME(pull_four)(const NUMBER *s, ptrdiff_t stride, ptrdiff_t R,
                                          const double *g, double *pull) {
    const NUMBER *t = s + stride, *u = t + stride, *v = u + stride;
    ptrdiff_t j = 0;
    for (; j + LANES <= R; j += LANES) {
        NAME(doubles) x = WEIGHTS(pull + j);
        x += DOUBLES(s + j) * g[0];
        x += DOUBLES(t + j) * g[1];
        x += DOUBLES(u + j) * g[2];
        x += DOUBLES(v + j) * g[3];
        *(NAME(doubles) *)(pull + j) = x;
    }
    for (; j < R; j++) pull[j] += (g[0] * s[j] + g[1] * t[j]) + (g[2] * u[j] + g[3] * v[j]);
}

/* The largest |s_j| of some consecutive numbers, or `top` where that is larger. */
TARGET static inline double NAME(largest)(const NUMBER *s, ptrdiff_t count, double top) {
    NAME(numbers) a = {0}, b = {0}, c = {0}, d = {0};
    ptrdiff_t j = 0;
    for (; j + 4 * LANES <= count; j += 4 * LANES) {
        KEEP_LARGER(a, SIZES(s + j))
        KEEP_LARGER(b, SIZES(s + j + LANES))
        KEEP_LARGER(c, SIZES(s + j + 2 * LANES))
        KEEP_LARGER(d, SIZES(s + j + 3 * LANES))
    }
    KEEP_LARGER(a, b)
    KEEP_LARGER(c, d)
    KEEP_LARGER(a, c)
    for (int k = 0; k < LANES; k++) top = a[k] > top ? a[k] : top;
    for (; j < count; j++) {
        double size = s[j] < 0 ? -s[j] : s[j];
        top = size > top ? size : top;
    }
    return top;
}

#undef DOUBLES
#undef WEIGHTS
#undef SIZES
#undef KEEP_LARGER

#else /* the same in plain C */

static double NAME(fused)(const NUMBER *s, ptrdiff_t R, const double *w) {
    double sum = 0.0;
    for (ptrdiff_t j = 0; j < R; j++) sum += s[j] * w[j];
    return sum;
}

static void NAME(pull_four)(const NUMBER *s, ptrdiff_t stride, ptrdiff_t R, const double *g,
                            double *pull) {
    const NUMBER *t = s + stride, *u = t + stride, *v = u + stride;
    for (ptrdiff_t j = 0; j < R; j++)
        pull[j] += (g[0] * s[j] + g[1] * t[j]) + (g[2] * u[j] + g[3] * v[j]);
}

static double NAME(largest)(const NUMBER *s, ptrdiff_t count, double top) {
    for (ptrdiff_t j = 0; j < count; j++) {
        double size = s[j] < 0 ? -s[j] : s[j];
        top = size > top ? size : top;
    }
    return top;
}

#endif

/* One block of rows: residuals and, where `pull` is wanted, Σ c α y s, while a row is at hand. */
TARGET static void NAME(read_rows)(const NUMBER *S, Rows rows, Point point, Sums sums) {
    const double *y = rows.y, *c = rows.c, *alpha = point.alpha;
    double *r = sums.r, *part = sums.scratch, g[TILE_ROWS], top = 0.0;
    ptrdiff_t m = rows.m, R = rows.R, stride = rows.stride;
    ptrdiff_t tile = TILE_BYTES / (ptrdiff_t)(R * sizeof(NUMBER));
    tile = tile < 4 ? 4 : tile > TILE_ROWS ? TILE_ROWS : tile - tile % 4;
    for (ptrdiff_t start = 0; start < m; start += CHUNK_ROWS) {
        ptrdiff_t end = start + CHUNK_ROWS < m ? start + CHUNK_ROWS : m, i, j, k;
        for (j = 0; j < R; j++) part[j] = 0.0;
        for (i = start; i < end; i += tile) {
            ptrdiff_t n = end - i < tile ? end - i : tile;
            const NUMBER *s = S + i * stride;
            for (k = 0; k < n; k++) r[i + k] = NAME(fused)(s + k * stride, R, point.w);
            if (y) for (k = 0; k < n; k++) r[i + k] = 1.0 - y[i + k] * (r[i + k] + point.b);
            else for (k = 0; k < n; k++) r[i + k] = 1.0 - (r[i + k] + point.b);
            if (sums.pull) {
                if (alpha) for (k = 0; k < n; k++) g[k] = alpha[i + k];
                else for (k = 0; k < n; k++) g[k] = r[i + k] > point.band ? 1.0 : 0.0;
                if (c) for (k = 0; k < n; k++) g[k] *= c[i + k];
                if (y) for (k = 0; k < n; k++) g[k] *= y[i + k];
                for (k = 0; k + 4 <= n; k += 4)
                    NAME(pull_four)(s + k * stride, stride, R, g + k, part);
                for (; k < n; k++)
                    for (j = 0; j < R; j++) part[j] += g[k] * s[k * stride + j];
            }
            if (sums.size) {
                if (stride == R) top = NAME(largest)(s, n * R, top);
                else for (k = 0; k < n; k++) top = NAME(largest)(s + k * stride, R, top);
            }
        }
        if (sums.pull) for (j = 0; j < R; j++) sums.pull[j] += part[j];
    }
    if (sums.size) *sums.size = top;
}
