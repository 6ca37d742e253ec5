"""The evidence of every expert, against its equation written out; its sums add up and subtract."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp
from scipy.stats import multivariate_normal, multivariate_t
from small_tables import (
    EXPERTS,
    no_columns,
    no_contexts,
    no_forest,
    no_gaussians,
    no_order,
    random_frame,
    random_sample,
    strange_frame,
)

from deciban.reading.columns import Levels, Numbers
from deciban.tables.encode import Known, choose_encoding
from deciban.tables.experts.base import limited
from deciban.tables.experts.columns import (
    BINNED,
    CATEGORIES,
    Smoothing,
    choose_smoothings,
    limited_losses,
    log_loss,
    log_table,
    smoothing_losses,
)
from deciban.tables.experts.contexts import MAX_PARENTS, choose_parents, half_of
from deciban.tables.experts.forest import GROWING_SHARE, members
from deciban.tables.experts.gaussians import MIN_PIECE_ROWS, Moments, Pieces, Shape, cut_classes
from deciban.tables.experts.ordered import ranks

UNSEEN = 255
SEEDS = st.integers(0, 10_000)


def later_sample(seed, n, k, weighted=False, gaps=0.2):
    """Rows with missing values and colours that did not exist when bins and categories were chosen."""
    sample = random_sample(seed, n, k, weighted, gaps)
    before = random_frame(np.random.default_rng(seed), 40, 0.0, ("red", "green"))
    return replace(sample, encoding=choose_encoding(before).with_new(sample.frame))


def samples(most):
    how = SEEDS, st.integers(4, most), st.integers(2, 4), st.booleans(), st.sampled_from([0, 0.2])
    return st.builds(random_sample, *how) | st.builds(later_sample, *how)


SAMPLES, SMALLER = samples(30), samples(16)
SHAPES = st.builds(
    Shape, st.sampled_from([0.1, 2.0, np.inf]), st.sampled_from([0.01, 0.4]), st.sampled_from([4.0, 20.0, np.inf])
)


def about_mean(evidence, seen=None):
    """Evidence less its mean over the classes that have rows."""
    return evidence - evidence[:, slice(None) if seen is None else seen].mean(axis=1, keepdims=True)


def seen_classes(sample, which=None):
    y, w = (sample.y, sample.weights) if which is None else (sample.y[which], sample.weights[which])
    return np.bincount(y, w, minlength=sample.k) > 0


# ------------------------------------------------------------------ columns


def spread_by_hand(size, spread):
    """K[v, u]: how much of a count in u goes to v. Code 0, a missing entry, is no neighbour of any bin."""
    K = np.zeros((size, size))
    K[0, 0] = 1.0
    for u in range(1, size):
        near = [np.exp(-((v - u) ** 2) / (2 * spread**2)) if spread else float(v == u) for v in range(1, size)]
        K[1:, u] = np.array(near) / sum(near)
    return K


def column_by_hand(codes, y, weight, k, smoothing, size, v):
    """log p(v | y) of one column, every class; nothing where no row has it, or its count is spread too far."""
    count = np.zeros((k, size))
    for code, c, w in zip(codes, y, weight, strict=True):
        if code >= 0:
            count[c, code] += w
    by = spread_by_hand(size, smoothing.spread)[v]
    if v < 0 or by @ count.sum(axis=0) <= 1e-12 * count.sum():
        return np.zeros(k)
    share = by @ count.sum(axis=0) / count.sum()
    return np.log((count @ by + smoothing.strength * share) / (count.sum(axis=1) + smoothing.strength))


def columns_by_hand(expert, sample, which, rows):
    codes, y, w = sample.rows.codes[which], sample.y[which], sample.weights[which]
    sizes = np.diff(expert.offsets)
    return np.array(
        [
            [
                column_by_hand(codes[:, j], y, w, sample.k, smoothing, sizes[j], row[j])
                for j, smoothing in enumerate(expert.smoothings)
            ]
            for row in rows.codes
        ]
    ).reshape(len(rows), len(expert.smoothings), sample.k)


@given(SAMPLES, SEEDS)
def test_columns_are_naive_bayes(sample, seed):
    expert = no_columns(sample, seed).learned(sample.rows, sample.y, sample.weight)
    everything, seen = np.arange(len(sample.y)), seen_classes(sample)
    for frame in (sample.frame, strange_frame(seed)):
        rows = sample.encoding.rows(frame)
        terms = columns_by_hand(expert, sample, everything, rows)
        terms -= terms[:, :, seen].mean(axis=2, keepdims=True)
        np.testing.assert_allclose(expert.evidence(rows), terms.sum(axis=1), atol=1e-10)
        each, together = expert.terms(rows)
        np.testing.assert_allclose(each, terms, atol=1e-10)
        assert not together.any()
        factors = np.linspace(0, 2, len(expert.smoothings))
        np.testing.assert_allclose(
            expert.weighted_evidence(rows, factors), np.einsum("ndk,d->nk", terms, factors), atol=1e-10
        )


@given(SAMPLES, SEEDS)
def test_columns_without_a_row(sample, seed):
    """Also of a class of one row (row 0) and of a category of one row (row 1)."""
    expert = no_columns(sample, seed).learned(sample.rows, sample.y, sample.weight)
    d = len(expert.smoothings)
    factors = np.linspace(0, 2, d)
    weighted, by_column = expert.weighted_evidence_without(sample.rows, sample.y, sample.weight, factors, np.arange(d))
    for i in range(len(sample.y)):
        terms = columns_by_hand(expert, sample, sample.but(i), sample.rows.take([i]))[0]
        np.testing.assert_allclose(by_column[i], terms - terms.mean(axis=1, keepdims=True), atol=1e-9)
    assert not by_column[1, 2].any(), "a category that no other row has is no evidence"
    whole = expert.evidence_without(sample.rows, sample.y, sample.weight)
    np.testing.assert_allclose(whole, by_column.sum(axis=1), atol=1e-12)
    np.testing.assert_allclose(weighted, np.einsum("ndk,d->nk", by_column, factors), atol=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_loss_of_a_law_is_that_of_rows_left_out(weighted):
    """One weight for all rows, as `smoothing_losses` assumes."""
    sample = random_sample(5, 40, 3)
    row_weight = 2.5 if weighted else 1.0
    w = np.full(40, row_weight)
    log_prior = np.log(np.bincount(sample.y, w, 3) / w.sum())
    for j, smoothings in ((0, BINNED), (2, CATEGORIES)):
        size = sample.encoding.columns[j].size
        counts = np.zeros((3, size))
        np.add.at(counts, (sample.y, sample.rows.codes[:, j]), w)
        losses = smoothing_losses(counts, smoothings, log_prior, row_weight)
        for smoothing, loss in zip(smoothings, losses, strict=True):
            expected = 0.0
            for i in range(40):
                rest = sample.but(i)
                codes = sample.rows.codes[:, j]
                scores = column_by_hand(codes[rest], sample.y[rest], w[rest], 3, smoothing, size, codes[i]) + log_prior
                expected += row_weight * (logsumexp(scores) - scores[sample.y[i]])
            np.testing.assert_allclose(loss, expected, rtol=1e-9, err_msg=str(smoothing))


def test_the_default_law_stays_unless_another_gains():
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 9, (2, 6)).astype(float)
    offsets, log_prior = np.array([0, 6]), np.log([0.5, 0.5])
    for binned, smoothings in ((1, BINNED), (0, CATEGORIES)):
        ((smoothing,), losses, defaults) = choose_smoothings(counts, offsets, np.array([binned]), log_prior, 1.0, True)
        tried = smoothing_losses(counts, smoothings, log_prior, 1.0)
        assert defaults[0] == tried[0]
        assert smoothing == (smoothings[0] if tried.min() >= tried[0] - 3 else smoothings[int(tried.argmin())])
        assert losses[0] == tried[smoothings.index(smoothing)]
        ((smoothing,), _, _) = choose_smoothings(counts, offsets, np.array([binned]), log_prior, 1.0, False)
        assert smoothing == smoothings[0]


def test_probabilities_of_a_column_add_up_to_one():
    """Over the values that were seen: an unseen one has probability 0, and smoothing loses none."""
    rng = np.random.default_rng(1)
    counts = rng.integers(1, 9, (3, 7)).astype(float)
    for smoothing in (*BINNED, *CATEGORIES):
        np.testing.assert_allclose(
            np.exp(log_table(counts, smoothing)).sum(axis=1), 1.0, rtol=1e-12, err_msg=str(smoothing)
        )


# ------------------------------------------------------------------ Gaussians


def gaussians_by_hand(expert, sample, which, rows):
    """log Σ_p (n_p/n_y) p(x | part) of the columns whose values were seen, −∞ for a class without rows."""
    X = getattr(sample.rows, expert.view)
    part = expert.pieces.of(X, sample.y)[which]
    X, w = X[which], sample.weights[which]
    lean, g, nu = expert.shape.lean, expert.shape.diagonal, expert.shape.tails
    D, P = X.shape[1], len(expert.pieces.owner)
    n, means, S = np.zeros(P), np.zeros((P, D)), np.zeros((P, D, D))
    for p in range(P):
        mine = part == p
        n[p] = w[mine].sum()
        if n[p]:
            means[p] = w[mine] @ X[mine] / n[p]
            Z = X[mine] - means[p]
            S[p] = Z.T @ (Z * w[mine, None])
    common = (1 - g) * S.sum(axis=0) / max(n.sum(), 1.0) + g * np.diag(expert.target)
    sigmas = [common if np.isinf(lean) else (S[p] + lean * D * common) / (n[p] + lean * D) for p in range(P)]
    out = np.full((len(rows), sample.k), -np.inf)
    for i, x in enumerate(getattr(rows, expert.view)):
        present = np.flatnonzero(rows.small[i, sample.encoding.owner] != UNSEEN)
        if not len(present):
            out[i] = 0.0
            continue
        for c in range(sample.k):
            parts = np.flatnonzero((expert.pieces.owner == c) & (n > 0))
            logs = []
            for p in parts:
                mean, sigma = means[p, present], sigmas[p][np.ix_(present, present)]
                law = multivariate_normal(mean, sigma) if np.isinf(nu) else multivariate_t(mean, sigma, nu)
                logs.append(law.logpdf(x[present]) + np.log(n[p] / n[parts].sum()))
            if logs:
                out[i, c] = logsumexp(logs) + 0.5 * len(present) * np.log(2 * np.pi)
    return out


@given(SAMPLES, SHAPES, st.sampled_from(["real", "scores"]), st.sampled_from([1, 4]), SEEDS)
def test_gaussians_are_student_laws(sample, shape, view, pieces, seed):
    """Also where columns are missing, in one row or in many."""
    expert = no_gaussians(sample, view, shape, pieces).learned(sample.rows, sample.y, sample.weight)
    for frame in (sample.frame, strange_frame(seed)):
        rows = sample.encoding.rows(frame)
        by_hand = gaussians_by_hand(expert, sample, np.arange(len(sample.y)), rows)
        np.testing.assert_allclose(expert.evidence(rows), by_hand, rtol=1e-8, atol=1e-7)
        often = np.tile(np.arange(len(rows)), 5)
        np.testing.assert_allclose(expert.evidence(rows.take(often)), by_hand[often], rtol=1e-8, atol=1e-7)


@given(SAMPLES, SHAPES, st.sampled_from(["real", "scores"]), st.sampled_from([1, 4]))
def test_gaussians_without_a_row(sample, shape, view, pieces):
    expert = no_gaussians(sample, view, shape, pieces).learned(sample.rows, sample.y, sample.weight)
    evidence = expert.evidence_without(sample.rows, sample.y, sample.weight)
    for i in range(len(sample.y)):
        # The downdate subtracts nearly equal numbers where few rows span a direction: nine digits are left.
        by_hand = gaussians_by_hand(expert, sample, sample.but(i), sample.rows.take([i]))[0]
        np.testing.assert_allclose(evidence[i], by_hand, rtol=1e-6, atol=1e-6)
    all_unseen = (sample.rows.small[0, sample.encoding.owner] == UNSEEN).all()
    assert evidence[0, sample.k - 1] == (0.0 if all_unseen else -np.inf), "without its only row there is no such class"


@pytest.mark.parametrize("pieces", [2, *(pytest.param(n, marks=pytest.mark.slow) for n in (4, 8))])
def test_gaussians_over_pieces_without_a_row(pieces):
    """Enough rows that classes are cut."""
    sample = random_sample(3, 150, 3, True)
    expert = no_gaussians(sample, "scores", Shape(2.0, 0.1, 4.0), pieces)
    assert len(expert.pieces.owner) > sample.k
    expert = expert.learned(sample.rows, sample.y, sample.weight)
    everything = np.arange(150)
    by_hand = gaussians_by_hand(expert, sample, everything, sample.rows)
    np.testing.assert_allclose(expert.evidence(sample.rows), by_hand, rtol=1e-8, atol=1e-7)
    evidence = expert.evidence_without(sample.rows, sample.y, sample.weight)
    for i in everything[::7]:
        by_hand = gaussians_by_hand(expert, sample, sample.but(i), sample.rows.take([i]))[0]
        np.testing.assert_allclose(evidence[i], by_hand, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("gaps", [0, 0.1])
@pytest.mark.parametrize("pieces", [1, 4])
def test_gaussian_evidence_by_column_adds_up(pieces, gaps):
    """Where no value was missing in learning, a missing value has no coordinate."""
    sample = random_sample(4, 80, 3, gaps=gaps)
    expert = no_gaussians(sample, pieces=pieces).learned(sample.rows, sample.y)
    for frame in (sample.frame, strange_frame(1)):
        rows = sample.encoding.rows(frame)
        each, together = expert.terms(rows)
        np.testing.assert_allclose(each.sum(axis=1) + together, expert.evidence(rows), atol=1e-9)


def test_classes_are_cut_across_their_longest_axis():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3)) * [5, 1, 1]
    y = np.repeat([0, 1], [380, 20]).astype(np.int32)
    cut = cut_classes(X, y, 2, 4)
    assert np.bincount(cut.owner).tolist() == [4, 1], "twenty rows are too few for two pieces of twelve"
    assert abs(cut.axis[0, 0]) > 0.99
    part = cut.of(X, y)
    assert (cut.owner[part] == y).all()
    assert (np.bincount(part) >= MIN_PIECE_ROWS).all()
    quarter = np.sort(X[y == 0, 0])[::95]
    for p in range(4):  # pieces are intervals along that axis, about a quarter of the rows each
        mine = X[(part == p), 0]
        assert mine.size > 50 or cut.owner[p] == 1
    assert len(quarter) == 4
    assert (np.sort(cut.of(X[::-1], y[::-1])) == np.sort(part)).all()


def test_pieces_of_new_classes():
    cut = cut_classes(np.random.default_rng(0).normal(size=(60, 2)), np.zeros(60, dtype=np.int32), 1, 2)
    wider = cut.in_classes(np.array([1]), 3)
    X = np.random.default_rng(1).normal(size=(30, 2))
    y = np.arange(30, dtype=np.int32) % 3
    assert (wider.owner[wider.of(X, y)] == y).all()
    assert (wider.of(X, np.ones(30, dtype=np.int32)) == cut.of(X, np.zeros(30, dtype=np.int32))).all()
    whole = Pieces.whole(2, 2).in_classes(np.array([0, 2]), 3)
    assert (whole.owner[whole.of(X, y)] == y).all()


# ------------------------------------------------------------------ classes in an order


@given(SAMPLES, SHAPES, st.sampled_from(["real", "scores"]))
def test_means_of_ordered_classes_are_a_regression(sample, shape, view):
    """x on the rank, by least squares; a class without a rank has a mean of its own."""
    shape = replace(shape, lean=np.inf)
    learned = no_order(sample, view, shape).learned(sample.rows, sample.y, sample.weight)
    for rank in (learned.rank, np.where(learned.rank == 0, -1, learned.rank).astype(np.int32)):
        expert = replace(learned, rank=rank)
        X, root = getattr(sample.rows, view), np.sqrt(sample.weights)[:, None]
        design = np.column_stack([rank >= 0, np.maximum(rank, 0), rank < 0]).astype(float)
        if (rank >= 0).sum() == 0 or len(np.unique(sample.y[rank[sample.y] >= 0])) < 2:
            design = np.delete(design, 1, axis=1)  # nothing to see of the slope
        means = design @ np.linalg.lstsq(design[sample.y] * root, X * root, rcond=None)[0]
        Z = X - means[sample.y]
        scatter = Z.T @ (Z * sample.weights[:, None]) / max(sample.weights.sum(), 1.0)
        sigma = (1 - shape.diagonal) * scatter + shape.diagonal * np.diag(expert.target)
        laws = [
            multivariate_normal(m, sigma) if np.isinf(shape.tails) else multivariate_t(m, sigma, shape.tails)
            for m in means
        ]
        rows = sample.encoding.rows(sample.frame)
        known = np.flatnonzero((rows.small[:, sample.encoding.owner] != UNSEEN).all(axis=1))
        expected = np.column_stack([np.atleast_1d(law.logpdf(X[known])) for law in laws])[:, seen_classes(sample)]
        evidence = expert.evidence(rows)[known][:, seen_classes(sample)]
        np.testing.assert_allclose(about_mean(evidence), about_mean(expected), rtol=1e-8, atol=1e-7)


def test_labels_that_are_numbers_have_an_order():
    assert ranks(np.array([3, 5, 4])).tolist() == [0, 2, 1]
    assert ranks(np.array(["10", "9", "-1.5"])).tolist() == [2, 1, 0]
    for labels in (["low", "mid", "high"], ["1", "2"], ["1", "1.0", "2"], ["1", "2", "nan"], ["1", "2", "other"]):
        assert ranks(np.array(labels)) is None
    assert ranks(np.array([1, "2", None], dtype=object)) is None


# ------------------------------------------------------------------ contexts


def contexts_by_hand(parents, codes, y, weight, k, depth, strength, row):
    """Σ_j log p_t(v_j), backing off from parents to none to the share in all classes."""
    out = np.zeros(k)
    for j, v in enumerate(row):
        here = codes[:, j] != UNSEEN
        same = here & (codes[:, j] == v)
        if v == UNSEEN or weight[same].sum() == 0:
            continue
        p = np.full(k, weight[same].sum() / weight[here].sum())
        for t in range(depth + 1):
            if t:
                parent = parents[j, t - 1] if t <= parents.shape[1] else -1
                if parent < 0 or row[parent] == UNSEEN:
                    break
                here &= codes[:, parent] == row[parent]
            of_value = np.bincount(y, weight * (here & same), minlength=k)
            p = (of_value + strength * p) / (np.bincount(y, weight * here, minlength=k) + strength)
        out += np.log(p)
    return out


HOW = st.tuples(st.integers(1, MAX_PARENTS), st.sampled_from([0.5, 8.0]))


@given(SAMPLES, HOW, SEEDS)
def test_contexts_back_off(sample, how, seed):
    expert = no_contexts(sample, *how).learned(sample.rows, sample.y, sample.weight)
    codes = expert.codes(sample.rows)
    for frame in (sample.frame.take(slice(6)), strange_frame(seed)):
        rows = sample.encoding.rows(frame)
        by_hand = [
            np.mean(
                [contexts_by_hand(p, codes, sample.y, sample.weights, sample.k, *how, row) for p in expert.parents],
                axis=0,
            )
            for row in expert.codes(rows)
        ]
        np.testing.assert_allclose(expert.evidence(rows), by_hand, atol=1e-9)
        each, together = expert.terms(rows)
        np.testing.assert_allclose(each.sum(axis=1) + together, by_hand, atol=1e-9)


@given(SAMPLES, HOW)
def test_contexts_without_a_row(sample, how):
    """A row is evaluated by the structure that was chosen without it, and by the sums of the others."""
    expert = no_contexts(sample, *how).learned(sample.rows, sample.y, sample.weight)
    evidence = expert.evidence_without(sample.rows, sample.y, sample.weight)
    codes, side = expert.codes(sample.rows), half_of(sample.rows)
    for i in range(len(sample.y)):
        rest, parents = sample.but(i), expert.parents[1 - side[i]]
        by_hand = contexts_by_hand(parents, codes[rest], sample.y[rest], sample.weights[rest], sample.k, *how, codes[i])
        np.testing.assert_allclose(evidence[i], by_hand, atol=1e-8)


def test_each_structure_is_chosen_on_its_own_half():
    """Labels of the other half may be anything."""
    sample = random_sample(2, 60, 3)
    side = half_of(sample.rows)
    assert 10 < side.sum() < 50
    expert, other = no_contexts(sample), random_sample(2, 60, 3)
    other.y = np.where(side == 0, sample.y, (sample.y + 1) % 3).astype(np.int32)
    assert (no_contexts(other).parents[0] == expert.parents[0]).all()
    assert not (half_of(sample.encoding.rows(sample.frame.take(slice(None, None, -1)), True)) != side[::-1]).any()


def test_parents_have_more_information_on_the_class_and_come_first():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 500).astype(np.int32)
    telling = np.where(rng.random(500) < 0.9, y, 1 - y)
    copy = np.where(rng.random(500) < 0.8, telling, rng.integers(0, 2, 500))
    codes = np.column_stack([rng.integers(0, 2, 500), copy, telling]).astype(np.uint8)
    parents = choose_parents(codes, np.full(3, 2, dtype=np.int32), y, None, 2)
    assert parents[2].tolist() == [-1] * MAX_PARENTS
    assert parents[1].tolist() == [2] + [-1] * (MAX_PARENTS - 1)
    assert set(parents[0, :2].tolist()) == {1, 2}


def test_sampled_codes_have_the_networks_law():
    sample = random_sample(6, 200, 2, gaps=0.2)
    expert = no_contexts(sample, 2, 2.0).learned(sample.rows, sample.y)
    n = 4000
    drawn = expert.sample(np.zeros(n, dtype=np.int32), np.random.default_rng(0))
    codes, one = expert.codes(sample.rows), np.ones(200)
    firsts = [int(np.flatnonzero((p < 0).all(axis=1))[0]) for p in expert.parents]
    share = np.zeros(int(expert.levels.max()))
    for j, p in zip(firsts, expert.parents, strict=True):
        if j != firsts[0]:
            return  # each network begins with another column: their laws are not one
        for v in range(expert.levels[j]):
            row = np.full(codes.shape[1], UNSEEN, dtype=np.uint8)
            row[j] = v
            share[v] += np.exp(contexts_by_hand(p, codes, sample.y, one, 2, 2, 2.0, row)[0]) / 2
    frequency = np.bincount(drawn[:, firsts[0]], minlength=len(share)) / n
    np.testing.assert_allclose(frequency, share, atol=5 * 0.5 / np.sqrt(n))  # five standard errors at most


# ------------------------------------------------------------------ trees


def path(trees, t, row, ordered):
    """The nodes that a row passes in tree t, from the root to its leaf; a value that was never seen ends it."""
    at, nodes = int(trees.start[t]), []
    while True:
        nodes.append(at)
        j = trees.column[at]
        if j < 0 or row[j] == UNSEEN:
            return nodes
        code = int(row[j])
        left = code <= trees.cut[at] if ordered[j] else int(trees.mask[at, code // 64]) >> (code % 64) & 1
        at = int(trees.left[at] if left else trees.right[at])


def all_paths(expert, rows):
    """The paths of all rows in all trees: [tree][row]."""
    trees = range(len(expert.trees.start) - 1)
    return [[path(expert.trees, t, row, expert.ordered) for row in rows.small] for t in trees]


def forest_by_hand(expert, sample, learned, which, mine, trees):
    """The mean over trees of log p_leaf − log π, p backing off from leaf to root to π; 0 for classes without rows.

    `learned` are the paths of the sample's rows, of which `which` count, and `mine` that of the row in question.
    """
    y, w, k = sample.y[which], sample.weights[which], sample.k
    prior = np.bincount(y, w, minlength=k) / w.sum()
    some, out = prior > 0, np.zeros((len(trees), k))
    for a, t in enumerate(trees):
        p = prior
        for depth, node in enumerate(mine[t]):
            here = np.array([len(learned[t][i]) > depth and learned[t][i][depth] == node for i in which])
            count = np.bincount(y, w * here, minlength=k)
            p = (count + expert.strength * p) / (count.sum() + expert.strength)
        out[a, some] = np.log(p[some]) - np.log(prior[some])
    return out.mean(axis=0) if len(trees) else np.zeros(k)


@settings(max_examples=10)
@given(SMALLER, st.sampled_from([0.5, 8.0]), SEEDS)
def test_trees_back_off_from_leaf_to_root(sample, strength, seed):
    expert = no_forest(sample, strength).learned(sample.rows, sample.y, sample.weight)
    everything, all_trees = np.arange(len(sample.y)), range(len(expert.trees.start) - 1)
    learned = all_paths(expert, sample.rows)
    for frame in (sample.frame.take(slice(3)), strange_frame(seed, 3)):
        rows = sample.encoding.rows(frame)
        paths = all_paths(expert, rows)
        by_hand = [
            forest_by_hand(expert, sample, learned, everything, [tree[i] for tree in paths], all_trees)
            for i in range(len(rows))
        ]
        np.testing.assert_allclose(expert.evidence(rows), by_hand, atol=1e-9)
        each, together = expert.terms(rows)
        np.testing.assert_allclose(each.sum(axis=1) + together, by_hand, atol=1e-9)


@settings(max_examples=10)
@given(SMALLER, st.sampled_from([0.5, 8.0]))
def test_trees_without_a_row(sample, strength):
    """A row is evaluated by the trees that grew without it, and by the counts of the others."""
    expert = no_forest(sample, strength).learned(sample.rows, sample.y, sample.weight)
    evidence = expert.evidence_without(sample.rows, sample.y, sample.weight)
    grown_on, learned = members(sample.rows.mark, len(expert.trees.start) - 1), all_paths(expert, sample.rows)
    for i in range(len(sample.y)):
        never_saw = np.flatnonzero(grown_on[i] == 0)
        by_hand = forest_by_hand(expert, sample, learned, sample.but(i), [tree[i] for tree in learned], never_saw)
        np.testing.assert_allclose(evidence[i], by_hand, atol=1e-8)


def test_a_tree_grows_on_its_members_only():
    """Labels of all other rows may be anything."""
    sample, other = random_sample(2, 80, 3), random_sample(2, 80, 3)
    grown_on = members(sample.rows.mark, 24)
    assert abs(grown_on.mean() - GROWING_SHARE) < 0.05  # 1,920 draws: five standard deviations
    for t in (0, 11, 23):
        other.y = np.where(grown_on[:, t], sample.y, (sample.y + 1) % 3).astype(np.int32)
        one, two = no_forest(sample).trees, no_forest(other).trees
        a, b = (slice(own.start[t], own.start[t + 1]) for own in (one, two))
        assert (one.column[a] == two.column[b]).all()
        assert (one.mask[a] == two.mask[b]).all()
        assert (one.cut[a] == two.cut[b]).all()


def test_without_looks_the_same_in_many_rows_and_few():
    sample = random_sample(9, 100, 3, True)
    for name, make in EXPERTS.items():
        expert = make(sample).learned(sample.rows, sample.y, sample.weight)
        whole = expert.evidence_without(sample.rows, sample.y, sample.weight)
        some = np.array([99, 3, 4, 50])
        np.testing.assert_allclose(expert.evidence_without(*sample.part(some)), whole[some], atol=1e-9, err_msg=name)
        np.testing.assert_allclose(
            expert.evidence(sample.rows.take(some)), expert.evidence(sample.rows)[some], atol=1e-9, err_msg=name
        )


# ------------------------------------------------------------------ all of them: values that were never seen


def with_unseen(encoding, frame, unseen):
    """The rows with the `unseen` (n, d) entries replaced by values that were never seen."""
    columns = []
    for column, here in zip(frame.columns, unseen.T, strict=True):
        if isinstance(column, Numbers):
            columns.append(replace(column, values=np.where(here, np.nan, column.values)))
        else:
            columns.append(Levels(np.where(here, -1, column.codes).astype(np.int32), column.levels))
    rows = encoding.rows(replace(frame, columns=tuple(columns)), True)
    assert (rows.small[unseen] == UNSEEN).all()
    return rows


@pytest.mark.parametrize("name", EXPERTS)
def test_a_value_that_was_never_seen_is_no_evidence(name):
    """The column has no share in the evidence; a row of such values only has none at all."""
    sample = random_sample(8, 60, 3, gaps=0)
    expert = EXPERTS[name](sample).learned(sample.rows, sample.y)
    all_unseen = with_unseen(sample.encoding, sample.frame, np.ones((60, 4), dtype=bool))
    evidence = expert.evidence(all_unseen)
    np.testing.assert_allclose(evidence - evidence[:, :1], 0.0, atol=1e-12)
    each, together = expert.terms(all_unseen)
    assert not each.any()
    np.testing.assert_allclose(together, evidence, atol=1e-12)
    unseen = np.random.default_rng(0).random((60, 4)) < 0.5
    rows = with_unseen(sample.encoding, sample.frame, unseen)
    evidence = expert.evidence(rows)
    each, together = expert.terms(rows)
    assert not each[unseen].any()
    np.testing.assert_allclose(each.sum(axis=1) + together, evidence, atol=1e-9)
    assert np.ptp(evidence[~unseen.all(axis=1)], axis=1).max() > 0.1, "the other columns are evidence"


@pytest.mark.parametrize("name", EXPERTS)
def test_terms_of_rows_out_of_the_sums_use_the_structures_that_were_chosen_without_them(name):
    sample = later_sample(3, 60, 3, False)
    expert = EXPERTS[name](sample).learned(sample.rows, sample.y)
    each, together = expert.terms(sample.rows, unlearned=sample.y)
    expected = expert.evidence_unlearned(sample.rows, sample.y)
    np.testing.assert_allclose(each.sum(axis=1) + together, expected, atol=1e-9)


@pytest.mark.parametrize("name", [name for name in EXPERTS if name.startswith(("columns", "gaussians", "Fourier"))])
@settings(max_examples=12)
@given(sample=st.builds(later_sample, SEEDS, st.integers(4, 40), st.integers(2, 4), st.booleans()))
def test_left_out_is_forgotten_with_values_that_were_never_seen(name, sample):
    """Exactly. Trees and networks use other structures for a learned row, and are tested above."""
    none = EXPERTS[name](sample)
    expert = none.learned(sample.rows, sample.y, sample.weight)
    evidence = expert.evidence_without(sample.rows, sample.y, sample.weight)
    for i in range(len(sample.y)):
        rest = expert.plus(none.learned(*sample.part([i])), -1.0)
        expected = limited(rest.evidence(sample.rows.take([i])), 50.0)
        np.testing.assert_allclose(limited(evidence[i : i + 1], 50.0), expected, rtol=1e-6, atol=1e-6)


# ------------------------------------------------------------------ all of them: sums are a group


def same_sums(actual, expected, name="", before=None):
    """The same arrays, up to rounding in proportion to the largest number that was added."""
    actual, expected = actual.pack()[1], expected.pack()[1]
    assert set(actual) == set(expected)
    for key, array in expected.items():
        assert actual[key].shape == array.shape, (name, key)
        if array.dtype.kind != "f":
            assert (actual[key] == array).all(), (name, key)
            continue
        largest = np.abs(array).max(initial=1.0) if before is None else np.abs(before.pack()[1][key]).max(initial=1.0)
        np.testing.assert_allclose(actual[key], array, rtol=1e-9, atol=1e-12 * largest, err_msg=f"{name} {key}")


@st.composite
def splits(draw):
    """A sample, and its rows split at random, in any order, some parts empty."""
    sample = draw(SAMPLES)
    rng = np.random.default_rng(draw(SEEDS))
    order = rng.permutation(len(sample.y))
    edges = np.sort(rng.integers(0, len(order) + 1, draw(st.integers(0, 3))))
    return sample, np.split(order, edges)


@pytest.mark.parametrize("name", EXPERTS)
@settings(max_examples=12)
@given(data=splits())
def test_learning_adds_up(name, data):
    sample, shares = data
    none = EXPERTS[name](sample)
    whole = none.learned(sample.rows, sample.y, sample.weight)
    chain = none
    for share in shares:
        chain = chain.learned(*sample.part(share))
    same_sums(chain, whole, "one after the other")
    each = [none.learned(*sample.part(share)) for share in shares]
    total = none
    for part in each:
        total = total.plus(part)
    same_sums(total, whole, "each by itself")
    same_sums(each[0].added(each[1:]), whole, "all at once")
    left = whole.plus(each[0], -1.0)
    never = none
    for share in shares[1:]:
        never = never.learned(*sample.part(share))
    same_sums(left, never, "forgotten", whole)
    taken_out = whole.without(*sample.part(shares[0]))
    np.testing.assert_allclose(taken_out.evidence(sample.rows), left.evidence(sample.rows), rtol=1e-7, atol=1e-7)
    same_sums(taken_out, never, "taken out", whole)
    nothing = left
    for part in each[1:]:
        nothing = nothing.plus(part, -1.0)
    same_sums(nothing, none, "all forgotten", whole)


@pytest.mark.parametrize("name", EXPERTS)
@settings(max_examples=8)
@given(sample=SAMPLES, factor=st.sampled_from([0.0, 0.25, 3.0]))
def test_scaled_is_learned_with_other_weights(name, sample, factor):
    none = EXPERTS[name](sample)
    scaled = none.learned(sample.rows, sample.y, sample.weight).scaled(factor)
    if factor:
        same_sums(scaled, none.learned(sample.rows, sample.y, sample.weights * factor))
    else:
        same_sums(scaled, none)


@pytest.mark.parametrize("name", EXPERTS)
@settings(max_examples=8)
@given(sample=SAMPLES, seed=SEEDS)
def test_new_classes_have_no_rows(name, sample, seed):
    rng = np.random.default_rng(seed)
    k = sample.k + rng.integers(1, 3)
    where = np.sort(rng.choice(k, sample.k, replace=False))
    none = EXPERTS[name](sample)
    then = none.learned(sample.rows, sample.y, sample.weight).in_classes(where, k)
    first = none.in_classes(where, k).learned(sample.rows, where[sample.y].astype(np.int32), sample.weight)
    same_sums(then, first)
    rows = sample.encoding.rows(strange_frame(seed))
    before, after = none.learned(sample.rows, sample.y, sample.weight).evidence(rows), then.evidence(rows)
    seen = seen_classes(sample)
    np.testing.assert_allclose(about_mean(after[:, where], seen), about_mean(before, seen), atol=1e-8)
    # Rows of a new class are learned as of any other.
    new = int(np.setdiff1d(np.arange(k), where)[0])
    more = then.learned(rows, np.full(len(rows), new, dtype=np.int32))
    evidence = limited(more.evidence(rows), 50.0)
    assert np.isfinite(evidence).all()
    same_sums(
        more.plus(none.in_classes(where, k).learned(rows, np.full(len(rows), new, dtype=np.int32)), -1.0),
        then,
        before=more,
    )


@pytest.mark.parametrize("name", EXPERTS)
def test_evidence_is_finite_before_anything_is_learned(name):
    sample = random_sample(0)
    evidence = limited(EXPERTS[name](sample).evidence(sample.rows), 50.0)
    assert evidence.shape == (24, 3)
    assert np.isfinite(evidence).all()


@pytest.mark.parametrize("name", EXPERTS)
def test_an_expert_is_a_value(name):
    """Learning returns a new expert; the old one does not change."""
    sample = random_sample(1, weighted=True)
    none = EXPERTS[name](sample)
    before = none.learned(sample.rows, sample.y)
    evidence = before.evidence(sample.rows).copy()
    before.learned(sample.rows, sample.y), before.scaled(2.0), before.plus(before), before.in_classes(np.arange(3), 4)
    before.plus(none.learned(*sample.part([0, 1])), -1.0)
    assert (replace(before).evidence(sample.rows) == evidence).all()
    same_sums(none, EXPERTS[name](sample))


# ------------------------------------------------------------------ room for categories, and what is shared


def test_columns_make_room_for_new_categories():
    sample = random_sample(0)
    expert = no_columns(sample).learned(sample.rows, sample.y)
    later = random_frame(np.random.default_rng(7), 10, 0.1, ("teal", "red", "mauve"))
    encoding = sample.encoding.with_new(later)
    assert isinstance(encoding.columns[2], Known)
    assert encoding.columns[2].levels[:4] == sample.encoding.columns[2].levels
    wider = expert.recoded(sample.encoding, encoding)
    np.testing.assert_allclose(wider.evidence(encoding.rows(sample.frame)), expert.evidence(sample.rows), atol=1e-12)
    y = np.zeros(10, dtype=np.int32)
    grown = wider.learned(encoding.rows(later), y)
    assert grown.counts.sum() == expert.counts.sum() + 40
    both = random_sample(0)
    both.encoding = encoding
    by_hand = no_columns(both).learned(both.rows, both.y).learned(encoding.rows(later), y)
    assert (grown.counts == by_hand.counts).all()


def test_counts_move_with_their_categories():
    sample = random_sample(0)
    expert = no_columns(sample).learned(sample.rows, sample.y)
    colour = sample.encoding.columns[2]
    turned = replace(colour, levels=("new", *colour.levels[::-1]))
    encoding = replace(sample.encoding, columns=(*sample.encoding.columns[:2], turned, sample.encoding.columns[3]))
    moved = expert.recoded(sample.encoding, encoding)
    np.testing.assert_allclose(moved.evidence(encoding.rows(sample.frame)), expert.evidence(sample.rows), atol=1e-12)


def test_evidence_is_limited_against_the_best_class():
    """However improbable other classes are, the difference of the best two counts in full."""
    evidence = np.array([[1.0, 3.0, -1e6], [-np.inf, 2.0, 1.0], [-np.inf] * 3, [1e6, -1e6, 1e6 - 2.0]])
    against = np.array([[-2.0, 0.0, -50.0], [-50.0, 0.0, -1.0], [0.0] * 3, [0.0, -50.0, -2.0]])
    expected = against - against.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(limited(evidence, 50.0), expected)
    np.testing.assert_allclose(limited(evidence[:1], 50.0), expected[:1])
    assert limited(np.zeros((0, 3)), 50.0).shape == (0, 3)


def test_log_loss_is_that_of_the_posterior():
    rng = np.random.default_rng(0)
    evidence, y, w = rng.normal(size=(20, 3)), rng.integers(0, 3, 20), rng.random(20)
    log_prior = np.log([0.5, 0.3, 0.2])
    p = np.exp(evidence + log_prior)
    p /= p.sum(axis=1, keepdims=True)
    losses = -np.log(p[np.arange(20), y])
    np.testing.assert_allclose(log_loss(evidence, log_prior, y), losses.mean())
    np.testing.assert_allclose(log_loss(evidence, log_prior, y, w), (w * losses).sum() / w.sum())


@pytest.mark.parametrize("weighted", [False, True])
def test_losses_of_limited_evidence_at_several_scales(weighted):
    rng = np.random.default_rng(1)
    evidence, y = 30.0 * rng.normal(size=(40, 5)), rng.integers(0, 5, 40).astype(np.int32)
    evidence[rng.random((40, 5)) < 0.1] = -np.inf
    w, log_prior = rng.random(40) if weighted else None, np.log([0.4, 0.2, 0.2, 0.1, 0.1])
    expected = [log_loss(limited(s * evidence, 12.0), log_prior, y, w) for s in (0.03, 0.5, 1.0)]
    np.testing.assert_allclose(limited_losses(evidence, 12.0, log_prior, y, w, (0.03, 0.5, 1.0)), expected, rtol=1e-13)
    with pytest.raises(ValueError, match="row 0 is of class 5"):
        limited_losses(evidence, 12.0, log_prior, np.full(40, 5, dtype=np.int32))
    with pytest.raises(ValueError, match="40 entries"):
        limited_losses(evidence, 12.0, log_prior, y[1:])


def test_moments_of_nothing():
    moments = Moments.of(np.zeros((0, 3)), np.zeros(0, dtype=np.int32), None, 2)
    mean, scatter = moments.centred()
    assert not moments.one.any()
    assert not mean.any()
    assert not scatter.any()


def test_laws_as_text():
    """In words, each number with what it is."""
    assert str(Smoothing(1.0)) == "counts + 1 pseudo-row"
    assert str(Smoothing(8.0, 3.0)) == "counts + 8 pseudo-rows, smoothed over ±3 bins"
    assert str(Shape(np.inf, 0.1, np.inf)) == "one covariance, 10 % diagonal"
    assert str(Shape(0.5, 0.4, 4.0)) == (
        "own covariances + 0.5 pseudo-rows a column, 40 % diagonal, heavy tails (t, 4 degrees)"
    )
