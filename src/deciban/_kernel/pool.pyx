# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Weights and offsets of a pool: see pool.py for the problem."""
from libc.math cimport isnan
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free, malloc

cdef extern from "pool_loops.h":
    enum:
        HELD
    ctypedef struct Problem:
        int64_t n, k, g
        const double* x
        const int32_t* y
        const double* share
        const double* log_prior
        const double* doubt
        const double* start
        double tie
    double pool_value(const Problem*, const double*, const double*, double*, double*, double*) noexcept nogil
    void pool_curvature(const Problem*, const double*, const int64_t*, int64_t, int64_t, double, double*,
                        int64_t*, double*) noexcept nogil
    void pool_spread(const double*, int64_t, int64_t, int64_t, double*, double*) noexcept nogil
    void pool_arrange(const double*, int64_t, int64_t, int64_t, const double*, double*, double*) noexcept nogil
    double pool_fit(const Problem*, double*, double*, int64_t, double, int64_t, double) noexcept nogil

cdef double NOTHING = 0.0


cdef Problem problem(const double[:, :, ::1] x, const int32_t[::1] y, const double[::1] share,
                     const double[::1] log_prior, const double[::1] doubt, const double[::1] start,
                     double tie) noexcept nogil:
    cdef Problem t
    t.n, t.k, t.g = x.shape[0], x.shape[1], x.shape[2]
    t.x = &x[0, 0, 0] if t.n * t.k * t.g else &NOTHING
    t.y, t.share = &y[0], &share[0]
    t.log_prior = &log_prior[0]
    t.doubt = &doubt[0] if t.g else &NOTHING
    t.start = &start[0] if t.g else &NOTHING
    t.tie = tie
    return t


def fit(const double[:, :, ::1] x, const int32_t[::1] y, const double[::1] share, const double[::1] log_prior,
        const double[::1] doubt, const double[::1] start, double tie, double[::1] r, double[::1] b, Py_ssize_t steps,
        double tolerance, Py_ssize_t rows, double least):
    """Moves weights r (g,), offsets b (k,) to the minimum of Σ share·(−log P(y)) + ½ Σ doubt (r − start)² + ½ tie |b|²,
    r ≥ 0, and returns the first term there. `x` is (n, k, g), with n, k ≥ 1. At most `rows` rows give the Hessian."""
    cdef double loss
    cdef Problem t = problem(x, y, share, log_prior, doubt, start, tie)
    with nogil:
        loss = pool_fit(&t, &r[0] if t.g else &NOTHING, &b[0], steps, tolerance, rows, least)
    if isnan(loss):
        raise MemoryError()
    return loss


def curvature(const double[:, :, ::1] x, const int32_t[::1] y, const double[::1] share, const double[::1] log_prior,
              const double[::1] doubt, double tie, const double[::1] r, const double[::1] b, const int64_t[::1] at,
              double[:, ::1] out):
    """Its second derivatives by the coordinates `at` (of g weights, then k offsets), into the lower half of out."""
    cdef double loss
    cdef Py_ssize_t m = at.shape[0]
    cdef Problem t = problem(x, y, share, log_prior, doubt, r, tie)
    cdef double* room
    cdef int64_t* classes
    if not m:
        return
    room = <double*> malloc((t.n * t.k + (2 * HELD + 1) * m + t.k) * sizeof(double))
    classes = <int64_t*> malloc(2 * t.k * sizeof(int64_t))
    if room == NULL or classes == NULL:
        free(room)
        free(classes)
        raise MemoryError()
    with nogil:
        pool_value(&t, &r[0] if t.g else &NOTHING, &b[0], room, NULL, &loss)
        pool_curvature(&t, room, &at[0], m, 1, 0.0, room + t.n * t.k, classes, &out[0, 0])
    free(room)
    free(classes)


def spread(const double[:, :, ::1] evidence, double[::1] square, double[::1] centre):
    """Adds Σ x² over rows and classes, and Σ (mean over classes)², of each vector of evidence (n, g, k)."""
    if evidence.shape[0] * evidence.shape[1] * evidence.shape[2]:
        with nogil:
            pool_spread(&evidence[0, 0, 0], evidence.shape[0], evidence.shape[1], evidence.shape[2], &square[0], &centre[0])


def arrange(const double[:, :, ::1] evidence, const double[::1] spread, double[:, :, ::1] out):
    """Evidence (n, g, k) in units of the spreads, into out (n, k, g), which may be the same memory."""
    cdef Py_ssize_t n = evidence.shape[0], g = evidence.shape[1], k = evidence.shape[2]
    cdef double* room
    if out.shape[0] != n or out.shape[1] != k or out.shape[2] != g or spread.shape[0] != g:
        raise ValueError("the evidence does not fit")
    if not n * g * k:
        return
    room = <double*> malloc(g * k * sizeof(double))
    if room == NULL:
        raise MemoryError()
    with nogil:
        pool_arrange(&evidence[0, 0, 0], n, g, k, &spread[0], room, &out[0, 0, 0])
    free(room)
