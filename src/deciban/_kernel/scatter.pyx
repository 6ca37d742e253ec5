# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Gaussians with a full covariance: sums of 1, x − p and (x − p)(x − p)ᵀ by class, log-densities, exact leave-one-out.

Differences from a pivot or a mean are taken first, in float64, and only then multiplied: nothing cancels far from zero.
A NaN entry gives NaN; an infinite entry gives NaN or an infinity.
"""
from cython cimport floating
from libc.math cimport isfinite, lgamma, log, log1p, sqrt, INFINITY, NAN
from libc.stdint cimport uintptr_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memset

cdef extern from "scatter_loops.h":
    enum:
        LANES  # numbers side by side in a panel
        BLOCK  # rows multiplied by a root at a time
    ctypedef struct Scatter:
        Py_ssize_t d, panels, depth, step, first, classes
        Py_ssize_t* held
        double* rows
        double* weight
        double* weighted
        unsigned char* moved
        const double* pivot
        double* one
        double* x
        double* xy
        const char* ahead
        const char* end
    void scatter_codes(Scatter*, const double*, Py_ssize_t, Py_ssize_t, const int*, const double*) noexcept nogil
    void scatter_codes_single(Scatter*, const float*, Py_ssize_t, Py_ssize_t, const int*, const double*) noexcept nogil
    void scatter_shares(Scatter*, const double*, Py_ssize_t, Py_ssize_t, const char*, Py_ssize_t,
                        Py_ssize_t) noexcept nogil
    void scatter_shares_single(Scatter*, const float*, Py_ssize_t, Py_ssize_t, const char*, Py_ssize_t,
                               Py_ssize_t) noexcept nogil
    void scatter_finish(Scatter*) noexcept nogil
    void transpose_rows(const char*, Py_ssize_t, Py_ssize_t, Py_ssize_t, Py_ssize_t, double*) noexcept nogil
    void transpose_rows_single(const char*, Py_ssize_t, Py_ssize_t, Py_ssize_t, Py_ssize_t, double*) noexcept nogil
    void centre_rows(const double*, const double*, Py_ssize_t, Py_ssize_t, double*) noexcept nogil
    void root_rows(const double*, const double*, Py_ssize_t, double*) noexcept nogil
    void root_squares(const double*, const double*, Py_ssize_t, double*) noexcept nogil
    void shifted_squares(const double*, const double*, Py_ssize_t, double*) noexcept nogil
    void project_rows(const double*, Py_ssize_t, const double*, Py_ssize_t, Py_ssize_t, double*,
                      Py_ssize_t) noexcept nogil
    double shift_row(const double*, const double*, Py_ssize_t, double*) noexcept nogil
    void quadratic_row(const double*, const double*, const double*, const double*, Py_ssize_t, double*,
                       double*) noexcept nogil
    double shrink_row(const double*, const double*, const double*, double, double, Py_ssize_t, double*, double*,
                      double*, Py_ssize_t*) noexcept nogil

cdef enum:
    HELD = 128             # rows buffered per class, at most: their products stay in registers
    HELD_FEW = 32          # with fewer, each pass over the rows serves only a group of classes
    HELD_NUMBERS = 131072  # numbers buffered in all (1 MB)
    GATHERED = 128         # rows processed at a time for all classes, or copied from an array that is not contiguous
    TILE = 48              # rows transposed at a time: whole blocks
    SHIFTS = 16777216      # largest table of shifts between classes

cdef double LOG_2PI = 1.8378770664093453
cdef double PI = 3.141592653589793
cdef double LOG_2 = 0.6931471805599453
cdef double RESIDUE = 2.0 ** -30  # a weight this small relative to its value before a subtraction is rounding
cdef double RATIO = 2.0 ** 15     # variances that change by more than this factor without a row are recomputed


# ---------------------------------------------------------------- scatter

cdef void gather(const floating[:, :] X, Py_ssize_t start, Py_ssize_t rows, double* tile) noexcept nogil:
    """Copy rows start.. into a row-major tile of doubles."""
    cdef Py_ssize_t d = X.shape[1], r, j
    for j in range(d):
        for r in range(rows):
            tile[r * d + j] = X[start + r, j]


cdef void add_scatter(const floating[:, :] X, const int* codes, const double* weight, const char* shares,
                      Py_ssize_t down, Py_ssize_t across, Py_ssize_t k, Scatter* s, double* tile) noexcept nogil:
    """Adds all rows to all classes, for as many classes per pass as fit in the buffers. Without `codes`, by `shares`."""
    cdef Py_ssize_t n = X.shape[0], d = X.shape[1], block, start, rows, group = s.classes
    cdef Py_ssize_t stride = X.strides[0] // <Py_ssize_t> sizeof(floating)
    cdef const double* weights
    s.first = 0
    while s.first < k:
        s.classes = min(group, k - s.first)
        memset(s.held, 0, s.classes * sizeof(Py_ssize_t))
        memset(s.moved, 0, s.classes)
        s.ahead = NULL
        for block in range((n + GATHERED - 1) // GATHERED):
            start = block * GATHERED
            rows = min(<Py_ssize_t> GATHERED, n - start)
            weights = weight + start if weight != NULL else NULL
            if tile != NULL:
                gather(X, start, rows, tile)
                if codes != NULL:
                    scatter_codes(s, tile, d, rows, codes + start, weights)
                else:
                    scatter_shares(s, tile, d, rows, shares + start * down, down, across)
            elif floating is double:
                if codes != NULL:
                    scatter_codes(s, &X[start, 0], stride, rows, codes + start, weights)
                else:
                    scatter_shares(s, &X[start, 0], stride, rows, shares + start * down, down, across)
            else:
                if codes != NULL:
                    scatter_codes_single(s, &X[start, 0], stride, rows, codes + start, weights)
                else:
                    scatter_shares_single(s, &X[start, 0], stride, rows, shares + start * down, down, across)
        scatter_finish(s)
        s.first += s.classes


cdef int scatter(const floating[:, :] X, const int* codes, const double* weight, const char* shares,
                 Py_ssize_t down, Py_ssize_t across, const double[:, ::1] pivot, double[:, ::1] one,
                 double[:, ::1] x, double[:, :, ::1] xy) except -1:
    """Allocate the buffers, and add."""
    cdef Py_ssize_t d = X.shape[1], k = x.shape[0]
    # Whether rows can be used as they are in memory: contiguous, and a whole number of entries apart.
    cdef bint direct = X.strides[1] == sizeof(floating) and X.strides[0] % sizeof(floating) == 0
    cdef bint weighted = codes == NULL or weight != NULL
    cdef Scatter s
    cdef double* tile = NULL
    cdef double* room
    if X.shape[0] == 0 or d == 0 or k == 0:
        return 0
    s.d = d
    s.panels = (d + LANES - 1) // LANES
    s.classes = min(k, max(1, HELD_NUMBERS // (HELD_FEW * LANES * s.panels)))
    s.depth = min(<Py_ssize_t> HELD, max(8, HELD_NUMBERS // (LANES * s.panels * s.classes) // LANES * LANES))
    s.step = s.depth * LANES + 8  # a cache line more than a power of two, so that panels use different sets of the cache
    s.pivot = &pivot[0, 0]
    s.one = &one[0, 0]
    s.x = &x[0, 0]
    s.xy = &xy[0, 0, 0]
    s.end = NULL
    if direct and X.strides[0] > 0:
        s.end = <const char*> &X[X.shape[0] - 1, 0] + d * sizeof(floating)
    room = <double*> malloc((8 + s.classes * (s.panels * s.step + s.depth) + 3 * s.step) * sizeof(double))
    s.held = <Py_ssize_t*> malloc(s.classes * sizeof(Py_ssize_t))
    s.moved = <unsigned char*> malloc(s.classes)
    if not direct:
        tile = <double*> malloc(GATHERED * d * sizeof(double))
    if room == NULL or s.held == NULL or s.moved == NULL or (tile == NULL and not direct):
        free(room)
        free(s.held)
        free(s.moved)
        free(tile)
        raise MemoryError()
    s.rows = <double*> ((<uintptr_t> room + 63) // 64 * 64)  # rows of four never straddle two cache lines
    s.weighted = s.rows + s.classes * s.panels * s.step
    s.weight = s.weighted + 3 * s.step if weighted else NULL
    with nogil:
        add_scatter(X, codes, weight, shares, down, across, k, &s, tile)
    free(room)
    free(s.held)
    free(s.moved)
    free(tile)
    return 0


def class_scatter(const floating[:, :] X, const int[::1] codes, const double[::1] weight, const double[:, ::1] pivot,
                  double[:, ::1] one, double[:, ::1] x, double[:, :, ::1] xy):
    """Add w·(1, x − p, (x − p)(x − p)ᵀ) of every row to its class: hard labels; those outside 0..K−1 are skipped.

    `xy` is symmetric and stays so: the upper triangle is added to and copied to the lower one.
    """
    if X.shape[0] == 0:
        return
    scatter(X, &codes[0], &weight[0] if weight is not None else NULL, NULL, 0, 0, pivot, one, x, xy)


def soft_scatter(const floating[:, :] X, const double[:, :] shares, const double[:, ::1] pivot,
                 double[:, ::1] one, double[:, ::1] x, double[:, :, ::1] xy):
    """Add shares[i, c]·(1, x − p, (x − p)(x − p)ᵀ) of every row i to every class c; shares of zero cost nothing."""
    if X.shape[0] == 0 or x.shape[0] == 0:
        return
    scatter(X, NULL, NULL, <const char*> &shares[0, 0], shares.strides[0], shares.strides[1], pivot, one, x, xy)


# ---------------------------------------------------------------- densities

cdef void transpose(const floating[:, :] X, Py_ssize_t start, Py_ssize_t rows, double* tile) noexcept nogil:
    """Rows start.. in groups of four: tile[g, j, r] = X[start + 4g + r, j]; unused places repeat the last row."""
    if floating is double:
        transpose_rows(<const char*> &X[start, 0], X.strides[0], X.strides[1], rows, X.shape[1], tile)
    else:
        transpose_rows_single(<const char*> &X[start, 0], X.strides[0], X.strides[1], rows, X.shape[1], tile)


cdef void pack(const double* matrix, Py_ssize_t rows, Py_ssize_t d, bint upper, const double* scale,
               double* to) noexcept nogil:
    """Rows of a matrix in panels of four, to[p, j, r] = scale[4p + r]·matrix[4p + r, j]; zeros past the last row.

    With `upper`, zeros below the diagonal.
    """
    cdef Py_ssize_t i, j
    for i in range((rows + LANES - 1) // LANES * LANES):
        for j in range(d):
            to[(i // LANES * d + j) * LANES + i % LANES] = (
                0.0 if i >= rows or (upper and j < i) else matrix[i * d + j] * (scale[i] if scale != NULL else 1.0)
            )


cdef void middle(const double[:, ::1] mean, const double* n, double* centre) noexcept nogil:
    """The mean of the class means; with `n`, of the classes that have weight."""
    cdef Py_ssize_t c, j, classes = 0
    for j in range(mean.shape[1]):
        centre[j] = 0.0
    for c in range(mean.shape[0]):
        classes += n == NULL or n[c] > 0.0
    for c in range(mean.shape[0]):
        if n == NULL or n[c] > 0.0:
            for j in range(mean.shape[1]):
                centre[j] += mean[c, j] / classes


def log_density(const floating[:, :] X, const double[:, ::1] mean, const double[:, :, ::1] root,
                const double[::1] constant, const double[::1] scale, const double[::1] power, double[:, ::1] out):
    """out[i, c] = constant − q/2, q = ‖R(x − mean)‖², R upper triangular with RᵀR the inverse covariance (Gaussian).

    With `scale` and `power`: constant − power·log(1 + scale·q) (Student-t). One root may serve all classes: then
    Rx is computed once, about the middle of the means.
    """
    cdef Py_ssize_t n = X.shape[0], d = X.shape[1], k = mean.shape[0], m = root.shape[0]
    cdef Py_ssize_t padded = (d + LANES - 1) // LANES * LANES, block, start, rows, groups, first, c, i, j, r
    cdef bint shared = m < k, student = scale is not None
    cdef double q[BLOCK]
    cdef double total
    cdef double* roots
    cdef double* tile
    cdef double* centred
    cdef double* y
    cdef double* centre
    cdef double* shift
    cdef const double* about
    if n == 0 or k == 0:
        return
    roots = <double*> malloc((m * padded * d + 2 * TILE * d + BLOCK * padded + d + k * d) * sizeof(double))
    if roots == NULL:
        raise MemoryError()
    tile = roots + m * padded * d
    centred = tile + TILE * d
    y = centred + TILE * d
    centre = y + BLOCK * padded
    shift = centre + d
    with nogil:
        for c in range(m):
            pack(&root[c, 0, 0] if d else NULL, d, d, True, NULL, roots + c * padded * d)
        if shared:
            middle(mean, NULL, centre)
            for c in range(k):
                for i in range(d):
                    total = 0.0
                    for j in range(i, d):
                        total += root[0, i, j] * (mean[c, j] - centre[j])
                    shift[c * d + i] = total
        for block in range((n + TILE - 1) // TILE):
            start = block * TILE
            rows = min(<Py_ssize_t> TILE, n - start)
            groups = (rows + BLOCK - 1) // BLOCK * BLOCK // LANES
            if d:
                transpose(X, start, rows, tile)
                for i in range((rows + LANES - 1) // LANES * LANES * d, groups * LANES * d):
                    tile[i] = 0.0
            for c in range(m):
                about = &mean[c, 0]
                if shared:
                    about = centre
                centre_rows(tile, about, groups, d, centred)
                for i in range(groups * LANES // BLOCK):
                    first = i * BLOCK
                    if shared:
                        root_rows(centred + first * d, roots, d, y)
                        for j in range(k):
                            shifted_squares(y, shift + j * d, d, q)
                            for r in range(min(<Py_ssize_t> BLOCK, rows - first)):
                                out[start + first + r, j] = q[r]
                    else:
                        root_squares(centred + first * d, roots + c * padded * d, d, q)
                        for r in range(min(<Py_ssize_t> BLOCK, rows - first)):
                            out[start + first + r, c] = q[r]
            for r in range(start, start + rows):
                for c in range(k):
                    if student:
                        out[r, c] = constant[c] - power[c] * log1p(scale[c] * out[r, c])
                    else:
                        out[r, c] = constant[c] - 0.5 * out[r, c]
    free(roots)


def project(const floating[:, :] X, const double[::1] mean, const double[:, ::1] basis, double[:, ::1] out):
    """out = (X − mean) basisᵀ: the coordinates of every row along r directions."""
    cdef Py_ssize_t n = X.shape[0], d = X.shape[1], r = basis.shape[0], block, start, rows
    cdef Py_ssize_t padded = (r + LANES - 1) // LANES * LANES
    cdef double* packed
    cdef double* tile
    if n == 0 or r == 0:
        return
    packed = <double*> malloc((padded + 2 * TILE) * max(d, 1) * sizeof(double))
    if packed == NULL:
        raise MemoryError()
    tile = packed + padded * d
    with nogil:
        pack(&basis[0, 0] if d else NULL, r, d, False, NULL, packed)
        for block in range((n + TILE - 1) // TILE):
            start = block * TILE
            rows = min(<Py_ssize_t> TILE, n - start)
            if d:
                transpose(X, start, rows, tile)
                centre_rows(tile, &mean[0], (rows + LANES - 1) // LANES, d, tile + TILE * d)
            project_rows(tile + TILE * d, rows, packed, d, r, &out[start, 0], r)
    free(packed)


# ---------------------------------------------------------------- leave-one-out

cdef struct ClassCovariance:
    # A class's covariance D = ((1 − g)·spread + g·trace/d)/B in its eigenbasis, with all rows.
    const double* basis       # packed; for g = 0 scaled by 1/√spread, so that D is 1/B
    const double* spread      # eigenvalues of the scatter, zeros past d
    const double* reciprocal  # 1/D; for g = 0, ones
    double trace, least, most
    double weight             # B
    double level              # g·trace/(B·d)
    double log_det            # Σ log D; for g = 0, Σ log spread
    bint sound


cdef struct Left:
    # The covariance without a row, D − s·v vᵀ, and quadratic forms in units of 1/scale.
    const double* inverse  # 1/D
    const double* h        # v/D
    double R               # Σ v²/D
    double rest            # 1 − s·R
    double gain            # s / (1 − s·R)
    double scale
    double log_det


cdef struct Rows:
    # A tile of rows to leave out.
    Py_ssize_t own[TILE]  # class, or −1
    double weight[TILE]
    double share[TILE]    # a = w·n/(n − w): what is left is W − a·uuᵀ, u = x − mean
    double factor[TILE]   # n/(n − w): how much farther from the mean the row is once it is left out


cdef struct Plan:
    Py_ssize_t d, padded, k, present
    double tie, g, b, total  # b: degrees of freedom that a mean costs
    ClassCovariance* covariances
    Rows rows
    bint student     # whether means and covariances are integrated out
    double* B        # denominators without a row of weight `out_of`: (k) of other classes, (k) of its own
    double* log_B
    double* apart    # (2k) likewise, for Student-t: ν(1 + 1/n), (ν + d)/2, and the log-density at the mean without |Σ|
    double* power
    double* height
    double out_of
    double* tile     # (TILE, d) rows, in groups of four
    double* centred  # (TILE, d)
    double* z        # (TILE, padded) their coordinates
    double* v        # (TILE, padded) u in the same coordinates, if no table of shifts is kept
    double* moved    # (padded) u of one row
    double* inverse  # (padded)
    double* h        # (padded)
    double* zeros    # (padded)
    double* shift    # (k, padded) or (k, k, padded): what turns one class's coordinates into another's


cdef void displace(const double* packed, Py_ssize_t d, Py_ssize_t padded, const double* a, const double* b,
                   double* to) noexcept nogil:
    """to = basis·(a − b)."""
    cdef Py_ssize_t i, j
    for i in range(padded):
        to[i] = 0.0
        for j in range(d):
            to[i] += packed[(i // LANES * d + j) * LANES + i % LANES] * (a[j] - b[j])


cdef void prepare(Plan* p, Py_ssize_t c, double n, const double* spread, const double* basis, double* packed,
                  double* spreads, double* reciprocal) noexcept nogil:
    """The covariance of class c with all rows; its basis is packed unless it shares that of another class."""
    cdef ClassCovariance* covariance = &p.covariances[c]
    cdef Py_ssize_t j
    cdef double D
    covariance.spread = spreads
    covariance.reciprocal = reciprocal
    covariance.basis = packed
    covariance.weight = (1.0 - p.tie) * (n - p.b) + p.tie * (p.total - p.b * p.present)
    covariance.sound = covariance.weight > 0.0
    covariance.trace = 0.0
    covariance.log_det = 0.0
    covariance.least = INFINITY
    covariance.most = -INFINITY
    for j in range(p.d):
        spreads[j] = spread[j]
        covariance.trace += spread[j]
        covariance.least = min(covariance.least, spread[j])
        covariance.most = max(covariance.most, spread[j])
    covariance.level = p.g * covariance.trace / (covariance.weight * p.d)
    for j in range(p.d):
        D = spreads[j] if p.g == 0.0 else (1.0 - p.g) / covariance.weight * spreads[j] + covariance.level
        covariance.sound &= D > 0.0 and isfinite(D)
        reciprocal[j] = 1.0 / D
        covariance.log_det += log(D) if D > 0.0 else 0.0
    for j in range(p.d, p.padded):
        reciprocal[j] = 1.0 / covariance.level
    if p.g == 0.0:
        for j in range(p.d):
            p.moved[j] = sqrt(reciprocal[j])
            reciprocal[j] = 1.0
        for j in range(p.d, p.padded):
            reciprocal[j] = 1.0
    if basis != NULL:
        pack(basis, p.d, p.d, False, p.moved if p.g == 0.0 else NULL, packed)


cdef void denominators(Plan* p, const double[::1] n, double w) noexcept nogil:
    """B and its logarithm without a row of weight w: kept for the next row, which often has the same weight."""
    cdef Py_ssize_t c
    cdef double pooled = p.tie * (p.total - w - p.b * p.present), left, dof
    if w == p.out_of:
        return
    p.out_of = w
    for c in range(p.k):
        p.B[c] = (1.0 - p.tie) * (n[c] - p.b) + pooled
        p.B[p.k + c] = (1.0 - p.tie) * (n[c] - w - p.b) + pooled
    for c in range(2 * p.k):
        p.log_B[c] = log(p.B[c]) if p.B[c] > 0.0 else 0.0
    if not p.student:
        return
    for c in range(2 * p.k):
        left = n[c % p.k] - (w if c >= p.k else 0.0)
        dof = (1.0 - p.tie) * left + p.tie * (p.total - w)
        p.apart[c] = dof * (1.0 + 1.0 / left)
        p.power[c] = 0.5 * (dof + p.d)
        p.height[c] = lgamma(p.power[c]) - lgamma(0.5 * dof) - 0.5 * p.d * log(PI * p.apart[c])


cdef inline double density(const Plan* p, Py_ssize_t side, double log_det, double q) noexcept nogil:
    """The log-density at a squared distance q; `side` is c, or k + c if the row is of that class."""
    if p.student:
        return p.height[side] - 0.5 * log_det - p.power[side] * log1p(q / p.apart[side])
    return -0.5 * (p.d * LOG_2PI + log_det + q)


cdef bint remove(const Plan* p, Py_ssize_t c, bint own, double beta, const double* v, double length,
                 Left* left) noexcept nogil:
    """Σ' = ((1 − g)(M − β vvᵀ) + g·trace(M − β vvᵀ)/d)/B', v of squared length `length`; returns whether it is accurate."""
    cdef const ClassCovariance* covariance = &p.covariances[c]
    cdef double B = p.B[p.k + c if own else c], alpha, tau, mantissa
    cdef Py_ssize_t twos
    if not (covariance.sound and B > 0.0):
        return False
    left.scale = 1.0
    if beta == 0.0:  # then B' = B too: nothing changes
        left.inverse = covariance.reciprocal
        left.h = p.zeros
        left.R = 0.0
        left.rest = 1.0
        left.gain = 0.0
        left.log_det = covariance.log_det
        if p.g == 0.0:
            left.scale = B
            left.log_det -= p.d * p.log_B[p.k + c if own else c]
        return True
    if p.g == 0.0:
        left.inverse = covariance.reciprocal
        left.h = v
        left.R = length
        left.rest = 1.0 - beta * length
        left.gain = beta / left.rest
        left.scale = B
        left.log_det = covariance.log_det - p.d * p.log_B[p.k + c if own else c] + log(left.rest)
        return left.rest > 1e-6
    alpha = (1.0 - p.g) / B
    tau = p.g * (covariance.trace - beta * length) / (B * p.d)
    # Every D'/D lies between B/B' and the ratio of the levels.
    if not (covariance.weight < RATIO * B and B < RATIO * covariance.weight
            and tau < RATIO * covariance.level and covariance.level < RATIO * tau):
        return False
    if not (alpha * covariance.least + tau > 0.0 and isfinite(alpha * covariance.most + tau)):
        return False
    left.R = shrink_row(v, covariance.spread, covariance.reciprocal, alpha, tau, p.padded, p.inverse, p.h, &mantissa, &twos)
    for _ in range(p.d, p.padded):
        mantissa *= covariance.level / tau  # places past d were counted as variances of tau
    left.inverse = p.inverse
    left.h = p.h
    left.rest = 1.0 - alpha * beta * left.R
    left.gain = alpha * beta / left.rest
    left.log_det = covariance.log_det + log(mantissa * left.rest) + LOG_2 * twos
    return left.rest > 1e-6


cdef double leave(const Plan* p, Py_ssize_t c, const Left* left, const double* e, const double* shift) noexcept nogil:
    """The log-density of z = e + shift, with Σ'⁻¹ by the Sherman–Morrison formula."""
    cdef double P, Q
    quadratic_row(e, shift, left.inverse, left.h, p.padded, &P, &Q)
    return density(p, c, left.log_det, left.scale * (P + left.gain * Q * Q))


