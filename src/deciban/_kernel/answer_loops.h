/* The pooled evidence of rows of items: what evidence_loops.h gives vector by vector, weighted and added up.
 *
 * For each item and strength there are what it knows, κ, and Σ_g r_g hat_g(κ), its belief; for each class λ. A row's
 * score is Σ belief·λ / √Σκ + u^-¾ Σ r λ + r Σ κ·λ / √Σκ², added over strengths. So there are two sums for each class,
 * with a lane for each strength that has any weight, and a lane for all items equally if they have any. Numbers are kept
 * without room for other lanes: what a vector is loaded with beyond its own is masked out. */

#ifndef DECIBAN_ANSWER_LOOPS_H
#define DECIBAN_ANSWER_LOOPS_H

#include "evidence_loops.h"

enum { STRENGTHS = LANES - 1, SUMS = 2 * LANES, FEW_CLASSES = 4 /* up to so many have a λ each in an item's record */ };

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

/* Numbers of the lanes in use, with that of all equally. */
INLINE void put_lanes(const Scale *t, lanes x, double *to) {
    const lanes y = x * from(t->alike);
    for (int s = 0; s < t->lanes; s++) to[s] = x[s];
    if (t->stride > t->lanes) to[t->lanes] = y[0] + y[1] + y[2];
}

/* How many numbers κ and beliefs take. */
INLINE int64_t head_size(const Scale *t) { return t->lanes + t->stride; }

/* The evidence of an item with these sums: κ and beliefs into `head`; lifts by cell; and by group of classes that of
 * those that do not have it. With one group the latter is common to all classes, and left out. */
