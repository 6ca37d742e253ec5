/* The innermost loops of scatter.pyx. All of them are one product of two thin matrices, a'b, whose result of 4 x 12
 * numbers stays in registers: a scatter multiplies centred rows by themselves, a density multiplies them by a root.
 *
 * Matrices are stored in panels: panel p holds columns 4p .. 4p + 3, the four numbers of a row side by side, so that
 * every product reads memory in order, whatever d is. Columns past the last are zeros. */
#ifndef DECIBAN_SCATTER_LOOPS_H
#define DECIBAN_SCATTER_LOOPS_H

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "lanes.h"

enum { WIDE = 3, BLOCK = LANES * WIDE }; /* a product has LANES rows of up to WIDE panels */

/* out[r][q] = sum_t a[t][r] b[q][t], r < LANES, q < wide: one panel of a by `wide` panels of b, which lie `step`
 * numbers apart. `wide` is a constant wherever this is called, and all of out stays in registers. */
INLINE void product(const int wide, const double *a, const double *b, ptrdiff_t step, ptrdiff_t length, double *out) {
    lanes s[LANES][WIDE];
    ptrdiff_t t = 0;
    for (int r = 0; r < LANES; r++)
        for (int q = 0; q < WIDE; q++) s[r][q] = ZERO;
    if (wide == 1) { /* so few sums would wait for each other: use two of each */
        for (; t + 2 <= length; t += 2) {
            const lanes v = FROM(b + t * LANES), u = FROM(b + t * LANES + LANES);
            for (int r = 0; r < LANES; r++) {
                s[r][0] += a[t * LANES + r] * v;
                s[r][1] += a[t * LANES + LANES + r] * u;
            }
        }
        for (int r = 0; r < LANES; r++) s[r][0] += s[r][1];
    }
    for (; t < length; t++) {
        lanes v[WIDE];
        for (int q = 0; q < wide; q++) v[q] = FROM(b + q * step + t * LANES);
        for (int r = 0; r < LANES; r++)
            for (int q = 0; q < wide; q++) s[r][q] += a[t * LANES + r] * v[q];
    }
    for (int r = 0; r < LANES; r++)
        for (int q = 0; q < wide; q++) AT(out + r * BLOCK + q * LANES) = s[r][q];
}

/* How many of the remaining panels the next product takes: three, or two and two if three would leave one. */
INLINE int panels_next(ptrdiff_t left) { return left == 1 ? 1 : left == 2 || left == 4 ? 2 : 3; }

/* ---- scatter ---- */

/* Rows to be added to the sums of classes first .. first + classes - 1. */
typedef struct {
    ptrdiff_t d, panels, depth, step; /* depth: rows buffered per class; step: numbers from one panel to the next */
    ptrdiff_t first, classes;
    ptrdiff_t *held;      /* (classes) rows buffered now */
    double *rows;         /* (classes, panels, step) those rows, about the pivot */
    double *weight;       /* (classes, depth) their weights, or NULL: all are 1 */
    double *weighted;     /* (WIDE, step) buffer for weighted columns */
    unsigned char *moved; /* (classes) whether a class has received anything */
    const double *pivot;
    double *one, *x, *xy;
    const char *ahead, *end; /* the next part of the rows' memory to prefetch, and where it ends */
} Scatter;

/* Memory is idle while products are computed: prefetch the next rows, some lines with each product. */
typedef struct {
    const char *next, *stop;
    ptrdiff_t bytes; /* with each product */
} Ahead;

INLINE void fetch_ahead(Ahead *ahead) {
    const char *stop = ahead->stop - ahead->next < ahead->bytes ? ahead->stop : ahead->next + ahead->bytes;
    for (; ahead->next < stop; ahead->next += 64) __builtin_prefetch(ahead->next, 0, 2);
}

/* target[r][l] += out[r][l] for r < rows, l < columns. */
INLINE void add_block(const double *out, double *restrict target, ptrdiff_t d, ptrdiff_t rows, ptrdiff_t columns,
                      const int wide) {
    if (rows >= LANES && columns >= wide * LANES) {
        for (int r = 0; r < LANES; r++)
            for (int q = 0; q < wide; q++) AT(target + r * d + q * LANES) += FROM(out + r * BLOCK + q * LANES);
    } else {
        for (int r = 0; r < LANES && r < rows; r++)
            for (int l = 0; l < wide * LANES && l < columns; l++) target[r * d + l] += out[r * BLOCK + l];
    }
}

