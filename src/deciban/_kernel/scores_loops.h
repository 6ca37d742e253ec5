/* The innermost loops of scores.pyx and of densities by column: rows of a table, as wide as there are classes, multiplied
 * and added up. The sums of a row stay in registers, the classes side by side. */
#ifndef DECIBAN_SCORES_LOOPS_H
#define DECIBAN_SCORES_LOOPS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "lanes.h"
#include "loops.h"

enum {
    WIDEST = 8,              /* vectors of classes summed at once */
    PANEL = 3 * LANES,       /* classes of a panel of a dense table */
    GROUP = 8,               /* dense rows summed at once, at most */
    AHEAD = 32               /* entries whose place in the table is fetched early: it may be far away */
};

/* ---- sparse rows, and rows of codes ---- */

/* row = start + part, `some` numbers of it. */
INLINE void add_start(const double *part, const double *start, ptrdiff_t some, double *row) {
    ptrdiff_t l = 0;
    for (; l + LANES <= some; l += LANES) AT(row + l) = FROM(start + l) + FROM(part + l);
    for (; l < some; l++) row[l] = start[l] + part[l];
}

/* to = sum_e v[e] table[at[e]], `wide` vectors of it; without v, all are 1. Of `left` entries the places are fetched. */
#define DEFINE_SUM_ENTRIES(NAME, INDEX)                                                                                \
    INLINE void NAME(const int wide, const double *v, const INDEX *at, ptrdiff_t count, ptrdiff_t left,                \
                     const double *table, ptrdiff_t width, double *to) {                                               \
        lanes s[WIDEST], t[WIDEST];                                                                                    \
        ptrdiff_t e = 0;                                                                                               \
        for (int q = 0; q < wide; q++) s[q] = t[q] = ZERO;                                                             \
        for (; e + 2 <= count; e += 2) { /* two at a time: neither waits for the other */                              \
            const double *a = table + (ptrdiff_t)at[e] * width, *b = table + (ptrdiff_t)at[e + 1] * width;             \
            if (e + AHEAD + 1 < left)                                                                                  \
                for (int line = 0; line < wide; line += 64 / 8 / LANES) {                                              \
                    FETCH(table + (ptrdiff_t)at[e + AHEAD] * width + line * LANES);                                    \
                    FETCH(table + (ptrdiff_t)at[e + AHEAD + 1] * width + line * LANES);                                \
                }                                                                                                      \
            if (v)                                                                                                     \
                for (int q = 0; q < wide; q++) {                                                                       \
                    s[q] += v[e] * FROM(a + q * LANES);                                                                \
                    if (wide > 4) s[q] += v[e + 1] * FROM(b + q * LANES);                                              \
                    else t[q] += v[e + 1] * FROM(b + q * LANES);                                                       \
                }                                                                                                      \
            else                                                                                                       \
                for (int q = 0; q < wide; q++) {                                                                       \
                    s[q] += FROM(a + q * LANES);                                                                       \
                    if (wide > 4) s[q] += FROM(b + q * LANES);                                                         \
                    else t[q] += FROM(b + q * LANES);                                                                  \
                }                                                                                                      \
        }                                                                                                              \
        if (e < count)                                                                                                 \
            for (int q = 0; q < wide; q++) s[q] += (v ? v[e] : 1.0) * FROM(table + (ptrdiff_t)at[e] * width + q * LANES); \
        for (int q = 0; q < wide; q++) AT(to + q * LANES) = s[q] + t[q];                                               \
    }

DEFINE_SUM_ENTRIES(sum_entries_int, int)
DEFINE_SUM_ENTRIES(sum_entries_long, long long)

/* The same where a table has two numbers a row: four entries at a time. Such a table is near enough. */
#define DEFINE_SUM_PAIRS(NAME, INDEX)                                                                                  \
    INLINE void NAME(const double *v, const INDEX *at, ptrdiff_t count, const double *table, double *to) {             \
        double s[8] = {0.0};                                                                                           \
        ptrdiff_t e = 0;                                                                                               \
        for (; e + 4 <= count; e += 4) {                                                                               \
            for (int l = 0; l < 4; l++) {                                                                              \
                const double *row = table + (ptrdiff_t)at[e + l] * 2, value = v ? v[e + l] : 1.0;                      \
                s[2 * l] += value * row[0];                                                                            \
                s[2 * l + 1] += value * row[1];                                                                        \
            }                                                                                                          \
        }                                                                                                              \
        for (; e < count; e++) {                                                                                       \
            s[0] += (v ? v[e] : 1.0) * table[(ptrdiff_t)at[e] * 2];                                                    \
            s[1] += (v ? v[e] : 1.0) * table[(ptrdiff_t)at[e] * 2 + 1];                                                \
        }                                                                                                              \
        to[0] = (s[0] + s[2]) + (s[4] + s[6]);                                                                         \
        to[1] = (s[1] + s[3]) + (s[5] + s[7]);                                                                         \
    }

