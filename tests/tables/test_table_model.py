"""Learning, forgetting, merging and leave-one-out of a model of a table are exact under the choices that were made."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np
import pandas as pd
import pytest
from effort import growth
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logsumexp
from small_tables import random_frame, random_sample

import deciban
from deciban.bayes import DECIBANS
from deciban.deferred import Deferred
from deciban.errors import DecibanError, ForgetError, SchemaError
from deciban.pool import Pool
from deciban.reading.columns import Levels, Numbers
from deciban.reading.frames import Frame
from deciban.reading.labels import Labels
from deciban.reading.table import TableColumns
from deciban.tables import choose as choosing
from deciban.tables import density, views
from deciban.tables import model as modelling
from deciban.tables import sample as sampling
from deciban.tables.choose import choose
from deciban.tables.encode import Cuts, choose_encoding
from deciban.tables.experts.base import limited
from deciban.tables.experts.columns import BINNED, ColumnDistributions
from deciban.tables.experts.gaussians import Shape
from deciban.tables.files import parts

CLASSES = np.array(["a", "b", "c"])


def table(seed, n=150, colours=("red", "green", "blue"), k=3):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, k, n).astype(np.int32)
    return random_frame(rng, n, 0.08, colours, y), y


def chosen(frame, y, classes=CLASSES, weight=None, **settings):
    reader = TableColumns.of(frame)
    return choose(reader, reader.read(frame), y, classes, weight, **settings)


@pytest.fixture(scope="module")
def model():
    """Chosen from 150 rows; every expert has a weight."""
    fitted = chosen(*table(0))
    assert {expert.name for expert in fitted.experts} == {"columns", "gaussians", "contexts", "trees"}
    weights = np.maximum(fitted.pool.weights, 0.05)
    return replace(fitted, pool=replace(fitted.pool, weights=weights))


def same_models(one, two, before=None):
    """All sums agree, up to rounding in proportion to the largest number that was added."""
    (document, arrays), (other, expected) = parts(one), parts(two)
    assert document == other
    assert set(arrays) == set(expected)
    sizes = expected if before is None else parts(before)[1]
    for name, array in expected.items():
        assert arrays[name].shape == array.shape, name
        largest = np.abs(sizes[name]).max(initial=1.0) if array.dtype.kind == "f" else 1
        np.testing.assert_allclose(arrays[name], array, rtol=1e-9, atol=1e-12 * largest, err_msg=name)


# ------------------------------------------------------------------ scores


def test_the_score_is_the_sum_of_the_evidence(model):
    frame, _ = table(1, 20)
    rows = model.encoding.rows(frame)
    m = len(model.experts)
    each, _ = model.columns.terms(rows)
    expected = model.pool.offsets + np.log(model.weight / model.weight.sum())
    expected = expected + np.einsum("ndk,d->nk", each, model.pool.weights[0] + model.pool.weights[m:])
    for weight, expert in zip(model.pool.weights[1:m], model.experts[1:], strict=True):
        expected = expected + weight * expert.limited(expert.evidence(rows))
    np.testing.assert_allclose(model.log_joints(frame), expected, atol=1e-9)


def test_blocks_and_threads_do_not_show(model, monkeypatch):
    frame, y = table(2, 100)
    whole = model.log_joints(frame)
    left_out = model.log_joint_without(frame, y)
    learned = model.learn(frame, Labels(CLASSES, y))
    monkeypatch.setattr(modelling, "BLOCK_ROWS", 7)
    for n_jobs in (1, 2):
        np.testing.assert_allclose(model.log_joints(frame, n_jobs), whole, atol=1e-10)
        np.testing.assert_allclose(model.log_joint_without(frame, y, None, n_jobs), left_out, atol=1e-9)
        same_models(model.learn(frame, Labels(CLASSES, y), None, n_jobs), learned)


@pytest.mark.parametrize("weighted", [False, True])
def test_left_out_is_the_evidence_of_each_expert_without_the_row(weighted):
    frame, y = table(3, 60)
    weight = np.random.default_rng(0).choice([0.5, 1.0, 2.0], 60) if weighted else None
    model = chosen(frame, y, weight=weight)
    rows, w = model.encoding.rows(frame, marked=True), np.ones(60) if weight is None else weight
    scores = model.log_joint_without(frame, y, weight)
    fold = model.left_out.folds.which(model.left_out.marks(rows.mark, y), y)
    for i in range(0, 60, 5):
        rest = np.delete(np.arange(60), i)
        less = model.sums_of(frame.take(rest), y[rest], None if weight is None else w[rest])
        mine, pool = rows.take([i]), model.left_out.pools[fold[i]]
        expected = less.log_prior + pool.offsets
        ((each,), _) = less.columns.terms(mine)
        each -= each.mean(axis=1, keepdims=True)
        m = len(model.experts)
        expected = expected + (pool.weights[0] + pool.weights[m:]) @ each
        for r, expert in zip(pool.weights[1:m], model.experts[1:], strict=True):
            expected += r * expert.limited(expert.evidence_without(mine, y[[i]], w[[i]]))[0]
        np.testing.assert_allclose(scores[i], expected, atol=1e-7)


# ------------------------------------------------------------------ sums are a group


@given(st.integers(0, 1000), st.integers(0, 3), st.booleans())
def test_batches_in_any_split_and_order(model, seed, cuts, weighted):
    frame, y = table(seed, 25, ("red", "green", "teal"), 2)
    rng = np.random.default_rng(seed)
    weight = rng.choice([0.5, 2.0], 25) if weighted else None
    order = rng.permutation(25)
    shares = np.split(order, np.sort(rng.integers(0, 26, cuts)))

    def learned(start, share):
        w = None if weight is None else weight[share]
        return start.learn(frame.take(share), Labels(CLASSES, y[share]), w)

    wide = model.in_encoding(model.encoding.with_new(frame))
    whole, chain, merged = learned(wide, np.arange(25)), wide, wide
    for share in shares:
        chain = learned(chain, share)
        merged = merged + learned(wide.zero(), share)
    same_models(chain, whole)
    same_models(merged, whole)
    for share in shares:
        w = None if weight is None else weight[share]
        whole = whole.forget(frame.take(share), Labels(CLASSES, y[share]), w)
    same_models(whole, wide, chain)
    assert chain.choices() == model.choices()


def test_new_classes_and_categories_join(model):
    frame, y = table(5, 30, ("teal", "red", "plum"), 2)
    classes = np.array(["a", "dd"])
    more = model.learn(frame, Labels(classes, y))
    assert more.classes.tolist() == ["a", "b", "c", "dd"]
    assert more.weight.tolist() == [model.weight[0] + (y == 0).sum(), *model.weight[1:], (y == 1).sum()]
    assert set(more.encoding.columns[2].levels) == {"red", "green", "blue", "teal", "plum"}
    scores = more.log_joints(frame)
    assert np.isfinite(scores).all()
    old, _ = table(6, 20)
    before = model.log_joints(old) - model.log_prior
    wider = model.in_classes(np.array(["a", "aa", "b", "c"]))
    after = wider.log_joints(old) - np.append(model.log_prior, 0)[[0, 3, 1, 2]]
    before, after = before - before.mean(axis=1, keepdims=True), after[:, [0, 2, 3]]
    # Evidence is clipped about its mean over all classes, so a further class may shift it.
    np.testing.assert_allclose(after.argmax(axis=1), before.argmax(axis=1))
    assert more.choices() == model.choices()
    # Models that saw the new categories in another order can still be merged.
    one = model.learn(frame.take([0]), Labels(classes, y[[0]])).learn(frame.take([1]), Labels(classes, y[[1]]))
    two = model.zero().learn(frame.take(slice(2, 30)), Labels(classes, y[2:]))
    merged = one + two
    np.testing.assert_allclose(merged.log_joints(frame), scores, atol=1e-8)
    assert merged.weight.tolist() == more.weight.tolist()


def test_empty_batches_change_nothing(model):
    frame, y = table(5, 3)
    none = frame.take(slice(0))
    same_models(model.learn(none, Labels(CLASSES, y[:0])), model)
    same_models(model.forget(none, Labels(CLASSES, y[:0])), model)
    same_models(model + model.zero(), model)
    same_models(model.zero() + model, model)
    assert model.log_joints(none).shape == (0, 3)
    assert model.log_joint_without(none, y[:0]).shape == (0, 3)


def test_nothing_learned_answers_the_prior(model):
    frame, _ = table(1, 10)
    for nothing in (model.zero(), model.forget(table(0)[0], Labels(CLASSES, table(0)[1]))):
        scores = nothing.log_joints(frame)
        assert np.isfinite(scores).all()
        p = np.exp(scores - logsumexp(scores, axis=1, keepdims=True))
        expected = np.exp(model.pool.offsets) / np.exp(model.pool.offsets).sum()
        np.testing.assert_allclose(p, np.tile(expected, (10, 1)), atol=1e-9)


def test_scaling_is_learning_with_weights(model):
    frame, y = table(7, 40)
    none = model.zero()
    one = none.learn(frame, Labels(CLASSES, y), np.full(40, 0.25))
    same_models(none.learn(frame, Labels(CLASSES, y)).scale(0.25), one)
    same_models(model.scale(0.0), none)


def test_forgetting_what_was_never_learned_is_an_error(model):
    frame, y = table(0)
    for wrong, classes, match in (
        (frame, np.array(["a", "b", "x"]), "never learned that class"),
        (
            Frame(frame.names, (frame.columns[0], Numbers(np.full(150, 7e5)), *frame.columns[2:]), 150),
            CLASSES,
            "'round'",
        ),
        (
            table(0, 150, ("red", "green", "pink"))[0],
            CLASSES,
            r"row \d+: its value of column 'colour' was never learned",
        ),
    ):
        with pytest.raises(ForgetError, match=match):
            model.forget(wrong, Labels(classes, y))
    with pytest.raises(ForgetError, match="more rows of class"):
        model.forget(frame, Labels(CLASSES, y), np.full(150, 1.5))
    with pytest.raises(ForgetError, match="more rows of class"):
        model.forget(frame, Labels(CLASSES, (y + 1) % 3))


def test_models_that_chose_differently_do_not_merge(model):
    other = chosen(*table(8))
    with pytest.raises(SchemaError, match=r"first\.empty\(\)\.partial_fit"):
        _ = model + other
    heavier = replace(model, pool=replace(model.pool, weights=model.pool.weights * 2))
    with pytest.raises(SchemaError, match="chose differently"):
        _ = model + heavier


def test_a_given_prior_cannot_speak_of_later_classes(model):
    given_ = model.with_prior(np.array([0.2, 0.3, 0.5]))
    np.testing.assert_allclose(given_.log_prior, np.log([0.2, 0.3, 0.5]))
    frame, y = table(5, 5)
    with pytest.raises(SchemaError, match="class prior"):
        given_.learn(frame, Labels(np.array(["new"]), np.zeros(5, dtype=np.int32)))
    assert given_.learn(frame, Labels(CLASSES, y)).class_prior is given_.class_prior


# ------------------------------------------------------------------ choosing


def test_choices_do_not_depend_on_the_order_of_rows():
    frame, y = table(0, 120)
    order = np.random.default_rng(1).permutation(120)
    one, two = chosen(frame, y), chosen(frame.take(order), y[order])
    assert [e.settings for e in one.experts] == [e.settings for e in two.experts]
    new, _ = table(9, 30)
    np.testing.assert_allclose(two.log_joints(new), one.log_joints(new), atol=1e-6)


def test_threads_choose_alike():
    frame, y = table(0, 120)
    one, two = (chosen(frame, y, n_jobs=n) for n in (1, 2))
    same_models(one, two)


def test_rows_without_a_label_show_where_values_lie():
    frame, y = table(0, 120)
    y = np.where(np.arange(120) % 2, y, -1).astype(np.int32)
    model = chosen(frame, y)
    assert model.weight.sum() == 60
    assert model.columns.counts.sum() == 60 * 4
    low = min(coded.low.min() for coded in model.encoding.columns if isinstance(coded, Cuts))
    assert low == min(np.nanmin(column.values) for column in frame.columns[:2])


def test_sums_are_over_all_rows_where_structures_are_not(monkeypatch):
    monkeypatch.setattr(sampling, "SAMPLE_ROWS", 100)
    frame, y = table(0, 250)
    model = chosen(frame, y)
    assert model.weight.tolist() == np.bincount(y).tolist()
    assert model.columns.counts.sum() == 250 * 4
    assert model.experts[-1].counts[0].sum() == 250
    weight = np.full(250, 2.0)
    assert chosen(frame, y, weight=weight).weight.tolist() == (2 * np.bincount(y)).tolist()


def test_the_record_has_all_candidates_and_their_losses():
    frame, y = table(0, 120)
    model = chosen(frame, y)
    record = model.record
    taken = [c for c in record.candidates if c.chosen]
    assert [c.expert for c in taken] == [e.name for e in model.experts]
    assert [c.weight for c in taken] == model.pool.weights[: len(taken)].tolist()
    assert all(c.weight is None for c in record.candidates if not c.chosen)
    for c in taken:
        kinds = [o.loss for o in record.candidates if o.expert == c.expert and o.setting == c.setting]
        assert c.loss in kinds
    scores = model.log_joint_without(frame, y)
    # The prior of the record includes the row itself, which is one in 120.
    losses = logsumexp(scores, axis=1) - scores[np.arange(120), y]
    # The record also corrects for fitting the weights on the same rows: at most one row per weight.
    most = np.count_nonzero(model.pool.weights) + len(model.classes)
    assert losses.mean() - 0.02 < record.loss < losses.mean() + most / 120 + 0.02
    assert record.rows == 120
    np.testing.assert_allclose(record.accuracy, (scores.argmax(axis=1) == y).mean(), atol=0.05)
    assert [column[0] for column in record.smoothings] == list(model.encoding.names)


def test_too_many_columns_of_text_are_refused(monkeypatch):
    monkeypatch.setattr(choosing, "MAX_TEXT_COLUMNS", 3)
    frame = {f"note {j}": [f"one two three four five {i} {j}" for i in range(30)] for j in range(4)}
    message = "4 columns hold text, 'note 0' first, and at most 3 can be learned: join them into one column, or leave"
    with pytest.raises(DecibanError, match=message):
        deciban.Classifier().fit(frame, ["x", "y"] * 15)
    deciban.Classifier(schema={"note 2": "skip"}).fit(frame, ["x", "y"] * 15)


def test_few_weights_stand_for_many():
    weight = np.random.default_rng(0).random(1000)
    few = sampling.grouped(weight)
    assert len(np.unique(few)) <= 16
    np.testing.assert_allclose(few.sum(), weight.sum())
    assert np.abs(few - weight).max() < 0.2
    assert (sampling.grouped(np.array([1.0, 2.0, 2.0])) == [1, 2, 2]).all()


def test_a_class_of_one_row_is_learned_but_judges_nothing():
    sample = random_sample(0, 60, 3)
    model = chosen(sample.frame, sample.y)
    assert model.record.rows == 59
    assert model.weight[2] == 1
    assert np.isfinite(model.log_joints(sample.frame)).all()


# ------------------------------------------------------------------ explanations


def log_odds(evidence):
    return evidence.prior + sum(db for *_, db in evidence.items)


@pytest.mark.parametrize("by", ["column", "expert"])
def test_explanations_add_up(model, by):
    frame, _ = table(1, 12)
    scores = model.log_joints(frame)
    for i in range(12):
        for target, against in ((0, 1), (2, 0), (1, 2)):
            evidence = views.explain(model, frame.take([i]), target, against, by)
            expected = DECIBANS * (scores[i, target] - scores[i, against])
            np.testing.assert_allclose(log_odds(evidence), expected, atol=1e-7)
        likely = np.argsort(-scores[i])
        best = views.explain(model, frame.take([i]), None, None, by)
        assert (best.target, best.against) == tuple(CLASSES[likely[:2]])
        np.testing.assert_allclose(best.probability, np.exp(scores[i].max() - logsumexp(scores[i])))


@pytest.mark.parametrize("by", ["column", "expert"])
def test_explanations_add_up_where_experts_are_capped(model, by):
    """A row so unusual that the experts' evidence is clipped; and a class that is impossible."""
    frame, _ = table(1, 3)
    strange = Frame(frame.names, (Numbers(np.array([1e9, -1e9, 1e3])), *frame.columns[1:]), 3)
    rows = model.encoding.rows(strange)
    at = next(i for i, e in enumerate(model.experts) if e.name == "gaussians")
    thin = replace(model.experts[at], shape=Shape(0.1, 0.01, np.inf))  # tails that a far row falls off
    model = replace(model, experts=(*model.experts[:at], thin, *model.experts[at + 1 :]))
    assert any((np.ptp(limited(e.evidence(rows), np.inf), axis=1) > e.limit).any() for e in model.experts[1:])
    alone = model.in_classes(np.array(["a", "b", "c", "d"]))
    for own in (model, alone.with_prior("uniform")):
        scores = own.log_joints(strange)
        for i in range(3):
            for target in range(1, len(own.classes)):
                evidence = views.explain(own, strange.take([i]), target, 0, by)
                np.testing.assert_allclose(log_odds(evidence), DECIBANS * (scores[i, target] - scores[i, 0]), atol=1e-6)


