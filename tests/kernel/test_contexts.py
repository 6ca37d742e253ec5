"""Values under their parents' values, against their definitions in plain Python."""

from __future__ import annotations

from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from math import inf, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import mutual_info_score

from deciban._kernel import contexts as kernel

UNSEEN = 255
WEIGHTS = (0.0, 0.3, 1.0, 2.5)


@dataclass
class Table:
    """Rows of codes, their classes and weights, and each column's parents."""

    codes: np.ndarray
    levels: np.ndarray
    parents: np.ndarray
    y: np.ndarray
    weight: np.ndarray | None
    k: int

    @property
    def counted(self):
        return kernel.count(self.codes, self.parents, self.y, self.weight, self.k)

    @property
    def contexts(self):
        return kernel.Contexts(*self.counted, self.parents, self.levels, self.k)

    @property
    def weights(self):
        return np.ones(len(self.y)) if self.weight is None else self.weight

    def take(self, rows) -> Table:
        weight = None if self.weight is None else self.weight[rows].copy()
        return Table(self.codes[rows].copy(), self.levels, self.parents, self.y[rows].copy(), weight, self.k)

    def without(self, i) -> Table:
        return self.take(np.delete(np.arange(len(self.y)), i))


def random_table(rng, n, levels, k, parents, gaps=0.0, unlabelled=0.0, weights=None) -> Table:
    """Columns that follow the class and each other; with some unseen values."""
    d = len(levels)
    y = rng.integers(0, k, n).astype(np.int32)
    common = rng.integers(0, 7, n)
    codes = np.empty((n, d), dtype=np.uint8)
    for j in range(d):
        own = rng.integers(0, levels[j], n)
        codes[:, j] = np.where(rng.random(n) < 0.6, (common + y * (j + 1)) % levels[j], own)
    codes[rng.random((n, d)) < gaps] = UNSEEN
    y[rng.random(n) < unlabelled] = -1
    weight = None if weights is None else rng.choice(weights, n)
    return Table(codes, np.array(levels, dtype=np.int32), parents, y, weight, k)


def random_parents(rng, d, most) -> np.ndarray:
    """Each column has some of those before it in a random order, so that there is an order that has parents first."""
    parents = np.full((d, most), -1, dtype=np.int32)
    order = rng.permutation(d)
    for place, j in enumerate(order):
        mine = rng.permutation(order[:place])[: rng.integers(0, most + 1)]
        parents[j, : len(mine)] = mine
    return parents


@st.composite
def tables(draw, least_rows=0, weights=(None, WEIGHTS)):
    rng = np.random.default_rng(draw(st.integers(0, 100_000)))
    d, k, n = draw(st.integers(1, 6)), draw(st.integers(1, 6)), draw(st.integers(least_rows, 30))
    levels = rng.choice([1, 2, 3, 5, 70, 255], d)
    return random_table(
        rng,
        n,
        levels,
        k,
        random_parents(rng, d, draw(st.integers(0, 4))),
        gaps=draw(st.sampled_from([0.0, 0.1, 0.5])),
        unlabelled=draw(st.sampled_from([0.0, 0.2])),
        weights=draw(st.sampled_from(weights)),
    )


# ------------------------------------------------------------------ the definitions


def keys_by_hand(table) -> list[dict]:
    """For each column, {key: counts by class}."""
    most = table.parents.shape[1]
    out = []
    for j in range(table.codes.shape[1]):
        counts_by_key = defaultdict(lambda: np.zeros(table.k))
        for row, c, w in zip(table.codes.tolist(), table.y.tolist(), table.weights.tolist(), strict=True):
            if c >= 0 and row[j] != UNSEEN and w > 0:
                key = 0
                for t in range(most):
                    parent = table.parents[j, t]
                    key = key << 8 | (row[parent] if parent >= 0 else 0)
                counts_by_key[key << 8 | row[j]][c] += w
        out.append(dict(counts_by_key))
    return out


