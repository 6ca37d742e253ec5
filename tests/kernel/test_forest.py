"""Trees over small codes and the evidence of their leaves, against their definitions in plain Python."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import log, sqrt
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deciban._kernel import forest as kernel

UNSEEN = 255
RESIDUE = 2.0**-30
ROUNDING = 2.0**-40
UINT64_MASK = 2**64 - 1


@dataclass
class Sample:
    """Rows of codes, their classes and weights, and how trees are to be grown on them."""

    codes: np.ndarray
    levels: np.ndarray
    ordered: np.ndarray
    y: np.ndarray
    weight: np.ndarray | None
    k: int
    tries: int = 1
    least: float = 1.0
    deepest: int = 30
    seed: int = 0

    @property
    def n(self) -> int:
        return len(self.codes)

    @property
    def d(self) -> int:
        return self.codes.shape[1]

    def grow(self, rows=None):
        rows = np.arange(self.n, dtype=np.int32) if rows is None else np.asarray(rows, dtype=np.int32)
        how = self.k, self.tries, self.least, self.deepest, self.seed
        start = np.zeros(2, dtype=np.int32)
        grown = kernel.grow(self.codes, self.levels, self.ordered, self.y, self.weight, rows, *how)
        start[1] = len(grown[0])
        return named(*grown, start)

    def grow_forest(self, member, first_tree=0):
        how = self.k, self.tries, self.least, self.deepest, self.seed, first_tree
        return named(*kernel.grow_forest(self.codes, self.levels, self.ordered, self.y, self.weight, member, *how))

    def leaves(self, forest, codes=None):
        codes = self.codes if codes is None else codes
        out = np.full((len(codes), len(forest.start) - 1), -7, dtype=np.int32)
        f = forest
        where = f.column, f.left, f.right, f.cut, f.mask, f.start
        kernel.leaves(codes, self.levels, self.ordered, *where, out)
        return out


def named(column, left, right, parent, cut, mask, start):
    """A forest's arrays by name."""
    return SimpleNamespace(column=column, left=left, right=right, parent=parent, cut=cut, mask=mask, start=start)


WHOLE_WEIGHTS = (0.0, 1.0, 2.0, 3.0)
REAL_WEIGHTS = (0.0, 0.25, 0.3, 1.0, 7.1)


@st.composite
def samples(draw, most_classes=4, weights=(None, WHOLE_WEIGHTS, REAL_WEIGHTS), unseen=True, least_rows=0):
    """Small tables: constant columns, copies of a column, missing and unseen values, unknown labels."""
    rng = np.random.default_rng(draw(st.integers(0, 100_000)))
    n, d, k = draw(st.integers(least_rows, 60)), draw(st.integers(1, 5)), draw(st.integers(1, most_classes))
    levels = rng.choice([1, 2, 3, 6, 40, 255], d).astype(np.int32)
    ordered = rng.integers(0, 2, d).astype(np.uint8)
    y = rng.integers(0, k, n).astype(np.int32)
    codes = (rng.random((n, d)) * levels).astype(np.uint8)
    for j in range(d):  # most columns are informative
        if rng.random() < 0.7:
            informative = rng.random(n) < 0.6
            codes[informative, j] = (y[informative] * 7 + rng.integers(0, 2, informative.sum())) % levels[j]
    if d > 1 and rng.random() < 0.3:
        codes[:, -1], levels[-1], ordered[-1] = codes[:, 0], levels[0], ordered[0]
    if unseen:
        codes[rng.random((n, d)) < 0.05] = UNSEEN
    y[rng.random(n) < 0.1] = -1
    kind = draw(st.sampled_from(weights))
    weight = None if kind is None else rng.choice(kind, n).astype(float)
    how = {
        "tries": draw(st.integers(1, d + 1)),
        "least": draw(st.sampled_from([0.0, 1.0, 2.0, 5.0])),
        "deepest": draw(st.sampled_from([0, 1, 3, 30])),
        "seed": draw(st.sampled_from([0, 1, 12345678901234567890])),
    }
    return Sample(codes, levels, ordered, y, weight, k, **how)


# How trees grow, by hand.


def mixed_bits(x):
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & UINT64_MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & UINT64_MASK
    return x ^ (x >> 31)


class RandomStream:
    def __init__(self, seed, tree):
        self.state = mixed_bits((seed + 0x9E3779B97F4A7C15 * (tree + 1)) & UINT64_MASK)

    def drawn(self, below):
        self.state = (self.state + 0x9E3779B97F4A7C15) & UINT64_MASK
        return ((mixed_bits(self.state) >> 32) * below) >> 32


def weighted_entropy(by_class):
    """n times the entropy of counts that add up to n."""
    total = sum(by_class)
    return sum(-c * log(c / total) for c in by_class if c > 0)


def by_value(s, j, rows, weight):
    """The node's weights by value and class; rows whose value was never seen are in none."""
    lines = {}
    for i in rows:
        if s.codes[i, j] != UNSEEN:
            line = lines.setdefault(int(s.codes[i, j]), [0.0] * s.k)
            line[s.y[i]] += weight[i]
    return lines


def gain_of(lines, left):
    """The information about the class in whether the value is one of `left`."""
    whole, one, other = ([sum(column) for column in zip(*part, strict=True)] for part in parts(lines, left))
    return weighted_entropy(whole) - weighted_entropy(one) - weighted_entropy(other)