/* One strip of `wide` panels from p on: the column sums, and the products with every panel up to the strip's own. */
INLINE void add_strip(const Scatter *s, const int wide, ptrdiff_t p, const double *rows, const double *right,
                      ptrdiff_t length, double *x, double *xy, Ahead *ahead) {
    const ptrdiff_t d = s->d, step = s->step;
    double out[LANES * BLOCK];
    for (int q = 0; q < wide; q++) {
        const double *v = right + q * step;
        lanes a = ZERO, b = ZERO, c = ZERO, e = ZERO; /* four rows side by side, which do not wait for each other */
        ptrdiff_t t = 0;
        for (; t + 4 <= length; t += 4, v += 4 * LANES)
            a += FROM(v), b += FROM(v + LANES), c += FROM(v + 2 * LANES), e += FROM(v + 3 * LANES);
        for (; t < length; t++, v += LANES) a += FROM(v);
        AT(out) = (a + b) + (c + e);
        for (int l = 0; l < LANES && (p + q) * LANES + l < d; l++) x[(p + q) * LANES + l] += out[l];
    }
    for (ptrdiff_t i = 0; i < p; i++) {
        fetch_ahead(ahead);
        product(wide, rows + i * step, right, step, length, out);
        add_block(out, xy + i * LANES * d + p * LANES, d, LANES, d - p * LANES, wide);
    }
    for (int e = 0; e < wide; e++) { /* on the diagonal: only entries on it or to its right */
        const ptrdiff_t at = (p + e) * LANES;
        const double *own = rows + (p + e) * step;
        fetch_ahead(ahead);
        if (wide - e == 3) {
            product(3, own, right + e * step, step, length, out);
            add_block(out, xy + at * d + at, d, d - at, d - at, 3);
        } else if (wide - e == 2) {
            product(2, own, right + e * step, step, length, out);
            add_block(out, xy + at * d + at, d, d - at, d - at, 2);
        } else {
            product(1, own, right + e * step, step, length, out);
            add_block(out, xy + at * d + at, d, d - at, d - at, 1);
        }
    }
}

/* Adds the buffered rows of a class to its sums; of xy, the upper triangle (and the entries of the lower one in the same
 * blocks). `next` is the row that will be read next, or NULL. */
FUSED static void scatter_flush(Scatter *s, ptrdiff_t c, const char *next, ptrdiff_t row_bytes) {
    enum { FAR = 1 << 17 }; /* bytes: what is prefetched farther ahead would not stay in the cache */
    const ptrdiff_t length = s->held[c], d = s->d, step = s->step, class = s->first + c;
    const double *rows = s->rows + c * s->panels * step;
    double *x = s->x + class * d, *xy = s->xy + class * d * d;
    if (length == 0) return;
    s->held[c] = 0;
    s->moved[c] = 1;
    if (s->weight) {
        const double *w = s->weight + c * s->depth;
        lanes sum = ZERO;
        ptrdiff_t t = 0;
        for (; t + LANES <= length; t += LANES) sum += FROM(w + t);
        double total = TOTAL(sum);
        for (; t < length; t++) total += w[t];
        s->one[class] += total;
    } else {
        s->one[class] += (double)length;
    }
    Ahead ahead = {NULL, NULL, 0};
    if (next && s->end) {
        ahead.next = s->ahead > next ? s->ahead : next;
        ahead.stop = ahead.next + length * row_bytes;
        if (ahead.stop > next + FAR) ahead.stop = next + FAR;
        if (ahead.stop > s->end) ahead.stop = s->end;
        ahead.bytes = (ahead.stop - ahead.next) * 6 / (s->panels * (s->panels + 3)) + 64;
    }
    for (ptrdiff_t p = 0; p < s->panels;) {
        const int wide = panels_next(s->panels - p);
        const double *right = rows + p * step;
        if (s->weight) {
            const double *restrict w = s->weight + c * s->depth;
            for (int q = 0; q < wide; q++) {
                double *restrict to = s->weighted + q * step;
                for (ptrdiff_t t = 0; t < length; t++)
                    AT(to + t * LANES) = w[t] * FROM(right + q * step + t * LANES);
            }
            right = s->weighted;
        }
        if (wide == 3) add_strip(s, 3, p, rows, right, length, x, xy, &ahead);
        else if (wide == 2) add_strip(s, 2, p, rows, right, length, x, xy, &ahead);
        else add_strip(s, 1, p, rows, right, length, x, xy, &ahead);
        p += wide;
    }
    if (ahead.next) s->ahead = ahead.next;
}

