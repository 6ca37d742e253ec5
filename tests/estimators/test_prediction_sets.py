"""`predict_set` and `calibrate` of every classifier: which rows are compared, what is kept, the messages."""

from __future__ import annotations

import copy
import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from sklearn.base import clone

import deciban
from deciban import scorer
from deciban.corollaries import full_conformal
from deciban.corollaries.conformal import (
    CROSS,
    FULL,
    STORED,
    PredictionSets,
    Strangeness,
    cross_bound,
    judged_sets,
    strangeness,
)
from deciban.errors import DecibanError, FileError
from deciban.estimators import prediction_sets
from deciban.estimators.prediction_sets import fold_of
from deciban.reading.given import Rows

EXACT = [
    deciban.GaussianNB(),
    deciban.CategoricalNB(),
    deciban.BernoulliNB(),
    deciban.MultinomialNB(),
    deciban.ComplementNB(),
    deciban.PoissonNB(),
    deciban.NaiveBayes(),
    deciban.LinearDiscriminantAnalysis(),
    deciban.QuadraticDiscriminantAnalysis(),
    deciban.GaussianDiscriminant(shrinkage=0.1),
]
CHOOSING = [
    deciban.GaussianNB(alpha="loo"),
    deciban.NearestCentroid(),
    deciban.TreeAugmentedNB(),
    deciban.GaussianDiscriminant(),
    deciban.GaussianDiscriminant(covariance="bic", shrinkage=None),
    deciban.MixtureDiscriminant(components=1, shrinkage=None),
    deciban.Classifier(),
]


