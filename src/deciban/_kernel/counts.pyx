# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Counts by class, from category codes and from sparse matrices; what values these hold; and the bins of numbers."""
from libc.math cimport floor
from libc.stdint cimport uint32_t, uint64_t

cdef extern from "loops.h":
    bint strange_short(const void*, Py_ssize_t, uint32_t) noexcept nogil
    bint strange_long(const void*, Py_ssize_t, uint64_t) noexcept nogil
    bint inside_int(const int*, Py_ssize_t, int, Py_ssize_t*) noexcept nogil
    bint inside_long(const long long*, Py_ssize_t, long long, Py_ssize_t*) noexcept nogil
    void bins_of(const double*, Py_ssize_t, const double*, Py_ssize_t, int*) noexcept nogil
    void heights_of(const double*, Py_ssize_t, const double*, const double*, Py_ssize_t, double*, Py_ssize_t) noexcept nogil

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


ctypedef fused label:
    unsigned char
    int
    long long


def strange(const value[::1] values):
    """Whether some value is negative (or −0), infinite or NaN: one reading, as quick as memory is."""
    cdef bint found = False
    if values.shape[0]:
        with nogil:
            if value is float:
                found = strange_short(&values[0], values.shape[0], 0x00800000)
            elif value is double:
                found = strange_long(&values[0], values.shape[0], 0x0010000000000000)
            elif value is int:
                found = strange_short(&values[0], values.shape[0], 0)
            else:
                found = strange_long(&values[0], values.shape[0], 0)
    return bool(found)


def bins(const double[::1] values, const double[::1] cuts, int[::1] out):
    """out[i]: the bin of a value, which is 1 plus how many of the cuts, ascending, are below it; 0 for NaN."""
    if out.shape[0] != values.shape[0] or cuts.shape[0] >= 1 << 30:
        raise ValueError(f"there are {values.shape[0]} values, {cuts.shape[0]} cuts and {out.shape[0]} places for bins")
    if values.shape[0]:
        with nogil:
            bins_of(&values[0], values.shape[0], &cuts[0] if cuts.shape[0] else NULL, cuts.shape[0], &out[0])


def first_of_bins(const long long[::1] count, Py_ssize_t bins, Py_ssize_t most, long long[::1] out):
    """Where each bin begins among sorted values with these counts, written to `out`; returns how many there are.

    A frequent value is a bin, and the others fill the remaining bins evenly, by the middle of each value's rows. If that
    makes `most` bins or more, because frequent values split the others, only values twice as frequent are.
    """
    cdef Py_ssize_t m = count.shape[0], i, frequent, found = 0
    cdef long long total = 0, rest, before, least
    cdef double bar, share, place, last
    cdef bint after, open_
    if out.shape[0] != m or bins < 1 or most < 2:
        raise ValueError(f"there are {m} counts and {out.shape[0]} places, for {bins} bins and fewer than {most}")
    for i in range(m):
        if count[i] < 1 or count[i] > 1 << 53:
            raise ValueError(f"count {i} is {count[i]}: counts are numbers of rows")
        total += count[i]
    if not m:
        return 0
    bar = <double> total / <double> bins
    with nogil:
        while True:
            frequent, rest, least = 0, 0, 0
            for i in range(m):
                if <double> count[i] >= bar:
                    frequent += 1
                    least = count[i] if least == 0 or count[i] < least else least
                else:
                    rest += count[i]
            share = <double> rest / <double> max(1, bins - frequent)
            share = max(share, 1.0)
            found, before, last, after = 0, 0, -1.0, False
            for i in range(m):
                open_ = <double> count[i] >= bar
                if open_:
                    place = floor(<double> before / share)
                else:
                    before += count[i]
                    place = floor((<double> before - <double> count[i] / 2.0) / share)
                if open_ or after or place > last:
                    out[found] = i
                    found += 1
                last, after = place, open_
            if found < most or frequent == 0:
                break
            bar = max(bar, 2.0 * <double> least)
    return found