/* Flush every class and copy upper triangles to lower ones, in squares that fit the cache. */
static void scatter_finish(Scatter *s) {
    enum { SQUARE = 16 };
    const ptrdiff_t d = s->d;
    for (ptrdiff_t c = 0; c < s->classes; c++) {
        scatter_flush(s, c, NULL, 0);
        if (!s->moved[c]) continue;
        double *xy = s->xy + (s->first + c) * d * d;
        for (ptrdiff_t top = 0; top < d; top += SQUARE)
            for (ptrdiff_t left = top; left < d; left += SQUARE)
                for (ptrdiff_t i = top; i < top + SQUARE && i < d; i++)
                    for (ptrdiff_t j = left > i ? left : i + 1; j < left + SQUARE && j < d; j++)
                        xy[j * d + i] = xy[i * d + j];
    }
}

/* CODES: rows into the class codes[i]; SHARES: rows into every class, with weight shares[i][c]. */
#define DEFINE_SCATTER(NUMBER, LOAD, HOLD, CODES, SHARES)                                                              \
    INLINE void HOLD(const NUMBER *restrict row, const double *restrict pivot, ptrdiff_t d, ptrdiff_t step,            \
                     double *restrict to) {                                                                            \
        ptrdiff_t j = 0;                                                                                               \
        for (; j + LANES <= d; j += LANES, to += step) AT(to) = LOAD(row + j) - FROM(pivot + j);                       \
        if (j < d)                                                                                                     \
            for (int l = 0; l < LANES; l++) to[l] = j + l < d ? row[j + l] - pivot[j + l] : 0.0;                       \
    }                                                                                                                  \
    FUSED static void CODES(Scatter *s, const NUMBER *rows, ptrdiff_t stride, ptrdiff_t n, const int *codes,           \
                            const double *weight) {                                                                    \
        const Scatter own = *s; /* a copy that no other code writes to stays in registers */                            \
        for (ptrdiff_t i = 0; i < n; i++) {                                                                            \
            const ptrdiff_t c = codes[i] - own.first;                                                                  \
            if (c < 0 || c >= own.classes || (weight && weight[i] == 0.0)) continue;                                   \
            const ptrdiff_t at = own.held[c];                                                                          \
            HOLD(rows + i * stride, own.pivot + (own.first + c) * own.d, own.d, own.step,                              \
                 own.rows + c * own.panels * own.step + at * LANES);                                                   \
            own.held[c] = at + 1;                                                                                      \
            if (weight) own.weight[c * own.depth + at] = weight[i];                                                    \
            if (at + 1 == own.depth)                                                                                   \
                scatter_flush(s, c, (const char *)(rows + (i + 1) * stride), stride * (ptrdiff_t)sizeof(NUMBER));      \
        }                                                                                                              \
    }                                                                                                                  \
    FUSED static void SHARES(Scatter *s, const NUMBER *rows, ptrdiff_t stride, ptrdiff_t n, const char *shares,        \
                             ptrdiff_t down, ptrdiff_t across) {                                                       \
        const Scatter own = *s;                                                                                        \
        for (ptrdiff_t c = 0; c < own.classes; c++) {                                                                  \
            const double *pivot = own.pivot + (own.first + c) * own.d;                                                 \
            const char *share = shares + (own.first + c) * across;                                                     \
            double *to = own.rows + c * own.panels * own.step, *weight = own.weight + c * own.depth;                   \
            ptrdiff_t at = own.held[c];                                                                                \
            for (ptrdiff_t i = 0; i < n; i++) {                                                                        \
                double w;                                                                                              \
                memcpy(&w, share + i * down, sizeof w);                                                                \
                if (w == 0.0) continue;                                                                                \
                HOLD(rows + i * stride, pivot, own.d, own.step, to + at * LANES);                                      \
                weight[at++] = w;                                                                                      \
                if (at == own.depth) {                                                                                 \
                    own.held[c] = at;                                                                                  \
                    scatter_flush(s, c, NULL, 0);                                                                      \
                    at = 0;                                                                                            \
                }                                                                                                      \
            }                                                                                                          \
            own.held[c] = at;                                                                                          \
        }                                                                                                              \
    }

