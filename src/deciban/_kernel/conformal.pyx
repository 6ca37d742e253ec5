# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Full conformal prediction: how many learned rows are at least as strange as a new one that is added to a class.

Learned rows come in tiles of TILE rows of one class. A row's log-density has two parts, (k, rows): `base`, without the
row, and `moved`, without the row and with the new one in the class in question; Gaussian columns are computed here,
because their variance floor moves with every row.
"""
from libc.math cimport exp, isfinite, log, log1p, INFINITY, NAN
from libc.stdint cimport uint8_t
from libc.stdlib cimport free, malloc

cdef extern from "conformal_loops.h":
    enum:
        TILE
    ctypedef struct Moments:
        const double* rows
        const double* mean
        const double* scatter
    void spread_tile(const double*, Py_ssize_t, Moments, const double*, double, double*, double*, double*) noexcept nogil
    void density_of_tile(const double*, Py_ssize_t, Moments, const double*, const double*, double, double, const double*,
                         const double*, int, int, double*) noexcept nogil

WIDTH = TILE  # rows of a tile
cdef double ROUNDING = 2.0 ** -46  # a scatter this small beside what it was before a subtraction is zero


cdef inline Moments at(const double[:, :, ::1] sums, Py_ssize_t c) noexcept nogil:
    cdef Moments moments
    moments.rows = &sums[0, c, 0]
    moments.mean = &sums[1, c, 0]
    moments.scatter = &sums[2, c, 0]
    return moments


cdef inline void add_row(const double[:, :, ::1] sums, const double[::1] x, double[:, :, ::1] out) noexcept nogil:
    """Every class's sums with one more row; a missing entry adds nothing."""
    cdef Py_ssize_t c, j
    cdef double n, gap
    for c in range(sums.shape[1]):
        for j in range(sums.shape[2]):
            n = sums[0, c, j]
            gap = x[j] - sums[1, c, j]
            out[0, c, j] = n
            out[1, c, j] = sums[1, c, j]
            out[2, c, j] = sums[2, c, j]
            if gap == gap:
                out[0, c, j] = n + 1.0
                out[1, c, j] += gap / (n + 1.0)
                out[2, c, j] += gap * gap * n / (n + 1.0)


cdef inline bint reached(const double* base, const double* moved, Py_ssize_t stride, Py_ssize_t k, Py_ssize_t own,
                         Py_ssize_t asked, const double* prior, double limit) noexcept nogil:
    """Whether a row of class `own` is at least as strange, once the new row is in the class in question."""
    cdef double mine = (moved[own * stride] if own == asked else base[own * stride]) + prior[own]
    cdef double top = -INFINITY, total = 0.0, term, need
    cdef Py_ssize_t c
    if mine == -INFINITY:  # without the row its class is empty
        return True
    need = limit + mine
    for c in range(k):
        if c != own:
            term = (moved[c * stride] if c == asked else base[c * stride]) + prior[c]
            top = max(top, term)
    if top >= need:
        return True
    if top == -INFINITY or top + log(<double> k) < need:
        return False
    for c in range(k):
        if c != own:
            total += exp((moved[c * stride] if c == asked else base[c * stride]) + prior[c] - top)
    return top + log(total) >= need


def at_least(const double[:, :, ::1] tiles, const int[::1] owner, const uint8_t[::1] gaps, const double[:, ::1] weight,
             const double[:, :, ::1] base, const double[:, :, :, ::1] moved, const double[:, ::1] new,
             const double[:, :, ::1] sums, const double[:, :, ::1] everything, double[:, :, ::1] more,
             double[:, :, ::1] all_more, const double[::1] unit, double smoothing, double kappa,
             const double[:, :, ::1] prior, const double[:, ::1] limit, bint by_class, double[:, ::1] counts):
    """counts[t, y] = the weight of rows at least as strange as limit[t, y] once new row t is one of y; NaN: unknown.

    tiles (B, d, TILE) are rows of Gaussian columns, owner (B,) their class, gaps (B,) whether some entry is missing.
    base (B, k, TILE) and moved (T, B, k, TILE) are the log-densities of other columns. sums (3, k, d) and everything
    (3, 1, d) are rows, means and scatters of classes and of all rows, in units whose squares are `unit`; `more` and
    `all_more` are buffers for the same with a new row. prior[y, own] is the class prior without a row of `own`, and with
    one more of y.
    """
    cdef Py_ssize_t T = limit.shape[0], k = limit.shape[1], B = tiles.shape[0], d = tiles.shape[1], t, b, c, y, r, own
    cdef Py_ssize_t room = k * TILE
    cdef bint lean = kappa > 0.0, sound
    cdef double* before = <double*> malloc((2 * k + 2 * d + 2) * TILE * sizeof(double))
    cdef double* after
    cdef double* top
    cdef double* centre
    cdef double* spread
    cdef const double* tile
    if before == NULL:
        raise MemoryError()
    after = before + room
    top = after + room
    centre = top + TILE
    spread = centre + d * TILE
    with nogil:
        for t in range(T):
            sound = True
            for y in range(k):
                counts[t, y] = 0.0
            if d:
                add_row(sums, new[t], more)
                add_row(everything, new[t], all_more)
            for b in range(B):
                own = owner[b]
                for c in range(k):
                    for r in range(TILE):
                        before[c * TILE + r] = base[b, c, r]
                        after[c * TILE + r] = moved[t, b, c, r]
                if d:
                    tile = &tiles[b, 0, 0]
                    spread_tile(tile, d, at(all_more, 0), &unit[0], ROUNDING, top, centre if lean else NULL, spread)
                    for r in range(TILE):
                        top[r] *= smoothing
                    for c in range(k):
                        if not by_class or c != own:
                            density_of_tile(tile, d, at(sums, c), &unit[0], top, ROUNDING, kappa, centre, spread, c == own,
                                            gaps[b], before + c * TILE)
                        if not by_class or c == own:
                            density_of_tile(tile, d, at(more, c), &unit[0], top, ROUNDING, kappa, centre, spread, c == own,
                                            gaps[b], after + c * TILE)
                for r in range(room):
                    sound &= isfinite(before[r]) and isfinite(after[r])
                if not sound:
                    break
                for r in range(TILE):
                    if weight[b, r] == 0.0:
                        continue
                    for y in range(own if by_class else 0, own + 1 if by_class else k):
                        if reached(before + r, after + r, TILE, k, own, y, &prior[y, own, 0], limit[t, y]):
                            counts[t, y] += weight[b, r]
            if not sound:
                for y in range(k):
                    counts[t, y] = NAN
    free(before)


