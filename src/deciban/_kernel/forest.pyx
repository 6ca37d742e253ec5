# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Trees of splits over small codes. Once grown, a tree is a fixed function of a row: its leaf.

Rows are `codes` (n, d), uint8: column j has the values 0..levels[j]−1, of which 0 is "missing"; 255 was never seen.
If ordered[j] is 1, codes up to a cut go left; otherwise a set of values does.

A forest is flat arrays over the nodes of all trees, each tree's from start[t] to start[t + 1], its root first and
children after their parents: `column` that is split on (−1: a leaf), `left`, `right` and `parent` (−1: none), `cut`
and `mask` (256 bits, those of the values that go left; zero if the column is ordered). In a mask, known values that no
row of the node had go where most of its rows go. A row whose value was never seen ends at the node that splits on it,
so its leaf may be a node with children.

All loops run without the GIL, in one thread: callers run slices of trees or of rows in threads.
"""
import numpy as np

from libc.math cimport floor, isfinite, log
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

cdef extern from "forest_loops.h":
    enum:
        LANES
        LOGS
        UNSEEN
    ctypedef struct Sample:
        int64_t n, d, k, logs, tries, deepest
        const uint8_t *codes
        const int32_t *levels
        const int32_t *y
        const uint8_t *ordered
        const double *weight
        const double *n_log_n
        int whole
        double least
    ctypedef struct Nodes:
        int64_t size
        int32_t *column
        int32_t *left
        int32_t *right
        int32_t *parent
        uint8_t *cut
        uint64_t *mask
    ctypedef struct Room:
        int32_t *rows
    ctypedef struct Forest:
        int64_t size, trees, d
        const int32_t *column
        const int32_t *left
        const int32_t *right
        const int32_t *start
        const uint8_t *cut
        const uint8_t *ordered
        const uint64_t *mask
    ctypedef struct Law:
        int64_t size, k
        const int32_t *parent
        const double *counts
        const double *prior
        double strength
    ctypedef struct Asked:
        const int32_t *leaf
        const int32_t *own
        const uint8_t *member
        const double *weight
        const double *table
        const double *total
        double prior_rows
        Py_ssize_t leaf_row, leaf_tree, member_row, member_tree, out_row
        int64_t n, trees
        int geometric
    uint64_t scrambled(uint64_t) noexcept nogil
    void nodes_free(Nodes*) noexcept nogil
    void room_free(Room*) noexcept nogil
    int room_made(Room*, const Sample*, int64_t) noexcept nogil
    int grow_tree(const Sample*, Room*, int64_t, uint64_t, uint64_t, Nodes*) noexcept nogil
    int64_t find_leaves(const Forest*, const uint8_t*, int64_t, int32_t*, Py_ssize_t, Py_ssize_t) noexcept nogil
    int64_t sum_values(const Forest*, const uint8_t*, int64_t, const double*, int64_t, double*) noexcept nogil
    int64_t back_off(const Law*, double*) noexcept nogil
    int64_t evidence_rows(const Law*, const Asked*, double*, double*) noexcept nogil
    double logarithm(double) noexcept nogil

cdef enum:
    ROWS_FOR_TABLE = 32  # with fewer rows, following their own paths is less work than computing all nodes


def grow(const uint8_t[:, ::1] codes, const int32_t[::1] levels, const uint8_t[::1] ordered, const int32_t[::1] y,
         const double[::1] weight, const int32_t[::1] rows, Py_ssize_t k, Py_ssize_t tries, double least,
         Py_ssize_t deepest, uint64_t seed):
    """One tree on `rows` (repeated rows count again): column, left, right, parent, cut, mask.

    Greedy by information gain, among `tries` columns drawn at each node (more if none of those can split).
    `least` is the smallest weight of rows on either side, `deepest` the largest number of splits on a path. Rows with
    y < 0 are left out; without a `weight` each row counts 1. It is tree 0 of `grow_forest` with the same seed.
    """
    return _grown(codes, levels, ordered, y, weight, rows, None, k, tries, least, deepest, seed, 0)[:6]


def grow_forest(const uint8_t[:, ::1] codes, const int32_t[::1] levels, const uint8_t[::1] ordered,
                const int32_t[::1] y, const double[::1] weight, const uint8_t[:, :] member, Py_ssize_t k,
                Py_ssize_t tries, double least, Py_ssize_t deepest, uint64_t seed, Py_ssize_t first_tree=0):
    """Tree t on the rows with member[:, t] ≠ 0: the arrays of `grow`, one tree after the other, and start.

    The random numbers of tree t depend only on `seed` and first_tree + t.
    """
    return _grown(codes, levels, ordered, y, weight, None, member, k, tries, least, deepest, seed, first_tree)


cdef _grown(const uint8_t[:, ::1] codes, const int32_t[::1] levels, const uint8_t[::1] ordered, const int32_t[::1] y,
            const double[::1] weight, const int32_t[::1] rows, const uint8_t[:, :] member, Py_ssize_t k,
            Py_ssize_t tries, double least, Py_ssize_t deepest, uint64_t seed, Py_ssize_t first_tree):
    cdef Py_ssize_t n = codes.shape[0], d = codes.shape[1], i, j, t, many, most
    cdef Py_ssize_t trees = 1 if member is None else member.shape[1]
    cdef double heaviest = 1.0, total
    cdef bint weighted = weight is not None, whole = True, fine = True
    if y.shape[0] != n or (weighted and weight.shape[0] != n) or (member is not None and member.shape[0] != n):
        raise ValueError(f"codes has {n} rows: y, weight and member must have as many")
    if n > 2147483647 or d > 2147483647:
        raise ValueError(f"codes is {n} by {d}: rows and columns are numbered with 31 bits")
    if k < 1 or k > 65535:
        raise ValueError(f"k is {k}: there must be 1 to 65535 classes")
    if tries < 1 or deepest < 0 or not least >= 0.0:
        raise ValueError(f"tries ({tries}) must be at least 1, least ({least}) and deepest ({deepest}) not negative")
    if first_tree < 0:
        raise ValueError(f"first_tree is {first_tree}: trees are counted from 0")
    _check_codes(codes, levels, ordered)
    _check_labels(y, k)
    if weighted:
        for i in range(n):
            if not (isfinite(weight[i]) and weight[i] >= 0.0):
                raise ValueError(f"the weight of row {i} is {weight[i]}: weights must be finite and not negative")
            whole = whole and floor(weight[i]) == weight[i]
            heaviest = max(heaviest, weight[i])
    if rows is not None:
        for i in range(rows.shape[0]):
            if rows[i] < 0 or rows[i] >= n:
                raise ValueError(f"rows[{i}] is {rows[i]}: with {n} rows it must be 0 to {n - 1}")
        most = rows.shape[0]
    else:
        most = n
    total = heaviest * most
    whole = whole and total < 2147483647.0

    cdef Sample s
    cdef Room room
    cdef Nodes nodes
    memset(&s, 0, sizeof(Sample))
    memset(&room, 0, sizeof(Room))
    memset(&nodes, 0, sizeof(Nodes))
    s.n, s.d, s.k, s.tries, s.deepest, s.least = n, d, k, tries, min(deepest, 2147483647), least
    s.levels, s.ordered = &levels[0] if d else NULL, &ordered[0] if d else NULL
    s.y, s.weight, s.whole = &y[0] if n else NULL, &weight[0] if weighted and n else NULL, whole
    if s.weight == NULL and not whole:  # too many rows for 31 bits
        raise ValueError(f"{most} rows are too many for one tree")
    s.logs = <int64_t> min(total + 1.0, <double> LOGS) if whole else 1
    cdef uint8_t *by_column = <uint8_t *> malloc(max(1, n * d))
    cdef double *logs = <double *> malloc(s.logs * sizeof(double))
    start_array = np.zeros(trees + 1, dtype=np.int32)
    cdef int32_t[::1] start = start_array
    try:
        if by_column == NULL or logs == NULL or not room_made(&room, &s, most):
            raise MemoryError()
        with nogil:
            for i in range(n):
                for j in range(d):
                    by_column[j * n + i] = codes[i, j]
            logs[0] = 0.0
            for i in range(1, s.logs):
                logs[i] = i * log(<double> i)
            s.codes, s.n_log_n = by_column, logs
            for t in range(trees):
                many = 0
                for i in range(most):
                    if rows is not None:
                        j = rows[i]
                    else:
                        j = i
                        if member[i, t] == 0:
                            continue
                    if y[j] >= 0 and (not weighted or weight[j] > 0.0):
                        room.rows[many] = <int32_t> j
                        many += 1
                fine = grow_tree(&s, &room, many, seed, first_tree + t, &nodes)
                if not fine:
                    break
                start[t + 1] = <int32_t> nodes.size
        if not fine:
            raise MemoryError()
        return (
            _copied(nodes.column, nodes.size, np.int32), _copied(nodes.left, nodes.size, np.int32),
            _copied(nodes.right, nodes.size, np.int32), _copied(nodes.parent, nodes.size, np.int32),
            _copied(nodes.cut, nodes.size, np.uint8), _copied(nodes.mask, 4 * nodes.size, np.uint64).reshape(-1, 4),
            start_array,
        )
    finally:
        free(by_column)
        free(logs)
        room_free(&room)
        nodes_free(&nodes)


cdef _copied(const void *data, int64_t size, kind):
    out = np.empty(size, dtype=kind)
    cdef uint8_t[::1] flat = out.view(np.uint8)
    if size:
        memcpy(&flat[0], data, flat.shape[0])
    return out


cdef _check_codes(const uint8_t[:, ::1] codes, const int32_t[::1] levels, const uint8_t[::1] ordered):
    cdef Py_ssize_t n = codes.shape[0], d = codes.shape[1], i, j, bad = -1
    if levels.shape[0] != d or ordered.shape[0] != d:
        raise ValueError(f"codes has {d} columns: levels and ordered must have as many entries")
    for j in range(d):
        if levels[j] < 0 or levels[j] > UNSEEN:
            raise ValueError(f"column {j} has {levels[j]} levels: there may be 0 to {UNSEEN}")
    with nogil:
        for i in range(n):
            for j in range(d):
                if codes[i, j] >= levels[j] and codes[i, j] != UNSEEN:
                    bad = i * d + j
                    break
            if bad >= 0:
                break
    if bad >= 0:
        i, j = bad // d, bad % d
        raise ValueError(f"row {i}, column {j}: the code is {codes[i, j]}, but the column has {levels[j]} levels; a "
                         f"value that was never seen is {UNSEEN}")


cdef _check_labels(const int32_t[::1] y, Py_ssize_t k):
    cdef Py_ssize_t i
    for i in range(y.shape[0]):
        if y[i] >= k:
            raise ValueError(f"row {i} is of class {y[i]}: there are {k} classes, from 0 on; negative is unknown")


cdef _check_starts(const int32_t[::1] start, Py_ssize_t m):
    cdef Py_ssize_t t
    for t in range(start.shape[0] - 1):
        if start[t] < 0 or start[t + 1] <= start[t] or start[t + 1] > m:
            raise ValueError(f"tree {t} begins at node {start[t]} and ends before {start[t + 1]}: it must have at "
                             f"least one of {m} nodes")


cdef _check_tree_arrays(const int32_t[::1] column, const int32_t[::1] left, const int32_t[::1] right,
                        const uint8_t[::1] cut, const uint64_t[:, ::1] mask, const int32_t[::1] start):
    cdef Py_ssize_t m = column.shape[0]
    if left.shape[0] != m or right.shape[0] != m or cut.shape[0] != m or mask.shape[0] != m or mask.shape[1] != 4:
        raise ValueError("column, left, right, cut and mask must have one entry a node, and mask four words each")
    _check_starts(start, m)


def check_forest(const int32_t[::1] column, const int32_t[::1] left, const int32_t[::1] right,
                 const int32_t[::1] parent, const int32_t[::1] start, Py_ssize_t d):
    """ValueError unless these are trees: children after their parents in the same tree, columns 0..d−1."""
    cdef Py_ssize_t m = column.shape[0], trees = start.shape[0] - 1, t, node, end, up, l, h
    if left.shape[0] != m or right.shape[0] != m or parent.shape[0] != m:
        raise ValueError("column, left, right and parent must have one entry per node")
    if trees < 0 or start[0] != 0 or start[trees] != m:
        raise ValueError(f"start must begin with 0 and end with the number of nodes, {m}")
    _check_starts(start, m)
    for t in range(trees):
        end = start[t + 1]
        for node in range(start[t], end):
            up, l, h = parent[node], left[node], right[node]
            if node == start[t]:
                if up != -1:
                    raise ValueError(f"node {node} is the root of tree {t}, but has a parent, {up}")
            elif up < start[t] or up >= node or column[up] < 0 or (left[up] != node and right[up] != node):
                raise ValueError(f"node {node} of tree {t}: node {up} is not its parent")
            if column[node] == -1:
                if l != -1 or h != -1:
                    raise ValueError(f"node {node} of tree {t} is a leaf, but has children, {l} and {h}")
                continue
            if column[node] < 0 or column[node] >= d:
                raise ValueError(f"node {node} of tree {t} splits on column {column[node]}: there are {d}")
            if l <= node or h <= node or l >= end or h >= end or l == h or parent[l] != node or parent[h] != node:
                raise ValueError(f"node {node} of tree {t}: nodes {l} and {h} are not its children")


def leaves(const uint8_t[:, ::1] codes, const int32_t[::1] levels, const uint8_t[::1] ordered,
           const int32_t[::1] column, const int32_t[::1] left, const int32_t[::1] right, const uint8_t[::1] cut,
           const uint64_t[:, ::1] mask, const int32_t[::1] start, int32_t[:, :] out):
    """out (n, trees): the number of the node in which each row ends, by tree: a leaf, unless a value was never seen."""
    cdef Py_ssize_t m = column.shape[0], n = codes.shape[0], trees = start.shape[0] - 1, bad
    cdef Forest f
    if trees < 0 or out.shape[0] != n or out.shape[1] != trees:
        raise ValueError(f"start must have one entry more than trees, and out must be ({n}, {trees})")
    _check_tree_arrays(column, left, right, cut, mask, start)
    _check_codes(codes, levels, ordered)
    if n == 0 or trees == 0:
        return
    f.size, f.trees, f.d = m, trees, codes.shape[1]
    f.column, f.left, f.right, f.start = &column[0], &left[0], &right[0], &start[0]
    f.cut, f.mask = &cut[0], &mask[0, 0]
    f.ordered = &ordered[0] if f.d else NULL
    with nogil:
        bad = find_leaves(&f, &codes[0, 0] if f.d else NULL, n, &out[0, 0], out.strides[0] // sizeof(int32_t),
                          out.strides[1] // sizeof(int32_t))
    if bad >= 0:
        raise ValueError(f"node {bad} splits on column {column[bad]} of {f.d} into nodes {left[bad]} and {right[bad]}: "
                         f"that is no tree")


def node_sums(const uint8_t[:, ::1] codes, const int32_t[::1] levels, const uint8_t[::1] ordered,
              const int32_t[::1] column, const int32_t[::1] left, const int32_t[::1] right, const uint8_t[::1] cut,
              const uint64_t[:, ::1] mask, const int32_t[::1] start, const double[:, ::1] values, Py_ssize_t first,
              Py_ssize_t last, double[:, ::1] out):
    """out (n, k) += Σ of `values` (nodes, k) at the nodes in which each row ends, over the trees first..last − 1."""
    cdef Py_ssize_t m = column.shape[0], n = codes.shape[0], trees = start.shape[0] - 1, bad
    cdef Forest f
    if not 0 <= first <= last <= trees or values.shape[0] != m or out.shape[0] != n or out.shape[1] != values.shape[1]:
        raise ValueError(f"with {trees} trees of {m} nodes, values must have {m} rows and out {n}, of the same classes")
    _check_tree_arrays(column, left, right, cut, mask, start)
    _check_codes(codes, levels, ordered)
    if n == 0 or first == last:
        return
    f.size, f.trees, f.d = m, last - first, codes.shape[1]
    f.column, f.left, f.right, f.start = &column[0], &left[0], &right[0], &start[first]
    f.cut, f.mask = &cut[0], &mask[0, 0]
    f.ordered = &ordered[0] if f.d else NULL
    with nogil:
        bad = sum_values(&f, &codes[0, 0] if f.d else NULL, n, &values[0, 0], values.shape[1], &out[0, 0])
    if bad >= 0:
        raise ValueError(f"node {bad} splits on column {column[bad]} of {f.d} into nodes {left[bad]} and {right[bad]}: "
                         f"that is no tree")


def members(const uint64_t[::1] mark, const uint64_t[::1] seeds, uint64_t below, uint8_t[:, ::1] out):
    """out (n, trees) = 1 if the bits of mark ^ seed, mixed, are below a number of 53 bits."""
    cdef Py_ssize_t n = mark.shape[0], trees = seeds.shape[0], i, t
    if out.shape[0] != n or out.shape[1] != trees:
        raise ValueError(f"out must be ({n}, {trees})")
    with nogil:
        for i in range(n):
            for t in range(trees):
                out[i, t] = scrambled(mark[i] ^ seeds[t]) >> 11 < below


def node_counts(const int32_t[:, :] leaf, const int32_t[::1] y, const double[::1] weight, const int32_t[::1] parent,
                double[:, ::1] out):
    """out[node, y[i]] += weight[i] for each row's leaves and all nodes above them. Rows with y < 0 add nothing."""
    cdef Py_ssize_t n = leaf.shape[0], trees = leaf.shape[1], m = out.shape[0], k = out.shape[1], i, t, c
    cdef Py_ssize_t node
    cdef double w
    cdef double *table = NULL
    cdef bint weighted = weight is not None
    if y.shape[0] != n or (weighted and weight.shape[0] != n) or parent.shape[0] != m:
        raise ValueError(f"leaf has {n} rows and out {m} nodes: y and weight, and parent, must have as many")
    _check_labels(y, k)
    for i in range(n):
        for t in range(trees):
            if leaf[i, t] < 0 or leaf[i, t] >= m:
                raise ValueError(f"row {i}, tree {t}: leaf {leaf[i, t]} is not one of {m} nodes")
    for node in range(m):
        if parent[node] >= node:
            raise ValueError(f"node {node} must come after its parent, {parent[node]}")
    if n * trees > m:  # leaves first, and then each node to its parent: every node once
        table = <double *> calloc(max(1, m * k), sizeof(double))
        if table == NULL:
            raise MemoryError()
    with nogil:
        for i in range(n):
            if y[i] < 0:
                continue
            w = weight[i] if weighted else 1.0
            for t in range(trees):
                node = leaf[i, t]
                if table != NULL:
                    table[node * k + y[i]] += w
                    continue
                while node >= 0:
                    out[node, y[i]] += w
                    node = parent[node]
        if table != NULL:
            for node in range(m - 1, -1, -1):
                for c in range(k):
                    out[node, c] += table[node * k + c]
                if parent[node] >= 0:
                    for c in range(k):
                        table[parent[node] * k + c] += table[node * k + c]
    free(table)