class ByHand:
    """Sums over rows, context by context, and the back-off as it is written."""

    def __init__(self, table):
        self.table = table
        self.parents = [[p for p in mine if p >= 0] for mine in table.parents.tolist()]
        self.counts = defaultdict(lambda: np.zeros(table.k))
        self.totals = defaultdict(lambda: np.zeros(table.k))
        for row, c, w in zip(table.codes.tolist(), table.y.tolist(), table.weights.tolist(), strict=True):
            for j, v in enumerate(row):
                if c < 0 or v == UNSEEN:
                    continue
                for context in self.contexts(row, j, len(self.parents[j])):
                    self.counts[j, context, v][c] += w
                    self.totals[j, context][c] += w

    def contexts(self, row, j, depth):
        """(), (p1,), (p1, p2), … as far as parents have been seen."""
        values = [row[p] for p in self.parents[j][:depth]]
        known = values.index(UNSEEN) if UNSEEN in values else len(values)
        return [tuple(values[:t]) for t in range(known + 1)]

    def law(self, row, j, v, depth, strength):
        """p(v | the row's other values, each class), None where the value is not informative."""
        seen = self.counts[j, (), v].sum()
        if v == UNSEEN or seen == 0.0:
            return None
        p = np.full(self.table.k, seen / self.totals[j, ()].sum())
        for context in self.contexts(row, j, depth):
            p = (self.counts[j, context, v] + strength * p) / (self.totals[j, context] + strength)
        return p

    def terms(self, row, depth, strength):
        out = np.zeros((len(row), self.table.k))
        for j, v in enumerate(row):
            p = self.law(row, j, v, depth, strength)
            if p is not None:
                out[j] = np.log(p)
        return out


# ------------------------------------------------------------------ counts


def as_dicts(ptr, keys, counts) -> list[dict]:
    return [dict(zip(keys[a:b].tolist(), counts[a:b], strict=True)) for a, b in pairwise(ptr)]


def assert_same_counts(counts, expected, rtol=0.0):
    assert [set(mine) for mine in counts] == [set(mine) for mine in expected]
    for mine, theirs in zip(counts, expected, strict=True):
        for key in theirs:
            np.testing.assert_allclose(mine[key], theirs[key], rtol=rtol, atol=0)


@given(tables())
def test_counts_are_sums_by_key_and_class(table):
    ptr, keys, counts = table.counted
    assert (ptr.dtype, keys.dtype, counts.dtype) == (np.int64, np.uint64, np.float64)
    assert counts.shape == (len(keys), table.k)
    assert ptr[0] == 0
    assert ptr[-1] == len(keys)
    for a, b in pairwise(ptr):
        assert (keys[a:b][1:] > keys[a:b][:-1]).all(), "keys ascend"
    assert_same_counts(as_dicts(ptr, keys, counts), keys_by_hand(table))  # added in the same order: the same digits


@pytest.mark.parametrize("levels", [2, 40])
def test_many_keys_are_counted_as_few_are(levels):
    """More rows than a block, and enough keys that their table grows several times."""
    rng = np.random.default_rng(5)
    parents = np.array([[-1] * 6, [0] + [-1] * 5, [1, 0] + [-1] * 4, [0, 2, 1, -1, -1, -1], [3, 2, 1, 0, -1, -1]])
    table = random_table(rng, 3_000, [levels] * 5, 3, parents.astype(np.int32), 0.01, 0.01, WEIGHTS)
    assert_same_counts(as_dicts(*table.counted), keys_by_hand(table))


def test_a_key_holds_the_parents_from_the_first_down_and_the_value_last():
    codes = np.array([[1, 2, 3, 4, 5, 6, 7]], dtype=np.uint8)
    parents = np.full((7, 6), -1, dtype=np.int32)
    parents[6] = [5, 4, 3, 2, 1, 0]
    ptr, keys, counts = kernel.count(codes, parents, np.zeros(1, np.int32), None, 1)
    assert [hex(key) for key in keys] == ["0x1", "0x2", "0x3", "0x4", "0x5", "0x6", "0x6050403020107"]
    assert counts.tolist() == [[1.0]] * 7
    assert ptr.tolist() == list(range(8))


@given(tables(), st.integers(0, 30))
def test_counts_of_parts_add_up_to_the_counts_of_all(table, cut):
    one, two = table.take(slice(None, cut)), table.take(slice(cut, None))
    merged = as_dicts(*one.counted)
    for mine, theirs in zip(merged, as_dicts(*two.counted), strict=True):
        for key, counts in theirs.items():
            mine[key] = mine.get(key, 0.0) + counts
    assert_same_counts(as_dicts(*table.counted), merged, rtol=1e-14)  # thirty additions in another order