def tied_at_least(const double[:, ::1] along, const double[:, ::1] products, const double[:, :, ::1] near,
                  const double[:, ::1] length, const double[:, ::1] squares, const double[:, ::1] offsets,
                  const int[::1] codes, const double[::1] weight, const double[::1] rows, double total, double power,
                  double least, const double[:, :, ::1] prior, const double[:, ::1] limit, bint by_class,
                  double[:, ::1] counts):
    """The same for classes that share a covariance, in coordinates in which it is the identity.

    For new rows x, learned rows z, means μ and u = x − μ_y: along (T, n) is x·(z − μ_own), products (n, k)
    μ_y·(z − μ_own), near (T, k, k) u·μ_c of y and c, length (T, k) u·u, squares (n, k) |z − μ_c|², offsets (n, k)
    (z − μ_c)·(z − μ_own). With e and v from the means of the row's own class and of class c, once x is in y, to z, the
    covariance becomes I + α·uuᵀ − β·eeᵀ, and with A = I + α·uuᵀ the squared distance is
    vᵀA⁻¹v + β(vᵀA⁻¹e)²/(1 − β·eᵀA⁻¹e). What is left of a covariance must be more than `least`. power > 0 is Student-t's.
    """
    cdef Py_ssize_t T = limit.shape[0], k = limit.shape[1], n = codes.shape[0], t, y, i, c, own
    cdef double held, alpha, damp, uu, vu, eu, own_u, vv, ve, rest, beta, moved, shift, form, spread
    cdef bint sound
    cdef double* joint = <double*> malloc(k * sizeof(double))
    if joint == NULL:
        raise MemoryError()
    with nogil:
        for t in range(T):
            for y in range(k):
                sound = True
                counts[t, y] = 0.0
                uu = length[t, y]
                alpha = rows[y] / ((rows[y] + 1.0) * total)
                damp = alpha / (1.0 + alpha * uu)
                for i in range(n):
                    own = codes[i]
                    if by_class and own != y:
                        continue
                    moved = 1.0 / (rows[y] + 1.0) if own == y else 0.0
                    own_u = along[t, i] - products[i, y]
                    eu = own_u - moved * uu
                    held = rows[own] + (own == y)
                    beta = held / ((held - 1.0) * total)
                    rest = 1.0 - beta * (squares[i, own] - 2.0 * moved * own_u + moved * moved * uu - damp * eu * eu)
                    if not rest > least:
                        sound = False
                        break
                    for c in range(k):
                        shift = 1.0 / (rows[y] + 1.0) if c == y else 0.0
                        vu = own_u + near[t, y, own] - near[t, y, c]
                        vv = squares[i, c] - 2.0 * shift * vu + shift * shift * uu
                        ve = offsets[i, c] - shift * own_u - moved * vu + shift * moved * uu
                        vu -= shift * uu
                        ve -= damp * vu * eu
                        form = vv - damp * vu * vu + beta * ve * ve / rest
                        if c == own:
                            form *= held * held / ((held - 1.0) * (held - 1.0))
                        if power > 0.0:
                            spread = 1.0 + 1.0 / (rows[c] + (c == y) - (c == own))
                            joint[c] = (-power * log1p(form / (total * spread))
                                        - 0.5 * (2.0 * power - total) * log(spread))
                        else:
                            joint[c] = -0.5 * form
                    if reached(joint, joint, 1, k, own, y, &prior[y, own, 0], limit[t, y]):
                        counts[t, y] += 1.0 if weight is None else weight[i]
                if not sound:
                    counts[t, y] = NAN
    free(joint)
