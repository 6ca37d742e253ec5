"""Sums of items by class and the evidence they give, against their definitions in plain Python."""

from __future__ import annotations

from dataclasses import dataclass, replace

import graded_by_hand as by_hand
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from deciban._kernel import evidence as kernel
from deciban.text.sums import ItemSums, damped
from deciban.text.tables import KNOTS, MAX_KNOWLEDGE, MAX_STRENGTHS, MIN_KNOWLEDGE, STRENGTHS, VECTORS, Shares, Tables

RESIDUE = 2.0**-30


@dataclass
class Corpus:
    """Rows of distinct items 0..v−1, their classes and weights."""

    rows: list[set[int]]
    y: np.ndarray
    weight: np.ndarray
    v: int
    k: int

    @property
    def compressed(self):
        return compress(self.rows)

    @property
    def amount(self):
        return damped(self.compressed) * self.weight

    @property
    def cells(self):
        return ItemSums.of(self.compressed, self.y, self.amount, self.v, self.k)

    def without(self, i: int) -> dict:
        """The sums without row i."""
        rest = [j for j in range(len(self.rows)) if j != i and self.weight[j] > 0]
        return {
            "documents": [self.rows[j] for j in rest],
            "y": [int(self.y[j]) for j in rest],
            "weight": [float(self.weight[j]) for j in rest],
        }


def compress(rows):
    indptr = np.cumsum([0, *map(len, rows)]).astype(np.int64)
    return indptr, np.array([item for row in rows for item in sorted(row)], dtype=np.int32)


@st.composite
def corpora(draw, least_rows=1, weights=(1.0,), sparse=None):
    """Small corpora: items that every class has, items of one class, rows without any, classes without any row."""
    k, v = draw(st.integers(1, 11)), draw(st.integers(1, 12))  # few classes, and more than the kernel lays out at once
    n = draw(st.integers(least_rows, 14))
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    how_many = draw(st.sampled_from([0.1, 0.4, 0.9])) if sparse is None else sparse
    y = rng.integers(0, k, n).astype(np.int32)
    rows = [set(np.flatnonzero(rng.random(v) < how_many).tolist()) for _ in range(n)]
    for i in range(n):  # items typical of a class
        if rng.random() < 0.5 and y[i] < v:
            rows[i].add(int(y[i]))
    return Corpus(rows, y, rng.choice(weights, n).astype(float), v, k)


WEIGHTS = (0.25, 0.3, 1.0, 2.0, 7.5)


def as_dict(cells: ItemSums) -> dict:
    return {
        (w, int(cells.cls[e])): float(cells.val[e])
        for w in range(cells.size)
        for e in range(cells.ptr[w], cells.ptr[w + 1])
    }


# ------------------------------------------------------------------ sums


@given(corpora(least_rows=0, weights=(0.5, 1.0, 2.0)), st.integers(0, 3))
def test_class_sums_are_sums_by_item_and_class(corpus, unlabelled):
    y = corpus.y.copy()
    y[:unlabelled] = -1
    cells = ItemSums.of(corpus.compressed, y, corpus.amount, corpus.v, corpus.k)
    expected: dict = {}
    for row, c, amount in zip(corpus.rows, y, corpus.amount, strict=True):
        for item in row:
            if c >= 0:
                expected[item, int(c)] = expected.get((item, int(c)), 0.0) + amount
    assert as_dict(cells) == expected, "multiples of 2^-30 add up without rounding"
    for w in range(cells.size):
        mine = cells.cls[cells.ptr[w] : cells.ptr[w + 1]]
        assert (np.diff(mine) > 0).all(), "classes ascend"


def test_class_sums_return_the_number_of_cells():
    indptr, indices = compress([{0, 2}, {2}, {1}])
    ptr, cls, val = np.full(4, -1, np.int64), np.full(9, -1, np.int32), np.full(9, np.nan)
    y, amount = np.array([1, 1, -1], dtype=np.int32), np.array([1.0, 2.0, 4.0])
    assert kernel.class_sums(indptr, indices, y, amount, 3, 3, ptr, cls, val) == 2
    assert ptr.tolist() == [0, 1, 1, 2]
    assert cls[:2].tolist() == [1, 1]
    assert val[:2].tolist() == [1.0, 3.0]


