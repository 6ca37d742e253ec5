# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Bayes' rule in log space: log-joint → posterior, by log-sum-exp."""
from libc.math cimport exp, fabs, log, log1p, INFINITY, NAN
from libc.stdlib cimport free, malloc

cdef extern from "loops.h":
    double below_top(const double*, Py_ssize_t, double*) noexcept nogil
    void places_of_top(const double*, Py_ssize_t, Py_ssize_t, Py_ssize_t*) noexcept nogil
    double sum_of(const double*, Py_ssize_t) noexcept nogil
    void exp_block(double*, Py_ssize_t) noexcept nogil
    bint pair_gaps(const double*, Py_ssize_t, double*) noexcept nogil
    void pair_shares(double*, Py_ssize_t, const double*) noexcept nogil

cdef enum:
    ROWS = 128      # rows whose exponentials are taken in one go, at most
    NUMBERS = 2048  # and numbers, so that they stay in the first-level cache


def normalise(double[:, ::1] log_joint, const double[::1] log_prior, double[::1] log_evidence, bint logs):
    """Turn log-joints into posteriors in place (their logarithms with `logs`); write log p(x) if requested.

    A row that is −∞ for every class (0/0) becomes the prior, and one with a NaN or +∞ becomes NaN. Returns the number of
    rows of the first kind, and the first row of the second (−1 if none).
    """
    cdef Py_ssize_t n = log_joint.shape[0], k = log_joint.shape[1], start, rows, i, c, ties = 0, bad = -1, some
    cdef double total
    cdef double* row
    cdef double* block
    cdef double* top
    if n == 0 or k == 0:
        return 0, -1
    if k == 2:
        return normalise_two(log_joint, log_prior, log_evidence, logs)
    some = min(<Py_ssize_t> ROWS, max(1, NUMBERS // k))
    block = <double*> malloc(some * (k + 1) * sizeof(double))
    if block == NULL:
        raise MemoryError()
    top = block + some * k
    with nogil:
        start = 0
        while start < n:
            rows = min(some, n - start)
            for i in range(rows):
                top[i] = below_top(&log_joint[start + i, 0], k, block + i * k)
            exp_block(block, rows * k)
            for i in range(rows):
                row = &log_joint[start + i, 0]
                total = sum_of(block + i * k, k)
                if top[i] == -INFINITY and sum_of(row, k) == -INFINITY:  # otherwise a NaN is among them
                    ties += 1
                    if log_evidence is not None:
                        log_evidence[start + i] = -INFINITY
                    for c in range(k):
                        row[c] = log_prior[c] if logs else exp(log_prior[c])
                    continue
                if total != total and bad < 0:  # some entry was NaN or +∞
                    bad = start + i
                if log_evidence is not None:
                    log_evidence[start + i] = top[i] + log(total)
                if logs:
                    total = log(total)
                    for c in range(k):  # in this order: log(total) may be below the rounding of a log-joint
                        row[c] = (row[c] - top[i]) - total
                else:
                    total = 1.0 / total
                    for c in range(k):
                        row[c] = block[i * k + c] * total
            start += rows
    free(block)
    return ties, bad


cdef tuple normalise_two(double[:, ::1] log_joint, const double[::1] log_prior, double[::1] log_evidence, bint logs):
    """The same with two classes: one exponential a row, of the log-odds against the likelier one."""
    cdef Py_ssize_t n = log_joint.shape[0], start, rows, i, ties = 0, bad = -1
    cdef double a, b, top, rest
    cdef bint strange
    cdef double* row
    cdef double block[ROWS]
    with nogil:
        start = 0
        while start < n:
            rows = min(<Py_ssize_t> ROWS, n - start)
            strange = pair_gaps(&log_joint[start, 0], rows, block)
            exp_block(block, rows)
            if not (strange or logs) and log_evidence is None:
                pair_shares(&log_joint[start, 0], rows, block)
                start += rows
                continue
            for i in range(rows):
                row = &log_joint[start + i, 0]
                a = row[0]
                b = row[1]
                top = b if b > a else a
                if not a + b < INFINITY and bad < 0:  # some entry is NaN or +∞
                    bad = start + i
                if a == b == -INFINITY:
                    ties += 1
                    if log_evidence is not None:
                        log_evidence[start + i] = -INFINITY
                    row[0] = log_prior[0] if logs else exp(log_prior[0])
                    row[1] = log_prior[1] if logs else exp(log_prior[1])
                    continue
                rest = log1p(block[i])
                if log_evidence is not None:
                    log_evidence[start + i] = top + rest
                if not a + b < INFINITY:
                    row[0] = row[1] = NAN
                elif logs:
                    row[0] = (a - top) - rest
                    row[1] = (b - top) - rest
                else:
                    pair_shares(row, 1, block + i)
            start += rows
    return ties, bad


def add_table(double[:, ::1] out, const double[:, ::1] table, const int[::1] y):
    """out[i] += table[y[i]], or table[0] for every row without `y`: log priors."""
    cdef Py_ssize_t n = out.shape[0], k = out.shape[1], i, c
    cdef const double* row
    if n == 0 or k == 0:
        return
    with nogil:
        for i in range(n):
            row = &table[y[i] if y is not None else 0, 0]
            for c in range(k):
                out[i, c] += row[c]


def best(const double[:, ::1] log_joint, const double[::1] log_prior, Py_ssize_t[::1] out):
    """The class with the greatest log-joint, row by row; if all are −∞, the one with the greatest prior.

    Returns the number of such rows, and the first row that holds a NaN or +∞ (−1 if none).
    """
    cdef Py_ssize_t n = log_joint.shape[0], k = log_joint.shape[1], i, c, ties = 0, bad = -1, likeliest = 0
    cdef double top
    if k == 0:
        return 0, -1
    for c in range(k):
        if log_prior[c] > log_prior[likeliest]:
            likeliest = c
    with nogil:
        for i in range(n if k == 2 else 0):
            out[i] = log_joint[i, 1] > log_joint[i, 0]
            top = log_joint[i, 0] + log_joint[i, 1]
            if not fabs(top) < INFINITY:
                if not top < INFINITY and bad < 0:
                    bad = i
                if log_joint[i, 0] == log_joint[i, 1] == -INFINITY:
                    ties += 1
                    out[i] = likeliest
        if k != 2 and n:
            places_of_top(&log_joint[0, 0], n, k, &out[0])
            for i in range(n):
                if out[i] < 0:
                    if out[i] == -2 and bad < 0:
                        bad = i
                    ties += out[i] == -1
                    out[i] = likeliest
    return ties, bad
