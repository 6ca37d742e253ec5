"""Boosted trees as an expert of a table's model: what they may see, how they are evaluated, kept and explained."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import deciban
from deciban.errors import FileError
from deciban.pool import Folds
from deciban.storage.arrays import CheckedArrays
from deciban.tables import weights
from deciban.tables.experts import boosted
from deciban.tables.experts.boosted import BoostedTrees
from deciban.tables.views import expert_terms


def rated(n, seed=0, noise=0.0):
    """Ratings by a rule of points and limits, as in tables of decisions: hard for each expert, and not noisy."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 4, (n, 7))
    points = X[:, 0] * X[:, 1] + 2 * X[:, 2] + X[:, 3] * (X[:, 4] > 1) - (X[:, 5] == 0) * X[:, 6]
    level = np.digitize(points, [3, 7, 11])
    level = np.where(rng.random(n) < noise, rng.integers(0, 4, n), level)
    frame = pd.DataFrame({f"x{j}": np.array(["none", "low", "mid", "high"])[X[:, j]] for j in range(7)})
    return frame, np.array(["bad", "fair", "good", "best"])[level]


@pytest.fixture(scope="module")
def fitted():
    frame, y = rated(1600, noise=0.05)
    return deciban.Classifier(n_jobs=1).fit(frame, y), frame, y


def boosted_of(model) -> BoostedTrees:
    (own,) = [expert for expert in model.model_.experts if isinstance(expert, BoostedTrees)]
    return own


def encoded(model, frame, y):
    table = model.model_
    codes = np.searchsorted(model.classes_, y).astype(np.int32)
    return table.encoding.rows(table.read(frame), True), codes


def test_they_find_what_the_other_experts_leave_unexplained(fitted):
    model, _, _ = fitted
    new, truth = rated(2000, seed=1, noise=0.05)
    table = model.model_
    rows = table.encoding.rows(table.read(new))
    scores = table.pooled(rows, table.log_prior)
    without = scores - np.clip(boosted_of(model).evidence(rows), -50, 50)
    codes = np.searchsorted(model.classes_, truth)

    def loss(s):
        return float((np.logaddexp.reduce(s, axis=1) - s[np.arange(len(codes)), codes]).mean())

    assert loss(scores) < loss(without) - 0.01
    assert any(boosted_of(model).settings in row for row in model.summary().candidates.rows)


def test_they_stop_where_nothing_is_to_be_found():
    frame, _ = rated(1600)
    coin = np.random.default_rng(2).choice(["heads", "tails"], 1600)
    assert not any(isinstance(e, BoostedTrees) for e in deciban.Classifier().fit(frame, coin).model_.experts)


def test_evidence_is_the_mean_of_the_ensembles_and_that_of_the_own_one_for_learned_rows(fitted):
    model, frame, y = fitted
    own, (rows, codes) = boosted_of(model), encoded(model, frame, y)
    leaves = own.trees.leaves(rows, own.levels, own.ordered)
    new, crossed = (
        values[leaves].reshape(len(y), own.folds.count, own.rounds, -1).sum(axis=2)
        for values in (own.values, own.crossed)
    )
    np.testing.assert_allclose(own.evidence(rows), new.mean(axis=1), atol=1e-12)
    fold = own.folds.which(rows.mark, codes)
    assert np.bincount(fold).min() > 400
    expected = crossed[np.arange(len(y)), fold]
    np.testing.assert_allclose(own.evidence_without(rows, codes), expected, atol=1e-12)
    np.testing.assert_allclose(own.evidence_unlearned(rows, codes), expected, atol=1e-12)
    each, rest = own.terms(rows.take(slice(50)))
    np.testing.assert_allclose(each.sum(axis=1) + rest, own.evidence(rows)[:50], atol=1e-12)
    each, rest = own.terms(rows.take(slice(50)), codes[:50])
    np.testing.assert_allclose(each.sum(axis=1) + rest, expected[:50], atol=1e-12)


