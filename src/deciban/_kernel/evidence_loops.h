/* The evidence of rows of items, for several strengths of pseudo-counts at once: a lane each. */

#ifndef DECIBAN_EVIDENCE_LOOPS_H
#define DECIBAN_EVIDENCE_LOOPS_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "compiler.h"

enum { LANES = 4, GROUPS = 32, FEW = 8 };
typedef double lanes __attribute__((vector_size(32), aligned(8), may_alias));
typedef int64_t places __attribute__((vector_size(32), aligned(8), may_alias));

INLINE lanes from(const double *at) { return *(const lanes *)at; }
INLINE lanes all(double x) { return (lanes){x, x, x, x}; }

/* log x of positive normal numbers, to within two units in the last place: x = 2^e·m with m in [√½, √2), and
   log m = 2 atanh f with f = (m − 1)/(m + 1), whose series in f² ≤ 0.0295 is cut after eleven terms. */
INLINE lanes logs(lanes x) {
    const places bits = (places)x, root = (places){1, 1, 1, 1} * 0x3fe6a09e667f3bcdLL; /* √½ */
    const places shifted = bits - root;
    const places e = shifted >> 52;
    const lanes m = (lanes)(bits - (e << 52));
    const lanes f = (m - 1.0) / (m + 1.0), s = f * f;
    lanes sum = all(1.0 / 23);
    sum = sum * s + 1.0 / 21;
    sum = sum * s + 1.0 / 19;
    sum = sum * s + 1.0 / 17;
    sum = sum * s + 1.0 / 15;
    sum = sum * s + 1.0 / 13;
    sum = sum * s + 1.0 / 11;
    sum = sum * s + 1.0 / 9;
    sum = sum * s + 1.0 / 7;
    sum = sum * s + 1.0 / 5;
    sum = sum * s + 1.0 / 3;
    const lanes power = __builtin_convertvector(e, lanes);
    return power * 0.69314718055994530942 + (2.0 * f + 2.0 * f * s * sum);
}

/* See tables(): for items first..last. */
CLONES void derive(const int64_t *ptr, const int32_t *cls, const double *val, const double *pseudo, const double *strength,
                   int64_t strengths, int64_t k, const int32_t *dense_row, double *lift, double *known, double *total,
                   double *dense, int64_t first, int64_t last) {
    const lanes m = from(strength);
    for (int64_t w = first; w < last; w++) {
        double sum = 0.0;
        lanes info = all(0.0);
        for (int64_t f = ptr[w]; f < ptr[w + 1]; f++) {
            const double mine = pseudo[cls[f]];
            const lanes base = m * mine;
            const lanes up = mine > 0.0 ? logs(1.0 + val[f] / base) : all(0.0);
            *(lanes *)(lift + LANES * f) = up;
            info += (val[f] + base) * up;
            sum += val[f];
            if (dense_row[w] >= 0)
                for (int64_t s = 0; s < strengths; s++) dense[(dense_row[w] * strengths + s) * k + cls[f]] = up[s];
        }
        total[w] = sum;
        *(lanes *)(known + LANES * w) = info;
    }
}

typedef struct { /* derived from the sums: see tables() */
    int64_t items, classes, strengths, hats, groups;
    const int64_t *ptr;
    const int32_t *cls, *dense_row; /* dense_row[item]: where its lifts are stored side by side, or −1 */
    const double *val, *lift, *known, *total, *dense;
    const double *pseudo, *pseudo_left, *entropy, *strength, *knots;
    const int32_t *group;   /* (classes,) the factor of each class */
    const double *factor;   /* (groups,) by how much a class's share of the pseudo-counts is multiplied */
    int64_t width;          /* how many classes are asked about: `wanted` (width,), at places `column` (classes,), −1 */
    const int32_t *wanted, *column; /* if not; NULL if all are */
    double least, most;
} Derived;

/* Items are scattered over memory: the next ones are prefetched while this one is computed. */
INLINE void fetch_ahead(const Derived *t, const int32_t *indices, int64_t e, int64_t end) {
    if (e + 12 < end) {
        const int64_t w = indices[e + 12];
        if (w >= 0 && w < t->items) {
            __builtin_prefetch(t->ptr + w);
            __builtin_prefetch(t->total + w);
            __builtin_prefetch(t->known + LANES * w);
            __builtin_prefetch(t->dense_row + w);
        }
    }
    if (e + 6 < end) {
        const int64_t w = indices[e + 6];
        if (w >= 0 && w < t->items) {
            const int64_t at = t->ptr[w];
            __builtin_prefetch(t->lift + LANES * at);
            __builtin_prefetch(t->cls + at);
            __builtin_prefetch(t->val + at);
        }
    }
}

