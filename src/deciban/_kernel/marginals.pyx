# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Gaussians with a full covariance for rows with missing coordinates: forms and determinants of the marginals.

All rows with the same coordinates share a root. It is the smaller of two: that of the covariance of the coordinates
that are present, or that of the precision of those that are missing.
"""
from libc.math cimport INFINITY
from libc.stdint cimport uint8_t
from libc.stdlib cimport free, malloc

cdef extern from "marginals_loops.h":
    enum:
        LANES
    ctypedef struct Parts:
        Py_ssize_t d, held, absent
        const Py_ssize_t* here
        const Py_ssize_t* gone
        const double* mean
        const double* precision
        double* root
        double* z
        double* y
    int find_root(const double*, Py_ssize_t, const Py_ssize_t*, Py_ssize_t, double*, double*) noexcept nogil
    void form(const Parts*, const double*, int, double*) noexcept nogil
    ctypedef struct LeftOut:
        Py_ssize_t d, leans
        double* mean
        double* axes
        bint triangular
        double* by
        const double* shared
        double own_share, residue
        double* count
        double* whole
        double* from_mean
        double* z
        double* between
    void lay_side_by_side(const double*, Py_ssize_t, Py_ssize_t, Py_ssize_t, double*) noexcept nogil
    void differences(const LeftOut*, const double*, Py_ssize_t) noexcept nogil
    void left_out(const LeftOut*, const double*, const int*, Py_ssize_t, int, Py_ssize_t, const double*, const double*,
                  const double*, const double*, Py_ssize_t, Py_ssize_t, double*, double*) noexcept nogil
    void density_rows(const double*, const double*, Py_ssize_t, double, double, double, double*) noexcept nogil
    void sum_parts(const double*, const double*, const int*, Py_ssize_t, Py_ssize_t, int, double, double, double*,
                   double*) noexcept nogil

WIDTH = LANES  # parts computed side by side


def forms(const double[:, ::1] X, const Py_ssize_t[::1] rows, const Py_ssize_t[::1] start, const uint8_t[:, ::1] there,
          const double[:, :, ::1] mean, const double[:, :, :, ::1] sigma, const double[:, :, :, ::1] precision,
          const double[::1] whole, double[:, ::1] q, double[:, ::1] log_det):
    """q[i, p] = zᵀΣ⁻¹z and log_det[pattern, p] = log|Σ|, of the coordinates that row i has; z = x − mean of part p.

    Rows with pattern t, which have the coordinates with there[t] ≠ 0, are rows[start[t] : start[t + 1]]. Parts come in
    groups of WIDTH: mean is (groups, D, WIDTH), sigma and precision, its inverse, are (groups, D, D, WIDTH). What is
    past the last part may be that of any part. `whole` (P,) is log|Σ| of all coordinates.
    """
    cdef Py_ssize_t n = X.shape[0], d = X.shape[1], patterns = there.shape[0], P = q.shape[1], groups = mean.shape[0]
    cdef Py_ssize_t g, t, i, j, lane, bad = -1
    cdef bint inside
    cdef const Py_ssize_t* fewer
    cdef double out[LANES]
    cdef double dets[LANES]
    cdef Parts parts
    if sigma.shape[0] != groups or precision.shape[0] != groups or groups != (P + LANES - 1) // LANES:
        raise ValueError(f"{P} parts are {(P + LANES - 1) // LANES} groups of {LANES}: mean, sigma and precision have "
                         f"{mean.shape[0]}, {sigma.shape[0]} and {precision.shape[0]}")
    if mean.shape[1] != d or mean.shape[2] != LANES or there.shape[1] != d:
        raise ValueError(f"X has {d} columns: mean must be (groups, {d}, {LANES}), there (patterns, {d})")
    for i in range(1, 3):
        if sigma.shape[i] != d or precision.shape[i] != d:
            raise ValueError(f"X has {d} columns: sigma and precision must be (groups, {d}, {d}, {LANES})")
    if sigma.shape[3] != LANES or precision.shape[3] != LANES:
        raise ValueError(f"sigma and precision must be (groups, {d}, {d}, {LANES})")
    if q.shape[0] != n or log_det.shape[0] != patterns or log_det.shape[1] != P or whole.shape[0] != P:
        raise ValueError(f"q must be ({n}, {P}), log_det ({patterns}, {P}), whole ({P},)")
    if start.shape[0] != patterns + 1 or start[0] != 0 or start[patterns] != rows.shape[0]:
        raise ValueError(f"start must go from 0 to {rows.shape[0]} in {patterns} steps")
    for t in range(patterns):
        if start[t] > start[t + 1]:
            raise ValueError(f"pattern {t} starts at {start[t]} and ends before that, at {start[t + 1]}")
    for i in range(rows.shape[0]):
        if rows[i] < 0 or rows[i] >= n:
            raise ValueError(f"rows[{i}] is {rows[i]}: there are {n} rows")
    cdef double* room = <double*> malloc(((d + 2) * d + 1) * LANES * sizeof(double))
    cdef Py_ssize_t* at = <Py_ssize_t*> malloc(max(1, d) * sizeof(Py_ssize_t))
    if room == NULL or at == NULL:
        free(room)
        free(at)
        raise MemoryError()
    parts.d, parts.root, parts.z, parts.y = d, room, room + d * d * LANES, room + (d + 1) * d * LANES
    with nogil:
        for t in range(patterns):
            parts.held = parts.absent = 0
            for j in range(d):  # those that are present, from the front
                if there[t, j]:
                    at[parts.held] = j
                    parts.held += 1
            for j in range(d):
                if not there[t, j]:
                    at[parts.held + parts.absent] = j
                    parts.absent += 1
            parts.here, parts.gone = at, at + parts.held
            inside = parts.held <= parts.absent
            fewer = at if inside else at + parts.held
            for g in range(groups):
                parts.mean = &mean[g, 0, 0] if d else NULL
                parts.precision = &precision[g, 0, 0, 0] if d else NULL
                if not find_root(&sigma[g, 0, 0, 0] if inside and d else parts.precision, d, fewer,
                                 min(parts.held, parts.absent), room, dets):
                    bad = t
                    break
                for lane in range(min(<Py_ssize_t> LANES, P - g * LANES)):
                    log_det[t, g * LANES + lane] = dets[lane] + (0.0 if inside else whole[g * LANES + lane])
                for i in range(start[t], start[t + 1]):
                    form(&parts, &X[rows[i], 0] if d else NULL, inside, out)
                    for lane in range(min(<Py_ssize_t> LANES, P - g * LANES)):
                        q[rows[i], g * LANES + lane] = out[lane]
            if bad >= 0:
                break
    free(room)
    free(at)
    if bad >= 0:
        raise ValueError(f"pattern {bad}: a covariance of the coordinates that are present has no root")


def forms_without(const double[:, ::1] X, const double[:, ::1] means, const int[::1] own, const double[:, :, ::1] axes,
                  bint triangular, const double[:, :, ::1] by, const double[::1] shared, double own_share, double residue,
                  const double[::1] taken, const double[::1] grown, const double[:, ::1] count, const double[:, ::1] whole,
                  const double[:, ::1] own_count, const double[:, ::1] own_whole, double[:, :, ::1] q,
                  double[:, :, ::1] log_det):
    """Without the row, for each lean: q[l, i, p] = count·zᵀA⁻¹z, and log_det[l, i, p] = whole + log(what remains of |A|).

    Along the columns of axes[p] (None: the axes of X; `triangular` if all above the diagonal is 0) A_p⁻¹ is diagonal,
    by[p, l]. Leaving row i out takes taken[i]·shared[l] of wwᵀ from every A, and taken[i]·own_share more from that of its
    own part; w = x − the mean of that part, which moves so that x is grown[i] times as far from it. means is (P, D), axes
    (P, D, D), by (P, leans, D), count and whole (P, leans). For a row's own part, own_count and own_whole (leans, n) are
    used.
    """
    cdef Py_ssize_t n = X.shape[0], d = X.shape[1], P = means.shape[0], leans = shared.shape[0], group, first, wide
    cdef Py_ssize_t i
    cdef LeftOut part
    cdef double* room
    cdef bint wrong = means.shape[1] != d or own.shape[0] != n or taken.shape[0] != n or grown.shape[0] != n
    wrong |= by.shape[0] != P or by.shape[1] != leans or by.shape[2] != d
    wrong |= count.shape[0] != P or count.shape[1] != leans or whole.shape[0] != P or whole.shape[1] != leans
    wrong |= own_count.shape[0] != leans or own_count.shape[1] != n
    wrong |= own_whole.shape[0] != leans or own_whole.shape[1] != n
    wrong |= q.shape[0] != leans or q.shape[1] != n or q.shape[2] != P
    wrong |= log_det.shape[0] != leans or log_det.shape[1] != n or log_det.shape[2] != P
    if axes is not None:
        wrong |= axes.shape[0] != P or axes.shape[1] != d or axes.shape[2] != d
    for i in range(0 if wrong else n):
        wrong |= own[i] < 0 or own[i] >= P
    if wrong:
        raise ValueError("rows, parts and forms do not fit")
    if n == 0 or d == 0 or P == 0 or leans == 0:
        return
    room = <double*> malloc(((P + 3) * d + leans * (d + 2) + (0 if axes is None else d * d)) * LANES * sizeof(double))
    if room == NULL:
        raise MemoryError()
    with nogil:
        part.d, part.leans, part.own_share, part.residue, part.shared = d, leans, own_share, residue, &shared[0]
        part.triangular = triangular
        part.from_mean, part.z, part.mean, part.between = room, room + d * LANES, room + 2 * d * LANES, room + 3 * d * LANES
        part.by = part.between + P * d * LANES
        part.count = part.by + leans * d * LANES
        part.whole = part.count + leans * LANES
        part.axes = NULL
        if axes is not None:
            part.axes = part.whole + leans * LANES
        for group in range((P + LANES - 1) // LANES):
            first = group * LANES
            wide = min(<Py_ssize_t> LANES, P - first)
            lay_side_by_side(&means[first, 0], wide, d, d, part.mean)
            lay_side_by_side(&by[first, 0, 0], wide, leans * d, leans * d, part.by)
            lay_side_by_side(&count[first, 0], wide, leans, leans, part.count)
            lay_side_by_side(&whole[first, 0], wide, leans, leans, part.whole)
            if axes is not None:
                lay_side_by_side(&axes[first, 0, 0], wide, d * d, d * d, part.axes)
            differences(&part, &means[0, 0], P)
            left_out(&part, &X[0, 0], &own[0], first, <int> wide, n, &taken[0], &grown[0], &own_count[0, 0],
                     &own_whole[0, 0], P, n * P, &q[0, 0, first], &log_det[0, 0, first])
    free(room)


def densities(const double[:, ::1] q, const double[:, ::1] log_det, double tails, double dimension, double constant,
              double[:, ::1] out):
    """out = constant − ½ log_det − ½ (ν + D) log(1 + q/ν), (n, P), ν being `tails`; ν = ∞: the last term is ½ q.

    log_det is (n, P), or (1, P) for all rows.
    """
    cdef Py_ssize_t n = q.shape[0], P = q.shape[1], i
    cdef bint one = log_det.shape[0] == 1 and n != 1
    if out.shape[0] != n or out.shape[1] != P or log_det.shape[1] != P or not (one or log_det.shape[0] == n):
        raise ValueError(f"q is ({n}, {P}): out must be the same, and log_det, or have one row")
    if n == 0 or P == 0:
        return
    with nogil:
        if one:
            for i in range(n):
                density_rows(&q[i, 0], &log_det[0, 0], P, tails, dimension, constant, &out[i, 0])
        else:
            density_rows(&q[0, 0], &log_det[0, 0], n * P, tails, dimension, constant, &out[0, 0])


def by_class(const double[:, ::1] log_density, const double[::1] log_share, const int[::1] owner, const int[::1] own,
             const double[::1] own_share, const double[::1] shift, double[:, ::1] out):
    """out[i, c] = log Σ exp(log_density[i, p] + log_share[p]) over the parts p of class c; −∞ if there is none.

    owner[p] is the class of a part. With own (n,), the parts of rows that are left out, own_share[i] takes the place of
    that part's log_share, and shift[i] is added to those of the other parts of its class.
    """
    cdef Py_ssize_t n = log_density.shape[0], P = log_density.shape[1], k = out.shape[1], i, p
    cdef bint without = own is not None, wrong = out.shape[0] != n or log_share.shape[0] != P or owner.shape[0] != P
    if without:
        wrong |= own.shape[0] != n or own_share.shape[0] != n or shift.shape[0] != n
        for i in range(0 if wrong else n):
            wrong |= own[i] < 0 or own[i] >= P
    for p in range(0 if wrong else P):
        wrong |= owner[p] < 0 or owner[p] >= k
    if wrong:
        raise ValueError("rows, parts and classes do not fit")
    if n == 0 or P == 0 or k == 0:
        out[:, :] = -INFINITY
        return
    cdef double* room = <double*> malloc((P + 2 * k + 3 * LANES) * sizeof(double))
    if room == NULL:
        raise MemoryError()
    with nogil:
        for i in range(n):
            if without:
                sum_parts(&log_density[i, 0], &log_share[0], &owner[0], P, k, own[i], own_share[i], shift[i], room,
                          &out[i, 0])
            else:
                sum_parts(&log_density[i, 0], &log_share[0], &owner[0], P, k, -1, 0.0, 0.0, room, &out[i, 0])
    free(room)