def parts(lines, left):
    empty = [0.0] * len(next(iter(lines.values())))
    return (
        list(lines.values()),
        [line for v, line in lines.items() if v in left] or [empty],
        [line for v, line in lines.items() if v not in left] or [empty],
    )


def ranked(lines, ordered, present):
    """A column's values in the order in which they are cut; `present` are the node's classes."""
    values = sorted(lines)
    if ordered or len(values) < 3:
        return values
    share = {v: [lines[v][c] / sum(lines[v]) for c in present] for v in values}
    if len(present) == 2:
        return sorted(values, key=lambda v: (share[v][1], v))
    weight = {v: sum(lines[v]) for v in values}
    total = sum(weight.values())
    mean = [sum(lines[v][c] for v in values) / total for c in present]
    off = {v: [a - b for a, b in zip(share[v], mean, strict=True)] for v in values}
    far, direction = 0.0, off[values[0]]
    for v in values:
        square = weight[v] * sum(x * x for x in off[v])
        if square > far * (1 + ROUNDING):
            far, direction = square, off[v]
    for _ in range(8):
        score = {v: sum(a * b for a, b in zip(direction, off[v], strict=True)) for v in values}
        turned = [sum(weight[v] * score[v] * off[v][c] for v in values) for c in range(len(present))]
        length = sqrt(sum(x * x for x in turned))
        if length == 0:
            break
        direction = [x / length for x in turned]
    score = {v: sum(a * b for a, b in zip(direction, off[v], strict=True)) for v in values}
    farthest = max(abs(x) for x in score.values()) or 1.0
    return sorted(values, key=lambda v: (round(score[v] / farthest * 2**32), v))


def best_cut(lines, order, least):
    """The first cut of the values in this order with the greatest gain: how many go left, and the gain."""
    weight = sum(sum(line) for line in lines.values())
    tie = ROUNDING * weight * (1 + abs(log(weight)))
    best = None
    for many in range(1, len(order)):
        left = set(order[:many])
        gain = gain_of(lines, left)
        heavy = sum(sum(lines[v]) for v in left)
        enough = heavy >= least * (1 - RESIDUE) and weight - heavy >= least * (1 - RESIDUE)
        if enough and gain > (tie if best is None else best[1] + tie):
            best = many, gain
    return best, tie


def grown_by_hand(s, rows, tree=0):
    """The tree as nested lists in the order in which nodes are numbered: column, left values, parent."""
    dice, columns = RandomStream(s.seed, tree), list(range(s.d))
    weight = np.ones(s.n) if s.weight is None else s.weight
    rows = [i for i in rows if s.y[i] >= 0 and weight[i] > 0]
    nodes = [{"column": -1, "parent": -1}]
    waiting = [(0, rows, 0)]
    while waiting:
        at, rows, depth = waiting.pop()
        present = sorted({int(s.y[i]) for i in rows})
        if depth >= s.deepest or len(present) < 2:
            continue
        best = None
        tried = 0
        while tried < s.d and (tried < s.tries or best is None):
            chosen = tried + dice.drawn(s.d - tried)
            columns[tried], columns[chosen] = columns[chosen], columns[tried]
            j = columns[tried]
            tried += 1
            lines = by_value(s, j, rows, weight)
            if len(lines) < 2:
                continue
            order = ranked(lines, s.ordered[j], present)
            chosen_cut, tie = best_cut(lines, order, s.least)
            if chosen_cut is None:
                continue
            many, gain = chosen_cut
            if best is None or gain > best[0] + tie or (gain >= best[0] - tie and j < best[1]):
                best = gain, j, order[:many], order[many:], lines
        if best is None:
            continue
        _, j, left, right, lines = best
        most_go_left = sum(sum(lines[v]) for v in left) >= sum(sum(lines[v]) for v in right)
        if s.ordered[j]:
            cut = 0 if left[-1] == 0 else (left[-1] + right[0]) // 2
            goes_left = set(range(cut + 1))
        else:
            cut = 0
            goes_left = set(left) | (set(range(UNSEEN)) - set(right) if most_go_left else set())
        one, other = len(nodes), len(nodes) + 1
        nodes[at] |= {"column": j, "left": one, "right": other, "cut": cut, "goes_left": goes_left}
        nodes += [{"column": -1, "parent": at}, {"column": -1, "parent": at}]
        known = [i for i in rows if s.codes[i, j] != UNSEEN]
        waiting.append((other, [i for i in known if s.codes[i, j] not in goes_left], depth + 1))
        waiting.append((one, [i for i in known if s.codes[i, j] in goes_left], depth + 1))
    return nodes


