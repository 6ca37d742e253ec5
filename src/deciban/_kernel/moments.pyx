# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Sums of 1, x − p and (x − p)² by class: one pass over a dense block of rows.

`one`, `x` and `xx` are added to, so a caller passes zeros or a running sum. Labels outside 0..K−1 are skipped. Without
`missing`, NaN spreads to the sums; the caller then calls again with `missing`, so the common case does not pay for the
rare one.
"""
from cython cimport floating
from libc.stdlib cimport free, malloc

cdef extern from "loops.h":
    void sum_rows(const double*, Py_ssize_t, Py_ssize_t, Py_ssize_t, Py_ssize_t, const int*, const double*,
                  const double*, double*, Py_ssize_t, double*, double*) noexcept nogil
    void sum_rows_single(const float*, Py_ssize_t, Py_ssize_t, Py_ssize_t, Py_ssize_t, const int*, const double*,
                         const double*, double*, Py_ssize_t, double*, double*) noexcept nogil
    void sum_rows_missing(const double*, Py_ssize_t, Py_ssize_t, Py_ssize_t, Py_ssize_t, const int*, const double*,
                          const double*, double*, double*, double*) noexcept nogil

cdef enum:
    GATHERED = 32  # rows copied at a time from an array whose rows are not contiguous doubles


cdef inline void gather(const floating[:, :] X, Py_ssize_t start, Py_ssize_t rows,
                        bint binary, double threshold, double* tile) noexcept nogil:
    """Copy rows start.. into a row-major tile of doubles; with `binary`, as 1[x > threshold] (NaN stays)."""
    cdef Py_ssize_t d = X.shape[1], r, j
    cdef double v
    if X.strides[1] == sizeof(floating):
        for r in range(rows):
            for j in range(d):
                tile[r * d + j] = X[start + r, j]
    else:
        for j in range(d):
            for r in range(rows):
                tile[r * d + j] = X[start + r, j]
    if binary:
        for j in range(rows * d):
            v = tile[j]
            tile[j] = 1.0 if v > threshold else (0.0 if v == v else v)


def class_sums(const floating[:, :] X, const int[::1] y, const double[::1] weight, const double[:, ::1] pivot,
               double[:, ::1] one, double[:, ::1] x, double[:, ::1] xx,
               bint missing, bint binary=False, double threshold=0.0):
    """Add w·(1, x − p, (x − p)²) of every row to its class: hard labels. Without `xx`, no squares."""
    cdef Py_ssize_t n = X.shape[0], d = X.shape[1], k = x.shape[0], start, rows, step = n
    # Whether rows can be used as they are in memory: contiguous, and a whole number of entries apart.
    cdef bint along = X.strides[1] == sizeof(floating) and X.strides[0] % sizeof(floating) == 0 and not binary
    cdef bint direct = along and sizeof(floating) == sizeof(double)
    cdef bint single = along and sizeof(floating) == sizeof(float) and not missing
    cdef double* squares = NULL
    cdef const double* weights = NULL
    cdef double* tile = NULL
    cdef const double* first = NULL
    if n == 0 or d == 0 or k == 0:
        return
    if xx is not None:
        squares = &xx[0, 0]
    if not (direct or single):
        step = GATHERED
        tile = <double*> malloc(GATHERED * d * sizeof(double))
        if tile == NULL:
            raise MemoryError()
    with nogil:
        start = 0
        while start < n:
            rows = min(step, n - start)
            if direct:
                first = <const double*> &X[start, 0]
            elif not single:
                gather(X, start, rows, binary, threshold, tile)
                first = tile
            if weight is not None:
                weights = &weight[start]
            if single:
                sum_rows_single(<const float*> &X[start, 0], X.strides[0] // <Py_ssize_t> sizeof(float), rows, d, k,
                                &y[start], weights, &pivot[0, 0], &one[0, 0], one.shape[1], &x[0, 0], squares)
            elif missing:
                sum_rows_missing(first, X.strides[0] // 8 if direct else d, rows, d, k, &y[start], weights,
                                 &pivot[0, 0], &one[0, 0], &x[0, 0], squares)
            else:
                sum_rows(first, X.strides[0] // 8 if direct else d, rows, d, k, &y[start], weights,
                         &pivot[0, 0], &one[0, 0], one.shape[1], &x[0, 0], squares)
            start += rows
    free(tile)


def soft_sums(const floating[:, :] X, const double[:, :] labels, const double[:, ::1] pivot,
              double[:, ::1] one, double[:, ::1] x, double[:, ::1] xx,
              bint missing, bint binary=False, double threshold=0.0):
    """Add labels[i, c]·(1, x − p, (x − p)²) of every row i to every class c: soft labels, one column per class."""
    cdef Py_ssize_t n = X.shape[0], d = X.shape[1], k = x.shape[0], c, i, start, rows
    cdef double* squares = NULL
    cdef double* tile
    cdef double share[GATHERED]
    cdef int same[GATHERED]
    if n == 0 or d == 0 or k == 0:
        return
    tile = <double*> malloc(GATHERED * d * sizeof(double))
    if tile == NULL:
        raise MemoryError()
    for c in range(GATHERED):
        same[c] = 0
    with nogil:
        start = 0
        while start < n:
            rows = min(<Py_ssize_t> GATHERED, n - start)
            gather(X, start, rows, binary, threshold, tile)
            for c in range(k):
                if xx is not None:
                    squares = &xx[c, 0]
                for i in range(rows):
                    share[i] = labels[start + i, c]
                if missing:
                    sum_rows_missing(tile, d, rows, d, 1, same, share, &pivot[c, 0], &one[c, 0], &x[c, 0], squares)
                else:
                    sum_rows(tile, d, rows, d, 1, same, share, &pivot[c, 0], &one[c, 0], 1, &x[c, 0], squares)
            start += rows
    free(tile)
