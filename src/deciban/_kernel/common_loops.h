/* Quadratic forms of sparse rows, two matrices at a time. */

#ifndef DECIBAN_COMMON_LOOPS_H
#define DECIBAN_COMMON_LOOPS_H

#include <stdint.h>

typedef double two __attribute__((vector_size(16), aligned(8), may_alias));

/* out[i] = xᵀ·matrix·x for both of two symmetric matrices, which lie side by side, (d, d, 2); rows first..last. */
static void squares(const int64_t *indptr, const int32_t *at, const double *x, const double *matrix, int64_t d, double *out,
                    int64_t first, int64_t last) {
    for (int64_t i = first; i < last; i++) {
        const int64_t begin = indptr[i], end = indptr[i + 1];
        two total = {0.0, 0.0};
        for (int64_t a = begin; a < end; a++) {
            const double *row = matrix + 2 * d * at[a];
            two even = {0.0, 0.0}, odd = {0.0, 0.0};
            int64_t b = begin;
            for (; b + 1 < a; b += 2) {
                even += x[b] * *(const two *)(row + 2 * at[b]);
                odd += x[b + 1] * *(const two *)(row + 2 * at[b + 1]);
            }
            if (b < a) even += x[b] * *(const two *)(row + 2 * at[b]);
            total += x[a] * (2.0 * (even + odd) + x[a] * *(const two *)(row + 2 * at[a]));
        }
        *(two *)(out + 2 * i) = total;
    }
}

/* Copies the lower half of a matrix (n, n) to the upper one, in pieces that fit the cache. */
static void mirrored(double *matrix, int64_t n) {
    enum { PIECE = 32 };
    for (int64_t a = 0; a < n; a += PIECE)
        for (int64_t b = 0; b <= a; b += PIECE)
            for (int64_t i = a; i < n && i < a + PIECE; i++)
                for (int64_t j = b; j < i && j < b + PIECE; j++) matrix[j * n + i] = matrix[i * n + j];
}

#endif
