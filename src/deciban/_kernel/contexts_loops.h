/* Codes that depend on other codes: the information that pairs of columns share, counts of values under their parents'
   values, and distributions that back off from a long context to shorter ones. contexts.pyx describes each. */

#ifndef DECIBAN_CONTEXTS_LOOPS_H
#define DECIBAN_CONTEXTS_LOOPS_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "compiler.h"

enum { UNSEEN = 255, BLOCK = 512, MOST_PARENTS = 6 };

/* ------------------------------------------------------------------ rows by class, column by column */

typedef struct {
    int64_t n, d, k;      /* n: rows that have a class and a weight */
    int64_t *start;       /* (k+1,) where a class starts */
    uint8_t *codes;       /* (d, n) */
    double *weight;       /* (n,), NULL: one each */
    int32_t *top;         /* (d,) one more than the greatest code that is not UNSEEN */
    uint8_t *gaps;        /* (d,) whether UNSEEN occurs */
} Rows;

static void free_rows(Rows *rows) {
    free(rows->start);
    free(rows->codes);
    free(rows->weight);
    free(rows->top);
    free(rows->gaps);
}

/* Within a class rows keep their order, so that sums are reproducible. Returns 0 if memory runs out. */
static int gather_rows(const uint8_t *codes, int64_t n, int64_t d, const int32_t *y, const double *weight, int64_t k,
                       Rows *rows) {
    memset(rows, 0, sizeof *rows);
    rows->d = d;
    rows->k = k;
    rows->start = calloc(k + 2, sizeof *rows->start);
    rows->top = calloc(d + 1, sizeof *rows->top);
    rows->gaps = calloc(d + 1, 1);
    if (!rows->start || !rows->top || !rows->gaps) return 0;
    int64_t *place = rows->start + 1;
    for (int64_t i = 0; i < n; i++)
        if (y[i] >= 0 && (!weight || weight[i] > 0.0)) place[y[i] + 1]++;
    for (int64_t c = 0; c < k; c++) place[c + 1] += place[c];
    const int64_t kept = place[k];
    for (int64_t c = k; c > 0; c--) place[c] = place[c - 1]; /* each class's place is where its next row goes */
    int32_t *from = malloc((kept + 1) * sizeof *from);
    rows->codes = malloc(kept * d + 1);
    if (weight) rows->weight = malloc((kept + 1) * sizeof *rows->weight);
    if (!from || !rows->codes || (weight && !rows->weight)) {
        free(from);
        return 0;
    }
    rows->n = kept;
    for (int64_t i = 0; i < n; i++)
        if (y[i] >= 0 && (!weight || weight[i] > 0.0)) {
            const int64_t at = place[y[i] + 1]++;
            from[at] = (int32_t)i;
            if (weight) rows->weight[at] = weight[i];
        }
    /* place[c + 1] has moved on to the end of class c: start[c] = place[c] once place[0] = 0 */
    memmove(rows->start, place, (k + 1) * sizeof *place);
    for (int64_t first = 0; first < kept; first += 64) {
        const int64_t last = first + 64 < kept ? first + 64 : kept;
        for (int64_t j = 0; j < d; j++) {
            uint8_t *const column = rows->codes + j * kept;
            for (int64_t r = first; r < last; r++) column[r] = codes[from[r] * d + j];
        }
    }
    free(from);
    for (int64_t j = 0; j < d; j++) {
        const uint8_t *const column = rows->codes + j * kept;
        uint8_t most = 0, unseen = 0; /* most: the greatest code + 1; UNSEEN + 1 wraps to 0 */
        for (int64_t r = 0; r < kept; r++) {
            const uint8_t next = column[r] + 1;
            most = next > most ? next : most;
            unseen |= next == 0;
        }
        rows->top[j] = most;
        rows->gaps[j] = unseen;
    }
    return 1;
}

/* ------------------------------------------------------------------ information */

INLINE double phi(double x) { return x > 0.0 ? x * log(x) : 0.0; }

typedef struct { /* Σφ of cells − Σφ of both margins + Σφ of totals, and the weight behind it */
    double sum, total;
} Gain;

INLINE double informed(Gain gain) { return gain.total > 0.0 && gain.sum > 0.0 ? gain.sum / gain.total : 0.0; }

/* I(x_j; y): `margins` has room for two rows of 256. */
static double class_information(const Rows *rows, int64_t j, double *margins) {
    const uint8_t *const x = rows->codes + j * rows->n;
    double *const mine = margins, *const all = margins + 256;
    Gain gain = {0.0, 0.0};
    memset(all, 0, 256 * sizeof *all);
    for (int64_t c = 0; c < rows->k; c++) {
        if (rows->start[c] == rows->start[c + 1]) continue;
        memset(mine, 0, 256 * sizeof *mine);
        for (int64_t r = rows->start[c]; r < rows->start[c + 1]; r++) mine[x[r]] += rows->weight ? rows->weight[r] : 1.0;
        double total = 0.0;
        for (int64_t a = 0; a < rows->top[j]; a++) {
            gain.sum += phi(mine[a]);
            all[a] += mine[a];
            total += mine[a];
        }
        gain.sum -= phi(total);
        gain.total += total;
    }
    for (int64_t a = 0; a < rows->top[j]; a++) gain.sum -= phi(all[a]);
    gain.sum += phi(gain.total);
    return informed(gain);
}

/* I(x_i; x_j | y) with weights, missing values or both. `cells` is zero before and after. */
static double weighted_pair(const Rows *rows, int64_t i, int64_t j, double *cells, double *margins) {
    const uint8_t *const a = rows->codes + i * rows->n, *const b = rows->codes + j * rows->n;
    const int64_t tops = rows->top[i], across = rows->top[j];
    double *const left = margins, *const right = margins + 256;
    Gain gain = {0.0, 0.0};
    for (int64_t c = 0; c < rows->k; c++) {
        const int64_t first = rows->start[c], last = rows->start[c + 1];
        if (first == last) continue;
        memset(margins, 0, 512 * sizeof *margins);
        double total = 0.0;
        for (int64_t r = first; r < last; r++) {
            if (a[r] == UNSEEN || b[r] == UNSEEN) continue;
            const double w = rows->weight ? rows->weight[r] : 1.0;
            cells[a[r] * across + b[r]] += w;
            left[a[r]] += w;
            right[b[r]] += w;
            total += w;
        }
        if (tops * across <= last - first) {
            for (int64_t cell = 0; cell < tops * across; cell++) gain.sum += phi(cells[cell]);
            memset(cells, 0, tops * across * sizeof *cells);
        } else {
            for (int64_t r = first; r < last; r++) {
                if (a[r] == UNSEEN || b[r] == UNSEEN) continue;
                double *const cell = cells + a[r] * across + b[r];
                if (*cell > 0.0) gain.sum += phi(*cell);
                *cell = 0.0;
            }
        }
        for (int64_t v = 0; v < tops; v++) gain.sum -= phi(left[v]);
        for (int64_t v = 0; v < across; v++) gain.sum -= phi(right[v]);
        gain.sum += phi(total);
        gain.total += total;
    }
    return informed(gain);
}

