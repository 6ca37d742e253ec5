"""Trees: the equations, the tree of greatest information, pairs that move with their categories."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse.csgraph import minimum_spanning_tree
from sklearn.metrics import mutual_info_score
from worlds import make

from deciban import collect
from deciban.algebra import Stats
from deciban.corollaries.forget import forget, prune
from deciban.errors import ForgetError, SchemaError
from deciban.families import Tree, chow_liu
from deciban.joint import Block, Joint, Model
from deciban.schema import Bins, Columns, Schema, is_forest, parents_first

seeds = st.integers(0, 10_000)


def by_loops(world, row, c, left_out=None):
    """log P(row | class c), from the equations: with new counts, and a sum over all missing values."""
    columns, alpha = world.schema.blocks[0], world.alpha
    sizes = [len(values) for values in columns.categories]
    weight = np.ones(len(world.y)) if world.weight is None else world.weight
    mine = [i for i in range(len(world.y)) if world.y[i] == c and i != left_out]

    def law(j, v, u):
        """P(x_j = v | its parent is u): None is no parent, and one past the last was never seen."""
        on = columns.parents[j]
        here = [i for i in mine if not np.isnan(world.X[i, j]) and (u is None or world.X[i, on] == u)]
        n, hit = (sum(weight[i] for i in rows) for rows in (here, [i for i in here if world.X[i, j] == v]))
        return (hit + alpha) / (n + alpha * (sizes[j] + (v >= sizes[j])))

    total, gone = 0.0, np.flatnonzero(np.isnan(row))
    for values in itertools.product(*(range(sizes[j]) for j in gone)):
        full = row.copy()
        full[gone] = values
        parents = [None if on < 0 else full[on] for on in columns.parents]
        total += np.prod([law(j, full[j], parents[j]) for j in range(len(full))])
    return np.log(total)


def some_rows(seed, d):
    """Rows with entries that are missing, and some that were never seen."""
    rows = np.random.default_rng(seed).integers(-2, 6, (8, d)).astype(float)
    rows[rows < 0] = np.nan
    return rows


@given(seeds, st.integers(1, 5), st.booleans(), st.booleans(), st.sampled_from([0.1, 1.0, 2.5]))
def test_says_what_the_equations_say(seed, d, missing, weighted, alpha):
    world = make("tree", seed, 20, d, 2, missing, weighted, alpha)
    rows = some_rows(seed, d)
    log_prob = world.family.log_prob(world.model().params[0], world.schema.blocks[0], rows)
    expected = [[by_loops(world, row, c) for c in range(2)] for row in rows]
    np.testing.assert_allclose(log_prob, expected, rtol=1e-9, atol=1e-12)


@given(seeds, st.integers(2, 5), st.booleans(), st.sampled_from([0.1, 1.0]))
def test_leave_one_out_of_rows_with_gaps_is_that_of_the_equations(seed, d, weighted, alpha):
    world = make("tree", seed, 14, d, 2, True, weighted, alpha)
    log_prob = world.family.leave_one_out(
        world.collect().sums[0], alpha, world.schema.blocks[0], world.X, world.y, world.weight
    )
    expected = [[by_loops(world, row, c, left_out=i) for c in range(2)] for i, row in enumerate(world.X)]
    np.testing.assert_allclose(log_prob, expected, rtol=1e-9, atol=1e-12)


@given(seeds, st.integers(2, 5))
def test_terms_add_up_where_columns_are_missing(seed, d):
    world = make("tree", seed, 20, d, 3, True, False, 0.5)
    params, columns = world.model().params[0], world.schema.blocks[0]
    for row in some_rows(seed, d):
        at, terms = world.family.terms(params, columns, row[None])
        assert sorted(at) == np.flatnonzero(~np.isnan(row)).tolist()
        np.testing.assert_allclose(terms.sum(axis=0), world.family.log_prob(params, columns, row[None])[0], atol=1e-9)


def test_a_column_is_known_through_the_one_between():
    """a – b – c with b missing: c is evidence of the class only together with a, and a only through b."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 4000)
    a = rng.integers(0, 4, 4000)
    b = np.where(rng.random(4000) < 0.97, a, rng.integers(0, 4, 4000))
    c = np.where(rng.random(4000) < 0.97, (b + 2 * y) % 4, rng.integers(0, 4, 4000))
    columns = Columns(3, categories=(range(4),) * 3, parents=(-1, 0, 1))
    joint, X = Joint((Block(Tree(), 1.0),)), np.column_stack([a, b, c]).astype(float)
    model = Model(joint, collect.collect([X], joint, Schema(np.arange(2), (columns,)), y.astype(np.int32)))
    X[:, 1] = np.nan
    assert (model.log_joint([X]).argmax(axis=1) == y).mean() > 0.9


