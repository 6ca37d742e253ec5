"""Evaluations: numbers worked by hand, scikit-learn's measures, and invariance to weights and orders."""

from __future__ import annotations

import io
import json
import warnings
from dataclasses import replace

import numpy as np
import pandas
import polars
import pyarrow as pa
import pytest
from conftest import version_of
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from sklearn import metrics

from deciban import (
    Classifier,
    DecibanError,
    GaussianNB,
    LeaveOneOut,
    MultinomialNB,
    NaiveBayes,
    TextClassifier,
    read,
)
from deciban.results.evaluation import ONE_CLASS, Evaluation, Judged, evaluate
from deciban.results.ways import CROSS_FITTED, EXACT

HAM_SPAM = np.array(["ham", "spam"])
BY_HAND = Evaluation(HAM_SPAM, np.log([[0.9, 0.1], [0.6, 0.4], [0.7, 0.3], [0.2, 0.8]]), np.array([0, 0, 1, 1]))
TOLERANCE = {"rtol": 1e-12, "atol": 1e-12}  # sums of a few hundred terms of order one, in any order


def random_judged(seed: int, n: int = 200, k: int = 2, weighted: bool = True, rounded: bool = False) -> Evaluation:
    """Rows of several classes, with weights of which some are 0; rounded, so that many probabilities are equal."""
    rng = np.random.default_rng(seed)
    proba = rng.dirichlet(np.ones(k), n)
    if rounded:
        proba = np.round(proba * 8) + 1.0
    proba /= proba.sum(axis=1, keepdims=True)
    truth = np.array([rng.choice(k, p=p) for p in proba], dtype=int)
    weight = rng.choice([0.0, 0.5, 1.0, 3.0], n) if weighted else None
    return Evaluation(np.array([f"c{c}" for c in range(k)]), np.log(proba), truth, weight)


# ------------------------------ worked by hand


def test_numbers_worked_by_hand():
    assert BY_HAND.accuracy == 0.75
    assert BY_HAND.log_loss == pytest.approx(-np.log(0.9 * 0.6 * 0.3 * 0.8) / 4)
    assert BY_HAND.baseline == pytest.approx(np.log(2))
    assert BY_HAND.brier == pytest.approx((0.1**2 + 0.4**2 + 0.7**2 + 0.2**2) / 4)
    assert BY_HAND.auc == 0.75, "of four pairs, one (0.3 against 0.4) is ranked wrong"
    assert BY_HAND.confusion.tolist() == [[2, 0], [1, 1]]
    assert BY_HAND.per_class.rows[0] == ("ham", 2, pytest.approx(2 / 3), 1.0, pytest.approx(0.8))
    assert BY_HAND.per_class.rows[1] == ("spam", 2, 1.0, 0.5, pytest.approx(2 / 3))
    assert BY_HAND.calibration_error == pytest.approx((0.4 + 0.7 + 0.2 + 0.1) / 4), "four rows are four groups"
    assert BY_HAND.predictions.tolist() == ["ham", "ham", "ham", "spam"]
    assert BY_HAND.impossible == 0
    assert BY_HAND.possible_log_loss == BY_HAND.log_loss
    assert BY_HAND.most_confused().rows == [("spam", "ham", 1, 0.5)]


def test_curves_worked_by_hand():
    false, true, threshold = BY_HAND.roc()
    assert false.tolist() == [0, 0, 0.5, 0.5, 1]
    assert true.tolist() == [0, 0.5, 0.5, 1, 1]
    np.testing.assert_allclose(np.exp(threshold[1:]), [8 / 2, 4 / 6, 3 / 7, 1 / 9])
    recall, precision, _ = BY_HAND.precision_recall()
    assert recall.tolist() == [0.5, 0.5, 1, 1]
    np.testing.assert_allclose(precision, [1, 1 / 2, 2 / 3, 1 / 2])
    assert BY_HAND.average_precision == pytest.approx(0.5 * 1 + 0.5 * 2 / 3)


