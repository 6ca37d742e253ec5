/* Weights of evidence vectors that minimise the log loss: a convex problem in few unknowns, by Newton's method. */

#ifndef DECIBAN_POOL_LOOPS_H
#define DECIBAN_POOL_LOOPS_H

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "compiler.h"

enum { HELD = 32 }; /* vectors whose products are computed at a time */
typedef double lanes __attribute__((vector_size(32), aligned(8), may_alias));

typedef struct {
    int64_t n, k, g;
    const double *x;         /* (n, k, g) evidence */
    const int32_t *y;        /* (n,) classes */
    const double *share;     /* (n,) weight of each row; they add up to one */
    const double *log_prior; /* (k,) −∞ for a class that no row can have */
    const double *doubt;     /* (g,) precision of each weight's prior */
    const double *start;     /* (g,) its mean */
    double tie;              /* precision of the offsets' prior, whose mean is 0 */
} Problem;

INLINE double dot(const double *a, const double *b, int64_t g) {
    lanes one = {0, 0, 0, 0}, two = {0, 0, 0, 0};
    int64_t j = 0;
    for (; j + 8 <= g; j += 8) {
        one += *(const lanes *)(a + j) * *(const lanes *)(b + j);
        two += *(const lanes *)(a + j + 4) * *(const lanes *)(b + j + 4);
    }
    one += two;
    double sum = (one[0] + one[1]) + (one[2] + one[3]);
    for (; j < g; j++) sum += a[j] * b[j];
    return sum;
}

/* The objective at weights r and offsets b; posteriors p (n, k), and optionally the gradient (g + k). `loss` is only
   the log loss. */
CLONES double pool_value(const Problem *t, const double *r, const double *b, double *p, double *slope, double *loss) {
    const int64_t n = t->n, k = t->k, g = t->g;
    double total = 0.0, held = 0.0;
    if (slope) memset(slope, 0, (g + k) * sizeof(double));
    for (int64_t i = 0; i < n; i++) {
        const double *row = t->x + i * k * g;
        double *q = p + i * k, top = -INFINITY, sum = 0.0;
        for (int64_t c = 0; c < k; c++) {
            q[c] = t->log_prior[c] > -INFINITY ? dot(row + c * g, r, g) + t->log_prior[c] + b[c] : -INFINITY;
            if (q[c] > top) top = q[c];
        }
        const double mine = q[t->y[i]];
        for (int64_t c = 0; c < k; c++) sum += q[c] = exp(q[c] - top);
        total += t->share[i] * (log(sum) + top - mine);
        for (int64_t c = 0; c < k; c++) q[c] /= sum;
        if (!slope) continue;
        for (int64_t c = 0; c < k; c++) {
            const double by = t->share[i] * (q[c] - (c == t->y[i]));
            if (by == 0.0) continue;
            const double *at = row + c * g;
            for (int64_t j = 0; j < g; j++) slope[j] += by * at[j];
            slope[g + c] += by;
        }
    }
    for (int64_t j = 0; j < g; j++) {
        const double away = r[j] - t->start[j];
        held += t->doubt[j] * away * away;
        if (slope) slope[j] += t->doubt[j] * away;
    }
    for (int64_t c = 0; c < k; c++) {
        held += t->tie * b[c] * b[c];
        if (slope) slope[g + c] += t->tie * b[c];
    }
    *loss = total;
    return total + 0.5 * held;
}

/* to[b] += sign·Σ_t one_t two_bt for `count` of the vectors `two`, which are one after the other. */
INLINE void add_row_products(const lanes *one, const lanes *two, const int count, double sign, double *to) {
    enum { EACH = HELD / 4 };
    lanes sum[4];
    for (int b = 0; b < count; b++) sum[b] = one[0] * two[b * EACH];
    for (int t = 1; t < EACH; t++) {
        const lanes mine = one[t]; /* read once for all of them */
        for (int b = 0; b < count; b++) sum[b] += mine * two[b * EACH + t];
    }
    for (int b = 0; b < count; b++) to[b] += sign * ((sum[b][0] + sum[b][1]) + (sum[b][2] + sum[b][3]));
}