def table(n=60, k=3, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % k
    return np.abs(np.round(rng.normal(size=(n, 3)) + 2.0 * rng.random((k, 3))[y], 1)), y


def digits(model, X):
    """As counts for models of counts."""
    return np.round(X) if type(model).__name__ == "CategoricalNB" else X


@pytest.mark.parametrize(("models", "way"), [(EXACT, FULL), (CHOOSING, CROSS)])
def test_every_classifier_gives_sets_after_a_plain_fit(models, way):
    X, y = table()
    for model in models:
        rows = digits(model, X)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            prediction = clone(model).fit(rows[:48], y[:48]).predict_set(rows[48:], coverage=0.8)
        assert prediction.way == way, model
        assert prediction.p_values.shape == (12, 3)
        assert ((prediction.p_values > 0) & (prediction.p_values <= 1)).all()
        assert prediction.rows.tolist() == [16, 16, 16]
        assert prediction.guarantee.startswith("At least 80 %" if way == FULL else "About 80 %")


TEXTS = [f"{word} {i % 7} of {'them' if i % 3 else 'all'}" for i in range(40) for word in ("cash", "lunch")]
KINDS = ["spam", "ham"] * 40


def test_texts_and_mails():
    model = deciban.TextClassifier().fit(TEXTS, KINDS)
    prediction = model.predict_set([*TEXTS[:2], "", "them"])
    assert prediction.way == CROSS
    assert prediction.sets[:2] == [["spam"], ["ham"]]
    assert prediction.rows.tolist() == [40, 40]
    plain = deciban.TextClassifier(reliability=None).fit(TEXTS, KINDS)
    assert plain.predict_set(TEXTS[:2]).sets == [["spam"], ["ham"]]
    mails = [f"Subject: {text}\n\n{text}" for text in TEXTS]
    filter_ = deciban.SpamFilter().train(mails[::2], "spam").train(mails[1::2], "ham")  # by partial_fit: it keeps mails
    assert filter_.predict_set(mails[:2]).sets == [["spam"], ["ham"]]
    assert filter_.calibrate().predict_set(mails[:2], way="stored").sets == [["spam"], ["ham"]]
    filter_.forget(mails[:2:2], "spam")
    assert filter_.predict_set(mails[:2]).rows.tolist() == [40, 39]


def test_rows_of_any_make_give_the_same_sets():
    X, y = table()
    frame = pd.DataFrame(X, columns=list("abc"))
    expected = deciban.NaiveBayes().fit(frame, y).predict_set(frame[:5]).p_values
    labelled = frame.assign(label=y)
    for make in (pl.from_pandas, pa.Table.from_pandas, lambda f: f.to_dict("list"), lambda f: f.to_dict("records")):
        assert np.array_equal(deciban.NaiveBayes().fit(make(frame), y).predict_set(make(frame[:5])).p_values, expected)
    by_name = deciban.NaiveBayes().fit(labelled, "label")
    assert np.array_equal(by_name.predict_set(frame[:5]).p_values, expected)
    assert np.array_equal(by_name.predict_set(frame[:5], rows=(labelled, "label")).p_values, expected)
    of_rows = deciban.GaussianNB().fit(X.tolist(), y.tolist()).predict_set(X[:5].tolist()).p_values
    assert np.array_equal(deciban.GaussianNB().fit(X, y).predict_set(X[:5]).p_values, of_rows)
    counts = sp.csr_matrix(np.round(X))
    dense = deciban.MultinomialNB().fit(np.round(X), y).predict_set(np.round(X)[:5]).p_values
    assert np.array_equal(deciban.MultinomialNB().fit(counts, y).predict_set(counts[:5]).p_values, dense)


# ------------------------------------------------------------------ rows that are kept


def test_rows_are_kept_in_memory_and_nowhere_else(tmp_path):
    X, y = table()
    model = deciban.GaussianNB().fit(X, y)
    expected = model.predict_set(X[:5]).p_values
    assert np.array_equal(copy.copy(model).predict_set(X[:5]).p_values, expected)
    model.save(tmp_path / "model.deciban")
    for other in (pickle.loads(pickle.dumps(model)), deciban.load(tmp_path / "model.deciban"), copy.deepcopy(model)):
        with pytest.raises(DecibanError, match=r"Pass rows=\(X, y\)"):
            other.predict_set(X[:5])
        assert np.array_equal(other.predict_set(X[:5], rows=(X, y)).p_values, expected)
    assert not any(name in pickle.dumps(model).decode("latin1") for name in prediction_sets.NOT_SAVED)


def test_the_copy_is_private():
    X, y = table()
    model = deciban.GaussianNB().fit(X, y)
    expected = model.predict_set(X[:5].copy()).p_values
    new = X[:5].copy()
    X += 7.0
    y[:] = 0
    assert np.array_equal(model.predict_set(new).p_values, expected)


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m.partial_fit(*(part[:2] for part in table())),
        lambda m: m.forget(*(part[:2] for part in table())),
        lambda m: m.decay(10.0, 3),
        lambda m: m + m,
        lambda m: m.empty(),
        lambda m: m.with_prior("uniform"),
    ],
)
@pytest.mark.parametrize("model", [deciban.GaussianNB(), deciban.Classifier()], ids=lambda m: type(m).__name__)
def test_whatever_changes_the_model_drops_them(model, change):
    X, y = table()
    model = clone(model).fit(X, y).calibrate()
    changed = change(model)
    assert changed.calibration_ is None
    with pytest.raises(DecibanError, match="no training rows"):
        changed.predict_set(X[:2])


def test_a_failed_fit_keeps_what_was_there():
    X, y = table()
    model = deciban.GaussianNB().fit(X, y)
    expected = model.predict_set(X[:5]).p_values
    with pytest.raises(ValueError, match="inconsistent"):
        model.fit(X, y[:5])
    assert np.array_equal(model.predict_set(X[:5]).p_values, expected)


def test_of_many_rows_a_few_drawn_at_random_are_kept(monkeypatch):
    monkeypatch.setattr(prediction_sets, "MAX_COMPARED_ROWS", 250)
    X, y = table(3000)
    assert deciban.GaussianNB().fit(X, y).predict_set(X[:5]).rows.sum() == 250
    monkeypatch.setattr(prediction_sets, "MAX_KEPT_ROWS", 1000)
    with pytest.raises(DecibanError, match="no training rows"):
        deciban.GaussianNB(alpha="loo").fit(X, y).predict_set(X[:5])
    monkeypatch.setattr(prediction_sets, "MAX_KEPT_ENTRIES", 300)  # a hundred rows: too few to be worth it
    with pytest.raises(DecibanError, match="no training rows"):
        deciban.GaussianNB().fit(X, y).predict_set(X[:5])