def test_equal_probabilities_count_half():
    even = Evaluation(HAM_SPAM, np.log(np.full((4, 2), 0.5)), np.array([0, 0, 0, 1]))
    assert even.auc == 0.5
    assert len(even.roc().threshold) == 2, "one threshold, and the start"


def test_a_group_has_accuracy_and_standard_error():
    """Hundred rows at 0.8, 70 of them right; one more right and one more wrong make the error."""
    truth = np.repeat([0, 1], [70, 30])
    judged = Evaluation(HAM_SPAM, np.log(np.tile([0.8, 0.2], (100, 1))), truth)
    group = judged.reliability(groups=1)
    np.testing.assert_allclose([group.predicted[0], group.observed[0], group.rows[0]], [0.8, 0.7, 100])
    p = 71 / 102
    assert group.error[0] == pytest.approx(np.sqrt(p * (1 - p) / 102))
    np.testing.assert_allclose(judged.reliability().observed, 0.7, **TOLERANCE)  # rows of one probability are alike
    assert judged.calibration_error == pytest.approx(0.1)
    certain = Evaluation(HAM_SPAM, np.log(np.tile([0.8, 0.2], (10, 1))), np.zeros(10, dtype=int))
    assert certain.reliability(groups=1).error[0] > 0.05, "ten of ten are no certainty"


def test_true_probabilities_are_on_the_line():
    groups = random_judged(0, 20_000, 3, weighted=False).reliability()
    assert len(groups.predicted) == 10
    assert (np.abs(groups.observed - groups.predicted) < 4 * groups.error).all(), (
        "four standard errors: 1 in 1,500 runs, ten of"
    )


# ------------------------------ scikit-learn's measures