cdef _law(Law *law, const int32_t[::1] parent, const double[:, ::1] counts, const double[::1] prior, double strength):
    cdef Py_ssize_t m = counts.shape[0], k = counts.shape[1]
    if parent.shape[0] != m or prior.shape[0] != k or k == 0:
        raise ValueError(f"counts is ({m}, {k}): parent must have {m} entries, prior {k}, and there must be a class")
    if not (isfinite(strength) and strength > 0.0):
        raise ValueError(f"strength is {strength}: it must be positive and finite")
    law.size, law.k, law.strength, law.prior = m, k, strength, &prior[0]
    law.parent, law.counts = &parent[0] if m else NULL, &counts[0, 0] if m else NULL


def probabilities(const int32_t[::1] parent, const double[:, ::1] counts, const double[::1] prior, double strength,
                  double[:, ::1] out):
    """out (m, k): P(class given node) = (C_node + s·P(class given parent)) / (Σ C_node + s), and π above the root."""
    cdef Law law
    cdef int64_t bad
    _law(&law, parent, counts, prior, strength)
    if out.shape[0] != law.size or out.shape[1] != law.k:
        raise ValueError(f"out must be ({law.size}, {law.k})")
    if law.size == 0:
        return
    with nogil:
        bad = back_off(&law, &out[0, 0])
    if bad >= 0:
        raise ValueError(f"node {bad} must come after its parent, {parent[bad]}")