def test_a_parent_of_which_nothing_was_seen_is_none():
    columns = Columns(2, categories=((), range(2)), parents=(-1, 0))
    joint, X = Joint((Block(Tree(), 1.0),)), np.array([[np.nan, 0.0], [np.nan, 0.0], [np.nan, 1.0]])
    model = Model(joint, collect.collect([X], joint, Schema(np.arange(1), (columns,)), np.zeros(3, dtype=np.int32)))
    log_prob = model.log_likelihood([np.array([[np.nan, 0.0], [0.0, 0.0], [np.nan, np.nan]])])
    np.testing.assert_allclose(np.exp(log_prob[:, 0]), [3 / 5, 1 / 2, 1.0])


def test_nothing_is_possible_where_no_value_is():
    """Without smoothing all summands can be zero: −∞, and the terms add up to it."""
    world = make("tree", 3, 20, 4, 2, False, False, 0.0)
    columns, params = world.schema.blocks[0], world.model().params[0]
    for row in some_rows(1, 4):
        log_prob = world.family.log_prob(params, columns, row[None])[0]
        assert not np.isnan(log_prob).any()
        np.testing.assert_allclose(world.family.terms(params, columns, row[None])[1].sum(axis=0), log_prob, atol=1e-9)


@given(seeds, st.booleans())
def test_whole_rows_have_probabilities_that_sum_to_one(seed, missing):
    world = make("tree", seed, 20, 4, 2, missing, False, 0.7)
    columns = world.schema.blocks[0]
    everything = np.array(list(itertools.product(*columns.categories)), dtype=float)
    log_prob = world.family.log_prob(world.model().params[0], columns, everything)
    np.testing.assert_allclose(np.exp(log_prob).sum(axis=0), 1.0, atol=1e-9)


def test_without_parents_it_is_categorical():
    plain = make("categorical", 4, 40, 4, 3, True, True, 0.5)
    tree = Model(
        Joint((Block(Tree(), 0.5),)),
        collect.collect([plain.X], Joint((Block(Tree()),)), plain.schema, plain.y, plain.weight),
    )
    np.testing.assert_allclose(tree.log_joint([plain.X]), plain.model().log_joint([plain.X]), rtol=1e-12)


def test_samples_follow_the_law():
    world = make("tree", 3, 60, 3, 2, False, False, 1.0)
    columns, params = world.schema.blocks[0], world.model().params[0]
    everything = np.array(list(itertools.product(*columns.categories)), dtype=float)
    y = np.zeros(40_000, dtype=int)
    rows = world.family.sample(params, columns, y, np.random.default_rng(0), y)
    law = np.exp(world.family.log_prob(params, columns, everything))[:, 0]
    frequency = np.array([(rows == row).all(axis=1).mean() for row in everything])
    # Five standard errors of a share of 40,000 draws.
    assert (np.abs(frequency - law) < 5 * np.sqrt(law * (1 - law) / len(y)) + 1e-12).all()


# ------------------------------------------------------------------ pairs under other schemas


def stats(categories, parents, rows, classes=("a",)):
    schema = Schema(np.array(classes), (Columns(2, ("u", "v"), categories, parents=parents),))
    places = [[values.index(x) for values, x in zip(categories, row, strict=True)] for row in rows]
    codes = np.array(places, dtype=np.int32).reshape(len(rows), 2)
    return collect.collect([codes], Joint((Block(Tree()),)), schema, np.zeros(len(rows), dtype=np.int32))