def same_tree(forest, nodes, ordered):
    assert forest.column.tolist() == [node["column"] for node in nodes]
    assert forest.parent.tolist() == [node["parent"] for node in nodes]
    assert forest.left.tolist() == [node.get("left", -1) for node in nodes]
    assert forest.right.tolist() == [node.get("right", -1) for node in nodes]
    assert forest.cut.tolist() == [node.get("cut", 0) for node in nodes]
    for node, bits in zip(nodes, forest.mask, strict=True):
        mine = set() if node["column"] < 0 or ordered[node["column"]] else node["goes_left"]
        assert {v for v in range(256) if int(bits[v // 64]) >> (v % 64) & 1} == mine


def leaf_by_hand(nodes, row):
    """The node where a row ends: a leaf, or a split on a value that was never seen."""
    at = 0
    while nodes[at]["column"] >= 0 and row[nodes[at]["column"]] != UNSEEN:
        at = nodes[at]["left" if row[nodes[at]["column"]] in nodes[at]["goes_left"] else "right"]
    return at


@given(samples())
def test_a_tree_follows_the_rules(s):
    nodes = grown_by_hand(s, range(s.n))
    forest = s.grow()
    same_tree(forest, nodes, s.ordered)
    kernel.check_forest(forest.column, forest.left, forest.right, forest.parent, forest.start, s.d)
    anything = s.codes.copy()
    rng = np.random.default_rng(0)
    for j in range(s.d):  # also values that the tree has not seen
        anything[:, j] = np.where(rng.random(s.n) < 0.1, UNSEEN, rng.integers(0, s.levels[j], s.n))
    assert s.leaves(forest)[:, 0].tolist() == [leaf_by_hand(nodes, row) for row in s.codes]
    assert s.leaves(forest, anything)[:, 0].tolist() == [leaf_by_hand(nodes, row) for row in anything]


@given(samples(least_rows=1, weights=(None, WHOLE_WEIGHTS)))
def test_rows_count_as_often_as_they_are_named(s):
    rows = np.random.default_rng(1).integers(0, s.n, 2 * s.n)
    same_tree(s.grow(rows), grown_by_hand(s, rows.tolist()), s.ordered)
    often = np.bincount(rows, minlength=s.n).astype(float)
    weighted = Sample(**{**vars(s), "weight": often if s.weight is None else s.weight * often})
    forest, other = s.grow(rows), weighted.grow()
    assert all(np.array_equal(getattr(forest, name), getattr(other, name)) for name in vars(forest))


@given(samples(), st.integers(0, 5))
def test_a_forest_is_its_trees(s, trees):
    member = (np.random.default_rng(2).random((s.n, trees)) < 0.6).astype(np.uint8)
    forest = s.grow_forest(member)
    kernel.check_forest(forest.column, forest.left, forest.right, forest.parent, forest.start, s.d)
    assert len(forest.start) == trees + 1
    leaf = s.leaves(forest)
    for t in range(trees):
        here = slice(forest.start[t], forest.start[t + 1])
        alone = s.grow_forest(member[:, t : t + 1], first_tree=t)
        shift = forest.start[t]
        nodes = grown_by_hand(s, np.flatnonzero(member[:, t]).tolist(), tree=t)
        same_tree(alone, nodes, s.ordered)
        for name in ("column", "cut", "mask"):
            assert np.array_equal(getattr(forest, name)[here], getattr(alone, name))
        for name in ("left", "right", "parent"):
            own = getattr(alone, name)
            assert np.array_equal(getattr(forest, name)[here], np.where(own < 0, -1, own + shift))
        assert np.array_equal(leaf[:, t] - shift, s.leaves(alone)[:, 0])


@given(samples(most_classes=2, weights=(None, REAL_WEIGHTS), unseen=False, least_rows=4))
def test_the_first_split_gains_as_much_as_any_can(s):
    """With two classes, no set of values is better than those tried."""
    s = Sample(**{**vars(s), "tries": s.d, "least": 0.0, "deepest": 1, "levels": np.minimum(s.levels, 6)})
    s.codes %= s.levels.astype(np.uint8)
    weight = np.ones(s.n) if s.weight is None else s.weight
    rows = [i for i in range(s.n) if s.y[i] >= 0 and weight[i] > 0]
    best = 0.0
    tables = [by_value(s, j, rows, weight) for j in range(s.d)]
    for lines, ordered in zip(tables, s.ordered, strict=True):
        values = sorted(lines)
        for many in range(1, len(values)):
            for left in [values[:many]] if ordered else combinations(values, many):
                best = max(best, gain_of(lines, set(left)))
    forest = s.grow()
    if forest.column[0] < 0:
        assert best < 1e-9  # rounding error of a gain of 0, with weights of some tens
        return
    leaf = s.leaves(forest)[:, 0]
    lines = by_value(s, forest.column[0], rows, weight)
    left = {int(s.codes[i, forest.column[0]]) for i in rows if leaf[i] == forest.left[0]}
    assert gain_of(lines, left) == pytest.approx(best, abs=1e-9)


def test_many_classes_are_cut_nearly_as_well_as_can_be():
    """With more than two classes, an order may miss the best set of values, but not by much."""
    rng = np.random.default_rng(3)
    reached = []
    for _ in range(40):
        k, values = int(rng.integers(3, 6)), 7
        law = rng.dirichlet(np.full(k, 0.5), values)
        codes = rng.integers(0, values, (300, 1)).astype(np.uint8)
        y = np.array([rng.choice(k, p=law[v]) for v in codes[:, 0]], dtype=np.int32)
        s = Sample(codes, np.array([values], np.int32), np.zeros(1, np.uint8), y, None, k, deepest=1)
        lines = by_value(s, 0, range(300), np.ones(300))
        best = max(gain_of(lines, set(left)) for many in range(1, 4) for left in combinations(range(values), many))
        forest = s.grow()
        goes = {int(v) for v in codes[s.leaves(forest)[:, 0] == 1, 0]}
        reached.append(gain_of(lines, goes) / best)
    assert np.mean(reached) > 0.97  # measured: 0.993, and 0.87 at worst
    assert min(reached) > 0.8


def test_ties_go_to_the_lowest_column_and_the_lowest_cut():
    y = np.array([0, 0, 1, 1, 0, 0], dtype=np.int32)
    column = np.array([1, 1, 2, 2, 3, 3], dtype=np.uint8)  # cuts after 1 and after 2 gain the same
    codes = np.stack([np.ones(6, np.uint8), column, 4 - column, column], axis=1)
    for seed in range(20):
        s = Sample(codes, np.full(4, 5, np.int32), np.ones(4, np.uint8), y, None, 2, tries=4, deepest=1, seed=seed)
        forest = s.grow()
        assert forest.column[0] == 1
        assert forest.cut[0] == 1


def test_columns_are_drawn_evenly_and_by_seed():
    """Five columns that are alike, one try each: over many seeds each is drawn as often as the others."""
    y = np.array([0, 1] * 4, dtype=np.int32)
    codes = np.repeat((y + 1).astype(np.uint8)[:, None], 5, axis=1)
    how = np.full(5, 3, np.int32), np.ones(5, np.uint8), y, None, 2
    first = [Sample(codes, *how, seed=seed).grow().column[0] for seed in range(1000)]
    assert first == [Sample(codes, *how, seed=seed).grow().column[0] for seed in range(1000)]
    # 200 are expected of each; 60 off is 4.7 standard deviations of a binomial count
    assert np.abs(np.bincount(first, minlength=5) - 200).max() < 60
    trees = Sample(codes, *how).grow_forest(np.ones((8, 1000), np.uint8))
    assert np.abs(np.bincount(trees.column[trees.start[:-1]], minlength=5) - 200).max() < 60


def test_columns_that_cannot_split_are_passed_over():
    y = np.array([0, 1] * 4, dtype=np.int32)
    codes = np.ones((8, 30), dtype=np.uint8)
    codes[:, 17] = y
    for seed in range(10):
        s = Sample(codes, np.full(30, 2, np.int32), np.ones(30, np.uint8), y, None, 2, tries=1, seed=seed)
        assert s.grow().column.tolist() == [17, -1, -1]


def test_missing_is_split_off_where_that_gains_most():
    codes = np.array([[0], [0], [0], [9], [30], [31]], dtype=np.uint8)
    s = Sample(codes, np.array([40], np.int32), np.ones(1, np.uint8), np.array([1, 1, 1, 0, 0, 0], np.int32), None, 2)
    forest = s.grow()
    assert forest.cut.tolist() == [0, 0, 0]
    assert s.leaves(forest, np.array([[0], [1], [39], [UNSEEN]], np.uint8))[:, 0].tolist() == [1, 2, 2, 0]


def test_a_row_ends_where_a_value_that_was_never_seen_is_asked_for():
    """Column 0 tells the class, and column 1 does where column 0 is 3: one is ordered, the other is not."""
    codes = np.array([[1, 1], [1, 2], [1, 1], [1, 2], [3, 1], [3, 2]] * 3, dtype=np.uint8)
    y = ((codes[:, 0] == 3) & (codes[:, 1] == 2)).astype(np.int32)
    levels = np.full(2, 4, np.int32)
    asked = np.array([[1, UNSEEN], [3, UNSEEN], [UNSEEN, 1], [UNSEEN, 2], [UNSEEN, UNSEEN], [3, 2]], np.uint8)
    for ordered in ([1, 0], [0, 1]):
        s = Sample(codes, levels, np.array(ordered, np.uint8), y, None, 2, tries=2)
        forest = s.grow()
        assert forest.column.tolist() == [0, -1, 1, -1, -1]
        assert s.leaves(forest, asked)[:, 0].tolist() == [1, 2, 0, 0, 0, 4]
        labels = np.append(y, [0, 1, 0, 1, 0]).astype(np.int32)
        more = Sample(**{**vars(s), "codes": np.vstack([codes, asked[:5]]), "y": labels})
        leaf = more.leaves(more.grow())[:, 0]
        assert leaf[-5:].tolist() == [1, 2, 0, 0, 0], "trees that grow on such rows stop them too"
        assert np.bincount(leaf).tolist() == [3, 13, 1, 3, 3]


def test_trees_without_rows_columns_or_two_classes_are_leaves():
    one = np.ones((3, 1), np.uint8)
    levels, ordered = np.array([2], np.int32), np.ones(1, np.uint8)
    for y in ([0, 0, 0], [-1, -1, -1], [0, -1, 0]):
        s = Sample(one, levels, ordered, np.array(y, np.int32), None, 2)
        assert s.grow().column.tolist() == [-1]
        assert s.grow([]).column.tolist() == [-1]
        assert s.leaves(s.grow()).tolist() == [[0], [0], [0]]
    bare = Sample(np.empty((3, 0), np.uint8), levels[:0], ordered[:0], np.array([0, 1, 0], np.int32), None, 2)
    assert bare.leaves(bare.grow()).tolist() == [[0], [0], [0]]


# Evidence of leaves, by hand.


def path(forest, leaf):
    nodes = []
    while leaf >= 0:
        nodes.append(int(leaf))
        leaf = forest.parent[leaf]
    return nodes[::-1]


def node_probabilities(forest, counts, prior, strength, leaf):
    """P(class given node), node by node from the root to the leaf."""
    p, steps = prior, []
    for node in path(forest, leaf):
        p = (counts[node] + strength * p) / (counts[node].sum() + strength)
        steps.append(p)
    return steps


def evidence_by_hand(forest, counts, prior, strength, leaf, use, geometric):
    """One row's evidence from the trees `use`."""
    laws = np.array([node_probabilities(forest, counts, prior, strength, leaf[t])[-1] for t in use])
    if not len(laws):
        return np.zeros(len(prior))
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.log(laws).mean(axis=0) if geometric else np.log(laws.mean(axis=0))
        return np.where(prior > 0, mean - np.log(prior), 0.0)


@dataclass
class Grown:
    """A forest and the counts of its nodes."""

    s: Sample
    forest: SimpleNamespace
    member: np.ndarray
    leaf: np.ndarray
    counts: np.ndarray
    prior: np.ndarray

    def evidence(self, leaf=None, member=None, own=None, weight=None, geometric=False, table=None, strength=0.7):
        leaf = self.leaf if leaf is None else leaf
        out = np.full((len(leaf), self.s.k), np.nan)
        f = self.forest
        kernel.evidence(
            leaf, f.parent, self.counts, self.prior, strength, member, own, weight, geometric, out, table=table
        )
        return out


def grown(s, trees=4, seed=0, prior=None):
    rng = np.random.default_rng(seed)
    member = (rng.random((s.n, trees)) < 0.6).astype(np.uint8)
    forest = s.grow_forest(member)
    leaf = s.leaves(forest)
    counts = np.zeros((len(forest.column), s.k))
    kernel.node_counts(leaf, s.y, s.weight, forest.parent, counts)
    if prior is None:
        prior = rng.dirichlet(np.ones(s.k))
        if s.k > 2:
            prior[0] = 0.0  # a class that is not expected
            prior /= prior.sum()
    return Grown(s, forest, member, leaf, counts, prior)


@given(samples(), st.integers(0, 4))
def test_counts_add_up(s, trees):
    g = grown(s, trees)
    weight = np.ones(s.n) if s.weight is None else s.weight
    by_hand = np.zeros_like(g.counts)
    for i in np.flatnonzero(s.y >= 0):
        for leaf in g.leaf[i]:
            for node in path(g.forest, leaf):
                by_hand[node, s.y[i]] += weight[i]
    np.testing.assert_allclose(g.counts, by_hand, rtol=1e-12, atol=0)
    inner = np.flatnonzero(g.forest.column >= 0)
    children = g.counts[g.forest.left[inner]] + g.counts[g.forest.right[inner]]
    ended = np.zeros_like(g.counts)  # rows with a value that was never seen stay at inner nodes
    for i in np.flatnonzero(s.y >= 0):
        ended[g.leaf[i], s.y[i]] += weight[i]
    np.testing.assert_allclose(g.counts[inner], children + ended[inner], rtol=1e-12, atol=0)
    again = g.counts.copy()
    for i in range(s.n):  # a row at a time goes another way than all at once
        taken = None if s.weight is None else -s.weight[i : i + 1]
        if taken is None:
            taken = np.array([-1.0])
        kernel.node_counts(g.leaf[i : i + 1], s.y[i : i + 1], taken, g.forest.parent, again)
    np.testing.assert_allclose(again, 0.0, atol=1e-12 * max(1.0, weight.sum()))


@given(samples(), st.booleans(), st.booleans(), st.sampled_from([1e-3, 0.7, 50.0]))
def test_evidence_is_the_mean_of_paths(s, geometric, left_out, strength):
    g = grown(s)
    member = g.member if left_out else None
    got = g.evidence(member=member, geometric=geometric, strength=strength)
    for i in range(s.n):
        use = [t for t in range(4) if not (left_out and g.member[i, t])]
        expected = evidence_by_hand(g.forest, g.counts, g.prior, strength, g.leaf[i], use, geometric)
        np.testing.assert_allclose(got[i], expected, rtol=1e-10, atol=1e-10)
    table = np.empty_like(g.counts)
    kernel.probabilities(g.forest.parent, g.counts, g.prior, strength, table)
    np.testing.assert_allclose(table.sum(axis=1), 1.0, rtol=1e-12)
    asked = [
        g.evidence(
            g.leaf[i : i + 1], None if member is None else member[i : i + 1], geometric=geometric, strength=strength
        )
        for i in range(s.n)
    ]
    with_table = g.evidence(member=member, geometric=geometric, table=table, strength=strength)
    np.testing.assert_allclose(with_table, got, rtol=1e-12, atol=1e-12)
    if s.n:
        np.testing.assert_allclose(np.concatenate(asked), got, rtol=1e-10, atol=1e-10)


@given(samples(least_rows=1), st.booleans(), st.booleans(), st.sampled_from([1e-3, 0.7, 50.0]))
def test_leaving_a_row_out_is_never_having_counted_it(s, geometric, left_out, strength):
    g = grown(s)
    member = g.member if left_out else None
    got = g.evidence(member=member, own=s.y, weight=s.weight, geometric=geometric, strength=strength)
    for i in range(s.n):
        y = s.y.copy()
        y[i] = -1
        counts = np.zeros_like(g.counts)
        kernel.node_counts(g.leaf, y, s.weight, g.forest.parent, counts)
        use = [t for t in range(4) if not (left_out and g.member[i, t])]
        expected = evidence_by_hand(g.forest, counts, g.prior, strength, g.leaf[i], use, geometric)
        # a sum of weights up to 7.1 less one of them keeps 1e-15 of what it was, and a class with little left shows it
        np.testing.assert_allclose(got[i], expected, rtol=1e-9, atol=1e-9)
    few = slice(0, 3)
    alone = g.evidence(
        g.leaf[few],
        None if member is None else member[few],
        s.y[few],
        None if s.weight is None else s.weight[few],
        geometric,
        strength=strength,
    )
    np.testing.assert_allclose(alone, got[few], rtol=1e-10, atol=1e-10)


def test_a_class_of_which_a_row_is_all_keeps_its_digits():
    """Thirty splits above it, a small strength: the row's own class has far less weight without it."""
    codes = np.arange(1, 31, dtype=np.uint8)[:, None]
    y = (np.arange(30) % 2).astype(np.int32)
    s = Sample(codes, np.array([31], np.int32), np.ones(1, np.uint8), y, None, 2, deepest=60)
    g = grown(s, trees=1, prior=np.array([0.5, 0.5]))
    got = g.evidence(own=s.y, strength=1e-9)
    counts = g.counts.copy()
    for i in range(s.n):
        counts[path(g.forest, g.leaf[i, 0]), y[i]] -= 1
        expected = evidence_by_hand(g.forest, counts, g.prior, 1e-9, g.leaf[i], [0], False)
        counts[path(g.forest, g.leaf[i, 0]), y[i]] += 1
        np.testing.assert_allclose(got[i], expected, rtol=1e-12, atol=1e-14)  # atol: log p near p = 1


def test_what_rounding_leaves_of_a_count_is_nothing():
    """A sum after addition and subtraction is not exactly the row's weight, which a small strength would magnify."""
    count = 0.1 + 0.2 - 0.2
    assert count > 0.1
    out = np.empty((1, 2))
    kernel.evidence(
        np.zeros((1, 1), np.int32),
        np.full(1, -1, np.int32),
        np.array([[count, 0.0]]),
        np.array([0.5, 0.5]),
        1e-15,
        None,
        np.zeros(1, np.int32),
        np.array([0.1]),
        False,
        out,
    )
    assert out.tolist() == [[0.0, 0.0]]


def test_evidence_stays_finite_where_probabilities_end():
    """A chain of nodes that hold one class, hardly any strength: the other class's probability is below any double."""
    m = 400
    parent = np.arange(-1, m - 1, dtype=np.int32)
    counts = np.tile([1e6, 0.0], (m, 1))
    out = np.empty((1, 2))
    for geometric in (False, True):
        kernel.evidence(
            np.array([[m - 1]], np.int32), parent, counts, np.array([0.5, 0.5]), 1e-3, None, None, None, geometric, out
        )
        assert np.isfinite(out).all()
        assert out[0, 1] == pytest.approx(log(2.2250738585072014e-308) - log(0.5))


def test_a_class_without_counts_is_fine():
    s = Sample(
        np.array([[1], [2]], np.uint8),
        np.array([3], np.int32),
        np.ones(1, np.uint8),
        np.array([0, 1], np.int32),
        None,
        3,
    )
    g = grown(s, trees=2, prior=np.array([0.4, 0.4, 0.2]))
    assert np.isfinite(g.evidence()).all()
    assert np.isfinite(g.evidence(own=s.y, geometric=True)).all()


@given(samples(least_rows=1))
def test_terms_add_up_to_the_geometric_evidence(s):
    g = grown(s)
    whole = g.evidence(geometric=True)
    each, rests = np.full((s.n, s.d, s.k), np.nan), np.full((s.n, s.k), np.nan)
    leaf = np.ascontiguousarray(g.leaf)
    kernel.terms(leaf, g.forest.column, g.forest.parent, g.counts, g.prior, 0.7, None, each, rests)
    np.testing.assert_allclose(each.sum(axis=1) + rests, whole, rtol=1e-10, atol=1e-10)
    for i in range(min(s.n, 10)):
        out = each[i]
        by_hand = np.zeros((s.d, s.k))
        for leaf in g.leaf[i]:
            nodes, steps = path(g.forest, leaf), node_probabilities(g.forest, g.counts, g.prior, 0.7, leaf)
            for above, before, after in zip(nodes, steps, steps[1:], strict=False):
                with np.errstate(divide="ignore", invalid="ignore"):
                    change = np.log(after) - np.log(before)
                by_hand[g.forest.column[above]] += np.where(g.prior > 0, change, 0.0) / len(g.leaf[i])
        np.testing.assert_allclose(out, by_hand, rtol=1e-10, atol=1e-10)


def test_slices_of_rows_and_trees_give_the_same():
    """Views with strides, as threads are given them."""
    rng = np.random.default_rng(5)
    codes = rng.integers(0, 9, (700, 6)).astype(np.uint8)
    y = ((codes[:, 0] > 4) ^ (codes[:, 1] > 3) ^ (rng.random(700) < 0.2)).astype(np.int32)
    s = Sample(codes, np.full(6, 9, np.int32), np.array([1, 0] * 3, np.uint8), y, None, 2, tries=2)
    g = grown(s, trees=6)
    some, wide = g.leaf[100:300, 1:5], np.full((200, 2, 2), np.nan)
    kernel.evidence(
        some, g.forest.parent, g.counts, g.prior, 0.7, g.member[100:300, 1:5], y[100:300], None, False, wide[:, 1]
    )
    copied = g.evidence(some.copy(), g.member[100:300, 1:5].copy(), y[100:300])
    assert np.array_equal(wide[:, 1], copied)
    assert np.isnan(wide[:, 0]).all()
    parts_of = [s.grow_forest(g.member[:, a : a + 3], first_tree=a) for a in (0, 3)]
    assert np.array_equal(np.concatenate([part.column for part in parts_of]), g.forest.column)
    out = np.full((700, 12), -7, np.int32)
    f = g.forest
    where = f.column, f.left, f.right, f.cut, f.mask, f.start
    kernel.leaves(codes, s.levels, s.ordered, *where, out[:, ::2])
    assert np.array_equal(out[:, ::2], g.leaf)
    assert (out[:, 1::2] == -7).all()


@pytest.mark.parametrize("name", ["vehicle", "pima", "page_blocks", "satimage"])
def test_a_tree_fits_as_well_as_scikit_learns(table, name):
    """Both are greedy by entropy over the same cuts, and differ only where two cuts gain the same."""
    from sklearn.tree import DecisionTreeClassifier

    t = table(name)
    if t.numbers is None:
        pytest.skip("no numbers")
    X = np.nan_to_num(t.numbers)
    _, y = np.unique(t.y, return_inverse=True)
    codes = np.empty(X.shape, np.uint8)
    for j in range(X.shape[1]):
        codes[:, j] = 1 + np.searchsorted(np.unique(np.quantile(X[:, j], np.linspace(0, 1, 60)[1:-1])), X[:, j])
    k, n = int(y.max()) + 1, len(y)
    levels, ordered = codes.max(axis=0).astype(np.int32) + 1, np.ones(codes.shape[1], np.uint8)
    for least in (1, 20):
        s = Sample(codes, levels, ordered, y.astype(np.int32), None, k, tries=codes.shape[1], least=least, deepest=1000)
        forest = s.grow()
        leaf = s.leaves(forest)
        counts = np.zeros((len(forest.column), k))
        kernel.node_counts(leaf, s.y, None, forest.parent, counts)
        mine = counts[leaf[:, 0], s.y] / counts[leaf[:, 0]].sum(axis=1)
        model = DecisionTreeClassifier(criterion="entropy", min_samples_leaf=least, random_state=0).fit(codes, y)
        theirs = model.predict_proba(codes)[np.arange(n), y]
        # measured: the same to four digits, and one or two leaves of a hundred less
        assert -np.log(mine).mean() == pytest.approx(-np.log(theirs).mean(), rel=0.005, abs=1e-9)
        assert (forest.column < 0).sum() <= 1.02 * model.get_n_leaves()


# Errors.


def small():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 4, (40, 3)).astype(np.uint8)
    y = (codes[:, 0] > 1).astype(np.int32) ^ (rng.random(40) < 0.2)
    return Sample(codes, np.full(3, 4, np.int32), np.array([1, 0, 1], np.uint8), y.astype(np.int32), None, 2)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tries": 0}, "tries"),
        ({"deepest": -1}, "deepest"),
        ({"least": float("nan")}, "least"),
        ({"k": 0}, "1 to 65535 classes"),
        ({"k": 1}, "is of class 1"),
        ({"weight": np.full(40, -1.0)}, "weight of row 0"),
        ({"weight": np.full(40, np.nan)}, "weight of row 0"),
        ({"weight": np.ones(3)}, "40 rows"),
        ({"y": np.zeros(3, np.int32)}, "40 rows"),
        ({"levels": np.full(2, 4, np.int32)}, "3 columns"),
        ({"ordered": np.zeros(4, np.uint8)}, "3 columns"),
        ({"levels": np.array([4, 256, 4], np.int32)}, "column 1 has 256 levels"),
    ],
)
def test_growing_refuses(change, message):
    s = Sample(**{**vars(small()), **change})
    with pytest.raises(ValueError, match=message):
        s.grow()


