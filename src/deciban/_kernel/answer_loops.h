/* The pooled evidence of rows of items: what evidence_loops.h gives vector by vector, weighted and added up.
 *
 * For each item and strength there are what it knows, κ, and Σ_g r_g hat_g(κ), its belief; for each class λ. A row's
 * score is Σ belief·λ / √Σκ + u^-¾ Σ r λ + r Σ κ·λ / √Σκ², added over strengths: there is a lane for each strength that
 * has any weight, and one for all items equally if they have any. The roots are computed first, in one pass over the
 * items of a row; then λ in each lane has one factor, and is added to the scores in a second pass. In many a lane the
 * belief of an item is 0: then its λ are not even read. */

#ifndef DECIBAN_ANSWER_LOOPS_H
#define DECIBAN_ANSWER_LOOPS_H

#include "evidence_loops.h"

enum { LINE = 8, STRENGTHS = LANES - 1, ALL_CLASSES = 32 /* up to which a record has all of them */ };

typedef struct { /* what all items of a block have in common */
    int64_t classes, hats, groups;
    const double *pseudo, *factor, *knots; /* (k,) s π; (groups,); (hats,) */
    const int32_t *group;
    double weights[STRENGTHS][16]; /* by lane, of the vectors: hats, all equally, by how much they know */
    double strength[LANES], alike[LANES], by_know[LANES], entropy, least, most;
    double all_pseudo[GROUPS], log_m[GROUPS * LANES], pseudo_sum;
    int lanes, stride;   /* strengths in use; with that of all equally, if it is in use */
    int always;          /* whether an item counts whatever its beliefs are */
    int64_t mask[LANES], used[LANES]; /* of the latter, and of strengths in use */
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
        t->used[s] = s < t->lanes ? -1 : 0;
    }
    t->always = alike;
    for (int s = 0; s < t->lanes; s++) t->always |= t->by_know[s] != 0.0;
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

/* An item's record is κ and beliefs by lane; and for each lane the λ of all classes, side by side. If there are more
 * than ALL_CLASSES, and most of them do not have the item, there are only the lifts of those that have it, after their
 * number, the lifts of groups without it, and which classes they are, two in the room of a number. */
INLINE int64_t all_size(const Scale *t) { return (t->classes + LANES - 1) / LANES * LANES; }

INLINE int has_number(const Scale *t) { return t->classes > ALL_CLASSES; }

INLINE int has_all(const Scale *t, int64_t n) { return !has_number(t) || 3 * n >= 2 * t->classes; }

INLINE int64_t none_size(const Scale *t) { return t->groups > 1 ? t->stride * t->groups : 0; }

INLINE int64_t record_size(const Scale *t, int64_t n) {
    const int64_t head = head_size(t) + has_number(t);
    const int64_t size = head + (has_all(t, n) ? t->stride * all_size(t) : none_size(t) + (n + 1) / 2 + t->stride * n);
    return (size + LINE - 1) / LINE * LINE; /* the head is in one line of the cache */
}

INLINE void fill_record(const Scale *t, const int32_t *cls, const double *val, int64_t n, double *record) {
    const int64_t stride = t->stride, k = t->classes, row = all_size(t);
    double *const cells = record + head_size(t) + has_number(t);
    double none[GROUPS * LANES];
    if (has_number(t)) record[head_size(t)] = (double)n;
    if (!n) {
        memset(record, 0, (size_t)record_size(t, n) * sizeof(double));
    } else if (has_all(t, n)) {
        memset(cells, 0, (size_t)(stride * row) * sizeof(double));
        weigh(t, cls, val, n, record, (Lifts){cells, 1, 1, row}, none);
        for (int64_t c = 0; c < k && t->groups > 1; c++)
            for (int64_t s = 0; s < stride; s++) cells[row * s + c] += none[stride * t->group[c] + s];
    } else {
        int32_t *const classes = (int32_t *)(cells + none_size(t));
        weigh(t, cls, val, n, record, (Lifts){cells + none_size(t) + (n + 1) / 2, 0, 1, n}, none);
        memcpy(cells, none, (size_t)none_size(t) * sizeof(double));
        memcpy(classes, cls, (size_t)n * sizeof *cls);
    }
}

/* ---- one row ---- */

typedef struct { /* Σκ and Σκ² of a row's items, by lane */
    lanes n1, n2;
} Knowledge;

typedef struct { /* how sums over items become scores */
    lanes first, second;
} Ending;

/* 1 / sqrt(x) where a lane is in use and x > 0, else 0. */
INLINE lanes inverse_roots(lanes x, places used) {
    double roots[LANES];
    for (int s = 0; s < LANES; s++) roots[s] = sqrt(x[s]);
    return (lanes)((places)(1.0 / from(roots)) & (x > 0.0) & used);
}

INLINE Ending ending(const Scale *t, Knowledge sum, double damp) {
    const places used = *(const places *)t->used;
    const lanes equally = (lanes)((places)all(damp) & mask_of(t) & ~used);
    return (Ending){inverse_roots(sum.n1, used) + equally, inverse_roots(sum.n2, used) * from(t->by_know)};
}