enum { TOGETHER = 4 }; /* pairs counted at once, so that increments are independent */

/* Σ_c Σ φ(n_cab) of column i with each of `other` (TOGETHER of them), by the table of φ. `cells`: TOGETHER·room, zero. */
CLONES static void plain_pairs(const Rows *rows, int64_t i, const int64_t *other, const double *phis, uint32_t *cells,
                        int64_t room, double *sums) {
    const uint8_t *const a = rows->codes + i * rows->n;
    const uint8_t *b[TOGETHER];
    uint32_t *mine[TOGETHER];
    int64_t across[TOGETHER];
    for (int g = 0; g < TOGETHER; g++) {
        b[g] = rows->codes + other[g] * rows->n;
        mine[g] = cells + g * room;
        across[g] = rows->top[other[g]];
        sums[g] = 0.0;
    }
    const uint8_t *const b0 = b[0], *const b1 = b[1], *const b2 = b[2], *const b3 = b[3];
    uint32_t *const m0 = mine[0], *const m1 = mine[1], *const m2 = mine[2], *const m3 = mine[3];
    const int64_t w0 = across[0], w1 = across[1], w2 = across[2], w3 = across[3];
    for (int64_t c = 0; c < rows->k; c++) {
        const int64_t first = rows->start[c], last = rows->start[c + 1];
        for (int64_t r = first; r < last; r++) {
            const int64_t v = a[r];
            m0[v * w0 + b0[r]]++;
            m1[v * w1 + b1[r]]++;
            m2[v * w2 + b2[r]]++;
            m3[v * w3 + b3[r]]++;
        }
        for (int g = 0; g < TOGETHER; g++) {
            const int64_t size = rows->top[i] * across[g];
            double even = 0.0, odd = 0.0; /* two sums, so that additions are independent */
            if (size <= last - first) {
                for (int64_t cell = 0; cell + 1 < size; cell += 2) {
                    even += phis[mine[g][cell]];
                    odd += phis[mine[g][cell + 1]];
                }
                if (size & 1) even += phis[mine[g][size - 1]];
                memset(mine[g], 0, size * sizeof *cells);
            } else { /* few rows in a large table: only the cells they touched */
                for (int64_t r = first; r < last; r++) {
                    uint32_t *const cell = mine[g] + a[r] * across[g] + b[g][r];
                    even += phis[*cell];
                    *cell = 0;
                }
            }
            sums[g] += even + odd;
        }
    }
}

/* Returns 0 if memory runs out. */
static int all_information(const Rows *rows, double *with_class, double *between) {
    const int64_t d = rows->d, n = rows->n, k = rows->k;
    int64_t widest = 1, largest = 0;
    int plain = !rows->weight, some_general = 0;
    for (int64_t j = 0; j < d; j++) {
        widest = rows->top[j] > widest ? rows->top[j] : widest;
        some_general |= !plain || rows->gaps[j];
    }
    for (int64_t c = 0; c < k; c++)
        largest = rows->start[c + 1] - rows->start[c] > largest ? rows->start[c + 1] - rows->start[c] : largest;
    const int64_t room = widest * widest;
    double *margins = malloc(512 * sizeof *margins);
    double *sums = malloc((d + 1) * sizeof *sums);       /* Σ_c Σ φ(n_ca) by column */
    int64_t *whole = malloc((d + 1) * sizeof *whole);    /* columns without missing values */
    double *phis = plain ? malloc((largest + 1) * sizeof *phis) : NULL;
    uint32_t *cells = plain ? calloc(TOGETHER * room, sizeof *cells) : NULL;
    double *weighed = some_general ? calloc(room, sizeof *weighed) : NULL;
    const int enough = margins && sums && whole && (!plain || (phis && cells)) && (!some_general || weighed);
    if (enough) {
        int64_t wholes = 0;
        for (int64_t j = 0; j < d; j++) {
            with_class[j] = class_information(rows, j, margins);
            between[j * d + j] = 0.0;
        }
        if (plain) {
            for (int64_t x = 0; x <= largest; x++) phis[x] = phi((double)x);
            double totals = 0.0;
            for (int64_t c = 0; c < k; c++) totals += phis[rows->start[c + 1] - rows->start[c]];
            for (int64_t j = 0; j < d; j++) {
                if (rows->gaps[j]) continue;
                whole[wholes++] = j;
                sums[j] = 0.0;
                uint32_t *const mine = (uint32_t *)margins;
                for (int64_t c = 0; c < k; c++) {
                    if (rows->start[c] == rows->start[c + 1]) continue;
                    memset(mine, 0, 256 * sizeof *mine);
                    const uint8_t *const x = rows->codes + j * n;
                    for (int64_t r = rows->start[c]; r < rows->start[c + 1]; r++) mine[x[r]]++;
                    for (int64_t v = 0; v < rows->top[j]; v++) sums[j] += phis[mine[v]];
                }
            }
            for (int64_t at = 0; at < wholes; at++)
                for (int64_t next = at + 1; next < wholes; next += TOGETHER) {
                    const int64_t i = whole[at];
                    int64_t other[TOGETHER];
                    double joint[TOGETHER];
                    for (int g = 0; g < TOGETHER; g++) /* the last group is filled up with its last column */
                        other[g] = whole[next + g < wholes ? next + g : wholes - 1];
                    plain_pairs(rows, i, other, phis, cells, room, joint);
                    for (int g = 0; g < TOGETHER; g++) {
                        const Gain gain = {joint[g] - sums[i] - sums[other[g]] + totals, (double)n};
                        between[i * d + other[g]] = between[other[g] * d + i] = informed(gain);
                    }
                }
        }
        for (int64_t i = 0; i < d; i++)
            for (int64_t j = i + 1; j < d; j++)
                if (!plain || rows->gaps[i] || rows->gaps[j])
                    between[i * d + j] = between[j * d + i] = weighted_pair(rows, i, j, weighed, margins);
    }
    free(margins);
    free(sums);
    free(whole);
    free(phis);
    free(cells);
    free(weighed);
    return enough;
}

/* ------------------------------------------------------------------ counts */

typedef struct {
    int64_t size, room; /* keys, and how many fit in memory */
    uint64_t *keys;
    double *counts; /* (room, k) */
} Counted;

static int more_room(Counted *of, int64_t k, int64_t needed) {
    if (needed <= of->room) return 1;
    int64_t room = of->room * 2 > 64 ? of->room * 2 : 64;
    if (room < needed) room = needed;
    uint64_t *keys = realloc(of->keys, room * sizeof *keys);
    if (keys) of->keys = keys;
    double *counts = realloc(of->counts, room * k * sizeof *counts);
    if (counts) of->counts = counts;
    if (!keys || !counts) return 0;
    of->room = room;
    return 1;
}