@given(corpora(least_rows=0), corpora(least_rows=0), st.randoms(use_true_random=False))
def test_combine_adds_items_where_they_are(a, b, random):
    k = max(a.k, b.k)
    new = list(range(a.v + b.v))  # where b's items go: some to a's, some after them
    random.shuffle(new)
    to = new[: b.v]
    size = max([a.v, *(t + 1 for t in to)])
    rows = np.full(size, -1, dtype=np.int32)
    rows[to] = np.arange(b.v)
    one, two = a.cells, b.cells
    both, short = one.combined(two, rows)
    expected = as_dict(one)
    for (item, c), amount in as_dict(two).items():
        expected[to[item], c] = expected.get((to[item], c), 0.0) + amount
    assert as_dict(both) == expected
    assert short == -1
    assert both.size == size
    assert both.cls.max(initial=-1) < k
    back, short = both.combined(two, rows, -1.0)
    assert as_dict(back) == as_dict(one), "what was added is taken away without a trace"
    assert short == -1


def test_combine_names_the_first_item_that_has_too_little():
    a = ItemSums(np.array([0, 1, 2, 3]), np.array([0, 0, 1], dtype=np.int32), np.array([1.0, 1.0, 1.0]))
    b = ItemSums(np.array([0, 1, 2, 3]), np.array([0, 0, 0], dtype=np.int32), np.array([1.0, 1.5, 1.0]))
    _, short = a.combined(b, np.arange(3, dtype=np.int32), -1.0)
    assert short == 1
    _, short = a.combined(b, np.array([0, -1, 2], dtype=np.int32), -1.0)
    assert short == 2, "class 0 has nothing of the item"


@pytest.mark.parametrize(("left", "there"), [(0.0, False), (2.0**-31, False), (2.0**-29, True), (-(2.0**-31), False)])
def test_what_rounding_leaves_is_nothing(left, there):
    a = ItemSums(np.array([0, 1]), np.zeros(1, dtype=np.int32), np.ones(1))
    b = ItemSums(np.array([0, 1]), np.zeros(1, dtype=np.int32), np.array([1.0 - left]))
    rest, short = a.combined(b, np.zeros(1, dtype=np.int32), -1.0)
    assert (len(rest.cls) == 1) == there
    assert short == -1


# ------------------------------------------------------------------ tables


def tables_of(cells, strength, shares, dense=True):
    table = Tables.of(cells, np.asarray(strength), shares, n_jobs=1)
    if dense:
        return table
    nowhere = np.full(cells.size, -1, dtype=np.int32)
    return replace(table, dense_row=nowhere, dense=np.zeros((0, *table.dense.shape[1:])))


def shares(weight, taken=0.0, factor=None):
    return Shares.of(weight, np.ones(len(weight)) if factor is None else np.resize(factor, len(weight)), taken)


# How many times its share of the pseudo-counts a class gets: one factor for all, or several.
factors = st.sampled_from([[1.0], [2.0], [1.0, 4.0], [0.5, 1.0, 16.0]])


@given(corpora(weights=WEIGHTS), st.sampled_from([1e-6, 0.01, 1.0, 300.0]), factors)
def test_tables_are_their_definition(corpus, unit, factor):
    cells, strength = corpus.cells, np.array(STRENGTHS) * unit
    by_class = shares(np.bincount(corpus.y, corpus.weight, minlength=corpus.k), 0.0, factor)
    share = by_class.share * by_class.factor
    table = tables_of(cells, strength, by_class)
    for w in range(cells.size):
        mine = slice(cells.ptr[w], cells.ptr[w + 1])
        base = strength * share[cells.cls[mine], None]
        lift = np.log(1.0 + cells.val[mine, None] / base)
        # Two ways to take a logarithm, each within two units of 2^-52 of the truth.
        np.testing.assert_allclose(table.lift[mine, :3], lift, rtol=1e-15, atol=1e-16)
        known = ((cells.val[mine, None] + base) * lift).sum(axis=0)
        np.testing.assert_allclose(table.known[w, :3], known, rtol=1e-14)  # a sum of up to seven such products
        assert table.total[w] == pytest.approx(cells.val[mine].sum(), rel=1e-15)
        if table.dense_row[w] >= 0:
            side_by_side = np.zeros((3, corpus.k))
            side_by_side[:, cells.cls[mine]] = table.lift[mine, :3].T
            np.testing.assert_array_equal(table.dense[table.dense_row[w]], side_by_side)


