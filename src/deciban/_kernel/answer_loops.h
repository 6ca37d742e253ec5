/* The pooled evidence of rows of items: what evidence_loops.h gives vector by vector, weighted and added up.
 *
 * For each item and strength there are what it knows, κ, and Σ_g r_g hat_g(κ), its belief; for each class λ. A row's
 * score is Σ belief·λ / √Σκ + u^-¾ Σ r λ + r Σ κ·λ / √Σκ², added over strengths. So there are two sums for each class,
 * with a lane for each strength that has any weight, and a lane for all items equally if they have any. With many
 * classes the roots are computed first, and there is one sum for each class. Numbers are kept
 * without room for other lanes: what a vector is loaded with beyond its own is masked out. */

#ifndef DECIBAN_ANSWER_LOOPS_H
#define DECIBAN_ANSWER_LOOPS_H

#include "evidence_loops.h"

enum { STRENGTHS = LANES - 1, MANY_CLASSES = 128 /* more than these */ };

typedef struct { /* what all items of a block have in common */
    int64_t classes, hats, groups;
    const double *pseudo, *factor, *knots; /* (k,) s π; (groups,); (hats,) */
    const int32_t *group;
    double weights[STRENGTHS][16]; /* by lane, of the vectors: hats, all equally, by how much they know */
    double strength[LANES], alike[LANES], by_know[LANES], entropy, least, most;
    double all_pseudo[GROUPS], log_m[GROUPS * LANES], pseudo_sum;
    int lanes, stride;   /* strengths in use; with that of all equally, if it is in use */
    int64_t mask[LANES]; /* of the latter */
} Scale;

/* Puts strengths without weights last; weights are (STRENGTHS, hats + 2). */
static void scale_fill(Scale *t, const double *strength, const double *weights) {
    const int64_t vectors = t->hats + 2;
    int alike = 0;
    t->lanes = 0;
    for (int used = 1; used >= 0; used--)
        for (int s = 0, at = used ? 0 : t->lanes; s < STRENGTHS; s++) {
            int any = 0;
            for (int64_t g = 0; g < vectors; g++) any |= weights[s * vectors + g] != 0.0;
            if (any != used) continue;
            for (int64_t g = 0; g < vectors; g++) t->weights[at][g] = weights[s * vectors + g];
            alike |= weights[s * vectors + t->hats] != 0.0;
            t->strength[at++] = strength[s];
            t->lanes += used;
        }
    t->stride = t->lanes + alike;
    t->strength[STRENGTHS] = 1.0;
    memset(t->all_pseudo, 0, sizeof t->all_pseudo);
    t->pseudo_sum = 0.0;
    for (int64_t c = 0; c < t->classes; c++) {
        t->all_pseudo[t->group[c]] += t->pseudo[c];
        t->pseudo_sum += t->pseudo[c];
    }
    for (int64_t j = 0; j < t->groups; j++)
        *(lanes *)(t->log_m + LANES * j) = logs(from(t->strength) * t->factor[j]);
    for (int s = 0; s < LANES; s++) {
        t->alike[s] = s < STRENGTHS ? t->weights[s][t->hats] : 0.0;
        t->by_know[s] = s < t->lanes ? t->weights[s][t->hats + 1] : 0.0;
        t->mask[s] = s < t->stride ? -1 : 0;
    }
}

/* As many numbers as there are lanes in use; LANES of them can be read. */
INLINE lanes masked(const double *at, places mask) { return (lanes)(*(const places *)at & mask); }

INLINE places mask_of(const Scale *t) { return *(const places *)t->mask; }

/* Numbers of the lanes in use, with that of all equally, at every step-th place. */
INLINE void put_lanes(const Scale *t, lanes x, double *to, int64_t step) {
    const lanes y = x * from(t->alike);
    for (int s = 0; s < t->lanes; s++) to[step * s] = x[s];
    if (t->stride > t->lanes) to[step * t->lanes] = y[0] + y[1] + y[2];
}

/* How many numbers κ and beliefs take. */
INLINE int64_t head_size(const Scale *t) { return t->lanes + t->stride; }

typedef struct { /* where the lift of a cell is: by its class or its place, and by lane */
    double *at;
    int by_class;
    int64_t cell_step, lane_step;
} Lifts;

/* The evidence of an item with these sums: κ and beliefs into `head`; lifts; and by group of classes that of those that
 * do not have it. With one group the latter is common to all classes, and left out. */