static void free_counted(Counted *of) {
    free(of->keys);
    free(of->counts);
}

typedef struct { /* where a column's keys are stored: in a direct table if that is small, otherwise by hashing */
    int64_t slots;
    int shift;
    int32_t *id; /* −1: free */
    int64_t room;
} Places;

static int make_places(Places *places, int64_t slots) {
    if (slots > places->room) {
        int32_t *id = realloc(places->id, slots * sizeof *id);
        if (!id) return 0;
        places->id = id;
        places->room = slots;
    }
    places->slots = slots;
    places->shift = 64 - (slots > 1 ? 63 - __builtin_clzll((unsigned long long)slots) : 1);
    memset(places->id, -1, slots * sizeof *places->id);
    return 1;
}

INLINE int64_t hashed(const Places *places, uint64_t key) {
    return (int64_t)((key * 0x9e3779b97f4a7c15ULL) >> places->shift); /* 2^64 over the golden ratio */
}

INLINE int64_t slot_of(const Places *places, const uint64_t *keys, uint64_t key) {
    int64_t slot = hashed(places, key);
    while (places->id[slot] >= 0 && keys[places->id[slot]] != key) slot = (slot + 1) & (places->slots - 1);
    return slot;
}

/* Numbers 0..size−1 in ascending order of their keys, byte by byte; `spare` has room for as many. */
static int32_t *ascending(const uint64_t *keys, int64_t size, int bytes, int32_t *order, int32_t *spare) {
    for (int64_t x = 0; x < size; x++) order[x] = (int32_t)x;
    for (int byte = 0; byte < bytes; byte++) {
        int64_t start[257] = {0};
        for (int64_t x = 0; x < size; x++) start[(keys[x] >> 8 * byte & 255) + 1]++;
        if (size && start[(keys[0] >> 8 * byte & 255) + 1] == size) continue;
        for (int v = 0; v < 256; v++) start[v + 1] += start[v];
        for (int64_t x = 0; x < size; x++) spare[start[keys[order[x]] >> 8 * byte & 255]++] = order[x];
        int32_t *const done = spare;
        spare = order;
        order = done;
    }
    return order;
}

/* Adds column j's keys and counts to `all`. `mine` and `places` are reused from column to column. */
static int count_column(const Rows *rows, int64_t j, const int32_t *parents, int64_t most, Counted *mine, Places *places,
                        Counted *all) {
    const int64_t n = rows->n, k = rows->k, small = 4 * n > 512 ? 4 * n : 512;
    const uint8_t *column[MOST_PARENTS + 1];
    uint64_t radix[MOST_PARENTS + 1], unseen[MOST_PARENTS + 1], room = 1;
    int shift[MOST_PARENTS + 1], used = 0;
    for (int64_t t = 0; t <= most; t++) { /* parents in order, the value last; absent parents are zero in every key */
        const int64_t from = t < most ? parents[t] : j;
        if (from < 0) continue;
        column[used] = rows->codes + from * n;
        unseen[used] = (uint64_t)rows->top[from];
        radix[used] = unseen[used] + (t < most ? rows->gaps[from] : 0);
        if (radix[used] == 0) return 1; /* only missing values */
        shift[used] = (int)(8 * (most - t));
        room *= radix[used++];
    }
    const int direct = room <= (uint64_t)small;
    if (!make_places(places, direct ? (int64_t)room : 1024)) return 0;
    const uint8_t *const value = rows->codes + j * n;
    uint64_t place[BLOCK];
    mine->size = 0;
    for (int64_t c = 0; c < k; c++)
        for (int64_t first = rows->start[c]; first < rows->start[c + 1]; first += BLOCK) {
            const int64_t size = rows->start[c + 1] - first < BLOCK ? rows->start[c + 1] - first : BLOCK;
            memset(place, 0, size * sizeof *place);
            for (int t = 0; t < used; t++) {
                const uint8_t *const x = column[t] + first;
                if (!direct)
                    for (int64_t r = 0; r < size; r++) place[r] |= (uint64_t)x[r] << shift[t];
                else if (!rows->gaps[t < used - 1 ? parents[t] : j])
                    for (int64_t r = 0; r < size; r++) place[r] = place[r] * radix[t] + x[r];
                else
                    for (int64_t r = 0; r < size; r++) place[r] = place[r] * radix[t] + (x[r] == UNSEEN ? unseen[t] : x[r]);
            }
            for (int64_t r = 0; r < size; r++) {
                if (value[first + r] == UNSEEN) continue;
                if (!direct && r + 8 < size) __builtin_prefetch(places->id + hashed(places, place[r + 8]));
                int64_t slot = direct ? (int64_t)place[r] : slot_of(places, mine->keys, place[r]);
                if (places->id[slot] < 0) {
                    if (!more_room(mine, k, mine->size + 1)) return 0;
                    uint64_t key = 0;
                    for (int t = 0; t < used; t++) key |= (uint64_t)column[t][first + r] << shift[t];
                    mine->keys[mine->size] = key;
                    memset(mine->counts + mine->size * k, 0, k * sizeof *mine->counts);
                    places->id[slot] = (int32_t)mine->size++;
                    if (!direct && 2 * mine->size > places->slots) {
                        if (!make_places(places, 4 * places->slots)) return 0;
                        for (int64_t x = 0; x < mine->size; x++)
                            places->id[slot_of(places, mine->keys, mine->keys[x])] = (int32_t)x;
                        slot = slot_of(places, mine->keys, key);
                    }
                }
                mine->counts[places->id[slot] * k + c] += rows->weight ? rows->weight[first + r] : 1.0;
            }
        }
    if (!more_room(all, k, all->size + mine->size)) return 0;
    int32_t *order = NULL, *spare = NULL;
    if (!direct) {
        order = malloc((mine->size + 1) * sizeof *order);
        spare = malloc((mine->size + 1) * sizeof *spare);
        if (!order || !spare) {
            free(order);
            free(spare);
            return 0;
        }
    }
    const int32_t *const sorted = direct ? places->id : ascending(mine->keys, mine->size, (int)most + 1, order, spare);
    const int64_t listed = direct ? places->slots : mine->size;
    for (int64_t x = 0; x < listed; x++)
        if (sorted[x] >= 0) {
            all->keys[all->size] = mine->keys[sorted[x]];
            memcpy(all->counts + all->size++ * k, mine->counts + sorted[x] * k, k * sizeof *all->counts);
        }
    free(order);
    free(spare);
    return 1;
}

