"""Marginal laws of rows that have some of the coordinates each, against their definition in NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deciban._kernel import marginals as kernel

WIDTH = kernel.WIDTH


def side_by_side(arrays):
    """(P, …) as (groups, …, WIDTH); past the last part, the last again."""
    P = len(arrays)
    at = np.minimum(np.arange(-(-P // WIDTH) * WIDTH), P - 1)
    return np.ascontiguousarray(np.moveaxis(arrays[at].reshape(-1, WIDTH, *arrays.shape[1:]), 1, -1))


def world(seed, n=30, P=3, D=5, share=0.4):
    """Rows, means and covariances of parts, and what each row has."""
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(P, D, 2 * D + 1))
    sigma = A @ A.transpose(0, 2, 1) / (D + 1) + 0.1 * np.eye(D)
    return rng.normal(size=(n, D)), 3 * rng.normal(size=(P, D)), sigma, rng.random((n, D)) >= share


def kernel_forms(X, mean, sigma, there, changed=None):
    """The kernel's forms and log-determinants, a pair of (n, P)."""
    patterns, which = np.unique(there, axis=0, return_inverse=True)
    which = which.ravel()
    how = {
        "X": X,
        "rows": np.argsort(which, kind="stable"),
        "start": np.append(0, np.cumsum(np.bincount(which, minlength=len(patterns)))),
        "there": patterns.astype(np.uint8),
        "mean": side_by_side(mean),
        "sigma": side_by_side(sigma),
        "precision": side_by_side(np.linalg.inv(sigma)),
        "whole": np.linalg.slogdet(sigma)[1],
        "q": np.full((len(X), len(mean)), np.nan),
        "log_det": np.full((len(patterns), len(mean)), np.nan),
    } | (changed or {})
    kernel.forms(**how)
    return how["q"], how["log_det"][which]


@given(
    st.integers(0, 10_000),
    st.integers(1, 40),
    st.integers(1, 2 * WIDTH + 1),
    st.integers(1, 9),
    st.sampled_from([0, 0.1, 0.5, 0.9, 1]),
)
def test_forms_are_those_of_the_coordinates_that_are_there(seed, n, P, D, share):
    X, mean, sigma, there = world(seed, n, P, D, share)
    q, log_det = kernel_forms(X, mean, sigma, there)
    for i, here in enumerate(there):
        o = np.flatnonzero(here)
        for p in range(P):
            z, S = X[i, o] - mean[p, o], sigma[p][np.ix_(o, o)]
            assert q[i, p] == pytest.approx(z @ np.linalg.solve(S, z), rel=1e-9, abs=1e-9)
            assert log_det[i, p] == pytest.approx(np.linalg.slogdet(S)[1], rel=1e-9, abs=1e-9)


def test_many_coordinates():
    """More than are handled together, and determinants far out of the range of numbers."""
    X, mean, sigma, there = world(1, 12, 2, 70, 0.3)
    there[0], there[1], there[2, 3] = True, False, False
    for scale in (1e-12, 1.0, 1e12):
        q, log_det = kernel_forms(X * np.sqrt(scale), mean * np.sqrt(scale), sigma * scale, there)
        for i, here in enumerate(there):
            o = np.flatnonzero(here)
            for p in range(2):
                z, S = X[i, o] - mean[p, o], sigma[p][np.ix_(o, o)]
                # the other coordinates' part is taken away from a larger form: a few digits go with it
                assert q[i, p] == pytest.approx(z @ np.linalg.solve(S, z), rel=1e-8, abs=1e-12)
                assert log_det[i, p] == pytest.approx(np.linalg.slogdet(S)[1] + len(o) * np.log(scale), rel=1e-9)


def test_a_missing_copy_of_a_column_changes_nothing():
    """Nearly collinear columns: the form of one alone is that of its own variance, with digits left."""
    sigma = np.array([[[1.0, 1.0 - 1e-6], [1.0 - 1e-6, 1.0]]])
    X = np.array([[2.0, 0.0], [0.0, 2.0], [2.0, 2.0]])
    q, log_det = kernel_forms(X, np.zeros((1, 2)), sigma, np.array([[True, False], [False, True], [True, True]]))
    np.testing.assert_allclose(q[:, 0], [4.0, 4.0, 4.0], rtol=1e-5)  # both are there: 4 · 2/(2 − 1e-6)
    np.testing.assert_allclose(log_det[:2, 0], 0.0, atol=1e-9)


def test_nothing_to_do():
    X, mean, sigma, there = world(0)
    q, log_det = kernel_forms(X[:0], mean, sigma, there[:0])
    assert q.shape == log_det.shape == (0, 3)
    q, log_det = kernel_forms(X, mean, sigma, np.zeros_like(there))
    assert not q.any()
    assert not log_det.any()


def test_what_is_no_covariance_is_refused():
    X, mean, sigma, there = world(0)
    sigma[1, 2, 2] = -1.0
    there[:] = [False, False, True, False, False]
    with pytest.raises(ValueError, match=r"pattern 0: .*no root"):
        kernel_forms(X, mean, sigma, there)
    there[:] = [True, True, False, True, True]
    precision = np.linalg.inv(np.abs(sigma))
    precision[2, 2, 2] = np.nan
    with pytest.raises(ValueError, match="has no root"):
        kernel_forms(X, mean, sigma, there, {"precision": side_by_side(precision)})


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"rows": np.full(30, 30)}, "rows.0. is 30: there are 30 rows"),
        ({"rows": np.full(30, -1)}, "rows.0. is -1"),
        ({"start": np.array([0, 30])}, "start must go from 0 to 30"),
        ({"mean": np.zeros((1, 4, WIDTH))}, "X has 5 columns"),
        ({"mean": np.zeros((2, 5, WIDTH))}, "3 parts are"),
        ({"sigma": np.zeros((1, 5, 4, WIDTH))}, "sigma and precision must be"),
        ({"precision": np.zeros((1, 5, 5, WIDTH + 1))}, "sigma and precision must be"),
        ({"whole": np.zeros(2)}, "whole"),
        ({"q": np.zeros((29, 3))}, "q must be"),
        ({"log_det": np.zeros((1, 3))}, "log_det"),
        ({"there": np.zeros((1, 5), np.uint8)}, "log_det|start"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(changed, message):
    with pytest.raises(ValueError, match=message):
        kernel_forms(*world(0), changed)


def test_patterns_out_of_order_are_refused():
    X, mean, sigma, there = world(0)
    there[:] = [True, False, True, False, True]
    there[0] = False
    with pytest.raises(ValueError, match=r"pattern 1 .*31.*30"):
        kernel_forms(X, mean, sigma, there, {"start": np.array([0, 31, 30])})
