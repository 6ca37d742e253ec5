"""Scatters, full-covariance densities and their leave-one-out, against plain NumPy definitions and literal refits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import multivariate_normal, multivariate_t

from deciban._kernel import scatter

LAYOUTS = ["C", "Fortran", "strided", "reversed", "read-only", "packed"]


def stored(X, layout):
    """The same numbers in every memory layout."""
    n, d = X.shape
    if layout == "C":
        return X.copy()
    if layout == "Fortran":
        return np.asfortranarray(X)
    if layout == "strided":
        wide = np.zeros((2 * n, 3 * d), dtype=X.dtype)
        wide[::2, ::3] = X
        return wide[::2, ::3]
    if layout == "reversed":
        return np.ascontiguousarray(X[::-1, ::-1])[::-1, ::-1]
    if layout == "packed":  # rows that are not a whole number of entries apart
        packed = np.zeros(n, dtype=[("row", X.dtype, (d,)), ("odd", np.int8)])
        packed["row"] = X
        return packed["row"].reshape(n, d)
    frozen = X.copy()
    frozen.setflags(write=False)
    return frozen


def zero_sums(k, d):
    return np.zeros((k, 1)), np.zeros((k, d)), np.zeros((k, d, d))


def plain_scatter(X, shares, pivot):
    """Σ w·(1, t, ttᵀ) by class, t = x − p; rows of weight 0 add nothing, whatever they hold."""
    one, x, xy = zero_sums(*pivot.shape)
    for c in range(len(pivot)):
        rows = shares[:, c] != 0
        t, w = X[rows].astype(np.float64) - pivot[c], shares[rows, c]
        one[c], x[c], xy[c] = w.sum(), w @ t, (t.T * w) @ t
    return one, x, xy


def assert_sums(sums, expected, size):
    for a, b in zip(sums, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-12 * size)
    np.testing.assert_array_equal(sums[2], sums[2].swapaxes(1, 2))


def indicator(codes, k):
    return np.where(codes[:, None] == np.arange(k), 1.0, 0.0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("weighted", [False, True])
def test_class_scatter(dtype, layout, weighted):
    rng = np.random.default_rng(0)
    n, d, k = 777, 7, 3
    X = (rng.normal(size=(n, d)) + 100.0).astype(dtype)
    codes = rng.integers(-1, k + 1, n).astype(np.int32)  # −1 and k: rows of no class
    weight = rng.random(n) - 0.2 if weighted else None
    pivot = rng.normal(size=(k, d)) + 100.0
    sums = zero_sums(k, d)
    for _ in range(2):  # sums are added to
        scatter.class_scatter(stored(X, layout), codes, weight, pivot, *sums)
    shares = 2 * indicator(codes, k) * (weight[:, None] if weighted else 1.0)
    assert_sums(sums, plain_scatter(X, shares, pivot), n)


@given(
    st.integers(0, 400),
    st.integers(1, 40),
    st.integers(1, 9),
    st.booleans(),
    st.floats(0.0, 1.0),
    st.integers(0, 2**32 - 1),
)
def test_scatter_of_any_shape(n, d, k, weighted, absent, seed):
    rng = np.random.default_rng(seed)
    X, pivot = rng.normal(size=(n, d)), rng.normal(size=(k, d))
    codes, weight = rng.integers(-1, k, n).astype(np.int32), rng.random(n)
    weight[rng.random(n) < absent] = 0.0
    sums = zero_sums(k, d)
    scatter.class_scatter(X, codes, weight if weighted else None, pivot, *sums)
    assert_sums(sums, plain_scatter(X, indicator(codes, k) * (weight[:, None] if weighted else 1.0), pivot), n)
    shares = rng.dirichlet(np.ones(k), n) * (rng.random((n, k)) > absent)
    sums = zero_sums(k, d)
    scatter.soft_scatter(X, np.asfortranarray(shares) if weighted else shares, pivot, *sums)
    assert_sums(sums, plain_scatter(X, shares, pivot), n)


@pytest.mark.parametrize(("n", "d", "k"), [(3000, 3, 1500), (400, 150, 60), (150, 301, 2), (20, 1100, 2)])
def test_many_classes_and_many_columns(n, d, k):
    """Where classes take turns, hold few rows back, or are seldom seen."""
    rng = np.random.default_rng(1)
    X, pivot = rng.normal(size=(n, d)), rng.normal(size=(k, d))
    codes = rng.integers(0, k, n).astype(np.int32)
    sums = zero_sums(k, d)
    scatter.class_scatter(X, codes, None, pivot, *sums)
    expected = plain_scatter(X, indicator(codes, k), pivot)
    assert_sums(sums, expected, n)
    sums = zero_sums(k, d)
    scatter.soft_scatter(X, indicator(codes, k), pivot, *sums)
    assert_sums(sums, expected, n)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_soft_scatter(dtype, layout):
    rng = np.random.default_rng(2)
    n, d, k = 555, 10, 4
    X = rng.normal(size=(n, d)).astype(dtype)
    pivot, shares = rng.normal(size=(k, d)), rng.dirichlet(np.ones(k), n)
    sums = zero_sums(k, d)
    scatter.soft_scatter(stored(X, layout), stored(shares, layout), pivot, *sums)
    assert_sums(sums, plain_scatter(X, shares, pivot), n)


def test_scatter_far_from_zero():
    rng = np.random.default_rng(3)
    X = np.round(rng.normal(size=(5000, 6)) * 2**10) / 2**10 + 1e9  # numbers a double holds exactly out there
    sums = zero_sums(1, 6)
    scatter.class_scatter(X, np.zeros(5000, dtype=np.int32), None, X[:1].copy(), *sums)
    t = X - X[0]
    np.testing.assert_allclose(sums[2][0], t.T @ t, rtol=1e-9)


def test_a_row_of_no_weight_adds_nothing_and_nan_poisons():
    rng = np.random.default_rng(4)
    X, weight = rng.normal(size=(300, 5)), rng.random(300)
    X[7], X[8], weight[[7, 8]] = np.nan, np.inf, 0.0
    codes = np.zeros(300, dtype=np.int32)
    pivot = np.zeros((1, 5))
    expected = plain_scatter(X, weight[:, None], pivot)
    for run in (
        lambda sums: scatter.class_scatter(X, codes, weight, pivot, *sums),
        lambda sums: scatter.soft_scatter(X, weight[:, None], pivot, *sums),
    ):
        moments = zero_sums(1, 5)
        run(moments)
        assert_sums(moments, expected, 300)
    moments = zero_sums(2, 5)
    scatter.class_scatter(X, codes, None, np.zeros((2, 5)), *moments)
    assert np.isnan(moments[1][0]).all()
    assert not moments[1][1].any()


def upper_roots(rng, m, d):
    """Covariances, and R with RᵀR their inverse; numbers below the diagonal are there to be passed over."""
    A = rng.normal(size=(m, d, d))
    covariance = A @ A.swapaxes(1, 2) + d * np.eye(d)
    root = np.linalg.cholesky(np.linalg.inv(covariance)).swapaxes(1, 2)
    return covariance, root + np.tril(rng.normal(size=(m, d, d)), -1)


def densities(X, mean, root, constant, scale=None, power=None):
    out = np.zeros((len(X), len(mean)))
    scatter.log_density(X, mean, root, constant, scale, power, out)
    return out


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("d", [1, 5, 12, 33])
def test_log_density(dtype, layout, shared, d):
    rng = np.random.default_rng(5)
    n, k = 131, 3
    X = rng.normal(size=(n, d)).astype(dtype)
    mean = rng.normal(size=(k, d))
    covariance, root = upper_roots(rng, 1 if shared else k, d)
    covariance = np.broadcast_to(covariance, (k, d, d))
    at_mean = np.array([multivariate_normal.logpdf(m, m, C) for m, C in zip(mean, covariance, strict=True)])
    expected = np.column_stack([multivariate_normal.logpdf(X, m, C) for m, C in zip(mean, covariance, strict=True)])
    np.testing.assert_allclose(densities(stored(X, layout), mean, root, at_mean), expected, rtol=1e-10)
    dof = np.array([1.5, 4.0, 30.0])
    laws = [multivariate_t(m, C, df=f) for m, C, f in zip(mean, covariance, dof, strict=True)]
    at_mean = np.array([law.logpdf(m) for law, m in zip(laws, mean, strict=True)])
    expected = np.column_stack([np.atleast_1d(law.logpdf(X)) for law in laws])
    log_density = densities(stored(X, layout), mean, root, at_mean, 1 / dof, (dof + d) / 2)
    np.testing.assert_allclose(log_density, expected, rtol=1e-10)


@pytest.mark.parametrize("shared", [False, True])
def test_log_density_with_directions_that_do_not_count_and_far_means(shared):
    rng = np.random.default_rng(6)
    d, k = 9, 2
    mean = rng.normal(size=(k, d)) + 1e9
    X = np.round(rng.normal(size=(50, d)) * 256) / 256 + 1e9
    root = np.triu(rng.normal(size=(1 if shared else k, d, d)))
    root[:, 4] = 0.0
    t = X[:, None] - mean
    expected = -0.5 * ((np.broadcast_to(root, (k, d, d)) @ t[..., None]) ** 2).sum(axis=(2, 3))
    np.testing.assert_allclose(densities(X, mean, root, np.zeros(k)), expected, rtol=1e-6 if shared else 1e-12)


@pytest.mark.parametrize("shared", [False, True])
def test_log_density_of_what_is_not_a_number(shared):
    rng = np.random.default_rng(7)
    X = rng.normal(size=(30, 6))
    mean, (_, root) = rng.normal(size=(2, 6)), upper_roots(rng, 1 if shared else 2, 6)
    clean = densities(X, mean, root, np.zeros(2))
    X[3, 2], X[17, 5] = np.nan, -np.inf
    log_density = densities(X, mean, root, np.zeros(2))
    assert np.isnan(log_density[3]).all()
    assert not np.isfinite(log_density[17]).any()
    others = np.delete(np.arange(30), [3, 17])
    np.testing.assert_array_equal(log_density[others], clean[others])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("d", "r"), [(1, 1), (7, 3), (16, 16), (6, 30)])
def test_project(dtype, layout, d, r):
    rng = np.random.default_rng(8)
    X = rng.normal(size=(101, d)).astype(dtype)
    mean, basis, out = rng.normal(size=d), rng.normal(size=(r, d)), np.zeros((101, r))
    scatter.project(stored(X, layout), mean, basis, out)
    np.testing.assert_allclose(out, (X - mean) @ basis.T, rtol=1e-11, atol=1e-12)


def estimates(X, y, weight, k, tie, unbiased):
    """n, mean and tied scatters with their denominators, as the docstring defines them."""
    d = X.shape[1]
    n = np.array([weight[y == c].sum() for c in range(k)])
    mean, W = np.zeros((k, d)), np.zeros((k, d, d))
    for c in np.flatnonzero(n):
        mean[c] = weight[y == c] @ X[y == c] / n[c]
        t = X[y == c] - mean[c]
        W[c] = (t.T * weight[y == c]) @ t
    M = (1 - tie) * W + tie * W.sum(axis=0)
    B = (1 - tie) * (n - unbiased) + tie * (n.sum() - unbiased * (n > 0).sum())
    return n, mean, M, B


def fitted_density(x, n, mean, M, B, sphere):
    d = len(x)
    out = np.full(len(n), -np.inf)
    for c in np.flatnonzero(n):
        covariance = (1 - sphere) * M[c] / B[c] + sphere * np.trace(M[c]) / (B[c] * d) * np.eye(d)
        out[c] = multivariate_normal.logpdf(x, mean[c], covariance)
    return out


def leave_one_out_density(X, y, weight, k, tie, sphere, unbiased, stored_X=None):
    """The kernel on what all rows give; it meets the first rows only, where `stored_X` holds no more."""
    n, mean, M, _ = estimates(X.astype(np.float64), y, np.ones(len(X)) if weight is None else weight, k, tie, unbiased)
    spread, basis = np.linalg.eigh(M[:1] if tie == 1.0 else M)
    X = X if stored_X is None else stored_X
    out, slow = np.zeros((len(X), k)), np.zeros(len(X), dtype=np.uint8)
    basis = np.ascontiguousarray(basis.swapaxes(1, 2))
    scatter.leave_one_out(X, y, weight, n, mean, basis, spread, tie, sphere, unbiased, False, out, slow)
    return out, slow


def refitted_density(X, y, weight, k, tie, sphere, unbiased):
    out = np.zeros((len(X), k))
    for i in range(len(X)):
        rest = np.delete(np.arange(len(X)), i) if y[i] >= 0 else np.arange(len(X))
        out[i] = fitted_density(X[i], *estimates(X[rest], y[rest], weight[rest], k, tie, unbiased), sphere)
    return out


@pytest.mark.crossed(7)
@pytest.mark.parametrize("tie", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("sphere", [0.0, 0.2, 1.0])
@pytest.mark.parametrize("unbiased", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("d", [1, 4, 6])
def test_leave_one_out_is_a_refit(tie, sphere, unbiased, weighted, d):
    rng = np.random.default_rng(9)
    n, k = 70, 4
    y = rng.integers(-1, 3, n).astype(np.int32)  # rows without a class, and a class without rows
    X = rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) + rng.normal(size=(k, d))[y] + 50.0
    weight = rng.random(n) + 0.5 if weighted else np.ones(n)
    weight[5] = 0.0 if weighted else 1.0
    log_density, slow = leave_one_out_density(X, y, weight if weighted else None, k, tie, sphere, unbiased)
    assert not slow.any()
    np.testing.assert_allclose(log_density, refitted_density(X, y, weight, k, tie, sphere, unbiased), rtol=1e-9)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_leave_one_out_of_any_array(layout, dtype):
    rng = np.random.default_rng(10)
    X, y = rng.normal(size=(60, 3)).astype(dtype), rng.integers(0, 2, 60).astype(np.int32)
    log_density, _ = leave_one_out_density(X, y, None, 2, 0.5, 0.1, True, stored(X, layout))
    np.testing.assert_allclose(
        log_density, refitted_density(X.astype(np.float64), y, np.ones(60), 2, 0.5, 0.1, True), rtol=1e-9
    )


@pytest.mark.crossed(3)
@pytest.mark.parametrize("tie", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("sphere", [0.0, 0.1])
@pytest.mark.parametrize("size", [1e-9, 1e9])
def test_leave_one_out_in_many_columns(tie, sphere, size):
    """Products of many variances, large or small, neither overflow nor vanish."""
    rng = np.random.default_rng(11)
    n, d = 230, 90
    X = rng.normal(size=(n, d))
    y = (np.arange(n) % 2).astype(np.int32)
    log_density, slow = leave_one_out_density(X * size, y, None, 2, tie, sphere, False)
    assert not slow.any()
    for i in range(0, n, 23):
        rest = np.delete(np.arange(n), i)
        expected = fitted_density(X[i], *estimates(X[rest], y[rest], np.ones(n - 1), 2, tie, False), sphere)
        np.testing.assert_allclose(log_density[i] + d * np.log(size), expected, rtol=1e-9)


def test_leave_one_out_without_a_table_of_shifts():
    """So many classes that their shifts are not kept."""
    rng = np.random.default_rng(12)
    k, d = 2060, 2
    y = np.repeat(np.arange(k), 3).astype(np.int32)
    X = rng.normal(size=(len(y), d)) + rng.normal(size=(k, d))[y]
    log_density, slow = leave_one_out_density(X, y, None, k, 0.4, 0.1, False, X[:50])
    assert not slow.any()
    rest = np.delete(np.arange(len(X)), 49)
    statistics = estimates(X[rest], y[rest], np.ones(len(rest)), k, 0.4, False)
    np.testing.assert_allclose(log_density[49], fitted_density(X[49], *statistics, 0.1), rtol=1e-8)


@pytest.mark.parametrize("tie", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("sphere", [0.0, 0.2])
def test_rows_that_cannot_be_taken_out_are_pointed_at(tie, sphere):
    rng = np.random.default_rng(13)
    X, y = rng.normal(size=(50, 3)), np.r_[np.zeros(24), np.ones(25), 2].astype(np.int32)
    X[5, 1] = np.nan
    clean = X.copy()
    clean[5] = 0.0
    n, mean, M, _ = estimates(clean, y, np.ones(50), 3, tie, False)
    spread, basis = np.linalg.eigh(M[:1] if tie == 1.0 else M + 1e-3 * np.eye(3))
    out, slow = np.zeros((50, 3)), np.zeros(50, dtype=np.uint8)
    basis = np.ascontiguousarray(basis.swapaxes(1, 2))
    scatter.leave_one_out(X, y, None, n, mean, basis, spread, tie, sphere, False, False, out, slow)
    assert np.flatnonzero(slow).tolist() == [5, 49], "no number; the only row of its class"
    np.testing.assert_array_equal(np.isnan(out).all(axis=1), slow == 1)
    np.testing.assert_array_equal(np.isnan(out).any(axis=1), slow == 1)
    spread[0, 0] = 0.0
    scatter.leave_one_out(X, y, None, n, mean, basis, spread, tie, sphere, False, False, out, slow)
    assert slow.all() == (sphere == 0.0), "a flat scatter has no density"


def test_a_row_that_spans_a_direction_alone():
    """Without it the scatter is singular, and with no sphere there is no density: the caller is told."""
    rng = np.random.default_rng(14)
    X = rng.normal(size=(40, 3))
    X[:, 2] = 0.0
    X[11, 2] = 1.0
    for tie in (0.0, 0.3, 1.0):
        y = (np.arange(40) % 2).astype(np.int32)
        if tie == 0.0:
            y[:] = 0
        _, slow = leave_one_out_density(X, y, None, 1 if tie == 0.0 else 2, tie, 0.0, False)
        if tie != 0.3:
            assert np.flatnonzero(slow).tolist() == [11]
        log_density, slow = leave_one_out_density(X, y, None, 1 if tie == 0.0 else 2, tie, 0.2, False)
        assert not slow.any()
        expected = refitted_density(X, y, np.ones(40), 1 if tie == 0.0 else 2, tie, 0.2, False)
        np.testing.assert_allclose(log_density, expected, rtol=1e-8)


def test_nothing_at_all_is_fine():
    """No rows or no classes: every kernel leaves its sums as they are."""
    for k in (0, 2):
        sums = zero_sums(k, 3)
        no_codes, mean, cube = np.zeros(0, dtype=np.int32), np.zeros((k, 3)), np.zeros((k, 3, 3))
        scatter.class_scatter(np.zeros((0, 3)), no_codes, None, mean, *sums)
        scatter.soft_scatter(np.zeros((0, 3)), np.zeros((0, k)), mean, *sums)
        scatter.log_density(np.zeros((0, 3)), mean, cube, np.zeros(k), None, None, np.zeros((0, k)))
        scatter.leave_one_out(
            np.zeros((0, 3)),
            no_codes,
            None,
            np.zeros(k),
            mean,
            cube,
            mean,
            0.5,
            0.0,
            False,
            False,
            np.zeros((0, k)),
            np.zeros(0, dtype=np.uint8),
        )
        assert not sums[2].any()
    scatter.class_scatter(np.zeros((4, 3)), np.zeros(4, dtype=np.int32), None, np.zeros((0, 3)), *zero_sums(0, 3))
    scatter.soft_scatter(np.zeros((4, 3)), np.zeros((4, 0)), np.zeros((0, 3)), *zero_sums(0, 3))
    scatter.project(np.zeros((0, 3)), np.zeros(3), np.zeros((2, 3)), np.zeros((0, 2)))