/* ptr (d+1,); `all` is empty at first. Returns 0 if memory runs out. */
static int count_all(const Rows *rows, const int32_t *parents, int64_t most, int64_t *ptr, Counted *all) {
    Counted mine = {0, 0, NULL, NULL};
    Places places = {0, 0, NULL, 0};
    int enough = 1;
    ptr[0] = 0;
    for (int64_t j = 0; j < rows->d && enough; j++) {
        enough = count_column(rows, j, parents + j * most, most, &mine, &places, all);
        ptr[j + 1] = all->size;
    }
    free_counted(&mine);
    free(places.id);
    return enough;
}

/* ------------------------------------------------------------------ contexts: one tree per column

   A node is a context p1..pt. Its record is a sequence of words:
       how many classes were seen there
       [nodes with parents left]   the number of its first child, and a bit for each value of p(t+1) that has one
       a bit for each value v seen there
       [unless it has all classes] which classes
       their totals, and for each v seen, in order, their counts
   so that each step reads one stretch of memory, and classes that were not seen in a context cost nothing. */

typedef union {
    uint64_t bits;
    double sum;
    int32_t pair[2];
} Word;

typedef struct {
    int64_t d, k, most;
    int32_t *parents;    /* (d, most) */
    int32_t *deepest;    /* (d,) how many parents */
    int32_t *levels;     /* (d,) */
    int64_t *root;       /* (d,) a column's node without a context: it has all classes */
    int64_t *where;      /* where a node's record starts */
    int64_t nodes, nodes_room;
    Word *words;
    int64_t size, room;
    int64_t *offset;     /* (d+1,) of a column's values in `seen` */
    double *seen;        /* how often a value was seen, in all classes */
    double *all;         /* (d,) their sum */
} Tree;

static void free_tree(Tree *tree) {
    free(tree->parents);
    free(tree->deepest);
    free(tree->levels);
    free(tree->root);
    free(tree->where);
    free(tree->words);
    free(tree->offset);
    free(tree->seen);
    free(tree->all);
}

INLINE int64_t words_for(int64_t bits) { return (bits + 63) >> 6; }

INLINE int has_bit(const Word *bits, int64_t v) { return bits[v >> 6].bits >> (v & 63) & 1; }

/* How many bits are set before bit v. */
INLINE int64_t rank_of(const Word *bits, int64_t v) {
    int64_t rank = __builtin_popcountll(bits[v >> 6].bits & ((1ULL << (v & 63)) - 1));
    for (int64_t w = 0; w < v >> 6; w++) rank += __builtin_popcountll(bits[w].bits);
    return rank;
}

typedef struct { /* the counts that are not zero, key by key */
    int64_t *start;
    int32_t *cls;
    double *val;
} Filled;

static void free_filled(Filled *of) {
    free(of->start);
    free(of->cls);
    free(of->val);
}

static int fill(const double *counts, int64_t m, int64_t k, int64_t filled, Filled *of) {
    of->start = malloc((m + 1) * sizeof *of->start);
    of->cls = malloc((filled + 1) * sizeof *of->cls);
    of->val = malloc((filled + 1) * sizeof *of->val);
    if (!of->start || !of->cls || !of->val) return 0;
    int64_t at = 0;
    for (int64_t e = 0; e < m; e++) {
        of->start[e] = at;
        for (int64_t c = 0; c < k; c++)
            if (counts[e * k + c] > 0.0) {
                of->cls[at] = (int32_t)c;
                of->val[at++] = counts[e * k + c];
            }
    }
    of->start[m] = at;
    return 1;
}

typedef struct { /* keys first..last share a context */
    int64_t first, last;
} Run;

typedef struct {
    int64_t size, room;
    Run *runs;
} Frontier;

static int push(Frontier *to, int64_t first, int64_t last) {
    if (to->size == to->room) {
        const int64_t room = to->room ? 2 * to->room : 64;
        Run *runs = realloc(to->runs, room * sizeof *runs);
        if (!runs) return 0;
        to->runs = runs;
        to->room = room;
    }
    to->runs[to->size++] = (Run){first, last};
    return 1;
}

/* Memory for a record; its words are zero. */
static Word *new_record(Tree *tree, int64_t words) {
    if (tree->nodes == tree->nodes_room) {
        const int64_t room = tree->nodes_room ? 2 * tree->nodes_room : 256;
        int64_t *where = realloc(tree->where, room * sizeof *where);
        if (!where) return NULL;
        tree->where = where;
        tree->nodes_room = room;
    }
    if (tree->size + words > tree->room) {
        int64_t room = tree->room ? 2 * tree->room : 1024;
        if (room < tree->size + words) room = tree->size + words;
        Word *more = realloc(tree->words, room * sizeof *more);
        if (!more) return NULL;
        tree->words = more;
        tree->room = room;
    }
    tree->where[tree->nodes++] = tree->size;
    Word *const record = tree->words + tree->size;
    memset(record, 0, words * sizeof *record);
    tree->size += words;
    return record;
}

/* The node of keys first..last at depth t of column j, whose children will be numbered from `child` on.
   `position` (k,) is −1 before and after, `present` (k,) is scratch. */
static int add_node(Tree *tree, int64_t j, int64_t t, Run run, int64_t child, const uint64_t *keys, const Filled *of,
                    int32_t *position, int32_t *present) {
    const int64_t k = tree->k, value_words = words_for(tree->levels[j]);
    const int inner = t < tree->deepest[j];
    const int64_t next = inner ? tree->parents[j * tree->most + t] : -1;
    const int64_t child_words = inner ? words_for(tree->levels[next]) : 0;
    const int shift = (int)(8 * (tree->most - t));
    Word values[4] = {{0}}, children[4] = {{0}};
    int64_t classes = 0, rows = 0;
    for (int64_t e = run.first; e < run.last; e++) {
        const uint64_t v = keys[e] & 255, p = keys[e] >> shift & 255;
        if (of->start[e] == of->start[e + 1]) continue;
        values[v >> 6].bits |= 1ULL << (v & 63);
        if (inner && p != UNSEEN) children[p >> 6].bits |= 1ULL << (p & 63);
        for (int64_t f = of->start[e]; f < of->start[e + 1]; f++)
            if (position[of->cls[f]] < 0) {
                position[of->cls[f]] = (int32_t)classes;
                present[classes++] = of->cls[f];
            }
    }
    for (int64_t w = 0; w < value_words; w++) rows += __builtin_popcountll(values[w].bits);
    for (int64_t x = 0; x < classes; x++) position[present[x]] = -1;
    const int dense = t == 0 || 2 * classes > k; /* then a loop over all is faster */
    if (dense) classes = k;
    const int64_t list = dense ? 0 : (classes + 1) / 2;
    Word *record = new_record(tree, 1 + (inner ? 1 + child_words : 0) + value_words + list + (1 + rows) * classes);
    if (!record) return 0;
    record++->pair[0] = (int32_t)classes;
    if (inner) {
        record++->bits = (uint64_t)child;
        memcpy(record, children, child_words * sizeof *record);
        record += child_words;
    }
    memcpy(record, values, value_words * sizeof *record);
    record += value_words;
    if (!dense) memcpy(record, present, classes * sizeof *present);
    record += list;
    for (int64_t x = 0; x < classes; x++) position[dense ? x : present[x]] = (int32_t)x;
    for (int64_t e = run.first; e < run.last; e++) {
        if (of->start[e] == of->start[e + 1]) continue;
        Word *const counts = record + (1 + rank_of(values, keys[e] & 255)) * classes;
        for (int64_t f = of->start[e]; f < of->start[e + 1]; f++) {
            counts[position[of->cls[f]]].sum += of->val[f];
            record[position[of->cls[f]]].sum += of->val[f];
        }
    }
    for (int64_t x = 0; x < classes; x++) position[dense ? x : present[x]] = -1;
    if (t == 0) {
        double *const seen = tree->seen + tree->offset[j];
        tree->all[j] = 0.0;
        for (int64_t x = 0; x < k; x++) tree->all[j] += record[x].sum;
        for (int64_t v = 0; v < tree->levels[j]; v++) {
            seen[v] = 0.0;
            if (has_bit(values, v))
                for (int64_t x = 0; x < k; x++) seen[v] += record[(1 + rank_of(values, v)) * k + x].sum;
        }
    }
    return 1;
}