INLINE double total_of(lanes x) { return (x[0] + x[1]) + (x[2] + x[3]); }

INLINE lanes know_of(const Scale *t, const double *record) { return masked(record, mask_of(t)); }

INLINE lanes belief_of(const Scale *t, const double *record) { return masked(record + t->lanes, mask_of(t)); }

INLINE void add_knowledge(const Scale *t, const double *record, Knowledge *sum) {
    const lanes know = know_of(t, record);
    sum->n1 += know;
    sum->n2 += know * know;
}

/* What the lifts of an item are multiplied by, once Σκ and Σκ² of its row are known. */
INLINE lanes multiplier(const Scale *t, const double *record, Ending how) {
    return belief_of(t, record) * how.first + know_of(t, record) * how.second;
}

enum { CHUNK = 64 }; /* cells */

/* out[class of cell] += Σ by·lift, over the lanes that count; without classes cells are those of all. */
INLINE void add_lifts(const int32_t *cls, const double *const *lift, const double *by, int lanes_used, int64_t n,
                      double *restrict out) {
    double each[CHUNK];
    for (int64_t c = 0; c < n && !cls; c += LANES) {
        lanes sum = by[0] * from(lift[0] + c);
        for (int s = 1; s < lanes_used; s++) sum += by[s] * from(lift[s] + c);
        *(lanes *)(out + c) += sum;
    }
    for (int64_t begin = 0; begin < n && cls; begin += CHUNK) {
        const int64_t some = n - begin < CHUNK ? n - begin : CHUNK;
        for (int64_t f = 0; f < some; f++) {
            double sum = by[0] * lift[0][begin + f];
            for (int s = 1; s < lanes_used; s++) sum += by[s] * lift[s][begin + f];
            each[f] = sum;
        }
        for (int64_t f = 0; f < some; f++) out[cls[begin + f]] += each[f];
    }
}

typedef struct { /* the scores of a row, in room of its own */
    double *of_class; /* (all_size,) */
    double absent[GROUPS];
} Sums;

INLINE void begin_sums(const Scale *t, Sums *row) {
    memset(row->of_class, 0, (size_t)all_size(t) * sizeof(double));
    memset(row->absent, 0, (size_t)t->groups * sizeof(double));
}

INLINE void add_to_sums(const Scale *t, Ending how, const double *record, Sums *row) {
    const lanes multiply = multiplier(t, record, how);
    const int64_t n = has_number(t) ? (int64_t)record[head_size(t)] : 0;
    const int whole = has_all(t, n);
    const double *const cells = record + head_size(t) + has_number(t);
    const double *const lifts = whole ? cells : cells + none_size(t) + (n + 1) / 2;
    const int64_t count = whole ? all_size(t) : n;
    const double *lift[LANES];
    double by[LANES];
    int used = 0;
    for (int s = 0; s < t->stride; s++)
        if (!has_number(t) || multiply[s] != 0.0) { /* to skip few numbers takes longer than to add them */
            by[used] = multiply[s];
            lift[used++] = lifts + count * s;
        }
    for (int64_t j = 0; j < t->groups && t->groups > 1 && !whole; j++)
        row->absent[j] += total_of(multiply * masked(cells + t->stride * j, mask_of(t)));
    const int32_t *const cls = whole ? NULL : (const int32_t *)(cells + none_size(t));
    if (used == 1) add_lifts(cls, lift, by, 1, count, row->of_class);
    else if (used == 2) add_lifts(cls, lift, by, 2, count, row->of_class);
    else if (used == 3) add_lifts(cls, lift, by, 3, count, row->of_class);
    else if (used == 4) add_lifts(cls, lift, by, 4, count, row->of_class);
}

