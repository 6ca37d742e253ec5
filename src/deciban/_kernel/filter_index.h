/* The sums of a filter of mail in a file that is mapped into memory, so that a process that reads one mail need not read
 * the model: items by hash, in an open-addressing table. Whatever the file holds, nothing is read outside of it.
 *
 * With n the sums of an item for ham and spam, the evidence is that of graded.py, written out for two classes. */
#ifndef DECIBAN_FILTER_INDEX_H
#define DECIBAN_FILTER_INDEX_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { INDEX_FORMAT = 1, INDEX_BLOCKS = 3, INDEX_STRENGTHS = 3, INDEX_KNOTS = 8, MAX_PROBES = 1 << 12 };
enum { HAM, SPAM };

typedef struct {
    uint64_t key; /* 0: empty */
    float n[2];
} ItemSlot;

typedef struct {
    uint64_t key;
    double slope; /* log-odds for each unit of x, of an item that is modelled jointly with others */
} CommonSlot;

/* How a filter weighs; all fields have eight bytes. */
typedef struct {
    char magic[8];
    int64_t format, model_size, model_time, model_inode;
    int64_t slots, common_slots; /* powers of two */
    int64_t scripts, normalise;
    double prior, common_constant, entropy, least, most;
    double share[2], pseudo[2];
    double strength[INDEX_BLOCKS][INDEX_STRENGTHS];
    double weight[INDEX_BLOCKS][INDEX_STRENGTHS][INDEX_KNOTS + 2];
    double knots[INDEX_KNOTS];
    double let_through, unsure, lost; /* what answers cost */
} IndexHeader;

/* ---- keys ---- */

static inline uint64_t mixed(uint64_t h) {
    h = (h ^ (h >> 33)) * 0xff51afd7ed558ccdULL;
    h = (h ^ (h >> 33)) * 0xc4ceb9fe1a85ec53ULL;
    return h ^ (h >> 33);
}

static inline uint64_t word_hash(const uint8_t *text, int64_t size) {
    uint64_t h = 0xcbf29ce484222325ULL;
    for (int64_t i = 0; i < size; i++) h = (h ^ text[i]) * 0x100000001b3ULL;
    return mixed(h);
}

/* The key of a word, or of two: a pair of neighbours (block 1), or a header field and a word (block 2). */
static inline uint64_t item_key(int block, uint64_t one, uint64_t other) {
    const uint64_t key = block == 0 ? one : mixed(one * 0x9e3779b97f4a7c15ULL + other + (uint64_t)block);
    return key ? key : 1;
}

/* ---- tables ---- */

static inline bool put_item(ItemSlot *slots, int64_t count, uint64_t key, double ham, double spam) {
    for (int64_t i = 0; i < MAX_PROBES; i++) {
        ItemSlot *slot = slots + ((key + (uint64_t)i) & (uint64_t)(count - 1));
        if (slot->key == 0 || slot->key == key) { /* of two items with one key, the sums are taken together */
            slot->key = key;
            slot->n[HAM] += (float)ham, slot->n[SPAM] += (float)spam;
            return true;
        }
    }
    return false;
}

static inline const ItemSlot *find_item(const ItemSlot *slots, int64_t count, uint64_t key) {
    for (int64_t i = 0; i < MAX_PROBES; i++) {
        const ItemSlot *slot = slots + ((key + (uint64_t)i) & (uint64_t)(count - 1));
        if (slot->key == key) return slot;
        if (slot->key == 0) break;
    }
    return NULL;
}

static inline double find_slope(const CommonSlot *slots, int64_t count, uint64_t key) {
    for (int64_t i = 0; i < count; i++) {
        const CommonSlot *slot = slots + ((key + (uint64_t)i) & (uint64_t)(count - 1));
        if (slot->key == key) return slot->slope;
        if (slot->key == 0) break;
    }
    return NAN;
}

/* ---- evidence ---- */

typedef struct {
    double log_odds[INDEX_STRENGTHS], know[INDEX_STRENGTHS], graded[INDEX_STRENGTHS];
    double common; /* slope · x, or NaN */
    bool known;
} Weighed;

/* The evidence of an item at every strength of pseudo-counts: its log-odds, its κ, and its weight by the knots. */
static inline void weigh(const IndexHeader *h, int block, const float *n, Weighed *out) {
    for (int s = 0; s < INDEX_STRENGTHS; s++) {
        const double m = h->strength[block][s], all = (double)n[HAM] + (double)n[SPAM];
        const double *weight = h->weight[block][s];
        double seen[2], lift[2];
        for (int c = 0; c < 2; c++) {
            seen[c] = (double)n[c] + m * h->pseudo[c];
            lift[c] = log(seen[c]) - log(all * h->share[c] + m * h->pseudo[c]);
        }
        double know = (seen[HAM] * lift[HAM] + seen[SPAM] * lift[SPAM]) / (seen[HAM] + seen[SPAM]) / h->entropy;
        know = know > h->least ? (know < h->most ? know : h->most) : h->least;
        const double place = log(know);
        int g = 0;
        double upper = 0.0;
        if (place >= h->knots[INDEX_KNOTS - 1]) {
            g = INDEX_KNOTS - 2;
            upper = 1.0;
        } else if (place > h->knots[0]) {
            while (g < INDEX_KNOTS - 2 && place > h->knots[g + 1]) g++;
            upper = (place - h->knots[g]) / (h->knots[g + 1] - h->knots[g]);
        }
        out->log_odds[s] = lift[SPAM] - lift[HAM];
        out->know[s] = know;
        out->graded[s] = (1.0 - upper) * weight[g] + upper * weight[g + 1];
    }
    out->known = true;
}

/* The log-odds of each of a block's items, of which the mail has `distinct`. Whether one of them is modelled jointly with
 * others is noted. */
static void block_log_odds(const IndexHeader *h, int block, const Weighed *items, int64_t count, int64_t distinct,
                           double *out, int *any_common) {
    const double u = distinct > 1 ? (double)distinct : 1.0;
    const double damping = round(pow(u, -0.75) * 0x1p30) / 0x1p30, x = round(pow(u, -0.5) * 0x1p10) / 0x1p10;
    double sum[INDEX_STRENGTHS] = {0.0}, square[INDEX_STRENGTHS] = {0.0};
    for (int64_t i = 0; i < count; i++)
        for (int s = 0; s < INDEX_STRENGTHS && items[i].known; s++) {
            sum[s] += items[i].know[s];
            square[s] += items[i].know[s] * items[i].know[s];
        }
    for (int64_t i = 0; i < count; i++) {
        out[i] = 0.0;
        for (int s = 0; s < INDEX_STRENGTHS && items[i].known; s++) {
            const double *weight = h->weight[block][s];
            const double belief = items[i].graded[s] / sqrt(sum[s]) + weight[INDEX_KNOTS] * damping +
                                  weight[INDEX_KNOTS + 1] * items[i].know[s] / sqrt(square[s]);
            out[i] += belief * items[i].log_odds[s];
        }
        if (!isnan(items[i].common)) {
            out[i] += items[i].common * x;
            *any_common = 1;
        }
    }
}

#endif
