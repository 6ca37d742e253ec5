"""What is taken from SciPy."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

from deciban import _scipy


@pytest.fixture(params=["lapack", "other integers"])
def routine(request, monkeypatch):
    if request.param == "other integers":
        monkeypatch.setattr(_scipy, "lapack", lambda _: None)


@pytest.mark.usefixtures("routine")
@pytest.mark.parametrize("d", [0, 1, 2, 50])
def test_the_inverse_of_a_positive_definite_matrix(d):
    rows = np.random.default_rng(d).normal(size=(2 * d, d))
    matrix = rows.T @ rows
    before = matrix.copy()
    np.testing.assert_allclose(_scipy.inverse(matrix) @ matrix, np.eye(d), atol=1e-8)
    np.testing.assert_array_equal(matrix, before)


@pytest.mark.usefixtures("routine")
def test_other_matrices_have_none():
    with pytest.raises(np.linalg.LinAlgError):
        _scipy.inverse(np.array([[1.0, 2.0], [2.0, 1.0]]))


def test_other_threads_go_on_while_a_matrix_is_inverted():
    """The event loop of a server, for one. While the GIL is held, this thread would not run at all."""
    rows = np.random.default_rng(0).normal(size=(1200, 1200))
    matrix, ended, turns = rows.T @ rows, threading.Event(), 0
    _scipy.inverse_half(matrix)
    thread = threading.Thread(target=lambda: (_scipy.inverse_half(matrix), ended.set()))
    thread.start()
    while not ended.is_set():
        turns += 1
        time.sleep(0.0005)
    thread.join()
    assert turns > 3