INLINE void weigh(const Scale *t, const int32_t *cls, const double *val, int64_t n, double *head, Lifts lifts,
                  double *none) {
    const lanes m = from(t->strength);
    double total = 0.0, in_group[GROUPS];
    lanes info = all(0.0);
    memset(in_group, 0, (size_t)t->groups * sizeof(double));
    for (int64_t f = 0; f < n; f++) {
        const double mine = t->pseudo[cls[f]];
        const lanes base = m * mine;
        const lanes up = mine > 0.0 ? logs(1.0 + val[f] / base) : all(0.0);
        info += (val[f] + base) * up;
        total += val[f];
        in_group[t->group[cls[f]]] += val[f];
        put_lanes(t, up, lifts.at + lifts.cell_step * (lifts.by_class ? cls[f] : f), lifts.lane_step);
    }
    for (int64_t j = 0; j < t->groups; j++) {
        const lanes absent = from(t->log_m + LANES * j) - logs(total + m * t->factor[j]);
        info += absent * (in_group[j] + m * t->all_pseudo[j]);
        if (t->groups > 1) put_lanes(t, absent, none + t->stride * j, 1);
    }
    lanes know = info / (total + m * t->pseudo_sum) / t->entropy;
    for (int s = 0; s < LANES; s++) know[s] = know[s] > t->least ? (know[s] < t->most ? know[s] : t->most) : t->least;
    const lanes place = logs(know);
    for (int s = 0; s < t->lanes; s++) {
        const double *w = t->weights[s];
        head[s] = know[s];
        if (place[s] <= t->knots[0]) {
            head[t->lanes + s] = w[0];
        } else if (place[s] >= t->knots[t->hats - 1]) {
            head[t->lanes + s] = w[t->hats - 1];
        } else {
            int64_t g = 0;
            while (place[s] > t->knots[g + 1]) g++;
            const double hat = (t->knots[g + 1] - place[s]) / (t->knots[g + 1] - t->knots[g]);
            head[t->lanes + s] = hat * w[g] + (1.0 - hat) * w[g + 1];
        }
    }
    if (t->stride > t->lanes) head[2 * t->lanes] = 1.0;
}

/* An item's record: the number of its cells, κ, beliefs, the lifts of groups without it, the classes of its cells, two
 * in the room of a number, and the lifts of cells. With many classes lifts are stored lane by lane; and an item that most
 * of them have has a lift for every class, and no list of classes. */
INLINE int has_many_classes(const Scale *t) { return t->classes > MANY_CLASSES; }

INLINE int in_most_classes(const Scale *t, int64_t n) { return has_many_classes(t) && 3 * n >= 2 * t->classes; }

INLINE int64_t fixed_size(const Scale *t) {
    return 1 + head_size(t) + (t->groups > 1 ? t->stride * t->groups : 0);
}

INLINE int64_t record_size(const Scale *t, int64_t n) {
    return fixed_size(t) + (in_most_classes(t, n) ? t->stride * t->classes : (n + 1) / 2 + t->stride * n);
}

INLINE void fill_record(const Scale *t, const int32_t *cls, const double *val, int64_t n, double *record) {
    const int64_t stride = t->stride, k = t->classes;
    double *const cells = record + fixed_size(t), *const none = record + 1 + head_size(t);
    record[0] = (double)n;
    if (in_most_classes(t, n)) {
        memset(cells, 0, (size_t)(stride * k) * sizeof(double));
        weigh(t, cls, val, n, record + 1, (Lifts){cells, 1, 1, k}, none);
    } else {
        const Lifts by_lane = {cells + (n + 1) / 2, 0, 1, n}, by_cell = {cells + (n + 1) / 2, 0, stride, 1};
        weigh(t, cls, val, n, record + 1, has_many_classes(t) ? by_lane : by_cell, none);
        memcpy(cells, cls, (size_t)n * sizeof *cls);
    }
}

/* ---- one row ---- */

typedef struct { /* Σκ and Σκ² of a row's items, by lane */
    lanes n1, n2;
} Knowledge;

typedef struct { /* how sums over items become scores */
    lanes first, second;
} Ending;

