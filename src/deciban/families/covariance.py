"""Covariances from class scatters: fourteen constrained shapes by maximum likelihood, and shrinkage to the identity.

Every covariance is Σ_c = λ_c · D_c A_c D_cᵀ: a volume λ, a form A (diagonal, determinant one) and an orientation D.
A shape's three letters state for each whether it is Equal in all classes, Varies, or is the Identity (Celeux & Govaert
1995, in mclust's notation). The objective is Σ_c n_c log|Σ_c| + tr(Σ_c⁻¹ W_c), where n_c is the weight of class c and
W_c = Σ w(x − m_c)(x − m_c)ᵀ its scatter.

A class without weight is ignored; it gets the covariance of the shape fitted to all rows as one class, which is ΣW/Σn,
its diagonal (??I) or its mean variance (?II). Scatters may be singular: the result is then finite, and singular where
the likelihood is unbounded. Repairing singular covariances is left to the caller.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from deciban._typing import Array, Floats

LOG_2PI = float(np.log(2.0 * np.pi))
NULL_RATIO = 2.0**-46  # an eigenvalue this small relative to the largest is rounding
SINGULAR_RATIO = 2.0**-26  # a form with smaller eigenvalues, relative to the largest, is becoming singular
MAX_ROUNDS = 200
OBJECTIVE_TOLERANCE = 1e-12  # per row and column: a round that lowers the objective by less is the last

Fit: TypeAlias = Callable[[Floats, Floats], Floats]


@dataclass(frozen=True, slots=True)
class CovarianceShape:
    """One constraint on class covariances and its maximum-likelihood fit to classes that have rows."""

    aligned: bool  # axis-aligned: fit takes and gives variances (k, d), else matrices (k, d, d)
    closed: bool  # in closed form, else by alternation
    fit: Fit


def canonical(name: str) -> str:
    """The letters of a shape, or "unit", from the letters or an alias."""
    letters = ALIASES.get(name, name)
    if letters not in SHAPES:
        raise ValueError(f"unknown covariance shape {name!r}; choose from {', '.join([*SHAPES, *ALIASES])}")
    return letters


def diagonal_shape(name: str, n: Array, V: Array) -> Floats:
    """Variances (k, d) of an axis-aligned shape, from weights n (k,) and the scatters' diagonals V (k, d)."""
    chosen = SHAPES[canonical(name)]
    if not chosen.aligned:
        raise ValueError(f"{name!r} is not axis-aligned: it needs full scatter matrices, not their diagonals")
    return _with_absent(chosen.fit, np.asarray(n, dtype=np.float64), np.maximum(np.asarray(V, dtype=np.float64), 0.0))


def shape(name: str, n: Array, W: Array) -> Floats:
    """Covariances (k, d, d) of a shape, from weights n (k,) and scatters W (k, d, d).

    >>> import numpy as np
    >>> W = np.array([[[8.0, 0.0], [0.0, 2.0]], [[2.0, 0.0], [0.0, 8.0]]])
    >>> shape("EVI", np.array([2.0, 2.0]), W)[0]  # volumes 2 and 2 are equal already
    array([[4., 0.],
           [0., 1.]])
    >>> shape("tied", np.array([2.0, 2.0]), W)[0]
    array([[2.5, 0. ],
           [0. , 2.5]])
    """
    chosen = SHAPES[canonical(name)]
    W = np.asarray(W, dtype=np.float64)
    if chosen.aligned:
        return _as_matrices(diagonal_shape(name, n, np.diagonal(W, axis1=1, axis2=2)))
    live = np.diagonal(W, axis1=1, axis2=2) > 0  # rounding may make a zero scatter negative
    W = np.where(live[:, :, None] & live[:, None, :], 0.5 * (W + W.swapaxes(1, 2)), 0.0)
    return _with_absent(chosen.fit, np.asarray(n, dtype=np.float64), W)


