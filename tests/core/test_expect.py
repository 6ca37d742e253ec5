"""A step of EM over rows with missing labels or values: their weights, the start, and the pivots."""

from __future__ import annotations

import numpy as np
import pytest
from worlds import make

from deciban import em, expect
from deciban.algebra import about_the_means
from deciban.collect import collect
from deciban.joint import Model
from deciban.schema import Columns, Schema


def blocks(seed=0, n=20, covariance="full"):
    world = make("multivariate_gaussian", seed, n, 2, 2, False, False, 1.0, covariance=covariance)
    far = world.X.mean()
    world.X -= far
    world.schema = Schema(world.schema.classes, (Columns(2, pivot=world.schema.blocks[0].pivot - far),))
    return world


@pytest.mark.parametrize("weight", [None, np.arange(20.0) + 1.0], ids=["plain", "weighted"])
def test_what_hidden_rows_count(weight):
    """A row without a label counts its weight times `hidden_weight`; one with a missing value its weight."""
    world = blocks()
    X, codes = world.X.copy(), world.y.copy()
    X[[3, 4], 1], codes[[4, 7]] = np.nan, -1
    rows = expect.HiddenRows.of([X], world.model(), codes, weight, 0.25)
    each = np.ones(20) if weight is None else weight
    np.testing.assert_array_equal(rows.codes, codes[[3, 4, 7]])
    np.testing.assert_array_equal(rows.weight, each[[3, 4, 7]] * [1.0, 0.25, 0.25])
    assert rows.gaps
    assert rows.total == pytest.approx(each.sum() - 0.75 * each[[4, 7]].sum())
    known = expect.HiddenRows.of([world.X], world.model(), world.y, weight, 0.25)
    assert not known.gaps
    assert len(known.codes) == 0


def test_a_step_is_the_posterior_sums_and_the_likelihood():
    world = blocks()
    model, each = world.model(), np.linspace(0.5, 2.0, 20)
    log_joint = model.log_joint([world.X])
    evidence = np.logaddexp.reduce(log_joint, axis=1)
    total, sums = expect.expect([world.X], model, weight=each)
    assert total == pytest.approx(each @ evidence)
    shares = np.exp(log_joint - evidence[:, None]) * each[:, None]
    assert sums.same_as(collect([world.X], model.joint, model.schema, shares))
    allowed = np.vstack([np.eye(2, dtype=bool), np.ones((1, 2), dtype=bool)])
    total, sums = expect.expect([world.X], model, world.y, allowed, each)
    assert total == pytest.approx(each @ log_joint[np.arange(20), world.y])
    assert sums.same_as(collect([world.X], model.joint, model.schema, world.y, each))


def test_impossible_rows_do_not_enter_the_likelihood_and_have_the_prior_for_shares():
    world = make("categorical", 0, 12, 1, 2, False, False, 0.0)
    world.X[:] = world.y[:, None] % 2  # each class has one value, and the value 2 nobody
    world.schema = Schema(world.schema.classes, (Columns(1, categories=(range(3),)),))
    model = world.model()
    assert (model.stats.weight > 0).all()
    odd = np.array([[1.0]])  # of the other class
    allowed = np.array([[True, False], [False, False]])
    total, sums = expect.expect([odd], model, np.array([0]), allowed)
    assert total == 0.0
    np.testing.assert_array_equal(sums.weight, [1.0, 0.0])
    _, nothing = expect.expect([odd], model, np.array([1]), allowed)
    assert not nothing.weight.any(), "nothing is allowed: nothing is added"


def test_the_first_guess_has_rows_with_gaps_too():
    world = blocks()
    X, weight = world.X.copy(), np.linspace(0.5, 2.0, 20)
    X[:5, 0] = np.nan
    known = np.flatnonzero(~np.isnan(X[:, 0]))
    model = Model(world.joint, collect([X[known]], world.joint, world.schema, world.y[known], weight[known]))
    codes = world.y.copy()
    codes[4] = -1  # of no class yet
    there = np.delete(np.arange(20), 4)
    guess = expect.first_guess([X], model, codes, weight)
    np.testing.assert_allclose(guess.stats.weight, np.bincount(world.y[there], weight[there], minlength=2))
    np.testing.assert_allclose(guess.stats.sums[0]["one"][:, 0], guess.stats.weight)


