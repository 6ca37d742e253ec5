/* Trees of splits over small codes: how they grow, where rows end, and the evidence of leaves. */
#ifndef DECIBAN_FOREST_LOOPS_H
#define DECIBAN_FOREST_LOOPS_H

#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lanes.h"

enum { UNSEEN = 255, VALUES = 256, BLOCK = 512, LOGS = 1 << 16, TURNS = 8 };

/* Accuracy of sums of n log n: two gains closer than this share of W (1 + |log W|) are equal. A sum of 2^12 terms
   that each carry half a unit of 2^-52 is accurate to 2^-41. */
#define ROUNDING 0x1p-40
/* A count of which at most this share is left is zero. */
#define RESIDUE 0x1p-30

typedef struct { /* what trees are grown on */
    int64_t n, d, k;
    const uint8_t *codes; /* (d, n): a column side by side */
    const int32_t *levels, *y;
    const uint8_t *ordered;
    const double *weight; /* NULL: all are 1 */
    int whole;            /* weights are whole numbers, and their sum is one of 31 bits */
    const double *n_log_n;
    int64_t logs; /* how many there are */
    int64_t tries, deepest;
    double least;
} Sample;

typedef struct { /* the nodes of all trees so far */
    int64_t size, room;
    int32_t *column, *left, *right, *parent;
    uint8_t *cut;
    uint64_t *mask;
} Nodes;

typedef struct {
    int32_t node, depth;
    int64_t first, last;
} Pending;

typedef struct { /* buffers for growing one tree after another */
    int32_t *rows, *aside, *label, *amount, *whole_table, *columns, *local;
    double *part, *real_table, *cells, *off, *by_class, *left, *right, *left_log, *right_log, *direction;
    Pending *pending;
    double heavy[VALUES], score[VALUES]; /* for each value that the node has: its weight, and its sort key */
    uint8_t value[VALUES], rank[VALUES];
} Room;

typedef struct {
    double gain, left, right;
    int32_t column;
    uint8_t goes_left[VALUES];
    uint8_t cut;
} Split;

/* Growing */

