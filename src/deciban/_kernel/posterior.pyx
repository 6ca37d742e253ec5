# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Bayes' rule in log space: log-joint → posterior, by log-sum-exp."""
from libc.math cimport exp, log, INFINITY
from libc.stdlib cimport free, malloc

cdef extern from "loops.h":
    void exp_block(double*, Py_ssize_t) noexcept nogil

cdef enum:
    ROWS = 128  # rows whose exponentials are taken in one go


def normalise(double[:, ::1] log_joint, const double[::1] log_prior, double[::1] log_evidence, bint logs):
    """Turn log-joints into posteriors in place (their logarithms with `logs`); write log p(x) if requested.

    A row that is −∞ for every class (0/0) becomes the prior. Returns the number of such rows, and the first row that
    holds a NaN or +∞ (−1 if none).
    """
    cdef Py_ssize_t n = log_joint.shape[0], k = log_joint.shape[1], start, rows, i, c, ties = 0, bad = -1
    cdef double total
    cdef double* row
    cdef double* block
    cdef double* top
    if n == 0 or k == 0:
        return 0, -1
    block = <double*> malloc(ROWS * (k + 1) * sizeof(double))
    if block == NULL:
        raise MemoryError()
    top = block + ROWS * k
    with nogil:
        start = 0
        while start < n:
            rows = min(<Py_ssize_t> ROWS, n - start)
            for i in range(rows):
                row = &log_joint[start + i, 0]
                top[i] = -INFINITY
                for c in range(k):
                    if not row[c] <= top[i]:  # greater, or NaN
                        top[i] = row[c]
                for c in range(k):
                    block[i * k + c] = row[c] - top[i]
            exp_block(block, rows * k)
            for i in range(rows):
                row = &log_joint[start + i, 0]
                if top[i] == -INFINITY:
                    ties += 1
                    if log_evidence is not None:
                        log_evidence[start + i] = -INFINITY
                    for c in range(k):
                        row[c] = log_prior[c] if logs else exp(log_prior[c])
                    continue
                total = 0.0
                for c in range(k):
                    total += block[i * k + c]
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
    cdef Py_ssize_t n = log_joint.shape[0], k = log_joint.shape[1], i, c, at, ties = 0, bad = -1, likeliest = 0
    cdef double top
    if k == 0:
        return 0, -1
    for c in range(k):
        if log_prior[c] > log_prior[likeliest]:
            likeliest = c
    with nogil:
        for i in range(n):
            top = -INFINITY
            at = -1
            for c in range(k):
                if not log_joint[i, c] < INFINITY and bad < 0:  # +∞, or NaN
                    bad = i
                if log_joint[i, c] > top:
                    top = log_joint[i, c]
                    at = c
            if at < 0:
                ties += 1
                at = likeliest
            out[i] = at
    return ties, bad
