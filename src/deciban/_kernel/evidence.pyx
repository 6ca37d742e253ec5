# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Sums of items by class, kept sparse, and the evidence of items.

The sums N are compressed by item: `ptr` (v+1) is where an item's classes start, `cls` the classes, ascending,
and `val` how much of the item each has. Most items occur in a few classes only.
"""

import numpy as np

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport calloc, free, malloc

cdef extern from "evidence_loops.h":
    enum:
        GROUPS
    ctypedef struct Derived:
        int64_t items, classes, strengths, hats, groups
        const int64_t *ptr
        const int32_t *cls
        const int32_t *dense_row
        const double *val
        const double *lift
        const double *known
        const double *total
        const double *dense
        const double *pseudo
        const double *pseudo_left
        const double *entropy
        const double *strength
        const double *knots
        const int32_t *group
        const double *factor
        int64_t width
        const int32_t *wanted
        const int32_t *column
        double least, most
    void derive(const int64_t *ptr, const int32_t *cls, const double *val, const double *pseudo, const double *strength,
                int64_t strengths, int64_t k, const int32_t *dense_row, double *lift, double *known, double *total,
                double *dense, int64_t first, int64_t last) noexcept nogil
    void evidence_rows(const Derived *t, const int64_t *indptr, const int32_t *indices, const double *damp,
                       const int32_t *own, const double *taken, double *out, int64_t out_row, double *absent, int64_t first,
                       int64_t last) noexcept nogil

cdef extern from "answer_loops.h":
    enum:
        LANES
        STRENGTHS
    ctypedef struct Scale:
        int64_t classes, hats, groups
        const double *pseudo
        const double *factor
        const double *knots
        const int32_t *group
        double entropy, least, most
        int lanes
    ctypedef struct Asked:
        const int64_t *indptr
        const int32_t *indices
        const double *damp
        const double *x
        const int32_t *column
        int64_t columns
        const double *slopes
        double *out
        uint8_t *there
    void scale_fill(Scale*, const double*, const double*) noexcept nogil
    int64_t record_size(const Scale*, int64_t) noexcept nogil
    void answer_directly(const Scale*, const Asked*, const int64_t*, const int32_t*, const double*, double*, int64_t,
                         int64_t) noexcept nogil
    void answer_terms(const Scale*, const int64_t*, const int32_t*, const double*, int64_t, double, int64_t, int64_t,
                      double*, double*) noexcept nogil
    ctypedef struct Records:
        const uint32_t *record_of
        int64_t items
        const double *room
    int64_t all_size(const Scale*) noexcept nogil
    void fill_records(const Scale*, const int64_t*, const int32_t*, const double*, const int32_t*, const int32_t*, double*,
                      int64_t, int64_t) noexcept nogil
    ctypedef struct RowRoom:
        double *sums
        const double **records
        int32_t *common
    void answer_by_records(const Scale*, const Asked*, const Records*, RowRoom, int64_t, int64_t) noexcept nogil

cdef extern from "few_classes_loops.h":
    enum:
        CACHE_LINE
        FEW_CLASSES
    int64_t few_size(int64_t) noexcept nogil
    void few_records(const Scale*, const Asked*, const int64_t*, const int32_t*, const double*, const int32_t*,
                     const int32_t*, double*, int64_t, int64_t) noexcept nogil
    void few_by_records(const Scale*, const Asked*, const Records*, int64_t, int64_t) noexcept nogil
    void few_directly(const Scale*, const Asked*, const int64_t*, const int32_t*, const double*, int64_t,
                      int64_t) noexcept nogil

cdef extern from "same_sums.h":
    int64_t group_by_sums(const int64_t*, const int32_t*, const double*, int64_t, int32_t*, int32_t*) noexcept nogil


def class_sums(const int64_t[::1] indptr, const int32_t[::1] indices, const int32_t[::1] y, const double[::1] amount,
               Py_ssize_t v, Py_ssize_t k, int64_t[::1] ptr, int32_t[::1] cls, double[::1] val):
    """Adds amount[i] to (item, y[i]) for every item of row i; rows with y < 0 add nothing. Returns the number of cells.

    `ptr` is (v+1,), `cls` and `val` have room for min(entries, v·k) cells.
    """
    cdef Py_ssize_t n = indptr.shape[0] - 1, i, e, w, c, at = 0
    cdef long long *start = <long long *> calloc(v + 2, sizeof(long long))
    cdef int *row = <int *> calloc(max(1, indptr[n]), sizeof(int))
    cdef double *total = <double *> calloc(max(1, k), sizeof(double))
    cdef unsigned char *seen = <unsigned char *> calloc(max(1, k), 1)
    cdef int low, high
    if start == NULL or row == NULL or total == NULL or seen == NULL:
        free(start)
        free(row)
        free(total)
        free(seen)
        raise MemoryError()
    with nogil:
        for i in range(n):  # which rows an item is in, by counting
            if y[i] >= 0:
                for e in range(indptr[i], indptr[i + 1]):
                    start[indices[e] + 2] += 1
        for w in range(v):
            start[w + 2] += start[w + 1]
        for i in range(n):
            if y[i] >= 0:
                for e in range(indptr[i], indptr[i + 1]):
                    w = indices[e] + 1
                    row[start[w]] = <int> i
                    start[w] += 1
        ptr[0] = 0
        for w in range(v):
            low = <int> k
            high = -1
            for e in range(start[w], start[w + 1]):
                i = row[e]
                c = y[i]
                total[c] += amount[i]
                seen[c] = 1
                low = <int> c if c < low else low
                high = <int> c if c > high else high
            for c in range(low, high + 1):
                if seen[c]:
                    cls[at] = <int> c
                    val[at] = total[c]
                    at += 1
                    total[c] = 0.0
                    seen[c] = 0
            ptr[w + 1] = at
    free(start)
    free(row)
    free(total)
    free(seen)
    return at


def combine(const int64_t[::1] a_ptr, const int32_t[::1] a_cls, const double[::1] a_val,
            const int64_t[::1] b_ptr, const int32_t[::1] b_cls, const double[::1] b_val, const int32_t[::1] b_row,
            double sign, double residue, int64_t[::1] ptr, int32_t[::1] cls, double[::1] val):
    """a + sign·b, where item w of the result is item w of a (if it has one) and b_row[w] of b (−1: none).

    A cell is dropped if at most `residue` times its former value is left. Returns the number of cells, and the first
    item of which b subtracts more than a has (−1: none).
    """
    cdef Py_ssize_t v = b_row.shape[0], va = a_ptr.shape[0] - 1, w, at = 0, i, j, i_end, j_end, short = -1
    cdef double x, was
    cdef int c
    with nogil:
        ptr[0] = 0
        for w in range(v):
            i = a_ptr[w] if w < va else 0
            i_end = a_ptr[w + 1] if w < va else 0
            j = b_ptr[b_row[w]] if b_row[w] >= 0 else 0
            j_end = b_ptr[b_row[w] + 1] if b_row[w] >= 0 else 0
            while i < i_end or j < j_end:
                was = 0.0
                if j >= j_end or (i < i_end and a_cls[i] < b_cls[j]):
                    c = a_cls[i]
                    was = x = a_val[i]
                    i += 1
                elif i >= i_end or b_cls[j] < a_cls[i]:
                    c = b_cls[j]
                    x = sign * b_val[j]
                    j += 1
                else:
                    c = a_cls[i]
                    was = a_val[i]
                    x = was + sign * b_val[j]
                    i += 1
                    j += 1
                if x < -residue * was or (was == 0.0 and x < 0.0):
                    if short < 0:
                        short = w
                elif x > residue * was:
                    cls[at] = c
                    val[at] = x
                    at += 1
            ptr[w + 1] = at
    return at, short


def tables(const int64_t[::1] ptr, const int32_t[::1] cls, const double[::1] val, const double[::1] pseudo,
           const double[::1] strength, double[:, ::1] lift, double[:, ::1] known, double[::1] total,
           const int32_t[::1] dense_row, double[:, :, ::1] dense, Py_ssize_t first, Py_ssize_t last):
    """For items first..last and every strength m: lift = log(1 + N_kw / (m s_k π_k)) of each cell, total = N_w, and
    known = Σ_k (N_kw + m s_k π_k)·lift, where `pseudo` is s_k π_k.

    Strengths come in fours, the lanes of a vector; the lifts of items that occur in most classes (dense_row ≥ 0) are
    also stored side by side, (rows, strengths in use, k).
    """
    if first >= last or cls.shape[0] == 0:
        total[first:last] = 0.0
        known[first:last] = 0.0
        return
    cdef double *side_by_side = &dense[0, 0, 0] if dense.shape[0] else NULL
    with nogil:
        derive(&ptr[0], &cls[0], &val[0], &pseudo[0], &strength[0], dense.shape[1], pseudo.shape[0], &dense_row[0],
               &lift[0, 0], &known[0, 0], &total[0], side_by_side, first, last)


def evidence(const int64_t[::1] indptr, const int32_t[::1] indices, const double[::1] damp, const int32_t[::1] own,
             const double[::1] taken, const int64_t[::1] ptr, const int32_t[::1] cls, const double[::1] val,
             const double[:, ::1] lift, const double[:, ::1] known, const double[::1] total,
             const int32_t[::1] dense_row, const double[:, :, ::1] dense,
             const double[::1] pseudo, const double[::1] pseudo_left, const double[::1] entropy,
             const int32_t[::1] group, const double[::1] factor,
             const double[::1] strength, const double[::1] knots, double least, double most,
             double[:, :, :] out, Py_ssize_t first, Py_ssize_t last, const int32_t[::1] wanted=None,
             const int32_t[::1] column=None):
    """Graded evidence of rows first..last for every class: out (n, strengths · (knots + 2), k), zero at first.

    With `wanted`, for these classes only, in this order; `column` (k,) has their places, −1 for others.

    A row of class own[i] ≥ 0 is first taken out of the sums: taken[i] of each of its items, with s π from
    `pseudo_left`. With own = −1 the sums of all rows are used. `entropy` is H(π) without a row of each class, and last
    with all rows. For each strength there is the items' evidence by how informative the item is (one vector per knot),
    unweighted, and weighted; up to a constant that all classes share. Items outside 0..v−1, and those that are in no
    other row, are no evidence.
    """
    cdef Derived t
    cdef double *absent
    if out.strides[2] != sizeof(double) or out.strides[1] != out.shape[2] * sizeof(double):
        raise ValueError("a row of the evidence must be contiguous")
    if (wanted is None) != (column is None) or (
            out.shape[2] != pseudo.shape[0] if column is None else
            (out.shape[2] != wanted.shape[0] or column.shape[0] != pseudo.shape[0] or not wanted.shape[0])):
        raise ValueError("a row of the evidence must have a place for each class that is wanted")
    if factor.shape[0] < 1 or factor.shape[0] > GROUPS:
        raise ValueError(f"there are {factor.shape[0]} factors: there must be 1 to {GROUPS}")
    if first >= last or ptr.shape[0] < 2 or cls.shape[0] == 0 or indices.shape[0] == 0:
        return
    t.items, t.classes = ptr.shape[0] - 1, pseudo.shape[0]
    t.strengths, t.hats, t.groups = out.shape[1] // (knots.shape[0] + 2), knots.shape[0], factor.shape[0]
    t.ptr, t.cls, t.dense_row = &ptr[0], &cls[0], &dense_row[0]
    t.val, t.lift, t.known, t.total = &val[0], &lift[0, 0], &known[0, 0], &total[0]
    t.dense = &dense[0, 0, 0] if dense.shape[0] else NULL
    t.pseudo, t.pseudo_left, t.entropy = &pseudo[0], &pseudo_left[0], &entropy[0]
    t.group, t.factor = &group[0], &factor[0]
    t.strength, t.knots = &strength[0], &knots[0]
    t.width, t.wanted, t.column = t.classes, NULL, NULL
    if wanted is not None and column is not None:
        t.width, t.wanted, t.column = wanted.shape[0], &wanted[0], &column[0]
    t.least, t.most = least, most
    absent = <double*> malloc(out.shape[1] * factor.shape[0] * sizeof(double))
    if absent == NULL:
        raise MemoryError()
    with nogil:
        evidence_rows(&t, &indptr[0], &indices[0], &damp[0], &own[0], &taken[0], &out[0, 0, 0],
                      out.strides[0] // sizeof(double), absent, first, last)
    free(absent)


cdef int set_columns(Asked* rows, int64_t k, const int32_t[::1] column, const double[:, ::1] slopes) except -1:
    """What items add that are modelled jointly."""
    rows.column, rows.columns, rows.slopes = NULL, 0, NULL
    if slopes is not None and column.shape[0] and slopes.shape[0]:
        if slopes.shape[1] != k:
            raise ValueError("every class needs slopes")
        rows.column, rows.columns, rows.slopes = &column[0], column.shape[0], &slopes[0, 0]
    return 0


cdef object record_room(int64_t size, int64_t first):
    """Room for so many numbers, at the beginning of a line of the cache; the first ones are zeros."""
    room = np.empty(size + CACHE_LINE // 8)
    cdef Py_ssize_t begin = -room.ctypes.data % CACHE_LINE // 8
    room[begin:begin + first] = 0.0
    return room[begin:begin + size]


cdef enum:
    MOST_PLACES = 0x3FFFFFFF  # of records


cdef class ItemScale:
    """What all items of a block have in common when rows are scored: pseudo-counts, their strengths, and weights."""
    cdef Scale scale
    cdef tuple held

    def __init__(self, const double[::1] pseudo, const int32_t[::1] group, const double[::1] factor,
                 const double[::1] strength, const double[::1] knots, const double[:, ::1] weights, double entropy,
                 double least, double most):
        """`pseudo` is (k,) s π, by class; `group` is which of the factors s a class has; `weights` are those of the
        vectors, (strengths, knots + 2)."""
        cdef Py_ssize_t i, k = pseudo.shape[0]
        if not 1 <= factor.shape[0] <= GROUPS:
            raise ValueError(f"there are {factor.shape[0]} factors, not 1 to {GROUPS}")
        if strength.shape[0] < STRENGTHS or weights.shape[0] != STRENGTHS or weights.shape[1] != knots.shape[0] + 2:
            raise ValueError("weights and strengths do not fit")
        if group.shape[0] != k or k < 1 or not 2 <= knots.shape[0] <= 14:
            raise ValueError("every class needs a factor, and there must be 2 to 14 knots")
        for i in range(k):
            if not 0 <= group[i] < factor.shape[0]:
                raise ValueError("a class has a factor that is not there")
        self.held = (pseudo, group, factor, knots)
        self.scale.classes, self.scale.hats, self.scale.groups = k, knots.shape[0], factor.shape[0]
        self.scale.pseudo, self.scale.factor, self.scale.knots = &pseudo[0], &factor[0], &knots[0]
        self.scale.group = &group[0]
        self.scale.entropy, self.scale.least, self.scale.most = entropy, least, most
        scale_fill(&self.scale, &strength[0], &weights[0, 0])

    @property
    def says_nothing(self):
        """Whether no vector has any weight."""
        return self.scale.lanes == 0

    cdef bint has_few_classes(self) noexcept nogil:
        return self.scale.classes <= FEW_CLASSES

    def records(self, const int64_t[::1] ptr not None, const int32_t[::1] cls not None, const double[::1] val not None,
                const int32_t[::1] column, const double[:, ::1] slopes):
        """Room for the records of items, whose sums are at ptr[item]..ptr[item + 1]; `column` and `slopes` are as in
        `answer`. Returns where the record of each item is, of which items there is one and where, and the room.

        Items with the same sums share a record; with few classes, those that have columns do not. The first record is
        that of unknown items.
        """
        cdef Py_ssize_t n = ptr.shape[0] - 1, w
        cdef int32_t[::1] group, first, which, place, shared
        cdef uint32_t[::1] record_of
        cdef int64_t unknown = few_size(self.scale.classes) if self.has_few_classes() else record_size(&self.scale, 0)
        cdef int64_t at = unknown, count, made = 0
        cdef bint of_column, own
        cdef Asked columns
        self.check_sums(ptr, cls, val, n)
        set_columns(&columns, self.scale.classes, column, slopes)
        group, first = np.empty(n + 1, dtype=np.int32), np.empty(n + 1, dtype=np.int32)
        with nogil:
            count = group_by_sums(&ptr[0], &cls[0] if cls.shape[0] else NULL, &val[0] if val.shape[0] else NULL, n,
                                  &group[0], &first[0])
        if count < 0:
            raise MemoryError()
        shared, record_of = np.full(count, -1, dtype=np.int32), np.empty(n, dtype=np.uint32)
        which, place = first, np.empty(n, dtype=np.int32)  # an item that begins a group comes no later than its record
        for w in range(n):
            of_column = w < columns.columns and columns.column[w] >= 0
            own = of_column and self.has_few_classes()
            if own or shared[group[w]] < 0:
                if at // LANES > MOST_PLACES:
                    raise MemoryError("there are too many items for their evidence to be kept")
                which[made], place[made] = <int32_t> w, <int32_t> (at // LANES)
                if not own:
                    shared[group[w]] = place[made]
                made += 1
                at += few_size(self.scale.classes) if self.has_few_classes() else record_size(&self.scale, ptr[w + 1] - ptr[w])
            record_of[w] = <uint32_t> (place[made - 1] if own else shared[group[w]]) << 1 | of_column
        return np.asarray(record_of), np.asarray(which[:made]), np.asarray(place[:made]), record_room(
            at + LANES, unknown)  # lanes that are not in use are read too

    def fill(self, const int64_t[::1] ptr, const int32_t[::1] cls, const double[::1] val, const int32_t[::1] column,
             const double[:, ::1] slopes, const int32_t[::1] which, const int32_t[::1] place, double[::1] room,
             Py_ssize_t first, Py_ssize_t last):
        """The records of which[first:last], in the room that `records` made for these sums."""
        cdef Py_ssize_t n = ptr.shape[0] - 1, i
        cdef bint wrong = not 0 <= first <= last <= which.shape[0] or val.shape[0] != cls.shape[0] or ptr[n] > cls.shape[0]
        cdef int64_t size = few_size(self.scale.classes)
        cdef Asked columns
        wrong |= which.shape[0] != place.shape[0]
        for i in range(first, last if not wrong else first):
            wrong = wrong or not 0 <= which[i] < n or place[i] < 0
            if not wrong and not self.has_few_classes():
                size = record_size(&self.scale, ptr[which[i] + 1] - ptr[which[i]])
            wrong = wrong or <int64_t> place[i] * LANES + size > room.shape[0]
        if wrong:
            raise ValueError("the records do not fit the sums")
        if first == last:
            return
        set_columns(&columns, self.scale.classes, column, slopes)
        with nogil:
            if self.has_few_classes():
                few_records(&self.scale, &columns, &ptr[0], &cls[0] if cls.shape[0] else NULL,
                            &val[0] if val.shape[0] else NULL, &which[0], &place[0], &room[0], first, last)
            else:
                fill_records(&self.scale, &ptr[0], &cls[0] if cls.shape[0] else NULL,
                             &val[0] if val.shape[0] else NULL, &which[0], &place[0], &room[0], first, last)

    cdef int ask(self, Asked* rows, const int64_t[::1] indptr, const int32_t[::1] indices, const double[::1] damp,
                 const double[::1] x, const int32_t[::1] column, const double[:, ::1] slopes, double[:, ::1] out,
                 uint8_t[::1] there, Py_ssize_t first, Py_ssize_t last) except -1:
        """Fills in what is asked."""
        cdef Py_ssize_t n = indptr.shape[0] - 1, k = self.scale.classes, i
        cdef bint wrong = damp.shape[0] != n or out.shape[0] != n or out.shape[1] != k or not 0 <= first < last <= n
        if not wrong:
            wrong = indptr[first] < 0 or indptr[last] > indices.shape[0]
            for i in range(first, last):
                wrong |= indptr[i] > indptr[i + 1]
        if slopes is not None:
            wrong |= slopes.shape[1] != k or x.shape[0] != n or there.shape[0] != n
        if wrong:
            raise ValueError("rows do not fit their scores")
        rows.indptr, rows.indices, rows.damp = &indptr[0], &indices[0] if indices.shape[0] else NULL, &damp[0]
        rows.out = &out[0, 0]
        set_columns(rows, k, column, slopes)
        if rows.slopes != NULL:
            rows.x, rows.there = &x[0], &there[0]
        return 0

    cdef int64_t room(self, const int64_t[::1] indptr, const int64_t[::1] ptr) noexcept nogil:
        """The numbers in the sums of a row, and in the records of the row that has most."""
        cdef int64_t most = 0, own
        cdef Py_ssize_t i, e
        for i in range(indptr.shape[0] - 1):
            own = 0
            for e in range(indptr[i], indptr[i + 1]):
                if ptr[e + 1] > ptr[e]:
                    own += record_size(&self.scale, ptr[e + 1] - ptr[e])
            most = max(most, own)
        return all_size(&self.scale) + most + LANES  # lanes that are not in use are read too

    cdef int check_sums(self, const int64_t[::1] ptr, const int32_t[::1] cls, const double[::1] val,
                        Py_ssize_t entries) except -1:
        cdef bint wrong = ptr.shape[0] != entries + 1 or ptr[0] != 0 or ptr[ptr.shape[0] - 1] != cls.shape[0]
        cdef Py_ssize_t e
        for e in range(entries if not wrong else 0):
            wrong |= ptr[e] > ptr[e + 1]
        for e in range(cls.shape[0] if not wrong else 0):
            wrong |= cls[e] < 0 or cls[e] >= self.scale.classes
        if wrong or val.shape[0] != cls.shape[0]:
            raise ValueError("the sums do not fit the rows")
        return 0

    def terms(self, const int64_t[::1] ptr, const int32_t[::1] cls, const double[::1] val, double damp, Py_ssize_t target,
              Py_ssize_t against):
        """What each entry of one row adds to the score of class `target` over that of `against`, given its sums."""
        cdef Py_ssize_t n = ptr.shape[0] - 1, k = self.scale.classes
        cdef double[::1] out = np.empty(n), record
        self.check_sums(ptr, cls, val, n)
        if not (0 <= target < k and 0 <= against < k):
            raise ValueError(f"there are {k} classes: {target} and {against} are not both among them")
        record = np.empty(record_size(&self.scale, k) + LANES)
        if n:
            with nogil:
                answer_terms(&self.scale, &ptr[0], &cls[0] if cls.shape[0] else NULL, &val[0] if val.shape[0] else NULL,
                             n, damp, target, against, &record[0], &out[0])
        return np.asarray(out)

    def answer(self, const int64_t[::1] indptr, const int32_t[::1] indices, const double[::1] damp, const double[::1] x,
               const int32_t[::1] column, const double[:, ::1] slopes, double[:, ::1] out, uint8_t[::1] there,
               const int64_t[::1] ptr, const int32_t[::1] cls, const double[::1] val):
        """Adds the scores of rows to out (n, k), where the sums of entry e are at ptr[e]..ptr[e + 1].

        With `slopes` (d, k) also those of the items that are modelled jointly, x times the slopes of their columns;
        there[i] = 1 if row i has any. Numbers below 0, and those that `column` does not reach, have none.
        """
        cdef Asked rows
        cdef double* room
        cdef Py_ssize_t n = indptr.shape[0] - 1
        self.check_sums(ptr, cls, val, indices.shape[0])
        if n < 1:
            return
        self.ask(&rows, indptr, indices, damp, x, column, slopes, out, there, 0, n)
        if self.has_few_classes():
            with nogil:
                few_directly(&self.scale, &rows, &ptr[0], &cls[0] if cls.shape[0] else NULL,
                             &val[0] if val.shape[0] else NULL, 0, n)
            return
        room = <double*> malloc(self.room(indptr, ptr) * sizeof(double))
        if room == NULL:
            raise MemoryError()
        with nogil:
            answer_directly(&self.scale, &rows, &ptr[0], &cls[0] if cls.shape[0] else NULL,
                            &val[0] if val.shape[0] else NULL, room, 0, n)
        free(room)

    def answer_by_records(self, const int64_t[::1] indptr, const int32_t[::1] indices, const double[::1] damp,
                          const double[::1] x, const int32_t[::1] column, const double[:, ::1] slopes,
                          double[:, ::1] out, uint8_t[::1] there, const uint32_t[::1] record_of, const double[::1] room,
                          Py_ssize_t first, Py_ssize_t last):
        """The same for rows first..last by the records of items; those that have none add nothing."""
        cdef Asked rows
        cdef Records records
        cdef RowRoom own
        cdef int64_t longest = 0
        cdef Py_ssize_t i
        if first >= last:
            return
        if room.shape[0] < (few_size(self.scale.classes) if self.has_few_classes() else record_size(&self.scale, 0) + LANES):
            raise ValueError("there are no records")
        self.ask(&rows, indptr, indices, damp, x, column, slopes, out, there, first, last)
        records.record_of, records.items = &record_of[0] if record_of.shape[0] else NULL, record_of.shape[0]
        records.room = &room[0]
        if self.has_few_classes():
            with nogil:
                few_by_records(&self.scale, &rows, &records, first, last)
            return
        for i in range(first, last):
            longest = max(longest, indptr[i + 1] - indptr[i])
        own.sums = <double*> malloc(all_size(&self.scale) * sizeof(double))
        own.records = <const double**> malloc((longest + 1) * sizeof(double*))
        own.common = <int32_t*> malloc((longest + 1) * sizeof(int32_t))
        try:
            if own.sums == NULL or own.records == NULL or own.common == NULL:
                raise MemoryError()
            with nogil:
                answer_by_records(&self.scale, &rows, &records, own, first, last)
        finally:
            free(own.sums)
            free(own.records)
            free(own.common)