/* All nodes, column by column and depth by depth, so that a node's children are adjacent.
   The input has been checked. Returns 0 if memory runs out. */
static int grow_tree(Tree *tree, const int64_t *ptr, const uint64_t *keys, const double *counts, int64_t filled) {
    const int64_t d = tree->d, k = tree->k;
    Filled of = {NULL, NULL, NULL};
    Frontier now = {0, 0, NULL}, then = {0, 0, NULL};
    int32_t *position = malloc((k + 1) * sizeof *position), *present = malloc((k + 1) * sizeof *present);
    int enough = position && present && fill(counts, ptr[d], k, filled, &of);
    if (enough) memset(position, -1, k * sizeof *position);
    for (int64_t j = 0; j < d && enough; j++) {
        now.size = 0;
        enough = push(&now, ptr[j], ptr[j + 1]);
        tree->root[j] = tree->nodes;
        for (int64_t t = 0; t <= tree->deepest[j] && enough; t++) {
            const int64_t first_child = tree->nodes + now.size;
            const int shift = (int)(8 * (tree->most - t));
            then.size = 0;
            for (int64_t x = 0; x < now.size && enough; x++) {
                const Run run = now.runs[x];
                enough = add_node(tree, j, t, run, first_child + then.size, keys, &of, position, present);
                if (t == tree->deepest[j]) continue;
                for (int64_t e = run.first, first = e; e < run.last && enough; first = e) {
                    const uint64_t p = keys[e] >> shift & 255;
                    int some = 0;
                    for (; e < run.last && (keys[e] >> shift & 255) == p; e++) some |= of.start[e] < of.start[e + 1];
                    if (some && p != UNSEEN) enough = push(&then, first, e);
                }
            }
            const Frontier done = now;
            now = then;
            then = done;
        }
    }
    free_filled(&of);
    free(now.runs);
    free(then.runs);
    free(position);
    free(present);
    return enough;
}

/* ------------------------------------------------------------------ a node, read */

typedef struct {
    int64_t classes;
    int64_t child;         /* for nodes with parents left */
    const Word *children;
    const int32_t *which;  /* NULL: all */
    const Word *totals;
    const Word *counts;    /* of a value; NULL: never seen here */
} Node;

INLINE Node read_node(const Tree *tree, int64_t number, int64_t j, int64_t t, int64_t v) {
    const Word *at = tree->words + tree->where[number];
    Node node = {at++->pair[0], 0, NULL, NULL, NULL, NULL};
    if (t < tree->deepest[j]) {
        node.child = (int64_t)at++->bits;
        node.children = at;
        at += words_for(tree->levels[tree->parents[j * tree->most + t]]);
    }
    const Word *const values = at;
    at += words_for(tree->levels[j]);
    if (node.classes != tree->k) {
        node.which = (const int32_t *)at;
        at += (node.classes + 1) / 2;
    }
    node.totals = at;
    if (has_bit(values, v)) node.counts = at + (1 + rank_of(values, v)) * node.classes;
    return node;
}

/* The number of the node one parent deeper, where that has the code p; −1 if that context was never seen. */
INLINE int64_t child_of(const Node *node, int64_t p) {
    if (p == UNSEEN || !has_bit(node->children, p)) return -1;
    return node->child + rank_of(node->children, p);
}

/* The same for a row. */
INLINE int64_t deeper(const Tree *tree, const Node *node, int64_t j, int64_t t, const uint8_t *row) {
    return child_of(node, row[tree->parents[j * tree->most + t]]);
}

/* A count without a row of weight w; rounding residue becomes zero. */
INLINE double without(double count, double w) {
    const double left = count - w;
    return left > count * 0x1p-30 ? left : 0.0;
}

/* p_0 for each class, `wide` strengths each. Returns 0 if the value is no evidence. */
INLINE int from_nothing(const Tree *tree, const Node *node, int64_t j, int64_t v, const double *strength, int64_t wide,
                        int64_t own, double w, double *restrict p) {
    const int64_t k = tree->k;
    double seen = tree->seen[tree->offset[j] + v], all = tree->all[j], mine = 0.0, total = 0.0;
    if (!(seen > 0.0)) return 0;
    const Word *const counts = node->counts, *const totals = node->totals;
    if (own >= 0) {
        mine = without(counts[own].sum, w);
        total = without(totals[own].sum, w);
        const double before = seen; /* sums that rows were taken out of need not agree to the last bit */
        seen = seen - counts[own].sum + mine;
        all = all - totals[own].sum + total;
        if (!(seen > before * 0x1p-30)) return 0;
    }
    if (!(all > 0.0)) return 0;
    const double share = seen / all;
    for (int64_t c = 0; c < k; c++)
        for (int64_t s = 0; s < wide; s++)
            p[c * wide + s] = (counts[c].sum + strength[s] * share) / (totals[c].sum + strength[s]);
    if (own >= 0)
        for (int64_t s = 0; s < wide; s++) p[own * wide + s] = (mine + strength[s] * share) / (total + strength[s]);
    return 1;
}