def test_values_for_learned_rows_do_not_hold_labels_of_their_fold_and_those_for_new_rows_do(monkeypatch):
    monkeypatch.setattr(boosted, "CHANCE_NATS", 0.0)  # one number for all values, which all folds choose
    frame, y = rated(900, noise=0.1)
    model = deciban.Classifier(n_jobs=1).fit(frame, y)
    rows, codes = encoded(model, frame, y)
    folds = Folds.of(rows.mark, codes, 4, 3)
    fold = folds.which(rows.mark, codes)
    changed = (fold == 0) & (np.arange(900) % 5 == 0)
    other = np.where(changed, (codes + 1) % 4, codes).astype(np.int32)
    one, two = (
        boosted.grown(
            rows, labels, None, model.model_.encoding, lambda some: np.zeros((len(some), 900, 4)), folds, fold, False
        )
        for labels in (codes, other)
    )
    nodes = one.trees.start[min(one.rounds, two.rounds)]  # of the trees that both have of the first ensemble
    np.testing.assert_array_equal(one.crossed[:nodes], two.crossed[:nodes])
    assert abs(one.values[:nodes] - two.values[:nodes]).max() > 0.01


def test_values_for_new_rows_are_fitted_on_all_rows(fitted, monkeypatch):
    """Two passes of Newton steps over the trees of each ensemble, by the mean of the scores without each fold."""
    monkeypatch.setattr(boosted, "CHANCE_NATS", 0.0)  # values as they are fitted
    model, frame, y = fitted
    rows, codes = encoded(model, frame, y)
    base = np.random.default_rng(6).normal(size=(3, len(y), 4))
    folds = Folds.of(rows.mark, codes, 4, 3)
    fold = folds.which(rows.mark, codes)
    own = boosted.grown(rows, codes, None, model.model_.encoding, lambda some: base[list(some)], folds, fold, False)
    leaves, truth = own.trees.leaves(rows, own.levels, own.ordered), np.eye(4)[codes]
    values = np.zeros_like(own.values)
    for j in range(3):
        scores = base.mean(axis=0)
        for ridge in (boosted.RIDGE, boosted.REFIT_RIDGE):
            for t in range(own.rounds):
                leaf = leaves[:, j * own.rounds + t]
                p = np.exp(scores - np.logaddexp.reduce(scores, axis=1, keepdims=True))
                rate = boosted.rate(t) if ridge == boosted.RIDGE else boosted.RATES[1]
                for node in np.unique(leaf):
                    at = leaf == node
                    step = rate * (truth - p)[at].sum(axis=0) / ((p * (1 - p))[at].sum(axis=0) + ridge)
                    values[node] += step - step.mean()
                    scores[at] += step - step.mean()
    ends = np.unique(leaves)
    np.testing.assert_allclose(own.values[ends], values[ends], atol=1e-9)


