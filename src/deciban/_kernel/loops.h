/* The innermost loops, in C for two things that Cython does not have: `restrict`, and a second copy of each loop for
 * processors with wider vectors (see compiler.h). */
#ifndef DECIBAN_LOOPS_H
#define DECIBAN_LOOPS_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "compiler.h"

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

enum { FEW = 24 }; /* numbers of which the greatest is found one by one */

/* The greatest of k numbers; those that are NaN do not count. Eight side by side: none waits for another. */
static inline double top_of(const double *restrict row, ptrdiff_t k) {
    double top[8], all = -INFINITY;
    ptrdiff_t c = 0;
    if (k >= FEW) {
        for (int l = 0; l < 8; l++) top[l] = row[l];
        for (c = 8; c + 8 <= k; c += 8)
            for (int l = 0; l < 8; l++) top[l] = top[l] > row[c + l] ? top[l] : row[c + l];
        for (int l = 0; l < 8; l++) all = top[l] > all ? top[l] : all;
    }
    for (; c < k; c++) all = row[c] > all ? row[c] : all;
    return all;
}

/* to = row - its greatest number, which is returned. */
CLONES static double below_top(const double *restrict row, ptrdiff_t k, double *restrict to) {
    const double top = top_of(row, k);
    for (ptrdiff_t c = 0; c < k; c++) to[c] = row[c] - top;
    return top;
}

/* Where the greatest number of each of n rows is, the first of equals; -1 if all are -infinity, -2 if one is NaN or
 * +infinity. */
CLONES static void places_of_top(const double *restrict rows, ptrdiff_t n, ptrdiff_t k, ptrdiff_t *restrict place) {
    for (ptrdiff_t i = 0; i < n; i++, rows += k) {
        int64_t strange = 0;
        ptrdiff_t at = -1;
        if (k < FEW) {
            double top = -INFINITY;
            for (ptrdiff_t c = 0; c < k; c++) {
                strange |= !(rows[c] < INFINITY);
                at = rows[c] > top ? c : at;
                top = rows[c] > top ? rows[c] : top;
            }
        } else {
            const double top = top_of(rows, k);
            for (ptrdiff_t c = 0; c < k; c++) strange |= !(rows[c] < INFINITY);
            if (!strange && top > -INFINITY)
                for (at = 0; rows[at] != top;) at++;
        }
        place[i] = strange ? -2 : at;
    }
}

/* The sum of k numbers. */
CLONES static double sum_of(const double *restrict row, ptrdiff_t k) {
    double total[4] = {0.0, 0.0, 0.0, 0.0};
    ptrdiff_t c = 0;
    for (; c + 4 <= k; c += 4)
        for (int l = 0; l < 4; l++) total[l] += row[c + l];
    for (; c < k; c++) total[0] += row[c];
    return (total[0] + total[1]) + (total[2] + total[3]);
}

/* v[i] = exp(v[i]) for v[i] <= 0 (or NaN), to within two units in the last place.
 * exp(v) = 2^n exp(r), n = round(v / ln 2), |r| <= ln(2)/2, Taylor's series to r^13 (remainder below 4e-18);
 * 2^n is written into the exponent bits in two halves, so that results below 2^-1022 underflow gradually. */