INLINE void end_sums(const Scale *t, const Sums *row, double *out) {
    for (int64_t c = 0; c < t->classes; c++) out[c] += row->of_class[c] + row->absent[t->group[c]];
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
 * the sums of a row, and for the records of the longest one. */
CLONES void answer_directly(const Scale *t, const Asked *rows, const int64_t *ptr, const int32_t *cls, const double *val,
                            double *room, int64_t first, int64_t last) {
    Sums sums = {.of_class = room};
    for (int64_t i = first; i < last; i++) {
        const int64_t begin = rows->indptr[i], end = rows->indptr[i + 1];
        double *const out = rows->out + i * t->classes;
        double *at = room + all_size(t);
        Knowledge known = {0};
        for (int64_t e = begin; e < end; e++) {
            const int64_t n = ptr[e + 1] - ptr[e];
            if (rows->slopes) add_slopes(rows, t->classes, i, rows->indices[e], rows->x[i], out);
            if (!n) continue;
            fill_record(t, cls + ptr[e], val + ptr[e], n, at);
            add_knowledge(t, at, &known);
            at += record_size(t, n);
        }
        const Ending how = ending(t, known, rows->damp[i]);
        begin_sums(t, &sums);
        at = room + all_size(t);
        for (int64_t e = begin; e < end; e++) {
            const int64_t n = ptr[e + 1] - ptr[e];
            if (!n) continue;
            add_to_sums(t, how, at, &sums);
            at += record_size(t, n);
        }
        end_sums(t, &sums, out);
    }
}

/* λ of a class, by an item's record. */
INLINE lanes log_odds_of(const Scale *t, const double *record, int64_t c) {
    const int64_t n = has_number(t) ? (int64_t)record[head_size(t)] : 0;
    const double *const cells = record + head_size(t) + has_number(t);
    lanes out = all(0.0);
    if (has_all(t, n)) {
        for (int s = 0; s < t->stride; s++) out[s] = cells[all_size(t) * s + c];
        return out;
    }
    if (t->groups > 1) out = masked(cells + t->stride * t->group[c], mask_of(t));
    const int32_t *const cls = (const int32_t *)(cells + none_size(t));
    for (int64_t f = 0; f < n; f++)
        if (cls[f] == c)
            for (int s = 0; s < t->stride; s++) out[s] += cells[none_size(t) + (n + 1) / 2 + n * s + f];
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

/* ---- records of all items ---- */

/* Items with the same sums have the same record. record_of[item] is where it begins, in LANES numbers, times two, plus
 * one if the item has a column; the first record is that of unknown items. */
typedef struct {
    const uint32_t *record_of;
    int64_t items;
    const double *room;
} Records;

INLINE uint32_t entry_of(const Records *records, int64_t item) {
    return (uint64_t)item < (uint64_t)records->items ? records->record_of[item] : 0;
}

INLINE const double *record_at(const Records *records, uint32_t entry) {
    return records->room + (int64_t)(entry >> 1) * LANES;
}

/* Records of some items, at place[i]. */
CLONES void fill_records(const Scale *t, const int64_t *ptr, const int32_t *cls, const double *val, const int32_t *which,
                         const int32_t *place, double *room, int64_t first, int64_t last) {
    for (int64_t i = first; i < last; i++) {
        const int64_t w = which[i];
        fill_record(t, cls + ptr[w], val + ptr[w], ptr[w + 1] - ptr[w], room + (int64_t)place[i] * LANES);
    }
}

INLINE void fetch(const double *at, int64_t bytes) {
    for (int64_t b = 0; b < bytes; b += 64) __builtin_prefetch((const char *)at + b);
}

enum { NEAR = 10, SOON = 32, LATER = 80 }; /* entries ahead */

/* Where the record of an entry to come is, and the head of another one. */
INLINE void fetch_heads(const Records *records, const int32_t *indices, int64_t e, int64_t end) {
    if (e + LATER < end && (uint64_t)indices[e + LATER] < (uint64_t)records->items)
        __builtin_prefetch(records->record_of + indices[e + LATER]);
    if (e + SOON < end) __builtin_prefetch(record_at(records, entry_of(records, indices[e + SOON])));
}

/* Whether an item adds anything to scores. */
INLINE int counts(const Scale *t, const double *record) {
    if (t->always) return 1;
    const places any = belief_of(t, record) != 0.0;
    return (any[0] | any[1] | any[2] | any[3]) & 1;
}

/* Room for what is found out about the items of a row. */
typedef struct {
    double *sums;           /* (all_size,) */
    const double **records; /* of those that count */
    int32_t *common;        /* those that have columns */
} RowRoom;

/* The scores of rows by records. */
CLONES void answer_by_records(const Scale *t, const Asked *rows, const Records *records, RowRoom room, int64_t first,
                              int64_t last) {
    const int64_t after = rows->indptr[last], ahead = 8 * (head_size(t) + (has_number(t) ? 16 : t->stride * all_size(t)));
    Sums sums = {.of_class = room.sums};
    for (int64_t i = first; i < last; i++) {
        double *const out = rows->out + i * t->classes;
        Knowledge known = {0};
        int64_t count = 0, common = 0;
        for (int64_t e = rows->indptr[i]; e < rows->indptr[i + 1]; e++) {
            fetch_heads(records, rows->indices, e, after);
            const uint32_t entry = entry_of(records, rows->indices[e]);
            const double *const record = record_at(records, entry);
            add_knowledge(t, record, &known);
            room.records[count] = record;
            count += counts(t, record);
            room.common[common] = rows->indices[e];
            common += entry & 1;
        }
        const Ending how = ending(t, known, rows->damp[i]);
        for (int64_t e = 0; e < common && rows->slopes; e++) add_slopes(rows, t->classes, i, room.common[e], rows->x[i], out);
        begin_sums(t, &sums);
        for (int64_t e = 0; e < count; e++) {
            if (e + NEAR < count) fetch(room.records[e + NEAR], ahead);
            add_to_sums(t, how, room.records[e], &sums);
        }
        end_sums(t, &sums, out);
    }
}

#endif