def minus_twice_log_likelihood(n: Array, W: Array, covariances: Array, d: int) -> float:
    """Σ_c n_c (d log 2π + log|Σ_c|) + tr(Σ_c⁻¹ W_c), from matrices (k, d, d) or their diagonals (k, d).

    A singular Σ_c makes it −∞, or +∞ if some class has scatter outside the range of its covariance.
    """
    n, W, covariances = (np.asarray(a, dtype=np.float64) for a in (n, W, covariances))
    if W.ndim == 2:
        W, covariances = _as_matrices(W), _as_matrices(covariances)
    present = n > 0
    n, W, covariances = n[present], W[present], covariances[present]
    # Columns in units of their standard deviations: singularity must not depend on units.
    variances = np.diagonal(covariances, axis1=1, axis2=2)
    scale = np.sqrt(np.where(variances > 0, variances, 1.0))
    both = scale[:, :, None] * scale[:, None, :]
    values, axes = np.linalg.eigh(covariances / both)
    scatter = _along(axes, W / both)
    live = values > NULL_RATIO
    if not live.all():
        impossible = (scatter > NULL_RATIO * scatter.sum(axis=1, keepdims=True)) & ~live
        return float("inf") if impossible.any() else float("-inf")
    log_det = np.log(values).sum(axis=1) + 2.0 * np.log(scale).sum(axis=1)
    return float(n @ (d * LOG_2PI + log_det) + (scatter / values).sum())