def test_explanations_add_up_where_a_column_has_no_coordinate():
    """A category per row has no coordinate: evidence of Gaussians about other columns must not be given to it."""
    rng = np.random.default_rng(0)
    names = tuple(f"v{i}" for i in range(16))
    numbers = (Numbers(rng.normal(size=16)), Numbers(rng.normal(size=16)))
    lone = Levels(np.arange(16, dtype=np.int32), names)
    y = (numbers[0].values > 0).astype(np.int32)
    for columns in ((numbers[0], lone), (*numbers, lone), (lone, numbers[0]), (numbers[0], lone, lone)):
        frame = Frame(tuple(f"c{j}" for j in range(len(columns))), columns, 16)
        model = chosen(frame, y, np.array([0, 1]))
        model = replace(model, pool=replace(model.pool, weights=np.maximum(model.pool.weights, 0.1)))
        scores = model.log_joints(frame)
        for i in range(4):
            evidence = views.explain(model, frame.take([i]), 1, 0)
            np.testing.assert_allclose(log_odds(evidence), DECIBANS * (scores[i, 1] - scores[i, 0]), atol=1e-7)


def test_values_are_shown_as_people_write_them():
    shown = views.value_of
    assert shown(Levels(np.array([1], np.int32), ("a", "b"))) == "b"
    assert shown(Levels(np.array([-1], np.int32), ("a",))) is None
    assert shown(Numbers(np.array([np.nan]))) is None
    assert shown(Numbers(np.array([3.0]), whole=True)) == 3
    assert shown(Numbers(np.array([2.5]))) == 2.5
    assert shown(Numbers(np.array([0.5]), dates="days")) == "1970-01-01T12:00:00"