/* out (m, m), rows `width` apart, lower half, += sign·Σ_t z_t z_tᵀ of HELD vectors, which are stored side by side:
   z (m, HELD). */
CLONES void add_products(const double *z, int64_t m, int64_t width, double sign, double *out) {
    for (int64_t a = 0; a < m; a++) {
        const lanes *one = (const lanes *)(z + a * HELD);
        int64_t b = 0;
        for (; b + 4 <= a + 1; b += 4) add_row_products(one, (const lanes *)(z + b * HELD), 4, sign, out + a * width + b);
        for (; b <= a; b++) add_row_products(one, (const lanes *)(z + b * HELD), 1, sign, out + a * width + b);
    }
}

typedef struct { /* vectors whose products are not computed yet */
    double *z; /* (m, HELD) */
    int64_t count;
    double sign;
} Waiting;

INLINE void flush(Waiting *w, int64_t m, int64_t width, double *out) {
    if (!w->count) return;
    for (int64_t a = 0; a < m; a++)
        for (int64_t t = w->count; t < HELD; t++) w->z[a * HELD + t] = 0.0;
    add_products(w->z, m, width, w->sign, out);
    w->count = 0;
}

/* The spread of each vector: `square` (g,) += Σ x² over rows and classes, `centre` (g,) += Σ (mean over classes)². */
CLONES void pool_spread(const double *x, int64_t n, int64_t g, int64_t k, double *square, double *centre) {
    for (int64_t i = 0; i < n * g; i++) {
        const double *row = x + i * k;
        double sum = 0.0;
        for (int64_t c = 0; c < k; c++) sum += row[c];
        square[i % g] += dot(row, row, k);
        centre[i % g] += sum / k * (sum / k);
    }
}

/* Evidence (n, g, k) in units of the spreads, as (n, k, g). A few classes at a time stay in the cache. There is room for a
   row, so that `out` may be where the evidence is. */
CLONES void pool_arrange(const double *x, int64_t n, int64_t g, int64_t k, const double *spread, double *room, double *out) {
    enum { FEW = 8 };
    for (int64_t i = 0; i < n; i++) {
        memcpy(room, x + i * g * k, (size_t)(g * k) * sizeof(double));
        for (int64_t first = 0; first < k; first += FEW) {
            const int64_t last = first + FEW < k ? first + FEW : k;
            for (int64_t j = 0; j < g; j++)
                for (int64_t c = first; c < last; c++) out[(i * k + c) * g + j] = room[j * k + c] / spread[j];
        }
    }
}

/* The Hessian of the objective: second derivatives by the coordinates `at` (m of them; weights, then offsets), (m, m),
   lower half. Every step-th row is used. A class with a posterior below `least` does not change it noticeably, unless
   all are as small. A row that is of one class for certain has no curvature, and between two classes it is that of
   their difference: p_c p_d (x_c − x_d)(x_c − x_d)ᵀ.

   An offset has a part in one class alone, so only the weights need products of vectors: with posterior p and mean x̄ of
   a row, offsets c and d add p_c [c = d] − p_c p_d, and a weight and offset c add p_c (x_c − x̄). `classes` has room for
   2k numbers. */