DEFINE_SUM_PAIRS(sum_pairs_int, int)
DEFINE_SUM_PAIRS(sum_pairs_long, long long)

/* out[i] = start + sum_e v[e] table[at[e]] over the entries of n rows, which end at `bounds`, counted from the first of
 * them, where v and at begin. The table has `width` numbers per row, of which k count; it is `far` if it is larger than
 * the caches next to a core. */
#define DEFINE_SUM_ROWS_OF(NAME, SUM, PAIRS, INDEX)                                                                    \
    FUSED static void NAME(const double *v, const INDEX *at, const INDEX *bounds, ptrdiff_t n, const double *table,    \
                           ptrdiff_t width, int far, const double *start, ptrdiff_t k, double *out) {                  \
        double part[WIDEST * LANES];                                                                                   \
        const ptrdiff_t first = bounds[0], last = far ? bounds[n] - first : 0;                                         \
        for (ptrdiff_t c = 0; c < k; c += WIDEST * LANES) {                                                            \
            const ptrdiff_t wide = (k - c + LANES - 1) / LANES, some = k - c < WIDEST * LANES ? k - c : WIDEST * LANES; \
            for (ptrdiff_t i = 0; i < n; i++) {                                                                        \
                const ptrdiff_t e = bounds[i] - first, count = bounds[i + 1] - bounds[i];                              \
                const double *values = v ? v + e : NULL;                                                               \
                double *row = out + i * k + c;                                                                         \
                if (width == 2) {                                                                                      \
                    PAIRS(values, at + e, count, table, part);                                                         \
                    add_start(part, start, some, row);                                                                 \
                    continue;                                                                                          \
                }                                                                                                      \
                switch (wide) {                                                                                        \
                case 1: SUM(1, values, at + e, count, last - e, table + c, width, part); break;                        \
                case 2: SUM(2, values, at + e, count, last - e, table + c, width, part); break;                        \
                case 3: SUM(3, values, at + e, count, last - e, table + c, width, part); break;                        \
                case 4: SUM(4, values, at + e, count, last - e, table + c, width, part); break;                        \
                case 5: SUM(5, values, at + e, count, last - e, table + c, width, part); break;                        \
                case 6: SUM(6, values, at + e, count, last - e, table + c, width, part); break;                        \
                case 7: SUM(7, values, at + e, count, last - e, table + c, width, part); break;                        \
                default: SUM(8, values, at + e, count, last - e, table + c, width, part);                              \
                }                                                                                                      \
                add_start(part, start + c, some, row);                                                                 \
            }                                                                                                          \
        }                                                                                                              \
    }

DEFINE_SUM_ROWS_OF(sum_rows_int, sum_entries_int, sum_pairs_int, int)
DEFINE_SUM_ROWS_OF(sum_rows_long, sum_entries_long, sum_pairs_long, long long)

/* at[i][j] = the row of the table that code x[i][j] means: first[j] + code; `unseen` + j for a code that is not below
 * size[j], and the row after all of these for one below zero or NaN. Columns lie `across` bytes apart and rows `down`; where columns are
 * contiguous, eight rows at a time, as many as a line of the cache holds. */
#define PLACE(code, j)                                                                                                 \
    ((code) >= 0 ? ((code) < size[j] ? first[j] + (int)(code) : unseen + (int)(j)) : unseen + (int)d)

#define DEFINE_PLACES(NAME, NUMBER, WIDER)                                                                             \
    CLONES static void NAME(const char *x, ptrdiff_t down, ptrdiff_t across, ptrdiff_t n, ptrdiff_t d,                 \
                            const int *restrict first, const int *restrict size, int unseen, int *restrict at) {       \
        if (across == sizeof(NUMBER)) {                                                                                \
            for (ptrdiff_t i = 0; i < n; i++, x += down, at += d) {                                                    \
                const NUMBER *restrict row = (const NUMBER *)x;                                                        \
                for (ptrdiff_t j = 0; j < d; j++) at[j] = PLACE((WIDER)row[j], j);                                     \
            }                                                                                                          \
            return;                                                                                                    \
        }                                                                                                              \
        for (ptrdiff_t i = 0; i < n; i += 8, x += 8 * down, at += 8 * d) {                                             \
            const ptrdiff_t some = n - i < 8 ? n - i : 8;                                                              \
            for (ptrdiff_t j = 0; j < d; j++)                                                                          \
                for (ptrdiff_t r = 0; r < some; r++)                                                                   \
                    at[r * d + j] = PLACE((WIDER) * (const NUMBER *)(x + r * down + j * across), j);                   \
        }                                                                                                              \
    }

