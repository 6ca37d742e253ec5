/* Small trees grown one after the other, each on what the ones before it leave unexplained.

   Scores of a row are base + S, its log joint by class and the sum of the leaf values so far. A round takes the gradient
   of the log loss at these scores in one direction over the classes, grows a tree by it, and gives every node a value for
   each class, a Newton step with a ridge:

       v_c = η Σ_i w_i (1[y_i = c] − p_ic) / (Σ_i w_i p_ic (1 − p_ic) + λ),   less its mean over the classes

   Rows that the trees are not grown on are carried along, so that the loss on them is known after every round. */
#ifndef DECIBAN_BOOSTING_LOOPS_H
#define DECIBAN_BOOSTING_LOOPS_H

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { UNSEEN = 255, VALUES = 256 };

typedef struct { /* a row in a node, with its gradient and curvature */
    int32_t row;
    float g, h;
} Entry;

typedef struct { /* what the rows of a node with one value of a column add up to */
    double g, h;
    int64_t n;
} Cell;

typedef struct {
    int64_t n, d, k, cells;
    const uint8_t *codes; /* (d, n) */
    const int32_t *levels, *y;
    const uint8_t *ordered;
    const int64_t *offsets;      /* (d + 1,) where each column's cells begin */
    const double *weight, *base; /* (n,) or NULL; (n, k) */
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
    Entry *rows, *aside;
    int32_t *other, *other_aside;
    double *S, *p; /* (n, k) */
    Cell *cells;   /* (max_leaves, cells) */
    Node *nodes;   /* (2 max_leaves − 1,) */
    double *sums;  /* (nodes, 2, k) */
    double *direction;
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

/* p = softmax(base + S) of a row; returns the log of the normaliser. */
static inline double softmax_row(const double *restrict base, const double *restrict S, double *restrict p, int64_t k) {
    double top = -INFINITY, sum = 0.0;
    for (int64_t c = 0; c < k; c++) {
        p[c] = base[c] + S[c];
        top = p[c] > top ? p[c] : top;
    }
    for (int64_t c = 0; c < k; c++) sum += p[c] = exp(p[c] - top);
    const double one = 1.0 / sum;
    for (int64_t c = 0; c < k; c++) p[c] *= one;
    return log(sum) + top;
}

/* The gradient and curvature of every row that trees grow on, in the direction of this round. */
static void take_gradients(const Table *t, Growth *r) {
    const int64_t k = t->k;
    double *restrict u = r->direction;
    if (k == 2) {
        u[0] = 0.0;
        u[1] = 1.0;
    } else
        for (int64_t c = 0; c < k; c++) u[c] = next_normal(&r->state);
    for (int64_t i = 0; i < r->used; i++) {
        const int64_t row = r->rows[i].row;
        double *restrict p = r->p + row * k;
        const double w = t->weight ? t->weight[row] : 1.0;
        double g = u[t->y[row]], h = 0.0;
        softmax_row(t->base + row * k, r->S + row * k, p, k);
        for (int64_t c = 0; c < k; c++) {
            g -= u[c] * p[c];
            h += p[c] * (1.0 - p[c]);
        }
        r->rows[i].g = (float)(w * g);
        r->rows[i].h = (float)(w * (k == 2 ? 0.5 * h : h));
    }
}

static void tally(const Table *t, const Entry *restrict rows, int64_t first, int64_t last, Cell *cells) {
    memset(cells, 0, sizeof(Cell) * (size_t)t->cells);
    for (int64_t j = 0; j < t->d; j++) {
        const uint8_t *restrict code = t->codes + j * t->n;
        Cell *restrict own = cells + t->offsets[j];
        for (int64_t i = first; i < last; i++) {
            Cell *restrict at = own + code[rows[i].row];
            at->g += (double)rows[i].g;
            at->h += (double)rows[i].h;
            at->n++;
        }
    }
}

/* The best split of a node by its cells, if one gains anything. A value that was never seen goes to neither side. */
static void find_split(const Table *t, const Cell *cells, Node *node) {
    double all_g = 0.0, all_h = 0.0, key[VALUES];
    uint8_t order[VALUES];
    node->best_column = -1;
    node->gain = 0.0;
    for (int64_t j = 0; j < t->d; j++) {
        const Cell *restrict own = cells + t->offsets[j];
        const int64_t levels = t->levels[j];
        int64_t all_n = 0, known = 0;
        all_g = all_h = 0.0;
        for (int64_t v = 0; v < levels; v++)
            if (own[v].n) {
                all_g += own[v].g;
                all_h += own[v].h;
                all_n += own[v].n;
                order[known++] = (uint8_t)v;
            }
        if (known < 2 || all_n < 2 * t->min_rows) continue;
        if (!t->ordered[j])
            for (int64_t i = 0; i < known; i++) { /* by gradient; rare values towards the middle */
                const uint8_t v = order[i];
                const double mine = own[v].g / (own[v].h + t->smoothing);
                int64_t at = i;
                for (; at > 0 && key[at - 1] > mine; at--) {
                    key[at] = key[at - 1];
                    order[at] = order[at - 1];
                }
                key[at] = mine;
                order[at] = v;
            }
        const double before = all_g * all_g / (all_h + t->ridge);
        double left_g = 0.0, left_h = 0.0;
        int64_t left_n = 0, best = -1;
        for (int64_t i = 0; i + 1 < known; i++) {
            const Cell *restrict at = own + order[i];
            left_g += at->g;
            left_h += at->h;
            left_n += at->n;
            if (left_n < t->min_rows) continue;
            if (all_n - left_n < t->min_rows) break;
            const double right_g = all_g - left_g, right_h = all_h - left_h;
            const double gain = left_g * left_g / (left_h + t->ridge) + right_g * right_g / (right_h + t->ridge) - before;
            if (gain > node->gain) {
                node->gain = gain;
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
            for (int64_t i = 0; i <= best; i++) left_rows += own[order[i]].n;
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

static inline int goes_left(const Node *node, uint8_t v) { return (int)(node->mask[v >> 6] >> (v & 63)) & 1; }

/* Rows of a node to the left, to the right, and last those whose value was never seen. */
static void divide_rows(const Table *t, Growth *r, const Node *node, Node *left, Node *right) {
    const uint8_t *restrict code = t->codes + (int64_t)node->column * t->n;
    int64_t l = node->first, h = 0, stay = node->last - node->first;
    const int64_t end = stay;
    for (int64_t i = node->first; i < node->last; i++) {
        const Entry e = r->rows[i];
        const uint8_t v = code[e.row];
        if (v == UNSEEN)
            r->aside[--stay] = e;
        else if (goes_left(node, v))
            r->rows[l++] = e;
        else
            r->aside[h++] = e;
    }
    left->first = node->first;
    left->last = right->first = l;
    memcpy(r->rows + l, r->aside, sizeof(Entry) * (size_t)h);
    right->last = l += h;
    for (int64_t i = end; i > stay;) r->rows[l++] = r->aside[--i];
    l = node->from;
    h = 0;
    stay = node->to - node->from;
    const int64_t other_end = stay;
    for (int64_t i = node->from; i < node->to; i++) {
        const int32_t row = r->other[i];
        const uint8_t v = code[row];
        if (v == UNSEEN)
            r->other_aside[--stay] = row;
        else if (goes_left(node, v))
            r->other[l++] = row;
        else
            r->other_aside[h++] = row;
    }
    left->from = node->from;
    left->to = right->from = l;
    memcpy(r->other + l, r->other_aside, 4 * (size_t)h);
    right->to = l += h;
    for (int64_t i = other_end; i > stay;) r->other[l++] = r->other_aside[--i];
}

/* A tree, the split of the greatest gain first. Returns the number of its nodes; children come after parents. */
static int64_t grow_small_tree(const Table *t, Growth *r) {
    Node *nodes = r->nodes;
    int64_t size = 1, leaves = 1;
    memset(nodes, 0, sizeof(Node));
    nodes[0].column = nodes[0].left = nodes[0].right = nodes[0].parent = -1;
    nodes[0].last = r->used;
    nodes[0].to = r->others;
    tally(t, r->rows, 0, r->used, r->cells);
    find_split(t, r->cells, nodes);
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
        divide_rows(t, r, node, left, right);
        Node *small = left->last - left->first <= right->last - right->first ? left : right;
        Node *large = small == left ? right : left;
        large->slot = node->slot;
        small->slot = leaves++;
        if (leaves == t->max_leaves || left->depth >= t->max_depth) continue;
        Cell *restrict whole = r->cells + large->slot * t->cells, *restrict part = r->cells + small->slot * t->cells;
        tally(t, r->rows, small->first, small->last, part);
        if (large->last - large->first + small->last - small->first == node->last - node->first)
            for (int64_t v = 0; v < t->cells; v++) {
                whole[v].n -= part[v].n;
                whole[v].g = whole[v].n ? whole[v].g - part[v].g : 0.0;
                whole[v].h = whole[v].n ? whole[v].h - part[v].h : 0.0;
            }
        else /* some rows stopped at the node */
            tally(t, r->rows, large->first, large->last, whole);
        find_split(t, part, small);
        find_split(t, whole, large);
    }
    return size;
}

/* Values of all nodes, (size, k), at a rate. A row's node is a leaf, or one where its value was never seen. */
static void node_values(const Table *t, Growth *r, int64_t size, double rate, double *values) {
    const int64_t k = t->k;
    memset(r->sums, 0, 16 * (size_t)(size * k));
    for (int64_t u = size - 1; u >= 0; u--) {
        const Node *node = r->nodes + u;
        double *restrict g = r->sums + 2 * u * k, *restrict h = g + k;
        const int64_t first = node->column < 0 ? node->first : r->nodes[node->right].last;
        for (int64_t i = first; i < node->last; i++) {
            const int64_t row = r->rows[i].row;
            const double *restrict p = r->p + row * k, w = t->weight ? t->weight[row] : 1.0;
            for (int64_t c = 0; c < k; c++) {
                g[c] -= w * p[c];
                h[c] += w * p[c] * (1.0 - p[c]);
            }
            g[t->y[row]] += w;
        }
        double mean = 0.0;
        for (int64_t c = 0; c < k; c++) mean += values[u * k + c] = rate * g[c] / (h[c] + t->ridge);
        mean /= (double)k;
        for (int64_t c = 0; c < k; c++) values[u * k + c] -= mean;
        if (node->parent >= 0) {
            double *restrict up = r->sums + 2 * node->parent * k;
            for (int64_t c = 0; c < 2 * k; c++) up[c] += g[c];
        }
    }
}

/* The values of a tree added to the scores of all rows; returns the loss of the rows that it did not grow on. */
static double add_values(const Table *t, Growth *r, int64_t size, const double *values) {
    const int64_t k = t->k;
    double loss = 0.0;
    for (int64_t u = 0; u < size; u++) {
        const Node *node = r->nodes + u;
        const double *restrict v = values + u * k;
        const int64_t first = node->column < 0 ? node->first : r->nodes[node->right].last;
        for (int64_t i = first; i < node->last; i++) {
            double *restrict S = r->S + (int64_t)r->rows[i].row * k;
            for (int64_t c = 0; c < k; c++) S[c] += v[c];
        }
        const int64_t from = node->column < 0 ? node->from : r->nodes[node->right].to;
        for (int64_t i = from; i < node->to; i++) {
            const int64_t row = r->other[i];
            double *restrict S = r->S + row * k, *restrict p = r->p + row * k;
            for (int64_t c = 0; c < k; c++) S[c] += v[c];
            const double total = softmax_row(t->base + row * k, S, p, k);
            const double own = total - t->base[row * k + t->y[row]] - S[t->y[row]];
            loss += (t->weight ? t->weight[row] : 1.0) * own;
        }
    }
    return loss;
}

#endif