def test_pairs_move_with_their_categories():
    one = stats((("r", "g"), ("x",)), (-1, 0), [("r", "x"), ("g", "x"), ("g", "x")])
    two = stats((("b", "g"), ("y", "x")), (-1, 0), [("b", "y"), ("g", "x")])
    both = one + two
    assert both.schema.blocks[0].categories == (("r", "g", "b"), ("x", "y"))
    assert both.sums[0]["pair"].tolist() == [[1, 0, 3, 0, 0, 1]]  # r, g, b by x, y
    assert (both - two).same_as(one.embed(both.schema))
    assert prune(both - two, None).sums[0]["pair"].tolist() == [[1, 2]]


def test_a_tree_not_chosen_yet_takes_the_others():
    empty = stats(((), ()), None, [])
    some = stats((("r",), ("x", "y")), (-1, 0), [("r", "y")])
    for both in (empty + some, some + empty):
        assert both.schema.blocks[0].parents == (-1, 0)
        assert both.sums[0]["pair"].tolist() == [[0, 1]]


def test_different_trees_and_intervals_do_not_merge():
    rows = [("r", "x")]
    with pytest.raises(SchemaError, match=r"column 'u' depends on none in one and on 'v' in the other.*parents_"):
        stats((("r",), ("x",)), (-1, 0), rows) + stats((("r",), ("x",)), (1, -1), rows)
    cuts = [Schema(np.array(["a"]), (Columns(1, ("age",), (Bins((cut,), (0.0, 9.0)),)),)) for cut in (1.0, 2.0)]
    with pytest.raises(SchemaError, match="bins for column 'age'"):
        cuts[0].union(cuts[1])


def test_values_that_were_learned_beside_others_are_not_forgotten():
    """Every value was learned, but not these two together; nor alone."""
    categories = (("r", "g"), ("x", "y"))
    model = Model(Joint((Block(Tree()),)), stats(categories, (-1, 0), [("r", "x"), ("g", "y")]))
    with pytest.raises(ForgetError, match="column 'v'"):
        forget(model, stats(categories, (-1, 0), [("r", "y")]))
    alone = stats(categories, (-1, 0), [("r", "x")])
    alone = Stats(alone.schema, alone.weight, ({**alone.sums[0], "pair": np.zeros((1, 4))},))
    with pytest.raises(ForgetError, match="in column 'v' more would be left"):
        forget(model, alone)


def test_circles_are_no_trees():
    assert is_forest((-1, 0, 1, -1))
    assert parents_first((1, -1, 0)) == [1, 0, 2]
    for circle in ((0,), (1, 0), (-1, 2, 3, 1), (5, -1), (-2, 0)):
        assert not is_forest(circle)


def test_parameters_are_named_by_what_they_hang_on():
    columns = Columns(2, ("u", "v"), (("r",), Bins((1.5,), (1.0, 2.0))), parents=(-1, 0))
    model = Model(
        Joint((Block(Tree()),)),
        collect.collect(
            [np.array([[0, 1.0]])], Joint((Block(Tree()),)), Schema(np.array(["a"]), (columns,)), np.zeros(1)
        ),
    )
    names, log_prob = Tree().typical(model.params[0], columns)
    assert names == ["u=r", "v ≤ 1.5 given u=r", "v > 1.5 given u=r"]
    np.testing.assert_allclose(np.exp(log_prob[:, 0]), [1, 1 / 3, 2 / 3])


# ------------------------------------------------------------------ the tree of greatest information


def table(seed, n=300, d=5, k=3, most=5):
    rng = np.random.default_rng(seed)
    codes = rng.integers(-1, most, (n, d)).astype(np.int32)
    for j in range(1, d):  # something to find
        codes[:, j] = np.where(rng.random(n) < 0.5, codes[:, rng.integers(0, j)], codes[:, j])
    return codes, np.full(d, most), rng.integers(0, k, n).astype(np.int32), rng.integers(0, 3, n).astype(float)


