/* The scores of answer_loops.h where there are few classes, by records that leave little to do.
 *
 * Scores are needed up to a constant per row, so a record has what an item adds to each class over the first one: a
 * vector of its κ, whose last lane is 1 if the item has a column of x; and for each further class belief·λ, with that of
 * all items equally in the last lane, and κ·λ, with the slope of its column in the last lane. Items with the same sums
 * and without a column share a record. All have the same size, and the first one is that of unknown items: there are no
 * branches. */

#ifndef DECIBAN_FEW_CLASSES_LOOPS_H
#define DECIBAN_FEW_CLASSES_LOOPS_H

#include "answer_loops.h"

enum { FEW_CLASSES = 4, CACHE_LINE = 64 };
enum { READY = 32 }; /* entries ahead, a record is fetched; a power of two */

INLINE int64_t few_size(int64_t classes) { return LANES * (2 * classes - 1); }

/* The record of an item with these sums; `columns` are as in Asked. */
INLINE void few_fill(const Scale *t, const Asked *columns, int64_t item, const int32_t *cls, const double *val, int64_t n,
                     double *record) {
    const int64_t k = t->classes, stride = t->stride;
    double head[2 * LANES], none[GROUPS * LANES], log_odds[FEW_CLASSES * LANES] = {0.0};
    memset(record, 0, (size_t)few_size(k) * sizeof *record);
    if (n) {
        weigh(t, cls, val, n, head, (Lifts){log_odds, 1, LANES, 1}, none);
        for (int64_t c = 0; c < k && t->groups > 1; c++)
            for (int64_t s = 0; s < stride; s++) log_odds[LANES * c + s] += none[stride * t->group[c] + s];
        memcpy(record, head, (size_t)t->lanes * sizeof *record);
        for (int64_t c = 1; c < k; c++) {
            double *const more = record + LANES * (2 * c - 1);
            for (int64_t s = 0; s < stride; s++) {
                const double over = log_odds[LANES * c + s] - log_odds[s];
                more[s < t->lanes ? s : STRENGTHS] = head[t->lanes + s] * over;
                if (s < t->lanes) more[LANES + s] = head[s] * over;
            }
        }
    }
    if (columns->slopes && item >= 0 && item < columns->columns && columns->column[item] >= 0) {
        const double *const slope = columns->slopes + k * columns->column[item];
        record[STRENGTHS] = 1.0;
        for (int64_t c = 1; c < k; c++) record[LANES * 2 * c + STRENGTHS] = slope[c] - slope[0];
    }
}

/* Records of some items, at place[i]. */
CLONES void few_records(const Scale *t, const Asked *columns, const int64_t *ptr, const int32_t *cls, const double *val,
                        const int32_t *which, const int32_t *place, double *room, int64_t first, int64_t last) {
    for (int64_t i = first; i < last; i++) {
        const int64_t w = which[i];
        few_fill(t, columns, w, cls + ptr[w], val + ptr[w], ptr[w + 1] - ptr[w], room + (int64_t)place[i] * LANES);
    }
}

typedef struct { /* sums over the items of a row: κ and κ², and for each further class what its records have */
    lanes know, squared, more[2 * FEW_CLASSES];
} FewSums;

INLINE void few_add(const double *record, FewSums *sums, const int64_t k) {
    const lanes mine = from(record);
    sums->know += mine;
    sums->squared += mine * mine;
    for (int64_t c = 2; c < 2 * k; c++) sums->more[c] += from(record + LANES * (c - 1));
}

INLINE const double *fetch_few(const Records *records, int64_t item, int64_t size) {
    const double *const record = record_at(records, entry_of(records, item));
    fetch(record, size * (int64_t)sizeof *record);
    return record;
}

/* The scores of rows by records, or by the sums of their entries, as in answer_directly: ptr is NULL or records are.
 * k is known to the compiler, so that the sums of a row stay in registers. */
INLINE void few_answer_of(const Scale *t, const Asked *rows, const Records *records, const int64_t *ptr, const int32_t *cls,
                          const double *val, int64_t first, int64_t last, const int64_t k) {
    const int64_t size = few_size(k);
    double own[LANES * (2 * FEW_CLASSES - 1)];
    const double *asked[READY]; /* records of the next entries, of this row and others */
    const int64_t every = rows->indptr[last];
    for (int64_t e = rows->indptr[first]; e < every && e < rows->indptr[first] + READY && !ptr; e++)
        asked[(uint64_t)e % READY] = fetch_few(records, rows->indices[e], size);
    for (int64_t i = first; i < last; i++) {
        const int64_t end = rows->indptr[i + 1];
        FewSums sums = {all(0.0), all(0.0), {{0.0}}};
        for (int64_t e = rows->indptr[i]; e < end && ptr; e++) {
            few_fill(t, rows, rows->indices[e], cls + ptr[e], val + ptr[e], ptr[e + 1] - ptr[e], own);
            few_add(own, &sums, k);
        }
        for (int64_t e = rows->indptr[i]; e < end && !ptr; e++) {
            const int64_t later = e + READY < every ? e + READY : every - 1;
            const double *const record = asked[(uint64_t)e % READY];
            asked[(uint64_t)e % READY] = fetch_few(records, rows->indices[later], size);
            few_add(record, &sums, k);
        }
        Ending how = ending(t, (Knowledge){sums.know, sums.squared}, rows->damp[i]);
        how.first[STRENGTHS] = rows->damp[i];
        how.second[STRENGTHS] = rows->slopes ? rows->x[i] : 0.0;
        for (int64_t c = 1; c < k; c++) {
            const lanes x = how.first * sums.more[2 * c] + how.second * sums.more[2 * c + 1];
            rows->out[i * k + c] += total_of(x);
        }
        if (rows->slopes && sums.know[STRENGTHS] > 0.0) rows->there[i] = 1;
    }
}

#define FOR_FEW_CLASSES(...)                                                                                           \
    if (t->classes == 1) few_answer_of(__VA_ARGS__, 1);                                                                \
    else if (t->classes == 2) few_answer_of(__VA_ARGS__, 2);                                                           \
    else if (t->classes == 3) few_answer_of(__VA_ARGS__, 3);                                                           \
    else few_answer_of(__VA_ARGS__, 4)

CLONES void few_by_records(const Scale *t, const Asked *rows, const Records *records, int64_t first, int64_t last) {
    FOR_FEW_CLASSES(t, rows, records, NULL, NULL, NULL, first, last);
}

CLONES void few_directly(const Scale *t, const Asked *rows, const int64_t *ptr, const int32_t *cls, const double *val,
                         int64_t first, int64_t last) {
    few_answer_of(t, rows, NULL, ptr, cls, val, first, last, t->classes);
}

#endif