def test_no_rows_and_no_columns_are_counted_too():
    none = kernel.count(np.empty((0, 2), np.uint8), np.full((2, 1), -1, np.int32), np.empty(0, np.int32), None, 3)
    assert [part.shape for part in none] == [(3,), (0,), (0, 3)]
    assert none[0].tolist() == [0, 0, 0]
    none = kernel.count(np.empty((4, 0), np.uint8), np.empty((0, 0), np.int32), np.zeros(4, np.int32), None, 1)
    assert [part.shape for part in none] == [(1,), (0,), (0, 1)]


# ------------------------------------------------------------------ scores


def assert_close(actual, expected):
    """Both take the same steps and round a handful of times a column; a logarithm near 0 keeps absolute digits."""
    np.testing.assert_allclose(actual, expected, rtol=1e-12, atol=1e-12)


strengths = st.sampled_from([0.1, 1.0, 3.0, 50.0])


@given(tables(), tables(), st.integers(0, 5), strengths)
def test_terms_and_scores_are_the_back_off_as_it_is_written(table, others, depth, strength):
    by_hand, contexts, d = ByHand(table), table.contexts, table.codes.shape[1]
    new = others.codes[:, np.arange(d) % others.codes.shape[1]].copy()
    new[new >= table.levels] = UNSEEN
    for codes in (table.codes, new):
        expected = np.array([by_hand.terms(row, depth, strength) for row in codes.tolist()]).reshape(-1, d, table.k)
        out = np.full((len(codes), table.k), 7.0)
        contexts.score(codes, depth, strength, out)
        assert_close(out - 7.0, expected.sum(axis=1))
        actual = np.full(expected.shape, np.nan)
        contexts.terms(codes, depth, strength, actual)
        assert_close(actual, expected)


@given(tables(), st.lists(st.integers(0, 5), max_size=4), st.lists(strengths, max_size=10), st.booleans())
def test_one_walk_answers_for_all_depths_and_strengths(table, depths, strengths, leave_out):
    contexts = table.contexts
    own = {"own": table.y, "weight": table.weight} if leave_out else {}
    scores = np.full((len(table.y), len(depths), len(strengths), table.k), np.nan)
    contexts.score_each(table.codes, np.array(depths, np.int32), np.array(strengths, float), scores, **own)
    for a, depth in enumerate(depths):
        for b, strength in enumerate(strengths):
            expected = np.zeros((len(table.y), table.k))
            contexts.score(table.codes, depth, strength, expected, **own)
            assert_close(scores[:, a, b], expected)


@given(tables(least_rows=1), st.integers(0, 4), strengths)
def test_leaving_a_row_out_is_counting_without_it(table, depth, strength):
    out = np.zeros((len(table.y), table.k))
    table.contexts.score(table.codes, depth, strength, out, table.y, table.weight)
    for i in range(len(table.y)):
        expected = np.zeros((1, table.k))
        rest = table.without(i) if table.y[i] >= 0 else table  # a row without a class was never counted
        rest.contexts.score(table.codes[i : i + 1], depth, strength, expected)
        assert_close(out[i], expected[0])


def test_leaving_out_is_right_where_many_rows_share_contexts():
    rng = np.random.default_rng(11)
    table = random_table(rng, 400, [3, 2, 4, 3], 12, random_parents(rng, 4, 3), weights=(1.0, 0.3))
    out = np.zeros((400, 12))
    table.contexts.score(table.codes, 3, 2.0, out, table.y, table.weight)
    for i in range(0, 400, 7):
        expected = ByHand(table.without(i)).terms(table.codes[i].tolist(), 3, 2.0).sum(axis=0)
        assert_close(out[i], expected)


@given(tables(least_rows=1), st.integers(0, 30), st.integers(0, 4), strengths)
def test_contexts_without_counts_are_those_of_the_other_rows(table, cut, depth, strength):
    gone, rest = table.take(np.arange(len(table.y)) < cut), table.take(np.arange(len(table.y)) >= cut)
    out, expected = np.zeros((len(table.y), table.k)), np.zeros((len(table.y), table.k))
    table.contexts.without(*gone.counted, 2.0**-30).score(table.codes, depth, strength, out)
    rest.contexts.score(table.codes, depth, strength, expected)
    assert_close(out, expected)


