/* The innermost loops, in C for two things that Cython does not have: `restrict`, and a second copy of each loop for
 * processors with AVX2, chosen when the library is loaded (other compilers and processors get the plain one). */
#ifndef DECIBAN_LOOPS_H
#define DECIBAN_LOOPS_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GNUC__) && !defined(__clang__)
#define CLONES __attribute__((target_clones("avx2", "default")))
#else
#define CLONES
#endif

#if defined(__GNUC__)
#define FETCH(address) __builtin_prefetch(address)
#else
#define FETCH(address) ((void)0)
#endif

enum { TILE = 64 }; /* rows scored at a time */

/* x[c] += w (row - p[c]), and with xx also xx[c] += w (row - p[c])^2, for rows of class c = y[i]. */
#define DEFINE_SUM_ROWS(NAME, NUMBER)                                                                                  \
    CLONES static void NAME(const NUMBER *restrict rows, ptrdiff_t stride, ptrdiff_t n, ptrdiff_t d, ptrdiff_t k,      \
                            const int *restrict y, const double *restrict weight, const double *restrict pivot,        \
                            double *restrict one, ptrdiff_t one_stride, double *restrict x, double *restrict xx) {     \
        for (ptrdiff_t i = 0; i < n; i++) {                                                                            \
            const int c = y[i];                                                                                        \
            if (c < 0 || c >= k) continue;                                                                             \
            const double w = weight ? weight[i] : 1.0;                                                                 \
            if (w == 0.0) continue;                                                                                    \
            const NUMBER *restrict row = rows + i * stride;                                                            \
            const double *restrict p = pivot + c * d;                                                                  \
            double *restrict s = x + c * d;                                                                            \
            one[c * one_stride] += w;                                                                                  \
            if (xx) {                                                                                                  \
                double *restrict q = xx + c * d;                                                                       \
                for (ptrdiff_t j = 0; j < d; j++) {                                                                    \
                    const double t = row[j] - p[j];                                                                    \
                    s[j] += w * t;                                                                                     \
                    q[j] += w * t * t;                                                                                 \
                }                                                                                                      \
            } else {                                                                                                   \
                for (ptrdiff_t j = 0; j < d; j++) s[j] += w * (row[j] - p[j]);                                         \
            }                                                                                                          \
        }                                                                                                              \
    }

DEFINE_SUM_ROWS(sum_rows, double)
DEFINE_SUM_ROWS(sum_rows_single, float)

/* The same, where an entry that is NaN is left out of every sum. */
CLONES static void sum_rows_missing(const double *restrict rows, ptrdiff_t stride, ptrdiff_t n, ptrdiff_t d,
                                    ptrdiff_t k, const int *restrict y, const double *restrict weight,
                                    const double *restrict pivot, double *restrict one, double *restrict x,
                                    double *restrict xx) {
    for (ptrdiff_t i = 0; i < n; i++) {
        const int c = y[i];
        if (c < 0 || c >= k) continue;
        const double w = weight ? weight[i] : 1.0;
        if (w == 0.0) continue;
        const double *restrict row = rows + i * stride;
        const double *restrict p = pivot + c * d;
        double *restrict m = one + c * d;
        double *restrict s = x + c * d;
        double *restrict q = xx ? xx + c * d : NULL;
        for (ptrdiff_t j = 0; j < d; j++) {
            const int there = row[j] == row[j];
            const double u = there ? w : 0.0, t = there ? row[j] - p[j] : 0.0;
            m[j] += u;
            s[j] += u * t;
            if (q) q[j] += u * t * t;
        }
    }
}

/* sums[c][r] -= sum_j h[c][j] (tile[j][r] - m[c][j])^2 over a tile of TILE rows stored column by column.
 * Rows lie side by side, so nothing is reassociated and no step waits for a reduction; two columns at a time
 * halve the traffic to the sums. */
CLONES static void squares_tile(const double *restrict tile, const double *restrict mean,
                                const double *restrict precision, ptrdiff_t stride, ptrdiff_t columns, ptrdiff_t k,
                                double *restrict sums) {
    for (ptrdiff_t c = 0; c < k; c++) {
        const double *restrict m = mean + c * stride;
        const double *restrict h = precision + c * stride;
        double *restrict s = sums + c * TILE;
        ptrdiff_t j = 0;
        for (; j + 1 < columns; j += 2) {
            const double *restrict v = tile + j * TILE;
            const double m0 = m[j], m1 = m[j + 1], h0 = h[j], h1 = h[j + 1];
            for (int r = 0; r < TILE; r++) {
                const double t0 = v[r] - m0, t1 = v[TILE + r] - m1;
                s[r] -= t0 * t0 * h0 + t1 * t1 * h1;
            }
        }
        if (j < columns)
            for (int r = 0; r < TILE; r++) {
                const double t = tile[j * TILE + r] - m[j];
                s[r] -= t * t * h[j];
            }
    }
}

