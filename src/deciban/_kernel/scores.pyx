# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Log-probabilities that are sums of table entries: category codes, and linear forms of sparse rows."""
from libc.math cimport log
from libc.stdlib cimport free, malloc

cdef extern from "loops.h":
    void code_row(const Py_ssize_t*, Py_ssize_t, const Py_ssize_t*, const double*, const double*, Py_ssize_t,
                  double*) noexcept nogil
    void dot_rows_int(const double*, const int*, const int*, Py_ssize_t, const double*, Py_ssize_t,
                      double*) noexcept nogil
    void dot_rows_long(const double*, const long long*, const long long*, Py_ssize_t, const double*, Py_ssize_t,
                       double*) noexcept nogil

cdef enum:
    BATCH = 4096  # entries read at a time

ctypedef fused code:
    unsigned char
    int
    long long
    float
    double

ctypedef fused index:
    int
    long long

ctypedef fused value:
    int
    long long
    float
    double


def code_scores(const code[:, :] X, const Py_ssize_t[::1] offset, const double[:, ::1] table,
                const double[:, ::1] unseen, double[:, ::1] out):
    """out[i] += Σ_j table[offset[j] + x_ij], rows of K classes; a code past the table adds unseen[j],
    a negative code or NaN (missing) adds nothing."""
    cdef Py_ssize_t n = X.shape[0], d = X.shape[1], k = out.shape[1], i, j
    cdef Py_ssize_t* codes
    if n == 0 or d == 0 or k == 0:
        return
    codes = <Py_ssize_t*> malloc(d * sizeof(Py_ssize_t))
    if codes == NULL:
        raise MemoryError()
    with nogil:
        for i in range(n):
            for j in range(d):
                if code is float or code is double:
                    codes[j] = <Py_ssize_t> X[i, j] if X[i, j] == X[i, j] else -1
                else:
                    codes[j] = <Py_ssize_t> X[i, j]
            code_row(codes, d, &offset[0], &table[0, 0] if table.shape[0] else NULL, &unseen[0, 0], k, &out[i, 0])
    free(codes)


def code_own(const code[:, :] X, const int[::1] y, const Py_ssize_t[::1] offset, const double[:, ::1] table,
             double[::1] out):
    """out[i] += Σ_j table[y_i, offset[j] + x_ij]; codes that are missing or past the table add nothing."""
    cdef Py_ssize_t n = X.shape[0], d = X.shape[1], i, j, cell
    cdef double total
    with nogil:
        for i in range(n):
            if y[i] < 0:
                continue
            total = 0.0
            for j in range(d):
                if code is float or code is double:
                    if X[i, j] != X[i, j]:
                        continue
                cell = <Py_ssize_t> X[i, j]
                if 0 <= cell < offset[j + 1] - offset[j]:
                    total += table[y[i], offset[j] + cell]
            out[i] += total