def test_values_are_trusted_by_what_they_gain_on_rows_that_the_trees_never_used(monkeypatch):
    frame, y = rated(450, noise=0.6)
    model = deciban.Classifier(n_jobs=1).fit(frame, y)
    rows, codes = encoded(model, frame, y)
    trusted, _ = grown_from_nothing(y, codes, rows, model.model_.encoding)
    monkeypatch.setattr(boosted, "CHANCE_NATS", 0.0)
    whole, _ = grown_from_nothing(y, codes, rows, model.model_.encoding)
    without = np.full((len(y), 4), -np.log(4.0))  # nothing is known
    gain = len(y) * (loss_of(without, codes) - loss_of(without + whole.evidence_without(rows, codes), codes))
    share = gain / (gain + 6.0 * 300 / len(y))
    assert 0.5 < share < 0.99
    np.testing.assert_allclose(trusted.values, share * whole.values, rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(trusted.crossed, share * whole.crossed, rtol=1e-9, atol=1e-15)


def loss_of(scores, codes):
    """The mean log loss of scores about rows of these classes."""
    return float(np.mean(np.logaddexp.reduce(scores, axis=1) - scores[np.arange(len(codes)), codes]))


def test_scores_without_a_fold_do_not_hold_its_labels():
    """Trees grow on these scores: if they held labels of the fold, its loss would not show when to stop."""
    frame, y = rated(1200, noise=0.2)
    model = deciban.Classifier(n_jobs=1).fit(frame, y).model_
    plain = replace(model, experts=tuple(e for e in model.experts if not isinstance(e, BoostedTrees)))
    k = len(plain.experts)
    pool = model.pool.narrowed(np.append(np.arange(k), np.arange(len(model.experts), len(model.pool.weights))))
    rows, codes = encoded(deciban.Classifier(n_jobs=1).fit(frame, y), frame, y)
    fold = Folds.of(rows.mark, codes, 4, 3).which(rows.mark, codes)
    out = fold == 1
    other = np.where(out, (codes + 1) % 4, codes).astype(np.int32)
    scores = []
    for labels in (codes, other):
        learned = plain.zero().sums_of(model.read(frame), labels)
        scores.append(weights.scores_without(learned, pool, rows, labels, None, fold, (0, 1), 1)[1])
    np.testing.assert_allclose(scores[0], scores[1], atol=1e-9)
    literal = replace(plain.zero().sums_of(model.read(frame[~out]), codes[~out]), pool=pool)
    new = literal.encoding.rows(model.read(frame[out]), True)
    expected = literal.columns.weighted_evidence(new, literal.column_weights) + pool.offsets + literal.log_prior
    for weight, expert in zip(pool.weights[1:], plain.experts[1:], strict=False):
        own = {type(e): e for e in literal.experts}[type(expert)]
        expected += weight * own.limited(own.evidence_unlearned(new, codes[out]))
    np.testing.assert_allclose(scores[0][out], expected, atol=1e-9)


def grown_from_nothing(y, codes, rows, encoding, workers=1):
    """Boosted trees on rows about which nothing is known, and the folds whose scores were asked for."""
    asked, folds = [], Folds.of(rows.mark, codes, 4, 3)

    def scores(some):
        asked.append(list(some))
        return np.zeros((len(some), len(y), 4))

    fold = folds.which(rows.mark, codes)
    return boosted.grown(rows, codes, None, encoding, scores, folds, fold, False, workers), asked


def test_two_threads_grow_the_same_trees():
    frame, y = rated(600)
    model = deciban.Classifier(n_jobs=1).fit(frame, y)
    rows, codes = encoded(model, frame, y)
    (one, _), (two, _) = (grown_from_nothing(y, codes, rows, model.model_.encoding, workers) for workers in (1, 2))
    assert one.rounds == two.rounds
    np.testing.assert_array_equal(one.values, two.values)


def test_with_many_rows_the_first_ensemble_must_help_before_the_others_are_begun(monkeypatch):
    frame, y = rated(600)
    model = deciban.Classifier(n_jobs=1).fit(frame, y)
    rows, codes = encoded(model, frame, y)
    coin = np.random.default_rng(5).integers(0, 4, 600).astype(np.int32)
    all_at_once, asked = grown_from_nothing(y, codes, rows, model.model_.encoding)
    assert asked == [[0, 1, 2]]
    monkeypatch.setattr(boosted, "MAX_ROWS_FOR_ALL_FOLDS", 599)
    one_first, asked = grown_from_nothing(y, codes, rows, model.model_.encoding)
    assert asked == [[0], [1, 2]]
    assert one_first.rounds == all_at_once.rounds
    np.testing.assert_array_equal(one_first.values, all_at_once.values)
    assert grown_from_nothing(y, coin, rows, model.model_.encoding) == (None, [[0]])


def test_learning_forgetting_and_merging_leave_them_as_they_are(fitted):
    model, _, _ = fitted
    more, labels = rated(300, seed=3)
    before = model.predict_proba(more)
    half = model.empty().partial_fit(more, labels)
    whole = model + half
    np.testing.assert_array_equal(boosted_of(whole).values, boosted_of(model).values)
    back = whole.forget(more, labels)
    np.testing.assert_allclose(back.predict_proba(more), before, atol=1e-9)


def test_a_class_that_comes_later_has_no_value(fitted):
    model, frame, _ = fitted
    more = frame[:40]
    later = model.empty() + model
    later.partial_fit(more, np.full(40, "neither"))
    own = boosted_of(later)
    place = int(np.flatnonzero(later.classes_ == "neither")[0])
    for values in (own.values, own.crossed):
        assert values.shape[1] == 5
        assert not values[:, place].any()
    np.testing.assert_allclose(later.predict_proba(frame[:5]).sum(axis=1), 1.0)


def test_explanations_add_up(fitted):
    model, frame, _ = fitted
    table = model.model_
    rows = table.encoding.rows(table.read(frame[:20]))
    parts = sum(terms.sum(axis=1) for _, _, terms in expert_terms(table, rows))
    np.testing.assert_allclose(parts + table.log_prior, table.pooled(rows, table.log_prior), atol=1e-9)
    shown = model.explain(frame.iloc[3], by="expert")
    assert any(name.startswith("boosted trees") for name, *_ in shown.items)


def test_files_keep_them_and_damage_is_noticed(fitted, tmp_path):
    model, frame, _ = fitted
    model.save(tmp_path / "rated.deciban")
    again = deciban.load(tmp_path / "rated.deciban")
    np.testing.assert_array_equal(again.predict_proba(frame), model.predict_proba(frame))
    assert again.model_.choices() == model.model_.choices()
    settings, arrays = boosted_of(model).pack()
    encoding, k = model.model_.encoding, 4

    def unpacked(settings, arrays):
        return BoostedTrees.unpack(settings, CheckedArrays(arrays, ""), encoding, k)

    unpacked(settings, arrays)
    earlier = unpacked(settings, {name: array for name, array in arrays.items() if name != "crossed"})
    assert earlier.crossed is earlier.values
    assert "crossed" not in earlier.pack()[1]
    for bad in ({"rounds": 0}, {"rounds": settings["rounds"] + 1}):
        with pytest.raises(FileError):
            unpacked(settings | bad, arrays)
    for bad in (
        {"values": arrays["values"][:-1]},
        {"crossed": arrays["crossed"][:-1]},
        {"first": np.array([0, 7, 0, 0], np.int32)},
        {"edges": arrays["edges"][:, :1]},
        {"column": np.full_like(arrays["column"], 99)},
    ):
        with pytest.raises((FileError, ValueError)):
            unpacked(settings, arrays | bad)


def test_the_order_of_the_rows_does_not_matter(fitted):
    model, frame, y = fitted
    order = np.random.default_rng(4).permutation(len(y))
    again = deciban.Classifier().fit(frame.iloc[order], y[order])
    np.testing.assert_array_equal(boosted_of(again).trees.column, boosted_of(model).trees.column)
    np.testing.assert_allclose(again.predict_proba(frame), model.predict_proba(frame), atol=1e-9)


def test_with_few_rows_they_are_tried_by_the_folds_of_the_weights():
    frame, y = rated(700)
    model = deciban.Classifier().fit(frame, y)
    own = boosted_of(model)
    assert own.by_copy
    assert model.leave_one_out(frame, y).log_loss == pytest.approx(model.summary().loss, abs=1e-9)


def test_a_gain_by_chance_is_not_taken(monkeypatch):
    frame, y = rated(700, noise=0.3)
    monkeypatch.setattr(boosted, "MIN_GAIN_OF_FEW_ROWS", (1000, np.inf))
    assert not any(isinstance(e, BoostedTrees) for e in deciban.Classifier().fit(frame, y).model_.experts)