def test_codes_and_rows_that_are_not_there_are_named():
    s = small()
    s.codes[7, 2] = 4
    with pytest.raises(ValueError, match="row 7, column 2: the code is 4, but the column has 4 levels"):
        s.grow()
    with pytest.raises(ValueError, match="row 7, column 2"):
        s.leaves(small().grow(), s.codes)
    s.codes[7, 2] = UNSEEN
    assert s.leaves(s.grow()).min() >= 0
    with pytest.raises(ValueError, match=r"rows\[1\] is 40"):
        small().grow([0, 40])
    with pytest.raises(ValueError, match=r"rows\[0\] is -1"):
        small().grow([-1])
    with pytest.raises(ValueError, match="40 rows"):
        small().grow_forest(np.ones((41, 2), np.uint8))
    with pytest.raises(ValueError, match="first_tree"):
        small().grow_forest(np.ones((40, 2), np.uint8), first_tree=-1)


def broken(name, node, value):
    """A forest of two trees with one entry changed."""
    s = small()
    forest = s.grow_forest(np.ones((40, 2), np.uint8))
    assert forest.column[0] >= 0
    getattr(forest, name)[node] = value
    return s, forest


@pytest.mark.parametrize(
    ("name", "node", "value"),
    [
        ("column", 0, 3),
        ("column", 0, -2),
        ("column", 0, -1),
        ("column", -1, 0),
        ("left", 0, 0),
        ("left", 0, 10_000),
        ("left", 0, -1),
        ("left", 0, 2),
        ("right", 0, -5),
        ("right", -1, 3),
        ("parent", 0, 0),
        ("parent", 1, -1),
        ("parent", 1, 1),
        ("parent", 1, 2),
        ("parent", -1, 0),
        ("start", 0, 1),
        ("start", 1, 0),
        ("start", 1, 10_000),
        ("start", 1, 2),
        ("start", 2, 10_000),
        ("start", 2, 1),
    ],
)
def test_what_is_no_forest_is_refused(name, node, value):
    s, forest = broken(name, node, value)
    with pytest.raises(ValueError, match=r"node|tree|start"):
        kernel.check_forest(forest.column, forest.left, forest.right, forest.parent, forest.start, s.d)