INLINE void weigh(const Scale *t, const int32_t *cls, const double *val, int64_t n, double *head, double *lift,
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
        put_lanes(t, up, lift + t->stride * f);
    }
    for (int64_t j = 0; j < t->groups; j++) {
        const lanes absent = from(t->log_m + LANES * j) - logs(total + m * t->factor[j]);
        info += absent * (in_group[j] + m * t->all_pseudo[j]);
        if (t->groups > 1) put_lanes(t, absent, none + t->stride * j);
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

/* An item's record: with few classes κ, beliefs, and λ of each; otherwise the number of its cells, κ, beliefs, the lifts
 * of groups without it, the classes of its cells, two in the room of a number, and their lifts. */
INLINE int64_t fixed_size(const Scale *t) {
    return 1 + head_size(t) + (t->groups > 1 ? t->stride * t->groups : 0);
}

INLINE int64_t record_size(const Scale *t, int64_t n) {
    if (t->classes <= FEW_CLASSES) return head_size(t) + t->stride * t->classes;
    return fixed_size(t) + (n + 1) / 2 + t->stride * n;
}

INLINE void fill_record(const Scale *t, const int32_t *cls, const double *val, int64_t n, double *record) {
    const int64_t stride = t->stride;
    if (t->classes > FEW_CLASSES) {
        double *const classes = record + fixed_size(t);
        record[0] = (double)n;
        weigh(t, cls, val, n, record + 1, classes + (n + 1) / 2, record + 1 + head_size(t));
        memcpy(classes, cls, (size_t)n * sizeof *cls);
        return;
    }
    double none[(FEW_CLASSES + 1) * LANES], lift[(FEW_CLASSES + 1) * LANES], *const said = record + head_size(t);
    weigh(t, cls, val, n, record, lift, none);
    for (int64_t c = 0; c < t->classes; c++)
        for (int64_t s = 0; s < stride; s++) said[stride * c + s] = t->groups > 1 ? none[stride * t->group[c] + s] : 0.0;
    for (int64_t f = 0; f < n; f++)
        for (int64_t s = 0; s < stride; s++) said[stride * cls[f] + s] += lift[stride * f + s];
}

/* ---- one row ---- */

typedef struct {
    lanes n1, n2;
    double *sums, *absent, *common; /* (k, SUMS), (groups, SUMS), (k,) */
} Row;

INLINE void row_begin(const Scale *t, Row *row) {
    row->n1 = row->n2 = all(0.0);
    memset(row->sums, 0, (size_t)(SUMS * (t->classes + t->groups) + t->classes) * sizeof(double));
    row->absent = row->sums + SUMS * t->classes;
    row->common = row->absent + SUMS * t->groups;
}

INLINE void add_said(double *sum, lanes belief, lanes know, lanes said) {
    *(lanes *)sum += belief * said;
    *(lanes *)(sum + LANES) += know * said;
}

/* Adds an item. */
INLINE void add_record(const Scale *t, Row *row, const double *record) {
    const int few = t->classes <= FEW_CLASSES;
    const places mask = mask_of(t);
    const double *const head = record + !few, *const said = head + head_size(t);
    const lanes know = masked(head, mask), belief = masked(head + t->lanes, mask);
    const int64_t stride = t->stride;
    double *const sums = row->sums;
    row->n1 += know;
    row->n2 += know * know;
    if (few) {
        for (int64_t c = 0; c < t->classes; c++) add_said(sums + SUMS * c, belief, know, masked(said + stride * c, mask));
        return;
    }
    const int64_t n = (int64_t)record[0];
    const double *const classes = record + fixed_size(t), *const lift = classes + (n + 1) / 2;
    const int32_t *const cls = (const int32_t *)classes;
    if (t->groups > 1)
        for (int64_t j = 0; j < t->groups; j++)
            add_said(row->absent + SUMS * j, belief, know, masked(said + stride * j, mask));
    for (int64_t f = 0; f < n; f++) add_said(sums + SUMS * cls[f], belief, know, masked(lift + stride * f, mask));
}

INLINE double dot(lanes first, lanes second, const double *sum) {
    const lanes x = from(sum) * first + from(sum + LANES) * second;
    return (x[0] + x[1]) + (x[2] + x[3]);
}

typedef struct { /* how sums become scores */
    lanes first, second;
} Ending;

INLINE Ending ending(const Scale *t, lanes n1, lanes n2, double damp) {
    Ending out;
    for (int s = 0; s < LANES; s++) {
        out.first[s] = s < t->lanes ? (n1[s] > 0.0 ? 1.0 / sqrt(n1[s]) : 0.0) : s < t->stride ? damp : 0.0;
        out.second[s] = s < t->lanes && n2[s] > 0.0 ? t->by_know[s] / sqrt(n2[s]) : 0.0;
    }
    return out;
}

/* Adds the scores of a row, whose items are all there, to `out`. */
INLINE void row_end(const Scale *t, Row *row, double damp, double x, double *out) {
    const Ending how = ending(t, row->n1, row->n2, damp);
    double by_group[GROUPS];
    for (int64_t j = 0; j < t->groups; j++)
        by_group[j] = t->groups > 1 ? dot(how.first, how.second, row->absent + SUMS * j) : 0.0;
    for (int64_t c = 0; c < t->classes; c++)
        out[c] += dot(how.first, how.second, row->sums + SUMS * c) + by_group[t->group[c]] + x * row->common[c];
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

INLINE void add_column(const Asked *rows, int64_t k, int64_t w, Row *row, uint8_t *there) {
    if (w >= rows->columns || rows->column[w] < 0) return;
    const double *restrict slope = rows->slopes + k * rows->column[w];
    double *restrict sums = row->common;
    for (int64_t c = 0; c < k; c++) sums[c] += slope[c];
    *there = 1;
}

/* The scores of rows whose entries have their own sums: those of entry e are at ptr[e]..ptr[e + 1]. */
CLONES void answer_directly(const Scale *t, const Asked *rows, const int64_t *ptr, const int32_t *cls, const double *val,
                            double *scratch, int64_t first, int64_t last) {
    Row row = {.sums = scratch};
    double *const record = scratch + SUMS * (t->classes + t->groups) + t->classes;
    for (int64_t i = first; i < last; i++) {
        row_begin(t, &row);
        for (int64_t e = rows->indptr[i]; e < rows->indptr[i + 1]; e++) {
            const int64_t begin = ptr[e], n = ptr[e + 1] - begin;
            if (rows->slopes && rows->indices[e] >= 0)
                add_column(rows, t->classes, rows->indices[e], &row, rows->there + i);
            if (!n) continue;
            fill_record(t, cls + begin, val + begin, n, record);
            add_record(t, &row, record);
        }
        row_end(t, &row, rows->damp[i], rows->slopes ? rows->x[i] : 0.0, rows->out + i * t->classes);
    }
}

/* λ of a class, by an item's record. */
INLINE lanes said_of(const Scale *t, const double *record, int64_t c) {
    const int few = t->classes <= FEW_CLASSES;
    const places mask = mask_of(t);
    const double *const said = record + !few + head_size(t);
    if (few) return masked(said + t->stride * c, mask);
    const int64_t n = (int64_t)record[0];
    const double *const classes = record + fixed_size(t);
    const int32_t *const cls = (const int32_t *)classes;
    lanes out = t->groups > 1 ? masked(said + t->stride * t->group[c], mask) : all(0.0);
    for (int64_t f = 0; f < n; f++)
        if (cls[f] == c) out += masked(classes + (n + 1) / 2 + t->stride * f, mask);
    return out;
}

/* What each entry of one row adds to the score of `target` over that of `against`. */
CLONES void answer_terms(const Scale *t, const int64_t *ptr, const int32_t *cls, const double *val, int64_t entries,
                         double damp, int64_t target, int64_t against, double *record, double *out) {
    const int few = t->classes <= FEW_CLASSES;
    const places mask = mask_of(t);
    lanes n1 = all(0.0), n2 = all(0.0);
    for (int pass = 0; pass < 2; pass++) {
        const Ending how = ending(t, n1, n2, damp);
        for (int64_t e = 0; e < entries; e++) {
            const int64_t n = ptr[e + 1] - ptr[e];
            if (pass) out[e] = 0.0;
            if (!n) continue;
            fill_record(t, cls + ptr[e], val + ptr[e], n, record);
            const lanes know = masked(record + !few, mask), belief = masked(record + !few + t->lanes, mask);
            if (pass) {
                double sums[SUMS] = {0.0};
                add_said(sums, belief, know, said_of(t, record, target) - said_of(t, record, against));
                out[e] = dot(how.first, how.second, sums);
            } else {
                n1 += know;
                n2 += know * know;
            }
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
                              const double *records, double *scratch, int64_t first, int64_t last) {
    const int64_t end = rows->indptr[last];
    const int64_t ahead = 8 * (t->classes <= FEW_CLASSES ? record_size(t, 0) : fixed_size(t) + 16);
    Row row = {.sums = scratch};
    for (int64_t i = first; i < last; i++) {
        row_begin(t, &row);
        for (int64_t e = rows->indptr[i]; e < rows->indptr[i + 1]; e++) {
            if (e + LATER < end) {
                const int64_t w = rows->indices[e + LATER];
                if (w >= 0 && w < items) __builtin_prefetch(start + w);
                if (w >= 0 && w < rows->columns) __builtin_prefetch(rows->column + w);
            }
            if (e + SOON < end) {
                const int64_t w = rows->indices[e + SOON];
                if (w >= 0 && w < items && start[w] >= 0) fetch(records + start[w], ahead);
            }
            const int64_t w = rows->indices[e];
            if (w < 0 || w >= items) continue;
            if (rows->slopes) add_column(rows, t->classes, w, &row, rows->there + i);
            if (start[w] >= 0) add_record(t, &row, records + start[w]);
        }
        row_end(t, &row, rows->damp[i], rows->slopes ? rows->x[i] : 0.0, rows->out + i * t->classes);
    }
}

#endif