def test_what_would_take_too_long_is_done_by_refits(monkeypatch):
    X, y = table()
    still = X.copy()
    still[y == 0, 1] = 1.0  # a covariance that is repaired: every row left out would take an estimate
    with pytest.warns(deciban.SingularWarning):
        model = deciban.QuadraticDiscriminantAnalysis().fit(still, y)
    assert model.predict_set(still[:2]).way == CROSS
    assert model.predict_set(still[:2], way="full").way == FULL
    monkeypatch.setattr(full_conformal, "MAX_ENTRIES_PER_ROW", 100)
    assert deciban.ComplementNB().fit(X, y).predict_set(X[:2]).way == CROSS
    assert deciban.MultinomialNB().fit(X, y).predict_set(X[:2]).way == FULL  # in closed form


def test_without_a_closed_form_few_rows_are_compared_with(monkeypatch):
    X, y = table()
    model = deciban.ComplementNB().fit(X, y)
    by_class = model.predict_set(X[:3], by_class=True).p_values
    monkeypatch.setattr(full_conformal, "MAX_COMPARED_ROWS", 19)
    prediction = model.predict_set(X[:3])
    assert np.allclose(prediction.p_values * 20, np.round(prediction.p_values * 20))
    assert np.array_equal(model.predict_set(X[:3], by_class=True).p_values, by_class)


def test_refits_are_made_once():
    X, y = table()
    model = deciban.TreeAugmentedNB().fit(X, y)
    first = model.compared_with()
    assert model.compared_with() is first
    given = model.compared_with((X, y), way="cross")
    assert model.compared_with(given) is given
    assert np.array_equal(model.predict_set(X[:4], rows=given).p_values, model.predict_set(X[:4]).p_values)
    for other in (copy.copy(model), model.partial_fit(X[:2], y[:2])):
        with pytest.raises(DecibanError, match="prepare it again"):
            other.predict_set(X[:4], rows=given)


# ------------------------------------------------------------------ folds


def test_folds_do_not_depend_on_the_order_of_rows():
    X, y = table(50)
    X[10:20] = X[10]  # rows that are alike
    part = fold_of(Rows.of(X).digests(), y, 5)
    assert all(np.ptp(np.bincount(part[y == c], minlength=5)) <= 1 for c in range(3))
    assert np.ptp(np.bincount(part, minlength=5)) <= 1
    order = np.random.default_rng(0).permutation(50)
    again = fold_of(Rows.of(X[order]).digests(), y[order], 5)

    def content(rows, labels, folds):
        return sorted(zip(map(tuple, rows.tolist()), labels.tolist(), folds.tolist(), strict=True))

    assert content(X, y, part) == content(X[order], y[order], again)
    model = deciban.TreeAugmentedNB()
    one, two = clone(model).fit(X, y), clone(model).fit(X[order], y[order])
    assert np.array_equal(one.predict_set(X[:9]).p_values, two.predict_set(X[:9]).p_values)


@pytest.mark.parametrize(
    "rows",
    [
        np.array([[1.0, np.nan], [0.0, 2.0], [-0.0, 2.0], [1.0, np.nan]]),
        sp.csr_matrix([[1.0, 0.0], [0.0, 2.0], [0.0, 2.0], [1.0, 0.0]]),
        {"a": [1, 2, 2, 1], "b": ["x", None, None, "x"]},
        [{"a": 1, "b": "x"}, {"a": 2}, {"a": 2}, {"a": 1, "b": "x"}],
        pd.DataFrame({"a": ["u", "v", "v", "u"]}),
        ["one", "two", "two", "one"],
    ],
    ids=["array", "sparse", "mapping", "dicts", "frame", "texts"],
)
def test_rows_are_known_by_what_is_in_them(rows):
    digests = Rows.of(rows).digests()
    assert digests[0] == digests[3] != digests[1] == digests[2]


