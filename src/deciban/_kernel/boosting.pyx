# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Boosted trees: small trees over small codes, each grown on what the log joint and the trees before it leave unexplained.

Codes are those of forest.pyx, and so are the trees: the same flat arrays of nodes. A `Boosting` object holds the posteriors
of all rows between rounds. Rounds run without the lock of the interpreter, in one thread: threads are the callers', one
for each object.
"""
import numpy as np

from libc.math cimport INFINITY, fmax, isfinite
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

cdef extern from "boosting_loops.h":
    enum:
        UNSEEN
        LANES
        MAX_NODES
        SUMS
    ctypedef struct Whole:
        pass
    ctypedef struct Table:
        int64_t n, d, k, stride, cells, max_leaves, max_depth, min_rows
        const uint8_t *codes
        const int32_t *levels
        const int32_t *y
        const uint8_t *ordered
        const int64_t *offsets
        const double *weight
        double ridge, smoothing
    ctypedef struct Node:
        int32_t column, left, right, parent
        uint8_t cut
        uint64_t mask[4]
    ctypedef struct Growth:
        int64_t used, others
        Whole *rows
        Whole *aside
        int32_t *other
        int32_t *other_aside
        double *p
        double *g
        double *h
        Whole *cells
        Node *nodes
        double *sums
        double *direction
        double *factor
        uint64_t state
    ctypedef struct Refit:
        int64_t n, k, stride
        const int32_t *y
        double *weight
        double *p
        double *sums
        double *factor
    void begin_rounds(const Table*, Growth*) noexcept nogil
    int64_t grow_small_tree(const Table*, Growth*) noexcept nogil
    void end_round(const Table*, Growth*, int64_t, double, double*, uint8_t*) noexcept nogil
    double loss_of_others(const Table*, const Growth*) noexcept nogil
    void begin_refit(const Refit*) noexcept nogil
    void refit_tree(const Refit*, const uint8_t*, const uint8_t*, const int32_t*, int64_t, double, double,
                    double*) noexcept nogil


cdef class Boosting:
    """Trees grown on the rows with used[i] ≠ 0; the others are scored, too.

    codes (d, n) are those of forest.pyx, a column side by side; base (n, k) is each row's log joint, which must be finite
    for its class y. `min_rows` are the fewest rows of a leaf; `ridge` is λ; categories are sorted by G/(H + smoothing).
    `start` is the summed loss of the other rows, and `losses` the same after each round.
    """

    cdef Table t
    cdef Growth r
    cdef object kept, parts, places, leaves
    cdef readonly double start
    cdef readonly list losses

    def __cinit__(self, const uint8_t[:, ::1] codes, const int32_t[::1] levels, const uint8_t[::1] ordered,
                  const int32_t[::1] y, const double[::1] weight, const double[:, ::1] base, const uint8_t[::1] used,
                  Py_ssize_t max_leaves, Py_ssize_t max_depth, Py_ssize_t min_rows, double ridge, double smoothing,
                  uint64_t seed):
        cdef Py_ssize_t d = codes.shape[0], n = codes.shape[1], k = base.shape[1], i, j
        memset(&self.t, 0, sizeof(Table))
        memset(&self.r, 0, sizeof(Growth))
        if y.shape[0] != n or base.shape[0] != n or used.shape[0] != n or (weight is not None and weight.shape[0] != n):
            raise ValueError(f"codes has {n} rows: y, weight, base and used must have as many")
        if levels.shape[0] != d or ordered.shape[0] != d:
            raise ValueError(f"codes has {d} columns: levels and ordered must have as many entries")
        if n > 2147483647 or k < 2 or max_leaves < 1 or 2 * max_leaves - 1 > MAX_NODES or min_rows < 1:
            raise ValueError(f"{n} rows, {k} classes, {max_leaves} leaves and {min_rows} rows of a leaf are not possible")
        if not (ridge > 0.0 and isfinite(ridge) and smoothing >= 0.0 and isfinite(smoothing)):
            raise ValueError(f"ridge is {ridge} and smoothing {smoothing}: they must be finite, and ridge positive")
        offsets = np.zeros(d + 1, dtype=np.int64)
        cdef int64_t[::1] places = offsets
        cdef bint unseen
        for j in range(d):
            if levels[j] < 0 or levels[j] > UNSEEN:
                raise ValueError(f"column {j} has {levels[j]} levels: there may be 0 to {UNSEEN}")
            unseen = False
            for i in range(n):
                if codes[j, i] >= levels[j]:
                    if codes[j, i] != UNSEEN:
                        raise ValueError(f"row {i}, column {j}: the code is {codes[j, i]}, but the column has {levels[j]} "
                                         f"levels; a value that was never seen is {UNSEEN}")
                    unseen = True
            places[j + 1] = places[j] + (UNSEEN + 1 if unseen else levels[j])
        for i in range(n):
            if y[i] < 0 or y[i] >= k:
                raise ValueError(f"row {i} is of class {y[i]}: there are {k} classes, from 0 on")
            if not isfinite(base[i, y[i]]):
                raise ValueError(f"row {i}: the log joint of its class is {base[i, y[i]]}")
        order = np.argsort(np.asarray(used) == 0, kind="stable")  # those that trees grow on first
        mine = np.ascontiguousarray(np.asarray(codes)[:, order]), np.asarray(y)[order]
        amounts = None if weight is None else np.asarray(weight)[order]
        cdef const uint8_t[:, ::1] own_codes = mine[0]
        cdef const int32_t[::1] own_y = mine[1]
        cdef const double[::1] own_weight = amounts
        cdef const int64_t[::1] place = order
        self.kept = (own_codes, levels, ordered, own_y, own_weight, offsets)
        self.places, self.parts, self.leaves, self.losses = order, [], [], []
        self.t.n, self.t.d, self.t.k, self.t.cells = n, d, k, max(1, places[d])
        self.t.stride = (k + LANES - 1) // LANES * LANES
        self.t.codes = &own_codes[0, 0] if n and d else NULL
        self.t.levels, self.t.ordered = &levels[0] if d else NULL, &ordered[0] if d else NULL
        self.t.y = &own_y[0] if n else NULL
        self.t.offsets, self.t.weight = &places[0], &own_weight[0] if weight is not None and n else NULL
        self.t.max_leaves, self.t.max_depth, self.t.min_rows = max_leaves, max_depth, min_rows
        self.t.ridge, self.t.smoothing = ridge, smoothing
        self.r.used = np.count_nonzero(used)
        self.r.others = n - self.r.used
        cdef Py_ssize_t stride = self.t.stride
        self.r.rows = <Whole *> malloc((n + 1) * sizeof(Whole))
        self.r.aside = <Whole *> malloc((n + 1) * sizeof(Whole))
        self.r.other = <int32_t *> malloc((n + 1) * sizeof(int32_t))
        self.r.other_aside = <int32_t *> malloc((n + 1) * sizeof(int32_t))
        self.r.p = <double *> malloc((n * stride + 1) * sizeof(double))
        self.r.g = <double *> malloc((self.r.used + 1) * sizeof(double))
        self.r.h = <double *> malloc((self.r.used + 1) * sizeof(double))
        self.r.cells = <Whole *> malloc(max_leaves * self.t.cells * sizeof(Whole))
        self.r.nodes = <Node *> malloc(2 * max_leaves * sizeof(Node))
        self.r.sums = <double *> malloc(SUMS * 2 * max_leaves * stride * sizeof(double))
        self.r.direction = <double *> calloc(stride, sizeof(double))
        self.r.factor = <double *> calloc(stride, sizeof(double))
        self.r.state = seed
        if (self.r.rows == NULL or self.r.aside == NULL or self.r.other == NULL or self.r.other_aside == NULL
                or self.r.p == NULL or self.r.g == NULL or self.r.h == NULL or self.r.cells == NULL
                or self.r.nodes == NULL or self.r.sums == NULL or self.r.direction == NULL or self.r.factor == NULL):
            raise MemoryError()
        with nogil:
            for i in range(n):
                for j in range(stride):
                    self.r.p[i * stride + j] = fmax(base[place[i], j], -INFINITY) if j < k else -INFINITY
            begin_rounds(&self.t, &self.r)
            self.start = loss_of_others(&self.t, &self.r)

    def __dealloc__(self):
        free(self.r.rows)
        free(self.r.aside)
        free(self.r.other)
        free(self.r.other_aside)
        free(self.r.p)
        free(self.r.g)
        free(self.r.h)
        free(self.r.cells)
        free(self.r.nodes)
        free(self.r.sums)
        free(self.r.direction)
        free(self.r.factor)

    def step(self, double rate):
        """One more tree, whose values are `rate` of a full step; the summed loss of the other rows is appended."""
        cdef double loss
        cdef int64_t size
        values, leaf = np.empty((2 * self.t.max_leaves, self.t.stride)), np.empty(max(1, self.t.n), dtype=np.uint8)
        cdef double[:, ::1] v = values
        cdef uint8_t[::1] ends = leaf
        with nogil:
            size = grow_small_tree(&self.t, &self.r)
            end_round(&self.t, &self.r, size, rate, &v[0, 0], &ends[0])
            loss = loss_of_others(&self.t, &self.r)
        self.losses.append(loss)
        self.parts.append((*self._nodes(size), values[:size, :self.t.k].copy()))
        self.leaves.append(leaf)

    cdef _nodes(self, int64_t size):
        links, cuts, masks = np.empty((4, size), dtype=np.int32), np.zeros(size, np.uint8), np.zeros((size, 4), np.uint64)
        cdef int32_t[:, ::1] link = links
        cdef uint8_t[::1] cut = cuts
        cdef uint64_t[:, ::1] mask = masks
        cdef Node *node
        cdef Py_ssize_t u
        for u in range(size):
            node = self.r.nodes + u
            link[0, u], link[1, u], link[2, u], link[3, u] = node.column, node.left, node.right, node.parent
            cut[u] = node.cut
            if node.column >= 0 and not self.t.ordered[node.column]:
                memcpy(&mask[u, 0], node.mask, 32)
        return links[0], links[1], links[2], links[3], cuts, masks

    def trees(self, Py_ssize_t rounds):
        """The first `rounds` trees, one after the other: column, left, right, parent, cut, mask, start, values."""
        parts = self.parts[:rounds]
        sizes = np.concatenate([[0], np.cumsum([len(part[0]) for part in parts], dtype=np.int64)])
        moved = [
            (part[0], *(np.where(links >= 0, links + by, -1).astype(np.int32) for links in part[1:4]), *part[4:])
            for part, by in zip(parts, sizes[:-1], strict=True)
        ]
        if not moved:
            none = np.zeros(0, dtype=np.int32)
            return (none, none, none, none, np.zeros(0, np.uint8), np.zeros((0, 4), np.uint64),
                    np.zeros(1, dtype=np.int32), np.zeros((0, self.t.k)))
        column, left, right, parent, cut, mask, values = (np.concatenate(arrays) for arrays in zip(*moved, strict=True))
        return column, left, right, parent, cut, mask, sizes.astype(np.int32), values

    def refit(self, const double[:, ::1] base, const double[:, ::1] rates, const double[::1] ridges):
        """Values (nodes, k) of the first trees, from 0 on by passes over all rows, each tree a Newton step of its own.

        base (n, k) is each row's log joint; rows without a finite one for their class do not count. Pass s takes
        rates[s, t] of a step of tree t with ridges[s].
        """
        cdef Py_ssize_t n = self.t.n, k = self.t.k, stride = self.t.stride, passes = rates.shape[0], trees = rates.shape[1]
        cdef Py_ssize_t i, j, s, t
        cdef Refit r
        if base.shape[0] != n or base.shape[1] != k or ridges.shape[0] != passes or trees > len(self.parts):
            raise ValueError(f"there are {n} rows, {k} classes, {passes} passes and {len(self.parts)} trees: base, rates and "
                             "ridges must agree")
        if not (np.isfinite(rates).all() and np.isfinite(ridges).all() and (np.asarray(ridges) > 0.0).all()):
            raise ValueError("rates and ridges must be finite, and ridges positive")
        links = [part[3] for part in self.parts[:trees]]
        starts = np.cumsum([0, *map(len, links)])
        values, room = np.zeros((starts[trees], k)), np.empty(n * (stride + 1) + MAX_NODES * (SUMS + 1) * stride + 1)
        cdef double[:, ::1] v = values
        cdef double[::1] held = room
        cdef const int64_t[::1] place = self.places, start = starts
        cdef const uint8_t[::1] before, leaf
        cdef const int32_t[::1] parent
        cdef bint counts
        r.n, r.k, r.stride, r.y = n, k, stride, self.t.y
        r.p, r.weight = &held[0], &held[n * stride]
        r.sums = r.weight + n
        r.factor = r.sums + MAX_NODES * SUMS * stride
        with nogil:
            for i in range(n):
                counts = isfinite(base[place[i], self.t.y[i]])
                r.weight[i] = 0.0 if not counts else self.t.weight[i] if self.t.weight != NULL else 1.0
                for j in range(stride):
                    r.p[i * stride + j] = -INFINITY if j >= k else fmax(base[place[i], j], -INFINITY) if counts else 0.0
            begin_refit(&r)
        before = self.leaves[0] if trees else None  # and there is no step to take
        for s in range(passes):
            for t in range(trees):
                leaf, parent = self.leaves[t], links[t]
                with nogil:
                    refit_tree(&r, &before[0], &leaf[0], &parent[0], parent.shape[0], rates[s, t], ridges[s],
                               &v[start[t], 0])
                before = leaf
        return values