INLINE Ending ending(const Scale *t, Knowledge sum, double damp) {
    Ending out;
    for (int s = 0; s < LANES; s++) {
        out.first[s] = s < t->lanes ? (sum.n1[s] > 0.0 ? 1.0 / sqrt(sum.n1[s]) : 0.0) : s < t->stride ? damp : 0.0;
        out.second[s] = s < t->lanes && sum.n2[s] > 0.0 ? t->by_know[s] / sqrt(sum.n2[s]) : 0.0;
    }
    return out;
}

INLINE double total_of(lanes x) { return (x[0] + x[1]) + (x[2] + x[3]); }

INLINE lanes know_of(const Scale *t, const double *record) { return masked(record + 1, mask_of(t)); }

INLINE lanes belief_of(const Scale *t, const double *record) { return masked(record + 1 + t->lanes, mask_of(t)); }

INLINE void add_knowledge(const Scale *t, const double *record, Knowledge *sum) {
    const lanes know = know_of(t, record);
    sum->n1 += know;
    sum->n2 += know * know;
}

/* What the lifts of an item are multiplied by, once Σκ and Σκ² of its row are known. */
INLINE lanes multiplier(const Scale *t, const double *record, Ending how) {
    return belief_of(t, record) * how.first + know_of(t, record) * how.second;
}

/* Unless classes are many there are two sums for each, of beliefs and of κ times λ: one pass over items is enough. */
typedef struct {
    lanes by_belief, by_know;
} Pair;

typedef struct {
    Knowledge known;
    Pair of_class[MANY_CLASSES], absent[GROUPS];
} Sums;

INLINE void begin_sums(const Scale *t, Sums *row) {
    memset(&row->known, 0, sizeof row->known);
    memset(row->of_class, 0, (size_t)t->classes * sizeof(Pair));
    if (t->groups > 1) memset(row->absent, 0, (size_t)t->groups * sizeof(Pair));
}

INLINE void add_pair(Pair *sum, lanes belief, lanes know, lanes log_odds) {
    sum->by_belief += belief * log_odds;
    sum->by_know += know * log_odds;
}

INLINE double score_of(const Pair *sum, Ending how) {
    return total_of(sum->by_belief * how.first + sum->by_know * how.second);
}

INLINE void add_to_sums(const Scale *t, const double *record, Sums *row) {
    const places mask = mask_of(t);
    const lanes know = know_of(t, record), belief = belief_of(t, record);
    const double *const after_head = record + 1 + head_size(t);
    add_knowledge(t, record, &row->known);
    const int64_t n = (int64_t)record[0];
    const double *const cells = record + fixed_size(t), *const lift = cells + (n + 1) / 2;
    const int32_t *const cls = (const int32_t *)cells;
    for (int64_t j = 0; j < t->groups && t->groups > 1; j++)
        add_pair(row->absent + j, belief, know, masked(after_head + t->stride * j, mask));
    for (int64_t f = 0; f < n; f++) add_pair(row->of_class + cls[f], belief, know, masked(lift + t->stride * f, mask));
}

/* Adds the scores of a row, whose items are all there, to `out`. */
INLINE void end_sums(const Scale *t, const Sums *row, double damp, double *out) {
    const Ending how = ending(t, row->known, damp);
    double by_group[GROUPS];
    for (int64_t j = 0; j < t->groups; j++)
        by_group[j] = t->groups > 1 ? score_of(row->absent + j, how) : 0.0;
    for (int64_t c = 0; c < t->classes; c++) out[c] += score_of(row->of_class + c, how) + by_group[t->group[c]];
}

enum { CHUNK = 64 }; /* cells */

/* out[class of cell] += Σ by·lift, over the lanes that count. */
INLINE void add_lifts(const int32_t *cls, const double *const *lift, const double *by, int lanes_used, int64_t n,
                      double *restrict out) {
    double each[CHUNK];
    for (int64_t begin = 0; begin < n; begin += CHUNK) {
        const int64_t some = n - begin < CHUNK ? n - begin : CHUNK;
        double *const restrict to = cls ? each : out + begin;
        for (int64_t f = 0; f < some; f++) {
            double sum = by[0] * lift[0][begin + f];
            for (int s = 1; s < lanes_used; s++) sum += by[s] * lift[s][begin + f];
            to[f] = cls ? sum : to[f] + sum;
        }
        for (int64_t f = 0; f < some && cls; f++) out[cls[begin + f]] += each[f];
    }
}

