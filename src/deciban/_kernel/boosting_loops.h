/* Small trees grown one after the other, each on what the ones before it leave unexplained.

   Scores of a row are its log joint by class and the sum of the leaf values so far. A round takes the gradient of the log
   loss at these scores in one direction over the classes, grows a tree by it, and gives every node a value for each
   class, a Newton step with a ridge:

       v_c = η Σ_i w_i (1[y_i = c] − p_ic) / (Σ_i w_i p_ic (1 − p_ic) + λ),   less its mean over the classes

   Rows that the trees are not grown on are carried along, so that the loss on them is known after every round.

   Rows are numbered again: first those that trees grow on. Their posteriors are kept instead of the scores, and lie side
   by side, as many for each row as fill whole vectors. Rows pass through a tree in ascending order. Splits are compared
   by sums of whole numbers: gradients and curvatures in units of 2⁻³⁰ of the sums over all rows. Such sums are exact in
   any order, so a node's are those of its parent less those of its sibling. */
#ifndef DECIBAN_BOOSTING_LOOPS_H
#define DECIBAN_BOOSTING_LOOPS_H

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lanes.h"

enum { UNSEEN = 255, VALUES = 256, MAX_NODES = 255, AHEAD = 8, MAX_HELD = 3 * LANES, TOGETHER = 4 };

static const double LEAST = 1e-300, UNITS = 0x1p30; /* the least probability; units of a sum over all rows */

/* A row in a node: its gradient, its curvature, 1, and its number. A cell of a table is what rows with the same value of
   a column add up to; the sum of their numbers means nothing. */
typedef int32_t Whole __attribute__((vector_size(16), may_alias));
enum { GRADIENT, CURVATURE, COUNT, ROW };

typedef struct {
    int64_t n, d, k, stride, cells; /* a row has `stride` scores, a multiple of LANES */
    const uint8_t *codes;           /* (d, n) */
    const int32_t *levels, *y;
    const uint8_t *ordered;
    const int64_t *offsets; /* (d + 1,) where each column's cells begin */
    const double *weight;   /* (n,) or NULL */
    int64_t max_leaves, max_depth, min_rows;
    double ridge, smoothing;
} Table;

typedef struct {
    int32_t column, left, right, parent, depth;
    uint8_t cut;
    uint64_t mask[4];      /* the values that go left */
    int64_t first, last;   /* its rows that trees grow on: left ones, right ones, and those that stop here */
    int64_t from, to;      /* its other rows */
    int64_t slot;          /* its cells */
    double gain;           /* of its best split, which is: */
    int32_t best_column;
    uint8_t best_cut;
    uint64_t best_mask[4];
} Node;

typedef struct {
    int64_t used, others;
    Whole *rows, *aside;
    int32_t *other, *other_aside;
    double *p;      /* (n, stride) posteriors by the trees so far */
    double *g, *h;  /* (used,) gradients and curvatures in the direction of this round */
    double unit[2]; /* of gradients and of curvatures */
    Whole *cells;   /* (max_leaves, cells) */
    Node *nodes;    /* (2 max_leaves − 1,) */
    double *sums;   /* (nodes, SUMS, stride) */
    double *direction, *factor; /* (stride,) */
    uint64_t state;
} Growth;