cdef double leave_own(const Plan* p, Py_ssize_t c, const Left* left, double factor) noexcept nogil:
    """The same for z = factor·v, where P = factor²·R and Q = factor·R."""
    return density(p, p.k + c, left.log_det, left.scale * factor * factor * left.R / left.rest)


cdef void leave_shared(Plan* p, const double[::1] n, Py_ssize_t start, Py_ssize_t rows, const double* centre,
                       double[:, ::1] out, unsigned char[::1] slow) noexcept nogil:
    """One scatter for all classes: a row changes them all in the same way."""
    cdef Py_ssize_t r, c, own
    cdef double length
    cdef const double* e
    cdef Left left
    centre_rows(p.tile, centre, (rows + LANES - 1) // LANES, p.d, p.centred)
    project_rows(p.centred, rows, p.covariances[0].basis, p.d, p.padded, p.z, p.padded)
    for r in range(rows):
        own = p.rows.own[r]
        if slow[start + r]:
            continue
        denominators(p, n, p.rows.weight[r])
        e = p.z + r * p.padded
        length = 0.0
        if own >= 0:
            length = shift_row(e, p.shift + own * p.padded, p.padded, p.moved)
        if not remove(p, max(own, 0), True, p.rows.share[r], p.moved, length, &left):
            slow[start + r] = 1
            continue
        for c in range(p.k):
            if n[c] > 0.0:
                if c == own and p.rows.share[r] != 0.0:
                    out[start + r, c] = leave_own(p, c, &left, p.rows.factor[r])
                else:
                    out[start + r, c] = leave(p, c, &left, e, p.shift + c * p.padded)


cdef void leave_each(Plan* p, const double[::1] n, const double[:, ::1] mean, Py_ssize_t start, Py_ssize_t rows,
                     double[:, ::1] out, unsigned char[::1] slow) noexcept nogil:
    """A scatter for each class: a row changes its own, and others in proportion to the tie."""
    cdef Py_ssize_t groups = (rows + LANES - 1) // LANES, r, c, j, own
    cdef double length, beta
    cdef const double* z
    cdef const double* v
    cdef Left left
    for c in range(p.k):
        if not n[c] > 0.0:
            continue
        centre_rows(p.tile, &mean[c, 0], groups, p.d, p.centred)
        project_rows(p.centred, rows, p.covariances[c].basis, p.d, p.padded, p.z, p.padded)
        if p.v != NULL:  # u itself, in this class's coordinates
            for r in range(rows):
                own = max(p.rows.own[r], 0)
                for j in range(p.d):
                    p.centred[(r // LANES * p.d + j) * LANES + r % LANES] = (
                        p.tile[(r // LANES * p.d + j) * LANES + r % LANES] - mean[own, j]
                    )
            project_rows(p.centred, rows, p.covariances[c].basis, p.d, p.padded, p.v, p.padded)
        for r in range(rows):
            own = p.rows.own[r]
            if slow[start + r]:
                continue
            denominators(p, n, p.rows.weight[r])
            z = p.z + r * p.padded
            v = z
            length = 0.0
            beta = p.rows.share[r] * (1.0 if c == own else p.tie)
            if beta != 0.0:
                if c == own:
                    length = shift_row(z, p.zeros, p.padded, p.moved)
                elif p.v != NULL:
                    v = p.v + r * p.padded
                    length = shift_row(v, p.zeros, p.padded, p.moved)
                else:
                    v = p.moved
                    length = shift_row(z, p.shift + (c * p.k + own) * p.padded, p.padded, p.moved)
            if not remove(p, c, c == own, beta, v, length, &left):
                slow[start + r] = 1
            elif c == own and beta != 0.0:
                out[start + r, c] = leave_own(p, c, &left, p.rows.factor[r])
            else:
                out[start + r, c] = leave(p, c, &left, z, p.zeros)


def leave_one_out(const floating[:, :] X, const int[::1] y, const double[::1] weight, const double[::1] n,
                  const double[:, ::1] mean, const double[:, :, ::1] basis, const double[:, ::1] spread,
                  double tie, double sphere, bint unbiased, bint student, double[:, ::1] out,
                  unsigned char[::1] slow):
    """out[i, c] = log N(x_i | c) under the statistics without row i.

    Scatters W_c of weight n_c are tied, M_c = (1 − tie)·W_c + tie·ΣW, divided by
    B_c = (1 − tie)(n_c − b) + tie(N − b·K), b = 1 if `unbiased`, and shrunk towards a sphere,
    Σ_c = (1 − g)·M_c/B_c + g·trace(M_c)/(B_c·d)·I, g = `sphere`.
    `basis` and `spread` are the eigenvectors (rows) and eigenvalues of M_c: one for all if tie = 1. A row is a
    change of rank one, M_c − β uuᵀ. With `student`, the density is Student's with ν = (1 − tie)·n_c + tie·N degrees of
    freedom and the scale Σ_c(1 + 1/n_c). Rows for which that is inaccurate become NaN, with slow[i] = 1. Classes of
    no weight get −∞; rows without a class are scored with the full statistics.
    """
    cdef Py_ssize_t d = X.shape[1], k = mean.shape[0], m = basis.shape[0], padded = (d + LANES - 1) // LANES * LANES
    cdef Py_ssize_t block, start, rows, c, i, r, tables = 0
    cdef bint shared = m == 1 and tie == 1.0
    cdef bint moving = not shared and 0.0 < tie < 1.0  # a row changes other classes too, each in its own basis
    cdef bint tabled = moving and k * k * padded <= SHIFTS
    cdef double* room
    cdef double* packed
    cdef double* spreads
    cdef double* reciprocal
    cdef double* centre
    cdef Plan p
    if X.shape[0] == 0 or k == 0 or d == 0:
        return
    if shared or tabled:
        tables = k if shared else k * k
    room = <double*> calloc(m * padded * d + (2 * k + tables + 4 + 2 * TILE) * padded + (2 * TILE + 1) * d + 10 * k,
                            sizeof(double))
    p.covariances = <ClassCovariance*> malloc(k * sizeof(ClassCovariance))
    if room == NULL or p.covariances == NULL:
        free(room)
        free(p.covariances)
        raise MemoryError()
    p.d = d
    p.padded = padded
    p.k = k
    p.tie = tie
    p.g = sphere
    p.b = 1.0 if unbiased else 0.0
    p.out_of = NAN
    packed = room
    spreads = packed + m * padded * d
    reciprocal = spreads + k * padded
    p.shift = reciprocal + k * padded
    p.moved = p.shift + tables * padded
    p.inverse = p.moved + padded
    p.h = p.inverse + padded
    p.zeros = p.h + padded
    p.z = p.zeros + padded
    p.v = p.z + TILE * padded
    p.tile = p.v + TILE * padded
    p.centred = p.tile + TILE * d
    centre = p.centred + TILE * d
    p.B = centre + d
    p.log_B = p.B + 2 * k
    p.apart = p.log_B + 2 * k
    p.power = p.apart + 2 * k
    p.height = p.power + 2 * k
    p.student = student
    if not moving or tabled:
        p.v = NULL
    with nogil:
        p.total = 0.0
        p.present = 0
        for c in range(k):
            if n[c] > 0.0:
                p.total += n[c]
                p.present += 1
        for c in range(k):
            i = 0 if shared else c
            prepare(&p, c, n[c], &spread[i, 0], &basis[i, 0, 0] if c == i else NULL, packed + i * padded * d,
                    spreads + c * padded, reciprocal + c * padded)
        if shared:
            middle(mean, &n[0], centre)
            for c in range(k):
                displace(packed, d, padded, centre, &mean[c, 0], p.shift + c * padded)
        elif tabled:
            for c in range(k):
                for i in range(k):
                    displace(packed + c * padded * d, d, padded, &mean[c, 0], &mean[i, 0],
                             p.shift + (c * k + i) * padded)
        for block in range((X.shape[0] + TILE - 1) // TILE):
            start = block * TILE
            rows = min(<Py_ssize_t> TILE, X.shape[0] - start)
            transpose(X, start, rows, p.tile)
            for r in range(rows):
                c = y[start + r]
                p.rows.own[r] = c if 0 <= c < k else -1
                p.rows.weight[r] = 0.0
                p.rows.share[r] = 0.0
                p.rows.factor[r] = 1.0
                slow[start + r] = 0
                if p.rows.own[r] >= 0:
                    p.rows.weight[r] = weight[start + r] if weight is not None else 1.0
                    if n[c] - p.rows.weight[r] <= n[c] * RESIDUE:
                        slow[start + r] = 1
                    else:
                        p.rows.factor[r] = n[c] / (n[c] - p.rows.weight[r])
                        p.rows.share[r] = p.rows.weight[r] * p.rows.factor[r]
                for i in range(k):
                    out[start + r, i] = -INFINITY
            if shared:
                leave_shared(&p, n, start, rows, centre, out, slow)
            else:
                leave_each(&p, n, mean, start, rows, out, slow)
            for r in range(start, start + rows):
                if slow[r]:
                    for c in range(k):
                        out[r, c] = NAN
    free(room)
    free(p.covariances)
