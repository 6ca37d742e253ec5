/* Quadratic forms of some of the coordinates, in the covariances of LANES parts at once. Each entry is LANES numbers,
 * one per part, so that all parts take the same steps whichever coordinates a row has. */
#ifndef DECIBAN_MARGINALS_LOOPS_H
#define DECIBAN_MARGINALS_LOOPS_H

#include <math.h>

#include "lanes.h"

#define LANE(v, l) (v)[l]

enum { TOGETHER = 4 }; /* rows of a root computed side by side: their sums do not wait for each other */

typedef struct { /* LANES parts, and which coordinates are present */
    ptrdiff_t d, held, absent;
    const ptrdiff_t *here, *gone; /* (held,) and (absent,) coordinates, ascending */
    const double *mean;           /* (d, LANES) */
    const double *precision;      /* (d, d, LANES), of all coordinates */
    double *root, *z, *y;         /* buffers: (d, d, LANES), (d, LANES), (d, LANES) */
} Parts;

/* out -= sum_t a[t] b[t], t < length */
INLINE void take_products(const double *a, const double *b, ptrdiff_t length, lanes *out) {
    lanes one = ZERO, two = ZERO;
    ptrdiff_t t = 0;
    for (; t + 2 <= length; t += 2) {
        one += FROM(a + t * LANES) * FROM(b + t * LANES);
        two += FROM(a + (t + 1) * LANES) * FROM(b + (t + 1) * LANES);
    }
    if (t < length) one += FROM(a + t * LANES) * FROM(b + t * LANES);
    *out -= one + two;
}

/* The lower root of the rows and columns `at` of a matrix, with reciprocals on its diagonal, and the logarithm of their
   determinant. Returns 0 if they have no root. */
FUSED static int find_root(const double *matrix, ptrdiff_t d, const ptrdiff_t *at, ptrdiff_t s, double *root,
                           double *log_det) {
    double product[LANES];
    for (int l = 0; l < LANES; l++) {
        log_det[l] = 0.0;
        product[l] = 1.0;
    }
    for (ptrdiff_t j = 0; j < s; j++) {
        const double *const own = root + j * s * LANES;
        lanes scale = ZERO;
        for (ptrdiff_t i = j; i < s; i += TOGETHER) {
            lanes sum[TOGETHER];
            const double *row[TOGETHER];
            for (int r = 0; r < TOGETHER; r++) { /* past the last, the last is repeated */
                const ptrdiff_t k = i + r < s ? i + r : s - 1;
                row[r] = root + k * s * LANES;
                sum[r] = FROM(matrix + (at[k] * d + at[j]) * LANES);
            }
            for (ptrdiff_t t = 0; t < j; t++) {
                const lanes b = FROM(own + t * LANES);
                for (int r = 0; r < TOGETHER; r++) sum[r] -= FROM(row[r] + t * LANES) * b;
            }
            if (i == j)
                for (int l = 0; l < LANES; l++) {
                    const double pivot = LANE(sum[0], l);
                    if (!(pivot > 0.0)) return 0;
                    LANE(scale, l) = 1.0 / sqrt(pivot);
                    product[l] *= pivot;
                    if (product[l] < 1e-100 || product[l] > 1e100) { /* logarithms only when needed */
                        log_det[l] += log(product[l]);
                        product[l] = 1.0;
                    }
                }
            for (int r = TOGETHER - 1; r >= 0; r--) AT((double *)row[r] + j * LANES) = sum[r] * scale;
        }
        AT(root + (j * s + j) * LANES) = scale;
    }
    for (int l = 0; l < LANES; l++) log_det[l] += log(product[l]);
    return 1;
}

/* q += the squared length of L^-1 v, for a root L; v is overwritten. */
INLINE void add_squares(const double *root, ptrdiff_t s, double *v, lanes *q) {
    for (ptrdiff_t i = 0; i < s; i++) {
        const double *const row = root + i * s * LANES;
        lanes y = FROM(v + i * LANES);
        take_products(row, v, i, &y);
        y *= FROM(row + i * LANES);
        AT(v + i * LANES) = y;
        *q += y * y;
    }
}

/* z'(S_oo)^-1 z of one row, where o are the coordinates present. The root is of S_oo, or (`inside` is 0) of the
   precision of the others, P_mm: then the form is z'P_oo z - g'(P_mm)^-1 g, g = P_mo z. */