@pytest.mark.parametrize(
    ("name", "node", "value"),
    [("column", 0, 3), ("left", 0, 0), ("left", 0, 10_000), ("left", 0, -1), ("start", 2, 10_000), ("start", 0, -1)],
)
def test_leaves_stay_inside_the_arrays(name, node, value):
    s, forest = broken(name, node, value)
    with pytest.raises(ValueError, match=r"node|tree"):
        s.leaves(forest)


@pytest.mark.parametrize("rows", [1, 40])
@pytest.mark.parametrize(("node", "value"), [(1, 1), (1, 10_000), (2, 2)])
def test_parents_must_come_first(rows, node, value):
    s = small()
    g = grown(s, trees=2)
    g.forest.parent[node] = value
    leaf = np.full((rows, 2), node, np.int32)
    message = "must come after|no path leads|cannot be its parent"
    for own in (None, np.zeros(rows, np.int32)):
        with pytest.raises(ValueError, match=message):
            g.evidence(leaf, own=own)
    with pytest.raises(ValueError, match=message):
        kernel.node_counts(leaf, s.y[:rows], None, g.forest.parent, g.counts.copy())
    with pytest.raises(ValueError, match=message):
        kernel.probabilities(g.forest.parent, g.counts, g.prior, 1.0, g.counts.copy())
    with pytest.raises(ValueError, match=message):
        kernel.terms(
            leaf[:1],
            g.forest.column,
            g.forest.parent,
            g.counts,
            g.prior,
            1.0,
            None,
            np.empty((1, 3, 2)),
            np.empty((1, 2)),
        )


