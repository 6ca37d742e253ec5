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
    double *mean, *axes;       /* (d, LANES); (d, d, LANES), NULL: the axes are those of rows */
    int triangular;            /* whether axes[i, j] is 0 below i = j */
    double *by;                /* (leans, d, LANES): the diagonals of A⁻¹ */
    const double *shared;      /* (leans,): by how much a row's own outer product is in every A, */
    double own_share, residue; /* and by how much more in that of its own part */
    double *count, *whole;     /* (leans, LANES): by what forms are multiplied, and log-determinants with all rows */
    double *from_mean, *z, *between; /* buffers: (d, LANES), (d, LANES), (parts of rows, d, LANES) */
} LeftOut;

INLINE void turned(const LeftOut *g, const double *from, double *to) {
    for (ptrdiff_t j = 0; j < g->d; j += TOGETHER) {
        const ptrdiff_t some = g->d - j < TOGETHER ? g->d - j : TOGETHER, first = g->triangular ? j : 0;
        lanes sum[TOGETHER] = {ZERO, ZERO, ZERO, ZERO};
        if (some == TOGETHER)
            for (ptrdiff_t c = first; c < g->d; c++)
                for (int s = 0; s < TOGETHER; s++) sum[s] += FROM(g->axes + (c * g->d + j + s) * LANES) * FROM(from + c * LANES);
        else
            for (ptrdiff_t c = first; c < g->d; c++)
                for (int s = 0; s < some; s++) sum[s] += FROM(g->axes + (c * g->d + j + s) * LANES) * FROM(from + c * LANES);
        for (int s = 0; s < some; s++) AT(to + (j + s) * LANES) = sum[s];
    }
}

/* to[i, l] = from[l, i], i < size: LANES parts side by side, past the last of them that one again. */
INLINE void lay_side_by_side(const double *from, ptrdiff_t wide, ptrdiff_t size, ptrdiff_t step, double *to) {
    for (int l = 0; l < LANES; l++) {
        const double *const part = from + (l < wide ? l : wide - 1) * step;
        for (ptrdiff_t i = 0; i < size; i++) to[i * LANES + l] = part[i];
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

/* Of rows 0..n, whose own parts are `own`: forms and log-determinants without the row, for `wide` parts: at [lean * step
 * + row * parts]. For its own part, own_count[lean * n + row] takes the place of the count, and own_whole that of the
 * log-determinant. */
FUSED void left_out(const LeftOut *g, const double *X, const int *own, ptrdiff_t first_part, int wide, ptrdiff_t n,
                    const double *taken, const double *grown, const double *own_count, const double *own_whole,
                    ptrdiff_t parts, ptrdiff_t step, double *q, double *log_det) {
    for (ptrdiff_t i = 0; i < n; i++) {
        double *const z = g->axes ? g->z : g->from_mean;
        const double *const between = g->between + own[i] * g->d * LANES;
        const ptrdiff_t mine = own[i] - first_part;
        for (ptrdiff_t c = 0; c < g->d; c++) AT(g->from_mean + c * LANES) = X[i * g->d + c] - FROM(g->mean + c * LANES);
        if (g->axes) turned(g, g->from_mean, z);
        for (ptrdiff_t l = 0; l < g->leans; l++) {
            const double *const by = g->by + l * g->d * LANES;
            lanes zz = ZERO, zw = ZERO, ww = ZERO;
            for (ptrdiff_t c = 0; c < g->d; c++) {
                const lanes here = FROM(z + c * LANES), theirs = here + FROM(between + c * LANES);
                const lanes scaled = here * FROM(by + c * LANES);
                zz += here * scaled;
                zw += theirs * scaled;
                ww += theirs * theirs * FROM(by + c * LANES);
            }
            lanes rate = ZERO + taken[i] * g->shared[l], count = FROM(g->count + l * LANES);
            lanes whole = FROM(g->whole + l * LANES);
            if (mine >= 0 && mine < wide) {
                rate[mine] += taken[i] * g->own_share;
                count[mine] = own_count[l * n + i];
                whole[mine] = own_whole[l * n + i];
            }
            const lanes left = 1.0 - rate * ww, safe = GREATER(left, ZERO + g->residue);
            lanes form = zz + rate * zw * zw / safe;
            if (mine >= 0 && mine < wide) form[mine] = grown[i] * grown[i] * ww[mine] / safe[mine];
            form *= count;
            whole += log_lanes(safe);
            double *const to_q = q + l * step + i * parts, *const to_det = log_det + l * step + i * parts;
            if (wide == LANES) {
                AT(to_q) = form;
                AT(to_det) = whole;
            } else
                for (int s = 0; s < wide; s++) {
                    to_q[s] = form[s];
                    to_det[s] = whole[s];
                }
        }
    }
}

/* ---- densities ---- */

/* out = constant - log_det/2 - (nu + d)/2 log(1 + q/nu) of n forms; nu may be infinite: then the last term is q/2. Some
 * more numbers are read as `room`, LANES each of q and log_det. */
FUSED void density_rows(const double *q, const double *log_det, ptrdiff_t n, double nu, double d, double constant,
                        double *out) {
    const double power = 0.5 * (nu + d), one = 1.0 / nu;
    const int student = nu < INFINITY;
    for (ptrdiff_t i = 0; i < n; i += LANES) {
        double room[3 * LANES] = {0.0};
        const int whole = i + LANES <= n;
        if (!whole)
            for (ptrdiff_t s = 0; i + s < n; s++) {
                room[s] = q[i + s];
                room[LANES + s] = log_det[i + s];
            }
        const lanes form = FROM(whole ? q + i : room), half = 0.5 * FROM(whole ? log_det + i : room + LANES);
        const lanes value = constant - half - (student ? power * log_lanes(1.0 + form * one) : 0.5 * form);
        AT(whole ? out + i : room + 2 * LANES) = value;
        for (ptrdiff_t s = 0; !whole && i + s < n; s++) out[i + s] = room[2 * LANES + s];
    }
}

/* log sum of exp(density + share) over the parts of each class; `room` is for parts + LANES and 2 (k + LANES) numbers.
 * Without a row of part `own` (-1: none), that part's share is `own_share`, and those of its class change by `shift`. */
FUSED void sum_parts(const double *density, const double *share, const int *owner, ptrdiff_t parts, ptrdiff_t k, int own,
                     double own_share, double shift, double *room, double *out) {
    double *const each = room, *const top = each + parts + LANES, *const sum = top + k + LANES;
    for (ptrdiff_t c = 0; c < k + LANES; c++) {
        top[c] = -INFINITY;
        sum[c] = 0.0;
    }
    for (ptrdiff_t p = 0; p < parts; p++) {
        double mine = share[p];
        if (own >= 0 && owner[p] == owner[own]) mine = p == own ? own_share : mine + shift;
        each[p] = density[p] + mine;
        if (each[p] > top[owner[p]]) top[owner[p]] = each[p];
    }
    for (ptrdiff_t p = 0; p < parts; p++) each[p] -= top[owner[p]] > -INFINITY ? top[owner[p]] : 0.0;
    for (ptrdiff_t p = 0; p < parts; p += LANES) AT(each + p) = exp_lanes(FROM(each + p));
    for (ptrdiff_t p = 0; p < parts; p++) sum[owner[p]] += each[p];
    for (ptrdiff_t c = 0; c < k; c += LANES) AT(sum + c) = log_lanes(FROM(sum + c));
    for (ptrdiff_t c = 0; c < k; c++) out[c] = top[c] + sum[c];
}

#endif
