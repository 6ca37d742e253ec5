"""Learning is adding: any split, any order, any number of threads; hard labels are soft ones that are sure."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import strategies as st
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
    found = world.collect().sums[0]
    for measure in world.family.measures(columns):
        expected = np.zeros((k, *measure.shapes(columns)[-1]))
        for c in range(k):
            pivot = columns.pivot[c] if columns.pivot is not None else np.zeros(columns.size)
            expected[c] = np.tensordot(labels[:, c], measure.of(world.X, pivot), axes=1)
        np.testing.assert_allclose(
            np.broadcast_to(found[measure.name], expected.shape),
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


@law(rows=(1, 30))
def test_a_row_of_weight_two_is_two_rows_and_of_weight_zero_is_none(world):
    n = len(world.y)
    times = np.arange(n) % 3
    repeated = np.repeat(np.arange(n), times)
    weighted = collect.collect([world.X], world.joint, world.schema, world.y, times.astype(float))
    assert weighted.same_as(collect.collect([world.X[repeated]], world.joint, world.schema, world.y[repeated]))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_threads_change_not_a_bit(case, monkeypatch):
    monkeypatch.setattr(collect, "ENTRIES", 64)
    monkeypatch.setattr(score, "ENTRIES", 64)
    monkeypatch.setattr(threads, "ENTRIES", 64)
    world = case.make(3, 500, 4, 3, True, True, 1.0)
    one, four = world.collect(n_jobs=1), world.collect(n_jobs=4)
    for a, b in zip(one.sums[0].values(), four.sums[0].values(), strict=True):
        assert np.array_equal(a, b)
    scores = [score.apply([world.X], world.model(), "posterior", jobs) for jobs in (1, 3)]
    assert np.array_equal(*scores)