@pytest.mark.parametrize(("deviations", "moves"), [(9.9, False), (10.1, True), (-10.1, True)])
def test_pivots_move_once_classes_are_ten_deviations_away(deviations, moves):
    world = blocks(covariance="diag")
    near = np.array([[-1.0, -1.0], [1.0, 1.0]])  # a deviation of one
    X = np.vstack([near, near + np.array([deviations, 0.0])])
    world.schema = Schema(world.schema.classes, (Columns(2, pivot=np.zeros((2, 2))),))
    model = Model(world.joint, collect([X], world.joint, world.schema, np.array([0, 0, 1, 1], dtype=np.int32)))
    moved = Model(model.joint, about_the_means(model.stats))
    assert (moved.stats is not model.stats) == moves
    pivot = [[0.0, 0.0], [deviations, 0.0]] if moves else np.zeros((2, 2))
    np.testing.assert_allclose(moved.schema.blocks[0].pivot, pivot, atol=1e-12)
    assert moved.stats.same_as(model.stats)


def test_rows_of_weight_zero_are_left_out():
    X, codes = np.arange(6.0).reshape(3, 2), np.array([0, 1, 0])
    for weight in (None, np.array([1.0, 0.5, 2.0])):
        assert expect.drop_weightless([X], codes, weight)[0][0] is X
    data, left, weight = expect.drop_weightless([X], codes, np.array([1.0, 0.0, 2.0]))
    np.testing.assert_array_equal(data[0], X[[0, 2]])
    assert left.tolist() == [0, 0]
    assert weight.tolist() == [1.0, 2.0]


def test_shared_out_evenly():
    world = blocks()
    even = expect.spread_evenly(world.model(), 2)
    for name, array in world.model().stats.sums[0].items():
        np.testing.assert_allclose(even.stats.sums[0][name], np.stack([array[0] / 2] * 2))
    np.testing.assert_allclose(even.stats.weight, world.model().stats.weight[0] / 2)


def test_a_start_leans_towards_heavy_rows_that_are_far_from_each_other():
    world = blocks()
    X = np.zeros((20, 2))
    X[:, 0], X[3], X[11] = np.linspace(-1, 1, 20), [50.0, 0.0], [-50.0, 0.0]
    weight = np.full(20, 1e-6)
    weight[[3, 11]] = 1.0
    even = collect([X], world.joint, world.schema, np.full((20, 2), 0.5), weight)
    start = expect.seeded([X], Model(world.joint, even), weight, np.random.RandomState(0), 1)
    share = even.weight.sum() / 2
    np.testing.assert_allclose(start.stats.weight, even.weight + share)
    seeds = (start.stats - even).sums[0]["x"] / share + start.schema.blocks[0].pivot
    np.testing.assert_allclose(np.sort(seeds[:, 0]), [-50.0, 50.0], atol=1e-6)


def test_as_many_starts_as_asked_for(monkeypatch):
    world = blocks()
    drawn = []

    def first(rng):
        drawn.append(rng.rand())
        return np.full((20, 2), 0.5)

    def learn(start, step, *, rows, **how):
        del step, how
        return em.Learned(start, [-1.0], True, rows)

    monkeypatch.setattr(em, "learn", learn)
    empty = Model(world.joint, world.joint.zero(world.schema))
    learned = expect.learn_clusters([world.X], empty, None, np.random.RandomState(0), starts=3, first=first)
    assert len(drawn) == 3
    assert learned.rows == 20
    weight = np.linspace(0.5, 2.0, 20)
    learned = expect.learn_clusters([world.X], empty, weight, np.random.RandomState(0), starts=2)
    assert learned.rows == pytest.approx(weight.sum())