@pytest.mark.parametrize("value", [-1, 10_000])
def test_leaves_that_are_not_there_are_named(value):
    s = small()
    g = grown(s, trees=2)
    leaf = g.leaf.copy()
    leaf[5, 1] = value
    before = g.counts.copy()
    with pytest.raises(ValueError, match="row 5, tree 1"):
        kernel.node_counts(leaf, s.y, None, g.forest.parent, g.counts)
    assert np.array_equal(g.counts, before)
    with pytest.raises(ValueError, match="row 5, tree 1"):
        g.evidence(leaf)
    out, rest = np.empty((len(leaf), 3, 2)), np.empty((len(leaf), 2))
    with pytest.raises(ValueError, match="row 5, tree 1"):
        kernel.terms(
            np.ascontiguousarray(leaf), g.forest.column, g.forest.parent, g.counts, g.prior, 1.0, None, out, rest
        )


@given(samples(least_rows=1))
def test_terms_leave_out_the_trees_that_grew_on_a_row(s):
    g = grown(s)
    leaf = np.ascontiguousarray(g.leaf)
    member = (np.arange(leaf.size).reshape(leaf.shape) * 7 % 3 == 0).astype(np.uint8)
    member[0] = 1  # no tree is left for the first row
    out, rest = np.full((s.n, s.d, s.k), np.nan), np.full((s.n, s.k), np.nan)
    kernel.terms(leaf, g.forest.column, g.forest.parent, g.counts, g.prior, 0.7, member, out, rest)
    expected = np.zeros((s.n, s.k))
    kernel.evidence(leaf, g.forest.parent, g.counts, g.prior, 0.7, member, None, None, True, expected)
    np.testing.assert_allclose(out.sum(axis=1) + rest, expected, rtol=1e-10, atol=1e-10)
    assert not out[0].any()