def evidence(const int32_t[:, :] leaf, const int32_t[::1] parent, const double[:, ::1] counts, const double[::1] prior,
             double strength, const uint8_t[:, :] member, const int32_t[::1] own, const double[::1] weight,
             bint geometric, double[:, :] out, const double[:, ::1] table=None, double prior_rows=0.0):
    """out (n, k) = log(mean over trees of P(class given leaf)) − log π; `geometric`: the mean of the logs − log π.

    Trees with member[i, t] ≠ 0 are left out; a row without any tree left gets 0, and so does a class with π = 0.
    A row with own[i] ≥ 0 was counted: its weight (None: 1) is first subtracted in all nodes of its paths, and if π are
    the shares of the classes in `prior_rows` rows, in these too.
    `table` is the result of `probabilities`; callers that pass slices of rows compute it once.
    """
    cdef Py_ssize_t n = leaf.shape[0], trees = leaf.shape[1], i, c, node
    cdef int64_t bad = -1
    cdef Law law
    cdef Asked a
    cdef bint some_own = own is not None, some_free = own is None
    _law(&law, parent, counts, prior, strength)
    if out.shape[0] != n or out.shape[1] != law.k or (law.k > 1 and out.strides[1] != sizeof(double)):
        raise ValueError(f"out must be ({n}, {law.k}), rows contiguous")
    if member is not None and (member.shape[0] != n or member.shape[1] != trees):
        raise ValueError(f"member must be ({n}, {trees}), like leaf")
    if (own is not None and own.shape[0] != n) or (weight is not None and weight.shape[0] != n):
        raise ValueError(f"leaf has {n} rows: own and weight must have as many")
    if table is not None and (table.shape[0] != law.size or table.shape[1] != law.k):
        raise ValueError(f"table must be ({law.size}, {law.k}), like counts")
    if own is not None:
        _check_labels(own, law.k)
        for i in range(n):
            some_free = some_free or own[i] < 0
    if n == 0:
        return
    if trees == 0 or law.size == 0:
        if trees:
            raise ValueError("there are no nodes, so there can be no leaf")
        for i in range(n):
            for c in range(law.k):
                out[i, c] = 0.0
        return
    memset(&a, 0, sizeof(Asked))
    a.prior_rows = prior_rows
    a.n, a.trees, a.geometric, a.leaf, a.out_row = n, trees, geometric, &leaf[0, 0], out.strides[0] // sizeof(double)
    a.leaf_row, a.leaf_tree = leaf.strides[0] // sizeof(int32_t), leaf.strides[1] // sizeof(int32_t)
    if own is not None:
        a.own = &own[0]
    if weight is not None:
        a.weight = &weight[0]
    if member is not None:
        a.member, a.member_row, a.member_tree = &member[0, 0], member.strides[0], member.strides[1]
    if table is not None:
        a.table = &table[0, 0]
    cdef double *room = <double *> malloc(5 * (law.k + LANES) * sizeof(double))
    cdef double *made = NULL
    cdef double *total = NULL
    if n >= ROWS_FOR_TABLE and some_own:
        total = <double *> malloc(law.size * sizeof(double))
    if n >= ROWS_FOR_TABLE and some_free and table is None:
        made = <double *> malloc(law.size * law.k * sizeof(double))
    try:
        if room == NULL or (n >= ROWS_FOR_TABLE and (
                (some_own and total == NULL) or (some_free and table is None and made == NULL))):
            raise MemoryError()
        with nogil:
            if total != NULL:
                for node in range(law.size):
                    total[node] = 0.0
                    for c in range(law.k):
                        total[node] += counts[node, c]
                a.total = total
            if made != NULL:
                bad = back_off(&law, made)
                a.table = made
            if bad < 0:
                bad = evidence_rows(&law, &a, room, &out[0, 0])
            else:
                bad = -2 - bad
        if bad < -1:
            raise ValueError(f"node {-2 - bad} must come after its parent, {parent[-2 - bad]}")
        if bad >= 0:
            raise ValueError(f"row {bad // trees}, tree {bad % trees}: from leaf {leaf[bad // trees, bad % trees]} no "
                             f"path leads to a root among {law.size} nodes")
    finally:
        free(room)
        free(made)
        free(total)


