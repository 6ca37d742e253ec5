"""Covariance shapes are feasible, stationary, nested and equivariant; shrinkage agrees with scikit-learn."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import expm
from sklearn.covariance import ledoit_wolf, oas, shrunk_covariance
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from deciban.families import covariance as cov

FOURTEEN = [name for name in cov.SHAPES if name != "unit"]
ALIGNED = [name for name in FOURTEEN if cov.SHAPES[name].aligned]
TURNED = [name for name in FOURTEEN if not cov.SHAPES[name].aligned]
ITERATIVE = [name for name in FOURTEEN if not cov.SHAPES[name].closed]
GENERAL = {"I": 0, "E": 1, "V": 2}


def scatters(seed, k=3, d=4, alike=0.7, rows=(12, 40)):
    """Weights and scatters of classes whose axes are similar but not the same."""
    rng = np.random.default_rng(seed)
    base = rng.normal(size=(d, d)) * np.exp(rng.normal(size=d))
    n = rng.uniform(*rows, size=k)
    roots = np.array([base * np.exp(0.5 * rng.normal(size=d)) for _ in range(k)])
    roots += (1.0 - alike) * rng.normal(size=(k, d, d))
    X = rng.normal(size=(k, d + 30, d)) @ roots.swapaxes(1, 2) * np.exp(rng.normal(size=(k, 1, 1)))
    return n, n[:, None, None] / (d + 30) * (X.swapaxes(1, 2) @ X)


def objective(name, n, W):
    return cov.minus_twice_log_likelihood(n, W, cov.shape(name, n, W), W.shape[1])


def volumes(S):
    return np.linalg.det(S) ** (1.0 / S.shape[1])


def rotation(rng, d, size=None):
    skew = rng.normal(size=(d, d)) * (1.0 if size is None else size)
    return expm(skew - skew.T)


def parts(name, S):
    """Volumes (k,), forms (k, d) and axes (k, d, d) of matrices that obey a shape."""
    d = S.shape[1]
    volume = volumes(S)
    if name[2] == "I":
        axes = np.repeat(np.eye(d)[None], len(S), axis=0)
    elif name[2] == "E":
        mixture = np.random.default_rng(0).uniform(1.0, 2.0, len(S)) / volume
        axes = np.repeat(np.linalg.eigh(np.einsum("c,cij->ij", mixture, S))[1][None], len(S), axis=0)
    else:
        axes = np.linalg.eigh(S)[1]
    forms = np.einsum("cji,cjl,cli->ci", axes, S, axes) / volume[:, None]
    return volume, forms, axes


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", FOURTEEN)
def test_obeys_its_letters(name, seed):
    n, W = scatters(seed, d=2 + seed)
    S = cov.shape(name, n, W)
    np.testing.assert_allclose(S, S.swapaxes(1, 2), rtol=1e-10, atol=1e-10 * abs(S).max())
    assert (np.linalg.eigvalsh(S) > 0).all()
    volume, forms, axes = parts(name, S)
    np.testing.assert_allclose(S, axes @ ((volume[:, None] * forms)[:, :, None] * axes.swapaxes(1, 2)), rtol=1e-6)
    if name[0] == "E":
        np.testing.assert_allclose(volume, volume[0], rtol=1e-9)
    if name[1] == "E":
        np.testing.assert_allclose(forms, forms[[0] * len(n)], rtol=1e-6)
    if name[1] == "I":
        np.testing.assert_allclose(forms, 1.0, rtol=1e-12)
    if name[2] == "I":
        assert np.array_equal(S, S * np.eye(S.shape[1]))
    if name[2] == "E":
        for A, B in itertools.combinations(S, 2):
            np.testing.assert_allclose(A @ B, B @ A, rtol=1e-8, atol=1e-10 * abs(A @ B).max())


@pytest.mark.crossed(3)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", FOURTEEN)
def test_no_feasible_neighbour_fits_better(name, seed):
    n, W = scatters(seed, d=2 + seed)
    k, d, _ = W.shape
    S = cov.shape(name, n, W)
    volume, forms, axes = parts(name, S)
    least = cov.minus_twice_log_likelihood(n, W, S, d)
    rng = np.random.default_rng(seed)

    def moved(letter, size):
        step = rng.normal(size=(k if letter == "V" else 1, *size))
        return np.repeat(step, k // len(step), axis=0) * (letter != "I")

    for size in np.repeat([1e-4, 1e-3, 1e-2], 40):
        shift = size * moved(name[1], (d,))
        skew = size * moved(name[2], (d, d))
        form = forms * np.exp(shift - shift.mean(axis=1, keepdims=True))
        turned = axes @ np.array([expm(s - s.T) for s in skew])
        near = (volume * np.exp(size * moved(name[0], ())))[:, None] * form
        neighbour = turned @ (near[:, :, None] * turned.swapaxes(1, 2))
        assert cov.minus_twice_log_likelihood(n, W, neighbour, d) >= least - 1e-9 * d * n.sum()


@pytest.mark.parametrize("seed", range(10))
def test_more_general_shapes_fit_no_worse(seed):
    n, W = scatters(seed, k=2 + seed % 3, d=1 + seed % 5, alike=0.3 * (seed % 4))
    objectives = {name: objective(name, n, W) for name in cov.SHAPES}
    for name, other in itertools.product(FOURTEEN, FOURTEEN):
        if all(GENERAL[a] <= GENERAL[b] for a, b in zip(name, other, strict=True)):
            assert objectives[other] <= objectives[name] + 1e-9 * n.sum(), (name, other)
    assert objectives["EII"] <= objectives["unit"] + 1e-9


@pytest.mark.parametrize("name", FOURTEEN)
def test_finds_again_what_it_fitted(name):
    """If the class covariances have the shape already, they are the result."""
    n, W = scatters(3)
    S = cov.shape(name, n, W)
    np.testing.assert_allclose(cov.shape(name, n, n[:, None, None] * S), S, rtol=1e-5, atol=1e-7 * abs(S).max())


def test_closed_forms_by_hand():
    n = np.array([2.0, 4.0])
    V = np.array([[2.0, 8.0], [16.0, 4.0]])  # geometric means 4 and 8, means 5 and 10
    by_hand = {
        "EII": [[2.5, 2.5], [2.5, 2.5]],  # 30 / (6·2)
        "VII": [[2.5, 2.5], [2.5, 2.5]],  # 5/2 and 10/4
        "EEI": [[3.0, 2.0], [3.0, 2.0]],  # 18/6 and 12/6
        "EVI": [[1.0, 4.0], [4.0, 1.0]],  # volume (4 + 8)/6 = 2; forms (1/2, 2) and (2, 1/2)
        "VVI": [[1.0, 4.0], [4.0, 1.0]],
        "unit": [[1.0, 1.0], [1.0, 1.0]],
    }
    for name, expected in by_hand.items():
        np.testing.assert_allclose(cov.diagonal_shape(name, n, V), expected, rtol=1e-14)
        np.testing.assert_allclose(
            cov.shape(name, n, V[:, :, None] * np.eye(2)), np.array(expected)[..., None] * np.eye(2)
        )
    # Class one turned by a right angle: eigenvalues (2, 8) and (4, 16), so Σ of both is (6, 24)/6 in own axes.
    W = V[:, :, None] * np.eye(2)
    np.testing.assert_allclose(cov.shape("EEV", n, W), [[[1.0, 0.0], [0.0, 4.0]], [[4.0, 0.0], [0.0, 1.0]]], atol=1e-14)
    np.testing.assert_allclose(cov.shape("EEE", n, W)[1], [[3.0, 0.0], [0.0, 2.0]])
    np.testing.assert_allclose(cov.shape("EVV", n, W), cov.shape("EVI", n, W), atol=1e-14)
    np.testing.assert_allclose(cov.shape("VVV", n, W)[0], [[1.0, 0.0], [0.0, 4.0]])
    # −2 log L of the unit shape: 6·2·log 2π + 30.
    unit = cov.shape("unit", n, W)
    assert cov.minus_twice_log_likelihood(n, W, unit, 2) == pytest.approx(12.0 * np.log(2.0 * np.pi) + 30.0)


def test_vei_by_hand():
    """V = outer(volumes, form): the alternation converges in one step."""
    n = np.array([2.0, 3.0])
    V = np.outer([2.0, 30.0], [1.0, 4.0])
    np.testing.assert_allclose(cov.diagonal_shape("VEI", n, V), V / n[:, None], rtol=1e-12)


@pytest.mark.parametrize("name", ["EVE", "VVE"])
@pytest.mark.parametrize("seed", range(5))
def test_common_axes_against_all_angles(name, seed):
    n, W = scatters(seed, d=2)
    fit = cov.SHAPES["EVI" if name == "EVE" else "VVI"].fit
    angles = np.linspace(0.0, np.pi / 2, 501)
    least = np.inf
    for c, s in zip(np.cos(angles), np.sin(angles), strict=True):
        D = np.array([[c, -s], [s, c]])
        S = D @ (fit(n, np.diagonal(D.T @ W @ D, axis1=1, axis2=2))[:, :, None] * D.T)
        least = min(least, cov.minus_twice_log_likelihood(n, W, S, 2))
    assert least - 1e-3 * n.sum() <= objective(name, n, W) <= least + 1e-9 * n.sum()


@pytest.mark.parametrize("name", ITERATIVE)
@pytest.mark.parametrize("alike", [0.0, 0.9])
def test_every_round_lowers_the_objective(name, alike, monkeypatch):
    n, W = scatters(8, d=5, alike=alike)
    objectives = []
    for rounds in (1, 2, 3, 4, 6, 10, 20, 50, 200):
        monkeypatch.setattr(cov, "MAX_ROUNDS", rounds)
        objectives.append(objective(name, n, W))
    assert (np.diff(objectives) <= 1e-10 * n.sum()).all()
    assert objectives[-2] - objectives[-1] <= 1e-6 * n.sum()


@given(st.integers(0, 1000), st.integers(1, 5))
def test_one_class(seed, d):
    n, W = scatters(seed, k=1, d=d)
    S = W / n[0]
    for name in FOURTEEN:
        mean = np.trace(S[0]) / d * np.eye(d)
        expected = mean if name[1] == "I" else S[0] * np.eye(d) if name[2] == "I" else S[0]
        np.testing.assert_allclose(cov.shape(name, n, W)[0], expected, rtol=1e-9, atol=1e-10 * abs(S).max())


@given(st.integers(0, 1000), st.integers(1, 4))
def test_one_column(seed, k):
    n, W = scatters(seed, k=k, d=1)
    for name in FOURTEEN:
        expected = W / n[:, None, None] if name[0] == "V" else np.full_like(W, W.sum() / n.sum())
        np.testing.assert_allclose(cov.shape(name, n, W), expected, rtol=1e-9)


@pytest.mark.parametrize("name", FOURTEEN)
def test_equivariance(name):
    n, W = scatters(5)
    S = cov.shape(name, n, W)
    close = {"rtol": 1e-4, "atol": 1e-5 * abs(S).max()}
    for c in (1e-6, 1e7):
        np.testing.assert_allclose(cov.shape(name, n, c**2 * W) / c**2, S, **close)
    order = np.array([2, 0, 1])
    np.testing.assert_allclose(cov.shape(name, n[order], W[order]), S[order], **close)
    np.testing.assert_allclose(cov.shape(name, 3.0 * n, 3.0 * W), S, **close)
    d = W.shape[1]
    rng = np.random.default_rng(1)
    maps = []
    if (name[1] != "I" and name[2] == "I") or name in ("EEE", "VEE", "EVV", "VVV"):
        maps.append(np.diag([1.0, 1e-6, 30.0, 1e5]))
    if name[1] == "I" or name[2] != "I":
        maps.append(rotation(rng, d))
    if name in ("EEE", "VEE", "EVV", "VVV"):
        maps.append(rng.normal(size=(d, d)))
    for A in maps:
        back = np.linalg.inv(A)
        np.testing.assert_allclose(back @ cov.shape(name, n, A @ W @ A.T) @ back.T, S, **close)


@pytest.mark.parametrize("name", list(cov.SHAPES))
def test_classes_without_rows_take_no_part(name):
    n, W = scatters(6)
    n_more, W_more = np.insert(n, 1, 0.0), np.insert(W, 1, 0.0, axis=0)
    S = cov.shape(name, n_more, W_more)
    np.testing.assert_allclose(np.delete(S, 1, axis=0), cov.shape(name, n, W), rtol=1e-12)
    pooled = W.sum(axis=0) / n.sum()
    if name == "unit":
        pooled = np.eye(4)
    elif name[1] == "I":
        pooled = np.trace(pooled) / 4 * np.eye(4)
    elif name[2] == "I":
        pooled = pooled * np.eye(4)
    np.testing.assert_allclose(S[1], pooled, rtol=1e-9, atol=1e-12 * abs(pooled).max())
    assert cov.bic(name, n_more, W_more) == pytest.approx(cov.bic(name, n, W))
    nothing = cov.shape(name, np.zeros(2), np.zeros((2, 3, 3)))
    np.testing.assert_array_equal(nothing, np.repeat(np.eye(3)[None] * (name == "unit"), 2, axis=0))


def singular_worlds():
    rng = np.random.default_rng(2)

    def scatter(*rows_of):
        return np.array([(X - X.mean(axis=0)).T @ (X - X.mean(axis=0)) for X in rows_of])

    full = rng.normal(size=(20, 3))
    constant = full.copy()
    constant[:, 1] = 7.0
    thin, other = rng.normal(size=(2, 3)), rng.normal(size=(2, 3))
    yield "zero", np.array([3.0, 5.0]), np.zeros((2, 3, 3))
    yield "one class of identical rows", np.array([20.0, 4.0]), scatter(full, np.ones((4, 3)))
    yield "one class constant in a column", np.array([20.0, 20.0]), scatter(full, constant)
    yield "a column constant everywhere", np.array([20.0, 20.0]), scatter(constant, 2.0 * constant)
    yield "fewer rows than columns", np.array([2.0, 2.0]), scatter(thin, other)
    yield "one thin class", np.array([20.0, 2.0]), scatter(full, thin)
    yield "the thin class is heavy", np.array([1.0, 500.0]), scatter(full, thin)
    yield "apart", np.array([900.0, 1.0]), np.array([np.diag([1.0, 0.0, 0.0]), np.diag([0.0, 1.0, 1.0])])
    yield "one row each", np.array([1.0, 1.0]), np.zeros((2, 3, 3)) - 1e-17 * np.eye(3)
    yield "tiny", np.array([20.0, 20.0]), 1e-290 * scatter(full, constant)
    yield "huge", np.array([20.0, 2.0]), 1e290 * scatter(full, thin)


@pytest.mark.crossed(3)
@pytest.mark.parametrize("name", list(cov.SHAPES))
@pytest.mark.parametrize(("n", "W"), [pytest.param(n, W, id=what) for what, n, W in singular_worlds()])
def test_singular_scatters_stay_finite(name, n, W):
    S = cov.shape(name, n, W)
    assert np.isfinite(S).all()
    assert (np.linalg.eigvalsh(S) >= -1e-12 * abs(S).max()).all()
    assert not np.isnan(cov.minus_twice_log_likelihood(n, W, S, 3))
    assert not np.isnan(cov.bic(name, n, W))


def test_equal_volumes_with_a_singular_class():
    """The singular class takes the pooled form at the common volume; alone, all classes are the pooled one."""
    for world, n, W in singular_worlds():
        for name in ("EVI", "EVV"):
            S = cov.shape(name, n, W)
            if world == "one class constant in a column":
                pooled = W.sum(axis=0) * (np.eye(3) if name == "EVI" else 1.0)
                np.testing.assert_allclose(volumes(S), volumes(S)[0], rtol=1e-9)
                np.testing.assert_allclose(S[1] / volumes(S[1:]), pooled / volumes(pooled[None]), rtol=1e-8, atol=1e-12)
    n, W = np.array([2.0, 2.0]), np.array([np.diag([1.0, 0.0]), np.diag([0.0, 3.0])])
    np.testing.assert_allclose(cov.shape("EVV", n, W), cov.shape("EEE", n, W))


@given(
    st.lists(st.lists(st.integers(0, 3), min_size=3, max_size=3), min_size=2, max_size=12),
    st.integers(1, 3),
    st.floats(-1e3, 1e3),
)
def test_small_counts_stay_finite(rows, k, factor):
    X = factor * np.array(rows, dtype=float)
    y = np.arange(len(X)) % k
    n = np.bincount(y, minlength=k).astype(float)
    W = np.zeros((k, 3, 3))
    for c in range(k):
        if n[c]:
            W[c] = np.cov(X[y == c].T, bias=True) * n[c]
    for name in cov.SHAPES:
        S = cov.shape(name, n, W)
        assert np.isfinite(S).all()
        assert (np.linalg.eigvalsh(S) >= -1e-11 * abs(S).max()).all()
        assert not np.isnan(cov.bic(name, n, W))


def test_likelihood_of_singular_covariances():
    n, flat = np.array([3.0]), np.diag([1.0, 0.0])[None]
    assert cov.minus_twice_log_likelihood(n, flat, flat, 2) == -np.inf
    assert cov.minus_twice_log_likelihood(n, np.eye(2)[None], flat, 2) == np.inf
    assert cov.bic("VVV", n, flat) == np.inf


def test_likelihood_is_that_of_the_rows():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(9, 3)) * [1.0, 1e-9, 1e6]
    centred = X - X.mean(axis=0)
    root = rng.normal(size=(3, 3)) * np.array([[1.0], [1e-9], [1e6]])
    S = root @ root.T
    precision = np.linalg.inv(root)
    squares = ((centred @ precision.T) ** 2).sum()
    log_det = 2.0 * np.linalg.slogdet(root)[1]
    expected = 9.0 * (3.0 * np.log(2.0 * np.pi) + log_det) + squares
    got = cov.minus_twice_log_likelihood(np.array([9.0]), (centred.T @ centred)[None], S[None], 3)
    assert got == pytest.approx(expected, rel=1e-9)
    V, variances = np.diagonal(centred.T @ centred)[None], np.array([[1.0, 2e-18, 3e12]])
    whole = cov.minus_twice_log_likelihood(np.array([9.0]), np.diag(V[0])[None], np.diag(variances[0])[None], 3)
    assert cov.minus_twice_log_likelihood(np.array([9.0]), V, variances, 3) == pytest.approx(whole)


def test_parameters():
    table = {
        "unit": 0,
        "EII": 1,
        "VII": 3,
        "EEI": 4,
        "VEI": 6,  # 3 volumes, 3 of the form
        "EVI": 10,  # 1 volume, 3·3 of forms
        "VVI": 12,
        "EEE": 10,
        "VEE": 12,
        "EVE": 16,  # 1 + 9 + 6 angles
        "VVE": 18,
        "EEV": 22,  # 1 + 3 + 18 angles
        "VEV": 24,
        "EVV": 28,
        "VVV": 30,
    }
    assert {name: cov.parameters(name, 3, 4) for name in cov.SHAPES} == table
    assert all(cov.parameters(name, 3, 1) == (3 if name[0] == "V" else 1) for name in FOURTEEN)


def test_bic():
    n, W = scatters(7)
    for name in cov.SHAPES:
        expected = objective(name, n, W) + np.log(n.sum()) * (cov.parameters(name, 3, 4) + 12 + 2)
        assert cov.bic(name, n, W) == pytest.approx(expected)
    for name in ALIGNED:
        V = np.diagonal(W, axis1=1, axis2=2)
        assert cov.bic(name, n, V) <= cov.bic(name, n, W)  # no covariances to miss


def test_bic_finds_the_shape_that_made_the_rows():
    """With many rows, lower is better means the true shape wins."""
    n = np.array([4000.0, 6000.0, 5000.0])
    truth = np.random.default_rng(9)
    for name in FOURTEEN:
        S = cov.shape(name, *scatters(10))
        roots = np.linalg.cholesky(S)
        X = [truth.normal(size=(int(m), 4)) @ root.T for m, root in zip(n, roots, strict=True)]
        W = np.array([(x - x.mean(axis=0)).T @ (x - x.mean(axis=0)) for x in X])
        assert min(FOURTEEN, key=lambda other: cov.bic(other, n, W)) == name


def test_names():
    n, W = scatters(0)
    for alias, name in cov.ALIASES.items():
        assert cov.canonical(alias) == name
        np.testing.assert_array_equal(cov.shape(alias, n, W), cov.shape(name, n, W))
        assert cov.parameters(alias, 3, 4) == cov.parameters(name, 3, 4)
    with pytest.raises(ValueError, match="unknown covariance shape 'round'"):
        cov.shape("round", n, W)
    for name in TURNED:
        with pytest.raises(ValueError, match="not axis-aligned"):
            cov.diagonal_shape(name, n, np.diagonal(W, axis1=1, axis2=2))


def moments(X, pivot, weight=None):
    Y = X - pivot
    w = np.ones(len(X)) if weight is None else weight
    Z = w[:, None] * Y
    return w.sum(), Z.sum(axis=0), Z.T @ Y, (Z * Y).T @ Y, (Z * Y).T @ Y**2


def about_mean(X, weight=None):
    """n, W and Σ(x_j − m_j)²(x_l − m_l)² by definition."""
    w = np.ones(len(X)) if weight is None else weight
    C = X - np.average(X, axis=0, weights=w)
    return w.sum(), (w[:, None] * C).T @ C, (w[:, None] * C**2).T @ C**2


def correlated_rows(seed, n=40, d=5):
    rng = np.random.default_rng(seed)
    return rng.standard_t(6, size=(n, d)) @ rng.normal(size=(d, d)) * np.exp(rng.normal(size=d))


@pytest.mark.parametrize("offset", [0.0, 1.0, -30.0])
def test_central_fourth(offset):
    X = correlated_rows(0)
    weight = np.random.default_rng(1).uniform(0.5, 2.0, len(X))
    for w in (None, weight):
        pivot = X.mean(axis=0) + offset * X.std(axis=0)
        fourth = cov.central_fourth(*moments(X, pivot, w))
        np.testing.assert_allclose(fourth, about_mean(X, w)[2], rtol=1e-13 * max(1.0, offset**4))
    both = [np.array(parts) for parts in zip(moments(X, pivot), moments(2.0 * X, pivot), strict=True)]
    stacked = cov.central_fourth(*both)
    np.testing.assert_array_equal(stacked[0], cov.central_fourth(*moments(X, pivot)))
    empty = [np.zeros_like(part) for part in both]
    np.testing.assert_array_equal(cov.central_fourth(*empty), 0.0)


@given(st.integers(0, 10**6), st.integers(2, 60), st.integers(1, 8), st.floats(-50.0, 50.0))
def test_shrinkage_agrees_with_sklearn(seed, n, d, offset):
    X = correlated_rows(seed, n, d)
    total, W, _ = about_mean(X)
    fourth = cov.central_fourth(*moments(X, X.mean(axis=0) + offset * X.std(axis=0)))
    expected, intensity = ledoit_wolf(X)
    a = cov.ledoit_wolf_intensity(total, W, fourth)
    assert a == pytest.approx(intensity, rel=1e-6, abs=1e-8)
    size = abs(expected).max()
    np.testing.assert_allclose(cov.shrink(W / total, a), expected, rtol=1e-6, atol=1e-8 * size)
    expected, intensity = oas(X)
    assert cov.oas_intensity(total, W) == pytest.approx(intensity, rel=1e-9)
    np.testing.assert_allclose(cov.shrink(W / total, cov.oas_intensity(total, W)), expected, atol=1e-9 * size)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("constant", [False, True])
def test_standardised_ledoit_wolf_is_that_of_lda(seed, constant):
    X = correlated_rows(seed, 25, 4) * [1.0, 1e-3, 1e3, 10.0]
    if constant:
        X[:, 2] = 3.0
    lda = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto").fit(
        np.concatenate([X, X + 1.0]), np.repeat([0, 1], len(X))
    )
    n, W, fourth = about_mean(X)
    got = cov.standardised_ledoit_wolf(n, W, fourth)
    unit = 1.0 / np.sqrt(np.where(np.diagonal(W) > 0, np.diagonal(W) / n, 1.0))
    np.testing.assert_allclose(
        got * np.outer(unit, unit), lda.covariance_ * np.outer(unit, unit), rtol=1e-9, atol=1e-11
    )


def test_weights_count_rows():
    X = correlated_rows(3, 12, 3)
    times = np.arange(1, 13) % 4
    n, W, fourth = about_mean(X, times.astype(float))
    again = about_mean(np.repeat(X, times, axis=0))
    assert cov.ledoit_wolf_intensity(n, W, fourth) == pytest.approx(cov.ledoit_wolf_intensity(*again))
    assert cov.oas_intensity(n, W) == pytest.approx(cov.oas_intensity(*again[:2]))


def test_shrinkage_of_little():
    zero = np.zeros((3, 3))
    for n in (0.0, 4.0):
        assert cov.ledoit_wolf_intensity(n, zero, zero) == 0.0
        np.testing.assert_array_equal(cov.standardised_ledoit_wolf(n, zero, zero), zero)
        assert np.isfinite(cov.oas_intensity(n, zero))
    round_one = 4.0 * np.eye(3)
    assert 0.0 <= cov.ledoit_wolf_intensity(2.0, round_one, 16.0 * np.eye(3)) <= 1.0
    assert cov.oas_intensity(2.0, round_one) == 1.0


def test_shrink():
    S = np.array([scatters(seed)[1][0] for seed in range(3)])
    for a in (0.0, 0.3, 1.0):
        np.testing.assert_allclose(cov.shrink(S[0], a), shrunk_covariance(S[0], a))
    each = np.array([0.0, 0.5, 1.0])
    np.testing.assert_allclose(cov.shrink(S, each), [shrunk_covariance(s, a) for s, a in zip(S, each, strict=True)])