DEFINE_PLACES(places_byte, unsigned char, int)
DEFINE_PLACES(places_int, int, int)
DEFINE_PLACES(places_long, long long, long long)
DEFINE_PLACES(places_single, float, float)
DEFINE_PLACES(places_double, double, double)

/* ---- dense rows ---- */

#define BINARY(value, threshold) ((value) > (threshold) ? 1.0 : (value) == (value) ? 0.0 : (value))

/* A row as doubles; minus `centre` if there is one, or with `threshold` 1 above it and 0 up to it, NaN staying NaN. */
#define DEFINE_WIDEN(NAME, NUMBER)                                                                                     \
    INLINE void NAME(const NUMBER *restrict x, ptrdiff_t d, const double *restrict centre, const double *threshold,    \
                     double *restrict to) {                                                                            \
        if (centre)                                                                                                    \
            for (ptrdiff_t j = 0; j < d; j++) to[j] = (double)x[j] - centre[j];                                        \
        else if (threshold)                                                                                            \
            for (ptrdiff_t j = 0; j < d; j++) to[j] = BINARY((double)x[j], *threshold);                                \
        else                                                                                                           \
            for (ptrdiff_t j = 0; j < d; j++) to[j] = (double)x[j];                                                    \
    }

DEFINE_WIDEN(widen_int, int)
DEFINE_WIDEN(widen_single, float)
DEFINE_WIDEN(widen_double, double)

/* The same for a row that is one of doubles already. */
INLINE void move_or_compare(double *restrict row, ptrdiff_t d, const double *restrict centre, const double *threshold) {
    if (centre)
        for (ptrdiff_t j = 0; j < d; j++) row[j] -= centre[j];
    else if (threshold)
        for (ptrdiff_t j = 0; j < d; j++) row[j] = BINARY(row[j], *threshold);
}

/* Numbers of 64 bits have no vector instruction for it before AVX-512: where 0 <= m < 2^52, the bits of m are the last
 * of the double 2^52 + m. */
INLINE void widen_long(const long long *restrict x, ptrdiff_t d, const double *restrict centre,
                       const double *threshold, double *restrict to) {
    uint64_t large = 0;
    for (ptrdiff_t j = 0; j < d; j++) {
        uint64_t bits = (uint64_t)x[j] + ((uint64_t)1 << 51);
        large |= bits >> 52;
        bits |= (uint64_t)0x433 << 52;
        memcpy(to + j, &bits, sizeof(double));
        to[j] -= 6755399441055744.0; /* 2^52 + 2^51 */
    }
    if (large)
        for (ptrdiff_t j = 0; j < d; j++) to[j] = (double)x[j];
    move_or_compare(to, d, centre, threshold);
}

/* Rows as doubles, one after the other. Where a column's entries are closer together than a row's, eight rows at a time:
 * as many as a line of the cache holds. */
#define DEFINE_GATHER(NAME, NUMBER, WIDEN)                                                                             \
    CLONES static void NAME(const char *x, ptrdiff_t down, ptrdiff_t across, ptrdiff_t n, ptrdiff_t d,                 \
                            const double *restrict centre, const double *threshold, double *restrict to) {             \
        const int by_rows = (across < 0 ? -across : across) < (down < 0 ? -down : down);                               \
        for (ptrdiff_t i = 0; i < n; i += 8, x += 8 * down, to += 8 * d) {                                             \
            const ptrdiff_t some = n - i < 8 ? n - i : 8;                                                              \
            if (across == sizeof(NUMBER)) {                                                                            \
                for (ptrdiff_t r = 0; r < some; r++)                                                                   \
                    WIDEN((const NUMBER *)(x + r * down), d, centre, threshold, to + r * d);                           \
                continue;                                                                                              \
            }                                                                                                          \
            for (ptrdiff_t r = 0; by_rows && r < some; r++)                                                            \
                for (ptrdiff_t j = 0; j < d; j++)                                                                      \
                    to[r * d + j] = (double)*(const NUMBER *)(x + r * down + j * across);                              \
            for (ptrdiff_t j = 0; !by_rows && j < d; j++) {                                                            \
                if (some == 8) FETCH(x + 16 * down + j * across);                                                      \
                for (ptrdiff_t r = 0; r < some; r++)                                                                   \
                    to[r * d + j] = (double)*(const NUMBER *)(x + r * down + j * across);                              \
            }                                                                                                          \
            for (ptrdiff_t r = 0; r < some; r++) move_or_compare(to + r * d, d, centre, threshold);                    \
        }                                                                                                              \
    }

