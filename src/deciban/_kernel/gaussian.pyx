# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Gaussian log-densities by class, and their exact leave-one-out.

Densities are computed in centred form, (x − μ)²/2σ², never as η·T(x) − A(η), which cancels far from the pivot.
"""
from cython cimport floating
from libc.math cimport fabs, lgamma, log, log1p, sqrt, INFINITY
from libc.stdlib cimport free, malloc

cdef extern from "loops.h":
    double own_law(const double*, const double*, const double*, const double*, const double*, double, double, double,
                   double, Py_ssize_t, double*, double*) noexcept nogil

cdef extern from "scores_loops.h":
    enum:
        LANES  # numbers side by side
        PANEL  # classes of a panel of a table
        GROUP  # rows summed at once, at most
    void gather_single(const char*, Py_ssize_t, Py_ssize_t, Py_ssize_t, Py_ssize_t, const double*, const double*,
                       double*) noexcept nogil
    void gather_double(const char*, Py_ssize_t, Py_ssize_t, Py_ssize_t, Py_ssize_t, const double*, const double*,
                       double*) noexcept nogil
    bint panel_squares(const double*, Py_ssize_t, Py_ssize_t, Py_ssize_t, const double*, bint, const double*,
                       Py_ssize_t, double*) noexcept nogil

cdef enum:
    BATCH = 4096  # entries copied at a time: they stay in the first-level cache

cdef double LOG_2PI = 1.8378770664093453
cdef double RESIDUE = 2.0 ** -30  # a weight this small beside what it was before a subtraction is rounding
cdef double EPSILON = 2.0 ** -52  # the rounding unit of a double
cdef double NEAR = 2.0 ** 12  # deviations: a mean this close to zero may be scaled before it is subtracted
cdef double ROUNDING = 2.0 ** -46  # a variance this small beside the mean square it is a difference of is zero


cdef bint squares_in_panels(const double[:, ::1] mean, const double[:, ::1] precision, double* panels) noexcept nogil:
    """The table of `panel_squares`; whether it is scaled, which loses no digits as long as no mean is far from zero."""
    cdef Py_ssize_t k = mean.shape[0], d = mean.shape[1], c, j, at, first, columns, width
    cdef bint scaled = True
    cdef double m, h
    cdef double* to = panels
    for c in range(k):
        for j in range(d):
            scaled &= fabs(mean[c, j]) * sqrt(precision[c, j]) < NEAR and precision[c, j] < 1e300
    first = 0
    while first < k:
        columns = min(<Py_ssize_t> PANEL, k - first)
        width = (columns + LANES - 1) // LANES * LANES
        for j in range(d):
            for at in range(width):
                m = mean[first + at, j] if at < columns else 0.0
                h = precision[first + at, j] if at < columns else 0.0
                to[at] = sqrt(h) if scaled else m
                to[width + at] = -m * sqrt(h) if scaled else h
            to += 2 * width
        first += PANEL
    return scaled


def log_density(const floating[:, :] X, const double[:, ::1] mean, const double[:, ::1] precision,
                const double[:, ::1] constant, const double[::1] start, const double[:, ::1] power,
                double[:, ::1] out):
    """out[i, c] = start + Σ_j log p(x_ij | c), without missing entries (NaN).

    Without `power`: log p = constant − precision·t², t = x − mean (Gaussian, precision 1/2σ²).
    With it: log p = constant − power·log(1 + precision·t²) (Student-t).
    """
    cdef Py_ssize_t n = X.shape[0], d = X.shape[1], k = mean.shape[0], first, rows, batch, j, c, r, stride
    cdef double v, t, total
    cdef bint missing, scaled, student = power is not None
    cdef bint direct = (floating is double and X.strides[1] == sizeof(double) and X.strides[0] % sizeof(double) == 0)
    cdef double* tile
    cdef double* panels
    cdef double* base
    cdef const double* x
    if n == 0 or k == 0:
        return
    batch = min(n, max(GROUP, BATCH // max(d, 1) // GROUP * GROUP))
    tile = <double*> malloc(max(1, batch * d if not direct else 1) * sizeof(double))
    panels = <double*> malloc((2 * d * (k + LANES) + k) * sizeof(double))
    if tile == NULL or panels == NULL:
        free(tile)
        free(panels)
        raise MemoryError()
    with nogil:
        scaled = squares_in_panels(mean, precision, panels)
        base = panels + 2 * d * (k + LANES)  # the score of a row in which every value is the mean
        for c in range(k):
            base[c] = 0.0
            for j in range(d):
                base[c] += constant[c, j]
            base[c] += start[c]
        first = 0
        while first < n:
            rows = min(batch, n - first)
            x = tile
            stride = d
            if direct:
                x = <const double*> &X[first, 0]
                stride = X.strides[0] // <Py_ssize_t> sizeof(double)
            elif d and floating is float:
                gather_single(<const char*> &X[first, 0], X.strides[0], X.strides[1], rows, d, NULL, NULL, tile)
            elif d:
                gather_double(<const char*> &X[first, 0], X.strides[0], X.strides[1], rows, d, NULL, NULL, tile)
            missing = student or panel_squares(x, stride, rows, d, panels, scaled, base, k, &out[first, 0])
            for r in range(rows if missing else 0):
                for c in range(k):
                    if not student and out[first + r, c] == out[first + r, c]:
                        continue
                    total = start[c]
                    for j in range(d):
                        v = x[r * stride + j]
                        t = v - mean[c, j]
                        if v != v:
                            continue
                        if student:
                            total += constant[c, j] - power[c, j] * log1p(precision[c, j] * t * t)
                        else:
                            total += constant[c, j] - precision[c, j] * t * t
                    out[first + r, c] = total
            first += rows
    free(tile)
    free(panels)


cdef struct Pooled:
    double mean      # about the pooled pivot
    double variance
    double weight


cdef inline Pooled pooled_without(double one, double x, double xx, double noise, double t, double w) noexcept nogil:
    """A column's mean and variance over all classes after taking out one entry t of weight w.

    A sum of squares within `noise` of zero is what rounding leaves.
    """
    cdef Pooled p
    p.weight = one - w
    if p.weight <= one * RESIDUE:
        p.weight = 0.0
        p.mean = 0.0
        p.variance = 1.0
        return p
    p.mean = (x - w * t) / p.weight
    p.variance = (xx - w * t * t) / p.weight - p.mean * p.mean
    if p.variance <= noise / p.weight:
        p.variance = 0.0
    return p


def leave_one_out(const floating[:, :] X, const int[::1] y, const double[::1] weight,
                  const double[:, ::1] one, const double[:, ::1] x, const double[:, ::1] xx,
                  const double[:, ::1] pivot,
                  const double[::1] pooled_one, const double[::1] pooled_x, const double[::1] pooled_xx,
                  const double[::1] pooled_noise, const double[::1] pooled_pivot,
                  const Py_ssize_t[::1] by_variance, const double[::1] pooled_variance,
                  double kappa, const double[::1] guess_mean, const double[::1] guess_variance,
                  double smoothing, double floor, bint predictive, bint missing,
                  const double[:, ::1] mean, const double[:, ::1] precision,
                  const double[::1] inverse, const double[::1] inverse2, const double[::1] inverse3,
                  const double[::1] widest, const double[:, ::1] doubt, double[:, ::1] out,
                  unsigned char[::1] slow):
    """Turn out[i, c] = log p(x_i | c) into what n − 1 rows give: row i is taken out of its class, the pooled variance
    behind the variance floor, and the prior's guess.

    Only the row's own class needs new means and variances. The floor f moves by a δ that is tiny beside most
    variances u = σ² + f: other classes stay as they are while d·|δ|/u < 1e-12, follow from log(1 + δ/u) and
    1/(1 + δ/u) in three terms while |δ|/u < 1e-4 (error below 1e-16), and are recomputed beyond that.

    slow[i] = 1 if so little is left that rounding may hide it: no more than `doubt` of a scatter of the row's class,
    or almost nothing of the pooled one.
    """
    cdef Py_ssize_t n = X.shape[0], d = X.shape[1], k = mean.shape[0], i, j, c, own, at
    cdef Py_ssize_t wide = 1 if one.shape[1] > 1 else 0
    cdef double w, v, t, h, rho, delta, row_floor, top, total, product, weight_left, s, q, mu, u, bound, dof
    cdef double spread, size, guess, guess_u
    cdef bint direct = sizeof(floating) == sizeof(double) and X.strides[1] == sizeof(floating)
    cdef bint anew, prepared, quick = kappa == 0.0 and not predictive and wide == 0
    cdef bint fixed = kappa > 0.0 and (guess_mean is not None or guess_variance is not None)
    cdef Pooled p
    cdef const double* value
    cdef double* room
    cdef double* centre
    cdef double* scale
    if n == 0 or d == 0 or k == 0:
        return
    room = <double*> malloc(5 * d * sizeof(double))
    if room == NULL:
        raise MemoryError()
    centre = room + d
    scale = centre + d
    with nogil:
        for i in range(n):
            own = y[i]
            w = weight[i] if weight is not None else 1.0
            prepared = False
            if direct:
                value = <const double*> &X[i, 0]
            else:
                for j in range(d):
                    room[j] = X[i, j]
                value = room
            # The largest pooled variance without this row. Taking w out of N multiplies a variance by at most
            # N/(N − w), so only columns above that bound, in order of variance, need checking.
            row_floor = 0.0
            if smoothing > 0.0:
                top = -1.0
                for at in range(d):
                    j = by_variance[at]
                    weight_left = pooled_one[j] - w
                    bound = pooled_variance[j] * pooled_one[j] / weight_left if weight_left > 0 else INFINITY
                    if not missing and not fixed and bound <= top:
                        break
                    v = value[j]
                    if v == v:
                        p = pooled_without(pooled_one[j], pooled_x[j], pooled_xx[j], pooled_noise[j], v - pooled_pivot[j], w)
                        slow[i] |= p.variance * p.weight <= RESIDUE * pooled_xx[j] and pooled_xx[j] > 0.0
                    else:
                        p = pooled_without(pooled_one[j], pooled_x[j], pooled_xx[j], pooled_noise[j], 0.0, 0.0)
                    if fixed:
                        guess = guess_mean[j] - pooled_pivot[j] if guess_mean is not None else p.mean
                        guess_u = guess_variance[j] if guess_variance is not None else p.variance
                        u = with_guess(p, kappa * k, guess, guess_u)
                    elif p.weight == 0.0 and kappa == 0.0:
                        continue
                    else:
                        u = p.variance
                    if u > top:
                        top = u
                row_floor = smoothing * top if top > 0.0 else 0.0
            delta = row_floor - floor
            for c in range(k):
                rho = fabs(delta) * widest[c]
                anew = c == own or kappa > 0.0 or predictive or not rho < 1e-4
                if not anew:
                    if rho * d < 1e-12:
                        continue
                    total = -0.5 * delta * (inverse[c] - delta * (inverse2[c] / 2 - delta * inverse3[c] / 3))
                    for j in range(d):
                        v = value[j]
                        h = precision[c, j]
                        rho = 2.0 * h * delta
                        if v == v:
                            t = v - mean[c, j]
                            total += t * t * h * rho * (1.0 - rho * (1.0 - rho))
                        else:
                            total += 0.5 * log1p(rho)
                    out[i, c] += total
                    continue
                if c == own and quick and one[c, 0] - w > one[c, 0] * RESIDUE:
                    total = own_law(value, &pivot[c, 0], &x[c, 0], &xx[c, 0], &doubt[c, 0], one[c, 0] - w, w, row_floor,
                                    ROUNDING, d, scale + d, &product)
                    if total >= 0.0:  # otherwise an entry is missing, or a variance is zero or doubtful
                        out[i, c] = -0.5 * (total + product + d * LOG_2PI)
                        continue
                if not prepared:
                    prepared = True
                    for j in range(d):
                        scale[j] = -1.0  # pooled moments of the column without the row: not computed yet
                total = 0.0
                product = 1.0
                for j in range(d):
                    v = value[j]
                    if v != v:
                        continue
                    t = v - pivot[c, j]
                    weight_left = one[c, j * wide]
                    s = x[c, j]
                    q = xx[c, j]
                    size = q  # a variance is a difference of squares of this size: rounding is relative to it
                    if c == own:
                        if weight_left - w <= weight_left * RESIDUE:
                            weight_left = 0.0
                            s = 0.0
                            q = 0.0
                        else:
                            weight_left -= w
                            s -= w * t
                            q -= w * t * t
                            slow[i] |= q - s * s / weight_left <= doubt[c, j]
                    if kappa > 0.0 or weight_left <= 0.0:
                        if scale[j] < 0.0:
                            p = pooled_without(pooled_one[j], pooled_x[j], pooled_xx[j], pooled_noise[j], v - pooled_pivot[j], w)
                            centre[j] = p.mean + pooled_pivot[j] if p.weight > 0 else 0.0
                            scale[j] = p.variance
                        guess = centre[j]
                        guess_u = scale[j]
                        if kappa > 0.0:
                            if guess_mean is not None:
                                guess = guess_mean[j]
                            if guess_variance is not None:
                                guess_u = guess_variance[j]
                            guess -= pivot[c, j]
                            weight_left += kappa
                            s += kappa * guess
                            q += kappa * (guess_u + guess * guess)
                            size += kappa * (guess_u + guess * guess)
                            mu = s / weight_left
                            u = q / weight_left - mu * mu
                        else:
                            mu = guess - pivot[c, j]
                            u = guess_u
                    else:
                        mu = s / weight_left
                        u = q / weight_left - mu * mu
                    if weight_left > 0.0 and u * weight_left <= ROUNDING * size:
                        u = 0.0
                    u += row_floor
                    if u == 0.0:
                        p = pooled_without(pooled_one[j], pooled_x[j], pooled_xx[j], pooled_noise[j], v - pooled_pivot[j], w)
                        spread = p.mean + pooled_pivot[j]
                        u = (1.0 if p.variance == 0.0
                             else EPSILON * EPSILON * (spread * spread + p.variance))
                    t -= mu
                    if predictive:
                        dof = weight_left if weight_left > 0.0 else 1.0
                        u *= (dof + 1.0) / dof
                        total += (lgamma(0.5 * (dof + 1.0)) - lgamma(0.5 * dof)
                                  - 0.5 * (log(dof * u) + 1.1447298858494002)
                                  - 0.5 * (dof + 1.0) * log1p(t * t / (dof * u)))
                    else:
                        total -= 0.5 * (t * t / u + LOG_2PI)
                        if not 1e-150 < u < 1e150:
                            total -= 0.5 * log(u)
                        else:  # one logarithm for many factors, well before they overflow
                            product *= u
                            if not 1e-150 < product < 1e150:
                                total -= 0.5 * log(product)
                                product = 1.0
                out[i, c] = total - 0.5 * log(product)
    free(room)


cdef inline double with_guess(Pooled p, double kappa, double guess_mean, double guess_variance) noexcept nogil:
    """The pooled variance once kappa pseudo-rows of the guess are added."""
    cdef double total = p.weight + kappa, mean = (p.weight * p.mean + kappa * guess_mean) / total
    return ((p.weight * (p.variance + p.mean * p.mean) + kappa * (guess_variance + guess_mean * guess_mean)) / total
            - mean * mean)
