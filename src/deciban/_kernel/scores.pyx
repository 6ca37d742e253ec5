# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Log-probabilities that are sums of table entries: category codes, and linear forms of sparse rows."""
from libc.limits cimport INT_MAX
from libc.math cimport log, NAN
from libc.stdlib cimport free, malloc

cdef extern from "scores_loops.h":
    enum:
        LANES  # numbers side by side
        PANEL  # classes of a panel of a dense table
        GROUP  # dense rows summed at once, at most
    void sum_rows_int(const double*, const int*, const int*, Py_ssize_t, const double*, Py_ssize_t, bint, const double*,
                      Py_ssize_t, double*) noexcept nogil
    void sum_rows_long(const double*, const long long*, const long long*, Py_ssize_t, const double*, Py_ssize_t, bint,
                       const double*, Py_ssize_t, double*) noexcept nogil
    void places_byte(const char*, Py_ssize_t, Py_ssize_t, Py_ssize_t, Py_ssize_t, const int*, const int*, int,
                     int*) noexcept nogil
    void places_int(const char*, Py_ssize_t, Py_ssize_t, Py_ssize_t, Py_ssize_t, const int*, const int*, int,
                    int*) noexcept nogil
    void places_long(const char*, Py_ssize_t, Py_ssize_t, Py_ssize_t, Py_ssize_t, const int*, const int*, int,
                     int*) noexcept nogil
    void places_single(const char*, Py_ssize_t, Py_ssize_t, Py_ssize_t, Py_ssize_t, const int*, const int*, int,
                       int*) noexcept nogil
    void places_double(const char*, Py_ssize_t, Py_ssize_t, Py_ssize_t, Py_ssize_t, const int*, const int*, int,
                       int*) noexcept nogil
    void gather_int(const char*, Py_ssize_t, Py_ssize_t, Py_ssize_t, Py_ssize_t, const double*, const double*,
                    double*) noexcept nogil
    void gather_long(const char*, Py_ssize_t, Py_ssize_t, Py_ssize_t, Py_ssize_t, const double*, const double*,
                     double*) noexcept nogil
    void gather_single(const char*, Py_ssize_t, Py_ssize_t, Py_ssize_t, Py_ssize_t, const double*, const double*,
                       double*) noexcept nogil
    void gather_double(const char*, Py_ssize_t, Py_ssize_t, Py_ssize_t, Py_ssize_t, const double*, const double*,
                       double*) noexcept nogil
    void cosine_row(const double*, double, Py_ssize_t, double*) noexcept nogil
    void limit_row(const double*, Py_ssize_t, double, double*) noexcept nogil
    double smoothing_loss(const double*, const double*, const double*, const double*, const double*, const double*,
                          Py_ssize_t, Py_ssize_t, double, double, double*) noexcept nogil
    double loss_of_row(const double*, const double*, Py_ssize_t, Py_ssize_t, double*) noexcept nogil
    bint pair_scores(const double*, Py_ssize_t, Py_ssize_t, Py_ssize_t, const double*, const double*,
                     double*) noexcept nogil
    bint panel_scores(const double*, Py_ssize_t, Py_ssize_t, Py_ssize_t, const double*, const double*, Py_ssize_t,
                      double*) noexcept nogil

cdef enum:
    BATCH = 4096  # entries read at a time
    NEAR = 32768  # numbers of a table that stays in the caches next to a core

PANEL_SHAPE = (LANES, PANEL)  # numbers side by side, and classes of a panel, for those who lay out tables

ctypedef long long longlong

ctypedef fused code:
    unsigned char
    int
    longlong
    float
    double

ctypedef fused index:
    int
    long long

ctypedef fused value:
    int
    longlong
    float
    double

ctypedef fused number:
    int
    longlong
    float
    double