DEFINE_SCATTER(double, FROM, hold_row, scatter_codes, scatter_shares)
DEFINE_SCATTER(float, FROM_SINGLE, hold_row_single, scatter_codes_single, scatter_shares_single)

/* ---- rows times matrices ---- */

/* Four rows side by side: to[j][r] = row_r[j]. If fewer are left, the last one is repeated. */
#define DEFINE_TRANSPOSE(NAME, NUMBER)                                                                                 \
    FUSED static void NAME(const char *rows, ptrdiff_t down, ptrdiff_t across, ptrdiff_t n, ptrdiff_t d,               \
                           double *restrict to) {                                                                      \
        for (ptrdiff_t i = 0; i < n; i += LANES, to += LANES * d) {                                                    \
            const char *row[LANES];                                                                                    \
            for (int r = 0; r < LANES; r++) row[r] = rows + (i + r < n ? i + r : n - 1) * down;                        \
            if (LANES == 4 && across == sizeof(NUMBER)) {                                                              \
                const NUMBER *a = (const NUMBER *)row[0], *b = (const NUMBER *)row[1 % LANES],                         \
                             *c = (const NUMBER *)row[2 % LANES], *e = (const NUMBER *)row[3 % LANES];                 \
                for (ptrdiff_t j = 0; j < d; j++) {                                                                    \
                    to[j * LANES] = a[j];                                                                              \
                    to[j * LANES + 1] = b[j];                                                                          \
                    to[j * LANES + 2] = c[j];                                                                          \
                    to[j * LANES + 3] = e[j];                                                                          \
                }                                                                                                      \
            } else {                                                                                                   \
                for (ptrdiff_t j = 0; j < d; j++)                                                                      \
                    for (int r = 0; r < LANES; r++) to[j * LANES + r] = *(const NUMBER *)(row[r] + j * across);        \
            }                                                                                                          \
        }                                                                                                              \
    }

DEFINE_TRANSPOSE(transpose_rows, double)
DEFINE_TRANSPOSE(transpose_rows_single, float)

/* to[g][j][r] = from[g][j][r] - mean[j] for `groups` of four rows. */
FUSED static void centre_rows(const double *restrict from, const double *restrict mean, ptrdiff_t groups, ptrdiff_t d,
                              double *restrict to) {
    for (ptrdiff_t g = 0; g < groups; g++, from += LANES * d, to += LANES * d)
        for (ptrdiff_t j = 0; j < d; j++) AT(to + j * LANES) = FROM(from + j * LANES) - mean[j];
}

/* y[i][r] = sum_j>=4(i/4) R[i][j] rows[r][j] for BLOCK rows r (WIDE groups of four) and a packed upper triangle R. */
FUSED static void root_rows(const double *rows, const double *root, ptrdiff_t d, double *y) {
    for (ptrdiff_t i = 0; i < d; i += LANES)
        product(WIDE, root + i * d + i * LANES, rows + i * LANES, LANES * d, d - i, y + i * BLOCK);
}

/* q[r] = ||R rows[r]||^2, the same without keeping y. */
FUSED static void root_squares(const double *rows, const double *root, ptrdiff_t d, double *q) {
    lanes a = ZERO, b = ZERO, c = ZERO;
    double out[LANES * BLOCK];
    for (ptrdiff_t i = 0; i < d; i += LANES) {
        product(WIDE, root + i * d + i * LANES, rows + i * LANES, LANES * d, d - i, out);
        for (int r = 0; r < LANES; r++) {
            const double *y = out + r * BLOCK;
            a += FROM(y) * FROM(y);
            b += FROM(y + LANES) * FROM(y + LANES);
            c += FROM(y + 2 * LANES) * FROM(y + 2 * LANES);
        }
    }
    AT(q) = a, AT(q + LANES) = b, AT(q + 2 * LANES) = c;
}