INLINE uint64_t scrambled(uint64_t x) { /* the last step of splitmix64 */
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

INLINE uint64_t drawn(uint64_t *state, uint64_t below) { /* a number from 0..below−1, below < 2^32 */
    *state += 0x9e3779b97f4a7c15ull;
    return ((scrambled(*state) >> 32) * below) >> 32;
}

INLINE double n_log_n(const Sample *s, double n) {
    if (!(n > 0.0)) return 0.0;
    if (s->whole && n < (double)s->logs) return s->n_log_n[(int64_t)n];
    return n * log(n);
}

static void nodes_free(Nodes *t) {
    free(t->column);
    free(t->left);
    free(t->right);
    free(t->parent);
    free(t->cut);
    free(t->mask);
}

static int widened(void **array, int64_t size) {
    void *const wider = realloc(*array, (size_t)size);
    if (wider) *array = wider;
    return wider != NULL;
}

/* A new leaf under `parent`: its number, or −1 if memory or numbers run out. */
static int32_t leaf_added(Nodes *t, int32_t parent) {
    if (t->size == t->room) {
        const int64_t room = t->room ? 2 * t->room : 256;
        if (room > INT32_MAX) return -1;
        if (!widened((void **)&t->column, 4 * room) || !widened((void **)&t->left, 4 * room) ||
            !widened((void **)&t->right, 4 * room) || !widened((void **)&t->parent, 4 * room) ||
            !widened((void **)&t->cut, room) || !widened((void **)&t->mask, 32 * room))
            return -1;
        t->room = room;
    }
    const int64_t at = t->size++;
    t->column[at] = t->left[at] = t->right[at] = -1;
    t->parent[at] = parent;
    t->cut[at] = 0;
    memset(t->mask + 4 * at, 0, 32);
    return (int32_t)at;
}

static void room_free(Room *r) {
    free(r->rows);
    free(r->aside);
    free(r->label);
    free(r->amount);
    free(r->whole_table);
    free(r->columns);
    free(r->local);
    free(r->part);
    free(r->real_table);
    free(r->cells);
    free(r->off);
    free(r->by_class);
    free(r->pending);
}

/* Buffers for trees of at most `most` rows; 0 if memory runs out. */
static int room_made(Room *r, const Sample *s, int64_t most) {
    const size_t m = (size_t)(most > 0 ? most : 1), k = (size_t)(s->k > 0 ? s->k : 1), d = (size_t)(s->d + 1);
    memset(r, 0, sizeof(Room));
    r->rows = malloc(4 * m);
    r->aside = malloc(4 * m);
    r->label = malloc(4 * m);
    r->columns = malloc(4 * d);
    r->local = malloc(4 * k);
    r->pending = malloc(sizeof(Pending) * (m + 1));
    r->cells = malloc(8 * VALUES * k);
    r->off = malloc(8 * VALUES * k);
    r->by_class = calloc(6 * k, 8);
    if (s->whole) {
        r->amount = malloc(4 * m);
        r->whole_table = calloc(VALUES * k, 4);
    } else {
        r->part = malloc(8 * m);
        r->real_table = calloc(VALUES * k, 8);
    }
    if (!r->rows || !r->aside || !r->label || !r->columns || !r->local || !r->pending || !r->cells || !r->off ||
        !r->by_class || (s->whole ? !r->amount || !r->whole_table : !r->part || !r->real_table))
        return 0;
    r->left = r->by_class + k;
    r->right = r->left + k;
    r->left_log = r->right + k;
    r->right_log = r->left_log + k;
    r->direction = r->right_log + k;
    if (s->whole)
        for (size_t p = 0; p < m; p++) r->amount[p] = 1;
    return 1;
}

/* The weights of a column's values by class, over the rows first..last: a line of `cells` for each value that the node
   has, ascending. Returns how many have a line; a row whose value was never seen has none. `table` is zero before and
   after: in small nodes only the cells that were used are reset. */
#define DEFINE_TALLY(NAME, NUMBER, AMOUNT, TABLE)                                                                      \
    static int64_t NAME(const Sample *s, Room *r, int64_t j, int64_t first, int64_t last, int64_t k) {                 \
        const uint8_t *restrict code = s->codes + j * s->n;                                                            \
        const int32_t *restrict rows = r->rows, *restrict label = r->label;                                            \
        const NUMBER *restrict amount = r->AMOUNT;                                                                     \
        NUMBER *restrict table = r->TABLE;                                                                             \
        uint64_t touched[4] = {0, 0, 0, 0};                                                                            \
        if (4 * (last - first) < s->levels[j] * k) {                                                                   \
            for (int64_t p = first; p < last; p++) {                                                                   \
                const uint8_t v = code[rows[p]];                                                                       \
                touched[v >> 6] |= 1ull << (v & 63);                                                                   \
                table[v * k + label[p]] += amount[p];                                                                  \
            }                                                                                                          \
        } else {                                                                                                       \
            for (int64_t p = first; p < last; p++) table[code[rows[p]] * k + label[p]] += amount[p];                   \
            for (int64_t v = 0; v < s->levels[j]; v++) touched[v >> 6] |= 1ull << (v & 63);                            \
            touched[3] |= 1ull << 63;                                                                                  \
        }                                                                                                              \
        int64_t lines = 0;                                                                                             \
        for (int64_t word = 0; word < 4; word++)                                                                       \
            for (uint64_t bits = touched[word]; bits; bits &= bits - 1) {                                              \
                const int64_t v = 64 * word + __builtin_ctzll(bits);                                                   \
                NUMBER *restrict line = table + v * k;                                                                 \
                double *restrict cell = r->cells + lines * k;                                                          \
                NUMBER sum = 0;                                                                                        \
                for (int64_t c = 0; c < k; c++) {                                                                      \
                    sum += line[c];                                                                                    \
                    cell[c] = (double)line[c];                                                                         \
                    line[c] = 0;                                                                                       \
                }                                                                                                      \
                if (sum == 0 || v == UNSEEN) continue;                                                                 \
                r->value[lines] = (uint8_t)v;                                                                          \
                r->heavy[lines++] = (double)sum;                                                                       \
            }                                                                                                          \
        return lines;                                                                                                  \
    }

DEFINE_TALLY(tally_whole, int32_t, amount, whole_table)
DEFINE_TALLY(tally_real, double, part, real_table)

/* Where values lie along the direction in which their class shares differ most: the first principal component of the
   shares less their mean, weighted by the values' weights, by a few power iterations. Scores are whole numbers, the
   farthest from 0 being ±2^32, so that scores which differ only by rounding are equal. */
static void score_values(Room *r, int64_t lines, int64_t k, double weight) {
    double *restrict off = r->off, *restrict direction = r->direction, *restrict turned = r->left;
    const double *restrict heavy = r->heavy, *restrict total = r->by_class;
    double most = 0.0, farthest = 0.0;
    int64_t first = 0;
    for (int64_t v = 0; v < lines; v++) {
        double square = 0.0;
        for (int64_t c = 0; c < k; c++) {
            const double x = off[v * k + c] = r->cells[v * k + c] / heavy[v] - total[c] / weight;
            square += x * x;
        }
        if (heavy[v] * square > most * (1.0 + ROUNDING)) {
            most = heavy[v] * square;
            first = v;
        }
    }
    memcpy(direction, off + first * k, 8 * (size_t)k);
    for (int64_t turn = 0;; turn++) {
        for (int64_t v = 0; v < lines; v++) {
            r->score[v] = 0.0;
            for (int64_t c = 0; c < k; c++) r->score[v] += direction[c] * off[v * k + c];
        }
        if (turn == TURNS) break;
        double length = 0.0;
        memset(turned, 0, 8 * (size_t)k);
        for (int64_t v = 0; v < lines; v++)
            for (int64_t c = 0; c < k; c++) turned[c] += heavy[v] * r->score[v] * off[v * k + c];
        for (int64_t c = 0; c < k; c++) length += turned[c] * turned[c];
        if (!(length > 0.0)) break; /* all values have the same shares */
        length = sqrt(length);
        for (int64_t c = 0; c < k; c++) direction[c] = turned[c] / length;
    }
    for (int64_t v = 0; v < lines; v++) farthest = fmax(farthest, fabs(r->score[v]));
    for (int64_t v = 0; v < lines && farthest > 0.0; v++) r->score[v] = rint(r->score[v] / farthest * 0x1p32);
}

/* The best cut of the lines of `cells` in their ranks, stored in `best` if its gain is larger. */
static void try_column(const Sample *s, Room *r, int64_t j, int64_t lines, int64_t k, Split *best) {
    double *restrict left = r->left, *restrict right = r->right;
    double *restrict left_log = r->left_log, *restrict right_log = r->right_log, *restrict total = r->by_class;
    double weight = 0.0;
    memset(total, 0, 8 * (size_t)k);
    for (int64_t v = 0; v < lines; v++) {
        weight += r->heavy[v];
        r->rank[v] = (uint8_t)v;
        for (int64_t c = 0; c < k; c++) total[c] += r->cells[v * k + c];
    }
    const double least = s->least * (1.0 - RESIDUE); /* sums of parts may be smaller by rounding */
    if (weight < 2.0 * least) return;
    if (!s->ordered[j] && lines > 2) {
        if (k == 2) /* no other order has a better cut: entropy is concave */
            for (int64_t v = 0; v < lines; v++) r->score[v] = r->cells[2 * v + 1] / r->heavy[v];
        else
            score_values(r, lines, k, weight);
        for (int64_t v = 1; v < lines; v++) {
            const double score = r->score[v];
            int64_t at = v;
            for (; at > 0 && r->score[r->rank[at - 1]] > score; at--) r->rank[at] = r->rank[at - 1];
            r->rank[at] = (uint8_t)v;
        }
    }
    double left_sum = 0.0, right_sum = 0.0, left_weight = 0.0;
    for (int64_t c = 0; c < k; c++) {
        left[c] = left_log[c] = 0.0;
        right[c] = total[c];
        right_log[c] = n_log_n(s, total[c]);
        right_sum += right_log[c];
    }
    const double before = n_log_n(s, weight) - right_sum, tie = ROUNDING * weight * (1.0 + fabs(log(weight)));
    double gain = tie, gain_left = 0.0;
    int64_t at = -1;
    for (int64_t g = 0; g + 1 < lines; g++) {
        const double *restrict cell = r->cells + r->rank[g] * k;
        for (int64_t c = 0; c < k; c++) {
            if (cell[c] == 0.0) continue;
            left[c] += cell[c];
            right[c] -= cell[c];
            const double l = n_log_n(s, left[c]), h = n_log_n(s, right[c]);
            left_sum += l - left_log[c];
            right_sum += h - right_log[c];
            left_log[c] = l;
            right_log[c] = h;
        }
        left_weight += r->heavy[r->rank[g]];
        const double rest = weight - left_weight;
        if (left_weight < least || rest < least) continue;
        const double here = before - (n_log_n(s, left_weight) - left_sum) - (n_log_n(s, rest) - right_sum);
        if (here > gain + (at < 0 ? 0.0 : tie)) {
            gain = here;
            gain_left = left_weight;
            at = g;
        }
    }
    if (at < 0) return;
    if (best->column >= 0 && !(gain > best->gain + tie || (gain >= best->gain - tie && j < best->column))) return;
    best->gain = gain;
    best->column = (int32_t)j;
    best->left = gain_left;
    best->right = weight - gain_left;
    if (s->ordered[j]) { /* half-way to the next value that the node has; but missing (0) is close to no value */
        const int low = r->value[at], high = r->value[at + 1];
        best->cut = (uint8_t)(low == 0 ? 0 : (low + high) / 2);
        for (int v = 0; v < VALUES; v++) best->goes_left[v] = v <= best->cut;
    } else { /* values that the node does not have go where most rows do */
        best->cut = 0;
        memset(best->goes_left, best->left >= best->right, VALUES);
        for (int64_t g = 0; g < lines; g++) best->goes_left[r->value[r->rank[g]]] = g <= at;
    }
    best->goes_left[UNSEEN] = 0;
}

/* A tree on the first `many` of r->rows, whose labels are known and whose weights are positive. 0: memory ran out. */
static int grow_tree(const Sample *s, Room *r, int64_t many, uint64_t seed, uint64_t tree, Nodes *t) {
    uint64_t state = scrambled(seed + 0x9e3779b97f4a7c15ull * (tree + 1));
    Split best;
    int64_t waiting = 0;
    const int32_t root = leaf_added(t, -1);
    if (root < 0) return 0;
    for (int64_t j = 0; j < s->d; j++) r->columns[j] = (int32_t)j;
    r->pending[waiting++] = (Pending){root, 0, 0, many};
    while (waiting) {
        const Pending at = r->pending[--waiting];
        if (at.depth >= s->deepest || at.last - at.first < 2) continue;
        int64_t k = 0;
        memset(r->local, 0, 4 * (size_t)s->k);
        for (int64_t p = at.first; p < at.last; p++) r->local[r->label[p] = s->y[r->rows[p]]] = 1;
        for (int64_t c = 0; c < s->k; c++) /* the classes that the node has, counted from 0 */
            if (r->local[c]) r->local[c] = (int32_t)k++;
        if (k < 2) continue;
        for (int64_t p = at.first; p < at.last; p++) r->label[p] = r->local[r->label[p]];
        if (s->weight && s->whole)
            for (int64_t p = at.first; p < at.last; p++) r->amount[p] = (int32_t)s->weight[r->rows[p]];
        else if (s->weight)
            for (int64_t p = at.first; p < at.last; p++) r->part[p] = s->weight[r->rows[p]];

        best.column = -1;
        for (int64_t tried = 0; tried < s->d && (tried < s->tries || best.column < 0); tried++) {
            const int64_t chosen = tried + (int64_t)drawn(&state, (uint64_t)(s->d - tried));
            const int32_t j = r->columns[chosen];
            r->columns[chosen] = r->columns[tried];
            r->columns[tried] = j;
            const int64_t lines = s->whole ? tally_whole(s, r, j, at.first, at.last, k)
                                           : tally_real(s, r, j, at.first, at.last, k);
            if (lines > 1) try_column(s, r, j, lines, k, &best);
        }
        if (best.column < 0) continue;

        const uint8_t *restrict code = s->codes + best.column * s->n;
        int64_t left = at.first, right = 0;
        for (int64_t p = at.first; p < at.last; p++) { /* written to both sides; one side advances, or none */
            const int32_t row = r->rows[p];
            const uint8_t v = code[row];
            const int64_t goes = best.goes_left[v];
            r->rows[left] = row;
            r->aside[right] = row;
            left += goes;
            right += (v != UNSEEN) - goes;
        }
        memcpy(r->rows + left, r->aside, 4 * (size_t)right);
        const int32_t l = leaf_added(t, at.node), h = l < 0 ? -1 : leaf_added(t, at.node);
        if (h < 0) return 0;
        t->column[at.node] = best.column;
        t->left[at.node] = l;
        t->right[at.node] = h;
        t->cut[at.node] = best.cut;
        if (!s->ordered[best.column]) {
            uint64_t *const mask = t->mask + 4 * (int64_t)at.node;
            for (int v = 0; v < VALUES; v++) mask[v >> 6] |= (uint64_t)best.goes_left[v] << (v & 63);
        }
        r->pending[waiting++] = (Pending){h, at.depth + 1, left, left + right};
        r->pending[waiting++] = (Pending){l, at.depth + 1, at.first, left};
    }
    return 1;
}

/* Where rows end */

typedef struct {
    int64_t size, trees, d;
    const int32_t *column, *left, *right, *start;
    const uint8_t *cut, *ordered;
    const uint64_t *mask;
} Forest;

/* The node in which a row ends: a leaf, or the split that asks for a value that was never seen, since it is unknown which
   way it goes. Returns −1 − node at the first node whose column is not there or whose child is not after it in the tree. */
INLINE int64_t end_of_row(const Forest *f, const uint8_t *restrict row, int64_t node, int64_t end) {
    int64_t j;
    while ((j = f->column[node]) >= 0) {
        if (j >= f->d) return -1 - node;
        const uint8_t v = row[j];
        int goes_left;
        if (v == UNSEEN) break;
        if (f->ordered[j])
            goes_left = v <= f->cut[node];
        else
            goes_left = (int)(f->mask[4 * node + (v >> 6)] >> (v & 63)) & 1;
        const int64_t next = goes_left ? f->left[node] : f->right[node];
        if (next <= node || next >= end) return -1 - node;
        node = next;
    }
    return node;
}

/* The leaves of rows, block by block, so that a block's codes and a tree stay near. Returns −1, or a node that is wrong. */
static int64_t find_leaves(const Forest *f, const uint8_t *codes, int64_t n, int32_t *out, ptrdiff_t out_row,
                           ptrdiff_t out_tree) {
    for (int64_t from = 0; from < n; from += BLOCK) {
        const int64_t to = from + BLOCK < n ? from + BLOCK : n;
        for (int64_t t = 0; t < f->trees; t++)
            for (int64_t i = from; i < to; i++) {
                const int64_t node = end_of_row(f, codes + i * f->d, f->start[t], f->start[t + 1]);
                if (node < 0) return -1 - node;
                out[i * out_row + t * out_tree] = (int32_t)node;
            }
    }
    return -1;
}

/* out (n, k) += the values of the nodes in which rows end, one in each tree. Returns the same. */
static int64_t sum_values(const Forest *f, const uint8_t *codes, int64_t n, const double *values, int64_t k,
                          double *out) {
    for (int64_t from = 0; from < n; from += BLOCK) {
        const int64_t to = from + BLOCK < n ? from + BLOCK : n;
        for (int64_t t = 0; t < f->trees; t++)
            for (int64_t i = from; i < to; i++) {
                const int64_t node = end_of_row(f, codes + i * f->d, f->start[t], f->start[t + 1]);
                if (node < 0) return -1 - node;
                const double *restrict v = values + node * k;
                double *restrict o = out + i * k;
                for (int64_t c = 0; c < k; c++) o[c] += v[c];
            }
    }
    return -1;
}

/* Evidence of leaves */

typedef struct {
    int64_t size, k;
    const int32_t *parent;
    const double *counts, *prior; /* (size, k) and (k,) */
    double strength;
} Law;

INLINE double summed(const double *x, int64_t k) {
    double sum = 0.0;
    for (int64_t c = 0; c < k; c++) sum += x[c];
    return sum;
}

INLINE double logarithm(double p) { return log(p > DBL_MIN ? p : DBL_MIN); } /* below it, p has lost precision */

/* P(class given node) for all nodes, parents before children. Returns the first node whose parent is not before it. */
CLONES static int64_t back_off(const Law *law, double *restrict p) {
    const int64_t k = law->k;
    for (int64_t node = 0; node < law->size; node++) {
        const int64_t parent = law->parent[node];
        if (parent >= node || parent < -1) return node;
        const double *above = parent < 0 ? law->prior : p + parent * k, *restrict own = law->counts + node * k;
        const double one = 1.0 / (summed(own, k) + law->strength);
        for (int64_t c = 0; c < k; c++) p[node * k + c] = (own[c] + law->strength * above[c]) * one;
    }
    return -1;
}

typedef struct { /* what the prior is without a row: `scale` times that of all, and `own` of the row's own class */
    double scale, own;
} Without;

/* The same for one leaf, with a row of class `own` (−1: none) and weight `taken` removed from its path, on the way up:
   p = Σ_path C_node/(N_node + s) · Π_below s/(N + s), and π at the end. 0: a parent is not before its child. */
INLINE int back_off_path(const Law *law, const double *total, int64_t node, int32_t own, double taken,
                         const Without *prior, double *restrict p) {
    const int64_t k = law->k;
    double share = 1.0, mine = 0.0; /* its own class separately: a small rest of a large sum */
    for (int64_t c = 0; c < k; c++) p[c] = 0.0;
    while (node >= 0) {
        const double *restrict line = law->counts + node * k;
        double removed = 0.0;
        if (own >= 0) removed = line[own] - taken > RESIDUE * line[own] ? taken : line[own];
        const double here = share / ((total ? total[node] : summed(line, k)) - removed + law->strength);
        for (int64_t c = 0; c < k; c++) p[c] += here * line[c];
        if (own >= 0) mine += here * (line[own] - removed);
        share = here * law->strength;
        const int64_t parent = law->parent[node];
        if (parent >= node || parent < -1) return 0;
        node = parent;
    }
    for (int64_t c = 0; c < k; c++) p[c] += share * prior->scale * law->prior[c];
    if (own >= 0) p[own] = mine + share * prior->own;
    return 1;
}

typedef struct {
    const int32_t *leaf, *own;
    const uint8_t *member;
    const double *weight, *table, *total;
    double prior_rows; /* how many rows the prior is the shares of; 0: it is fixed */
    ptrdiff_t leaf_row, leaf_tree, member_row, member_tree, out_row;
    int64_t n, trees;
    int geometric;
} Asked;

/* The prior without a row; 0 if nothing is left of it. */
INLINE int prior_without(const Law *law, const Asked *a, int32_t own, double taken, Without *out) {
    *out = (Without){1.0, own < 0 ? 0.0 : law->prior[own]};
    if (own < 0 || !(a->prior_rows > 0.0)) return 1;
    const double before = law->prior[own] * a->prior_rows, left = before - taken > RESIDUE * before ? before - taken : 0.0;
    const double rest = a->prior_rows - before + left;
    if (!(rest > RESIDUE * a->prior_rows)) return 0;
    *out = (Without){a->prior_rows / rest, left / rest};
    return 1;
}

/* product *= p for every class. A logarithm is taken only of a product that would leave the range. */
INLINE void multiply(const double *restrict p, int64_t k, double *restrict product, double *restrict next,
                     double *restrict sum) {
    const double least = 1e-150; /* two such numbers multiplied are still above the smallest double */
    int64_t small = 0;
    for (int64_t c = 0; c < k; c++) {
        next[c] = product[c] * p[c];
        small |= next[c] < least;
    }
    for (int64_t c = 0; c < k && small; c++)
        if (p[c] < least) {
            sum[c] += logarithm(p[c]);
            next[c] = product[c];
        } else if (next[c] < least) {
            sum[c] += log(next[c]);
            next[c] = 1.0;
        }
    memcpy(product, next, 8 * (size_t)k);
}

/* See evidence(). Returns −1, or row · trees + tree of a leaf that does not exist. `room` is (5, k + LANES). */
CLONES static int64_t evidence_rows(const Law *law, const Asked *a, double *room, double *out) {
    const int64_t k = law->k, wide = k + LANES;
    double *restrict p = room, *restrict sum = room + wide, *restrict product = sum + wide;
    double *restrict next = product + wide, *restrict log_prior = next + wide;
    for (int64_t c = 0; c < k; c++) log_prior[c] = logarithm(law->prior[c]);
    for (int64_t i = 0; i < a->n; i++) {
        const int32_t own = a->own ? a->own[i] : -1;
        const double taken = own < 0 ? 0.0 : a->weight ? a->weight[i] : 1.0;
        double *restrict o = out + i * a->out_row;
        int64_t used = 0;
        Without prior;
        const int some = prior_without(law, a, own, taken, &prior);
        for (int64_t c = 0; c < wide; c++) {
            sum[c] = 0.0;
            product[c] = 1.0;
        }
        for (int64_t t = 0; t < a->trees; t++) {
            if (a->member && a->member[i * a->member_row + t * a->member_tree]) continue;
            const int64_t leaf = a->leaf[i * a->leaf_row + t * a->leaf_tree];
            if (leaf < 0 || leaf >= law->size) return i * a->trees + t;
            const double *restrict leaf_p = p;
            if (own < 0 && a->table)
                leaf_p = a->table + leaf * k;
            else if (!back_off_path(law, a->total, leaf, own, taken, &prior, p))
                return i * a->trees + t;
            used++;
            if (a->geometric)
                multiply(leaf_p, k, product, next, sum);
            else
                for (int64_t c = 0; c < k; c++) sum[c] += leaf_p[c];
        }
        if (!used || !some) {
            for (int64_t c = 0; c < k; c++) o[c] = 0.0;
            continue;
        }
        const double one = 1.0 / (double)used, shift = log(prior.scale);
        for (int64_t c = 0; c < k; c += LANES) {
            const lanes mean = FROM(sum + c) * one, least = ZERO + DBL_MIN;
            if (a->geometric)
                AT(next + c) = mean + log_lanes(FROM(product + c)) * one;
            else
                AT(next + c) = log_lanes(GREATER(mean, least));
        }
        for (int64_t c = 0; c < k; c++) o[c] = law->prior[c] > 0.0 ? next[c] - log_prior[c] - shift : 0.0;
        if (own >= 0) o[own] = prior.own > 0.0 ? next[own] - logarithm(prior.own) : 0.0;
    }
    return -1;
}

#endif