def heights(const double[::1] values, const double[::1] knots, const double[::1] height, double[:] out):
    """out[i]: the height at a value, on straight lines through (knots, height); 0 for NaN. The knots ascend."""
    if out.shape[0] != values.shape[0] or knots.shape[0] != height.shape[0] or not knots.shape[0]:
        raise ValueError(f"there are {values.shape[0]} values, {knots.shape[0]} knots, {height.shape[0]} heights of them and "
                         f"{out.shape[0]} places")
    if values.shape[0]:
        with nogil:
            heights_of(&values[0], values.shape[0], &knots[0], &height[0], knots.shape[0], &out[0],
                       out.strides[0] // <Py_ssize_t> sizeof(double))


def csr_fault(const index[::1] indices, const index[::1] indptr, Py_ssize_t columns):
    """What is wrong with the indices of sparse rows: 0, nothing; 1, a column twice or out of order; 2, out of range."""
    cdef Py_ssize_t n = indptr.shape[0] - 1, last, i, falls = 0, start, before
    cdef bint sound
    if n < 0 or indptr[0] != 0:
        return 2
    with nogil:
        sound = True
        for i in range(n):
            sound &= indptr[i] <= indptr[i + 1]
        last = indptr[n]
        sound &= 0 <= last <= indices.shape[0]
        if sound and last:
            if index is int:
                sound = inside_int(&indices[0], last, <int> min(columns, <Py_ssize_t> 2147483647), &falls)
            else:
                sound = inside_long(&indices[0], last, columns, &falls)
            before = 0
            for i in range(n):  # from one row to the next, columns may start from any number
                start = indptr[i]
                if before < start < last:
                    falls -= indices[start] <= indices[start - 1]
                before = start
    return 2 if not sound else 1 if falls else 0


def label_range(const label[::1] y):
    """The smallest and the largest label, in one pass."""
    cdef Py_ssize_t n = y.shape[0], i
    cdef label low = y[0], high = y[0]
    with nogil:
        for i in range(n):
            low = y[i] if y[i] < low else low
            high = y[i] if y[i] > high else high
    return low, high


def label_codes(const label[::1] y, long long low, unsigned char[::1] seen, int[::1] out):
    """out[i] = y[i] − low, and seen[y[i] − low] = 1. Returns how much of `seen` is used, up to the largest label; 0 if a
    label lies outside `seen`, and then `out` is incomplete."""
    cdef Py_ssize_t n = y.shape[0], size = seen.shape[0], i
    cdef unsigned long long place, used = 0
    with nogil:
        for i in range(n):
            place = <unsigned long long> (y[i] - low)
            if place >= <unsigned long long> size:
                used = 0
                break
            seen[place] = 1
            out[i] = <int> place
            used = max(used, place + 1)
    return used


def class_weights(const int[::1] y, const double[::1] weight, double[::1] out):
    """out[class] += w, row by row; labels outside 0..K−1 are skipped."""
    cdef Py_ssize_t n = y.shape[0], k = out.shape[0], i
    cdef int c
    with nogil:
        for i in range(n):
            c = y[i]
            if 0 <= c < k:
                out[c] += 1.0 if weight is None else weight[i]


def code_counts(const code[:, :] X, const int[::1] y, const double[::1] weight,
                const Py_ssize_t[::1] offset, double[:, ::1] counts):
    """counts[class, offset[j] + code] += w for every entry; codes outside a column's range are skipped."""
    cdef Py_ssize_t n = X.shape[0], d = X.shape[1], k = counts.shape[0], i, j, cell
    cdef int c
    cdef double w = 1.0
    cdef bint weighted = weight is not None
    with nogil:
        for i in range(n):
            c = y[i]
            if c < 0 or c >= k:
                continue
            if weighted:
                w = weight[i]
            for j in range(d):
                if code is float or code is double:
                    if X[i, j] != X[i, j]:
                        continue
                cell = <Py_ssize_t> X[i, j]
                if 0 <= cell < offset[j + 1] - offset[j]:
                    counts[c, offset[j] + cell] += w


def code_counts_soft(const code[:, :] X, const double[:, ::1] labels,
                     const Py_ssize_t[::1] offset, double[:, ::1] counts):
    """counts[cell, c] += labels[i, c] for every entry: `counts` is cell-major here."""
    cdef Py_ssize_t n = X.shape[0], d = X.shape[1], k = counts.shape[1], i, j, c, cell
    with nogil:
        for i in range(n):
            for j in range(d):
                if code is float or code is double:
                    if X[i, j] != X[i, j]:
                        continue
                cell = <Py_ssize_t> X[i, j]
                if 0 <= cell < offset[j + 1] - offset[j]:
                    for c in range(k):
                        counts[offset[j] + cell, c] += labels[i, c]


cdef inline double reading(double v, bint square, bint binary, double threshold) noexcept nogil:
    """What an entry adds: its value, its square, or 1[v > threshold]; NaN stays NaN."""
    if binary:
        return 1.0 if v > threshold else (0.0 if v == v else v)
    return v * v if square else v


def csr_sums(const value[::1] data, const index[::1] indices, const index[::1] indptr, const int[::1] y,
             const double[::1] weight, double[:, ::1] x, bint square, bint binary=False, double threshold=0.0):
    """x[class, column] += w·reading over the stored entries of compressed rows."""
    cdef Py_ssize_t n = indptr.shape[0] - 1, k = x.shape[0], i, e
    cdef int c
    cdef double w = 1.0
    with nogil:
        for i in range(n):
            c = y[i]
            if c < 0 or c >= k:
                continue
            if weight is not None:
                w = weight[i]
            for e in range(indptr[i], indptr[i + 1]):
                x[c, indices[e]] += w * reading(<double> data[e], square, binary, threshold)


def csc_sums(const value[::1] data, const index[::1] indices, const index[::1] indptr, const int[::1] y,
             const double[::1] weight, double[:, ::1] x, bint square, bint binary=False, double threshold=0.0):
    """As csr_sums for compressed columns: `indices` are rows, `indptr` runs over columns."""
    cdef Py_ssize_t d = indptr.shape[0] - 1, k = x.shape[0], j, e
    cdef int c
    cdef double w = 1.0
    with nogil:
        for j in range(d):
            for e in range(indptr[j], indptr[j + 1]):
                c = y[indices[e]]
                if c < 0 or c >= k:
                    continue
                if weight is not None:
                    w = weight[indices[e]]
                x[c, j] += w * reading(<double> data[e], square, binary, threshold)