/* out += the evidence of a row's codes: table[offset[j] + code] for every column j, unseen[j] for a code past the table,
 * nothing for one below zero (missing: `code` maps NaN to it). K numbers per entry; few classes stay in registers. */
#define CODE_ROW(K)                                                                                                    \
    do {                                                                                                               \
        double sum[K];                                                                                                 \
        for (int c = 0; c < K; c++) sum[c] = out[c];                                                                   \
        for (ptrdiff_t j = 0; j < d; j++) {                                                                            \
            const ptrdiff_t code = codes[j];                                                                           \
            if (code < 0) continue;                                                                                    \
            const double *restrict entry =                                                                             \
                code < offset[j + 1] - offset[j] ? table + (offset[j] + code) * K : unseen + j * K;                    \
            for (int c = 0; c < K; c++) sum[c] += entry[c];                                                            \
        }                                                                                                              \
        for (int c = 0; c < K; c++) out[c] = sum[c];                                                                   \
    } while (0)

static inline void code_row(const ptrdiff_t *restrict codes, ptrdiff_t d, const ptrdiff_t *restrict offset,
                            const double *restrict table, const double *restrict unseen, ptrdiff_t k,
                            double *restrict out) {
    switch (k) {
    case 2: CODE_ROW(2); return;
    case 3: CODE_ROW(3); return;
    case 4: CODE_ROW(4); return;
    case 8: CODE_ROW(8); return;
    default: break;
    }
    for (ptrdiff_t j = 0; j < d; j++) {
        if (codes[j] < 0) continue;
        const double *restrict entry =
            codes[j] < offset[j + 1] - offset[j] ? table + (offset[j] + codes[j]) * k : unseen + j * k;
        for (ptrdiff_t c = 0; c < k; c++) out[c] += entry[c];
    }
}

/* out[i] += sum_e v[e] table[at[e]] over the entries of n sparse rows, `table` has k numbers per column; `bounds` are
 * the rows' ends counted from `first`, where v and at start. The columns are far apart in memory, so those a few
 * entries ahead are prefetched. */
#define DEFINE_DOT_ROWS(NAME, INDEX)                                                                                   \
    CLONES static void NAME(const double *restrict v, const INDEX *restrict at, const INDEX *restrict bounds,          \
                            ptrdiff_t n, const double *restrict table, ptrdiff_t k, double *restrict out) {            \
        const ptrdiff_t first = bounds[0], last = bounds[n] - first;                                                   \
        for (ptrdiff_t i = 0; i < n; i++) {                                                                            \
            double *restrict row = out + i * k;                                                                        \
            if (k == 2) { /* two classes stay in registers */                                                          \
                double a = row[0], b = row[1];                                                                         \
                for (ptrdiff_t e = bounds[i] - first; e < bounds[i + 1] - first; e++) {                                \
                    a += v[e] * table[(ptrdiff_t)at[e] * 2];                                                           \
                    b += v[e] * table[(ptrdiff_t)at[e] * 2 + 1];                                                       \
                }                                                                                                      \
                row[0] = a;                                                                                            \
                row[1] = b;                                                                                            \
                continue;                                                                                              \
            }                                                                                                          \
            for (ptrdiff_t e = bounds[i] - first; e < bounds[i + 1] - first; e++) {                                    \
                const double *restrict column = table + (ptrdiff_t)at[e] * k;                                          \
                const double value = v[e];                                                                             \
                if (e + 12 < last) {                                                                                   \
                    const char *ahead = (const char *)(table + (ptrdiff_t)at[e + 12] * k);                             \
                    for (ptrdiff_t byte = 0; byte < k * 8; byte += 64) FETCH(ahead + byte);                            \
                }                                                                                                      \
                for (ptrdiff_t c = 0; c < k; c++) row[c] += value * column[c];                                         \
            }                                                                                                          \
        }                                                                                                              \
    }

DEFINE_DOT_ROWS(dot_rows_int, int)
DEFINE_DOT_ROWS(dot_rows_long, long long)

/* The distance of a complete row from its own class without it: for each column the mean and variance that n_left rows
 * leave, then sum (t - mu)^2 / u, returned, and sum log u, through `log_sum`. Logarithms are taken of a product of
 * mantissas in [1, 2) beside a sum of exponents: one for up to 512 columns. Returns -1 if some u is not a positive
 * normal number, or if no more than `doubt` is left of a scatter (the caller recomputes such rows). scratch has
 * room for 2 d numbers. */