def code_scores(const code[:, :] X, const Py_ssize_t[::1] offset, const double[:, ::1] table, const double[::1] start,
                double[:, ::1] out):
    """out[i] = start + Σ_j table[offset[j] + x_ij]. After the rows for codes, the table has a row for each column, which
    a code past the column's own rows adds, and one of zeros, for negative codes and NaN (missing).

    The table's rows have 2 numbers, or a multiple of LANES, of which K count.
    """
    cdef Py_ssize_t n = X.shape[0], d = X.shape[1], k = out.shape[1], width = table.shape[1], i, j, rows, batch
    cdef Py_ssize_t cells = table.shape[0] - d - 1
    cdef int* first
    cdef int* sizes
    cdef int* places
    cdef int* bounds
    cdef bint far = table.shape[0] * width > NEAR
    cdef const char* x
    if n == 0 or k == 0:
        return
    if (offset.shape[0] != d + 1 or cells < offset[d] or (width % LANES and width != 2) or width < k
            or start.shape[0] != k or out.shape[0] != n):
        raise ValueError("the table does not fit the codes and classes")
    if table.shape[0] > INT_MAX:
        raise OverflowError("there are too many categories")
    batch = max(1, min(n, BATCH // max(d, 1)))
    first = <int*> malloc((2 * d + batch * d + batch + 1) * sizeof(int))
    if first == NULL:
        raise MemoryError()
    sizes = first + d
    places = sizes + d
    bounds = places + batch * d
    with nogil:
        for j in range(d):
            first[j] = <int> offset[j]
            sizes[j] = <int> (offset[j + 1] - offset[j])
        for i in range(batch + 1):
            bounds[i] = <int> (i * d)
        i = 0
        while i < n:
            rows = min(batch, n - i)
            x = <const char*> &X[i, 0] if d else NULL
            if code is int:
                places_int(x, X.strides[0], X.strides[1], rows, d, first, sizes, <int> cells, places)
            elif code is float:
                places_single(x, X.strides[0], X.strides[1], rows, d, first, sizes, <int> cells, places)
            elif code is double:
                places_double(x, X.strides[0], X.strides[1], rows, d, first, sizes, <int> cells, places)
            elif code is longlong:
                places_long(x, X.strides[0], X.strides[1], rows, d, first, sizes, <int> cells, places)
            else:
                places_byte(x, X.strides[0], X.strides[1], rows, d, first, sizes, <int> cells, places)
            sum_rows_int(NULL, places, bounds, rows, &table[0, 0], width, far, &start[0], k, &out[i, 0])
            i += rows
    free(first)


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
                          const double[::1] weights, const Py_ssize_t[::1] place, double[:, :] out,
                          double[:, :, :] each):
    """The evidence of columns of codes about learned rows of classes y, each without itself, less its mean over the classes.

    `counts` (cells, k) are the smoothed counts of values in each class, `back` (cells,) those in
    all classes, `own` the share of a row's weight that stays in its own cell, `total` (d, k) the weight of each class.
    Column j adds weights[j] times its evidence to out (n, k), and if place[j] ≥ 0 it is also stored in each[:, place[j]].
    Both may be parts of larger arrays, with the classes of a row side by side.
    """
    cdef Py_ssize_t n = X.shape[0], d = X.shape[1], k = out.shape[1], i, j, c, cell, lines = counts.shape[0], own_class
    cdef double s, gone, rest, mean, less, prior, left, mine, w
    cdef double* line
    cdef double* to
    if k > 1 and (out.strides[1] != sizeof(double) or (each.shape[1] and each.strides[2] != sizeof(double))):
        raise ValueError("the classes of a row must be side by side in out and in each")
    # The evidence about other classes is the same for all rows of one weight with a value, and is computed once.
    lines = lines if 2 * lines < n * d else 1
    cdef double* table = <double*> malloc((lines * (k + 2) + d + 1) * sizeof(double))
    if table == NULL:
        raise MemoryError()
    cdef double* sums = table + lines * k
    cdef double* known = sums + lines
    cdef double* all_ = known + lines
    with nogil:
        for j in range(d):
            all_[j] = 0.0
            for c in range(k):
                all_[j] += total[j, c]
        for c in range(lines):
            known[c] = NAN
        for i in range(n):
            own_class = y[i]
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
                c = cell if lines > 1 else 0
                line = table + c * k
                if lines == 1 or known[c] != taken[i]:
                    known[c] = taken[i]
                    code_line(&counts[cell, 0], &total[j, 0], k, prior, s, line, sums + c)
                mean = sums[c]
                mine = 0.0
                if own_class >= 0:
                    left = counts[cell, own_class] - gone if counts[cell, own_class] > gone else 0.0
                    less = total[j, own_class] - taken[i] if total[j, own_class] > taken[i] else 0.0
                    mine = log((left + prior) / (less + s))
                    mean += mine - line[own_class]
                mean /= k
                w = weights[j]
                to = &out[i, 0]
                for c in range(k):
                    to[c] += w * (line[c] - mean)
                if own_class >= 0:
                    to[own_class] += w * (mine - line[own_class])
                if place[j] >= 0:
                    to = &each[i, place[j], 0]
                    for c in range(k):
                        to[c] = line[c] - mean
                    if own_class >= 0:
                        to[own_class] = mine - mean
    free(table)


cdef void code_line(const double* counts, const double* total, Py_ssize_t k, double prior, double s, double* out,
                    double* sum_) noexcept nogil:
    """log p(value given class) for every class, and the sum."""
    cdef Py_ssize_t c
    sum_[0] = 0.0
    for c in range(k):
        out[c] = log((counts[c] + prior) / (total[c] + s))
        sum_[0] += out[c]


def cosines(double[:, ::1] angles, const double[::1] phase, double factor):
    """angles (n, d) become factor × cos(angles + phase)."""
    cdef Py_ssize_t n = angles.shape[0], d = angles.shape[1], i
    if phase.shape[0] != d:
        raise ValueError(f"rows have {d} angles: there must be as many phases, not {phase.shape[0]}")
    with nogil:
        for i in range(n if d else 0):
            cosine_row(&phase[0], factor, d, &angles[i, 0])


def limit(const double[:, :] evidence, double most, double[:, :] out):
    """out = evidence (n, k) less that of the best class, but at least −most, less the mean of that over the classes."""
    cdef Py_ssize_t n = evidence.shape[0], k = evidence.shape[1], i
    if out.shape[0] != n or out.shape[1] != k:
        raise ValueError(f"evidence is ({n}, {k}): out must be the same")
    if k > 1 and (evidence.strides[1] != sizeof(double) or out.strides[1] != sizeof(double)):
        raise ValueError("the classes of a row must be side by side")
    with nogil:
        for i in range(n if k else 0):
            limit_row(&evidence[i, 0], k, most, &out[i, 0])


def losses(const double[:, :] evidence, const double[::1] log_prior, const int[::1] y, double[::1] out):
    """out (n,) = −log P(y) of each row when evidence (n, k) is added to the log prior."""
    cdef Py_ssize_t n = evidence.shape[0], k = evidence.shape[1], i
    if y.shape[0] != n or out.shape[0] != n or log_prior.shape[0] != k:
        raise ValueError(f"evidence is ({n}, {k}): y and out must have {n} entries, log_prior {k}")
    if k > 1 and evidence.strides[1] != sizeof(double):
        raise ValueError("the classes of a row must be side by side")
    for i in range(n):
        if y[i] < 0 or y[i] >= k:
            raise ValueError(f"row {i} is of class {y[i]}: there are {k} classes, from 0 on")
    cdef double* room = <double*> malloc((k + LANES) * sizeof(double))
    if room == NULL:
        raise MemoryError()
    with nogil:
        for i in range(n):
            out[i] = loss_of_row(&evidence[i, 0], &log_prior[0], k, y[i], room)
    free(room)


def limited_losses(const double[:, ::1] evidence, const double[::1] scales, double most, const double[::1] log_prior,
                   const int[::1] y, const double[::1] weight, double[::1] out):
    """out[s] = the mean, by weight, of the `losses` of evidence (n, k) times scales[s], after `limit`."""
    cdef Py_ssize_t n = evidence.shape[0], k = evidence.shape[1], i, c, s
    cdef double sum_, total, w
    if y.shape[0] != n or log_prior.shape[0] != k or (weight is not None and weight.shape[0] != n):
        raise ValueError(f"evidence is ({n}, {k}): y and weight must have {n} entries, log_prior {k}")
    if out.shape[0] != scales.shape[0]:
        raise ValueError(f"there are {scales.shape[0]} scales: out must have as many places, not {out.shape[0]}")
    for i in range(n):
        if y[i] < 0 or y[i] >= k:
            raise ValueError(f"row {i} is of class {y[i]}: there are {k} classes, from 0 on")
    cdef double* room = <double*> malloc((3 * k + LANES) * sizeof(double))
    if room == NULL:
        raise MemoryError()
    cdef double* scaled = room + k + LANES
    cdef double* limited = scaled + k
    with nogil:
        for s in range(scales.shape[0]):
            sum_, total = 0.0, 0.0
            for i in range(n):
                w = 1.0 if weight is None else weight[i]
                for c in range(k):
                    scaled[c] = scales[s] * evidence[i, c]
                limit_row(scaled, k, most, limited)
                sum_ += w * loss_of_row(limited, &log_prior[0], k, y[i], room)
                total += w
            out[s] = sum_ / total
    free(room)


def smoothing_losses(const double[:, ::1] counts, const double[:, :, ::1] smooth, const double[:, ::1] rest,
                     const double[:, ::1] kept, const double[::1] strength, const double[::1] log_prior, double taken,
                     double[::1] out):
    """out[s] = Σ −log P(class given value) of a column's rows, one of weight `taken` left out at a time, by smoothing.

    counts is (k, values), smooth (s or 1, k, values), kept (s or 1, values); rest (s, values) is a value's share of all
    other rows, negative if none of them has it.
    """
    cdef Py_ssize_t k = counts.shape[0], size = counts.shape[1], some = strength.shape[0], s, c, v
    cdef bint wrong = out.shape[0] != some or log_prior.shape[0] != k
    wrong |= smooth.shape[1] != k or smooth.shape[2] != size or rest.shape[1] != size or kept.shape[1] != size
    wrong |= smooth.shape[0] not in (1, some) or rest.shape[0] not in (1, some) or kept.shape[0] not in (1, some)
    if wrong:
        raise ValueError("counts, smoothings and classes do not fit")
    if k == 0 or size == 0:
        out[:] = 0.0
        return
    cdef double* room = <double*> malloc(((2 * k + 4) * (size + LANES) + k) * sizeof(double))
    if room == NULL:
        raise MemoryError()
    cdef double* total = room + (2 * k + 4) * (size + LANES)
    with nogil:
        for c in range(k):
            total[c] = 0.0
            for v in range(size):
                total[c] += counts[c, v]
        for s in range(some):
            out[s] = smoothing_loss(&counts[0, 0], &smooth[s if smooth.shape[0] > 1 else 0, 0, 0],
                                    &rest[s if rest.shape[0] > 1 else 0, 0], &kept[s if kept.shape[0] > 1 else 0, 0],
                                    total, &log_prior[0], k, size, strength[s], taken, room)
    free(room)


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


def csr_dot(const value[::1] data, const index[::1] indices, const index[::1] indptr, const double[:, ::1] table,
            const double[::1] start, double[:, ::1] out, bint binary=False, double threshold=0.0):
    """out[i] = start + Σ_e value_e · table[column_e]; the table's rows have 2 numbers, or a multiple of LANES."""
    cdef Py_ssize_t n = indptr.shape[0] - 1, k = out.shape[1], width = table.shape[1], i, e, stop, first, entries
    cdef Py_ssize_t room = BATCH
    cdef bint direct = value is double and not binary, far = table.shape[0] * width > NEAR
    cdef double v
    cdef double* values = NULL
    cdef const double* mine
    if n == 0 or k == 0:
        return
    if (width % LANES and width != 2) or width < k or start.shape[0] != k or out.shape[0] != n:
        raise ValueError("the table does not fit the classes")
    if not direct:
        for i in range(n):
            room = max(room, <Py_ssize_t> (indptr[i + 1] - indptr[i]))
        values = <double*> malloc(room * sizeof(double))
        if values == NULL:
            raise MemoryError()
    with nogil:
        i = 0
        while i < n:  # as many rows as fit in the buffer, but at least one
            first = indptr[i]
            stop = i + 1
            while stop < n and indptr[stop + 1] - first <= BATCH:
                stop += 1
            entries = indptr[stop] - first
            mine = values
            if entries > 0:
                if direct:
                    mine = <const double*> &data[first]
                else:
                    for e in range(entries):
                        v = <double> data[first + e]
                        values[e] = (1.0 if v > threshold else (0.0 if v == v else v)) if binary else v
            if index is int:
                sum_rows_int(mine, &indices[0] + first, &indptr[i], stop - i, &table[0, 0], width, far, &start[0], k,
                             &out[i, 0])
            else:
                sum_rows_long(mine, &indices[0] + first, &indptr[i], stop - i, &table[0, 0], width, far, &start[0], k,
                              &out[i, 0])
            i = stop
    free(values)


cdef inline bint products(const double* x, Py_ssize_t stride, Py_ssize_t n, Py_ssize_t d, const double* table,
                          const double* start, Py_ssize_t k, double* out) noexcept nogil:
    if k == 2:
        return pair_scores(x, stride, n, d, table, start, out)
    return panel_scores(x, stride, n, d, table, start, k, out)


def dense_dot(const number[:, :] X, const double[::1] panels, const double[::1] start, double[:, ::1] out,
              const double[::1] centre=None, bint binary=False, double threshold=0.0):
    """out = start + (X − centre) · table, (n, d)·(d, k); whether some product is NaN, as those of missing entries are.

    `panels` is the table as `in_panels` has it. With `binary`, X is replaced by 1[x > threshold].
    """
    cdef Py_ssize_t n = X.shape[0], d = X.shape[1], k = out.shape[1], i, rows, tile_rows
    cdef bint direct = (number is double and centre is None and not binary and X.strides[1] == sizeof(double)
                        and X.strides[0] % sizeof(double) == 0)
    cdef const double* middle = NULL
    cdef const double* above = &threshold if binary else NULL
    cdef const double* table = &panels[0] if d else NULL
    cdef const char* x
    cdef double* tile
    cdef double* by_class
    cdef bint missing = False
    if n == 0 or k == 0:
        return False
    if panels.shape[0] < d * ((k + LANES - 1) // LANES * LANES) or start.shape[0] != k or out.shape[0] != n:
        raise ValueError("the table does not fit the rows and classes")
    if centre is not None:
        if centre.shape[0] != d:
            raise ValueError("the centre does not fit the columns")
        if d:
            middle = &centre[0]
    # A block of rows stays in the cache while it is multiplied by every panel.
    tile_rows = max(GROUP, BATCH // max(d, 1) // GROUP * GROUP)
    tile = <double*> malloc(((0 if direct else min(n, tile_rows)) + 2) * max(d, 1) * sizeof(double))
    if tile == NULL:
        raise MemoryError()
    with nogil:
        if k == 2:
            by_class = tile + (0 if direct else min(n, tile_rows)) * d
            for i in range(d):
                by_class[i], by_class[d + i] = table[i * LANES], table[i * LANES + 1]
            table = by_class
        i = 0
        while i < n:
            rows = min(tile_rows, n - i)
            x = <const char*> &X[i, 0] if d else NULL
            if not d or direct:
                pass
            elif number is int:
                gather_int(x, X.strides[0], X.strides[1], rows, d, middle, above, tile)
            elif number is longlong:
                gather_long(x, X.strides[0], X.strides[1], rows, d, middle, above, tile)
            elif number is float:
                gather_single(x, X.strides[0], X.strides[1], rows, d, middle, above, tile)
            else:
                gather_double(x, X.strides[0], X.strides[1], rows, d, middle, above, tile)
            missing |= products(<const double*> x if direct else tile,
                                X.strides[0] // <Py_ssize_t> sizeof(double) if direct else d, rows, d, table, &start[0], k,
                                &out[i, 0])
            i += rows
    free(tile)
    return bool(missing)
