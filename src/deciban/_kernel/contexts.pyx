# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Columns that depend on other columns: the distribution of a value given the class and up to six other columns.

Rows are codes of one byte: column j has the values 0..levels[j]−1, and 255 is one that was never seen. A column's
key is its parents' codes and its own, a byte each, so that keys that share a context are adjacent.
"""

import numpy as np

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc
from libc.string cimport memcpy

cdef extern from "contexts_loops.h":
    enum:
        UNSEEN
        MOST_PARENTS
    ctypedef struct Rows:
        int64_t n
    ctypedef struct Counted:
        int64_t size, room
        uint64_t *keys
        double *counts
    ctypedef struct Tree:
        int64_t d, k, most
        int32_t *parents
        int32_t *deepest
        int32_t *levels
        int64_t *root
        int64_t *offset
        double *seen
        double *all
    ctypedef struct Asked:
        pass
    int gather_rows(const uint8_t *codes, int64_t n, int64_t d, const int32_t *y, const double *weight, int64_t k,
                    Rows *rows) noexcept nogil
    void free_rows(Rows *rows) noexcept nogil
    int all_information(const Rows *rows, double *with_class, double *between) noexcept nogil
    int count_all(const Rows *rows, const int32_t *parents, int64_t most, int64_t *ptr, Counted *all) noexcept nogil
    void free_counted(Counted *counted) noexcept nogil
    int grow_tree(Tree *tree, const int64_t *ptr, const uint64_t *keys, const double *counts,
                  int64_t filled) noexcept nogil
    void free_tree(Tree *tree) noexcept nogil
    int copy_tree(Tree *to, const Tree *source) noexcept nogil
    void remove_counts(Tree *tree, const Tree *source, const int64_t *ptr, const uint64_t *keys, const double *counts,
                       double residue) noexcept nogil
    int make_asked(Asked *asked, const Tree *tree, const int32_t *depths, int64_t count, const double *strengths,
                   int64_t b, int64_t n, int even) noexcept nogil
    void free_asked(Asked *asked) noexcept nogil
    void score_rows(const Tree *tree, const uint8_t *codes, int64_t n, const int32_t *own, const double *weight,
                    const Asked *asked, int adds, double *out) noexcept nogil
    void term_rows(const Tree *tree, const uint8_t *row, const Asked *asked, double *out) noexcept nogil
    void sample_rows(const Tree *tree, const int32_t *order, const int32_t *y, int64_t n, int64_t depth,
                     double strength, const double *uniforms, uint8_t *out) noexcept nogil
    int64_t wrong_code(const uint8_t *codes, int64_t n, int64_t d, const uint8_t *levels) noexcept nogil
    int same_weights(const double *weight, int64_t n) noexcept nogil
    int64_t filled_counts(const double *counts, int64_t size) noexcept nogil
    int64_t wrong_key(const uint64_t *keys, int64_t first, int64_t last, int64_t j, const int32_t *parents,
                      int64_t most, const int32_t *levels) noexcept nogil


# ------------------------------------------------------------------ checks


cdef int same(str what, Py_ssize_t found, Py_ssize_t expected) except -1:
    if found != expected:
        raise ValueError(f"{what} has {found} entries: it must have {expected}")
    return 0


cdef int check_codes(const uint8_t *codes, int64_t n, int64_t d, const uint8_t *levels) except -1:
    cdef int64_t wrong
    with nogil:
        wrong = wrong_code(codes, n, d, levels)
    if wrong >= 0:
        raise ValueError(f"row {wrong // d}, column {wrong % d} has the code {codes[wrong]}, and the column "
                         f"has {levels[wrong % d]} values: pass 255 for one that was never seen")
    return 0


cdef int check_k(Py_ssize_t k) except -1:
    if not 1 <= k < 1 << 31:
        raise ValueError(f"there are {k:,} classes: there must be at least one, and fewer than {1 << 31:,}")
    return 0


cdef int check_levels(const int32_t[::1] levels) except -1:
    cdef Py_ssize_t j
    for j in range(levels.shape[0]):
        if not 0 <= levels[j] <= UNSEEN:
            raise ValueError(f"column {j} has {levels[j]} values: one byte holds at most 255")
    return 0


cdef int check_classes(const int32_t[::1] y, Py_ssize_t k, str what, bint known) except -1:
    """Classes below k; a negative one is none, which `known` does not allow."""
    cdef Py_ssize_t i, n = y.shape[0], wrong = -1
    with nogil:
        for i in range(n):
            if y[i] >= k or (known and y[i] < 0):
                wrong = i
                break
    if wrong >= 0:
        raise ValueError(f"{what} of row {wrong} is class {y[wrong]}, and classes are 0 to {k - 1}")
    return 0


cdef int check_weight(const double[::1] weight) except -1:
    cdef Py_ssize_t i, n = weight.shape[0], wrong = -1
    with nogil:
        for i in range(n):
            if not (weight[i] >= 0.0 and weight[i] <= 1.7976931348623157e308):
                wrong = i
                break
    if wrong >= 0:
        raise ValueError(f"the weight of row {wrong} is {weight[wrong]}: weights must be finite and not negative")
    return 0


cdef int check_parents(const int32_t[:, ::1] parents) except -1:
    cdef Py_ssize_t d = parents.shape[0], j, t
    cdef int32_t p
    cdef bint ended
    if parents.shape[1] > MOST_PARENTS:
        raise ValueError(f"columns have {parents.shape[1]} parents: a key has room for {MOST_PARENTS}")
    for j in range(d):
        ended = False
        for t in range(parents.shape[1]):
            p = parents[j, t]
            if p == -1:
                ended = True
            elif not 0 <= p < d or p == j:
                raise ValueError(f"parent {t} of column {j} is {p}: it must be another column of the {d}, or −1 for none")
            elif ended:
                raise ValueError(f"parent {t} of column {j} comes after a −1, which ends the list")
    return 0


cdef int check_strength(double strength) except -1:
    if not 0.0 < strength <= 1.7976931348623157e308:
        raise ValueError(f"a strength is {strength}: it must be finite and above zero")
    return 0


cdef int check_depth(Py_ssize_t depth) except -1:
    if depth < 0:
        raise ValueError(f"a depth is {depth}: it is the number of parents that count, from 0 on")
    return 0


cdef int gather(const uint8_t[:, ::1] codes, const int32_t[::1] y, const double[::1] weight, Py_ssize_t k,
                Rows *rows) except -1:
    """Rows that have a class and a weight, sorted by class and stored by column."""
    cdef int64_t n = codes.shape[0], d = codes.shape[1]
    cdef const double *w = NULL
    cdef int enough
    same("y", y.shape[0], n)
    check_k(k)
    if n >= 1 << 31:
        raise ValueError(f"there are {n:,} rows: count fewer than {1 << 31:,} at a time and merge")
    check_classes(y, k, "y", False)
    if weight is not None:
        same("weight", weight.shape[0], n)
        check_weight(weight)
        w = &weight[0] if n else NULL
    with nogil:
        enough = gather_rows(&codes[0, 0] if n and d else NULL, n, d, &y[0] if n else NULL, w, k, rows)
    if not enough:
        free_rows(rows)
        raise MemoryError("not enough memory for these rows")
    return 0


cdef int64_t check_counted(const int64_t[::1] ptr, const uint64_t[::1] keys, const double[:, ::1] counts,
                           const int32_t *parents, int64_t most, const int32_t *levels, int64_t d, int64_t k) except -1:
    """Counts as `count` gives them; returns how many are above zero."""
    cdef int64_t m = keys.shape[0], filled = 0, j, wrong
    same("ptr", ptr.shape[0], d + 1)
    same("counts", counts.shape[0], m)
    same("a row of counts", counts.shape[1], k)
    for j in range(d):
        if ptr[j] > ptr[j + 1]:
            raise ValueError(f"ptr decreases from {ptr[j]} to {ptr[j + 1]} at column {j}: it must ascend")
    if ptr[0] != 0 or ptr[d] != m:
        raise ValueError(f"ptr goes from {ptr[0]} to {ptr[d]}: it must go from 0 to the number of keys, {m}")
    if m:
        with nogil:
            filled = filled_counts(&counts[0, 0], m * k)
        if filled < 0:
            wrong = -1 - filled
            raise ValueError(f"the count of key {wrong // k}, class {wrong % k} is {counts[wrong // k, wrong % k]}: counts "
                             "must be finite and not negative")
    for j in range(d):
        if ptr[j] == ptr[j + 1]:
            continue
        with nogil:
            wrong = wrong_key(&keys[0], ptr[j], ptr[j + 1], j, parents + j * most, most, levels)
        if wrong >= 0:
            raise ValueError(f"key {wrong}, {keys[wrong]:#x}, of column {j} does not ascend, or holds a code that its column "
                             "does not have")
    return filled


cdef object narrow(const int32_t[::1] levels):
    """Levels as bytes, as codes are."""
    check_levels(levels)
    return np.asarray(levels).astype(np.uint8)


# ------------------------------------------------------------------ learning


def recode(const uint8_t[:, ::1] codes, const uint8_t[:, ::1] maps, uint8_t[:, ::1] out):
    """out[i, j] = maps[j, codes[i, j]]."""
    cdef Py_ssize_t n = codes.shape[0], d = codes.shape[1], i, j
    same("maps", maps.shape[0], d)
    if d and maps.shape[1] != 256 or out.shape[0] != n or out.shape[1] != d:
        raise ValueError(f"codes is ({n}, {d}): out must be the same, and maps ({d}, 256)")
    with nogil:
        for i in range(n):
            for j in range(d):
                out[i, j] = maps[j, codes[i, j]]


def pair_information(const uint8_t[:, ::1] codes, const int32_t[::1] levels, const int32_t[::1] y, const double[::1] weight,
                     Py_ssize_t k, double[::1] with_class, double[:, ::1] between):
    """with_class[j] = I(x_j; y) and between[i, j] = I(x_i; x_j | y), in nats: plug-in estimates.

    Rows without a class (y < 0) are left out; so is, for its own column, a value of 255.
    """
    cdef Py_ssize_t d = codes.shape[1]
    cdef Rows rows
    cdef int enough
    same("levels", levels.shape[0], d)
    same("with_class", with_class.shape[0], d)
    same("between", between.shape[0], d)
    same("a row of between", between.shape[1], d)
    cdef const uint8_t[::1] limits = narrow(levels)
    if d == 0:
        return
    if codes.shape[0]:
        check_codes(&codes[0, 0], codes.shape[0], d, &limits[0])
    gather(codes, y, weight, k, &rows)
    with nogil:
        enough = all_information(&rows, &with_class[0], &between[0, 0])
        free_rows(&rows)
    if not enough:
        raise MemoryError("not enough memory for these pairs of columns")


def count(const uint8_t[:, ::1] codes, const int32_t[:, ::1] parents, const int32_t[::1] y, const double[::1] weight,
          Py_ssize_t k):
    """Sums of weights by class of each column's values under its parents' values: ptr (d+1,), keys (m,), counts (m, k).

    parents is (d, T), filled up with −1. Keys ptr[j]:ptr[j+1] are column j's, ascending: the codes of
    its parents, the first one highest, 0 for absent ones, and its own code lowest. A value of 255 is not counted, a
    parent of 255 is part of the key.
    """
    cdef Py_ssize_t d = codes.shape[1], most = parents.shape[1]
    cdef Rows rows
    cdef Counted counted
    cdef int enough
    counted.size, counted.room, counted.keys, counted.counts = 0, 0, NULL, NULL
    same("parents", parents.shape[0], d)
    check_parents(parents)
    cdef int64_t[::1] ptr = np.zeros(d + 1, dtype=np.int64)
    cdef uint64_t[::1] keys
    cdef double[:, ::1] counts
    gather(codes, y, weight, k, &rows)
    with nogil:
        enough = count_all(&rows, &parents[0, 0] if d and most else NULL, most, &ptr[0], &counted)
        free_rows(&rows)
    try:
        if not enough:
            raise MemoryError("not enough memory to count these rows: give columns fewer parents")
        keys = np.empty(counted.size, dtype=np.uint64)
        counts = np.empty((counted.size, k))
        if counted.size:
            with nogil:
                memcpy(&keys[0], counted.keys, counted.size * sizeof(uint64_t))
                memcpy(&counts[0, 0], counted.counts, counted.size * k * sizeof(double))
    finally:
        free_counted(&counted)
    return np.asarray(ptr), np.asarray(keys), np.asarray(counts)


# ------------------------------------------------------------------ scoring


cdef class Contexts:
    """Distributions p(v | parents' values, class) from counts as `count` gives them; immutable, so threads may share them.

    Each backs off from its context p1..pt to the shorter one, with `strength` s:

        p_0(v) = (C(v) + s·q(v)) / (C() + s),    q(v): the value's share in all classes together
        p_t(v) = (C(p1..pt, v) + s·p_{t−1}(v)) / (C(p1..pt) + s)

    as far as `depth` and the column's parents go. A parent of 255 ends the context before it. A value of 255, and one that
    was never counted, is no evidence.
    """

    cdef Tree tree
    cdef const uint8_t[::1] limits  # how many values each column has

    def __cinit__(self, const int64_t[::1] ptr, const uint64_t[::1] keys, const double[:, ::1] counts,
                  const int32_t[:, ::1] parents, const int32_t[::1] levels, Py_ssize_t k):
        cdef int64_t d = levels.shape[0], m = keys.shape[0], most = parents.shape[1], j, t, filled
        cdef int enough
        same("parents", parents.shape[0], d)
        check_k(k)
        self.limits = narrow(levels)
        check_parents(parents)
        filled = check_counted(ptr, keys, counts, &parents[0, 0] if d and most else NULL, most, &levels[0] if d else NULL, d, k)
        self.make_room(d, k, most)
        for j in range(d):
            self.tree.levels[j] = levels[j]
            self.tree.offset[j + 1] = self.tree.offset[j] + levels[j]
            for t in range(most):
                self.tree.parents[j * most + t] = parents[j, t]
                self.tree.deepest[j] += parents[j, t] >= 0
        self.tree.seen = <double *> calloc(self.tree.offset[d] + 1, sizeof(double))
        if self.tree.seen == NULL:
            raise MemoryError("not enough memory for these contexts")
        with nogil:
            enough = grow_tree(&self.tree, &ptr[0], &keys[0] if m else NULL, &counts[0, 0] if m else NULL, filled)
        if not enough:
            raise MemoryError("not enough memory for these contexts")

    cdef int make_room(self, int64_t d, int64_t k, int64_t most) except -1:
        self.tree.d, self.tree.k, self.tree.most = d, k, most
        self.tree.parents = <int32_t *> calloc(d * most + 1, sizeof(int32_t))
        self.tree.deepest = <int32_t *> calloc(d + 1, sizeof(int32_t))
        self.tree.levels = <int32_t *> calloc(d + 1, sizeof(int32_t))
        self.tree.root = <int64_t *> calloc(d + 1, sizeof(int64_t))
        self.tree.offset = <int64_t *> calloc(d + 1, sizeof(int64_t))
        self.tree.all = <double *> calloc(d + 1, sizeof(double))
        if (self.tree.parents == NULL or self.tree.deepest == NULL or self.tree.levels == NULL or self.tree.root == NULL
                or self.tree.offset == NULL or self.tree.all == NULL):
            raise MemoryError("not enough memory for these contexts")
        return 0

    def __dealloc__(self):
        free_tree(&self.tree)

    def without(self, const int64_t[::1] ptr, const uint64_t[::1] keys, const double[:, ::1] counts, double residue):
        """The contexts without these counts, which are some of theirs.

        What is left of a sum is 0 if it is at most `residue` times what it was.
        """
        cdef int64_t m = keys.shape[0]
        cdef int enough
        check_counted(ptr, keys, counts, self.tree.parents, self.tree.most, self.tree.levels, self.tree.d, self.tree.k)
        none = np.zeros(0, dtype=np.int32)
        cdef Contexts rest = Contexts(np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.uint64), np.zeros((0, self.tree.k)),
                                      none.reshape(0, 0), none, self.tree.k)
        free_tree(&rest.tree)
        rest.limits = self.limits
        with nogil:
            enough = copy_tree(&rest.tree, &self.tree)
            if enough and m:
                remove_counts(&rest.tree, &self.tree, &ptr[0], &keys[0], &counts[0, 0], residue)
        if not enough:
            raise MemoryError("not enough memory for these contexts")
        return rest

    cdef int check_rows(self, const uint8_t[:, ::1] codes) except -1:
        same("a row of codes", codes.shape[1], self.tree.d)
        if codes.shape[0] and self.tree.d:
            check_codes(&codes[0, 0], codes.shape[0], self.tree.d, &self.limits[0])
        return 0

    cdef int walk(self, const uint8_t[:, ::1] codes, const int32_t *depths, int64_t a, const double *strengths, int64_t b,
                  const int32_t[::1] own, const double[::1] weight, bint adds, double *out) except -1:
        """Scores of all rows for a depths and b strengths, out (n, a, b, k)."""
        cdef int64_t n = codes.shape[0], x
        cdef const int32_t *classes = NULL
        cdef const double *w = NULL
        cdef Asked asked
        cdef int enough, even
        self.check_rows(codes)
        for x in range(a):
            check_depth(depths[x])
        for x in range(b):
            check_strength(strengths[x])
        if own is not None:
            same("own", own.shape[0], n)
            check_classes(own, self.tree.k, "own", False)
            classes = &own[0] if n else NULL
        if weight is not None:
            same("weight", weight.shape[0], n)
            check_weight(weight)
            w = &weight[0] if n else NULL
        if n == 0:
            return 0
        with nogil:
            even = w == NULL or same_weights(w, n)
            if w != NULL and even and w[0] == 0.0:  # rows that were not counted
                classes, w = NULL, NULL
            enough = make_asked(&asked, &self.tree, depths, a, strengths, b, n, even)
            if enough:
                score_rows(&self.tree, &codes[0, 0] if self.tree.d else NULL, n, classes, w, &asked, adds, out)
                free_asked(&asked)
        if not enough:
            raise MemoryError("not enough memory for so many depths and strengths")
        return 0

    def score(self, const uint8_t[:, ::1] codes, int32_t depth, double strength, double[:, ::1] out,
              const int32_t[::1] own=None, const double[::1] weight=None):
        """out[i, c] += Σ_j log p(v_j | its parents' values, class c), row by row.

        Rows with own[i] ≥ 0 are among those counted, in that class with weight[i] (1 without weights): each is scored with
        the counts without it.
        """
        same("out", out.shape[0], codes.shape[0])
        same("a row of out", out.shape[1], self.tree.k)
        self.walk(codes, &depth, 1, &strength, 1, own, weight, True, &out[0, 0] if out.shape[0] else NULL)

    def score_each(self, const uint8_t[:, ::1] codes, const int32_t[::1] depths, const double[::1] strengths,
                   double[:, :, :, ::1] out, const int32_t[::1] own=None, const double[::1] weight=None):
        """out[i, a, b] = what `score` adds for depths[a] and strengths[b]: one walk for all."""
        same("out", out.shape[0], codes.shape[0])
        same("the second axis of out", out.shape[1], depths.shape[0])
        same("the third axis of out", out.shape[2], strengths.shape[0])
        same("the last axis of out", out.shape[3], self.tree.k)
        if out.shape[0] and out.shape[1] and out.shape[2]:
            self.walk(codes, &depths[0], depths.shape[0], &strengths[0], strengths.shape[0], own, weight, False,
                      &out[0, 0, 0, 0])

    def terms(self, const uint8_t[:, ::1] codes, int32_t depth, double strength, double[:, :, ::1] out):
        """out[i, j, c] = log p(v_ij | its parents' values, class c) of each row i: the terms that `score` adds up."""
        cdef Asked asked
        cdef int enough
        cdef int64_t n = codes.shape[0], i
        same("out", out.shape[0], n)
        same("a row of out", out.shape[1], self.tree.d)
        same("an entry of out", out.shape[2], self.tree.k)
        same("a row of codes", codes.shape[1], self.tree.d)
        check_depth(depth)
        check_strength(strength)
        if self.tree.d == 0 or n == 0:
            return
        check_codes(&codes[0, 0], n, self.tree.d, &self.limits[0])
        with nogil:
            enough = make_asked(&asked, &self.tree, &depth, 1, &strength, 1, 1, True)
            if enough:
                for i in range(n):
                    term_rows(&self.tree, &codes[i, 0], &asked, &out[i, 0, 0])
                free_asked(&asked)
        if not enough:
            raise MemoryError("not enough memory for so many classes")

    def sample(self, const int32_t[::1] order, const int32_t[::1] y, int32_t depth, double strength,
               const double[:, ::1] uniforms, uint8_t[:, ::1] out):
        """Draws rows of the classes y, column by column in `order`, which must list parents first.

        out[i, j] is the value at which the cumulative distribution passes uniforms[i, j]; 255 if the column was never seen.
        """
        cdef int64_t n = y.shape[0], d = self.tree.d, x, t, j
        cdef int32_t parent
        same("order", order.shape[0], d)
        same("uniforms", uniforms.shape[0], n)
        same("a row of uniforms", uniforms.shape[1], d)
        same("out", out.shape[0], n)
        same("a row of out", out.shape[1], d)
        check_depth(depth)
        check_strength(strength)
        check_classes(y, self.tree.k, "y", True)
        cdef uint8_t[::1] drawn = np.zeros(d, dtype=np.uint8)
        for x in range(d):
            j = order[x]
            if not 0 <= j < d or drawn[j]:
                raise ValueError(f"order[{x}] is {j}: it must list each of the {d} columns once")
            for t in range(self.tree.deepest[j]):
                parent = self.tree.parents[j * self.tree.most + t]
                if not drawn[parent]:
                    raise ValueError(f"column {j} comes before its parent {parent} in order: parents must be drawn first")
            drawn[j] = 1
        if n and d:
            with nogil:
                sample_rows(&self.tree, &order[0], &y[0], n, depth, strength, &uniforms[0, 0], &out[0, 0])