/* p_t from p_{t−1}; classes that were not seen in the context stay as they are. */
INLINE void refine(const Tree *tree, const Node *node, const double *strength, int64_t wide, int64_t own, double w,
                   double *restrict p, double *restrict before) {
    const Word *const counts = node->counts, *const totals = node->totals;
    if (own >= 0) memcpy(before, p + own * wide, wide * sizeof *p);
    int64_t place = own;
    if (node->which) {
        place = -1;
        for (int64_t x = 0; x < node->classes; x++) {
            const int64_t c = node->which[x];
            const double count = counts ? counts[x].sum : 0.0, total = totals[x].sum;
            for (int64_t s = 0; s < wide; s++)
                p[c * wide + s] = (count + strength[s] * p[c * wide + s]) / (total + strength[s]);
            if (c == own) place = x;
        }
    } else if (counts) {
        for (int64_t c = 0; c < tree->k; c++)
            for (int64_t s = 0; s < wide; s++)
                p[c * wide + s] = (counts[c].sum + strength[s] * p[c * wide + s]) / (totals[c].sum + strength[s]);
    } else {
        for (int64_t c = 0; c < tree->k; c++)
            for (int64_t s = 0; s < wide; s++) p[c * wide + s] *= strength[s] / (totals[c].sum + strength[s]);
    }
    if (own >= 0 && place >= 0) {
        const double count = counts ? without(counts[place].sum, w) : 0.0, total = without(totals[place].sum, w);
        for (int64_t s = 0; s < wide; s++)
            p[own * wide + s] = total > 0.0 ? (count + strength[s] * before[s]) / (total + strength[s]) : before[s];
    }
}

/* ------------------------------------------------------------------ rows removed from a tree */

/* A copy; returns 0 if memory runs out, and then the copy can still be freed. */
static int copy_tree(Tree *to, const Tree *from) {
    const int64_t d = from->d;
    memset(to, 0, sizeof *to);
    to->d = d;
    to->k = from->k;
    to->most = from->most;
    to->nodes = to->nodes_room = from->nodes;
    to->size = to->room = from->size;
#define COPIED(name, count) \
    to->name = malloc(((count) + 1) * sizeof *to->name); \
    if (!to->name) return 0; \
    if (count) memcpy(to->name, from->name, (count) * sizeof *to->name);
    COPIED(parents, d * from->most)
    COPIED(deepest, d)
    COPIED(levels, d)
    COPIED(root, d)
    COPIED(where, from->nodes)
    COPIED(words, from->size)
    COPIED(offset, d + 1)
    COPIED(seen, from->offset[d])
    COPIED(all, d)
#undef COPIED
    return 1;
}

/* Takes w from what is left of a sum; rounding residue of the whole sum becomes zero. */
INLINE void take_away(double *left, double whole, double w, double residue) {
    *left -= w;
    if (!(*left > whole * residue)) *left = 0.0;
}

/* Takes counts, as `count_all` gives them, out of `tree`, a copy of `from`, which holds them. Contexts that no row is
   left in stay, and change nothing: (0 + s p)/(0 + s) = p. */
MODERN static void remove_counts(Tree *tree, const Tree *from, const int64_t *ptr, const uint64_t *keys,
                                 const double *counts, double residue) {
    const int64_t k = tree->k;
    for (int64_t j = 0; j < tree->d; j++)
        for (int64_t e = ptr[j]; e < ptr[j + 1]; e++) {
            const double *const gone = counts + e * k;
            const int64_t v = (int64_t)(keys[e] & 255), value = tree->offset[j] + v;
            double all = 0.0;
            for (int64_t c = 0; c < k; c++) all += gone[c];
            take_away(&tree->seen[value], from->seen[value], all, residue);
            take_away(&tree->all[j], from->all[j], all, residue);
            int64_t number = tree->root[j];
            for (int64_t t = 0; number >= 0; t++) {
                const Node node = read_node(from, number, j, t, v);
                Word *const totals = tree->words + (node.totals - from->words);
                Word *const mine = node.counts ? tree->words + (node.counts - from->words) : NULL;
                for (int64_t x = 0; x < node.classes; x++) {
                    const double w = gone[node.which ? node.which[x] : x];
                    if (!(w > 0.0)) continue;
                    take_away(&totals[x].sum, node.totals[x].sum, w, residue);
                    if (mine) take_away(&mine[x].sum, node.counts[x].sum, w, residue);
                }
                const uint8_t p = (uint8_t)(keys[e] >> 8 * (tree->most - t));
                number = t < tree->deepest[j] ? child_of(&node, p) : -1;
            }
        }
}

/* ------------------------------------------------------------------ scores */

typedef double lanes __attribute__((vector_size(32), aligned(8), may_alias));
typedef int64_t places __attribute__((vector_size(32), aligned(8), may_alias));
enum { LANES = 4 };

/* The product of probabilities is kept instead of the sum of their logarithms: one logarithm per row instead of one per
   column. Products and factors below this go to `sum` as logarithms: two above it cannot underflow together. */
static const double LEAST = 0x1p-500;

INLINE void multiply(double *restrict product, double *restrict sum, const double *restrict p, int64_t size) {
    const lanes one = {1.0, 1.0, 1.0, 1.0};
    places low = {0, 0, 0, 0};
    for (int64_t x = 0; x < size; x += LANES) {
        const lanes factor = *(const lanes *)(p + x);
        const places tiny = factor < LEAST;
        const lanes next = *(const lanes *)(product + x) * (lanes)(((places)factor & ~tiny) | ((places)one & tiny));
        low |= tiny | (next < LEAST);
        *(lanes *)(product + x) = next;
    }
    if (__builtin_expect((low[0] | low[1] | low[2] | low[3]) != 0, 0))
        for (int64_t x = 0; x < size; x++) {
            if (p[x] < LEAST) sum[x] += log(p[x]);
            if (product[x] < LEAST) {
                sum[x] += log(product[x]);
                product[x] = 1.0;
            }
        }
}

enum { BATCH = 16, NEAR = 16384 }; /* NEAR: how many words fit in the nearest caches */

typedef struct {
    const int32_t *depths;
    int64_t count, most; /* how many depths, and the deepest */
    const double *strength;
    int64_t strengths, wide, size; /* requested; with padding to a whole vector; classes × wide, in whole vectors */
    int64_t batch;                 /* rows that walk a column's contexts together */
    int64_t together;              /* rows that take a column in turn, so that equal ones are computed once; 0: none */
    double *p, *before;            /* (batch, size), (wide,) */
    double *product, *sum;         /* (batch or together, depths, size) */
    int32_t *id;                   /* (ROOM × together,) which of `known` a row with these codes has, −1: not yet */
    double *known;                 /* (together, size) */
} Asked;

enum { MIN_TOGETHER = 32, ROOM = 4 };

static void free_asked(Asked *asked) {
    free(asked->p);
    free(asked->id);
}

/* Scratch for a walk over n rows of one weight (`even`) or of several: memory for numbers, all 1 at first, and for
   places. */