MODERN static void exp_block(double *restrict v, ptrdiff_t n) {
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

/* gap = -|b - a| of n pairs (a, b); whether some a + b is infinite or NaN. */
CLONES static int pair_gaps(const double *restrict pairs, ptrdiff_t n, double *restrict gap) {
    int64_t strange = 0;
    for (ptrdiff_t i = 0; i < n; i++) {
        const double a = pairs[2 * i], b = pairs[2 * i + 1];
        gap[i] = -fabs(b - a);
        strange |= !(fabs(a + b) < INFINITY);
    }
    return strange != 0;
}

/* Pairs of log-joints become probabilities, given exp(gap): no branch depends on which is greater. */
CLONES static void pair_shares(double *restrict pairs, ptrdiff_t n, const double *restrict odds) {
    for (ptrdiff_t i = 0; i < n; i++) {
        const double a = pairs[2 * i], b = pairs[2 * i + 1], more = 1.0 / (1.0 + odds[i]), less = odds[i] * more;
        pairs[2 * i] = b > a ? less : more;
        pairs[2 * i + 1] = b > a ? more : less;
    }
}

/* Whether some of n numbers is below zero (or -0), infinite or NaN: then, in bits, it has a sign, or its exponent and one
 * more overflow into the sign. For whole numbers `step` is 0. */
#define DEFINE_STRANGE(NAME, BITS, SIGN)                                                                               \
    CLONES static int NAME(const void *numbers, ptrdiff_t n, BITS step) {                                              \
        const BITS *restrict v = numbers;                                                                              \
        BITS strange = 0;                                                                                              \
        for (ptrdiff_t i = 0; i < n; i++) strange |= v[i] | ((v[i] & ~SIGN) + step);                                   \
        return (strange & SIGN) != 0;                                                                                  \
    }

DEFINE_STRANGE(strange_short, uint32_t, (uint32_t)0x80000000)
DEFINE_STRANGE(strange_long, uint64_t, (uint64_t)0x8000000000000000)

/* Whether all n indices are at least 0 and below `columns`, and through `falls`, how many are not above the one before. */
#define DEFINE_INSIDE(NAME, INDEX)                                                                                     \
    CLONES static int NAME(const INDEX *restrict at, ptrdiff_t n, INDEX columns, ptrdiff_t *falls) {                   \
        INDEX outside = 0;                                                                                             \
        ptrdiff_t total = 0;                                                                                           \
        for (ptrdiff_t start = 0; start < n; start += 4096) { /* a short count, as wide as an index, is quicker */     \
            const ptrdiff_t stop = start + 4096 < n ? start + 4096 : n;                                                \
            INDEX some = 0;                                                                                            \
            if (start == 0) outside |= (at[0] < 0) | (at[0] >= columns);                                               \
            for (ptrdiff_t e = start ? start : 1; e < stop; e++) {                                                     \
                outside |= (at[e] < 0) | (at[e] >= columns);                                                           \
                some += at[e] <= at[e - 1];                                                                            \
            }                                                                                                          \
            total += (ptrdiff_t)some;                                                                                  \
        }                                                                                                              \
        *falls = total;                                                                                                \
        return outside == 0;                                                                                           \
    }

DEFINE_INSIDE(inside_int, int)
DEFINE_INSIDE(inside_long, long long)

/* Which of m ascending numbers is the first that is not below x; m, if all are. Every x takes the same steps, which
 * depend on m alone, and BESIDE of them take them side by side: none waits for a guess, or for another's step. */
enum { BESIDE = 8 };

INLINE void search_beside(const double *x, const double *ascending, ptrdiff_t m, ptrdiff_t *place, int some) {
    const double *at[BESIDE];
    for (int i = 0; i < some; i++) at[i] = ascending;
    for (ptrdiff_t left = m; left > 1;) {
        const ptrdiff_t half = left / 2;
        for (int i = 0; i < some; i++) at[i] += half & -(ptrdiff_t)(at[i][half - 1] < x[i]); /* never a branch */
        left -= half;
    }
    for (int i = 0; i < some; i++) place[i] = at[i] - ascending + (m > 0 && *at[i] < x[i]);
}

/* The places of the next numbers, of which n are left; returns how many were searched for. */
INLINE int places_of(const double *x, ptrdiff_t n, const double *ascending, ptrdiff_t m, ptrdiff_t *place) {
    if (n < BESIDE) {
        search_beside(x, ascending, m, place, (int)n);
        return (int)n;
    }
    search_beside(x, ascending, m, place, BESIDE); /* known to the compiler */
    return BESIDE;
}

/* The bin of each of n numbers: how many of m cuts are below it, plus 1; 0 for NaN. */
static void bins_of(const double *x, ptrdiff_t n, const double *cuts, ptrdiff_t m, int *out) {
    for (ptrdiff_t first = 0; first < n; first += BESIDE) {
        ptrdiff_t place[BESIDE];
        const int some = places_of(x + first, n - first, cuts, m, place);
        for (int i = 0; i < some; i++) out[first + i] = x[first + i] == x[first + i] ? (int)place[i] + 1 : 0;
    }
}

/* Heights at each of n numbers, on straight lines between m > 0 knots, and beyond these at the outermost; 0 for NaN. */
static void heights_of(const double *x, ptrdiff_t n, const double *knots, const double *heights, ptrdiff_t m, double *out,
                       ptrdiff_t stride) {
    for (ptrdiff_t first = 0; first < n; first += BESIDE) {
        ptrdiff_t place[BESIDE];
        const int some = places_of(x + first, n - first, knots, m, place);
        for (int i = 0; i < some; i++) {
            const double at = x[first + i];
            const ptrdiff_t after = place[i] < m ? place[i] : m - 1, before = place[i] > 0 ? place[i] - 1 : 0;
            double height = heights[after];
            if (after > before && at < knots[after])
                height = (heights[after] - heights[before]) / (knots[after] - knots[before]) * (at - knots[before])
                         + heights[before];
            out[(first + i) * stride] = at == at ? height : 0.0;
        }
    }
}

#endif