@given(seeds, st.booleans())
def test_information_is_that_of_the_counts(seed, wide):
    codes, sizes, y, weight = table(seed, 60)
    before, chow_liu.MAX_KERNEL_CATEGORIES = (
        chow_liu.MAX_KERNEL_CATEGORIES,
        0 if wide else chow_liu.MAX_KERNEL_CATEGORIES,
    )
    try:
        of_class, between = chow_liu.information(codes, sizes, y, weight, 3)
    finally:
        chow_liu.MAX_KERNEL_CATEGORIES = before
    rows = np.repeat(np.arange(60), weight.astype(int))
    codes, y = codes[rows], y[rows]
    for i, j in itertools.combinations(range(5), 2):
        both = (codes[:, i] >= 0) & (codes[:, j] >= 0)
        parts = [both & (y == c) for c in range(3)]
        expected = sum(p.sum() * mutual_info_score(codes[p, i], codes[p, j]) for p in parts if p.any()) / both.sum()
        assert between[i, j] == between[j, i] == pytest.approx(expected, abs=1e-12)
    there = codes[:, 0] >= 0
    assert of_class[0] == pytest.approx(mutual_info_score(codes[there, 0], y[there]), abs=1e-12)


@given(seeds)
def test_the_forest_has_the_greatest_sum(seed):
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, 9))
    between = np.triu(rng.random((d, d)) * (rng.random((d, d)) < 0.4), 1)
    between, first = between + between.T, rng.random(d)
    parents = chow_liu.spanning_forest(between, first)
    assert is_forest(parents)
    total = sum(between[j, on] for j, on in enumerate(parents) if on >= 0)
    assert total == pytest.approx(-minimum_spanning_tree(-between).sum())
    root = {}
    for j in parents_first(parents):
        root[j] = root[parents[j]] if parents[j] >= 0 else j
        assert first[root[j]] >= first[j]


def test_a_tree_is_found_again():
    """Rows drawn from a tree, each column equal to its parent's in nine cases of ten: all edges are recovered."""
    rng = np.random.default_rng(0)
    parents = (-1, 0, 0, 1, 1, 3, -1)
    y = rng.integers(0, 2, 2000).astype(np.int32)
    codes = rng.integers(0, 3, (2000, 7)).astype(np.int32)
    codes[:, 0] = (y + (rng.random(2000) < 0.2)) % 3  # tells most of the class
    for j in parents_first(parents):
        if parents[j] >= 0:
            codes[:, j] = np.where(rng.random(2000) < 0.9, codes[:, parents[j]], codes[:, j])
    assert chow_liu.chow_liu(codes, np.full(7, 3), y, None, 2) == parents


def test_columns_that_have_nothing_to_do_with_each_other_are_not_joined():
    """20 tables of noise with 45 pairs each: with so many degrees of freedom, Akaike rarely keeps an edge by chance."""
    rng = np.random.default_rng(0)
    edges = []
    for _ in range(20):
        codes, y = rng.integers(0, 5, (500, 10)).astype(np.int32), rng.integers(0, 2, 500).astype(np.int32)
        edges.append(sum(on >= 0 for on in chow_liu.chow_liu(codes, np.full(10, 5), y, None, 2)))
    assert np.mean(edges) < 1.0  # P(χ²_32 > 64) is 0.0006


@pytest.mark.parametrize(("alike", "parents"), [(30, (-1, 0)), (28, (-1, -1))])
def test_an_edge_stays_by_the_criterion_of_akaike(alike, parents):
    """Of 100 rows, 2N·I is 4.03 where 60 agree and 1.44 where 56 do; there is one degree of freedom."""
    values = np.repeat([[0, 0], [0, 1], [1, 0], [1, 1]], [alike, 50 - alike, 50 - alike, alike], axis=0)
    y = np.zeros(100, dtype=np.int32)
    assert chow_liu.chow_liu(values.astype(np.int32), np.array([2, 2]), y, None, 1) == parents


def test_a_table_too_wide_is_not_looked_at():
    n = 5000
    codes = np.column_stack([np.arange(n), np.arange(n)]).astype(np.int32)
    assert chow_liu.chow_liu(codes, np.array([n, n]), np.zeros(n, dtype=np.int32), None, 1) == (-1, -1)