static int make_asked(Asked *asked, const Tree *tree, const int32_t *depths, int64_t count, const double *strengths,
                      int64_t b, int64_t n, int even) {
    const int64_t k = tree->k;
    memset(asked, 0, sizeof *asked);
    asked->depths = depths;
    asked->count = count;
    for (int64_t x = 0; x < count; x++) asked->most = depths[x] > asked->most ? depths[x] : asked->most;
    asked->strengths = b;
    asked->wide = b == 1 ? 1 : (b + LANES - 1) / LANES * LANES;
    asked->size = (k * asked->wide + LANES - 1) / LANES * LANES;
    asked->batch = tree->size > NEAR ? BATCH : 1;
    while (asked->batch > 4 && asked->batch * (count + 1) * asked->size > NEAR) asked->batch /= 2;
    if (even && count == 1 && n >= MIN_TOGETHER) {
        asked->together = 4 * NEAR / asked->size;
        if (asked->together > n) asked->together = n;
        if (asked->together < MIN_TOGETHER) asked->together = 0;
    }
    const int64_t held = asked->together * asked->size, ps = asked->batch * asked->size;
    const int64_t each = held > count * ps ? held : count * ps, total = ps + 2 * each + 2 * asked->wide + held;
    asked->p = malloc((total + 1) * sizeof *asked->p);
    asked->id = malloc((ROOM * asked->together + 1) * sizeof *asked->id);
    if (!asked->p || !asked->id) {
        free_asked(asked);
        return 0;
    }
    for (int64_t x = 0; x < total; x++) asked->p[x] = 1.0;
    asked->product = asked->p + ps;
    asked->sum = asked->product + each;
    asked->before = asked->sum + each;
    double *const strength = asked->before + asked->wide;
    asked->known = strength + asked->wide;
    memcpy(strength, strengths, b * sizeof *strength); /* padding is 1 */
    asked->strength = strength;
    return 1;
}

INLINE void begin(const Asked *asked, int64_t rows) {
    for (int64_t x = 0; x < rows * asked->count * asked->size; x++) {
        asked->product[x] = 1.0;
        asked->sum[x] = 0.0;
    }
}

INLINE void fetch(const Word *at, int64_t words) {
    for (int64_t x = 0; x < words && x < 64; x += 8) __builtin_prefetch(at + x);
}

/* Walks the contexts of column j for several rows side by side, and multiplies p_t into the product of each depth that
   ends at t. Deep contexts are scattered over memory: each is prefetched well before it is read, and rows wait together.
   If there is little memory to look through, rows go one by one. */
INLINE void walk(const Tree *tree, const uint8_t *codes, int64_t rows, int64_t j, const int32_t *own, const double *weight,
                 const Asked *asked, int64_t wide, int alone) {
    if (alone) rows = 1;
    const int64_t d = tree->d, size = asked->size, each = asked->count * size;
    const int64_t end = tree->deepest[j] < asked->most ? tree->deepest[j] : asked->most;
    Node node[BATCH];
    int64_t next[BATCH], going = 0;
    int go[BATCH];
    for (int r = 0; r < rows; r++) {
        const int64_t v = codes[r * d + j];
        if (v == UNSEEN) continue;
        node[r] = read_node(tree, tree->root[j], j, 0, v);
        if (from_nothing(tree, &node[r], j, v, asked->strength, wide, own ? own[r] : -1, weight ? weight[r] : 1.0,
                         asked->p + r * size))
            go[going++] = r;
    }
    for (int64_t t = 0; going; t++) {
        int64_t on = 0;
        for (int64_t x = 0; x < going; x++) {
            const int r = go[x];
            next[r] = t < end ? deeper(tree, &node[r], j, t, codes + r * d) : -1;
            if (!alone && next[r] >= 0) __builtin_prefetch(tree->where + next[r]);
            for (int64_t a = 0; a < asked->count; a++)
                if (asked->depths[a] == t || (next[r] < 0 && asked->depths[a] > t))
                    multiply(asked->product + r * each + a * size, asked->sum + r * each + a * size, asked->p + r * size, size);
            if (next[r] >= 0) go[on++] = r;
        }
        going = on;
        for (int64_t x = 0; x < going && !alone; x++) fetch(tree->words + tree->where[next[go[x]]], 16);
        for (int64_t x = 0; x < going; x++) {
            const int r = go[x];
            node[r] = read_node(tree, next[r], j, t + 1, codes[r * d + j]);
            if (alone) continue;
            fetch(node[r].totals, node[r].classes);
            if (node[r].counts) fetch(node[r].counts, node[r].classes);
        }
        for (int64_t x = 0; x < going; x++) {
            const int r = go[x];
            refine(tree, &node[r], asked->strength, wide, own ? own[r] : -1, weight ? weight[r] : 1.0, asked->p + r * size,
                   asked->before);
        }
    }
}

/* The same for many rows of one weight. What a column adds depends on its value, its parents' and on the row's class, so
   it is computed once for all rows that share them, if there are few enough of those. */
INLINE void walk_together(const Tree *tree, const uint8_t *codes, int64_t rows, int64_t j, const int32_t *own,
                          const double *weight, const Asked *asked, int64_t wide, int alone) {
    const int64_t d = tree->d, size = asked->size;
    const int64_t end = tree->deepest[j] < asked->most ? tree->deepest[j] : asked->most;
    const int32_t *const parents = tree->parents + j * tree->most;
    const int64_t owns = own ? tree->k + 1 : 1;
    int64_t room = tree->levels[j] * owns, used = 0;
    Asked mine = *asked;
    for (int64_t t = 0; t < end && room <= ROOM * rows; t++) room *= tree->levels[parents[t]] + 1;
    if (room > ROOM * rows) {
        for (int64_t r = 0; r < rows; r += asked->batch) {
            mine.product = asked->product + r * size;
            mine.sum = asked->sum + r * size;
            walk(tree, codes + r * d, rows - r < asked->batch ? rows - r : asked->batch, j, own ? own + r : NULL,
                 weight ? weight + r : NULL, &mine, wide, alone);
        }
        return;
    }
    mine.count = 0; /* nothing is multiplied: p is all that is needed */
    memset(asked->id, -1, room * sizeof *asked->id);
    for (int64_t r = 0; r < rows; r++) {
        const uint8_t *const row = codes + r * d;
        if (row[j] == UNSEEN) continue;
        int64_t place = row[j];
        for (int64_t t = 0; t < end; t++) {
            const int64_t levels = tree->levels[parents[t]], p = row[parents[t]];
            place = place * (levels + 1) + (p < levels ? p : levels);
        }
        if (own) place = place * owns + (own[r] < 0 ? 0 : own[r] + 1);
        if (asked->id[place] < 0) {
            asked->id[place] = (int32_t)used;
            for (int64_t x = 0; x < size; x++) asked->p[x] = 1.0;
            walk(tree, row, 1, j, own ? own + r : NULL, weight ? weight + r : NULL, &mine, wide, 1);
            memcpy(asked->known + used++ * size, asked->p, size * sizeof *asked->p);
        }
        multiply(asked->product + r * size, asked->sum + r * size, asked->known + asked->id[place] * size, size);
    }
}

