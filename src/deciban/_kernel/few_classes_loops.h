/* The scores of answer_loops.h where there are few classes, by records that leave little to do.
 *
 * Scores are needed up to a constant per row, so a record has what an item adds to each class over the first one: a
 * vector of its κ, whose last lane is 1 if the item has a column of x; and for each further class belief·λ, with that of
 * all items equally in the last lane, and κ·λ, with the slope of its column in the last lane. Records of all items have
 * the same size, those that have no evidence too, and another one of zeros follows for items that are unknown: nothing
 * has to be looked up, and there are no branches. */

#ifndef DECIBAN_FEW_CLASSES_LOOPS_H
#define DECIBAN_FEW_CLASSES_LOOPS_H

#include "answer_loops.h"

enum { ENTRIES_AHEAD = 12, CACHE_LINE = 64 };

INLINE int64_t few_size(int64_t classes) { return LANES * (2 * classes - 1); }

/* Records of items first..last; and that of unknown ones if all before are filled. `columns` are as in Asked. */
CLONES void few_fill(const Scale *t, const Asked *columns, const int64_t *ptr, const int32_t *cls, const double *val,
                     int64_t items, double *records, int64_t first, int64_t last) {
    const int64_t k = t->classes, size = few_size(k), stride = t->stride;
    double head[2 * LANES], none[GROUPS * LANES], lift[FEW_CLASSES * LANES];
    for (int64_t w = first; w < last + (last == items); w++) {
        double *const record = records + w * size;
        memset(record, 0, (size_t)size * sizeof *record);
        const int64_t n = w < items ? ptr[w + 1] - ptr[w] : 0;
        if (n) {
            double said[FEW_CLASSES * LANES] = {0.0};
            weigh(t, cls + ptr[w], val + ptr[w], n, head, lift, none);
            for (int64_t c = 0; c < k && t->groups > 1; c++)
                memcpy(said + LANES * c, none + stride * t->group[c], (size_t)stride * sizeof *said);
            for (int64_t f = 0; f < n; f++)
                for (int64_t s = 0; s < stride; s++) said[LANES * cls[ptr[w] + f] + s] += lift[stride * f + s];
            memcpy(record, head, (size_t)t->lanes * sizeof *record);
            for (int64_t c = 1; c < k; c++) {
                double *const more = record + LANES * (2 * c - 1);
                for (int64_t s = 0; s < stride; s++) {
                    const double over = said[LANES * c + s] - said[s];
                    more[s < t->lanes ? s : STRENGTHS] = head[t->lanes + s] * over;
                    if (s < t->lanes) more[LANES + s] = head[s] * over;
                }
            }
        }
        if (columns->slopes && w < columns->columns && columns->column[w] >= 0) {
            const double *const slope = columns->slopes + k * columns->column[w];
            record[STRENGTHS] = 1.0;
            for (int64_t c = 1; c < k; c++) record[LANES * 2 * c + STRENGTHS] = slope[c] - slope[0];
        }
    }
}

INLINE const double *few_record(const double *records, int64_t size, int64_t items, int64_t item) {
    return records + size * ((uint64_t)item < (uint64_t)items ? item : items);
}

/* k is known to the compiler, so that the sums stay in registers. */
INLINE void few_answer_of(const Scale *t, const Asked *rows, int64_t items, const double *records, int64_t first,
                          int64_t last, const int64_t k) {
    const int64_t size = few_size(k), end = rows->indptr[last];
    for (int64_t i = first; i < last; i++) {
        lanes know = all(0.0), squared = all(0.0), sums[2 * FEW_CLASSES];
        for (int64_t c = 2; c < 2 * k; c++) sums[c] = all(0.0);
        for (int64_t e = rows->indptr[i]; e < rows->indptr[i + 1]; e++) {
            if (e + ENTRIES_AHEAD < end)
                fetch(few_record(records, size, items, rows->indices[e + ENTRIES_AHEAD]), size * (int64_t)sizeof(double));
            const double *const record = few_record(records, size, items, rows->indices[e]);
            const lanes mine = from(record);
            know += mine;
            squared += mine * mine;
            for (int64_t c = 2; c < 2 * k; c++) sums[c] += from(record + LANES * (c - 1));
        }
        Ending how = ending(t, know, squared, rows->damp[i]);
        how.first[STRENGTHS] = rows->damp[i];
        how.second[STRENGTHS] = rows->slopes ? rows->x[i] : 0.0;
        for (int64_t c = 1; c < k; c++) {
            const lanes x = how.first * sums[2 * c] + how.second * sums[2 * c + 1];
            rows->out[i * k + c] += (x[0] + x[1]) + (x[2] + x[3]);
        }
        if (rows->slopes && know[STRENGTHS] > 0.0) rows->there[i] = 1;
    }
}

CLONES void few_answer(const Scale *t, const Asked *rows, int64_t items, const double *records, int64_t first,
                       int64_t last) {
    if (t->classes == 1) few_answer_of(t, rows, items, records, first, last, 1);
    else if (t->classes == 2) few_answer_of(t, rows, items, records, first, last, 2);
    else if (t->classes == 3) few_answer_of(t, rows, items, records, first, last, 3);
    else few_answer_of(t, rows, items, records, first, last, 4);
}

#endif