def test_the_logarithm_of_many_magnitudes():
    rng = np.random.default_rng(0)
    x = np.concatenate(
        [
            10.0 ** rng.uniform(-300, 300, 100_000),  # of 1 + x: from 1 to 1e300
            10.0 ** rng.uniform(-17, 1, 100_000),
            np.sqrt(2.0) - 1.0 + rng.uniform(-1e-15, 1e-15, 1000),  # where the exponent changes hands
            2.0 ** np.arange(1, 900) - 1.0,
            2.0 ** np.arange(1, 900) * np.sqrt(2.0) - 1.0,
            [0.0, 1e-320, 1.0, np.nextafter(1.0, 2.0), 1.7e308],
        ]
    )
    cells = ItemSums(np.arange(len(x) + 1), np.zeros(len(x), dtype=np.int32), x)
    lift = tables_of(cells, np.ones(3), shares(np.ones(1))).lift
    expected = np.log(1.0 + x)
    # Within two units in the last place, as the kernel says, of a logarithm that is itself within one.
    assert (np.abs(lift - expected[:, None]) <= 3 * np.spacing(expected)[:, None]).all()


def test_tables_of_some_items_leave_the_others_alone():
    cells = ItemSums(np.array([0, 1, 2, 3]), np.zeros(3, dtype=np.int32), np.ones(3))
    lift, known, total = (np.full(shape, 7.0) for shape in ((3, MAX_STRENGTHS), (3, MAX_STRENGTHS), 3))
    nowhere, dense = np.full(3, -1, dtype=np.int32), np.zeros((0, 3, 1))
    kernel.tables(
        cells.ptr, cells.cls, cells.val, np.ones(1), np.ones(MAX_STRENGTHS), lift, known, total, nowhere, dense, 1, 2
    )
    assert total.tolist() == [7.0, 1.0, 7.0]
    assert lift[:, 0].tolist() == [7.0, np.log(2.0), 7.0]
    kernel.tables(
        cells.ptr,
        cells.cls[:0],
        cells.val[:0],
        np.ones(1),
        np.ones(MAX_STRENGTHS),
        lift,
        known,
        total,
        nowhere,
        dense,
        0,
        1,
    )
    assert total.tolist() == [0.0, 1.0, 7.0], "without any cells there is nothing to know"


def test_a_class_without_a_share_has_no_lift():
    cells = ItemSums(np.array([0, 2]), np.array([0, 1], dtype=np.int32), np.array([1.0, 5.0]))
    table = tables_of(cells, np.ones(3), shares(np.array([1.0, 0.0])))
    assert table.lift[1].tolist() == [0.0] * MAX_STRENGTHS
    assert np.isfinite(table.known).all()


# ------------------------------------------------------------------ evidence


def all_evidence(table, rows, own, taken, first=None, last=None):
    share, left, entropy, _ = table.shares
    out = np.zeros((len(own), len(STRENGTHS) * VECTORS, len(share)))
    if first is None:
        table.evidence(rows, own, taken, out, n_jobs=1)
    else:
        kernel.evidence(
            *rows, damped(rows), own, taken, table.cells.ptr, table.cells.cls, table.cells.val, table.lift,
            table.known, table.total, table.dense_row, table.dense, share, left, entropy,
            np.zeros(len(share), dtype=np.int32), np.ones(1), table.strength, KNOTS, MIN_KNOWLEDGE, MAX_KNOWLEDGE,
            out, first, last,
        )  # fmt: skip
    return out.reshape(len(own), len(STRENGTHS), VECTORS, -1)


def assert_close(actual, expected, error, there):
    """Evidence is compared between classes: a common offset does not matter."""
    first = int(np.flatnonzero(there)[0])
    actual, expected = actual - actual[..., [first]], expected - expected[..., [first]]
    gap = np.abs(actual - expected)[..., there]
    assert (gap <= error[..., None]).all(), f"off by {gap.max()}, where {error.max()} can be rounding"


strengths = st.sampled_from([0.01, 0.2, 1.0, 5.0]).map(lambda unit: np.array(STRENGTHS) * unit)