INLINE void score_wide(const Tree *tree, const uint8_t *codes, int64_t n, const int32_t *own, const double *weight,
                       const Asked *asked, int64_t wide, int alone, int adds, double *out) {
    const int64_t d = tree->d, k = tree->k, size = asked->size;
    const int64_t most = asked->together ? asked->together : asked->batch;
    for (int64_t first = 0; first < n; first += most) {
        const int64_t rows = n - first < most ? n - first : most;
        const int32_t *const owned = own ? own + first : NULL;
        const double *const weights = weight ? weight + first : NULL;
        begin(asked, rows);
        for (int64_t j = 0; j < d; j++)
            if (asked->together) walk_together(tree, codes + first * d, rows, j, owned, weights, asked, wide, alone);
            else walk(tree, codes + first * d, rows, j, owned, weights, asked, wide, alone);
        for (int64_t x = 0; x < rows * asked->count * size; x += size)
            for (int64_t s = 0; s < asked->strengths; s++, out += k)
                for (int64_t c = 0; c < k; c++) {
                    const int64_t at = x + c * wide + s;
                    out[c] = (adds ? out[c] : 0.0) + asked->sum[at] + log(asked->product[at]);
                }
    }
}

/* out (n, depths, strengths, k). The number of strengths is a constant for the compiler if it is small. */
CLONES static void score_rows(const Tree *tree, const uint8_t *codes, int64_t n, const int32_t *own, const double *weight,
                              const Asked *asked, int adds, double *out) {
    const int64_t wide = asked->wide;
    if (asked->batch == 1) {
        if (wide == 1) score_wide(tree, codes, n, own, weight, asked, 1, 1, adds, out);
        else if (wide == 4) score_wide(tree, codes, n, own, weight, asked, 4, 1, adds, out);
        else score_wide(tree, codes, n, own, weight, asked, wide, 1, adds, out);
    } else {
        if (wide == 1) score_wide(tree, codes, n, own, weight, asked, 1, 0, adds, out);
        else if (wide == 4) score_wide(tree, codes, n, own, weight, asked, 4, 0, adds, out);
        else score_wide(tree, codes, n, own, weight, asked, wide, 0, adds, out);
    }
}

/* One row's terms, out (d, k), for one depth and one strength. */
static void term_rows(const Tree *tree, const uint8_t *row, const Asked *asked, double *out) {
    const int64_t k = tree->k;
    for (int64_t j = 0; j < tree->d; j++) {
        begin(asked, 1);
        walk(tree, row, 1, j, NULL, NULL, asked, 1, 1);
        for (int64_t c = 0; c < k; c++) out[j * k + c] = asked->sum[c] + log(asked->product[c]);
    }
}

/* ------------------------------------------------------------------ samples */

/* A class's share of a node: its total, and where its counts are. */
INLINE int64_t place_in(const Node *node, int64_t c) {
    if (!node->which) return c;
    for (int64_t x = 0; x < node->classes; x++)
        if (node->which[x] == c) return x;
    return -1;
}

/* Column j of one row, given what was drawn for its parents. UNSEEN if no value was ever seen. */
static uint8_t draw(const Tree *tree, const uint8_t *row, int64_t j, int64_t c, int64_t depth, double strength, double u) {
    const int64_t end = tree->deepest[j] < depth ? tree->deepest[j] : depth;
    const double *const seen = tree->seen + tree->offset[j];
    int64_t context[MOST_PARENTS + 1], length = 1;
    if (!(tree->all[j] > 0.0)) return UNSEEN;
    context[0] = tree->root[j];
    while (length <= end) {
        const Node node = read_node(tree, context[length - 1], j, length - 1, 0);
        const int64_t next = deeper(tree, &node, j, length - 1, row);
        if (next < 0) break;
        context[length++] = next;
    }
    double below = 0.0;
    uint8_t drawn = UNSEEN;
    for (int64_t v = 0; v < tree->levels[j]; v++) {
        if (!(seen[v] > 0.0)) continue;
        double p = seen[v] / tree->all[j];
        for (int64_t t = 0; t < length; t++) {
            const Node node = read_node(tree, context[t], j, t, v);
            const int64_t x = place_in(&node, c);
            if (x >= 0) p = ((node.counts ? node.counts[x].sum : 0.0) + strength * p) / (node.totals[x].sum + strength);
        }
        if (p > 0.0) drawn = (uint8_t)v; /* the last one, if rounding leaves the sum below u */
        below += p;
        if (u < below) break;
    }
    return drawn;
}

CLONES static void sample_rows(const Tree *tree, const int32_t *order, const int32_t *y, int64_t n, int64_t depth,
                               double strength, const double *uniforms, uint8_t *out) {
    const int64_t d = tree->d;
    for (int64_t i = 0; i < n; i++)
        for (int64_t x = 0; x < d; x++) {
            const int64_t j = order[x];
            out[i * d + j] = draw(tree, out + i * d, j, y[i], depth, strength, uniforms[i * d + j]);
        }
}

/* ------------------------------------------------------------------ checks */

/* The first entry that is neither below its column's levels nor UNSEEN, or −1. */
CLONES static int64_t wrong_code(const uint8_t *codes, int64_t n, int64_t d, const uint8_t *levels) {
    for (int64_t i = 0; i < n; i++) {
        uint8_t wrong = 0;
        for (int64_t j = 0; j < d; j++) wrong |= (codes[i * d + j] >= levels[j]) & (codes[i * d + j] != UNSEEN);
        if (wrong)
            for (int64_t j = 0; j < d; j++)
                if (codes[i * d + j] >= levels[j] && codes[i * d + j] != UNSEEN) return i * d + j;
    }
    return -1;
}

/* Whether all weights are the same. */
static int same_weights(const double *weight, int64_t n) {
    for (int64_t i = 1; i < n; i++)
        if (weight[i] != weight[0]) return 0;
    return 1;
}

/* How many counts are above zero, or −1 − the index of the first that is negative or not finite. */
static int64_t filled_counts(const double *counts, int64_t size) {
    int64_t filled = 0;
    for (int64_t x = 0; x < size; x++) {
        if (!(counts[x] >= 0.0 && counts[x] <= 0x1.fffffffffffffp1023)) return -1 - x;
        filled += counts[x] > 0.0;
    }
    return filled;
}

/* The first of column j's keys that does not ascend, or holds a code its column does not have; or −1. */
static int64_t wrong_key(const uint64_t *keys, int64_t first, int64_t last, int64_t j, const int32_t *parents,
                         int64_t most, const int32_t *levels) {
    for (int64_t e = first; e < last; e++) {
        uint64_t rest = keys[e];
        if (e > first && keys[e] <= keys[e - 1]) return e;
        if ((int64_t)(rest & 255) >= levels[j]) return e;
        for (int64_t t = most - 1; t >= 0; t--) {
            rest >>= 8;
            const int64_t code = (int64_t)(rest & 255);
            if (parents[t] < 0 ? code != 0 : code != UNSEEN && code >= levels[parents[t]]) return e;
        }
        if (rest >> 8) return e;
    }
    return -1;
}

#endif