DEFINE_GATHER(gather_int, int, widen_int)
DEFINE_GATHER(gather_long, long long, widen_long)
DEFINE_GATHER(gather_single, float, widen_single)
DEFINE_GATHER(gather_double, double, widen_double)

/* Memory is idle while products are computed: fetch the rows that come next. */
INLINE void fetch_rows(const double *next, ptrdiff_t numbers) {
    for (ptrdiff_t i = 0; i < numbers; i += 8) FETCH(next + i);
}

/* `rows` rows by a panel of a table, `wide` vectors a column; what is idle repeats the last row. */
INLINE void panel_rows(const int rows, const int wide, const double *const *x, ptrdiff_t d, const double *panel,
                       const double *start, ptrdiff_t some, ptrdiff_t columns, ptrdiff_t k, double *out, lanes *check) {
    lanes s[GROUP][3];
    for (int r = 0; r < rows; r++)
        for (int q = 0; q < wide; q++) s[r][q] = ZERO;
    for (ptrdiff_t j = 0; j < d; j++) {
        lanes w[3];
        for (int q = 0; q < wide; q++) w[q] = FROM(panel + (j * wide + q) * LANES);
        for (int r = 0; r < rows; r++) {
            const double value = x[r][j];
            for (int q = 0; q < wide; q++) s[r][q] += value * w[q];
        }
    }
    for (int r = 0; r < rows; r++) {
        double part[PANEL];
        for (int q = 0; q < wide; q++) {
            *check += s[r][q];
            AT(part + q * LANES) = s[r][q];
        }
        if (r < some) add_start(part, start, columns, out + r * k);
    }
}

/* out[i] = start + x[i] table of two classes, whose weights would fill half a vector: here vectors hold columns of a row.
   The table has the d weights of the first class, then those of the second. Returns whether some product is NaN. */
FUSED static int pair_scores(const double *x, ptrdiff_t stride, ptrdiff_t n, ptrdiff_t d, const double *table,
                             const double *start, double *out) {
    const ptrdiff_t whole = d / LANES * LANES;
    double check = 0.0;
    for (ptrdiff_t i = 0; i < n; i++, x += stride) {
        lanes a = ZERO, b = ZERO;
        ptrdiff_t j = 0;
        for (; j < whole; j += LANES) {
            a += FROM(x + j) * FROM(table + j);
            b += FROM(x + j) * FROM(table + d + j);
        }
        double one = TOTAL(a), other = TOTAL(b);
        for (; j < d; j++) {
            one += x[j] * table[j];
            other += x[j] * table[d + j];
        }
        check += one + other;
        out[2 * i] = start[0] + one;
        out[2 * i + 1] = start[1] + other;
    }
    return check != check;
}

/* out[i] = start + x[i] table, the table in panels of up to PANEL classes. Returns whether some product is NaN. */
FUSED static int panel_scores(const double *x, ptrdiff_t stride, ptrdiff_t n, ptrdiff_t d, const double *table,
                              const double *start, ptrdiff_t k, double *out) {
    lanes check = ZERO;
    for (ptrdiff_t c = 0; c < k; c += PANEL, table += d * PANEL) {
        const ptrdiff_t columns = k - c < PANEL ? k - c : PANEL, wide = (columns + LANES - 1) / LANES;
        const ptrdiff_t group = wide == 1 ? GROUP : GROUP / 2;
        for (ptrdiff_t i = 0; i < n; i += group) {
            const double *rows[GROUP];
            const ptrdiff_t some = n - i < group ? n - i : group;
            if (c == 0) fetch_rows(x + (i + 4 * group) * stride, group * stride);
            for (ptrdiff_t r = 0; r < group; r++) rows[r] = x + (r < some ? i + r : n - 1) * stride;
            if (wide == 1) panel_rows(8, 1, rows, d, table, start + c, some, columns, k, out + i * k + c, &check);
            else if (wide == 2) panel_rows(4, 2, rows, d, table, start + c, some, columns, k, out + i * k + c, &check);
            else panel_rows(4, 3, rows, d, table, start + c, some, columns, k, out + i * k + c, &check);
        }
    }
    return TOTAL(check) != TOTAL(check);
}