@given(corpora(weights=WEIGHTS), corpora(weights=WEIGHTS), strengths, factors, st.booleans())
def test_evidence_of_new_rows_is_the_definition(learned, new, strength, factor, dense):
    rows = [{item if item % 5 else item - 1 for item in row} for row in new.rows]  # −1, and items ≥ v: unknown
    by_class = shares(np.bincount(learned.y, learned.weight, minlength=learned.k), 0.0, factor)
    table = tables_of(learned.cells, strength, by_class, dense)
    n = len(rows)
    evidence = all_evidence(table, compress(rows), np.full(n, -1, dtype=np.int32), np.zeros(n))
    assert np.isfinite(evidence).all()
    N, pi = by_hand.sums(learned.rows, learned.y.tolist(), learned.weight), by_class.share
    if (pi > 0).sum() < 2:
        return  # one class: no information
    for i, row in enumerate(rows):
        known = {w for w in row if w >= 0}
        expected, error = by_hand.evidence(
            known, N, pi, strength, KNOTS, MIN_KNOWLEDGE, MAX_KNOWLEDGE, len(row), by_class.factor
        )
        assert_close(evidence[i], expected, error, pi > 0)


FOUR_ROWS = Corpus([{0, 1}, {0}, {1}, {0, 1}], np.array([0, 0, 1, 1], dtype=np.int32), np.ones(4), 2, 2)


@given(corpora(least_rows=2, weights=WEIGHTS), strengths, factors, st.booleans())
@example(FOUR_ROWS, np.ones(3), [1.0], True)
@example(FOUR_ROWS, np.ones(3), [1.0, 4.0], True)
def test_evidence_without_a_row_is_that_of_sums_which_never_had_it(corpus, strength, factor, dense):
    rows, cells, by_class = corpus.compressed, corpus.cells, np.bincount(corpus.y, corpus.weight, minlength=corpus.k)
    for gone in np.unique(corpus.weight):
        which = np.flatnonzero(corpus.weight == gone)
        if by_class.sum() - gone <= 1e-9:
            continue  # nothing is left
        left = shares(by_class, float(gone), factor)
        table = tables_of(cells, strength, left, dense)
        evidence = all_evidence(table, rows, corpus.y, damped(rows) * gone)
        assert np.isfinite(evidence[which]).all()
        for i in which:
            rest = corpus.without(i)
            pi = by_hand.shares(rest["y"], rest["weight"], corpus.k)
            if (pi > 0).sum() < 2:
                continue  # one class is left
            N = by_hand.sums(**rest)
            expected, error = by_hand.evidence(
                corpus.rows[i], N, pi, strength, KNOTS, MIN_KNOWLEDGE, MAX_KNOWLEDGE, None, left.factor
            )
            assert_close(evidence[i], expected, error, pi > 0)


@given(corpora(least_rows=2), strengths)
def test_how_items_are_laid_out_changes_nothing(corpus, strength):
    left = shares(np.bincount(corpus.y, minlength=corpus.k).astype(float), 1.0)
    rows, taken = corpus.compressed, damped(corpus.compressed)
    side_by_side, one_by_one = (
        all_evidence(tables_of(corpus.cells, strength, left, dense), rows, corpus.y, taken) for dense in (True, False)
    )
    # The same products are added in the same order, one of them fused with a multiplication perhaps.
    np.testing.assert_allclose(side_by_side, one_by_one, rtol=1e-13, atol=1e-13)


@given(corpora(least_rows=3), st.integers(0, 3), st.integers(0, 3))
def test_evidence_of_some_rows_writes_no_others(corpus, first, last):
    left = shares(np.bincount(corpus.y, minlength=corpus.k).astype(float), 1.0)
    table, rows = tables_of(corpus.cells, np.array(STRENGTHS), left), corpus.compressed
    taken = damped(rows)
    everything = all_evidence(table, rows, corpus.y, taken)
    some = all_evidence(table, rows, corpus.y, taken, first, last)
    np.testing.assert_array_equal(some[first:last], everything[first:last])
    assert not some[:first].any()
    assert not some[max(first, last) :].any()