def code_evidence_without(const int[:, ::1] X, const int[::1] y, const double[::1] taken, const Py_ssize_t[::1] offset,
                          const double[:, ::1] counts, const double[::1] back, const double[::1] own,
                          const double[::1] strength, const double[:, ::1] total, double faint,
                          const double[::1] weights, const Py_ssize_t[::1] place, double[:, ::1] out,
                          double[:, :, ::1] each):
    """The evidence of columns of codes about learned rows of classes y, each without itself, less its mean over the classes.

    `counts` (cells, k) are the smoothed counts of values in each class, `back` (cells,) those in
    all classes, `own` the share of a row's weight that stays in its own cell, `total` (d, k) the weight of each class.
    Column j adds weights[j] times its evidence to out (n, k), and if place[j] ≥ 0 it is also stored in each[:, place[j]].
    """
    cdef Py_ssize_t n = X.shape[0], d = X.shape[1], k = out.shape[1], i, j, c, cell
    cdef double s, gone, rest, sum_, mean, less, prior
    cdef double* said = <double*> malloc(max(1, k) * sizeof(double))
    cdef double* all_ = <double*> malloc(max(1, d) * sizeof(double))
    if said == NULL or all_ == NULL:
        free(said)
        free(all_)
        raise MemoryError()
    with nogil:
        for j in range(d):
            all_[j] = 0.0
            for c in range(k):
                all_[j] += total[j, c]
        for i in range(n):
            for j in range(d):
                if X[i, j] < 0 or (weights[j] == 0.0 and place[j] < 0):
                    continue
                cell = offset[j] + X[i, j]
                s = strength[j]
                gone = taken[i] * own[cell]
                rest = back[cell] - gone if back[cell] > gone else 0.0
                less = all_[j] - taken[i]
                if rest <= faint * less:  # no other row has the value, or one close to it
                    continue
                prior = s * rest / less
                mean = 0.0
                for c in range(k):
                    sum_ = counts[cell, c]
                    less = total[j, c]
                    if c == y[i]:
                        sum_ = sum_ - gone if sum_ > gone else 0.0
                        less = less - taken[i] if less > taken[i] else 0.0
                    said[c] = log((sum_ + prior) / (less + s))
                    mean += said[c]
                mean /= k
                for c in range(k):
                    out[i, c] += weights[j] * (said[c] - mean)
                if place[j] >= 0:
                    for c in range(k):
                        each[i, place[j], c] = said[c] - mean
    free(said)
    free(all_)


def csr_own_logs(const value[::1] data, const index[::1] indices, const index[::1] indptr, const int[::1] y,
                 const double[::1] weight, const double[:, ::1] counts, const double[:, ::1] prior,
                 const double[:, ::1] once, double residue, double[::1] out):
    """out[i] += Σ_e v_e · log(counts[y_i, e] − w_i·v_e + prior[y_i, e]): the score of row i under its own class without it.

    `once` holds that logarithm for v = w = 1, as for most words of most documents. What is left of a count by
    rounding alone (within `residue` of it) counts as zero.
    """
    cdef Py_ssize_t n = indptr.shape[0] - 1, i, e
    cdef int c
    cdef double v, w, left, total
    with nogil:
        for i in range(n):
            c = y[i]
            if c < 0:
                continue
            w = 1.0 if weight is None else weight[i]
            total = 0.0
            for e in range(indptr[i], indptr[i + 1]):
                v = <double> data[e]
                if v == 1.0 and w == 1.0:
                    total += once[c, indices[e]]
                elif v != 0.0 and v == v:
                    left = counts[c, indices[e]] - w * v
                    if left <= counts[c, indices[e]] * residue:
                        left = 0.0
                    total += v * log(left + prior[c, indices[e]])
            out[i] += total


def csr_dot(const value[::1] data, const index[::1] indices, const index[::1] indptr,
            const double[:, ::1] weights, double[:, ::1] out, bint binary=False, double threshold=0.0):
    """out[i] += Σ_e value_e · weights[column_e], `weights` of shape (columns, K)."""
    cdef Py_ssize_t n = indptr.shape[0] - 1, k = out.shape[1], i, e, stop, start, entries, room = BATCH
    cdef double v
    cdef double* values
    if n == 0 or k == 0 or indptr[n] == indptr[0]:
        return
    for i in range(n):
        room = max(room, <Py_ssize_t> (indptr[i + 1] - indptr[i]))
    values = <double*> malloc(room * sizeof(double))
    if values == NULL:
        raise MemoryError()
    with nogil:
        i = 0
        while i < n:  # as many rows as fit in the buffer, but at least one
            start = indptr[i]
            stop = i + 1
            while stop < n and indptr[stop + 1] - start <= room:
                stop += 1
            entries = indptr[stop] - start
            for e in range(entries):
                v = <double> data[start + e]
                values[e] = (1.0 if v > threshold else (0.0 if v == v else v)) if binary else v
            if entries > 0:
                if index is int:
                    dot_rows_int(values, &indices[start], &indptr[i], stop - i, &weights[0, 0], k, &out[i, 0])
                else:
                    dot_rows_long(values, &indices[start], &indptr[i], stop - i, &weights[0, 0], k, &out[i, 0])
            i = stop
    free(values)
