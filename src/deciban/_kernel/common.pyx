# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Products of sparse rows: sums of the products of each row with itself, and products with matrices.

Row i has the numbers x[e] in the columns at[e], e from indptr[i] to indptr[i + 1], each column once at most.
"""

from libc.stdint cimport int32_t, int64_t

cdef extern from "common_loops.h":
    void squares(const int64_t*, const int32_t*, const double*, const double*, int64_t, double*, int64_t,
                 int64_t) noexcept nogil
    void mirrored(double*, int64_t) noexcept nogil


cdef int check(const int64_t[::1] indptr, const int32_t[::1] at, const double[::1] x, int64_t columns, int64_t first,
               int64_t last) except -1:
    cdef int64_t e, i
    cdef bint wrong = at.shape[0] != x.shape[0] or first < 0 or last >= indptr.shape[0]
    if not wrong:
        with nogil:
            for i in range(first, last):
                wrong |= indptr[i] > indptr[i + 1]
            wrong |= last > first and (indptr[first] < 0 or indptr[last] > at.shape[0])
            if not wrong and last > first:
                for e in range(indptr[first], indptr[last]):
                    wrong |= at[e] < 0 or at[e] >= columns
    if wrong:
        raise ValueError("a row has a column that does not exist")
    return 0


def gather(const int64_t[::1] indptr, const int32_t[::1] indices, const int32_t[::1] column, int64_t[::1] ends,
           int32_t[::1] at):
    """For each row the columns of its items, in `at` from ends[i] on, which then points past the last; −1: none.

    Without `at`, only ends[i + 1] += how many there are.
    """
    cdef int64_t i, e, to, n = indptr.shape[0] - 1, size = column.shape[0]
    cdef bint wrong = ends.shape[0] != n + 1
    check_items(indptr, indices, size)
    with nogil:
        for i in range(n if not wrong else 0):
            if at is None:
                for e in range(indptr[i], indptr[i + 1]):
                    ends[i + 1] += indices[e] >= 0 and column[indices[e]] >= 0
                continue
            to = ends[i]
            for e in range(indptr[i], indptr[i + 1]):
                if indices[e] >= 0 and column[indices[e]] >= 0:
                    if to >= at.shape[0]:
                        wrong = True
                        break
                    at[to] = column[indices[e]]
                    to += 1
            ends[i] = to
    if wrong:
        raise ValueError("the columns of rows do not fit in the buffer")


cdef int check_items(const int64_t[::1] indptr, const int32_t[::1] indices, int64_t size) except -1:
    cdef int64_t i, e
    cdef bint wrong = indptr.shape[0] < 1 or indptr[0] < 0 or indptr[indptr.shape[0] - 1] > indices.shape[0]
    if not wrong:
        with nogil:
            for i in range(indptr.shape[0] - 1):
                wrong |= indptr[i] > indptr[i + 1]
            for e in range(indices.shape[0]):
                wrong |= indices[e] >= size
    if wrong:
        raise ValueError("a row has an item that does not exist")
    return 0


def sums(const int64_t[::1] indptr, const int32_t[::1] at, const double[::1] x, const int32_t[::1] y,
         const double[::1] weight, double[:, ::1] by_class, double[:, ::1] products, Py_ssize_t first, Py_ssize_t last):
    """by_class (k, d) += Σ weight·x of the rows of each class, and products (d, d), its lower half, += Σ weight·x xᵀ of
    all rows; first..last. A row of class −1 adds nothing."""
    cdef int64_t i, a, b
    cdef double mine
    check(indptr, at, x, min(products.shape[0], products.shape[1], by_class.shape[1]), first, last)
    if last > first and max(y[first:last]) >= by_class.shape[0]:
        raise ValueError("a row has a class that does not exist")
    with nogil:
        for i in range(first, last):
            if y[i] < 0 or weight[i] == 0.0:
                continue
            for a in range(indptr[i], indptr[i + 1]):
                mine = weight[i] * x[a]
                by_class[y[i], at[a]] += mine
                for b in range(indptr[i], a + 1):
                    if at[b] <= at[a]:
                        products[at[a], at[b]] += mine * x[b]
                    else:
                        products[at[b], at[a]] += mine * x[b]


def project(const int64_t[::1] indptr, const int32_t[::1] at, const double[::1] x, const double[:, ::1] matrix,
            double[:, ::1] out, Py_ssize_t first, Py_ssize_t last):
    """out (n, m) = x · matrix (d, m), for rows first..last."""
    cdef int64_t i, e, c, m = matrix.shape[1]
    cdef double mine
    check(indptr, at, x, matrix.shape[0], first, last)
    with nogil:
        for i in range(first, last):
            for c in range(m):
                out[i, c] = 0.0
            for e in range(indptr[i], indptr[i + 1]):
                mine = x[e]
                for c in range(m):
                    out[i, c] += mine * matrix[at[e], c]


def square(const int64_t[::1] indptr, const int32_t[::1] at, const double[::1] x, const double[:, :, ::1] matrices,
           double[:, ::1] out, Py_ssize_t first, Py_ssize_t last):
    """out (n, 2) = xᵀ · matrix · x, of two symmetric matrices (d, d, 2), for rows first..last."""
    check(indptr, at, x, min(matrices.shape[0], matrices.shape[1]), first, last)
    if matrices.shape[2] != 2 or out.shape[1] != 2:
        raise ValueError("there must be two matrices")
    if first >= last or not matrices.shape[0]:
        return
    with nogil:
        squares(&indptr[0], &at[0] if at.shape[0] else NULL, &x[0] if x.shape[0] else NULL, &matrices[0, 0, 0],
                matrices.shape[0], &out[0, 0], first, last)


def mirror(double[:, ::1] matrix):
    """Makes a square matrix symmetric: copies its lower half to the upper one."""
    if matrix.shape[1] != matrix.shape[0]:
        raise ValueError("the matrix must be square")
    if matrix.shape[0]:
        with nogil:
            mirrored(&matrix[0, 0], matrix.shape[0])


def unpack(const double[::1] half, double[:, ::1] products, double more):
    """Fills a symmetric matrix from its lower half, row by row. Returns whether it can be a matrix of products P:
    no entry is negative, and P[i, j]² ≤ more·P[i, i]·P[j, j]."""
    cdef int64_t i, j, n = products.shape[0]
    cdef const double* row
    cdef bint good = True
    if products.shape[1] != n or half.shape[0] != n * (n + 1) // 2:
        raise ValueError("half must hold the lower half of the matrix")
    if n == 0:
        return True
    with nogil:
        row = &half[0]
        for i in range(n):
            for j in range(i + 1):
                products[i, j] = row[j]
                good &= row[j] >= 0.0
            for j in range(i):
                good &= row[j] * row[j] <= row[i] * products[j, j] * more
            row += i + 1
        mirrored(&products[0, 0], n)
    return bool(good)