CLONES void pool_curvature(const Problem *t, const double *p, const int64_t *at, int64_t m, int64_t step, double least,
                           double *room, int64_t *classes, double *out) {
    const int64_t n = t->n, k = t->k, g = t->g;
    int64_t used = 0, *const place = classes + k;
    while (used < m && at[used] < g) used++;
    Waiting plus = {room, 0, 1.0}, minus = {room + used * HELD, 0, -1.0};
    double *const mean = room + 2 * used * HELD, *const by = mean + used;
    double all = 0.0;
    memset(out, 0, m * m * sizeof(double));
    for (int64_t c = 0; c < k; c++) place[c] = -1;
    for (int64_t a = used; a < m; a++) place[at[a] - g] = a;
    for (int64_t i = 0; i < n; i += step) all += t->share[i];
    for (int64_t i = 0; i < n; i += step) {
        const double *q = p + i * k;
        const double share = t->share[i] / all;
        double top = 0.0, kept = 0.0;
        int64_t some = 0;
        if (!(share > 0.0)) continue;
        for (int64_t c = 0; c < k; c++) top = q[c] > top ? q[c] : top;
        const double bar = 0.1 * top < least ? 0.1 * top : least;
        for (int64_t c = 0; c < k; c++)
            if (q[c] >= bar && q[c] > 0.0) classes[some++] = c, kept += q[c];
        if (some < 2) continue;
        for (int64_t s = 0; s < some; s++) by[s] = q[classes[s]] / kept;
        memset(mean, 0, used * sizeof(double));
        if (some == 2) {
            const double *one = t->x + (i * k + classes[0]) * g, *two = t->x + (i * k + classes[1]) * g;
            const double root = sqrt(by[0] * by[1] * share);
            double *z = plus.z + plus.count;
            for (int64_t a = 0; a < used; a++) {
                const double first = one[at[a]], second = two[at[a]];
                z[a * HELD] = root * (first - second);
                mean[a] = by[0] * first + by[1] * second;
            }
            if (++plus.count == HELD) flush(&plus, used, m, out);
        }
        for (int64_t s = 0; s < some && some > 2; s++) {
            const double root = sqrt(by[s] * share);
            const double *row = t->x + (i * k + classes[s]) * g;
            double *z = plus.z + plus.count;
            for (int64_t a = 0; a < used; a++) {
                const double value = row[at[a]];
                z[a * HELD] = root * value;
                mean[a] += by[s] * value;
            }
            if (++plus.count == HELD) flush(&plus, used, m, out);
        }
        for (int64_t s = 0; s < some; s++) {
            const int64_t o = place[classes[s]];
            if (o < 0) continue;
            const double *row = t->x + (i * k + classes[s]) * g;
            const double mine = share * by[s];
            double *to = out + o * m;
            for (int64_t a = 0; a < used; a++) to[a] += mine * (row[at[a]] - mean[a]);
            for (int64_t d = 0; d <= s; d++)
                if (place[classes[d]] >= 0) to[place[classes[d]]] -= mine * by[d];
            to[o] += mine;
        }
        if (some == 2) continue;
        const double root = sqrt(share);
        for (int64_t a = 0; a < used; a++) minus.z[a * HELD + minus.count] = root * mean[a];
        if (++minus.count == HELD) flush(&minus, used, m, out);
    }
    flush(&plus, used, m, out);
    flush(&minus, used, m, out);
    for (int64_t a = 0; a < m; a++) out[a * m + a] += at[a] < g ? t->doubt[at[a]] : t->tie;
}

/* Solves the system of a symmetric matrix (m, m), rows `width` apart, whose lower half becomes its Cholesky root. A
   direction without curvature does not move. */
CLONES void solve_in_place(double *a, int64_t width, int64_t m, double *v) {
    for (int64_t i = 0; i < m; i++) {
        double *row = a + i * width;
        const double was = row[i];
        for (int64_t j = 0; j < i; j++) {
            const double *other = a + j * width;
            row[j] = (row[j] - dot(row, other, j)) / other[j];
        }
        const double left = row[i] - dot(row, row, i);
        row[i] = left > 1e-14 * was ? sqrt(left) : INFINITY;
        v[i] = (v[i] - dot(row, v, i)) / row[i];
    }
    for (int64_t i = m - 1; i >= 0; i--) {
        v[i] /= a[i * width + i];
        for (int64_t j = 0; j < i; j++) v[j] -= a[i * width + j] * v[i];
    }
}