/* out[row][strength][vector][class] += the evidence of the row's items; see evidence() for the arguments.

   The evidence of an item is log(1 + N_kw/(m s_k π_k)), its lift, plus log(m s_k/(N_w + m s_k)); if N_kw is 0, the lift
   is 0. Classes with the same factor s share the second term: it is added up by group, and not at all if there is only
   one group. With few classes, an item's evidence is first laid out for all of them. If only some classes are asked
   about, the others still count in what an item knows. */
CLONES void evidence_rows(const Derived *t, const int64_t *indptr, const int32_t *indices, const double *damp,
                          const int32_t *own, const double *taken, double *out, int64_t out_row, double *absent,
                          int64_t first, int64_t last) {
    const int64_t k = t->classes, hats = t->hats, vectors = hats + 2, strengths = t->strengths, groups = t->groups;
    const int64_t width = t->width;
    const int32_t *const column = t->column;
    const lanes m = from(t->strength);
    const int few = k <= FEW && !column;
    double all_pseudo[GROUPS] = {0.0}, pseudo[GROUPS], in_group[GROUPS], said[LANES * FEW];
    lanes log_m[GROUPS], none[GROUPS];
    for (int64_t c = 0; c < k; c++) all_pseudo[t->group[c]] += t->pseudo[c];
    for (int64_t j = 0; j < groups; j++) log_m[j] = logs(m * t->factor[j]);
    for (int64_t i = first; i < last; i++) {
        const int32_t mine = own[i];
        const double x = taken[i];
        const lanes entropy = all(t->entropy[mine >= 0 ? mine : k]);
        double *const o = out + i * out_row;
        lanes n1 = all(0.0), n2 = all(0.0);
        double pseudo_sum = 0.0;
        memcpy(pseudo, all_pseudo, sizeof pseudo);
        if (mine >= 0) pseudo[t->group[mine]] += t->pseudo_left[mine] - t->pseudo[mine];
        for (int64_t j = 0; j < groups; j++) pseudo_sum += pseudo[j];
        if (groups > 1 && !few) memset(absent, 0, strengths * vectors * groups * sizeof(double));
        for (int64_t e = indptr[i]; e < indptr[i + 1]; e++) {
            const int64_t w = indices[e];
            fetch_ahead(t, indices, e, indptr[i + 1]);
            if (w < 0 || w >= t->items) continue;
            const int64_t begin = t->ptr[w], end = t->ptr[w + 1];
            if (begin == end) continue;
            double rest = t->total[w], removed = 0.0;
            lanes info = from(t->known + LANES * w), own_lift = all(0.0);
            int64_t mine_at = -1;
            if (mine >= 0) {
                rest -= x;
                if (rest <= t->total[w] * 1e-9) continue; /* no other row has the item */
                int64_t f = end - begin == k ? begin + mine : begin;
                while (f < end && t->cls[f] < mine) f++;
                if (f < end && t->cls[f] == mine) {
                    mine_at = f;
                    removed = x;
                    const double n_own = t->val[f] - x;
                    info -= (t->val[f] + m * t->pseudo[mine]) * from(t->lift + LANES * f);
                    if (t->pseudo_left[mine] <= 0.0) {
                        rest -= n_own; /* a class that is now empty loses its pseudo-counts too */
                        removed += n_own;
                    } else if (n_own > t->val[f] * 1e-9) {
                        const lanes base = m * t->pseudo_left[mine];
                        own_lift = logs(1.0 + n_own / base);
                        info += (n_own + base) * own_lift;
                    }
                }
            }
            if (groups == 1) {
                const lanes pseudo_m = m * t->factor[0];
                none[0] = log_m[0] - logs(rest + pseudo_m);
                info += none[0] * (rest + m * pseudo_sum);
            } else {
                memset(in_group, 0, groups * sizeof(double));
                for (int64_t f = begin; f < end; f++) in_group[t->group[t->cls[f]]] += t->val[f];
                if (mine_at >= 0) in_group[t->group[mine]] -= removed;
                for (int64_t j = 0; j < groups; j++) {
                    none[j] = log_m[j] - logs(rest + m * t->factor[j]);
                    info += none[j] * (in_group[j] + m * pseudo[j]);
                }
            }
            lanes know = info / (rest + m * pseudo_sum) / entropy;
            for (int s = 0; s < LANES; s++)
                know[s] = know[s] > t->least ? (know[s] < t->most ? know[s] : t->most) : t->least;
            n1 += know;
            n2 += know * know;
            const lanes place = logs(know);
            const int64_t row = t->dense_row[w];
            if (few) {
                for (int64_t c = 0; c < k; c++)
                    *(lanes *)(said + LANES * c) = groups > 1 ? none[t->group[c]] : all(0.0);
                for (int64_t f = begin; f < end; f++)
                    *(lanes *)(said + LANES * t->cls[f]) += f == mine_at ? own_lift : from(t->lift + LANES * f);
            }
            for (int64_t s = 0; s < strengths; s++) {
                int64_t g = 0;
                double hat = 1.0;
                if (place[s] >= t->knots[hats - 1]) {
                    g = hats - 2;
                    hat = 0.0;
                } else if (place[s] > t->knots[0]) {
                    while (place[s] > t->knots[g + 1]) g++;
                    hat = (t->knots[g + 1] - place[s]) / (t->knots[g + 1] - t->knots[g]);
                }
                double *restrict lower = o + (s * vectors + g) * width;
                double *restrict upper = lower + width;
                double *restrict weighed = o + (s * vectors + hats + 1) * width;
                const double other = 1.0 - hat, knows = know[s];
                if (few) {
                    for (int64_t c = 0; c < k; c++) {
                        const double says = said[LANES * c + s];
                        lower[c] += hat * says;
                        upper[c] += other * says;
                        weighed[c] += knows * says;
                    }
                    continue;
                }
                if (column) {
                    for (int64_t f = begin; f < end; f++) {
                        const int64_t c = column[t->cls[f]];
                        if (c < 0) continue;
                        const double lift = t->lift[LANES * f + s];
                        lower[c] += hat * lift;
                        upper[c] += other * lift;
                        weighed[c] += knows * lift;
                    }
                } else if (row >= 0) {
                    const double *restrict lift = t->dense + (row * strengths + s) * k;
                    for (int64_t c = 0; c < k; c++) {
                        lower[c] += hat * lift[c];
                        upper[c] += other * lift[c];
                        weighed[c] += knows * lift[c];
                    }
                } else {
                    for (int64_t f = begin; f < end; f++) {
                        const int64_t c = t->cls[f];
                        const double lift = t->lift[LANES * f + s];
                        lower[c] += hat * lift;
                        upper[c] += other * lift;
                        weighed[c] += knows * lift;
                    }
                }
                const int64_t own_place = mine >= 0 && column ? column[mine] : mine;
                if (mine_at >= 0 && own_place >= 0) { /* the row's own class, without the row */
                    const double change = own_lift[s] - t->lift[LANES * mine_at + s];
                    lower[own_place] += hat * change;
                    upper[own_place] += other * change;
                    weighed[own_place] += knows * change;
                }
                if (groups > 1) {
                    double *restrict below = absent + (s * vectors + g) * groups;
                    double *restrict by_know = absent + (s * vectors + hats + 1) * groups;
                    for (int64_t j = 0; j < groups; j++) {
                        below[j] += hat * none[j][s];
                        below[groups + j] += other * none[j][s];
                        by_know[j] += knows * none[j][s];
                    }
                }
            }
        }
        for (int64_t s = 0; s < strengths; s++) {
            double *const mine_out = o + s * vectors * width;
            const double by_know = n1[s] > 0.0 ? 1.0 / sqrt(n1[s]) : 0.0, by_square = n2[s] > 0.0 ? 1.0 / sqrt(n2[s]) : 0.0;
            if (groups > 1 && !few)
                for (int64_t g = 0; g < vectors; g++)
                    for (int64_t c = 0; c < width && g != hats; c++)
                        mine_out[g * width + c] +=
                            absent[(s * vectors + g) * groups + t->group[column ? t->wanted[c] : c]];
            for (int64_t c = 0; c < width; c++) {
                double sum = 0.0;
                for (int64_t g = 0; g < hats; g++) {
                    sum += mine_out[g * width + c];
                    mine_out[g * width + c] *= by_know;
                }
                mine_out[hats * width + c] = damp[i] * sum;
                mine_out[(hats + 1) * width + c] *= by_square;
            }
        }
    }
}

#endif
