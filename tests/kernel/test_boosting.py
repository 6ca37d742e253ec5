"""Boosted trees against a plain definition: gradients, splits of the greatest gain first, Newton steps in leaves."""

from __future__ import annotations

from math import cos, log, pi, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deciban._kernel import boosting as kernel
from deciban._kernel import forest

UNSEEN = 255
UINT64 = 2**64 - 1
LEAVES, DEPTH, MIN_ROWS, RIDGE, SMOOTHING = 6, 3, 3, 1.0, 10.0


def table(seed, n, d, k, weighted=False, unseen=False):
    """Codes with missing and (some) unseen values, and labels that depend on two columns together."""
    rng = np.random.default_rng(seed)
    levels, ordered = rng.integers(2, 7, d).astype(np.int32), rng.integers(0, 2, d).astype(np.uint8)
    codes = np.array([rng.integers(0, level, n) for level in levels], dtype=np.uint8).reshape(d, n)
    y = ((codes[0] % 2 + codes[-1] + (rng.random(n) < 0.2)) % k).astype(np.int32)
    if unseen:
        codes[rng.random((d, n)) < 0.1] = UNSEEN
    weight = rng.uniform(0.5, 2.0, n) if weighted else None
    base = rng.normal(size=(n, k))
    used = (rng.random(n) < 0.7).astype(np.uint8)
    return codes, levels, ordered, y, weight, base, used


class Directions:
    """What the kernel draws: splitmix64, and normal deviates by Box and Muller."""

    def __init__(self, seed):
        self.state = seed

    def uniform(self):
        self.state = (self.state + 0x9E3779B97F4A7C15) & UINT64
        x = self.state
        x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & UINT64
        x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & UINT64
        return (x ^ (x >> 31)) >> 11

    def normal(self):
        u, v = (self.uniform() + 0.5) / 2**53, self.uniform() / 2**53
        return sqrt(-2 * log(u)) * cos(2 * pi * v)