def test_rows_without_evidence():
    corpus = Corpus([{0}, {1}, set()], np.array([0, 1, 0], dtype=np.int32), np.ones(3), 2, 2)
    table = tables_of(corpus.cells, np.array(STRENGTHS), shares(np.array([2.0, 1.0])))
    rows, own = compress([set(), {-1}, {2, 99}]), np.full(3, -1, dtype=np.int32)
    assert not all_evidence(table, rows, own, np.zeros(3)).any()
    own, taken = np.array([0], dtype=np.int32), np.ones(1)
    table = tables_of(corpus.cells, np.array(STRENGTHS), shares(np.array([2.0, 1.0]), 1.0))
    only = all_evidence(table, compress([{0}]), own, taken)
    assert not only.any(), "without the row nothing is known of its item"


def test_evidence_must_be_written_in_one_piece():
    corpus = Corpus([{0}, {1}], np.array([0, 1], dtype=np.int32), np.ones(2), 2, 2)
    table = tables_of(corpus.cells, np.array(STRENGTHS), shares(np.ones(2)))
    rows, own = corpus.compressed, np.full(2, -1, dtype=np.int32)
    for out in (np.zeros((2, 30, 2), order="F"), np.zeros((2, 30, 4))[:, :, ::2], np.zeros((2, 60, 2))[:, ::2]):
        with pytest.raises(ValueError, match="contiguous"):
            table.evidence(rows, own, np.zeros(2), out, n_jobs=1)


def test_threads_change_nothing():
    rng = np.random.default_rng(0)
    n, v, k = 3000, 500, 5
    rows = compress([set(rng.choice(v, rng.integers(0, 40), replace=False).tolist()) for _ in range(n)])
    y = rng.integers(0, k, n).astype(np.int32)
    cells = ItemSums.of(rows, y, damped(rows), v, k)
    left = shares(np.bincount(y).astype(float), 1.0, [1.0, 2.0])
    results = []
    for n_jobs in (1, 3):
        table, out = Tables.of(cells, np.array(STRENGTHS), left, n_jobs), np.zeros((n, 30, k))
        table.evidence(rows, y, damped(rows), out, n_jobs)
        results.append(out)
    np.testing.assert_array_equal(*results)


# ------------------------------------------------------------------ scores


def learned_sums(cells, item):
    """An item's classes and sums."""
    mine = slice(*cells.ptr[item : item + 2])
    return *cells.cls[mine].tolist(), *cells.val[mine].tolist()


