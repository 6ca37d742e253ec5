/* Which items have the same sums in every class, to the last bit: then they have the same evidence. Most items come in
 * one document, and all of those of a document are such. */
#ifndef DECIBAN_SAME_SUMS_H
#define DECIBAN_SAME_SUMS_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static inline uint64_t sums_hash(const int32_t *cls, const double *val, int64_t n) {
    uint64_t h = (uint64_t)n;
    for (int64_t f = 0; f < n; f++) {
        uint64_t bits;
        memcpy(&bits, val + f, sizeof bits);
        h = (h ^ bits) * 0x9e3779b97f4a7c15u + (uint64_t)cls[f];
        h = (h ^ h >> 32) * 0xd6e8feb86659fd93u;
    }
    return h;
}

/* group[item] = which of the different ones it is, and item[group] = the first item of it; returns how many there are,
 * −1 without memory. */
static int64_t group_by_sums(const int64_t *ptr, const int32_t *cls, const double *val, int64_t items, int32_t *group,
                             int32_t *item) {
    int64_t slots = 1024, count = 0;
    while (slots < 2 * items) slots *= 2;
    int32_t *table = malloc((size_t)slots * sizeof *table);
    if (!table) return -1;
    memset(table, 0xFF, (size_t)slots * sizeof *table);
    for (int64_t w = 0; w < items; w++) {
        const int64_t n = ptr[w + 1] - ptr[w];
        const int32_t *const mine = cls + ptr[w];
        const double *const sums = val + ptr[w];
        int64_t at = (int64_t)(sums_hash(mine, sums, n) & (uint64_t)(slots - 1));
        int32_t found;
        for (; (found = table[at]) >= 0; at = (at + 1) & (slots - 1)) {
            const int64_t other = ptr[item[found]];
            if (ptr[item[found] + 1] - other == n && !memcmp(cls + other, mine, (size_t)n * sizeof *mine) &&
                !memcmp(val + other, sums, (size_t)n * sizeof *sums))
                break;
        }
        if (found < 0) {
            found = table[at] = (int32_t)count++;
            item[found] = (int32_t)w;
        }
        group[w] = found;
    }
    free(table);
    return count;
}

#endif