def test_what_evidence_refuses():
    s = small()
    g = grown(s, trees=2)
    for strength in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match="strength"):
            g.evidence(strength=strength)
    with pytest.raises(ValueError, match="row 0 is of class 2"):
        g.evidence(own=np.full(40, 2, np.int32))
    with pytest.raises(ValueError, match="row 0 is of class 2"):
        kernel.node_counts(g.leaf, np.full(40, 2, np.int32), None, g.forest.parent, g.counts)
    with pytest.raises(ValueError, match="member"):
        g.evidence(member=g.member[:, :1])
    with pytest.raises(ValueError, match="40 rows"):
        g.evidence(own=s.y[:3])
    with pytest.raises(ValueError, match="table"):
        g.evidence(table=g.counts[1:])
    with pytest.raises(ValueError, match="contiguous"):
        kernel.evidence(
            g.leaf, g.forest.parent, g.counts, g.prior, 1.0, None, None, None, False, np.empty((40, 4))[:, ::2]
        )
    with pytest.raises(ValueError, match="prior 2"):
        kernel.evidence(g.leaf, g.forest.parent, g.counts, g.prior[:1], 1.0, None, None, None, False, np.empty((40, 2)))
    none = np.zeros((40, 0), np.int32)
    assert not g.evidence(none).any()