def test_without_importance_the_strongest_evidence_is_that_of_single_columns(model):
    model = replace(model, record=replace(model.record, later=Deferred.of(None)))  # as older files have it
    items = [(c, item, db) for c in range(3) for item, db in model.strongest(c, 3)]
    assert {c for c, _, _ in items} <= {0, 1, 2}
    table_, offsets = model.columns.centred_log_table(), model.encoding.offsets
    for c, item, db in items:
        j = next(i for i, name in enumerate(model.encoding.names) if item.startswith(f"{name} = "))
        coded = model.encoding.columns[j]
        code = next(v for v in range(coded.size) if item == f"{model.encoding.names[j]} = {coded.label(v)}")
        cell = table_[offsets[j] + code]
        evidence = cell[c] - np.delete(cell, c).mean()
        np.testing.assert_allclose(db, DECIBANS * model.column_weights[j] * evidence)


def test_the_strongest_evidence_of_many_columns_is_found_in_time():
    def strongest(d):
        rng = np.random.default_rng(0)
        names = tuple(f"x{j}" for j in range(d))
        frame = Frame(names, tuple(Numbers(column) for column in rng.normal(size=(d, 8))), 8)
        encoding = choose_encoding(frame)
        empty = ColumnDistributions((BINNED[0],) * d, encoding.offsets, np.zeros((2, encoding.offsets[-1])))
        columns = empty.learned(encoding.rows(frame), np.arange(8, dtype=np.int32) % 2)
        columns.centred_log_table()
        pool = Pool(np.ones(1 + d), np.zeros(2))
        model = modelling.TableModel(CLASSES[:2], np.full(2, 4.0), TableColumns(()), encoding, (columns,), pool)
        return partial(views.strongest, model, 0, 5)

    assert growth(strongest(200), strongest(3200), 60) <= 60, "16, were it linear"