@pytest.mark.parametrize("seed", range(20))
def test_a_row_may_be_left_out_of_contexts_that_others_were_taken_out_of(seed):
    """Sums of weights such as 0.3 differ in rounding after that: a value that no other row has gives no evidence."""
    rng = np.random.default_rng(seed)
    whole = random_table(rng, 60, [30, 12, 20], 3, random_parents(rng, 3, 2), weights=(0.1, 0.3, 0.7))
    gone, rest = whole.take(np.arange(60) < 20), whole.take(np.arange(60) >= 20)
    out, expected = np.zeros((40, 3)), np.zeros((40, 3))
    whole.contexts.without(*gone.counted, 2.0**-30).score(rest.codes, 2, 8.0, out, rest.y, rest.weight)
    rest.contexts.score(rest.codes, 2, 8.0, expected, rest.y, rest.weight)
    assert_close(out, expected)


def test_counts_to_remove_are_checked(small):
    ptr, keys, counts = small.counted
    with pytest.raises(ValueError, match=r"ptr goes from"):
        small.contexts.without(np.append(ptr[:-1], 99), keys, counts, 0.0)
    with pytest.raises(ValueError, match=r"a row of counts has 1 entries"):
        small.contexts.without(ptr, keys, counts[:, :1].copy(), 0.0)


@pytest.mark.parametrize("weight", [None, 1.0, 0.3, 0.0])
@pytest.mark.parametrize("left_out", [False, True])
def test_many_rows_score_as_each_of_them_alone(left_out, weight):
    """Those with equal codes are computed once, unless there are more codes than rows."""
    rng = np.random.default_rng(13)
    table = random_table(rng, 700, [3, 40, 4, 3], 3, random_parents(rng, 4, 3), gaps=0.1, unlabelled=0.1)
    contexts, weights = table.contexts, None if weight is None else np.full(700, weight)
    for depth in range(4):
        own = {"own": table.y, "weight": weights} if left_out else {}
        out, expected = np.zeros((700, 3)), np.zeros((700, 3))
        contexts.score(table.codes, depth, 2.0, out, **own)
        for i in range(700):
            one = {"own": table.y[[i]], "weight": None if weights is None else weights[[i]]} if left_out else {}
            contexts.score(table.codes[[i]], depth, 2.0, expected[i : i + 1], **one)
        np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("rows", [1, 37])
def test_contexts_that_do_not_fit_the_nearest_memory_score_the_same(rows):
    """Rows then go down together, sixteen at a time, and drop out at different depths."""
    rng = np.random.default_rng(12)
    parents = np.array([[-1] * 4, [0, -1, -1, -1], [1, 0, -1, -1], [2, 1, 0, -1], [3, 0, 1, 2]], dtype=np.int32)
    table = random_table(rng, 3_000, [12, 4, 80, 5, 12], 9, parents, gaps=0.05)
    contexts, by_hand = table.contexts, ByHand(table)
    codes, y = table.codes[:rows], table.y[:rows]
    depths, strengths = np.array([3, 0, 1, 4], np.int32), np.array([0.5, 2.0, 7.0])
    scores = np.zeros((rows, 4, 3, 9))
    contexts.score_each(codes, depths, strengths, scores)
    for i in range(rows):
        for a, depth in enumerate(depths):
            for b, strength in enumerate(strengths):
                assert_close(scores[i, a, b], by_hand.terms(codes[i].tolist(), depth, strength).sum(axis=0))
    out = np.zeros((rows, 9))
    contexts.score(codes, 3, 2.0, out, y)
    for i in range(0, rows, 9):
        assert_close(out[i], ByHand(table.without(i)).terms(codes[i].tolist(), 3, 2.0).sum(axis=0))


def test_what_a_row_leaves_of_its_own_count_by_rounding_is_nothing():
    """Sums after subtraction differ in rounding from those of one row."""
    residue = 0.1 + 0.2 + 0.3 - 0.1 - 0.2
    assert residue > 0.3
    parents, levels = np.array([[-1], [0]], dtype=np.int32), np.array([2, 2], dtype=np.int32)
    keys = np.array([0x0, 0x1, 0x1, 0x101], dtype=np.uint64)  # 0 and 1; then 1 under 0 and 1 under 1
    counts = np.array([[residue, 0.0], [0.0, 0.5], [residue, 0.0], [0.0, 0.5]])
    contexts = kernel.Contexts(np.array([0, 2, 4]), keys, counts, parents, levels, 2)
    out = np.zeros((1, 2))
    contexts.score(np.array([[0, 1]], np.uint8), 1, 1.0, out, np.zeros(1, np.int32), np.array([0.3]))
    assert out.tolist() == [[0.0, 0.0]], "no one else has a 0, and every one else has a 1"