static inline uint64_t next_bits(uint64_t *state) { /* splitmix64 */
    uint64_t x = (*state += 0x9e3779b97f4a7c15ull);
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

static double next_normal(uint64_t *state) { /* Box and Muller */
    const double u = ((double)(next_bits(state) >> 11) + 0.5) * 0x1p-53, v = (double)(next_bits(state) >> 11) * 0x1p-53;
    return sqrt(-2.0 * log(u)) * cos(6.283185307179586 * v);
}

static void draw_direction(const Table *t, Growth *r) {
    if (t->k == 2)
        r->direction[1] = 1.0;
    else
        for (int64_t c = 0; c < t->k; c++) r->direction[c] = next_normal(&r->state);
}

/* The posterior of a row by its scores. */
INLINE void posterior(double *restrict p, int64_t k, int64_t stride) {
    double top = p[0];
    lanes sum = ZERO;
    for (int64_t c = 1; c < k; c++) top = p[c] > top ? p[c] : top;
    for (int64_t c = 0; c < stride; c += LANES) sum += AT(p + c) = exp_lanes(FROM(p + c) - top);
    const double one = 1.0 / TOTAL(sum);
    for (int64_t c = 0; c < stride; c += LANES) AT(p + c) = FROM(p + c) * one + LEAST;
}

/* What posteriors are multiplied by if scores move by v: exp(v − the greatest of them). There are none behind the k-th. */
INLINE void factors(const double *v, int64_t k, int64_t stride, double *factor) {
    double top = v[0];
    for (int64_t c = 1; c < k; c++) top = v[c] > top ? v[c] : top;
    for (int64_t c = 0; c < stride; c += LANES) AT(factor + c) = exp_lanes(FROM(v + c) - top);
    for (int64_t c = k; c < stride; c++) factor[c] = 0.0;
}

/* A posterior times factors, to the sum 1 again, is that by the scores after a step; exp is not needed for each row. As no
   class ever has less than LEAST, the sum is positive, whatever was ruled out before. */
INLINE void multiply(double *restrict p, const double *restrict factor, lanes *restrict own, int64_t stride) {
    lanes sum = ZERO;
    for (int64_t c = 0; c < stride / LANES; c++) sum += own[c] = FROM(p + LANES * c) * FROM(factor + LANES * c);
    const double one = 1.0 / TOTAL(sum);
    for (int64_t c = 0; c < stride / LANES; c++) AT(p + LANES * c) = own[c] = own[c] * one + LEAST;
}

/* The gradient and the curvature of a row with posterior p, in the direction of this round. */
INLINE void bend(const Table *t, Growth *r, int64_t row, const lanes *restrict p, int64_t stride) {
    const double *restrict u = r->direction, w = t->weight ? t->weight[row] : 1.0;
    lanes along = ZERO, bent = ZERO;
    for (int64_t c = 0; c < stride / LANES; c++) {
        along += FROM(u + LANES * c) * p[c];
        bent += p[c] * (1.0 - p[c]);
    }
    r->g[row] = w * (u[t->y[row]] - TOTAL(along));
    r->h[row] = w * (t->k == 2 ? 0.5 * TOTAL(bent) : TOTAL(bent));
}

/* The rows that trees grow on, in order, with their gradients and curvatures in units of this round. */
CLONES static void list_rows(const Table *t, Growth *r) {
    double total[2] = {0.0, 0.0}, per[2];
    for (int64_t i = 0; i < r->used; i++) {
        total[0] += fabs(r->g[i]);
        total[1] += r->h[i];
    }
    for (int s = 0; s < 2; s++) {
        r->unit[s] = total[s] / UNITS;
        per[s] = r->unit[s] > 0.0 ? 1.0 / r->unit[s] : 0.0;
    }
    for (int64_t i = 0; i < r->used; i++)
        r->rows[i] = (Whole){(int32_t)lrint(r->g[i] * per[0]), (int32_t)lrint(r->h[i] * per[1]), 1, (int32_t)i};
}

/* The cells of rows first..last, of some columns at once: rows in a row often have the same value, and sums that wait for
   each other take longer. */
INLINE void tally_columns(const Table *t, const Whole *restrict rows, int64_t first, int64_t last, int64_t j, int some,
                          Whole *cells) {
    const uint8_t *code[TOGETHER];
    Whole *own[TOGETHER];
    for (int s = 0; s < some; s++) {
        code[s] = t->codes + (j + s) * t->n;
        own[s] = cells + t->offsets[j + s];
    }
    for (int64_t i = first; i < last; i++) {
        const Whole row = rows[i];
        for (int s = 0; s < some; s++) own[s][code[s][row[ROW]]] += row;
    }
}

static void tally(const Table *t, const Whole *restrict rows, int64_t first, int64_t last, Whole *cells) {
    int64_t j = 0;
    memset(cells, 0, sizeof(Whole) * (size_t)t->cells);
    for (; j + TOGETHER <= t->d; j += TOGETHER) tally_columns(t, rows, first, last, j, TOGETHER, cells);
    if (t->d - j == 3) tally_columns(t, rows, first, last, j, 3, cells);
    if (t->d - j == 2) tally_columns(t, rows, first, last, j, 2, cells);
    if (t->d - j == 1) tally_columns(t, rows, first, last, j, 1, cells);
}

/* The best split of a node by its cells, if one gains anything. A value that was never seen goes to neither side. */
static void find_split(const Table *t, const Growth *r, const Whole *cells, Node *node) {
    const double unit_g = r->unit[0], unit_h = r->unit[1];
    double key[VALUES];
    uint8_t order[VALUES];
    node->best_column = -1;
    node->gain = 0.0;
    for (int64_t j = 0; j < t->d; j++) {
        const Whole *restrict own = cells + t->offsets[j];
        const int64_t levels = t->levels[j];
        int64_t known = 0;
        Whole all = {0, 0, 0, 0};
        for (int64_t v = 0; v < levels; v++) {
            all += own[v];
            order[known] = (uint8_t)v;
            known += own[v][COUNT] > 0;
        }
        const int64_t all_n = all[COUNT];
        if (known < 2 || all_n < 2 * t->min_rows) continue;
        if (!t->ordered[j])
            for (int64_t i = 0; i < known; i++) { /* by gradient; rare values towards the middle */
                const uint8_t v = order[i];
                const double mine = unit_g * own[v][GRADIENT] / (unit_h * own[v][CURVATURE] + t->smoothing);
                int64_t at = i;
                for (; at > 0 && key[at - 1] > mine; at--) {
                    key[at] = key[at - 1];
                    order[at] = order[at - 1];
                }
                key[at] = mine;
                order[at] = v;
            }
        const double all_g = unit_g * all[GRADIENT], all_h = unit_h * all[CURVATURE];
        const double before = all_g * all_g / (all_h + t->ridge);
        Whole left = {0, 0, 0, 0};
        int64_t best = -1;
        for (int64_t i = 0; i + 1 < known; i++) {
            left += own[order[i]];
            if (left[COUNT] < t->min_rows) continue;
            if (all_n - left[COUNT] < t->min_rows) break;
            const double left_g = unit_g * left[GRADIENT], left_h = unit_h * left[CURVATURE];
            const double right_g = all_g - left_g, right_h = all_h - left_h;
            const double low = left_h + t->ridge, high = right_h + t->ridge;
            const double both = left_g * left_g * high + right_g * right_g * low; /* a division only for a better one */
            if (both > (node->gain + before) * (low * high)) {
                node->gain = both / (low * high) - before;
                best = i;
            }
        }
        if (best < 0) continue;
        node->best_column = (int32_t)j;
        memset(node->best_mask, 0, 32);
        if (t->ordered[j]) { /* half-way to the next value that the node has; but a missing value (0) is near to none */
            const int low = order[best], high = order[best + 1];
            node->best_cut = (uint8_t)(low == 0 ? 0 : (low + high) / 2);
            for (int v = 0; v <= node->best_cut; v++) node->best_mask[v >> 6] |= 1ull << (v & 63);
        } else { /* values that the node does not have go where most rows do */
            int64_t left_rows = 0;
            node->best_cut = 0;
            for (int64_t i = 0; i <= best; i++) left_rows += own[order[i]][COUNT];
            if (2 * left_rows >= all_n) memset(node->best_mask, 255, 32);
            for (int64_t i = 0; i < known; i++) {
                const uint64_t bit = 1ull << (order[i] & 63);
                if (i <= best)
                    node->best_mask[order[i] >> 6] |= bit;
                else
                    node->best_mask[order[i] >> 6] &= ~bit;
            }
            node->best_mask[3] &= ~(1ull << 63);
        }
    }
}

/* Rows first..last of a node to the left, to the right, and last those whose value was never seen, each in their order.
   Returns where the right ones begin, and through `end` where they end. Every row is written to three places, and one of
   these advances: which one is hard to predict. */
#define DEFINE_DIVIDE(NAME, ENTRY, NUMBER)                                                                             \
    static int64_t NAME(const uint8_t *restrict code, const uint64_t *mask, ENTRY *rows, ENTRY *restrict aside,        \
                        int64_t first, int64_t last, int64_t *end) {                                                   \
        int64_t left = first, right = 0, stay = 0;                                                                     \
        for (int64_t i = first; i < last; i++) {                                                                       \
            const ENTRY row = rows[i];                                                                                 \
            const uint8_t v = code[NUMBER(row)];                                                                       \
            const int64_t goes = (int64_t)(mask[v >> 6] >> (v & 63)) & 1, stays = v == UNSEEN;                         \
            rows[left] = row;                                                                                          \
            aside[right] = row;                                                                                        \
            left += goes;                                                                                              \
            right += 1 - goes;                                                                                         \
            stay += stays;                                                                                             \
        }                                                                                                              \
        int64_t at = left;                                                                                             \
        *end = left + right - stay;                                                                                    \
        if (!stay)                                                                                                     \
            memcpy(rows + left, aside, sizeof(ENTRY) * (size_t)right);                                                 \
        else                                                                                                           \
            for (int last_ones = 0; last_ones < 2; last_ones++)                                                        \
                for (int64_t i = 0; i < right; i++)                                                                    \
                    if ((code[NUMBER(aside[i])] == UNSEEN) == last_ones) rows[at++] = aside[i];                        \
        return left;                                                                                                   \
    }
#define NUMBER_OF_ENTRY(row) (row)[ROW]
#define NUMBER_ITSELF(row) (row)

DEFINE_DIVIDE(divide_used, Whole, NUMBER_OF_ENTRY)
DEFINE_DIVIDE(divide_others, int32_t, NUMBER_ITSELF)

/* A tree, the split of the greatest gain first. Returns the number of its nodes; children come after parents. */
static int64_t grow_small_tree(const Table *t, Growth *r) {
    Node *nodes = r->nodes;
    int64_t size = 1, leaves = 1;
    memset(nodes, 0, sizeof(Node));
    nodes[0].column = nodes[0].left = nodes[0].right = nodes[0].parent = -1;
    nodes[0].last = r->used;
    nodes[0].to = r->others;
    list_rows(t, r);
    for (int64_t i = 0; i < r->others; i++) r->other[i] = (int32_t)(r->used + i);
    tally(t, r->rows, 0, r->used, r->cells);
    find_split(t, r, r->cells, nodes);
    while (leaves < t->max_leaves) {
        int64_t at = -1;
        for (int64_t i = 0; i < size; i++)
            if (nodes[i].column < 0 && nodes[i].best_column >= 0 && (at < 0 || nodes[i].gain > nodes[at].gain)) at = i;
        if (at < 0) break;
        Node *node = nodes + at, *left = nodes + size, *right = left + 1;
        memset(left, 0, 2 * sizeof(Node));
        node->column = node->best_column;
        node->cut = node->best_cut;
        memcpy(node->mask, node->best_mask, 32);
        node->left = (int32_t)size;
        node->right = (int32_t)size + 1;
        left->column = left->left = left->right = right->column = right->left = right->right = -1;
        left->parent = right->parent = (int32_t)at;
        left->depth = right->depth = node->depth + 1;
        left->best_column = right->best_column = -1;
        size += 2;
        const uint8_t *const code = t->codes + (int64_t)node->column * t->n;
        left->first = node->first;
        left->last = right->first =
            divide_used(code, node->mask, r->rows, r->aside, node->first, node->last, &right->last);
        left->from = node->from;
        left->to = right->from =
            divide_others(code, node->mask, r->other, r->other_aside, node->from, node->to, &right->to);
        Node *small = left->last - left->first <= right->last - right->first ? left : right;
        Node *large = small == left ? right : left;
        large->slot = node->slot;
        small->slot = leaves++;
        if (leaves == t->max_leaves || left->depth >= t->max_depth) continue;
        Whole *restrict whole = r->cells + large->slot * t->cells, *restrict part = r->cells + small->slot * t->cells;
        tally(t, r->rows, small->first, small->last, part);
        if (right->last == node->last)
            for (int64_t v = 0; v < t->cells; v++) whole[v] -= part[v];
        else /* some rows stopped at the node */
            tally(t, r->rows, large->first, large->last, whole);
        find_split(t, r, part, small);
        find_split(t, r, whole, large);
    }
    return size;
}

/* Where the rows begin that stop at a node: all rows of a leaf; else those whose value was never seen. */
INLINE int64_t first_to_stop(const Growth *r, const Node *node) {
    return node->column < 0 ? node->first : r->nodes[node->right].last;
}

/* The sums of a node: of posteriors p, of curvatures p (1 − p) and of the rows of each class. A class of a row is counted
   apart, since a vector cannot be read as soon as one of its numbers is written. */
enum { POSTERIORS, CURVATURES, ROWS, SUMS };

INLINE void add_row(const lanes *restrict p, int32_t y, double w, lanes *restrict down, lanes *restrict bent,
                    double *restrict rows, int64_t stride) {
    for (int64_t c = 0; c < stride / LANES; c++) {
        const lanes amount = w * p[c];
        down[c] += amount;
        bent[c] += amount * (1.0 - p[c]);
    }
    rows[y] += w;
}

/* The value of a node, a share of a Newton step by its sums, less the mean over the classes; and the sums of its parent,
   of which they are a part. */
INLINE void newton_step(const double *restrict sums, int64_t k, int64_t stride, double rate, double ridge,
                        double *restrict v, double *restrict up) {
    const double *restrict down = sums + POSTERIORS * stride, *restrict bent = sums + CURVATURES * stride;
    const double *restrict rows = sums + ROWS * stride;
    double mean = 0.0;
    memset(v, 0, 8 * (size_t)stride);
    for (int64_t c = 0; c < k; c++) mean += v[c] = rate * (rows[c] - down[c]) / (bent[c] + ridge);
    mean /= (double)k;
    for (int64_t c = 0; c < k; c++) v[c] -= mean;
    if (up)
        for (int64_t c = 0; c < SUMS * stride; c++) up[c] += sums[c];
}

/* The sums of the rows that stop at node u. */
INLINE void add_rows(const Table *t, Growth *r, int64_t u, int64_t stride) {
    const Node *node = r->nodes + u;
    double *const sums = r->sums + SUMS * u * stride;
    lanes held[2 * MAX_HELD / LANES] = {ZERO};
    lanes *const down = stride <= MAX_HELD ? held : (lanes *)sums, *const bent = down + stride / LANES;
    for (int64_t i = first_to_stop(r, node); i < node->last; i++) {
        const int64_t row = r->rows[i][ROW];
        FETCH(r->p + r->rows[i + AHEAD < node->last ? i + AHEAD : i][ROW] * stride);
        add_row((const lanes *)(r->p + row * stride), t->y[row], t->weight ? t->weight[row] : 1.0, down, bent,
                sums + ROWS * stride, stride);
    }
    if (down == held)
        for (int64_t c = 0; c < 2 * stride / LANES; c++) AT(sums + LANES * c) += held[c];
}

/* Values of all nodes, (size, stride), at a rate, and the posteriors of the rows that they move. A row's node is a leaf, or
   one where its value was never seen: it is noted. Its posteriors are read twice, the second time from nearby. */
INLINE void move_rows(const Table *t, Growth *r, int64_t size, double rate, double *values, uint8_t *leaf, int64_t stride) {
    lanes held[MAX_HELD / LANES];
    memset(r->sums, 0, 8 * SUMS * (size_t)(size * stride));
    for (int64_t u = size - 1; u >= 0; u--) {
        const Node *node = r->nodes + u;
        double *const v = values + u * stride, *const sums = r->sums + SUMS * u * stride;
        add_rows(t, r, u, stride);
        newton_step(sums, t->k, stride, rate, t->ridge, v, node->parent < 0 ? NULL : r->sums + SUMS * node->parent * stride);
        factors(v, t->k, stride, r->factor);
        for (int64_t i = first_to_stop(r, node); i < node->last; i++) {
            const int64_t row = r->rows[i][ROW];
            double *const p = r->p + row * stride;
            lanes *const own = stride <= MAX_HELD ? held : (lanes *)p;
            multiply(p, r->factor, own, stride);
            bend(t, r, row, own, stride);
            leaf[row] = (uint8_t)u;
        }
        for (int64_t i = node->column < 0 ? node->from : r->nodes[node->right].to; i < node->to; i++) {
            double *const p = r->p + r->other[i] * stride;
            FETCH(r->p + r->other[i + AHEAD < node->to ? i + AHEAD : i] * stride);
            multiply(p, r->factor, stride <= MAX_HELD ? held : (lanes *)p, stride);
            leaf[r->other[i]] = (uint8_t)u;
        }
    }
}

/* The loss of the rows that trees do not grow on. */
static double loss_of_others(const Table *t, const Growth *r) {
    double loss = 0.0;
    for (int64_t row = r->used; row < t->n; row++)
        loss -= (t->weight ? t->weight[row] : 1.0) * log(r->p[row * t->stride + t->y[row]]);
    return loss;
}

CLONES static void end_round(const Table *t, Growth *r, int64_t size, double rate, double *values, uint8_t *leaf) {
    draw_direction(t, r);
    if (t->stride == LANES) /* known to the compiler, few numbers stay in registers */
        move_rows(t, r, size, rate, values, leaf, LANES);
    else if (t->stride == 2 * LANES)
        move_rows(t, r, size, rate, values, leaf, 2 * LANES);
    else if (t->stride == 3 * LANES)
        move_rows(t, r, size, rate, values, leaf, 3 * LANES);
    else
        move_rows(t, r, size, rate, values, leaf, t->stride);
}

/* Before the first round `p` has the scores of all rows. */
CLONES static void begin_rounds(const Table *t, Growth *r) {
    for (int64_t row = 0; row < t->n; row++) posterior(r->p + row * t->stride, t->k, t->stride);
    draw_direction(t, r);
    for (int64_t row = 0; row < r->used; row++) bend(t, r, row, (const lanes *)(r->p + row * t->stride), t->stride);
}

/* The rows that values of trees are fitted on again. */
typedef struct {
    int64_t n, k, stride;
    const int32_t *y;
    double *weight; /* (n,) */
    double *p;      /* (n, stride) posteriors, without the step of the last tree */
    double *sums;   /* (nodes, SUMS, stride), for the largest tree */
    double *factor; /* (nodes, stride), of the last tree, for the largest one */
} Refit;

CLONES static void begin_refit(const Refit *r) {
    for (int64_t i = 0; i < r->n; i++) posterior(r->p + i * r->stride, r->k, r->stride);
    for (int64_t c = 0; c < MAX_NODES * r->stride; c++) r->factor[c] = 1.0;
}

INLINE void add_kept(const Refit *r, const uint8_t *restrict before, const uint8_t *restrict leaf, int64_t stride) {
    lanes held[MAX_HELD / LANES];
    for (int64_t i = 0; i < r->n; i++) {
        double *const p = r->p + i * stride, *const sums = r->sums + SUMS * leaf[i] * stride;
        lanes *const own = stride <= MAX_HELD ? held : (lanes *)p;
        multiply(p, r->factor + before[i] * stride, own, stride);
        add_row(own, r->y[i], r->weight[i], (lanes *)(sums + POSTERIORS * stride), (lanes *)(sums + CURVATURES * stride),
                sums + ROWS * stride, stride);
    }
}

/* A Newton step of the values (size, k) of a tree in which row i ends at leaf[i]; at before[i] in the one before, whose
   step is taken in the same pass. */
CLONES static void refit_tree(const Refit *r, const uint8_t *before, const uint8_t *leaf, const int32_t *parent,
                              int64_t size, double rate, double ridge, double *values) {
    const int64_t k = r->k, stride = r->stride;
    memset(r->sums, 0, 8 * SUMS * (size_t)(size * stride));
    if (stride == LANES)
        add_kept(r, before, leaf, LANES);
    else if (stride == 2 * LANES)
        add_kept(r, before, leaf, 2 * LANES);
    else if (stride == 3 * LANES)
        add_kept(r, before, leaf, 3 * LANES);
    else
        add_kept(r, before, leaf, stride);
    for (int64_t u = size - 1; u >= 0; u--) { /* children come after parents */
        double *const v = r->factor + u * stride;
        newton_step(r->sums + SUMS * u * stride, k, stride, rate, ridge, v,
                    parent[u] < 0 ? NULL : r->sums + SUMS * parent[u] * stride);
        for (int64_t c = 0; c < k; c++) values[u * k + c] += v[c];
        factors(v, k, stride, v);
    }
}

#endif