def terms(const int32_t[:, ::1] leaf, const int32_t[::1] column, const int32_t[::1] parent,
          const double[:, ::1] counts, const double[::1] prior, double strength, const uint8_t[:, ::1] member,
          double[:, :, ::1] out, double[:, ::1] rest):
    """Each row's geometric evidence by column: the change of log P at each split goes to the column it splits on.

    out (n, d, k) and rest (n, k), the root's evidence relative to π, are means over trees and add up to the evidence.
    Trees with member[i, t] ≠ 0 are left out; a row without any tree left gets 0.
    """
    cdef Py_ssize_t n = leaf.shape[0], trees = leaf.shape[1], d = out.shape[1], k = out.shape[2]
    cdef Py_ssize_t i, t, c, node, up, size = 0, step, used
    cdef double here, one, share
    cdef Law law
    _law(&law, parent, counts, prior, strength)
    if column.shape[0] != law.size or k != law.k or out.shape[0] != n or rest.shape[0] != n or rest.shape[1] != k:
        raise ValueError(f"column must have {law.size} entries, rest must be ({n}, {law.k}), and out ({n}, columns, "
                         f"{law.k})")
    if member is not None and (member.shape[0] != n or member.shape[1] != trees):
        raise ValueError(f"member must be ({n}, {trees}), like leaf")
    out[:, :, :] = 0.0
    rest[:, :] = 0.0
    if n == 0 or trees == 0:
        return
    for i in range(n):
        for t in range(trees):  # the longest path
            if leaf[i, t] < 0 or leaf[i, t] >= law.size:
                raise ValueError(f"row {i}, tree {t}: leaf {leaf[i, t]} is not one of {law.size} nodes")
            node = leaf[i, t]
            step = 1
            while parent[node] >= 0:
                up = parent[node]
                if up >= node or column[up] < 0 or column[up] >= d:
                    raise ValueError(f"node {node}: node {up} cannot be its parent; parents come first and split on "
                                     f"one of {d} columns")
                node = up
                step += 1
            size = max(size, step)
    cdef int32_t *path = <int32_t *> malloc(size * sizeof(int32_t))
    cdef double *p = <double *> malloc(2 * k * sizeof(double))
    if path == NULL or p == NULL:
        free(path)
        free(p)
        raise MemoryError()
    with nogil:
        for i in range(n):
            used = trees
            if member is not None:
                for t in range(trees):
                    used -= member[i, t] != 0
            if used == 0:
                continue
            one = 1.0 / used
            for t in range(trees):
                if member is not None and member[i, t] != 0:
                    continue
                step = 0
                node = leaf[i, t]
                while node >= 0:
                    path[step] = <int32_t> node
                    step += 1
                    node = parent[node]
                for c in range(k):
                    p[c] = prior[c]
                    p[k + c] = logarithm(prior[c])
                while step:
                    step -= 1
                    node = path[step]
                    up = parent[node]
                    share = strength
                    for c in range(k):
                        share += counts[node, c]
                    for c in range(k):
                        p[c] = (counts[node, c] + strength * p[c]) / share
                        if not prior[c] > 0.0:
                            continue
                        here = logarithm(p[c])
                        if up < 0:
                            rest[i, c] += one * (here - p[k + c])
                        else:
                            out[i, column[up], c] += one * (here - p[k + c])
                        p[k + c] = here
    free(path)
    free(p)


