/* Quadratic forms of some of the coordinates, in the covariances of LANES parts at once. Each entry is LANES numbers,
 * one per part, so that all parts take the same steps whichever coordinates a row has. */
#ifndef DECIBAN_MARGINALS_LOOPS_H
#define DECIBAN_MARGINALS_LOOPS_H

#include <math.h>
#include <stddef.h>

#include "compiler.h"

#define LANES 4
typedef double lanes __attribute__((vector_size(32), aligned(8), may_alias));
#define LANE(v, l) (v)[l]

#define AT(address) (*(lanes *)(address))
#define FROM(address) (*(const lanes *)(address))
#define ZERO ((lanes){0.0})

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

#endif