/* With many classes the lifts of an item are added to the scores at once, in a second pass over items: sums for each
 * class and lane would not fit into the first-level cache. Many an item has no weight: its lifts are not even read. */
INLINE void add_to_many(const Scale *t, Ending how, const double *record, double *out, double *absent) {
    const lanes multiply = multiplier(t, record, how);
    const int64_t n = (int64_t)record[0], k = t->classes;
    const int dense = in_most_classes(t, n);
    const double *const cells = record + fixed_size(t), *const lifts = dense ? cells : cells + (n + 1) / 2;
    const double *lift[LANES];
    double by[LANES];
    int used = 0;
    for (int s = 0; s < t->stride; s++)
        if (multiply[s] != 0.0) {
            by[used] = multiply[s];
            lift[used++] = lifts + (dense ? k : n) * s;
        }
    if (!used) return;
    for (int64_t j = 0; j < t->groups && t->groups > 1; j++)
        absent[j] += total_of(multiply * masked(record + 1 + head_size(t) + t->stride * j, mask_of(t)));
    const int32_t *const cls = dense ? NULL : (const int32_t *)cells;
    const int64_t count = dense ? k : n;
    if (used == 1) add_lifts(cls, lift, by, 1, count, out);
    else if (used == 2) add_lifts(cls, lift, by, 2, count, out);
    else if (used == 3) add_lifts(cls, lift, by, 3, count, out);
    else add_lifts(cls, lift, by, 4, count, out);
}

INLINE void end_many(const Scale *t, const double *absent, double *out) {
    for (int64_t c = 0; c < t->classes && t->groups > 1; c++) out[c] += absent[t->group[c]];
}

/* What rows are made of, and where their scores go. `column` has the column of x of each item, −1 for none. */
typedef struct {
    const int64_t *indptr;
    const int32_t *indices;
    const double *damp, *x;
    const int32_t *column;
    int64_t columns;      /* items that `column` is about */
    const double *slopes; /* (columns of x, k), NULL: none */
    double *out;          /* (n, k) */
    uint8_t *there;       /* (n,) whether a row has any item of a column */
} Asked;

/* Adds x times the slopes of an item, if it has a column. */
INLINE void add_slopes(const Asked *rows, int64_t k, int64_t i, int64_t w, double x, double *restrict out) {
    if (w < 0 || w >= rows->columns || rows->column[w] < 0) return;
    const double *restrict slope = rows->slopes + k * rows->column[w];
    for (int64_t c = 0; c < k; c++) out[c] += x * slope[c];
    rows->there[i] = 1;
}

/* The scores of rows whose entries have their own sums: those of entry e are at ptr[e]..ptr[e + 1]. There is room for
 * the records of the longest row, or of one item unless classes are many. */
CLONES void answer_directly(const Scale *t, const Asked *rows, const int64_t *ptr, const int32_t *cls, const double *val,
                            double *room, int64_t first, int64_t last) {
    Sums sums;
    for (int64_t i = first; i < last; i++) {
        const int64_t begin = rows->indptr[i], end = rows->indptr[i + 1];
        double *const out = rows->out + i * t->classes;
        Knowledge known = {0};
        if (!has_many_classes(t)) begin_sums(t, &sums);
        const double *at = room;
        for (int64_t e = begin; e < end; e++) {
            const int64_t n = ptr[e + 1] - ptr[e];
            if (rows->slopes) add_slopes(rows, t->classes, i, rows->indices[e], rows->x[i], out);
            if (!n) continue;
            fill_record(t, cls + ptr[e], val + ptr[e], n, (double *)at);
            if (has_many_classes(t)) {
                add_knowledge(t, at, &known);
                at += record_size(t, n);
            } else {
                add_to_sums(t, at, &sums);
            }
        }
        if (!has_many_classes(t)) {
            end_sums(t, &sums, rows->damp[i], out);
            continue;
        }
        const Ending how = ending(t, known, rows->damp[i]);
        double absent[GROUPS] = {0.0};
        at = room;
        for (int64_t e = begin; e < end; e++) {
            const int64_t n = ptr[e + 1] - ptr[e];
            if (!n) continue;
            add_to_many(t, how, at, out, absent);
            at += record_size(t, n);
        }
        end_many(t, absent, out);
    }
}