def test_very_small_probabilities_do_not_underflow():
    """A product of hundreds of them would; so would two with strengths near 0."""
    rng = np.random.default_rng(0)
    d = 300
    levels = np.full(d, 200, dtype=np.int32)
    codes = rng.integers(0, 200, (2_000, d)).astype(np.uint8)
    table = Table(codes, levels, np.empty((d, 0), np.int32), np.zeros(2_000, np.int32), None, 1)
    for strength in (1e-6, 1e-200, 1e-290):
        contexts = kernel.Contexts(
            *kernel.count(codes, table.parents, np.arange(2_000, dtype=np.int32) % 2, None, 2), table.parents, levels, 2
        )
        out, terms = np.zeros((3, 2)), np.zeros((3, d, 2))
        new = rng.integers(0, 200, (3, d)).astype(np.uint8)
        contexts.score(new, 0, strength, out)
        contexts.terms(new, 0, strength, terms)
        assert np.isfinite(out).all()
        np.testing.assert_allclose(out, terms.sum(axis=1), rtol=1e-12)


def test_a_probability_of_nothing_is_minus_infinity_and_not_nan():
    codes = np.array([[0, 0], [0, 0], [1, 1]], dtype=np.uint8)
    parents, levels = np.full((2, 1), -1, dtype=np.int32), np.full(2, 2, dtype=np.int32)
    contexts = kernel.Contexts(
        *kernel.count(codes, parents, np.array([0, 0, 1], np.int32), None, 2), parents, levels, 2
    )
    out = np.zeros((1, 2))
    contexts.score(codes[2:], 0, 5e-324, out)  # a third of the smallest double rounds to zero
    assert out.tolist() == [[-inf, 0.0]]


def test_threads_may_score_slices():
    rng = np.random.default_rng(3)
    table = random_table(rng, 3_000, [6] * 8, 5, random_parents(rng, 8, 3))
    contexts, expected, scores = table.contexts, np.zeros((3_000, 5)), np.zeros((3_000, 5))
    contexts.score(table.codes, 3, 2.0, expected, table.y)
    with ThreadPoolExecutor(4) as pool:
        slices = [slice(a, a + 100) for a in range(0, 3_000, 100)]
        list(pool.map(lambda s: contexts.score(table.codes[s], 3, 2.0, scores[s], table.y[s]), slices))
    np.testing.assert_array_equal(scores, expected)


def test_contexts_without_rows_give_no_evidence():
    parents, levels = np.array([[-1], [0]], np.int32), np.array([3, 0], np.int32)
    nothing = kernel.count(np.empty((0, 2), np.uint8), parents, np.empty(0, np.int32), None, 2)
    contexts = kernel.Contexts(*nothing, parents, levels, 2)
    out, drawn = np.zeros((2, 2)), np.zeros((1, 2), np.uint8)
    contexts.score(np.array([[2, UNSEEN], [UNSEEN, UNSEEN]], np.uint8), 1, 1.0, out)
    assert not out.any()
    contexts.sample(np.arange(2, dtype=np.int32), np.zeros(1, np.int32), 1, 1.0, np.zeros((1, 2)), drawn)
    assert drawn.tolist() == [[UNSEEN, UNSEEN]]


def test_keys_without_any_count_are_as_if_they_were_not_there():
    rng = np.random.default_rng(2)
    table = random_table(rng, 60, [4, 3, 5], 3, np.array([[-1, -1], [0, -1], [1, 0]], np.int32))
    ptr, keys, counts = table.counted
    bare = counts.copy()
    bare[::3] = 0.0
    kept = bare.any(axis=1)
    places = np.concatenate([[0], np.cumsum(kept)])[ptr]
    out = np.zeros((2, 60, 3))
    kernel.Contexts(ptr, keys, bare, table.parents, table.levels, 3).score(table.codes, 2, 1.0, out[0])
    kernel.Contexts(places, keys[kept], bare[kept], table.parents, table.levels, 3).score(table.codes, 2, 1.0, out[1])
    np.testing.assert_array_equal(out[0], out[1])


# ------------------------------------------------------------------ samples


