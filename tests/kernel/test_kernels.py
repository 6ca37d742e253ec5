"""Every compiled loop against a plain NumPy definition: types, orders, strides, missing entries, weights."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logsumexp
from scipy.stats import norm
from scipy.stats import t as student

from deciban._kernel import counts, gaussian, moments, posterior, scores
from deciban.families.linear import by_code, by_column, in_panels

N, D, K = 333, 7, 3


def layouts(X):
    """The same numbers in every memory layout."""
    wide = np.zeros((2 * N, 3 * D), dtype=X.dtype)
    wide[::2, ::3] = X
    backwards = np.ascontiguousarray(X[::-1, ::-1])
    packed = np.zeros(len(X), dtype=[("row", X.dtype, X.shape[1]), ("odd", np.int8)])
    packed["row"] = X
    frozen = X.copy()
    frozen.setflags(write=False)
    return {
        "C": np.ascontiguousarray(X),
        "Fortran": np.asfortranarray(X),
        "strided": wide[::2, ::3],
        "reversed": backwards[::-1, ::-1],
        "read-only": frozen,
        "packed": packed["row"],  # rows that are not a whole number of entries apart
    }


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, D)) + 100.0
    y = rng.integers(-1, K, N).astype(np.int32)  # −1: rows without a class
    return X, y, rng.random(N), rng.normal(size=(K, D)) + 100.0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("layout", ["C", "Fortran", "strided", "reversed", "read-only", "packed"])
@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_class_sums(data, dtype, layout, missing, weighted):
    X, y, weight, pivot = data
    X = X.astype(dtype)
    if missing:
        X[np.random.default_rng(1).random(X.shape) < 0.2] = np.nan
    w = weight if weighted else np.ones(N)
    one, x, xx = np.zeros((K, D)), np.zeros((K, D)), np.zeros((K, D))
    if not missing:
        one = np.zeros((K, 1))
    moments.class_sums(layouts(X)[layout], y, weight if weighted else None, pivot, one, x, xx, missing)
    for c in range(K):
        rows = y == c
        t = X[rows].astype(np.float64) - pivot[c]
        np.testing.assert_allclose(
            one[c], np.where(np.isnan(t), 0, w[rows, None]).sum(axis=0)[: one.shape[1]], rtol=1e-12
        )
        np.testing.assert_allclose(x[c], np.nansum(w[rows, None] * t, axis=0), rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(xx[c], np.nansum(w[rows, None] * t**2, axis=0), rtol=1e-11)


def test_nan_poisons_class_sums_unless_skipped(data):
    """The engine relies on it: sums tell whether an entry was missing, so that no extra pass is needed."""
    X, y, _, pivot = data
    X[np.flatnonzero(y >= 0)[0], 2] = np.nan
    x = np.zeros((K, D))
    moments.class_sums(X, y, None, pivot, np.zeros((K, 1)), x, None, False)
    assert np.isnan(x).sum() == 1


@pytest.mark.parametrize("layout", ["C", "Fortran", "strided"])
def test_binary_sums(data, layout):
    X, y, _, _ = data
    X[0, 0] = np.nan
    one, x = np.zeros((K, D)), np.zeros((K, D))
    moments.class_sums(layouts(X)[layout], y, None, np.zeros((K, D)), one, x, None, True, True, 100.0)
    for c in range(K):
        np.testing.assert_array_equal(x[c], (X[y == c] > 100.0).sum(axis=0))


def test_soft_sums(data):
    X, _, _, pivot = data
    labels = np.random.default_rng(2).dirichlet(np.ones(K), N)
    one, x, xx = np.zeros((K, 1)), np.zeros((K, D)), np.zeros((K, D))
    moments.soft_sums(X, labels, pivot, one, x, xx, False)
    for c in range(K):
        t = X - pivot[c]
        np.testing.assert_allclose(one[c, 0], labels[:, c].sum())
        np.testing.assert_allclose(x[c], labels[:, c] @ t, atol=1e-10)
        np.testing.assert_allclose(xx[c], labels[:, c] @ t**2)


@pytest.mark.parametrize("m", [0, 1, 2, 3, 7, 8, 31, 199, 200, 253])
def test_bins(m):
    rng = np.random.default_rng(m)
    cuts = np.unique(np.round(rng.normal(size=m), 3))
    for n in (0, 1, 15, 16, 17, 1000):
        values = np.concatenate(
            [rng.normal(size=n), cuts, np.nextafter(cuts, np.inf), [np.nan, np.inf, -np.inf, -0.0, 0.0]]
        )
        rng.shuffle(values)
        out = np.full(len(values), -1, dtype=np.int32)
        counts.bins(values, cuts, out)
        expected = np.where(np.isnan(values), 0, np.searchsorted(cuts, values) + 1)
        np.testing.assert_array_equal(out, expected)
    with pytest.raises(ValueError, match="places for bins"):
        counts.bins(values, cuts, out[:-1])


@pytest.mark.parametrize("m", [1, 2, 3, 8, 129])
def test_heights(m):
    rng = np.random.default_rng(m)
    knots = np.unique(np.round(rng.normal(size=m), 3))
    height = np.sort(rng.normal(size=len(knots)))
    for n in (0, 1, 7, 8, 9, 1000):
        values = np.concatenate([rng.normal(size=n), knots, [np.inf, -np.inf, 0.0]])
        out = np.full((len(values), 3), np.nan)
        counts.heights(values, knots, height, out[:, 1])
        np.testing.assert_allclose(out[:, 1], np.interp(values, knots, height), rtol=1e-15, atol=1e-15)
        assert np.isnan(out[:, [0, 2]]).all()
    counts.heights(np.array([np.nan]), knots, height, out[:1, 1])
    assert out[0, 1] == 0.0
    with pytest.raises(ValueError, match="knots"):
        counts.heights(values, knots, height[:-1], out[:, 1])


CODE_TYPES = [np.uint8, np.int32, np.int64, np.float32, np.float64]


@pytest.mark.parametrize("dtype", CODE_TYPES)
@pytest.mark.parametrize("layout", ["C", "Fortran", "strided", "reversed", "read-only", "packed"])
def test_codes(dtype, layout):
    rng = np.random.default_rng(3)
    sizes = np.array([2, 3, 5, 1, 4, 2, 6])
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.intp)
    X = np.floor(rng.random((N, D)) * (sizes + 1)).astype(dtype)  # the last code of each column is past the table
    if np.issubdtype(dtype, np.floating):
        X[rng.random(X.shape) < 0.1] = np.nan
    y = rng.integers(-1, K, N).astype(np.int32)
    weight = rng.random(N)
    stored = layouts(X)[layout]

    counted = np.zeros((K, offsets[-1]))
    counts.code_counts(stored, y, weight, offsets, counted)
    soft = np.zeros((offsets[-1], K))
    counts.code_counts_soft(stored, np.eye(K + 1)[y][:, :K] * weight[:, None], offsets, soft)
    table, unseen = rng.normal(size=(offsets[-1], K)), rng.normal(size=(D, K))
    out = np.full((N, K), np.nan)
    scores.code_scores(stored, offsets, by_code(table, unseen), np.zeros(K), out)
    for k in (1, 2, 4, 9, 29, 70):  # classes side by side, with and without a rest
        wide, start, many = rng.normal(size=(offsets[-1], k)), rng.normal(size=k), np.empty((N, k))
        scores.code_scores(stored, offsets, by_code(wide, np.zeros((D, k))), start, many)
        known = [(X[:, [j]] == np.arange(sizes[j])) @ wide[offsets[j] : offsets[j + 1]] for j in range(D)]
        np.testing.assert_allclose(many, start + np.sum(known, axis=0), atol=1e-12)
    own = np.zeros(N)
    scores.code_own(stored, y, offsets, np.ascontiguousarray(table.T), own)

    expected, sums, mine = np.zeros_like(counted), np.zeros_like(out), np.zeros(N)
    for i in range(N):
        for j in range(D):
            if X[i, j] != X[i, j]:
                continue
            if X[i, j] < sizes[j]:
                cell = offsets[j] + int(X[i, j])
                sums[i] += table[cell]
                if y[i] >= 0:
                    expected[y[i], cell] += weight[i]
                    mine[i] += table[cell, y[i]]
            else:
                sums[i] += unseen[j]
    np.testing.assert_allclose(counted, expected)
    np.testing.assert_allclose(soft.T, expected)
    np.testing.assert_allclose(out, sums)
    np.testing.assert_allclose(own, mine)


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.float32, np.float64])
@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("binary", [False, True])
def test_sparse(dtype, index, binary):
    rng = np.random.default_rng(4)
    X = rng.poisson(0.4, (N, D)).astype(dtype)
    y, weight = rng.integers(-1, K, N).astype(np.int32), rng.random(N)
    dense = (X > 1).astype(float) if binary else X.astype(float)
    labels = np.eye(K + 1)[y][:, :K] * weight[:, None]
    for stored, add in ((sp.csr_array(X), counts.csr_sums), (sp.csc_array(X), counts.csc_sums)):
        indices, indptr = stored.indices.astype(index), stored.indptr.astype(index)
        x, xx = np.zeros((K, D)), np.zeros((K, D))
        add(stored.data, indices, indptr, y, weight, x, False, binary, 1.0)
        add(stored.data, indices, indptr, y, weight, xx, True, binary, 1.0)
        np.testing.assert_allclose(x, labels.T @ dense)
        np.testing.assert_allclose(xx, labels.T @ dense**2)
        if stored.format == "csr":
            assert counts.csr_fault(indices, indptr, D) == 0
            for k in (1, 2, 3, 4, 9, 13, 17, 23, 28, 30, 70):
                table, start, out = rng.normal(size=(D, k)), rng.normal(size=k), np.full((N, k), np.nan)
                scores.csr_dot(stored.data, indices, indptr, by_column(table), start, out, binary, 1.0)
                np.testing.assert_allclose(out, start + dense @ table, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.float32, np.float64])
@pytest.mark.parametrize("layout", ["C", "Fortran", "strided", "reversed", "read-only", "packed"])
@pytest.mark.parametrize("k", [1, 2, 4, 7, 12, 13, 40])
def test_dense(dtype, layout, k):
    rng = np.random.default_rng(6)
    X = (5.0 * rng.normal(size=(N, D))).astype(dtype)
    stored, table, start = layouts(X)[layout], rng.normal(size=(D, k)), rng.normal(size=k)
    panels, centre, out = in_panels(table), rng.normal(size=D), np.empty((N, k))
    assert not scores.dense_dot(stored, panels, start, out)
    np.testing.assert_allclose(out, start + X.astype(float) @ table, atol=1e-11)
    assert not scores.dense_dot(stored, panels, start, out, centre)
    np.testing.assert_allclose(out, start + (X - centre) @ table, atol=1e-11)
    assert not scores.dense_dot(stored, panels, start, out, None, True, 1.0)
    np.testing.assert_allclose(out, start + (X > 1) @ table, atol=1e-11)
    if X.dtype.kind == "f":
        X[N // 2, D // 2] = np.nan
        for how in ((), (centre,), (None, True, 1.0)):
            assert scores.dense_dot(layouts(X)[layout], panels, start, out, *how), "a missing entry shows"
            assert np.flatnonzero(np.isnan(out).any(axis=1)).tolist() == [N // 2]


@pytest.mark.parametrize("layout", ["C", "Fortran", "strided", "reversed"])
def test_dense_of_every_integer(layout):
    """Small integers of 64 bits become doubles by another way than large ones; a row may have both."""
    edges = [0, 1, 2**51 - 1, 2**51, 2**51 + 1, 2**52, 2**53 + 1, 2**63 - 1]
    values = np.array([*edges, *(-edge for edge in edges), -(2**63)], dtype=np.int64)
    X = np.random.default_rng(7).choice(values, size=(N, D))
    X[0], X[1] = 2**51 - 1, -(2**51)  # rows of small ones alone
    out, centre = np.empty((N, D)), np.ones(D)
    for how, expected in (((), X.astype(float)), ((centre,), X.astype(float) - 1.0), ((None, True, 1.0), X > 1)):
        scores.dense_dot(layouts(X)[layout], in_panels(np.eye(D)), np.zeros(D), out, *how)
        np.testing.assert_array_equal(out, expected)


def test_many_columns_and_few_rows():
    rng = np.random.default_rng(7)
    for n, d, k in ((1, 5000, 3), (3, 9000, 13), (20, 600, 2), (5, 0, 3), (5, 0, 2), (7, 1, 2)):
        X, table, out = rng.normal(size=(n, d)), rng.normal(size=(d, k)), np.empty((n, k))
        scores.dense_dot(X, in_panels(table), np.ones(k), out)
        np.testing.assert_allclose(out, 1.0 + X @ table, atol=1e-10)
        S = sp.csr_array(X)
        scores.csr_dot(S.data, S.indices, S.indptr, by_column(table), np.ones(k), out)
        np.testing.assert_allclose(out, 1.0 + X @ table, atol=1e-10)


def test_a_table_that_does_not_fit_is_refused():
    X, S = np.zeros((2, D)), sp.csr_array(np.ones((2, D)))
    with pytest.raises(ValueError, match="fit"):
        scores.dense_dot(X, np.zeros(D * K), np.zeros(K), np.zeros((2, 2 * K)))
    with pytest.raises(ValueError, match="fit"):
        scores.dense_dot(X, np.zeros(4 * D), np.zeros(K), np.zeros((2, K)), np.zeros(D + 1))
    with pytest.raises(ValueError, match="fit"):
        scores.csr_dot(S.data, S.indices, S.indptr, np.zeros((D, K)), np.zeros(K), np.zeros((2, K)))
    with pytest.raises(ValueError, match="fit"):
        scores.code_scores(X, np.arange(D + 1), np.zeros((2 * D, 4)), np.zeros(K), np.zeros((2, K)))
    with pytest.raises(ValueError, match="fit"):
        scores.code_scores(X, np.arange(D + 1), np.zeros((2 * D + 1, K)), np.zeros(K), np.zeros((2, K)))


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.float32, np.float64])
def test_values_that_are_no_counts(dtype):
    ordinary = np.array([0, 1, 7, np.iinfo(np.int32).max], dtype=dtype)
    bad = [-1] if np.issubdtype(dtype, np.integer) else [-1, -1e-30, -np.inf, np.inf, np.nan, -np.nan]
    if np.issubdtype(dtype, np.floating):
        ordinary = np.append(ordinary, [np.finfo(dtype).max, np.finfo(dtype).tiny, 1e-40, 0.5]).astype(dtype)
    assert not counts.strange(ordinary[:0])
    for n in (1, 2, 7, 100):
        values = np.resize(ordinary, n)
        assert not counts.strange(values)
        for value in bad:
            for at in {0, n // 2, n - 1}:
                other = values.copy()
                other[at] = value
                assert counts.strange(other)


@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_faults_of_sparse_rows(index):
    def fault(indices, indptr, columns=5):
        return counts.csr_fault(np.array(indices, dtype=index), np.array(indptr, dtype=index), columns)

    assert fault([0, 3, 1, 2, 4], [0, 2, 2, 5]) == 0, "an empty row, and columns that begin anew"
    assert fault([3, 3, 0], [0, 1, 2, 3]) == 0
    assert fault([], [0, 0, 0]) == 0
    assert fault([0, 0, 1], [0, 2, 3]) == 1, "a column twice"
    assert fault([2, 1, 1], [0, 2, 3]) == 1, "out of order"
    assert fault([1, 0], [0, 0, 2]) == 1, "out of order after an empty row"
    assert fault([0, 5], [0, 2]) == 2
    assert fault([-1, 3], [0, 2]) == 2
    assert fault([0, 1], [0, 3]) == 2, "an end past the entries"
    assert fault([0, 1], [0, 2, 1]) == 2
    assert fault([0, 1], [1, 2]) == 2
    assert fault([0, 1], [0, -1]) == 2
    long = np.tile(np.arange(5), 3000)
    assert fault(long, np.arange(0, len(long) + 1, 5)) == 0
    assert fault(np.append(long, 9), [*range(0, len(long) + 1, 5), len(long) + 1]) == 2


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.int64])
def test_labels(dtype):
    y = np.array([7, 3, 3, 9, 4], dtype=dtype)
    assert counts.label_range(y) == (3, 9)
    seen, codes = np.zeros(7, dtype=np.uint8), np.zeros(5, dtype=np.int32)
    assert counts.label_codes(y, 3, seen, codes) == 7
    assert seen.tolist() == [1, 1, 0, 0, 1, 0, 1]
    assert codes.tolist() == [4, 0, 0, 6, 1]
    assert counts.label_codes(y, 4, seen, codes) == 0, "3 lies below"
    assert not counts.label_codes(y, 3, seen[:6], codes), "9 lies beyond"


def test_class_weights():
    out = np.zeros(3)
    counts.class_weights(np.array([0, 2, -1, 2, 5], dtype=np.int32), np.array([1.0, 2.0, 9.0, 0.5, 9.0]), out)
    assert out.tolist() == [1.0, 0.0, 2.5]


@given(st.integers(1, 6) | st.integers(20, 40), st.integers(0, 300), st.floats(1e-3, 1e4), st.integers(0, 1000))
def test_the_posterior_is_log_sum_exp(k, n, scale, seed):
    rng = np.random.default_rng(seed)
    log_joint = rng.normal(size=(n, k)) * scale - 1000.0 * rng.random()
    log_joint[rng.random((n, k)) < 0.1] = -np.inf
    log_prior = np.log(rng.dirichlet(np.ones(k)))
    lost = np.isneginf(log_joint).all(axis=1)
    with np.errstate(invalid="ignore"):  # relative to the greatest first, so that large numbers keep their digits
        relative = log_joint - log_joint.max(axis=1, keepdims=True, initial=-np.inf)
        expected = np.where(lost[:, None], log_prior, relative - logsumexp(relative, axis=1, keepdims=True))
    logs, proba, evidence = log_joint.copy(), log_joint.copy(), np.zeros(n)
    assert posterior.normalise(logs, log_prior, evidence, True) == (lost.sum(), -1)
    posterior.normalise(proba, log_prior, None, False)
    np.testing.assert_allclose(logs, expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(proba, np.exp(expected), rtol=1e-12, atol=1e-300)
    np.testing.assert_allclose(evidence[~lost], logsumexp(log_joint, axis=1)[~lost], rtol=1e-12)
    best = np.zeros(n, dtype=np.intp)
    assert posterior.best(log_joint, log_prior, best) == (lost.sum(), -1)
    np.testing.assert_array_equal(best, np.where(lost, np.argmax(log_prior), np.argmax(log_joint, axis=1)))


@pytest.mark.parametrize("k", [2, 3, 30])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("other", [-2.0, -np.inf])
def test_the_posterior_points_at_rows_that_are_no_numbers(k, bad, other):
    for places in (0, 1, k - 1, slice(None)):
        log_joint = np.full((3, k), -1.0)
        log_joint[1] = other
        log_joint[1, places] = log_joint[2] = bad
        for logs in (False, True):
            answer = log_joint.copy()
            assert posterior.normalise(answer, np.zeros(k), None, logs)[1] == 1
            assert np.isnan(answer[1:]).all(), "and not the prior"
        assert posterior.best(log_joint, np.zeros(k), np.zeros(3, dtype=np.intp))[1] == 1


def test_exponentials_are_within_two_units_in_the_last_place():
    """The vectorised exp inside the posterior, from 0 down to where doubles end."""
    depth = np.concatenate([np.linspace(0, 745, 20_001), np.geomspace(1e-300, 1, 500)])
    log_joint = np.column_stack([np.zeros_like(depth), -depth])
    posterior.normalise(log_joint, np.zeros(2), None, False)
    ratio = log_joint[:, 1] / log_joint[:, 0]
    exact = np.exp(-depth)
    normal = exact > 1e-300
    # Two roundings of the exponential, and one each of the two divisions.
    assert np.max(np.abs(ratio[normal] / exact[normal] - 1.0)) < 8 * np.finfo(float).eps
    assert np.max(np.abs(ratio[~normal] - exact[~normal])) < 1e-310


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("layout", ["C", "Fortran", "strided", "reversed"])
@pytest.mark.parametrize("law", ["gaussian", "student"])
@pytest.mark.parametrize("d", [1, 7, 200])
def test_log_density(dtype, layout, law, d):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(N, d)).astype(dtype)
    X[rng.random(X.shape) < 0.01] = np.nan
    mean, variance, dof = rng.normal(size=(K, d)), rng.random((K, d)) + 0.1, rng.random((K, d)) * 20 + 1
    if law == "gaussian":
        precision, constant, power = 0.5 / variance, norm.logpdf(0.0, 0.0, np.sqrt(variance)), None
        expected = norm.logpdf(X[:, None], mean, np.sqrt(variance))
    else:
        precision, constant, power = (
            1.0 / (variance * dof),
            student.logpdf(0.0, dof, 0.0, np.sqrt(variance)),
            (dof + 1) / 2,
        )
        expected = student.logpdf(X[:, None], dof, mean, np.sqrt(variance))
    wide = np.zeros((2 * N, 3 * d), dtype=dtype)
    wide[::2, ::3] = X
    backwards = np.ascontiguousarray(X[::-1, ::-1])[::-1, ::-1]
    stored = {"C": X, "Fortran": np.asfortranarray(X), "strided": wide[::2, ::3], "reversed": backwards}[layout]
    out = np.zeros((N, K))
    gaussian.log_density(stored, mean, precision, constant, np.zeros(len(mean)), power, out)
    np.testing.assert_allclose(out, np.nansum(expected, axis=2), rtol=1e-11, atol=1e-9)


@pytest.mark.parametrize("k", [1, 3, 6, 11, 12, 29])
@pytest.mark.parametrize("far", [0.0, 1e3, 1e9])
def test_log_density_of_many_classes_near_and_far_from_zero(k, far):
    """Far from zero, means are subtracted before anything is scaled, and no digit is lost."""
    rng = np.random.default_rng(9)
    X, mean, variance = far + rng.normal(size=(50, 9)), far + rng.normal(size=(k, 9)), rng.random((k, 9)) + 0.1
    X[3, 4] = X[5] = np.nan
    constant, out = norm.logpdf(0.0, 0.0, np.sqrt(variance)), np.empty((50, k))
    gaussian.log_density(X, mean, 0.5 / variance, constant, np.ones(k), None, out)
    expected = 1.0 + np.nansum(norm.logpdf(X[:, None], mean, np.sqrt(variance)), axis=2)
    np.testing.assert_allclose(out, expected, rtol=1e-11)
    assert (out[5] == 1.0).all(), "nothing but the start, exactly"


def test_nothing_at_all_is_fine():
    """No rows, no columns, no classes: every kernel leaves its sums as they are."""
    empty = np.zeros((0, D))
    x = np.ones((K, D))
    moments.class_sums(empty, np.zeros(0, dtype=np.int32), None, np.zeros((K, D)), np.zeros((K, 1)), x, None, False)
    moments.class_sums(
        np.zeros((5, 0)),
        np.zeros(5, dtype=np.int32),
        None,
        np.zeros((K, 0)),
        np.zeros((K, 1)),
        np.zeros((K, 0)),
        None,
        False,
    )
    assert (x == 1).all()
    gaussian.log_density(empty, np.zeros((K, D)), np.ones((K, D)), np.ones((K, D)), np.ones(K), None, np.zeros((0, K)))
    assert posterior.normalise(np.zeros((0, K)), np.zeros(K), None, True) == (0, -1)
    none = np.zeros(0, dtype=np.int32), np.zeros(1, dtype=np.int32)
    scores.csr_dot(np.zeros(0), *none, np.zeros((D, 4)), np.zeros(K), np.zeros((0, K)))
    assert not scores.dense_dot(empty, np.zeros(4 * D), np.zeros(K), np.zeros((0, K)))


@pytest.mark.parametrize("d", [0, 1, 3, 4, 7, 32])
@pytest.mark.parametrize("size", [1.0, 1e3, 1e6])
def test_cosines_are_those_of_numpy(d, size):
    rng = np.random.default_rng(d)
    angles, phase = size * rng.normal(size=(200, d)), rng.uniform(0, 2 * np.pi, d)
    angles[:3] = [[0.0], [np.pi / 2], [-np.pi]]
    expected = 3.0 * np.cos(angles + phase)
    scores.cosines(angles, phase, 3.0)
    np.testing.assert_allclose(angles, expected, rtol=0, atol=1e-14)


def test_cosines_need_a_phase_for_every_angle():
    with pytest.raises(ValueError, match="rows have 3 angles: there must be as many phases, not 2"):
        scores.cosines(np.zeros((2, 3)), np.zeros(2), 1.0)