def test_the_density_of_columns(model):
    """Bins by their width; beyond the last one, a nat for every standard deviation."""
    frame, _ = table(1, 5)
    plain = density.log_density(model, frame)
    coded = model.encoding.columns[0]
    ends = [coded.high[-1], coded.high[-1] + 3 * coded.scale, coded.low[0] - 50 * coded.scale]
    far = Frame(frame.names, (Numbers(np.array(ends)), *(c.take([0, 0, 0]) for c in frame.columns[1:])), 3)
    log_density = density.log_density(model, far)
    np.testing.assert_allclose(log_density[1], log_density[0] - 3, atol=1e-9)
    assert log_density[2] < log_density[0] - 40
    assert np.isfinite(plain).all()


# ------------------------------------------------------------------ the joint density of rows


@pytest.fixture(scope="module")
def crossed():
    """A table whose third column depends on the first two together, which only a network of columns can model."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 3000)
    a, b = rng.integers(0, 2, 3000), rng.integers(0, 3, 3000)
    c = np.where(rng.random(3000) < 0.9, (a + b + y) % 3, rng.integers(0, 3, 3000))
    frame = {"a": np.array(["p", "q"])[a], "b": np.array(["u", "v", "w"])[b], "c": c * 10}
    return deciban.Classifier(schema={"c": "number"}).fit(frame, y)


def test_the_density_sums_to_one_and_is_what_samples_follow(crossed):
    """p(x) of every row there can be, beside how often it is drawn."""
    assert density.Density.of(crossed.model_).network is not None
    every = list(product("pq", "uvw", np.arange(21)))
    rows = {name: np.array(column) for name, column in zip("abc", zip(*every, strict=True), strict=True)}
    p = np.exp(crossed.score_samples(rows))
    inside = np.isin(rows["c"], [0, 10, 20])  # others are in no bin, and their density is that of the nearest
    assert p[inside].sum() == pytest.approx(1.0, abs=1e-9)
    drawn, _ = crossed.sample(200_000, random_state=0)
    frequency = pd.DataFrame(drawn).value_counts(normalize=True)
    for a, b, c, expected in zip(*(rows[name][inside] for name in "abc"), p[inside], strict=True):
        assert frequency.get((a, b, c), 0.0) == pytest.approx(expected, abs=4 * np.sqrt(expected / 200_000) + 1e-5)
    strange = crossed.score_samples({"a": ["p", "p"], "b": ["u", "u"], "c": [0, 20]})
    assert strange[0] > strange[1] + 1.0, "20 is as common as 0 by itself, but not beside these"


def test_whole_numbers_fill_their_bins_evenly():
    x = np.repeat(np.arange(1, 5), 50)
    model = deciban.Classifier().fit({"x": x, "z": np.tile([0.0, 1.0], 100)}, np.tile(["a", "b"], 100))
    drawn = np.asarray(model.sample(20_000, random_state=0)[0]["x"], dtype=float)
    counts = np.bincount(drawn.astype(int))[1:]
    np.testing.assert_allclose(counts / 20_000, 0.25, atol=0.02)


@pytest.mark.parametrize("n", [200, 500, 901])
def test_rows_that_are_alike_teach_as_much_as_others(n):
    """A table with few columns of few values: its rows come again and again, with either class."""
    rng = np.random.default_rng(n)
    y = rng.integers(0, 2, n)
    age = np.floor(rng.normal(40 + 10 * y, 12))
    age[rng.random(n) < 0.08] = np.nan
    model = deciban.Classifier().fit({"age": age}, y)
    new_y = rng.integers(0, 2, 4000)
    new = -np.log(
        model.predict_proba({"age": np.floor(rng.normal(40 + 10 * new_y, 12))})[np.arange(4000), new_y]
    ).mean()
    assert new < 0.65  # of log 2 = .693; what the true law has is .61
    assert model.summary().loss == pytest.approx(new, abs=0.05)


def test_importance_with_many_different_weights():
    """With rounded weights, more would be taken out of the sums than was learned."""
    rng = np.random.default_rng(14)
    X, y = rng.normal(size=(40, 41)), rng.integers(0, 5, 40)
    model = deciban.Classifier().fit(X, y, sample_weight=rng.lognormal(0.0, 2.0, 40))
    assert model.summary().importance.rows == 40


def test_grades_of_many_columns():
    """Gaussians of many coordinates are compared on fewer rows than means on a line."""
    rng = np.random.default_rng(8)
    X = rng.normal(size=(1600, 45))
    y = np.digitize(X[:, :3].sum(axis=1) + rng.normal(size=1600), [-2.0, 0.0, 2.0])
    model = deciban.Classifier().fit(X, y)
    assert "ordered classes" in [c.expert for c in model.model_.record.candidates if c.chosen]
    assert model.summary().loss < 1.0


def test_numbers_as_labels_are_grades_only_if_their_order_says_something(tmp_path):
    """Grades help each other; the same classes under shuffled numbers are names."""
    rng = np.random.default_rng(0)
    latent = rng.normal(size=400)
    X = latent[:, None] + 2 * rng.normal(size=(400, 10))
    grade = np.searchsorted([-1.3, -0.5, 0.3, 1.2], latent)
    model = deciban.Classifier().fit(X[:200], grade[:200])
    assert "ordered classes" in [c.expert for c in model.model_.record.candidates if c.chosen]
    named = np.array([30, 0, 40, 10, 20])[grade]
    shuffled = deciban.Classifier().fit(X[:200], named[:200])
    assert "ordered classes" not in [expert.name for expert in shuffled.model_.experts]
    proba = model.predict_proba(X[200:])
    other = shuffled.predict_proba(X[200:])[:, np.searchsorted([0, 10, 20, 30, 40], [30, 0, 40, 10, 20])]
    at = np.arange(200), grade[200:]
    assert -np.log(proba[at]).mean() < -np.log(other[at]).mean()
    model.save(tmp_path / "grades.deciban")
    assert (deciban.load(tmp_path / "grades.deciban").predict_proba(X[200:]) == proba).all()
    model.partial_fit(X[200:], np.full(200, 7)).forget(X[200:], np.full(200, 7))
    np.testing.assert_allclose(model.predict_proba(X[200:])[:, :5], proba, atol=1e-9)


def test_a_column_of_names_that_come_once_does_no_harm():
    """A row left out is treated as a new row is, so what is reported is what new rows see."""
    rng = np.random.default_rng(0)

    def drawn(n, first):
        x, y = rng.normal(size=(3, n)), rng.integers(0, 2, n).astype(np.int32)
        names = Levels(np.arange(n, dtype=np.int32), tuple(f"name {i}" for i in range(first, first + n)))
        columns = (Numbers(x[0] + y), Numbers(x[1] - y * x[0]), Numbers(x[2]), names)
        return Frame(("a", "b", "c", "name"), columns, n), y

    (frame, y), (new, its) = drawn(1500, 0), drawn(3000, 5000)
    model = chosen(frame, y, np.array([0, 1]))
    without = chosen(Frame(frame.names[:3], frame.columns[:3], 1500), y, np.array([0, 1]))
    scores = model.log_joints(new)
    loss = float(np.mean(logsumexp(scores, axis=1) - scores[np.arange(3000), its]))
    fewer = without.log_joints(Frame(new.names[:3], new.columns[:3], 3000))
    assert loss < float(np.mean(logsumexp(fewer, axis=1) - fewer[np.arange(3000), its])) + 0.005
    assert abs(model.record.loss - loss) < 0.03  # two standard errors of 1,500 rows


@pytest.mark.parametrize("n", [150, 300, pytest.param(1200, marks=pytest.mark.slow)])
def test_many_different_weights(n):
    """Rows are taken out with the weights that they were learned with, not with those rounded for the evaluation."""
    rng = np.random.default_rng(n)
    X = rng.normal(size=(n, 4))
    y, weight = ((X[:, :2] ** 2).sum(axis=1) > 1.5).astype(int), rng.exponential(size=n) + 0.01
    model = deciban.Classifier().fit(X, y, sample_weight=weight)
    assert model.score(X, y) > 0.9
    loss = -np.log(model.leave_one_out(X, y, sample_weight=weight).proba[np.arange(n), y])
    assert np.average(loss, weights=weight) < 0.4


def test_categories_that_are_equally_frequent_do_not_depend_on_the_order_of_the_rows():
    rng = np.random.default_rng(0)
    names = np.repeat([f"city {i:02}" for i in range(24)], 12)
    y = np.where(rng.random(288) < 0.2 + 0.6 * (np.arange(288) // 12 % 3 == 0), "yes", "no")
    frame = pd.DataFrame({"city": names, "size": rng.normal(size=288).round(2)})
    order = rng.permutation(288)
    one, two = deciban.Classifier().fit(frame, y), deciban.Classifier().fit(frame.iloc[order], y[order])
    np.testing.assert_allclose(one.predict_proba(frame), two.predict_proba(frame), atol=1e-12)