def drawing_order(parents) -> np.ndarray:
    order: list[int] = []
    while len(order) < len(parents):
        order += [j for j in range(len(parents)) if j not in order and all(p < 0 or p in order for p in parents[j])]
    return np.array(order, dtype=np.int32)


@given(tables(), st.integers(0, 4), strengths, st.integers(0, 1000))
def test_samples_are_where_the_cumulative_sum_passes_the_uniform(table, depth, strength, seed):
    rng = np.random.default_rng(seed)
    by_hand, d = ByHand(table), table.codes.shape[1]
    y, uniforms = rng.integers(0, table.k, 5).astype(np.int32), rng.random((5, d))
    out = np.zeros((5, d), dtype=np.uint8)
    table.contexts.sample(drawing_order(table.parents.tolist()), y, depth, strength, uniforms, out)
    for row, c, u in zip(out.tolist(), y, uniforms, strict=True):
        for j, v in enumerate(row):
            laws = {value: by_hand.law(row, j, value, depth, strength) for value in range(table.levels[j])}
            p = np.array([law[c] for law in laws.values() if law is not None])
            if len(p) == 0:
                assert v == UNSEEN
                continue
            assert p.sum() == pytest.approx(1.0), "the law's probabilities sum to one"
            at = [value for value, law in laws.items() if law is not None].index(v)
            # thirty terms are right to some 1e-15: closer to a step than 1e-13, either side may be drawn
            assert p[:at].sum() - 1e-13 <= u[j] <= p[: at + 1].sum() + 1e-13


def test_samples_have_the_frequencies_of_the_law():
    rng = np.random.default_rng(8)
    table = random_table(rng, 200, [3, 4], 2, np.array([[-1], [0]], dtype=np.int32))
    by_hand, n = ByHand(table), 40_000
    y = np.ones(n, dtype=np.int32)
    out = np.zeros((n, 2), dtype=np.uint8)
    table.contexts.sample(np.array([0, 1], np.int32), y, 1, 2.0, rng.random((n, 2)), out)
    for a in range(3):
        for b in range(4):
            expected = by_hand.law([a, b], 0, a, 1, 2.0)[1] * by_hand.law([a, b], 1, b, 1, 2.0)[1]
            frequency = np.mean((out[:, 0] == a) & (out[:, 1] == b))
            assert abs(frequency - expected) < 5 * np.sqrt(
                expected / n
            )  # five standard deviations, the seed being fixed


def test_a_uniform_of_almost_one_draws_a_value_that_has_been_seen():
    table = Table(
        np.array([[0], [1], [1]], dtype=np.uint8),
        np.array([5], dtype=np.int32),
        np.full((1, 1), -1, np.int32),
        np.zeros(3, np.int32),
        None,
        1,
    )
    out = np.zeros((2, 1), dtype=np.uint8)
    uniforms = np.array([[1.0], [0.0]])
    table.contexts.sample(np.zeros(1, np.int32), np.zeros(2, np.int32), 0, 1.0, uniforms, out)
    assert out.tolist() == [[1], [0]]


# ------------------------------------------------------------------ information


def information_by_hand(a, b, weight) -> float:
    """Σ p(a, b) log (p(a, b) / p(a) p(b)), from a table of weights."""
    joint, rows, columns = defaultdict(float), defaultdict(float), defaultdict(float)
    for i, j, w in zip(a.tolist(), b.tolist(), weight.tolist(), strict=True):
        joint[i, j] += w
        rows[i] += w
        columns[j] += w
    total = sum(rows.values())
    return sum(x / total * log(x * total / (rows[i] * columns[j])) for (i, j), x in joint.items())


def information(table):
    d = table.codes.shape[1]
    with_class, between = np.full(d, np.nan), np.full((d, d), np.nan)
    kernel.pair_information(table.codes, table.levels, table.y, table.weight, table.k, with_class, between)
    return with_class, between


