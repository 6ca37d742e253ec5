"""Learning is adding: any split, any order, any number of threads; hard labels are soft labels of 0 and 1."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import strategies as st
from scipy.sparse import csc_array, csr_array
from worlds import CASES, law

from deciban import collect, score, threads


@law(cuts=st.lists(st.integers(0, 30), max_size=4), seed_of_order=st.integers(0, 100))
def test_any_batches_in_any_order_give_the_same_sum(world, cuts, seed_of_order):
    order = np.random.default_rng(seed_of_order).permutation(len(world.y))
    edges = [0, *sorted(min(cut, len(order)) for cut in cuts), len(order)]
    total = world.joint.zero(world.schema)
    for start, stop in pairwise(edges):
        total = total + world.collect(order[start:stop])
    assert total.same_as(world.collect())


@law()
def test_the_kernels_agree_with_the_measures_definitions(world):
    columns = world.schema.blocks[0]
    k = len(world.schema.classes)
    weight = np.ones(len(world.y)) if world.weight is None else world.weight
    labels = np.eye(k)[world.y] * weight[:, None]
    sums = world.collect().sums[0]
    for measure in world.family.measures(columns):
        expected = np.zeros((k, *measure.shapes(columns)[-1]))
        for c in range(k):
            pivot = columns.pivot[c] if columns.pivot is not None else np.zeros(columns.size)
            expected[c] = np.tensordot(labels[:, c], measure.of(world.X, pivot), axes=1)
        np.testing.assert_allclose(
            np.broadcast_to(sums[measure.name], expected.shape),
            expected,
            rtol=1e-9,
            atol=1e-9 * (1 + np.abs(expected).max(initial=0)),
        )


@law()
def test_sure_soft_labels_are_hard_labels(world):
    soft = np.eye(len(world.schema.classes))[world.y]
    assert world.collect(labels=soft).same_as(world.collect())


@law(rows=(1, 30), seed_of_shares=st.integers(0, 100))
def test_soft_labels_are_weighted_hard_labels(world, seed_of_shares):
    k = len(world.schema.classes)
    soft = np.random.default_rng(seed_of_shares).dirichlet(np.ones(k), len(world.y))
    total = world.joint.zero(world.schema)
    weight = np.ones(len(world.y)) if world.weight is None else world.weight
    for c in range(k):
        codes = np.full(len(world.y), c, dtype=np.int32)
        total = total + collect.collect([world.X], world.joint, world.schema, codes, weight * soft[:, c])
    assert world.collect(labels=soft).same_as(total)


SPARSE = ("bernoulli", "complement", "gaussian", "multinomial", "poisson")  # which take rows that are stored sparsely


@law([case for case in CASES if case.family in SPARSE], soft=st.booleans())
def test_stored_sparsely_rows_are_the_same_rows(world, soft):
    """The same sums, log-probabilities and leave-one-out."""
    labels = np.random.default_rng(0).dirichlet(np.ones(len(world.schema.classes)), len(world.y)) if soft else world.y
    far = np.abs(world.X[np.isfinite(world.X)]).max(initial=0.0)
    if world.family.pivoted:  # zeros are only stored where zero is near
        world.X = world.X - far + 3.0
        columns = world.schema.blocks[0]
        world.schema = replace(world.schema, blocks=(replace(columns, pivot=columns.pivot - far + 3.0),))
    model, dense = world.model(), world.collect(labels=labels)
    log_likelihood = model.log_likelihood([world.X])
    left = world.family.leave_one_out(model.stats.sums[0], world.alpha, model.columns(), world.X, world.y, world.weight)
    for kind in (csr_array, csc_array):
        sums = collect.collect([kind(world.X)], world.joint, world.schema, labels, world.weight)
        assert sums.same_as(dense, 1e-7 if world.family.pivoted else 1e-9)
    X, columns = csr_array(world.X), model.columns()
    again = world.family.leave_one_out(model.stats.sums[0], world.alpha, columns, X, world.y, world.weight)
    for ours, theirs in ((model.log_likelihood([X]), log_likelihood), (again, left)):
        np.testing.assert_allclose(ours, theirs, rtol=1e-7, atol=1e-7 * (1.0 + np.abs(theirs).max(initial=0.0)))


@law(rows=(1, 30))
def test_a_row_of_weight_two_is_two_rows_and_of_weight_zero_is_none(world):
    n = len(world.y)
    times = np.arange(n) % 3
    repeated = np.repeat(np.arange(n), times)
    weighted = collect.collect([world.X], world.joint, world.schema, world.y, times.astype(float))
    assert weighted.same_as(collect.collect([world.X[repeated]], world.joint, world.schema, world.y[repeated]))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_threads_change_not_a_bit(case, monkeypatch):
    monkeypatch.setattr(collect, "ENTRIES_PER_BLOCK", 64)
    monkeypatch.setattr(score, "ENTRIES_PER_BLOCK", 64)
    monkeypatch.setattr(threads, "ENTRIES_PER_BLOCK", 64)
    world = case.make(3, 200, 4, 3, True, True, 1.0)
    one, four = world.collect(n_jobs=1), world.collect(n_jobs=4)
    for a, b in zip(one.sums[0].values(), four.sums[0].values(), strict=True):
        assert np.array_equal(a, b)
    scores = [score.apply([world.X], world.model(), "posterior", jobs) for jobs in (1, 3)]
    assert np.array_equal(*scores)