/* λ of a class, by an item's record. */
INLINE lanes log_odds_of(const Scale *t, const double *record, int64_t c) {
    const double *const after_head = record + 1 + head_size(t);
    const int64_t n = (int64_t)record[0];
    const double *const cells = record + fixed_size(t);
    lanes out = t->groups > 1 ? masked(after_head + t->stride * t->group[c], mask_of(t)) : all(0.0);
    if (in_most_classes(t, n)) {
        for (int s = 0; s < t->stride; s++) out[s] += cells[t->classes * s + c];
        return out;
    }
    const int32_t *const cls = (const int32_t *)cells;
    for (int64_t f = 0; f < n; f++)
        if (cls[f] == c)
            for (int s = 0; s < t->stride; s++)
                out[s] += cells[(n + 1) / 2 + (has_many_classes(t) ? n * s + f : t->stride * f + s)];
    return out;
}

/* What each entry of one row adds to the score of `target` over that of `against`. */
CLONES void answer_terms(const Scale *t, const int64_t *ptr, const int32_t *cls, const double *val, int64_t entries,
                         double damp, int64_t target, int64_t against, double *record, double *out) {
    Knowledge known = {0};
    for (int pass = 0; pass < 2; pass++) {
        const Ending how = ending(t, known, damp);
        for (int64_t e = 0; e < entries; e++) {
            const int64_t n = ptr[e + 1] - ptr[e];
            if (pass) out[e] = 0.0;
            if (!n) continue;
            fill_record(t, cls + ptr[e], val + ptr[e], n, record);
            if (pass)
                out[e] = total_of(multiplier(t, record, how) *
                                  (log_odds_of(t, record, target) - log_odds_of(t, record, against)));
            else
                add_knowledge(t, record, &known);
        }
    }
}

/* Records of items first..last, at start[item]; −1: it has none. */
CLONES void fill_records(const Scale *t, const int64_t *ptr, const int32_t *cls, const double *val, const int64_t *start,
                         double *records, int64_t first, int64_t last) {
    for (int64_t w = first; w < last; w++)
        if (start[w] >= 0) fill_record(t, cls + ptr[w], val + ptr[w], ptr[w + 1] - ptr[w], records + start[w]);
}

INLINE void fetch(const double *at, int64_t bytes) {
    for (int64_t b = 0; b < bytes; b += 64) __builtin_prefetch((const char *)at + b);
}

enum { SOON = 8, LATER = 16 }; /* entries ahead */

/* The scores of rows by records; items from `items` on, and below 0, have no evidence. */
CLONES void answer_by_records(const Scale *t, const Asked *rows, int64_t items, const int64_t *start,
                              const double *records, int64_t first, int64_t last) {
    const int64_t after = rows->indptr[last];
    const int64_t ahead = 8 * (fixed_size(t) + 16);
    Sums sums;
    for (int64_t i = first; i < last; i++) {
        const int64_t begin = rows->indptr[i], end = rows->indptr[i + 1];
        double *const out = rows->out + i * t->classes;
        Knowledge known = {0};
        if (!has_many_classes(t)) begin_sums(t, &sums);
        for (int64_t e = begin; e < end; e++) {
            if (e + LATER < after) {
                const int64_t w = rows->indices[e + LATER];
                if (w >= 0 && w < items) __builtin_prefetch(start + w);
                if (w >= 0 && w < rows->columns) __builtin_prefetch(rows->column + w);
            }
            if (e + SOON < after) {
                const int64_t w = rows->indices[e + SOON];
                if (w >= 0 && w < items && start[w] >= 0) fetch(records + start[w], ahead);
            }
            const int64_t w = rows->indices[e];
            if (w < 0 || w >= items) continue;
            if (rows->slopes) add_slopes(rows, t->classes, i, w, rows->x[i], out);
            if (start[w] < 0) continue;
            if (has_many_classes(t)) add_knowledge(t, records + start[w], &known);
            else add_to_sums(t, records + start[w], &sums);
        }
        if (!has_many_classes(t)) {
            end_sums(t, &sums, rows->damp[i], out);
            continue;
        }
        const Ending how = ending(t, known, rows->damp[i]);
        double absent[GROUPS] = {0.0};
        for (int64_t e = begin; e < end; e++) {
            const int64_t w = rows->indices[e];
            if (w >= 0 && w < items && start[w] >= 0) add_to_many(t, how, records + start[w], out, absent);
        }
        end_many(t, absent, out);
    }
}

#endif
