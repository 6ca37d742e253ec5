"""Edge cases of scoring: a class learned again, and which rows that needs."""

from __future__ import annotations

import numpy as np
import pytest
from worlds import make

from deciban import score
from deciban.errors import DecibanError
from deciban.measure import RESIDUE


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("family", ["gaussian", "multinomial", "multivariate_gaussian"])
def test_a_class_is_learned_anew_from_its_other_rows(family, weighted):
    world = make(family, 1, 20, 2, 2, False, weighted, 1.0)
    model = world.model()
    relearned = score.learned_without([world.X], model, world.y, world.weight, 5)
    refit = world.model(np.delete(np.arange(20), 5))
    assert relearned.stats.same_as(refit.stats)


@pytest.mark.parametrize(("off", "all_here"), [(0.5, True), (3.0, False), (-3.0, False)])
def test_but_only_where_all_of_them_are_here(off, all_here):
    world = make("gaussian", 1, 20, 2, 2, False, False, 1.0)
    stats = world.collect()
    model = world.model()
    weight = np.ones(20)
    weight[np.flatnonzero(world.y == world.y[5])[0]] += off * RESIDUE * stats.weight[world.y[5]]
    assert (score.learned_without([world.X], model, world.y, weight, 5) is not None) == all_here
    some = np.flatnonzero(np.arange(20) != 7)
    whole = score.learned_without([world.X[some]], model, world.y[some], None, 0)
    assert (whole is None) == (world.y[7] == world.y[0])


def test_a_pivot_at_the_mean_of_what_is_there():
    world = make("gaussian", 1, 20, 2, 2, False, False, 1.0)
    X = np.array([[1.0, np.nan], [5.0, np.nan]]) + world.schema.blocks[0].pivot[1]
    far = np.vstack([X, [[1e9, 1e9]]])
    pivot = score.about_rows(world.schema.blocks[0], far, np.array([2.0, 2.0, 0.0]), 1).pivot
    np.testing.assert_allclose(pivot, world.schema.blocks[0].pivot[1:] + np.array([3.0, 0.0]))


def test_all_classes_but_one():
    world = make("gaussian", 1, 20, 2, 3, False, False, 1.0)
    left = score.but_class(world.collect(), 1)
    assert left.classes.tolist() == [0, 2]
    np.testing.assert_array_equal(left.weight, world.collect().weight[[0, 2]])
    np.testing.assert_array_equal(left.sums[0]["x"], world.collect().sums[0]["x"][[0, 2]])
    np.testing.assert_array_equal(left.schema.blocks[0].pivot, world.schema.blocks[0].pivot[[0, 2]])


@pytest.mark.parametrize("how", ["posterior", "log_posterior", "best"])
def test_a_bad_row_is_named_in_whatever_block_it_is(how, monkeypatch):
    monkeypatch.setattr(score, "ENTRIES_PER_BLOCK", 16)
    world = make("gaussian", 1, 40, 2, 2, False, False, 1.0)
    model = world.model()
    world.X[33, 1] = np.inf
    with pytest.raises(DecibanError, match="row 33"):
        score.apply([world.X], model, how, 1)


def test_nothing_to_score():
    world = make("gaussian", 1, 40, 2, 2, False, False, 1.0)
    assert score.apply([world.X[:0]], world.model(), "posterior").shape == (0, 2)
    assert score.leave_one_out([world.X[:0]], world.model(), world.y[:0]).shape == (0, 2)