def value_terms(const int32_t[:, ::1] leaf, const int32_t[::1] column, const int32_t[::1] parent,
                const double[:, ::1] values, double[:, :, ::1] out, double[:, ::1] rest):
    """Σ over trees of the values at each row's `leaf` (n, trees), by column.

    The difference of a node's value from its parent's is added to out (n, d, k) at the column that the parent splits on,
    and the root's value to rest (n, k).
    """
    cdef Py_ssize_t n = leaf.shape[0], trees = leaf.shape[1], m = values.shape[0], k = values.shape[1], d = out.shape[1]
    cdef Py_ssize_t i, t, c, node, up
    if column.shape[0] != m or parent.shape[0] != m or out.shape[0] != n or rest.shape[0] != n or out.shape[2] != k \
            or rest.shape[1] != k:
        raise ValueError(f"column and parent must have {m} entries, rest must be ({n}, {k}), and out ({n}, columns, {k})")
    for node in range(m):
        up = parent[node]
        if up >= node or up < -1 or (up >= 0 and not 0 <= column[up] < d):
            raise ValueError(f"node {node}: node {up} cannot be its parent; parents come first and split on one of {d} "
                             f"columns")
    for i in range(n):
        for t in range(trees):
            if leaf[i, t] < 0 or leaf[i, t] >= m:
                raise ValueError(f"row {i}, tree {t}: leaf {leaf[i, t]} is not one of {m} nodes")
    with nogil:
        for i in range(n):
            for t in range(trees):
                node = leaf[i, t]
                up = parent[node]
                while up >= 0:
                    for c in range(k):
                        out[i, column[up], c] += values[node, c] - values[up, c]
                    node = up
                    up = parent[node]
                for c in range(k):
                    rest[i, c] += values[node, c]
