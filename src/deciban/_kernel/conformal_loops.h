/* Gaussian densities of rows that are left out one by one: TILE rows of one class side by side, column by column. */
#ifndef DECIBAN_CONFORMAL_LOOPS_H
#define DECIBAN_CONFORMAL_LOOPS_H

#include "loops.h"

enum { TILE = 64 }; /* rows at a time */

enum { FACTORS = 4 }; /* variances multiplied before a logarithm is taken */

typedef struct { /* sums of a distribution: rows, mean and scatter of every column */
    const double *rows, *mean, *scatter;
} Moments;

/* What is left of all rows without each one: the largest variance in real units, and with `centre` its mean and
 * variance of every column. `unit` is the square of a column's unit. */
CLONES static void spread_tile(const double *restrict tile, ptrdiff_t d, Moments all, const double *restrict unit,
                               double rounding, double *restrict top, double *restrict centre,
                               double *restrict spread) {
    for (int r = 0; r < TILE; r++) top[r] = 0.0;
    for (ptrdiff_t j = 0; j < d; j++) {
        const double *restrict z = tile + j * TILE;
        const double n = all.rows[j], m = all.mean[j], s = all.scatter[j], left = n - 1.0;
        for (int r = 0; r < TILE; r++) {
            const int there = z[r] == z[r];
            const double gap = there ? z[r] - m : 0.0, rest = s - gap * gap * (n / left);
            const double u = (rest <= rounding * s ? 0.0 : rest) / (there ? left : n);
            const double real = u * unit[j];
            top[r] = real > top[r] ? real : top[r];
            if (centre) {
                centre[j * TILE + r] = m - gap / left;
                spread[j * TILE + r] = u;
            }
        }
    }
}

/* out -= half of sum_j (z - mean)^2/u + log u; an entry that is NaN adds nothing. u is the variance plus the floor, in
 * the column's unit. OWN: the row is in the sums, and is taken out first. LEAN: kappa pseudo-rows of the column's mean
 * and variance are added. */
#define DEFINE_DENSITY(NAME, OWN, LEAN, GAPS)                                                                          \
    CLONES static void NAME(const double *restrict tile, ptrdiff_t d, Moments sums, const double *restrict unit,       \
                            const double *restrict floor_, double rounding, double kappa,                              \
                            const double *restrict centre, const double *restrict spread, double *restrict out) {      \
        double product[TILE], total[TILE];                                                                             \
        for (int r = 0; r < TILE; r++) product[r] = 1.0, total[r] = 0.0;                                               \
        for (ptrdiff_t j = 0; j < d; j++) {                                                                            \
            const double *restrict z = tile + j * TILE;                                                                \
            const double n = sums.rows[j], m = sums.mean[j], s = sums.scatter[j], left = n - 1.0;                      \
            const double one = 1.0 / unit[j], plain = s / n;                                                           \
            for (int r = 0; r < TILE; r++) {                                                                           \
                const int there = !GAPS || z[r] == z[r];                                                               \
                double gap = there ? z[r] - m : 0.0, u = plain;                                                        \
                if (OWN) {                                                                                             \
                    const double rest = s - gap * gap * (n / left);                                                    \
                    u = (rest <= rounding * s ? 0.0 : rest) / left;                                                    \
                    gap *= n / left;                                                                                   \
                }                                                                                                      \
                if (LEAN) {                                                                                            \
                    const double held = OWN ? left : n, all = held + kappa;                                            \
                    const double c = centre[j * TILE + r], off = z[r] - gap - c; /* from the mean */                   \
                    u = (held * u + kappa * spread[j * TILE + r] + held * kappa / all * off * off) / all;              \
                    gap += kappa / all * off;                                                                          \
                }                                                                                                      \
                u += floor_[r] * one;                                                                                  \
                total[r] += there ? gap * gap / u : 0.0;                                                               \
                product[r] *= there ? u : 1.0;                                                                         \
            }                                                                                                          \
            if (j % FACTORS == FACTORS - 1)                                                                            \
                for (int r = 0; r < TILE; r++) {                                                                       \
                    total[r] += log(product[r]);                                                                       \
                    product[r] = 1.0;                                                                                  \
                }                                                                                                      \
        }                                                                                                              \
        for (int r = 0; r < TILE; r++) out[r] -= 0.5 * (total[r] + log(product[r]));                                   \
    }

DEFINE_DENSITY(density_tile, 0, 0, 0)
DEFINE_DENSITY(density_tile_gaps, 0, 0, 1)
DEFINE_DENSITY(own_tile, 1, 0, 0)
DEFINE_DENSITY(own_tile_gaps, 1, 0, 1)
DEFINE_DENSITY(lean_tile, 0, 1, 0)
DEFINE_DENSITY(lean_tile_gaps, 0, 1, 1)
DEFINE_DENSITY(own_lean_tile, 1, 1, 0)
DEFINE_DENSITY(own_lean_tile_gaps, 1, 1, 1)

/* Calls the variant for these options. */
static void density_of_tile(const double *tile, ptrdiff_t d, Moments sums, const double *unit, const double *floor_,
                            double rounding, double kappa, const double *centre, const double *spread, int own,
                            int gaps, double *out) {
    typedef void (*Density)(const double *, ptrdiff_t, Moments, const double *, const double *, double, double,
                        const double *, const double *, double *);
    static const Density densities[2][2][2] = {{{density_tile, density_tile_gaps}, {lean_tile, lean_tile_gaps}},
                                      {{own_tile, own_tile_gaps}, {own_lean_tile, own_lean_tile_gaps}}};
    densities[own][kappa > 0.0][gaps](tile, d, sums, unit, floor_, rounding, kappa, centre, spread, out);
}

#endif