# ------------------------------------------------------------------ scores that are stored


@pytest.mark.parametrize("model", [deciban.Classifier(), deciban.GaussianNB(), deciban.NaiveBayes()])
def test_a_file_carries_scores(model, tmp_path):
    X, y = table(90)
    frame = pd.DataFrame(X, columns=list("abc"))
    model = clone(model).fit(frame, y).calibrate()
    model.save(tmp_path / "model.deciban")
    back = deciban.load(tmp_path / "model.deciban")
    expected = model.predict_set(frame, way="stored")
    prediction = back.predict_set(frame)
    assert prediction.way == STORED
    assert prediction.rows.tolist() == [30, 30, 30]
    assert np.abs(prediction.p_values - expected.p_values).max() < 0.05  # scores are rounded
    only = scorer.read(tmp_path / "model.deciban")
    if only is not None:
        assert np.array_equal(
            only.predict_set(frame, by_class=True).p_values, back.predict_set(frame, by_class=True).p_values
        )
    back.partial_fit(frame[:3], y[:3])
    assert back.calibration_ is None
    back.save(tmp_path / "model.deciban")
    with pytest.raises(DecibanError, match="no stored scores"):
        deciban.load(tmp_path / "model.deciban").predict_set(frame, way="stored")


def test_scores_that_make_no_sense_are_a_damaged_file():
    good = Strangeness.of(np.array([0.5, -np.inf, np.inf]), np.array([0, 0, 1]), 2).to_dict()
    assert Strangeness.from_dict(good, 2).rows.tolist() == [2, 1]
    for bad in (
        {"scores": good["scores"], "rows": [2.0]},
        {"scores": good["scores"][:1], "rows": good["rows"]},
        {"scores": [[1.0, 0.0], [0.0]], "rows": [2.0, 1.0]},
        {"scores": [[float("nan")], [0.0]], "rows": [1.0, 1.0]},
        {"scores": [[], [0.0]], "rows": [1.0, 1.0]},
        {"scores": good["scores"], "rows": [-2.0, 1.0]},
    ):
        with pytest.raises(FileError):
            Strangeness.from_dict(bad, 2)


def test_a_few_scores_stand_for_many():
    rng = np.random.default_rng(0)
    scores, codes = rng.normal(size=50_000), rng.integers(0, 2, 50_000)
    whole = Strangeness.of(scores, codes, 2)
    few = whole.thinned()
    assert sum(map(len, few.values)) <= 2048
    assert few.rows.tolist() == whole.rows.tolist()
    log_joint = np.column_stack([rng.normal(size=300), np.zeros(300)])
    for by_class in (False, True):
        assert np.abs(few.p_values(log_joint, by_class) - whole.p_values(log_joint, by_class)).max() < 0.002


def test_rows_left_out_are_not_compared_with_themselves():
    X, y = table(40, 2)
    judged = deciban.GaussianNB().fit(X, y).leave_one_out(X, y)
    score = strangeness(judged.log_proba)
    prediction = judged_sets(judged, None, 0.8, by_class=False)
    for i in range(40):
        rest = np.arange(40) != i
        p = (np.sum(score[np.arange(40), y][rest] >= score[i, y[i]] - 1e-9) + 1) / 40
        assert bool(prediction.hit[i]) == (p > 0.2 + 1e-12)


# ------------------------------------------------------------------ sets


def some_sets(p, coverage=0.9, by_class=False, rows=(9.0, 8.0), **more):
    return PredictionSets(np.array(["a", "b"]), np.array(p), coverage, by_class, FULL, "Said.", np.array(rows), **more)


def test_a_p_value_that_is_epsilon_rules_out():
    """1 − 0.9 is less than 0.1 in doubles, and 1 − 0.7 more than 0.3."""
    assert some_sets([[0.1, 0.2]]).sets == [["b"]]
    assert some_sets([[0.3, 0.31]], 0.7).sets == [["b"]]