/* q[r] = sum_i (y[i][r] - centre[i])^2 for BLOCK rows. */
FUSED static void shifted_squares(const double *restrict y, const double *restrict centre, ptrdiff_t d,
                                  double *restrict q) {
    lanes a = ZERO, b = ZERO, c = ZERO;
    for (ptrdiff_t i = 0; i < d; i++, y += BLOCK) {
        const lanes s = FROM(y) - centre[i], t = FROM(y + LANES) - centre[i], u = FROM(y + 2 * LANES) - centre[i];
        a += s * s, b += t * t, c += u * u;
    }
    AT(q) = a, AT(q + LANES) = b, AT(q + 2 * LANES) = c;
}

/* out[i][j] = sum_e rows[i][e] basis[j][e] for `n` rows in groups of LANES and a packed basis; j < columns. */
FUSED static void project_rows(const double *rows, ptrdiff_t n, const double *basis, ptrdiff_t d, ptrdiff_t columns,
                               double *out, ptrdiff_t stride) {
    double block[LANES * BLOCK];
    for (ptrdiff_t i = 0; i < n; i += LANES)
        for (ptrdiff_t j = 0; j < columns;) {
            const int wide = panels_next((columns - j + LANES - 1) / LANES);
            const double *a = rows + i * d, *b = basis + j * d;
            if (wide == 3) product(3, a, b, LANES * d, d, block);
            else if (wide == 2) product(2, a, b, LANES * d, d, block);
            else product(1, a, b, LANES * d, d, block);
            for (int r = 0; r < LANES && i + r < n; r++) {
                double *to = out + (i + r) * stride + j;
                int q = 0;
                for (; q < wide && j + (q + 1) * LANES <= columns; q++)
                    AT(to + q * LANES) = FROM(block + r * BLOCK + q * LANES);
                if (q < wide)
                    for (int l = q * LANES; j + l < columns; l++) to[l] = block[r * BLOCK + l];
            }
            j += wide * LANES;
        }
}

/* ---- leave-one-out; rows of `padded` numbers, a multiple of LANES, zeros past d ---- */

/* v = z + shift; returns its squared length. */
FUSED static double shift_row(const double *restrict z, const double *restrict shift, ptrdiff_t padded,
                              double *restrict v) {
    lanes sum = ZERO;
    for (ptrdiff_t j = 0; j < padded; j += LANES) {
        const lanes t = FROM(z + j) + FROM(shift + j);
        AT(v + j) = t;
        sum += t * t;
    }
    return TOTAL(sum);
}

/* P = sum z^2 inverse and Q = sum z h, z = e + shift. */
FUSED static void quadratic_row(const double *restrict e, const double *restrict shift,
                                const double *restrict inverse, const double *restrict h, ptrdiff_t padded,
                                double *restrict P, double *restrict Q) {
    lanes p = ZERO, q = ZERO;
    for (ptrdiff_t j = 0; j < padded; j += LANES) {
        const lanes z = FROM(e + j) + FROM(shift + j);
        p += z * z * FROM(inverse + j);
        q += z * FROM(h + j);
    }
    *P = TOTAL(p);
    *Q = TOTAL(q);
}

/* The covariance in its eigenbasis, D = alpha spread + tau: inverse = 1/D, h = v/D, and R = sum v^2/D, returned.
 * The product of the ratios D/D0 is mantissa * 2^twos; they are within a factor 2^15 of 1 (the caller checks), so
 * 64 of them cannot overflow. reciprocal = 1/D0. */
FUSED static double shrink_row(const double *restrict v, const double *restrict spread,
                               const double *restrict reciprocal, double alpha, double tau, ptrdiff_t padded,
                               double *restrict inverse, double *restrict h, double *restrict mantissa,
                               ptrdiff_t *restrict twos) {
    lanes sum = ZERO;
    *mantissa = 1.0;
    *twos = 0;
    for (ptrdiff_t start = 0; start < padded; start += 64) {
        const ptrdiff_t stop = start + 64 < padded ? start + 64 : padded;
        lanes ratio = ZERO + 1.0;
        for (ptrdiff_t j = start; j < stop; j += LANES) {
            const lanes D = alpha * FROM(spread + j) + tau, one_over = 1.0 / D, t = FROM(v + j);
            AT(inverse + j) = one_over;
            AT(h + j) = t * one_over;
            sum += t * t * one_over;
            ratio *= D * FROM(reciprocal + j);
        }
        int exponent;
        *mantissa = frexp(*mantissa * MULTIPLIED(ratio), &exponent);
        *twos += exponent;
    }
    return TOTAL(sum);
}

#endif