@pytest.mark.parametrize("factor", [[1.0], [0.5, 1.0, 16.0]], ids=["one factor", "three"])
@pytest.mark.parametrize("k", [3, 19, 40, 300])  # few classes, more, and many: items are laid out in other ways
def test_scores_are_weighted_evidence(k, factor):
    """Given the sums of each entry, by records of all items, and entry by entry; with slopes of some items."""
    rng = np.random.default_rng(k)
    n, v, strength = 3 * k, 30, np.array(STRENGTHS)
    often = np.linspace(0.02, 0.95, v)  # items of few classes, and of almost all
    y = np.resize(np.arange(k), n).astype(np.int32)
    documents = [set(np.flatnonzero(rng.random(v) < often).tolist()) for _ in range(n)]
    for document in documents:  # two items with the same sums
        document.difference_update({v - 1} if 2 not in document else ())
        document.update({v - 1} if 2 in document else ())
    learned = Corpus(documents, y, np.ones(n), v, k)
    cells, by_class = learned.cells, shares(np.bincount(y, minlength=k).astype(float), 0.0, factor)
    new = compress([{-1, -7, v + 3, *rng.choice(v, 12).tolist()}, set(), {v}, set(range(v)), {0, 1, 2}])
    own, damp = np.full(5, -1, dtype=np.int32), damped(new)
    evidence = all_evidence(tables_of(cells, strength, by_class), new, own, np.zeros(5))
    distinct, group = np.unique(by_class.factor, return_inverse=True)
    column, slopes = np.full(v - 2, -1, dtype=np.int32), rng.normal(size=(2, k))
    column[[1, 5]] = 0, 1
    for used in ([True, True, True], [True, False, True]):  # strengths; and some knots without any weight
        weights = rng.random((3, VECTORS)) * (rng.random((3, VECTORS)) < 0.6) * np.array(used)[:, None]
        scale = kernel.ItemScale(
            by_class.share * by_class.factor, group.astype(np.int32), distinct, np.append(strength, 1.0), KNOTS,
            weights, float(by_class.entropy[-1]), MIN_KNOWLEDGE, MAX_KNOWLEDGE,
        )  # fmt: skip
        expected = np.einsum("nsvk,sv->nk", evidence, weights)
        given = [np.isin(new[1][new[0][i] : new[0][i + 1]], [1, 5]) for i in range(5)]
        for i in range(5):
            for w in new[1][new[0][i] : new[0][i + 1]][given[i]]:
                expected[i] += damp[i] * slopes[column[w]]
        known = (new[1] >= 0) & (new[1] < v)
        sizes = np.where(known, np.diff(cells.ptr)[np.where(known, new[1], 0)], 0)
        ptr = np.append(0, np.cumsum(sizes)).astype(np.int64)
        at = [np.arange(*cells.ptr[w : w + 2]) for w in new[1][known]]
        mine = cells.cls[np.concatenate(at)], cells.val[np.concatenate(at)]
        out, there = np.zeros((2, 5, k)), np.zeros((2, 5), dtype=np.uint8)
        scale.answer(*new, damp, damp, column, slopes, out[0], there[0], ptr, *mine)
        sums = cells.ptr, cells.cls, cells.val, column, slopes
        record_of, which, place, room = scale.records(*sums)
        distinct_sums = {learned_sums(cells, w) for w in range(v)}
        alone = 2 if k <= 4 else 0  # of few classes, an item with a column has a record of its own
        assert len(distinct_sums) <= len(which) == len(place) <= len(distinct_sums) + alone < v
        assert record_of[2] == record_of[v - 1]
        for first, last in ((0, 3), (3, len(which))):
            scale.fill(*sums, which, place, room, first, last)
        for first, last in ((0, 2), (2, 2), (2, 5)):
            scale.answer_by_records(*new, damp, damp, column, slopes, out[1], there[1], record_of, room, first, last)
        assert there.tolist() == [[one.any() for one in given]] * 2
        np.testing.assert_array_equal(out[0], out[1])
        np.testing.assert_allclose(out[0] - out[0][:, :1], expected - expected[:, :1], atol=1e-11)
        row = slice(new[0][3], new[0][4])
        own_cells = slice(ptr[row.start], ptr[row.stop])
        terms = scale.terms(
            ptr[row.start : row.stop + 1] - ptr[row.start], *(a[own_cells] for a in mine), damp[3], 1, 0
        )
        slope = damp[3] * slopes.sum(axis=0)
        assert terms.sum() == pytest.approx(out[0, 3, 1] - out[0, 3, 0] - slope[1] + slope[0], abs=1e-11)


@pytest.mark.parametrize("k", [3, 19, 40])
def test_records_that_do_not_fit_are_refused(k):
    learned = Corpus([{0, 1}, {1, 2}] * k, np.resize(np.arange(k), 2 * k).astype(np.int32), np.ones(2 * k), 3, k)
    cells, column, one = learned.cells, np.zeros(0, dtype=np.int32), np.ones(1)
    scale = kernel.ItemScale(
        np.full(k, 1 / k), np.zeros(k, dtype=np.int32), one, np.array([*STRENGTHS, 1.0]), KNOTS,
        np.ones((3, VECTORS)), 1.0, MIN_KNOWLEDGE, MAX_KNOWLEDGE,
    )  # fmt: skip
    sums = cells.ptr, cells.cls, cells.val, column, None
    record_of, which, place, room = scale.records(*sums)
    scale.fill(*sums, which, place, room, 0, len(which))
    for first, last, short in ((0, len(which) + 1, room), (2, 1, room), (-1, 1, room), (0, len(which), room[:8])):
        with pytest.raises(ValueError, match="the records do not fit the sums"):
            scale.fill(*sums, which, place, short, first, last)
    for wrong in ((which + 3, place), (which - 9, place), (which, place - 2**20), (which, place + 2**29)):
        with pytest.raises(ValueError, match="the records do not fit the sums"):
            scale.fill(*sums, *wrong, room, 0, len(which))
    with pytest.raises(ValueError, match="the sums do not fit the rows"):
        scale.records(cells.ptr, cells.cls + k, cells.val, column, None)
    row = np.array([0, 3], dtype=np.int64), np.arange(3, dtype=np.int32), one, one, column, None
    out = np.zeros((1, k)), np.zeros(1, dtype=np.uint8)
    with pytest.raises(ValueError, match="there are no records"):
        scale.answer_by_records(*row, *out, record_of, room[:3], 0, 1)