def assert_information(table):
    with_class, between = information(table)
    known = (table.codes != UNSEEN) & (table.y[:, None] >= 0) & (table.weights[:, None] > 0)
    close_to = {"rel": 1e-10, "abs": 1e-12}  # sums of n log n cancel: some digits more than n·2⁻⁵² are lost
    assert not between.diagonal().any()
    np.testing.assert_array_equal(between, between.T)
    for i in range(table.codes.shape[1]):
        of, w = known[:, i], table.weights
        expected = information_by_hand(table.codes[of, i], table.y[of], w[of]) if of.any() else 0.0
        assert with_class[i] == pytest.approx(expected, **close_to)
        for j in range(i):
            both, expected = known[:, i] & known[:, j], 0.0
            for c in range(table.k):
                here = both & (table.y == c)
                if here.any():
                    mine = information_by_hand(table.codes[here, i], table.codes[here, j], w[here])
                    expected += w[here].sum() / w[both].sum() * mine
            assert between[i, j] == pytest.approx(expected, **close_to)


@given(tables())
def test_information_is_that_of_tables_of_counts(table):
    assert_information(table)


@pytest.mark.parametrize("weights", [None, (0.5, 2.0)])
@pytest.mark.parametrize("gaps", [0.0, 0.02])
def test_information_of_many_rows_and_columns(weights, gaps):
    """Tables smaller than a class's rows and larger ones, and columns that do not come in fours."""
    rng = np.random.default_rng(4)
    levels = [2, 3, 40, 255, 7, 1]
    table = random_table(rng, 900, levels, 3, np.empty((6, 0), np.int32), 0.0, 0.05, weights)
    table.codes[rng.random(900) < gaps, 2] = UNSEEN
    assert_information(table)


def test_information_agrees_with_scikit_learn():
    rng = np.random.default_rng(1)
    table = random_table(rng, 2_000, [3, 9, 20, 2, 5], 4, np.empty((5, 0), np.int32))
    with_class, between = information(table)
    for i in range(5):
        assert with_class[i] == pytest.approx(mutual_info_score(table.codes[:, i], table.y), rel=1e-10)
        for j in range(i):
            by_class = [
                (table.y == c).mean() * mutual_info_score(table.codes[table.y == c, i], table.codes[table.y == c, j])
                for c in range(4)
            ]
            assert between[i, j] == pytest.approx(sum(by_class), rel=1e-10)


# ------------------------------------------------------------------ errors


@pytest.fixture
def small():
    rng = np.random.default_rng(0)
    return random_table(rng, 20, [3, 4], 2, np.array([[-1, -1], [0, -1]], dtype=np.int32))


def test_codes_beyond_the_levels_are_refused_by_row_and_column(small):
    contexts, codes = small.contexts, small.codes.copy()
    codes[7, 1] = 4
    message = r"row 7, column 1 has the code 4\b.*\b4 values"
    with pytest.raises(ValueError, match=message):
        contexts.score(codes, 1, 1.0, np.zeros((20, 2)))
    with pytest.raises(ValueError, match=message):
        contexts.score_each(codes, np.ones(1, np.int32), np.ones(1), np.zeros((20, 1, 1, 2)))
    with pytest.raises(ValueError, match=message):
        kernel.pair_information(codes, small.levels, small.y, None, 2, np.zeros(2), np.zeros((2, 2)))
    with pytest.raises(ValueError, match=message):
        contexts.terms(codes, 1, 1.0, np.zeros((20, 2, 2)))


def test_what_is_refused_leaves_the_scores_as_they_were(small):
    codes, out = small.codes.copy(), np.zeros((20, 2))
    codes[19, 0] = 200
    with pytest.raises(ValueError, match=r"row 19"):
        small.contexts.score(codes, 1, 1.0, out)
    assert not out.any()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda p, k, c: (p + np.array([0, 0, 1]), k, c),
            r"ptr goes from 0 to \d+",
        ),
        (lambda p, k, c: (p[[0, 2, 1]], k, c), r"ptr .* \d+ to \d+ at column 1"),
        (lambda p, k, c: (p[:2], k, c), r"ptr has 2 entries.* 3"),
        (lambda p, k, c: (p, k[::-1].copy(), c), r"of column 0 does not ascend"),
        (lambda p, k, c: (p, np.where(k == k[-1], k + 8, k), c), r"of column 1 does not ascend"),
        (lambda p, k, c: (p, np.where(k == k[-1], k | 3 << 16, k), c), r"of column 1 does not ascend"),
        (lambda p, k, c: (p, np.where(k == k[-1], k | 1 << 8, k), c), r"of column 1 does not ascend"),
        (lambda p, k, c: (p, np.where(k == k[-1], k | 1 << 24, k), c), r"of column 1 does not ascend"),
        (lambda p, k, c: (p, np.where(k == k[-1], k | 255, k), c), r"of column 1 does not ascend"),
        (lambda p, k, c: (p, k, -c), r"the count of key 0, class \d is -\d"),
        (lambda p, k, c: (p, k, c * np.nan), r"the count of key 0, class 0 is nan"),
        (lambda p, k, c: (p, k, c + np.inf), r"the count of key 0, class 0 is inf"),
        (lambda p, k, c: (p, k, c[:-1]), r"counts has \d+ entries"),
        (lambda p, k, c: (p, k, c[:, :1].copy()), r"a row of counts has 1 entries.* 2"),
    ],
)
def test_arrays_that_do_not_belong_together_are_refused(small, change, message):
    with pytest.raises(ValueError, match=message):
        kernel.Contexts(*change(*small.counted), small.parents, small.levels, 2)