def parameters(name: str, k: int, d: int) -> int:
    """The number of free parameters of the covariances of k classes in d columns, without means and weights."""
    name = canonical(name)
    if name == "unit":
        return 0
    copies = {"I": 0, "E": 1, "V": k}
    volume, form, orientation = (copies[letter] for letter in name)
    return volume + form * (d - 1) + orientation * (d * (d - 1) // 2)


def bic(name: str, n: Array, scatter: Array) -> float:
    """Bayesian information criterion of a shape, means and class weights included: lower is better.

    −2 log-likelihood + log N · (covariance parameters + k·d + k − 1), where N is the weight of all rows and k the
    number of classes that have some. Scatters are whole (k, d, d) or, for axis-aligned shapes, diagonals (k, d).
    Singular covariances, or no rows at all, give +∞: an unbounded likelihood should not win a comparison.
    """
    n, scatter = np.asarray(n, dtype=np.float64), np.asarray(scatter, dtype=np.float64)
    d = scatter.shape[-1]
    fitted = diagonal_shape(name, n, scatter) if scatter.ndim == 2 else shape(name, n, scatter)
    misfit = minus_twice_log_likelihood(n, scatter, fitted, d)
    k = int((n > 0).sum())
    if k == 0 or not np.isfinite(misfit):
        return float("inf")
    return float(misfit + np.log(n[n > 0].sum()) * (parameters(name, k, d) + k * d + k - 1))


def central_fourth(n: Array | float, s1: Array, s11: Array, s21: Array, s22: Array) -> Floats:
    """Σ (x_j − m_j)²(x_l − m_l)² (…, d, d) from moments of y = x − p about any pivot p.

    s1_j = Σ y_j, s11_jl = Σ y_j y_l, s21_jl = Σ y_j² y_l and s22_jl = Σ y_j² y_l². A pivot t standard deviations
    from the mean costs the digits of t⁴.
    """
    n, s1 = np.asarray(n, dtype=np.float64)[..., None], np.asarray(s1, dtype=np.float64)
    offset = s1 / np.where(n > 0, n, 1.0)
    row, column = offset[..., :, None], offset[..., None, :]
    square = np.diagonal(s11, axis1=-2, axis2=-1)
    mixed = 2.0 * s21 * column - square[..., :, None] * column**2
    moved = s22 - mixed - mixed.swapaxes(-1, -2) + 4.0 * row * column * s11 - 3.0 * n[..., None] * (row * column) ** 2
    return np.asarray(np.maximum(moved, 0.0))


def ledoit_wolf_intensity(n: float, W: Array, c22: Array) -> float:
    """How far W/n should shrink to a multiple of the identity (Ledoit & Wolf 2004), between 0 and 1.

    The error of W/n, estimated from the spread of the rows' own (x − m)(x − m)ᵀ about it, relative to its distance from
    the target; W is one class's scatter and c22 its `central_fourth`.
    """
    d = len(W)
    if d == 1 or n <= 0:
        return 0.0
    S = W / n
    distance = float(((S - _target(S)) ** 2).sum())
    error = max(float(c22.sum() / n - (S**2).sum()) / n, 0.0)
    return 0.0 if distance == 0.0 else min(error / distance, 1.0)


def standardised_ledoit_wolf(n: float, W: Array, c22: Array) -> Floats:
    """The covariance (d, d) of one class, shrunk by Ledoit & Wolf's intensity with columns of unit variance.

    The target is then the diagonal of W/n instead of a multiple of the identity; a constant column stays as it is.
    """
    if n <= 0:
        return np.zeros_like(W, dtype=np.float64)
    variance = np.maximum(np.diagonal(W), 0.0) / n
    scale = np.sqrt(np.where(variance > 0, variance, 1.0))
    both = np.outer(scale, scale)
    return np.asarray(shrink(W / both / n, ledoit_wolf_intensity(n, W / both, c22 / both**2)) * both)


def oas_intensity(n: float, W: Array) -> float:
    """How far W/n should shrink to a multiple of the identity if rows are Gaussian (Chen et al. 2010, eq. 23).

    Without their term 2/d, as in scikit-learn.
    """
    d = len(W)
    if d == 1 or n <= 0:
        return 0.0
    S = W / n
    distance = float(((S - _target(S)) ** 2).sum())
    size = float((S**2).sum() + np.trace(S) ** 2)
    return 1.0 if distance == 0.0 else min(size / ((n + 1.0) * distance), 1.0)


def shrink(S: Array, a: Array | float) -> Floats:
    """(1 − a)·S + a·tr(S)/d·I for matrices S (…, d, d) and an intensity, or one for each."""
    a = np.asarray(a, dtype=np.float64)[..., None, None]
    return np.asarray((1.0 - a) * S + a * _target(S))


def _target(S: Array) -> Floats:
    d = S.shape[-1]
    return np.asarray(np.trace(S, axis1=-2, axis2=-1)[..., None, None] / d * np.eye(d))


def _with_absent(fit: Fit, n: Floats, scatter: Floats) -> Floats:
    """The fit to classes that have rows; the others get the fit to all rows as one class, or to no scatter."""
    present = n > 0
    if not present.any():
        return fit(np.ones_like(n), np.zeros_like(scatter))
    out = np.empty_like(scatter)
    out[present] = fit(n[present], scatter[present])
    if not present.all():
        out[~present] = fit(n[present].sum(keepdims=True), scatter[present].sum(axis=0, keepdims=True))[0]
    return out


def _as_matrices(variances: Floats) -> Floats:
    """(k, d) → diagonal matrices (k, d, d)."""
    return np.asarray(variances[:, :, None] * np.eye(variances.shape[1]))


def _descend(state: Floats, step: Callable[[Floats], tuple[float, Floats]], tolerance: float) -> Floats:
    """Iterate a step (the objective, and the next state) until it gains no more than `tolerance`."""
    before = np.inf
    for _ in range(MAX_ROUNDS):
        objective, further = step(state)
        if before - objective <= tolerance:
            break
        before, state = objective, further
    return state


# Axis-aligned shapes: weights n (k,) and scatter diagonals V (k, d) → variances (k, d).


def _unit(n: Floats, V: Floats) -> Floats:
    del n
    return np.ones_like(V)


def _eii(n: Floats, V: Floats) -> Floats:
    return np.full_like(V, V.sum() / (n.sum() * V.shape[1]))


def _vii(n: Floats, V: Floats) -> Floats:
    return np.repeat(V.mean(axis=1, keepdims=True) / n[:, None], V.shape[1], axis=1)


def _eei(n: Floats, V: Floats) -> Floats:
    return np.repeat(V.sum(axis=0, keepdims=True) / n.sum(), len(n), axis=0)


def _vvi(n: Floats, V: Floats) -> Floats:
    return np.asarray(V / n[:, None])


def _in_shares(fit: Fit, n: Floats, V: Floats) -> Floats:
    """Fit with every column in units of its pooled scatter; a column constant in all classes has variance zero.

    Column scales commute with equal or varying forms, and the pooled form becomes 1, a good start and fallback.
    """
    total = V.sum(axis=0)
    live = total > 0
    out = np.zeros_like(V)
    if live.any():
        out[:, live] = fit(n, V[:, live] / total[live]) * total[live]
    return out


def _vei(n: Floats, V: Floats) -> Floats:
    """λ_c·B: each is a mean given the other. Both steps are convex in log λ and log B, so the minimum is global."""
    return _in_shares(_shares_vei, n, V)


def _shares_vei(n: Floats, V: Floats) -> Floats:
    d = V.shape[1]
    spread = V.sum(axis=1) > 0  # a class of identical rows has volume zero, and does not affect the form

    def volumes(form: Floats) -> Floats:
        return np.asarray((V / form).sum(axis=1) / (d * n))

    def step(form: Floats) -> tuple[float, Floats]:
        volume = volumes(form)[spread]
        objective = d * float(n[spread] @ np.log(volume))  # the trace is d·N at every such volume
        further = (V[spread] / volume[:, None]).sum(axis=0)
        further /= np.exp(np.log(further).mean())
        # With zeros in V the form can be unbounded: stop before that.
        return objective, form if further.min() <= NULL_RATIO * further.max() else further

    form = _descend(np.ones(d), step, OBJECTIVE_TOLERANCE * d * float(n.sum()))
    return np.outer(volumes(form), form)


def _evi(n: Floats, V: Floats) -> Floats:
    """λ·B_c: geometric means. A class constant in a column that varies in other classes takes the pooled form.

    Its own form would be 0 in that column and unbounded in the others.
    """
    return _in_shares(_shares_evi, n, V)


def _shares_evi(n: Floats, V: Floats) -> Floats:
    regular = V.min(axis=1) > 0
    logs = np.log(np.where(regular[:, None], V, 1.0))
    size = logs.mean(axis=1)
    volume = np.where(regular, np.exp(size), V.mean(axis=1)).sum() / n.sum()
    return np.asarray(volume * np.exp(logs - size[:, None]))


# Shapes with orientations: weights n (k,) and scatters W (k, d, d) → covariances (k, d, d).


def _eee(n: Floats, W: Floats) -> Floats:
    return np.repeat(W.sum(axis=0, keepdims=True) / n.sum(), len(n), axis=0)


def _vvv(n: Floats, W: Floats) -> Floats:
    return np.asarray(W / n[:, None, None])


def _turn(axes: Floats, variances: Floats) -> Floats:
    """Matrices with these variances (k, d) along these axes (…, d, d), the columns."""
    return np.asarray((axes * variances[:, None, :]) @ axes.swapaxes(-1, -2))


def _in_own_axes(fit: Fit, n: Floats, W: Floats) -> Floats:
    """An axis-aligned fit with every class rotated to its own principal axes, ordered by variance."""
    values, axes = np.linalg.eigh(W)
    return _turn(axes, fit(n, np.where(values > NULL_RATIO * values[:, -1:], values, 0.0)))


def _eev(n: Floats, W: Floats) -> Floats:
    return _in_own_axes(_eei, n, W)


def _vev(n: Floats, W: Floats) -> Floats:
    return _in_own_axes(_vei, n, W)


def _whitened(fit: Fit, n: Floats, W: Floats) -> Floats:
    """Fit in coordinates in which the pooled scatter is the identity; directions without any scatter get zero.

    Linear maps commute with forms and orientations that are both equal or both vary.
    """
    pooled = W.sum(axis=0)
    variances = np.diagonal(pooled)
    scale = np.sqrt(
        np.where(variances > 0, variances, 1.0)
    )  # units first, so that small ones are not taken for null directions
    values, axes = np.linalg.eigh(pooled / np.outer(scale, scale))
    live = values > NULL_RATIO * max(values[-1], 0.0)
    if not live.any():
        return np.zeros_like(W)
    root = np.sqrt(values[live])
    into, back = axes[:, live] / root / scale[:, None], axes[:, live] * root * scale[:, None]
    return np.asarray(back @ fit(n, into.T @ W @ into) @ back.T)


def _vee(n: Floats, W: Floats) -> Floats:
    """λ_c·C: each is a mean given the other."""
    return _whitened(_white_vee, n, W)


def _white_vee(n: Floats, W: Floats) -> Floats:
    d = W.shape[1]

    def volumes(common: Floats) -> Floats:
        return np.asarray(np.maximum(np.einsum("cij,ij->c", W, np.linalg.inv(common)) / (d * n), 0.0))

    def step(common: Floats) -> tuple[float, Floats]:
        volume = volumes(common)
        spread = volume > 0
        objective = d * float(n[spread] @ np.log(volume[spread]))
        further = (W[spread] / volume[spread, None, None]).sum(axis=0)
        values = np.linalg.eigvalsh(further)
        if (
            values[0] <= SINGULAR_RATIO * values[-1]
        ):  # with low-rank scatters the form can be unbounded: stop before that
            return objective, common
        return objective, further / np.exp(np.log(values).mean())

    common = _descend(np.eye(d), step, OBJECTIVE_TOLERANCE * d * float(n.sum()))
    return np.asarray(volumes(common)[:, None, None] * common)


def _evv(n: Floats, W: Floats) -> Floats:
    """λ·C_c with |C_c| = 1. A class with singular scatter takes the pooled C, as in EVI."""
    return _whitened(_white_evv, n, W)


def _white_evv(n: Floats, W: Floats) -> Floats:
    d = W.shape[1]
    values = np.linalg.eigvalsh(W)
    regular = values[:, 0] > NULL_RATIO * np.maximum(values[:, -1], 0.0)
    size = np.exp(np.log(np.where(regular[:, None], values, 1.0)).mean(axis=1))
    forms = np.where(regular[:, None, None], W / size[:, None, None], np.eye(d))
    volume = np.where(regular, size, np.maximum(values.mean(axis=1), 0.0)).sum() / n.sum()
    return np.asarray(volume * forms)


def _eve(n: Floats, W: Floats) -> Floats:
    return _in_axes(_eve_axes(n, W), _evi, n, W)


def _vve(n: Floats, W: Floats) -> Floats:
    # Started from the results of EVE and VEE, so that the more general shape never fits worse.
    of_vee = np.linalg.eigh(_vee(n, W).sum(axis=0))[1]
    return _in_axes(_common_axes(_vvi, n, W, [*_likely_axes(n, W), _eve_axes(n, W), of_vee]), _vvi, n, W)


def _eve_axes(n: Floats, W: Floats) -> Floats:
    return _common_axes(_evi, n, W, _likely_axes(n, W))


def _likely_axes(n: Floats, W: Floats) -> list[Floats]:
    """The columns themselves, and the principal axes of all classes together and of the heaviest."""
    return [np.eye(W.shape[1]), np.linalg.eigh(W.sum(axis=0))[1], np.linalg.eigh(W[np.argmax(n)])[1]]


def _in_axes(axes: Floats, fit: Fit, n: Floats, W: Floats) -> Floats:
    along = _along(axes, W)
    return _turn(axes, fit(n, np.where(along > NULL_RATIO * along.max(axis=1, keepdims=True), along, 0.0)))


def _along(axes: Floats, W: Floats) -> Floats:
    """Scatter along each axis, (k, d): the diagonals of DᵀW_cD."""
    return np.asarray(((W @ axes) * axes).sum(axis=1))


def _common_axes(fit: Fit, n: Floats, W: Floats, starts: list[Floats]) -> Floats:
    """Axes D (d, d) that minimise the objective of an axis-aligned fit to D's diagonals of W.

    Plane rotations as in Flury & Gautschi (1986). For given variances the trace is Q cos 2θ + R sin 2θ in the plane of
    two axes, with its minimum at a known θ, and refitting the variances lowers the objective again. Planes that share
    no axis are rotated together.
    """
    d = W.shape[1]
    # A ridge just above rounding keeps the logarithms of singular scatters finite.
    ridge = NULL_RATIO * np.trace(W.sum(axis=0)) / d * n / n.sum()
    if ridge.max() <= 0:
        return np.eye(d)
    W = W + ridge[:, None, None] * np.eye(d)
    rounds = _disjoint_pairs(d)

    def misfit(axes: Floats) -> float:
        along = np.maximum(_along(axes, W), ridge[:, None])
        variances = fit(n, along)
        return float((n[:, None] * np.log(variances) + along / variances).sum())

    def step(axes: Floats) -> tuple[float, Floats]:
        objective, axes, turned = misfit(axes), axes.copy(), axes.T @ W @ axes
        for i, j in rounds:
            along = np.diagonal(turned, axis1=1, axis2=2)
            precision = 1.0 / fit(n, np.maximum(along, ridge[:, None]))
            contrast = precision[:, i] - precision[:, j]
            cosine_part = 0.5 * (contrast * (along[:, i] - along[:, j])).sum(axis=0)
            sine_part = (contrast * turned[:, i, j]).sum(axis=0)
            flat = (cosine_part == 0) & (sine_part == 0)
            angle = np.where(flat, 0.0, 0.5 * np.arctan2(-sine_part, -cosine_part))
            cosine, sine = np.cos(angle), np.sin(angle)
            for table in (axes, turned, turned.swapaxes(1, 2)):  # the last two rotate columns, then rows
                first, second = table[..., i], table[..., j]
                table[..., i], table[..., j] = cosine * first + sine * second, cosine * second - sine * first
        return objective, axes

    return _descend(min(starts, key=misfit), step, OBJECTIVE_TOLERANCE * d * float(n.sum()))


def _disjoint_pairs(d: int) -> list[tuple[Array, Array]]:
    """Every pair of d axes once, in rounds of disjoint pairs: a round-robin tournament."""
    seats = d + d % 2
    rounds = []
    for shift in range(seats - 1):
        ring = np.concatenate([[seats - 1], np.roll(np.arange(seats - 1), shift)])
        i, j = ring[: seats // 2], ring[: seats // 2 - 1 : -1]
        playing = (i < d) & (j < d)
        rounds.append((i[playing], j[playing]))
    return rounds


SHAPES: Mapping[str, CovarianceShape] = {
    "unit": CovarianceShape(aligned=True, closed=True, fit=_unit),
    "EII": CovarianceShape(aligned=True, closed=True, fit=_eii),
    "VII": CovarianceShape(aligned=True, closed=True, fit=_vii),
    "EEI": CovarianceShape(aligned=True, closed=True, fit=_eei),
    "VEI": CovarianceShape(aligned=True, closed=False, fit=_vei),
    "EVI": CovarianceShape(aligned=True, closed=True, fit=_evi),
    "VVI": CovarianceShape(aligned=True, closed=True, fit=_vvi),
    "EEE": CovarianceShape(aligned=False, closed=True, fit=_eee),
    "VEE": CovarianceShape(aligned=False, closed=False, fit=_vee),
    "EVE": CovarianceShape(aligned=False, closed=False, fit=_eve),
    "VVE": CovarianceShape(aligned=False, closed=False, fit=_vve),
    "EEV": CovarianceShape(aligned=False, closed=True, fit=_eev),
    "VEV": CovarianceShape(aligned=False, closed=False, fit=_vev),
    "EVV": CovarianceShape(aligned=False, closed=True, fit=_evv),
    "VVV": CovarianceShape(aligned=False, closed=True, fit=_vvv),
}

ALIASES: Mapping[str, str] = {
    "tied_spherical": "EII",
    "spherical": "VII",
    "tied_diag": "EEI",
    "diag": "VVI",
    "tied": "EEE",
    "full": "VVV",
}