/* Newton's step in the coordinates `at` of the Hessian (m, m): step (g + k) is 0 in the others. Weights at zero that
   would become negative are fixed there, and the others step again. `root` is a buffer as large as the Hessian. */
static void newton_step(const double *curve, const int64_t *at, int64_t m, int64_t g, const double *slope,
                        const double *r, unsigned char *held, double *root, double *v, int64_t q, double *step) {
    memset(held, 0, m);
    for (;;) {
        int64_t some = 0, stuck = 0;
        for (int64_t a = 0; a < m; a++) {
            if (held[a]) continue;
            for (int64_t b = 0, j = 0; b <= a; b++)
                if (!held[b]) root[some * m + j++] = curve[a * m + b];
            v[some++] = -slope[at[a]];
        }
        solve_in_place(root, m, some, v);
        memset(step, 0, q * sizeof(double));
        for (int64_t a = 0, j = 0; a < m; a++)
            if (!held[a]) step[at[a]] = v[j++];
        for (int64_t a = 0; a < m && at[a] < g; a++)
            if (!held[a] && r[at[a]] <= 0.0 && step[at[a]] < 0.0) held[a] = 1, stuck = 1;
        if (!stuck) return;
    }
}

/* The weights r ≥ 0 and offsets b that minimise the objective, from the given start; returns the log loss there, or NaN
   if memory runs out. At most `rows` rows are used for the Hessian. */
static double pool_fit(const Problem *t, double *r, double *b, int64_t steps, double tolerance, int64_t rows,
                       double least) {
    const int64_t n = t->n, k = t->k, g = t->g, q = g + k;
    double *const room = malloc((2 * n * k + 5 * q + 2 * q * q + (2 * HELD + 1) * q) * sizeof(double));
    int64_t *const at = malloc((q + 2 * k) * sizeof(int64_t));
    unsigned char *const held = malloc(q);
    if (!room || !at || !held) {
        free(room), free(at), free(held);
        return NAN;
    }
    double *p = room, *new_p = p + n * k, *slope = new_p + n * k, *new_slope = slope + q;
    double *const step = new_slope + q, *const to = step + q, *const v = to + q;
    double *const curve = v + q, *const root = curve + q * q, *const waiting = root + q * q;
    double loss, value = pool_value(t, r, b, p, slope, &loss);
    for (int64_t count = 0; count < steps; count++) {
        int64_t m = 0;
        for (int64_t j = 0; j < q; j++)
            if (j < g ? r[j] > 0.0 || slope[j] < 0.0 : t->log_prior[j - g] > -INFINITY) at[m++] = j;
        pool_curvature(t, p, at, m, n > rows ? n / rows : 1, least, waiting, at + q, curve);
        newton_step(curve, at, m, g, slope, r, held, root, v, q, step);
        double size = 1.0, new_value, new_loss;
        for (;;) {
            for (int64_t j = 0; j < g; j++) to[j] = r[j] + size * step[j] > 0.0 ? r[j] + size * step[j] : 0.0;
            for (int64_t c = 0; c < k; c++) to[g + c] = b[c] + size * step[g + c];
            new_value = pool_value(t, to, to + g, new_p, new_slope, &new_loss);
            if (new_value <= value || size < 1e-9) break;
            size /= 2;
        }
        const double gain = value - new_value;
        if (gain > 0) {
            double *swap = p;
            memcpy(r, to, g * sizeof(double));
            memcpy(b, to + g, k * sizeof(double));
            p = new_p, new_p = swap;
            swap = slope, slope = new_slope, new_slope = swap;
            value = new_value, loss = new_loss;
        }
        if (!(gain >= tolerance * (value > 1.0 ? value : 1.0))) break;
    }
    free(room), free(at), free(held);
    return loss;
}

#endif