/* The same with squares in place of products: start - sum_j h (x_j - m)^2. A panel has for each column `wide` vectors a,
 * and as many b. If `scaled`, these are sqrt(h) and -m sqrt(h), so that a term is two operations; else m and h. */
INLINE void square_rows(const int scaled, const int rows, const int wide, const double *const *x, ptrdiff_t d,
                        const double *panel, const double *start, ptrdiff_t some, ptrdiff_t columns, ptrdiff_t k,
                        double *out, lanes *check) {
    lanes s[GROUP][3];
    for (int r = 0; r < rows; r++)
        for (int q = 0; q < wide; q++) s[r][q] = ZERO;
    for (ptrdiff_t j = 0; j < d; j++, panel += 2 * wide * LANES) {
        lanes a[3], b[3];
        for (int q = 0; q < wide; q++) a[q] = FROM(panel + q * LANES), b[q] = FROM(panel + (wide + q) * LANES);
        for (int r = 0; r < rows; r++) {
            const double value = x[r][j];
            for (int q = 0; q < wide; q++) {
                if (scaled) {
                    const lanes t = value * a[q] + b[q];
                    s[r][q] -= t * t;
                } else {
                    const lanes t = value - a[q];
                    s[r][q] -= (t * b[q]) * t;
                }
            }
        }
    }
    for (int r = 0; r < rows; r++) {
        double part[PANEL];
        for (int q = 0; q < wide; q++) {
            *check += s[r][q];
            AT(part + q * LANES) = s[r][q];
        }
        if (r < some) add_start(part, start, columns, out + r * k);
    }
}

#define SQUARES(ROWS, WIDE)                                                                                            \
    do {                                                                                                               \
        if (scaled) square_rows(1, ROWS, WIDE, rows, d, table, start + c, some, columns, k, out + i * k + c, &check);   \
        else square_rows(0, ROWS, WIDE, rows, d, table, start + c, some, columns, k, out + i * k + c, &check);          \
    } while (0)

/* out[i] = start - sum_j h (x[i][j] - m)^2. Returns whether some sum is NaN. */
FUSED static int panel_squares(const double *x, ptrdiff_t stride, ptrdiff_t n, ptrdiff_t d, const double *table,
                               int scaled, const double *start, ptrdiff_t k, double *out) {
    lanes check = ZERO;
    for (ptrdiff_t c = 0; c < k; c += PANEL, table += 2 * d * PANEL) {
        const ptrdiff_t columns = k - c < PANEL ? k - c : PANEL, wide = (columns + LANES - 1) / LANES;
        const ptrdiff_t group = wide == 1 ? GROUP : wide == 2 ? GROUP / 2 : GROUP / 4;
        for (ptrdiff_t i = 0; i < n; i += group) {
            const double *rows[GROUP];
            const ptrdiff_t some = n - i < group ? n - i : group;
            if (c == 0) fetch_rows(x + (i + 4 * group) * stride, group * stride);
            for (ptrdiff_t r = 0; r < group; r++) rows[r] = x + (r < some ? i + r : n - 1) * stride;
            if (wide == 1) SQUARES(8, 1);
            else if (wide == 2) SQUARES(4, 2);
            else SQUARES(2, 3);
        }
    }
    return TOTAL(check) != TOTAL(check);
}

/* ---- evidence about classes ---- */

/* row = factor cos(row + phase), n numbers of it. */
FUSED static void cosine_row(const double *phase, double factor, ptrdiff_t n, double *row) {
    ptrdiff_t l = 0;
    for (; l + LANES <= n; l += LANES) AT(row + l) = factor * cos_lanes(FROM(row + l) + FROM(phase + l));
    if (l < n) {
        double rest[LANES] = {0.0};
        for (ptrdiff_t i = l; i < n; i++) rest[i - l] = row[i] + phase[i];
        AT(rest) = factor * cos_lanes(FROM(rest));
        for (ptrdiff_t i = l; i < n; i++) row[i] = rest[i - l];
    }
}