def test_empty_sets_stay_or_have_the_likeliest_class():
    assert some_sets([[0.01, 0.02], [0.5, 0.01]]).sets == [[], ["a"]]
    assert some_sets([[0.01, 0.02], [0.5, 0.01]], likeliest=np.array([0, 1])).sets == [["a"], ["a"]]
    X, y = table()
    model = deciban.GaussianNB().fit(X, y)
    prediction, filled = (model.predict_set(X, 0.3, allow_empty=a) for a in (True, False))
    empty = prediction.sizes == 0
    assert empty.any()
    assert (filled.mask[~empty] == prediction.mask[~empty]).all()
    assert [one[0] for one in np.array(filled.sets, dtype=object)[empty]] == model.predict(X)[empty].tolist()


def test_few_rows_rule_nothing_out_and_a_note_says_so():
    prediction = some_sets([[0.5, 0.5]], by_class=True)
    assert prediction.notes == ["In every set, because ruling a class out takes 9 rows of it: b."]
    assert some_sets([[0.5, 0.5]]).notes == []
    assert "takes 19 rows or more" in some_sets([[0.5, 0.5]], coverage=0.95).notes[0]
    X, y = table(30)
    keep = (y != 2) | (np.arange(30) < 12)  # four rows of class 2
    sets = deciban.GaussianNB().fit(X[keep], y[keep]).predict_set(X, by_class=True)
    assert sets.mask[:, 2].all()
    assert "2" in sets.notes[0]


def test_sets_render_themselves():
    prediction = some_sets([[0.6, 0.02], [0.03, 0.04]])
    assert "a        0.6  0.02" in repr(prediction)
    assert "(none)" in repr(prediction)
    assert "Said." in repr(prediction)
    assert "<table>" in prediction._repr_html_()
    assert prediction.to_frame().columns.tolist() == ["set", "size", "p(a)", "p(b)"]
    assert prediction.to_dict()["sets"] == [["a"], []]
    judged = prediction.evaluate(["a", "c"])
    assert (judged.coverage, judged.mean_size, judged.empty, judged.single) == (0.5, 0.5, 0.5, 0.5)
    assert judged.per_class.rows == [("a", 1, 1.0, 1.0), ("c", 1, 0.0, 0.0)]
    assert judged.to_dict()["classes"]["class"] == ["a", "c"]
    with pytest.warns(DeprecationWarning, match="requested_coverage"):
        assert judged.asked == judged.requested_coverage == prediction.coverage
    assert "contain the true class of 50 % of rows" in judged.in_words()
    with pytest.raises(DecibanError, match="row 1 of y has no label"):
        prediction.evaluate(["a", None])
    with pytest.raises(DecibanError, match="2 sets, but y has 1 labels"):
        prediction.evaluate(["a"])


# ------------------------------------------------------------------ odd input


@pytest.mark.parametrize("coverage", [0.0, 1.0, -0.1, 2, float("nan"), "high", True])
def test_coverage_is_between_0_and_1(coverage):
    X, y = table()
    with pytest.raises(ValueError, match="must be a number between 0 and 1"):
        deciban.GaussianNB().fit(X, y).predict_set(X, coverage)