@pytest.mark.parametrize(
    ("parents", "message"),
    [
        ([[-1], [2]], "parent 0 of column 1 is 2"),
        ([[-1], [1]], "parent 0 of column 1 is 1"),
        ([[-2], [-1]], "parent 0 of column 0 is -2"),
        ([[-1, 1], [-1, -1]], "parent 1 of column 0 .*−1"),
        ([[-1] * 7] * 2, "7 parents.* 6"),
        ([[-1]], "parents has 1 entries.* 2"),
    ],
)
def test_parents_that_cannot_be_are_refused(small, parents, message):
    parents = np.array(parents, dtype=np.int32)
    with pytest.raises(ValueError, match=message):
        kernel.count(small.codes, parents, small.y, None, 2)
    with pytest.raises(ValueError, match=message):
        kernel.Contexts(*small.counted, parents, small.levels, 2)


def test_classes_weights_and_settings_out_of_range_are_refused(small):
    contexts, out = small.contexts, np.zeros((20, 2))
    with pytest.raises(ValueError, match=r"y of row \d+ is class 1"):
        kernel.count(small.codes, small.parents, small.y, None, 1)
    with pytest.raises(ValueError, match="there are 0 classes"):
        kernel.count(small.codes, small.parents, np.full(20, -1, np.int32), None, 0)
    with pytest.raises(ValueError, match="fewer than 2,147,483,648"):
        kernel.count(small.codes, small.parents, small.y, None, 1 << 31)
    for bad in (-1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match=r"the weight of row 3 is (-1\.0|nan|inf)"):
            kernel.count(small.codes, small.parents, small.y, np.where(np.arange(20) == 3, bad, 1.0), 2)
    with pytest.raises(ValueError, match=r"weight has 19 entries.* 20"):
        kernel.count(small.codes, small.parents, small.y, np.ones(19), 2)
    with pytest.raises(ValueError, match="own of row 0 is class 2"):
        contexts.score(small.codes, 1, 1.0, out, np.full(20, 2, np.int32))
    for bad in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match=f"a strength is {bad}"):
            contexts.score(small.codes, 1, bad, out)
    with pytest.raises(ValueError, match="a depth is -1"):
        contexts.score(small.codes, -1, 1.0, out)
    with pytest.raises(ValueError, match=r"a row of out has 3 entries.* 2"):
        contexts.score(small.codes, 1, 1.0, np.zeros((20, 3)))
    with pytest.raises(ValueError, match="column 1 has 256 values"):
        kernel.Contexts(*small.counted, small.parents, np.array([3, 256], np.int32), 2)
    assert not out.any()


def test_an_order_that_draws_children_first_is_refused(small):
    y, uniforms, out = np.zeros(1, np.int32), np.zeros((1, 2)), np.zeros((1, 2), np.uint8)
    with pytest.raises(ValueError, match=r"column 1 .*parent 0"):
        small.contexts.sample(np.array([1, 0], np.int32), y, 1, 1.0, uniforms, out)
    with pytest.raises(ValueError, match=r"order\[1\] is 0"):
        small.contexts.sample(np.array([0, 0], np.int32), y, 1, 1.0, uniforms, out)
    with pytest.raises(ValueError, match=r"order\[1\] is 2"):
        small.contexts.sample(np.array([0, 2], np.int32), y, 1, 1.0, uniforms, out)
    with pytest.raises(ValueError, match="y of row 0 is class -1"):
        small.contexts.sample(np.array([0, 1], np.int32), y - 1, 1, 1.0, uniforms, out)