/* out = x less its largest, but at least -most, less the mean of that over the classes; 0 if no class is possible. */
FUSED static void limit_row(const double *restrict x, ptrdiff_t k, double most, double *restrict out) {
    double top = -INFINITY, sum = 0.0;
    for (ptrdiff_t c = 0; c < k; c++) top = x[c] > top ? x[c] : top;
    for (ptrdiff_t c = 0; c < k; c++) {
        const double away = x[c] - top, low = away < -most ? -most : away;
        out[c] = top > -INFINITY ? low : 0.0;
        sum += out[c];
    }
    const double mean = sum / (double)k;
    for (ptrdiff_t c = 0; c < k; c++) out[c] -= mean;
}

/* -log P(y) of a row with these log joints and log priors; `room` is for k + LANES numbers. */
FUSED static double loss_of_row(const double *x, const double *log_prior, ptrdiff_t k, ptrdiff_t y, double *room) {
    double top = -INFINITY;
    for (ptrdiff_t c = 0; c < k; c++) {
        room[c] = x[c] + log_prior[c];
        top = room[c] > top ? room[c] : top;
    }
    const double own = room[y] - top;
    for (ptrdiff_t c = k; c < k + LANES; c++) room[c] = -INFINITY;
    lanes sum = ZERO;
    for (ptrdiff_t c = 0; c < k; c += LANES) sum += exp_lanes(FROM(room + c) - top);
    return log(TOTAL(sum)) - own;
}

/* The sum of -log P(class | value) over rows that are left out, one of weight `taken` at a time, of a column with these
 * counts by class and value, (k, size). `smooth` (k, size) are smoothed counts, `rest` (size,) the share of a value in all
 * other rows, less than 0 if none has it; `kept` (size,) is how much of a row's weight stays in its value. `room` is for
 * (2k + 4) · (size + LANES) numbers. */
FUSED static double smoothing_loss(const double *counts, const double *smooth, const double *rest, const double *kept,
                                   const double *total, const double *log_prior, ptrdiff_t k, ptrdiff_t size,
                                   double strength, double taken, double *room) {
    const ptrdiff_t wide = (size + LANES - 1) / LANES * LANES;
    double *const top = room, *const sum = top + wide, *const prior = sum + wide, *const gone = prior + wide;
    double *const others = gone + wide, *const mine = others + k * wide;
    double loss = 0.0;
    for (ptrdiff_t v = 0; v < wide; v++) {
        top[v] = -INFINITY;
        sum[v] = 0.0;
        prior[v] = v < size && rest[v] >= 0.0 ? strength * rest[v] : -1.0;
        gone[v] = v < size ? taken * kept[v] : 0.0;
    }
    for (ptrdiff_t c = 0; c < k; c++) {
        const double less = total[c] - taken > 0.0 ? total[c] - taken : 0.0;
        double *const other = others + c * wide, *const own = mine + c * wide;
        for (ptrdiff_t v = 0; v < wide; v++) {
            const double count = v < size ? smooth[c * size + v] : 0.0, left = count - gone[v] > 0.0 ? count - gone[v] : 0.0;
            other[v] = prior[v] < 0.0 ? 1.0 : (count + prior[v]) / (total[c] + strength);
            own[v] = prior[v] < 0.0 ? 1.0 : (left + prior[v]) / (less + strength);
        }
        for (ptrdiff_t v = 0; v < wide; v += LANES) {
            const lanes a = log_lanes(FROM(other + v)) + log_prior[c], b = log_lanes(FROM(own + v)) + log_prior[c];
            AT(other + v) = a;
            AT(own + v) = b;
            AT(top + v) = GREATER(GREATER(a, b), FROM(top + v));
        }
    }
    for (ptrdiff_t c = 0; c < k; c++)
        for (ptrdiff_t v = 0; v < wide; v += LANES) {
            const lanes each = exp_lanes(FROM(others + c * wide + v) - FROM(top + v));
            AT(others + c * wide + v) = each;
            AT(sum + v) += each;
        }
    for (ptrdiff_t c = 0; c < k; c++) {
        double *const other = others + c * wide, *const own = mine + c * wide;
        for (ptrdiff_t v = 0; v < wide; v += LANES) {
            const lanes away = FROM(own + v) - FROM(top + v), away_others = FROM(sum + v) - FROM(other + v);
            AT(own + v) = log_lanes(GREATER(away_others, ZERO) + exp_lanes(away)) - away;
        }
        for (ptrdiff_t v = 0; v < size; v++)
            if (counts[c * size + v] > 0.0) loss += counts[c * size + v] * own[v];
    }
    return loss;
}

#endif