def softmax(scores):
    e = np.exp(scores - scores.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def best_split(codes, levels, ordered, g, h, rows):
    """The gain, the column, and which values go left and right."""
    best = 0.0, None, None, None
    for j in range(len(codes)):
        known = rows[codes[j, rows] != UNSEEN]
        values = [v for v in range(levels[j]) if (codes[j, known] == v).any()]
        if not ordered[j]:
            sums = {v: known[codes[j, known] == v] for v in values}
            values.sort(key=lambda v: g[sums[v]].sum() / (h[sums[v]].sum() + SMOOTHING))
        for cut in range(1, len(values)):
            left = known[np.isin(codes[j, known], values[:cut])]
            right = known[np.isin(codes[j, known], values[cut:])]
            if min(len(left), len(right)) < MIN_ROWS:
                continue
            gain = sum(g[s].sum() ** 2 / (h[s].sum() + RIDGE) for s in (left, right))
            gain -= g[known].sum() ** 2 / (h[known].sum() + RIDGE)
            if gain > best[0] + 1e-9:
                best = gain, j, values[:cut], values[cut:]
    return best


def grown_by_hand(codes, levels, ordered, y, weight, base, used, seed, rates):
    """The values of all rows after each round, and for every round the leaves' sets of rows that it grew on."""
    n, k = base.shape
    w = np.ones(n) if weight is None else weight
    scores, directions = base.copy(), Directions(seed)
    for rate in rates:
        p = softmax(scores)
        u = np.array([0.0, 1.0]) if k == 2 else np.array([directions.normal() for _ in range(k)])
        truth = np.eye(k)[y]
        g = (w * ((truth - p) @ u)).astype(np.float32).astype(float)
        curvature = (p * (1 - p)).sum(axis=1) * (0.5 if k == 2 else 1.0)
        h = (w * curvature).astype(np.float32).astype(float)
        nodes = [(np.flatnonzero(used), np.flatnonzero(used == 0), 0)]
        open_, ended = [0], []
        splits = {0: best_split(codes, levels, ordered, g, h, nodes[0][0])}
        leaves = 1
        while leaves < LEAVES:
            can = [i for i in open_ if i in splits and splits[i][1] is not None]
            if not can:
                break
            at = max(can, key=lambda i: (splits[i][0], -i))
            _, j, left, right = splits[at]
            grow, others, depth = nodes[at]
            if ordered[j]:  # values between those of the node: half-way
                low, high = left[-1], right[0]
                cut = 0 if low == 0 else (low + high) // 2
                goes = {v: v <= cut for v in range(levels[j])}
            else:
                more_left = 2 * np.isin(codes[j, grow], left).sum() >= (codes[j, grow] != UNSEEN).sum()
                goes = {v: v in left or (v not in right and more_left) for v in range(levels[j])}
            side = [
                [rows[[codes[j, i] != UNSEEN and goes[codes[j, i]] == s for i in rows]] for rows in (grow, others)]
                for s in (True, False)
            ]
            stay = [rows[codes[j, rows] == UNSEEN] for rows in (grow, others)]
            ended.append((at, stay))
            open_.remove(at)
            for own in side:
                nodes.append((own[0].astype(int), own[1].astype(int), depth + 1))
                open_.append(len(nodes) - 1)
            leaves += 1
            if leaves < LEAVES and depth + 1 < DEPTH:
                for i in (len(nodes) - 2, len(nodes) - 1):
                    splits[i] = best_split(codes, levels, ordered, g, h, nodes[i][0])
        step = np.zeros((n, k))
        for i, stay in [(i, nodes[i][:2]) for i in open_] + ended:
            rows = nodes[i][0]
            v = rate * (w[rows, None] * (truth - p)[rows]).sum(axis=0)
            v /= (w[rows, None] * (p * (1 - p))[rows]).sum(axis=0) + RIDGE
            for here in stay:
                step[here] = v - v.mean()
        scores = scores + step
    return scores - base


@given(st.integers(0, 10_000), st.integers(2, 60), st.integers(1, 4), st.integers(2, 4), st.booleans(), st.booleans())
def test_each_round_is_a_tree_on_the_gradient_with_newton_steps_in_its_leaves(seed, n, d, k, weighted, unseen):
    codes, levels, ordered, y, weight, base, used = table(seed, n, d, k, weighted, unseen)
    rates = [0.1, 0.3, 1.0]
    grown = kernel.Boosting(
        codes, levels, ordered, y, weight, base, used, LEAVES, DEPTH, MIN_ROWS, RIDGE, SMOOTHING, seed
    )
    for rate in rates:
        grown.step(rate)
    column, left, right, parent, cut, mask, start, values = grown.trees(len(rates))
    forest.check_forest(column, left, right, parent, start, d)
    out = np.zeros((n, k))
    rows = np.ascontiguousarray(codes.T)
    forest.node_sums(rows, levels, ordered, column, left, right, cut, mask, start, values, 0, len(rates), out)
    expected = grown_by_hand(codes, levels, ordered, y, weight, base, used, seed, rates)
    np.testing.assert_allclose(out, expected, atol=1e-5)  # ties within rounding of single precision would show here
    w = np.ones(n) if weight is None else weight
    p = softmax(base + out)
    others = np.flatnonzero(used == 0)
    loss = -(w[others] * np.log(p[others, y[others]])).sum()
    np.testing.assert_allclose(grown.losses[-1], loss, atol=1e-8)


def test_labels_of_rows_that_are_not_used_do_not_matter():
    codes, levels, ordered, y, weight, base, used = table(1, 400, 5, 3)
    other = np.where(used, y, (y + 1) % 3).astype(np.int32)
    trees = []
    for labels in (y, other):
        grown = kernel.Boosting(codes, levels, ordered, labels, weight, base, used, 8, 8, 5, 1.0, 10.0, 0)
        for _ in range(5):
            grown.step(0.2)
        trees.append(grown.trees(5))
    assert all((a == b).all() for a, b in zip(*trees, strict=True))


def test_values_add_up_by_column():
    codes, levels, ordered, y, weight, base, used = table(2, 300, 5, 3, unseen=True)
    grown = kernel.Boosting(codes, levels, ordered, y, weight, base, used, 8, 8, 5, 1.0, 10.0, 0)
    for _ in range(4):
        grown.step(0.2)
    column, left, right, parent, cut, mask, start, values = grown.trees(4)
    rows, leaf = np.ascontiguousarray(codes.T), np.empty((300, 4), dtype=np.int32)
    where = rows, levels, ordered, column, left, right, cut, mask, start
    forest.leaves(*where, leaf)
    total, each, rest = np.zeros((300, 3)), np.zeros((300, 5, 3)), np.zeros((300, 3))
    forest.node_sums(*where, values, 0, 4, total)
    np.testing.assert_allclose(total, values[leaf].sum(axis=1), atol=1e-14)
    forest.value_terms(leaf, column, parent, values, each, rest)
    np.testing.assert_allclose(each.sum(axis=1) + rest, total, atol=1e-12)
    np.testing.assert_allclose(rest, np.broadcast_to(values[start[:-1]].sum(axis=0), rest.shape), atol=1e-14)
    assert not each[codes.T == UNSEEN].any(), "a value that was never seen is no evidence"
    two = np.zeros((300, 3))
    forest.node_sums(*where, values, 1, 3, two)
    np.testing.assert_allclose(two, values[leaf[:, 1:3]].sum(axis=1), atol=1e-14)


def test_more_trees_are_the_first_ones_again():
    codes, levels, ordered, y, weight, base, used = table(3, 200, 4, 3)
    grown = kernel.Boosting(codes, levels, ordered, y, weight, base, used, 8, 8, 5, 1.0, 10.0, 0)
    assert len(grown.trees(0)[0]) == 0
    for _ in range(3):
        grown.step(0.2)
    two, three = grown.trees(2), grown.trees(3)
    size = two[6][-1]
    assert all((a == b[: len(a)]).all() for a, b in zip(two, three, strict=True))
    assert len(two[0]) == size < len(three[0])


def test_rows_without_columns_or_without_a_split_shift_the_class_balance():
    y, used = np.array([0, 1, 1, 1], dtype=np.int32), np.ones(4, dtype=np.uint8)
    none = np.zeros(0, dtype=np.int32)
    grown = kernel.Boosting(
        np.zeros((0, 4), np.uint8), none, none.astype(np.uint8), y, None, np.zeros((4, 2)), used, 8, 8, 1, 1.0, 0.0, 0
    )
    grown.step(1.0)
    values = grown.trees(1)[-1]
    np.testing.assert_allclose(values, [[-0.5, 0.5]])  # Σ(1 − p) = 1 of 4 · ¼ + 1
    assert grown.losses == [0.0]


BAD = {
    "a code": {"codes": np.array([[0, 9]], np.uint8)},
    "a label": {"y": np.array([0, 2], np.int32)},
    "a label below 0": {"y": np.array([0, -1], np.int32)},
    "a score of the own class": {"base": np.array([[-np.inf, 0.0], [0.0, 0.0]])},
    "the rows of scores": {"base": np.zeros((3, 2))},
    "one class": {"base": np.zeros((2, 1)), "y": np.zeros(2, np.int32)},
    "the ridge": {"ridge": 0.0},
    "leaves": {"max_leaves": 0},
    "levels": {"levels": np.array([300], np.int32)},
}


@pytest.mark.parametrize("what", BAD)
def test_what_cannot_be_is_refused(what):
    good = {
        "codes": np.array([[0, 1]], np.uint8),
        "levels": np.array([2], np.int32),
        "ordered": np.array([1], np.uint8),
        "y": np.array([0, 1], np.int32),
        "weight": None,
        "base": np.zeros((2, 2)),
        "used": np.ones(2, np.uint8),
        "max_leaves": 4,
        "max_depth": 4,
        "min_rows": 1,
        "ridge": 1.0,
        "smoothing": 1.0,
        "seed": 0,
    }
    kernel.Boosting(*good.values()).step(0.1)
    with pytest.raises(ValueError):  # noqa: PT011  # which value is named varies
        kernel.Boosting(*(good | BAD[what]).values())


@given(st.integers(0, 2**32 - 1), st.integers(2, 9), st.booleans())
def test_values_of_kept_trees_are_newton_steps(seed, k, weighted):
    codes, levels, ordered, y, weight, base, used = table(seed, 60, 3, k, weighted, unseen=True)
    grown = kernel.Boosting(codes, levels, ordered, y, weight, base, used, LEAVES, DEPTH, MIN_ROWS, RIDGE, SMOOTHING, 1)
    for _ in range(3):
        grown.step(0.2)
    column, left, right, parent, cut, mask, start, _ = grown.trees(3)
    leaf = np.empty((60, 3), dtype=np.int32)
    forest.leaves(np.ascontiguousarray(codes.T), levels, ordered, column, left, right, cut, mask, start, leaf)
    leaf, rates, ridges = leaf.T, np.array([[0.1, 0.2, 0.3], [0.5] * 3]), np.array([1.0, 3.0])
    base, w = np.random.default_rng(seed).normal(size=(60, k)), np.ones(60) if weight is None else weight.copy()
    base[:5] = -np.inf  # these do not count
    values = grown.refit(base, rates, ridges)
    expected, scores = np.zeros_like(values), np.where(np.isfinite(base), base, 0.0)
    w[:5] = 0.0
    for own_rates, ridge in zip(rates, ridges, strict=True):
        for t, rate in enumerate(own_rates):
            p, steps = softmax(scores), np.zeros_like(values)
            for node in range(start[t], start[t + 1]):
                above = leaf[t].copy()  # every row, at the node on its way to its leaf, if it comes by
                while (above > node).any():
                    above = np.where(above > node, parent[above], above)
                at = above == node
                g = (w[:, None] * (np.eye(k)[y] - p))[at].sum(axis=0)
                h = (w[:, None] * p * (1 - p))[at].sum(axis=0)
                steps[node] = rate * g / (h + ridge)
                steps[node] -= steps[node].mean()
            expected += steps
            scores += steps[leaf[t]]
    np.testing.assert_allclose(values, expected, atol=1e-9)


def test_what_kept_trees_are_fitted_to_is_checked():
    grown = kernel.Boosting(*table(4, 50, 3, 3), LEAVES, DEPTH, MIN_ROWS, RIDGE, SMOOTHING, 1)
    grown.step(0.1)
    good = {"base": np.zeros((50, 3)), "rates": np.ones((1, 1)), "ridges": np.ones(1)}
    assert grown.refit(**good).shape == grown.trees(1)[-1].shape
    assert grown.refit(**good | {"rates": np.ones((1, 0))}).shape == (0, 3)
    for bad, message in (
        ({"base": np.zeros((49, 3))}, "50 rows"),
        ({"base": np.zeros((50, 2))}, "3 classes"),
        ({"rates": np.ones((1, 2))}, "1 trees"),
        ({"rates": np.full((1, 1), np.nan)}, "finite"),
        ({"rates": np.ones((2, 1))}, "2 passes"),
        ({"ridges": np.zeros(1)}, "positive"),
    ):
        with pytest.raises(ValueError, match=message):
            grown.refit(**(good | bad))


@pytest.mark.parametrize("k", [2, 5, 9, 14])
def test_a_class_that_was_ruled_out_can_come_back(k):
    """Posteriors are multiplied, and never become 0: scores far apart, and steps that nothing holds back."""
    n = 40
    codes, y = np.arange(n, dtype=np.uint8)[None] % 4, (np.arange(n) % 4 % k).astype(np.int32)
    base = np.zeros((n, k))
    base[np.arange(n), (y + 1) % k] = 5000.0  # as good as certain, and wrong
    used = (np.arange(n) % 8 < 4).astype(np.uint8)
    grown = kernel.Boosting(
        codes, np.array([4], np.int32), np.zeros(1, np.uint8), y, None, base, used, 4, 3, 1, 1e-3, 1.0, 0
    )
    assert grown.start == pytest.approx(20 * 300 * np.log(10))
    for _ in range(4):
        grown.step(1.0)
    assert grown.losses[-1] < 0.1
    refitted = grown.refit(base, np.ones((2, 4)), np.full(2, 1e-3))
    assert np.isfinite(refitted).all()