def test_what_cannot_be_done_is_said(tmp_path):
    X, y = table()
    (tmp_path / "rows.csv").write_text("x0,x1,x2\n1,2,3\n")
    model = deciban.GaussianNB()
    with pytest.raises(ValueError, match="not fitted"):
        model.predict_set(X)
    model.fit(X, y)
    with pytest.raises(ValueError, match="way is 'best'"):
        model.predict_set(X, way="best")
    with pytest.raises(ValueError, match=r"rows must be \(X, y\)"):
        model.predict_set(X, rows=X)
    with pytest.raises(DecibanError, match="no stored scores"):
        model.predict_set(X, way="stored")
    with pytest.raises(DecibanError, match=r"learned 20.* 40 "):
        model.predict_set(X, rows=(np.vstack([X, X]), np.append(y, y)))
    for other, why in (
        (deciban.GaussianNB(alpha="loo"), "leave-one-out chose"),
        (deciban.TreeAugmentedNB(), "its tree was chosen"),
        (deciban.TreeAugmentedNB(parents=[-1, 0, 0]), "bin edges"),
        (deciban.GaussianDiscriminant(covariance="bic", shrinkage=None), "BIC"),
        (deciban.Classifier(), "weights of its evidence"),
    ):
        with pytest.raises(DecibanError, match=f"{why}.*way='cross'"):
            other.fit(X, y).predict_set(X, way="full")
    with pytest.raises(DecibanError, match=r"sample_weight is 0\.5 in row 3.*whole numbers"):
        model.fit(X, y, np.where(np.arange(60) == 3, 0.5, 1.0)).predict_set(X)
    with pytest.raises(DecibanError, match="rows in memory"):
        model.predict_set(str(tmp_path / "rows.csv"))


def test_one_class_no_rows_and_rows_that_say_nothing():
    X, y = table()
    alone = deciban.GaussianNB().fit(X, np.zeros(60, dtype=int)).predict_set(X[:3])
    assert alone.sets == [[0], [0], [0]]
    model = deciban.GaussianNB().fit(X, y)
    assert model.predict_set(X[:0]).sets == []
    nothing = model.predict_set(np.full((1, 3), np.nan))
    assert not np.isnan(nothing.p_values).any()
    for model in (deciban.Classifier(), deciban.TreeAugmentedNB(), deciban.GaussianNB(alpha=1.0)):
        few = clone(model).fit(X[:1], y[:1]).predict_set(X[:2])  # one row has nobody to be compared with
        assert few.sets == [[0], [0]]
        lone = clone(model).fit(X[:10], np.array([*"aaaabbbbbc"])).predict_set(X[:10], by_class=True)
        assert lone.mask[:, 2].all()
        assert not np.isnan(lone.p_values).any()


def test_a_class_that_was_declared_and_has_no_row():
    X, y = table()
    some = y < 2
    model = deciban.GaussianNB().partial_fit(X[some], y[some], classes=[0, 1, 2])
    prediction = model.predict_set(X[:5], rows=(X[some], y[some]))
    assert np.allclose(prediction.p_values[:, 2], 1 / 41)  # as strange as can be
    assert (model.predict_set(X[:5], rows=(X[some], y[some]), by_class=True).p_values[:, 2] == 1.0).all()


def test_missing_labels_and_entries():
    X, y = table()
    labels = np.where(np.arange(60) % 4 == 0, np.nan, y)
    for model in (deciban.GaussianNB(), deciban.Classifier()):
        prediction = clone(model).fit(X, labels).predict_set(X[:4])
        assert prediction.way == CROSS
        assert prediction.rows.sum() == 45
    some_missing = X.copy()
    some_missing[::5, 1] = np.nan
    assert deciban.GaussianNB().fit(some_missing, y).predict_set(some_missing[:5]).way == FULL
    assert deciban.LinearDiscriminantAnalysis().fit(some_missing, y).predict_set(some_missing[:5]).way == CROSS
    whole = deciban.LinearDiscriminantAnalysis().fit(X, y).predict_set(some_missing[:5])
    assert whole.way == FULL
    assert not np.isnan(whole.p_values).any()


def test_a_refit_that_fails_says_why():
    X, _ = table(12)
    model = deciban.NearestCentroid(priors=[0.2, 0.3, 0.5]).fit(X[:7], [0, 0, 0, 1, 1, 1, 2])
    with pytest.raises(DecibanError, match=r"refits.*Number of priors"):
        model.predict_set(X)


def test_the_bound_of_cross_conformal_sets():
    assert cross_bound(0.9, 1e9, 5) == pytest.approx(0.8)
    assert cross_bound(0.9, 95, 5) == pytest.approx(0.8 - 2 * 0.9 * 4 / 100)
    assert cross_bound(0.6, 1, 5) == 0.0