@pytest.mark.parametrize("k", [2, 5])
@pytest.mark.parametrize("rounded", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_as_scikit_learn_has_it(k, rounded, weighted):
    judged = random_judged(k, 300, k, weighted, rounded)
    codes, p, w = judged.truth, judged.proba, judged.weight
    answers, labels = np.argmax(p, axis=1), list(range(k))
    assert judged.accuracy == pytest.approx(metrics.accuracy_score(codes, answers, sample_weight=w))
    assert judged.log_loss == pytest.approx(metrics.log_loss(codes, p, labels=labels, sample_weight=w))
    if version_of("scikit-learn") >= (1, 7):  # whose Brier score is of any number of classes
        brier = metrics.brier_score_loss(codes, p[:, 1] if k == 2 else p, labels=labels, sample_weight=w)
        assert judged.brier == pytest.approx(brier)
    np.testing.assert_allclose(judged.confusion, metrics.confusion_matrix(codes, answers, sample_weight=w), **TOLERANCE)
    each = metrics.precision_recall_fscore_support(codes, answers, labels=labels, sample_weight=w, zero_division=np.nan)
    table = np.array([(precision, recall, f1, rows) for _, rows, precision, recall, f1 in judged.per_class.rows])
    np.testing.assert_allclose(table.T, each, **TOLERANCE)
    if k > 2:
        assert judged.auc is None
        assert judged.average_precision is None
        return
    assert judged.auc == pytest.approx(metrics.roc_auc_score(codes, p[:, 1], sample_weight=w))
    assert judged.average_precision == pytest.approx(metrics.average_precision_score(codes, p[:, 1], sample_weight=w))
    counted = np.ones(300) if w is None else w
    false, true, _ = metrics.roc_curve(codes[counted > 0], p[counted > 0, 1], drop_intermediate=False)
    if w is None:
        np.testing.assert_allclose(judged.roc()[:2], [false, true], **TOLERANCE)


def test_the_baseline_is_the_best_constant():
    judged = random_judged(1, k=4)
    shares = np.tile(np.log(judged.shares), (len(judged.truth), 1))
    assert judged.baseline == pytest.approx(Judged(judged.classes, shares, judged.truth, judged.weight).log_loss)


# ------------------------------ laws

MEASURES = ("accuracy", "log_loss", "possible_log_loss", "baseline", "brier", "auc", "average_precision", "confusion")


@given(st.integers(0, 10_000), st.integers(1, 40), st.sampled_from([2, 3]), st.booleans())
def test_a_weight_is_a_repetition(seed, n, k, rounded):
    judged = random_judged(seed, n, k, rounded=rounded)
    times = np.random.default_rng(seed).integers(0, 4, n)
    weighed = Evaluation(judged.classes, judged.log_proba, judged.truth, times.astype(float))
    again = np.repeat(np.arange(n), times)
    repeated = Evaluation(judged.classes, judged.log_proba[again], judged.truth[again])
    for measure in MEASURES:
        a, b = getattr(weighed, measure), getattr(repeated, measure)
        assert (a is None) == (b is None)
        np.testing.assert_allclose(np.array(a, dtype=float), np.array(b, dtype=float), **TOLERANCE, err_msg=measure)
    assert weighed.per_class.rows == repeated.per_class.rows, "counts are whole, and so exact"


@given(st.integers(0, 10_000), st.integers(0, 60), st.sampled_from([2, 4]), st.booleans())
def test_the_order_of_rows_does_not_matter(seed, n, k, rounded):
    judged = random_judged(seed, n, k, rounded=rounded)
    order = np.random.default_rng(seed).permutation(n)
    weight = None if judged.weight is None else judged.weight[order]
    other = Evaluation(judged.classes, judged.log_proba[order], judged.truth[order], weight)
    for measure in (*MEASURES, "calibration_error"):
        a, b = getattr(judged, measure), getattr(other, measure)
        np.testing.assert_allclose(np.array(a, dtype=float), np.array(b, dtype=float), **TOLERANCE, err_msg=measure)


@given(st.integers(0, 10_000), st.sampled_from([2, 3, 5]))
def test_the_order_of_classes_does_not_matter(seed, k):
    judged = random_judged(seed, 50, k)
    order = np.random.default_rng(seed).permutation(k)
    place = np.argsort(order)
    other = Evaluation(judged.classes[order], judged.log_proba[:, order], place[judged.truth], judged.weight)
    for measure in ("accuracy", "log_loss", "baseline", "brier", "calibration_error", "auc"):
        a, b = getattr(judged, measure), getattr(other, measure)
        np.testing.assert_allclose(np.array(a, dtype=float), np.array(b, dtype=float), **TOLERANCE, err_msg=measure)
    np.testing.assert_allclose(judged.confusion[np.ix_(order, order)], other.confusion, **TOLERANCE)


@given(st.integers(0, 10_000), st.integers(1, 80), st.integers(1, 12))
def test_groups_share_all_weight_and_are_in_order(seed, n, groups):
    judged = random_judged(seed, n, 3)
    confidence, right, rows, error = judged.reliability(groups)
    assert len(confidence) <= min(groups, n)
    assert (np.diff(confidence) >= -1e-12).all()
    assert rows.sum() == pytest.approx(judged.weight.sum())
    if judged.weight.any():
        assert np.average(right, weights=rows) == pytest.approx(judged.accuracy)
    assert ((error > 0) & (error < 0.5)).all()


# ------------------------------ missing parts


def test_what_was_impossible_is_counted():
    with np.errstate(divide="ignore"):
        log_proba = np.log([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])
    judged = Evaluation(HAM_SPAM, log_proba, np.array([0, 0, 1]))
    assert judged.log_loss == np.inf
    assert judged.impossible == 1
    assert judged.possible_log_loss == pytest.approx(np.log(2) / 2)
    document = judged.to_dict()
    assert document["log_loss"] is None
    assert document["possible_log_loss"] == pytest.approx(np.log(2) / 2)
    shown = " ".join(repr(judged).split())
    assert "log loss none, because 1 row has a true class of probability 0" in shown
    assert "inf" not in shown
    weightless = Evaluation(HAM_SPAM, log_proba, np.array([0, 0, 1]), np.array([1.0, 0.0, 1.0]))
    assert weightless.log_loss == pytest.approx(np.log(2) / 2), "0 · ∞ is nothing"
    assert weightless.impossible == 0


def test_a_row_for_which_no_class_is_left_is_not_right():
    alone = LeaveOneOut(np.array([0, 1]), np.full((1, 2), -np.inf), np.array([0]))
    assert alone.accuracy == 0.0
    assert alone.confusion.sum() == 0


def test_rows_that_cannot_be_judged_get_a_note():
    nobody = GaussianNB().fit([[1.0], [2.0]], [0, 1]).leave_one_out([[1.0], [2.0]], [0, 1])
    assert (nobody.evaluated_rows, nobody.counted.tolist()) == (0, [False, False])
    assert "No class has two rows" in repr(nobody)
    X, y = [[1.0], [2.0], [7.0], [8.0], [100.0]], [0, 0, 1, 1, 2]
    judged = GaussianNB().fit(X, y).leave_one_out(X, y)
    assert judged.evaluated_rows == 4
    assert np.isfinite([judged.accuracy, judged.log_loss, judged.brier, judged.calibration_error]).all()
    assert "1 row is alone in its class and cannot be evaluated; about 20 % of new rows may" in repr(judged)
    single = GaussianNB().fit([[1.0], [2.0]], [0, 0]).leave_one_out([[1.0], [2.0]], [0, 0])
    assert single.accuracy == 1.0
    assert "There is only one class" in repr(single)
    for result in (nobody, judged, single):
        document = result.to_dict()
        assert json.loads(json.dumps(document, allow_nan=False)) == document


def test_no_rows_have_no_measures():
    nothing = Evaluation(HAM_SPAM, np.empty((0, 2)), np.empty(0, dtype=int))
    assert np.isnan([nothing.accuracy, nothing.log_loss, nothing.baseline, nothing.brier, nothing.auc]).all()
    document = nothing.to_dict()
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert repr(nothing)
    one_class = Evaluation(HAM_SPAM, np.log([[0.5, 0.5]]), np.array([0]))
    assert np.isnan(one_class.auc), "without a row of the second class there is no rate"


def test_everything_is_json():
    for judged in (BY_HAND, random_judged(0, k=4), flower_evaluation()):
        document = judged.to_dict()
        assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert random_judged(0, k=201).to_dict()["confusion"] is None


def test_curves_are_of_two_classes():
    three = random_judged(0, k=3)
    for curve in (three.roc, three.precision_recall):
        with pytest.raises(DecibanError, match=r"two classes.* 3"):
            curve()


# ------------------------------ judging a model


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow", "dict"])
def test_labels_may_be_a_column_by_its_name(library, tmp_path):
    rng = np.random.default_rng(0)
    y = np.array(["a", "b"])[np.arange(60) % 2]
    columns = {"x": (rng.normal(size=60) + 2.0 * (y == "b")).tolist(), "c": list("uvw" * 20), "y": y.tolist()}
    learned, new = ({name: values[part] for name, values in columns.items()} for part in (slice(40), slice(40, None)))
    tables = {
        "pandas": pandas.DataFrame,
        "polars": polars.DataFrame,
        "pyarrow": pa.table,
        "dict": dict,
    }
    table = tables[library](new)
    for model in (Classifier().fit(learned, "y"), NaiveBayes().fit(learned, "y")):
        expected = evaluate(model, {"x": new["x"], "c": new["c"]}, new["y"])
        model.save(tmp_path / "m.deciban")
        for judge in (model, read(tmp_path / "m.deciban")):
            judged = evaluate(judge, table, "y")
            assert np.array_equal(judged.log_proba, expected.log_proba)
            assert judged.classes[judged.truth].tolist() == new["y"]
        with pytest.raises(DecibanError, match="there is no column 'yy'"):
            evaluate(model, table, "yy")


def test_labels_beside_texts_may_be_a_column_by_its_name(tmp_path):
    texts, y = ["good film", "bad film", "good plot", "bad plot"] * 3, ["+", "-"] * 6
    model = TextClassifier().fit(texts, y)
    model.save(tmp_path / "m.deciban")
    expected = evaluate(model, texts, y)
    for judge in (model, read(tmp_path / "m.deciban")):
        for table in ({"text": texts, "sign": y}, pandas.DataFrame({"text": texts, "sign": y})):
            assert np.array_equal(evaluate(judge, table, "sign").log_proba, expected.log_proba)
    wide = {"id": list(range(12)), "text": texts, "sign": y}
    with pytest.raises(DecibanError, match="takes texts, but the table has the columns 'id', 'text'"):
        evaluate(model, wide, "sign")
    with pytest.raises(DecibanError, match="column 'id' holds none"):
        evaluate(model, {"id": wide["id"], "sign": y}, "sign")
    model.origin_ = {"text": "text"}  # as `deciban train` stores it
    assert np.array_equal(evaluate(model, wide, "sign").log_proba, expected.log_proba)


def test_one_class_has_no_figures():
    single = Evaluation(np.array(["a"]), np.zeros((3, 1)), np.zeros(3, dtype=int))
    assert " ".join(repr(single).split()) == ONE_CLASS


def test_rows_without_probability_have_no_log_loss():
    with np.errstate(divide="ignore"):
        judged = Evaluation(HAM_SPAM, np.log([[1.0, 0.0]]), np.array([1]))
    assert "log loss none, because 1 row has a true class of probability 0" in " ".join(repr(judged).split())
    assert "of the others" not in repr(judged)


def flower_evaluation() -> Evaluation:
    model = MultinomialNB().fit([[3, 0], [2, 1], [0, 4], [1, 3]], ["rose", "rose", "tulip", "tulip"])
    return evaluate(model, [[2, 0], [0, 2], [1, 1], [5, 5]], ["rose", "tulip", "rose", "daisy"])


def test_a_label_that_the_model_does_not_know_is_a_mistake():
    judged = flower_evaluation()
    assert judged.classes.tolist() == ["rose", "tulip", "daisy"]
    assert judged.unknown == ("daisy",)
    assert judged.unknown_rows == judged.impossible == 1
    assert judged.accuracy == 0.75
    assert judged.log_loss == np.inf
    assert judged.known().accuracy == 1.0
    assert judged.known().log_loss == pytest.approx(judged.possible_log_loss)
    assert judged.known().auc == 1.0
    assert "1 row with labels unknown to the model (daisy): it counts as a mistake" in repr(judged).replace("\n", " ")
    assert judged.to_dict()["unknown_labels"] == ["daisy"]


def test_labels_of_any_make():
    pandas, polars, arrow = (pytest.importorskip(name) for name in ("pandas", "polars", "pyarrow"))
    model = GaussianNB().fit([[1.0], [2.0], [6.0], [7.0]], [0, 0, 1, 1])
    for make in (list, tuple, np.array, pandas.Series, polars.Series, arrow.array, lambda y: np.array(y, dtype=float)):
        judged = evaluate(model, [[1.5], [6.5], [1.5]], make([0, 1, 1]))
        assert judged.truth.tolist() == [0, 1, 1]
        assert not judged.unknown


@pytest.mark.parametrize(
    ("y", "weight", "message"),
    [
        ([0], None, "X has 2 rows, but y has 1 labels"),
        ([0, None], None, "row 1 of y has no label"),
        ([0, np.nan], None, "row 1 of y has no label"),
        (["0", "1"], None, "no label of y is a class of the model: it learned 0, 1, and y has '0', '1'.*same type"),
        ([0, 1], [1.0], r"weight has shape \(1,\)"),
        ([0, 1], [1.0, -1.0], "weight is -1 in row 1"),
        ([0, 1], [np.nan, 1.0], "weight is nan in row 0"),
    ],
)
def test_what_cannot_be_judged(y, weight, message):
    model = GaussianNB().fit([[1.0], [2.0], [6.0], [7.0]], [0, 0, 1, 1])
    with pytest.raises(DecibanError, match=message):
        evaluate(model, [[1.0], [6.0]], y, weight)


def test_probabilities_that_are_nan_are_refused():
    class Broken:
        classes_ = np.array([0, 1])

        def predict_log_proba(self, X):
            return np.full((len(X), 2), np.nan)

    with pytest.raises(DecibanError, match="row 0 has a probability of NaN"):
        evaluate(Broken(), [[1.0]], [0])


# ------------------------------ shown


def test_many_classes_are_shown_in_a_few_lines():
    many = random_judged(3, 3000, 40)
    shown = repr(many)
    assert len(shown.splitlines()) < 60
    assert "most confused" in shown
    counts = [rows for _, _, rows, _ in many.most_confused().rows]
    assert counts == sorted(counts, reverse=True)
    assert sum(rows for *_, rows, _ in many.most_confused(10**9).rows) == pytest.approx(
        many.confusion.sum() * (1 - many.accuracy)
    )
    assert max(map(len, shown.splitlines())) <= 80
    all_right = Evaluation(np.arange(12), np.log(np.eye(12) * 0.9 + 0.1 / 12), np.arange(12))
    assert "most confused" not in repr(all_right), "no table without rows"


def test_leave_one_out_is_short_unless_it_is_asked_for_details():
    left_out = LeaveOneOut(BY_HAND.classes, BY_HAND.log_proba, BY_HAND.truth)
    assert repr(left_out) == "leave-one-out over 4 rows\nmeasure    value\naccuracy    0.75\nlog_loss  0.5108"
    assert repr(left_out.details()) == repr(BY_HAND).replace("new rows", "leave-one-out")
    assert left_out.details().to_table().rows[0][:2] == ("accuracy", 0.75)
    assert left_out.to_dict() == {
        **{key: value for key, value in BY_HAND.to_dict().items() if not key.startswith("unknown")},
        "how": "leave-one-out",
        "evaluated_rows": 4,
        "judged_rows": 4,
        "note": None,
    }


def test_very_many_classes_need_no_matrix_to_be_shown():
    """A matrix of 100,000 by 100,000 would not fit."""
    k = 100_000
    with np.errstate(divide="ignore"):
        log_proba = np.log(np.eye(2, k))
    judged = Evaluation(np.arange(k), log_proba, np.array([0, 5]))
    assert judged.most_confused().rows == [(5, 1, 1, 1.0)]
    assert "most confused" in repr(judged)
    assert judged.to_dict()["confusion"] is None


def test_labels_are_never_interpreted():
    nasty = "a\x1b[31m[red]<b>\u202e"
    judged = Evaluation(np.array([nasty, "b"], dtype=object), BY_HAND.log_proba, BY_HAND.truth, None, ("b",))
    screen = io.StringIO()
    Console(file=screen, width=100, color_system=None).print(judged)
    for shown in (repr(judged), screen.getvalue(), judged._repr_html_()):
        assert not set(shown) & {"\x1b", "\u202e"}
    assert "[red]<b>" in screen.getvalue()
    assert "<b>" not in judged._repr_html_()


@pytest.mark.parametrize("what", ["reliability", "confusion", "roc", "precision_recall"])
def test_pictures(what):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    judged = Evaluation(np.array(["$a$", "b"]), BY_HAND.log_proba, BY_HAND.truth)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ax = judged.plot(what=what)
        assert judged.plot(ax, what=what) is ax
        ax.figure.canvas.draw()
    lines = [line.get_xydata() for line in ax.lines]
    if what == "roc":
        np.testing.assert_allclose(lines[1], np.column_stack(judged.roc()[:2]))
    if what == "precision_recall":
        np.testing.assert_allclose(lines[1], np.column_stack(judged.precision_recall()[:2]))
    if what == "confusion":
        assert [text.get_text() for text in ax.texts[:4]] == ["2", "0", "1", "1"]
    matplotlib.pyplot.close("all")


def test_a_picture_that_there_is_not():
    with pytest.raises(DecibanError, match="what is 'pie': it must be 'reliability', 'confusion'"):
        BY_HAND.plot(what="pie")


def test_what_is_compared_has_the_class_shares_of_all_rows():
    """Three rows of one class and two of another, without any evidence: without a row 2 : 2, or 3 : 1."""
    y = np.array([0, 0, 0, 1, 1])
    literal = np.log(np.where(y[:, None] == 0, [[0.5, 0.5]], [[0.75, 0.25]]))
    weights = np.array([3.0, 2.0])
    left = LeaveOneOut(np.array(["a", "b"]), literal, y, None, np.zeros(5, dtype=bool), CROSS_FITTED, weights)
    # Rounded to ten digits, so that ties are ties.
    np.testing.assert_allclose(np.exp(left._comparable), [[0.6, 0.4]] * 5, atol=1e-10)
    assert left.auc == 0.5
    assert left.calibration_error == pytest.approx(0.0, abs=1e-10)
    assert left.baseline == left.log_loss == pytest.approx(-(3 * np.log(0.5) + 2 * np.log(0.25)) / 5)
    exact = replace(left, way=EXACT)
    assert exact.auc == 0.5
    plain = replace(left, learned=None)  # the prior was given, and no row changes it
    assert plain.auc == 0.0
    np.testing.assert_array_equal(plain._comparable, literal)


def test_classes_of_one_size_are_predicted_by_the_shares_of_all_rows():
    """Two rows of each class, without any evidence: leaving a row out would favour the other class."""
    y = np.array([0, 0, 1, 1])
    literal = np.log(np.where(y[:, None] == 0, [[1 / 3, 2 / 3]], [[2 / 3, 1 / 3]]))
    left = LeaveOneOut(np.array(["a", "b"]), literal, y, None, None, CROSS_FITTED, np.array([2.0, 2.0]))
    assert left.accuracy == 0.0
    assert replace(left, pooled=True).predictions.tolist() == ["a"] * 4
    assert replace(left, pooled=True, learned=np.array([2.0, 4.0])).accuracy == 0.0, "of unequal ones literally"
    assert replace(left, pooled=True).log_loss == left.log_loss == pytest.approx(-np.log(1 / 3))


def test_rows_of_no_weight_are_not_alone():
    y, alone = np.array([0, 0, 1]), np.array([False, False, True])
    left = LeaveOneOut(np.array([0, 1]), np.log(np.full((3, 2), 0.5)), y, np.array([1.0, 1.0, 0.0]), alone)
    assert left.note == ""
    assert "1 row is alone" in replace(left, weight=None).note


def test_reliability_has_its_old_names_with_a_warning():
    groups = BY_HAND.reliability()
    old_names = {"said": "predicted", "confidence": "predicted", "found": "observed", "accuracy": "observed"}
    for old, new in old_names.items():
        with pytest.warns(DeprecationWarning, match=new):
            np.testing.assert_array_equal(getattr(groups, old), getattr(groups, new))
    with pytest.raises(AttributeError, match="predicted, observed, rows, error"):
        groups.spoken  # noqa: B018 - there is no such name
    assert list(BY_HAND.to_dict()["reliability"]) == ["predicted", "observed", "rows", "error"]


def test_results_have_their_old_names_with_a_warning():
    with pytest.warns(DeprecationWarning, match="Evaluation.judged is now called evaluated_rows"):
        assert BY_HAND.judged == BY_HAND.evaluated_rows == 4