CLONES static double own_law(const double *restrict row, const double *restrict pivot, const double *restrict x,
                             const double *restrict xx, const double *restrict doubt, double n_left, double w,
                             double floor_, double rounding, ptrdiff_t d, double *restrict scratch,
                             double *restrict log_sum) {
    const double inverse = 1.0 / n_left;
    double *restrict quotient = scratch + d;
    int64_t exponents = 0, wrong = 0;
    for (ptrdiff_t j = 0; j < d; j++) {
        const double t = row[j] - pivot[j];
        const double mu = (x[j] - w * t) * inverse;
        const double spread = (xx[j] - w * t * t) * inverse - mu * mu;
        const double u = (spread <= rounding * xx[j] * inverse ? 0.0 : spread) + floor_;
        const double gap = t - mu;
        wrong += spread * n_left <= doubt[j];
        scratch[j] = u;
        quotient[j] = gap * gap / u;
    }
    for (ptrdiff_t j = 0; j < d; j++) { /* u = 2^exponent * mantissa: the mantissa stays in scratch */
        uint64_t bits;
        memcpy(&bits, &scratch[j], sizeof bits);
        wrong += !(scratch[j] > 1e-300);
        exponents += (int64_t)(bits >> 52) - 1023;
        bits = (bits & 0x000fffffffffffffULL) | 0x3ff0000000000000ULL;
        memcpy(&scratch[j], &bits, sizeof bits);
    }
    double total = 0.0, logs = 0.0;
    for (ptrdiff_t start = 0; start < d; start += 512) {
        const ptrdiff_t stop = start + 512 < d ? start + 512 : d;
        double t0 = 0.0, t1 = 0.0, t2 = 0.0, t3 = 0.0, p0 = 1.0, p1 = 1.0, p2 = 1.0, p3 = 1.0;
        ptrdiff_t j = start;
        for (; j + 4 <= stop; j += 4) { /* four side by side, which do not wait for each other */
            t0 += quotient[j], t1 += quotient[j + 1], t2 += quotient[j + 2], t3 += quotient[j + 3];
            p0 *= scratch[j], p1 *= scratch[j + 1], p2 *= scratch[j + 2], p3 *= scratch[j + 3];
        }
        for (; j < stop; j++) {
            t0 += quotient[j];
            p0 *= scratch[j];
        }
        total += (t0 + t1) + (t2 + t3);
        logs += log((p0 * p1) * (p2 * p3));
    }
    if (wrong || !(total < 1e300)) return -1.0;
    *log_sum = logs + 0.6931471805599453 * (double)exponents;
    return total;
}

/* v[i] = exp(v[i]) for v[i] <= 0 (or NaN), to within two units in the last place.
 * exp(v) = 2^n exp(r), n = round(v / ln 2), |r| <= ln(2)/2, Taylor's series to r^13 (remainder below 4e-18);
 * 2^n is written into the exponent bits in two halves, so that results below 2^-1022 underflow gradually. */
CLONES static void exp_block(double *restrict v, ptrdiff_t n) {
    const double inverse_ln2 = 1.4426950408889634, ln2_high = 6.93147180369123816490e-01,
                 ln2_low = 1.90821492927058770002e-10, round_bits = 6755399441055744.0;
    for (ptrdiff_t i = 0; i < n; i++) {
        const double x = v[i] < -746.0 ? -746.0 : v[i];
        const double shifted = x * inverse_ln2 + round_bits; /* the integer n sits in the low bits */
        const double whole = shifted - round_bits;
        const double r = (x - whole * ln2_high) - whole * ln2_low;
        double p = 1.0 / 6227020800.0;
        p = p * r + 1.0 / 479001600.0;
        p = p * r + 1.0 / 39916800.0;
        p = p * r + 1.0 / 3628800.0;
        p = p * r + 1.0 / 362880.0;
        p = p * r + 1.0 / 40320.0;
        p = p * r + 1.0 / 5040.0;
        p = p * r + 1.0 / 720.0;
        p = p * r + 1.0 / 120.0;
        p = p * r + 1.0 / 24.0;
        p = p * r + 1.0 / 6.0;
        p = p * r + 0.5;
        p = p * r * r + r + 1.0;
        int64_t bits;
        memcpy(&bits, &shifted, sizeof bits);
        const int32_t whole_bits = (int32_t)bits, half = whole_bits >> 1;
        const int64_t first = (int64_t)(half + 1023) << 52, second = (int64_t)(whole_bits - half + 1023) << 52;
        double scale_first, scale_second;
        memcpy(&scale_first, &first, sizeof first);
        memcpy(&scale_second, &second, sizeof second);
        v[i] = p * scale_first * scale_second;
    }
}

#endif
