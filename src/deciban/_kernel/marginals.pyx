# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Gaussians with a full covariance for rows with missing coordinates: forms and determinants of the marginals.

All rows with the same coordinates share a root. It is the smaller of two: that of the covariance of the coordinates
that are present, or that of the precision of those that are missing.
"""
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