FUSED static void form(const Parts *p, const double *x, int inside, double *q) {
    for (ptrdiff_t i = 0; i < p->held; i++)
        AT(p->z + i * LANES) = x[p->here[i]] - FROM(p->mean + p->here[i] * LANES);
    lanes whole = ZERO, told = ZERO;
    if (inside) {
        add_squares(p->root, p->held, p->z, &whole);
        AT(q) = whole;
        return;
    }
    for (ptrdiff_t i = 0; i < p->held; i++) {
        const double *const row = p->precision + p->here[i] * p->d * LANES;
        const lanes z = FROM(p->z + i * LANES);
        lanes sum = 0.5 * z * FROM(row + p->here[i] * LANES);
        for (ptrdiff_t j = 0; j < i; j++) sum += FROM(row + p->here[j] * LANES) * FROM(p->z + j * LANES);
        whole += 2.0 * z * sum;
    }
    for (ptrdiff_t i = 0; i < p->absent; i++) {
        const double *const row = p->precision + p->gone[i] * p->d * LANES;
        lanes sum = ZERO;
        for (ptrdiff_t j = 0; j < p->held; j++) sum += FROM(row + p->here[j] * LANES) * FROM(p->z + j * LANES);
        AT(p->y + i * LANES) = sum;
    }
    add_squares(p->root, p->absent, p->y, &told);
    whole -= told;
    for (int l = 0; l < LANES; l++) q[l] = LANE(whole, l) > 0.0 ? LANE(whole, l) : 0.0;
}

/* ---- rows left out ---- */

typedef struct { /* LANES parts, in axes in which A is diagonal for every lean */
    ptrdiff_t d, leans;
    const double *mean, *axes;  /* (d, LANES); (d, d, LANES), NULL: the axes are those of rows */
    const double *by;           /* (leans, d, LANES): the diagonals of A⁻¹ */
    const double *shared;       /* (leans,): by how much a row's own outer product is in every A, */
    double own_share, residue;  /* and by how much more in that of its own part */
    double *from_mean, *z, *between; /* buffers: (d, LANES), (d, LANES), (parts of rows, d, LANES) */
} LeftOut;

INLINE void turned(const LeftOut *g, const double *from, double *to) {
    for (ptrdiff_t j = 0; j < g->d; j += TOGETHER) {
        const ptrdiff_t some = g->d - j < TOGETHER ? g->d - j : TOGETHER;
        lanes sum[TOGETHER] = {ZERO, ZERO, ZERO, ZERO};
        if (some == TOGETHER)
            for (ptrdiff_t c = 0; c < g->d; c++)
                for (int s = 0; s < TOGETHER; s++) sum[s] += FROM(g->axes + (c * g->d + j + s) * LANES) * FROM(from + c * LANES);
        else
            for (ptrdiff_t c = 0; c < g->d; c++)
                for (int s = 0; s < some; s++) sum[s] += FROM(g->axes + (c * g->d + j + s) * LANES) * FROM(from + c * LANES);
        for (int s = 0; s < some; s++) AT(to + (j + s) * LANES) = sum[s];
    }
}

/* How far the means of these parts are from that of each part that rows have, along the axes. */
FUSED void differences(const LeftOut *g, const double *means, ptrdiff_t parts) {
    for (ptrdiff_t o = 0; o < parts; o++) {
        double *const to = g->between + o * g->d * LANES, *const away = g->axes ? g->from_mean : to;
        for (ptrdiff_t c = 0; c < g->d; c++) AT(away + c * LANES) = FROM(g->mean + c * LANES) - means[o * g->d + c];
        if (g->axes) turned(g, away, to);
    }
}

/* Of rows 0..n, whose own parts are `own`: forms without the row, and what
 * remains of |A|, for `wide` parts: at [lean * step + row * parts]. */
FUSED void left_out(const LeftOut *g, const double *X, const int *own, ptrdiff_t first_part, int wide, ptrdiff_t n,
                    const double *taken, const double *grown, ptrdiff_t parts, ptrdiff_t step, double *q,
                    double *remaining) {
    for (ptrdiff_t i = 0; i < n; i++) {
        double *const z = g->axes ? g->z : g->from_mean;
        const double *const between = g->between + own[i] * g->d * LANES;
        for (ptrdiff_t c = 0; c < g->d; c++) AT(g->from_mean + c * LANES) = X[i * g->d + c] - FROM(g->mean + c * LANES);
        if (g->axes) turned(g, g->from_mean, z);
        for (ptrdiff_t l = 0; l < g->leans; l++) {
            const double *const by = g->by + l * g->d * LANES;
            lanes zz = ZERO, zw = ZERO, ww = ZERO;
            for (ptrdiff_t c = 0; c < g->d; c++) {
                const lanes mine = FROM(z + c * LANES), theirs = mine + FROM(between + c * LANES);
                const lanes scaled = mine * FROM(by + c * LANES);
                zz += mine * scaled;
                zw += theirs * scaled;
                ww += theirs * theirs * FROM(by + c * LANES);
            }
            double *const to_q = q + l * step + i * parts, *const to_left = remaining + l * step + i * parts;
            for (int s = 0; s < wide; s++) {
                const int mine = own[i] == first_part + s;
                const double rate = taken[i] * (g->shared[l] + (mine ? g->own_share : 0.0));
                const double left = 1.0 - rate * LANE(ww, s), safe = left > g->residue ? left : g->residue;
                to_left[s] = safe;
                to_q[s] = mine ? grown[i] * grown[i] * LANE(ww, s) / safe
                               : LANE(zz, s) + rate * LANE(zw, s) * LANE(zw, s) / safe;
            }
        }
    }
}

#endif
