"""TextClassifier as people use it: accepted input, error messages, and display."""

from __future__ import annotations

import html
import io
import json
import pickle
import re

import numpy as np
import pytest
import scipy.sparse as sp
from rich.console import Console
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import deciban
from deciban import TextClassifier
from deciban.errors import DecibanError, ForgetError, SchemaError
from deciban.text.documents import Lines

X = [
    "win cash now", "claim a cash prize now!", "win a prize", "free cash",
    "lunch at noon?", "see you at lunch", "at noon", "see you",
]  # fmt: skip
Y = ["spam"] * 4 + ["ham"] * 4
NEW = ["cash for lunch", "claim your prize now", "", "noon"]
SETTINGS = {
    "graded": {},
    "multinomial": {"reliability": None},
    "bernoulli": {"reliability": None, "family": "bernoulli"},
    "complement": {"reliability": None, "family": "complement"},
}
every_kind = pytest.mark.parametrize("kind", SETTINGS)
MODELS = {kind: TextClassifier(**settings, n_jobs=1).fit(X, Y) for kind, settings in SETTINGS.items()}


def new(kind: str, **more) -> TextClassifier:
    return TextClassifier(**{**SETTINGS[kind], "n_jobs": 1, **more})


def fitted(kind: str) -> TextClassifier:
    """A copy: learning and forgetting replace the model's values, and do not change them in place."""
    out = new(kind)
    vars(out).update(vars(MODELS[kind]))
    return out


# ------------------------------------------------------------------ what it takes


def columns():
    pa, pd, pl = (pytest.importorskip(name) for name in ("pyarrow", "pandas", "polars"))
    return {
        "tuple": tuple(X),
        "generator": (text for text in X),
        "array of strings": np.array(X),
        "array of objects": np.array(X, dtype=object),
        "bytes": [text.encode() for text in X],
        "bytes and strings": [text.encode() if i % 2 else text for i, text in enumerate(X)],
        "NumPy strings": list(np.array(X)),
        "pandas": pd.Series(X, index=np.arange(8)[::-1]),
        "pandas objects": pd.Series(X, dtype=object),
        "pandas Arrow": pd.Series(X, dtype=pd.ArrowDtype(pa.string())),
        "Polars": pl.Series(X),
        "Arrow": pa.array(X),
        "Arrow, chunks": pa.chunked_array([X[:3], [], X[3:]], pa.large_string()),
    }


@every_kind
def test_a_column_by_any_name(kind):
    expected = MODELS[kind].predict_proba(X)
    for name, column in columns().items():
        column = list(column) if name == "generator" else column
        if kind != "graded" or name in ("bytes", "pandas", "Polars", "Arrow, chunks"):  # refitting weights is slow
            learned = new(kind).fit(column, Y)
            np.testing.assert_allclose(learned.predict_proba(X), expected, rtol=1e-12, err_msg=name)
        np.testing.assert_allclose(MODELS[kind].predict_proba(column), expected, rtol=1e-12, err_msg=name)
        more = fitted(kind).partial_fit(column, Y).forget(column, Y)
        np.testing.assert_allclose(more.predict_proba(X), expected, rtol=1e-9, err_msg=name)
        assert MODELS[kind].leave_one_out(column, Y).log_loss == pytest.approx(
            MODELS[kind].leave_one_out(X, Y).log_loss
        )
        assert len(MODELS[kind].explain(column)) == 8


@every_kind
def test_what_can_be_read_only_once(kind):
    learned = new(kind).fit((text for text in X), Y)
    np.testing.assert_allclose(learned.predict_proba(iter(X)), MODELS[kind].predict_proba(X), rtol=1e-12)


@every_kind
def test_the_lines_of_a_file(kind, tmp_path):
    path = tmp_path / "texts"
    path.write_text("\n".join(X) + "\n", encoding="utf-8")
    learned = new(kind).fit(Lines(path), Y)
    np.testing.assert_allclose(learned.predict_proba(Lines(path)), MODELS[kind].predict_proba(X), rtol=1e-12)


@pytest.mark.parametrize(
    "labels",
    [
        [1, 1, 1, 1, 0, 0, 0, 0],
        np.array([1, 1, 1, 1, -1, -1, -1, -1], dtype=np.int8),
        [True] * 4 + [False] * 4,
        np.array([2.0] * 4 + [1.0] * 4),
        np.array(["é"] * 4 + ["日本"] * 4),
        np.array(["yes"] * 4 + ["no"] * 4, dtype=object),
    ],
    ids=["int", "int8", "bool", "float", "text", "object"],
)
@pytest.mark.parametrize("kind", ["graded", "multinomial"])
def test_labels_of_any_kind(labels, kind, tmp_path):
    learned = new(kind).fit(X, labels)
    assert learned.predict(X).tolist() == list(labels)
    assert learned.predict(X).dtype == np.asarray(labels).dtype or np.asarray(labels).dtype == object
    learned.save(tmp_path / "model")
    assert deciban.load(tmp_path / "model").predict(X).tolist() == list(labels)
    target = learned.classes_[1]
    assert learned.explain(X[0], target=target).target == target
    pd = pytest.importorskip("pandas")
    assert new(kind).fit(X, pd.Series(labels, index=np.arange(8)[::-1])).predict(X).tolist() == list(labels)


@every_kind
def test_no_documents(kind):
    learned = MODELS[kind]
    for nothing in ([], (), np.array([], dtype=str), iter([])):
        assert learned.predict_proba(nothing).shape == (0, 2)
        assert learned.predict(nothing).tolist() == []
    assert learned.decide([], reject=0.1).tolist() == []
    with pytest.raises(ValueError, match="0 documents"):
        new(kind).fit([], [])
    with pytest.raises(ValueError, match="no text to explain"):
        learned.explain([])
    assert np.isnan(learned.leave_one_out([], []).log_loss)
    texts, labels = learned.sample(0) if kind != "complement" else ([], np.zeros(0))
    assert (texts, len(labels)) == ([], 0)


@every_kind
def test_a_first_batch_without_documents(kind):
    """As in a stream: the classes are declared, and documents come later."""
    learned = new(kind).partial_fit([], [], classes=["ham", "spam"])
    assert learned.class_count_.tolist() == [0.0, 0.0]
    assert learned.predict_proba(["cash"]) == pytest.approx(np.array([[0.5, 0.5]]))
    learned.partial_fit(X, Y)
    assert learned.predict(X).tolist() == Y


@pytest.mark.parametrize("kind", ["graded", "multinomial"])
def test_an_arrow_column_without_chunks(kind):
    pa = pytest.importorskip("pyarrow")
    nothing = pa.chunked_array([], pa.string())
    assert MODELS[kind].predict_proba(nothing).shape == (0, 2)
    with pytest.raises(ValueError, match="0 documents"):
        new(kind).fit(nothing, [])
    assert new(kind).partial_fit(nothing, [], classes=["ham", "spam"]).class_count_.tolist() == [0.0, 0.0]


@every_kind
def test_one_class(kind):
    learned = new(kind).fit(X, ["only"] * 8)
    assert learned.predict_proba(NEW).tolist() == [[1.0]] * 4
    assert learned.predict(NEW).tolist() == ["only"] * 4
    with pytest.raises(ValueError, match="only one class"):
        learned.explain("cash")
    learned.partial_fit(["lunch", "noon"], ["other"] * 2)
    assert learned.classes_.tolist() == ["only", "other"]


@every_kind
def test_texts_without_any_word(kind):
    learned = new(kind).fit(["", "   ", "\n", ""], ["a", "b", "a", "a"])
    assert learned.vocabulary_ == {}
    if kind == "complement":  # it has no class prior, and no words
        assert learned.predict_proba(["", "x y"]) == pytest.approx(np.full((2, 2), 0.5))
    else:
        assert learned.predict_proba(["", "x y"]) == pytest.approx(np.array([[0.75, 0.25]] * 2), abs=0.1)
    if kind != "complement":
        assert learned.sample(2, random_state=0)[0] == ["", ""]
        assert learned.sample(1, length=3)[0] == [""]
    learned.partial_fit(["cash"], ["b"])
    assert set(learned.vocabulary_) == {"cash"}


@pytest.mark.parametrize("lowercase", [True, False])
@pytest.mark.parametrize("kind", ["graded", "multinomial"])
def test_upper_and_lower_case(kind, lowercase):
    texts = ["FREE cash", "FREE FREE", "free lunch", "free noon"]
    learned = new(kind, lowercase=lowercase).fit(texts, ["spam", "spam", "ham", "ham"])
    assert ("FREE" in learned.vocabulary_) == (not lowercase)
    upper, lower = learned.predict_proba(["FREE", "free"])[:, 1]
    assert (upper == lower) == lowercase
    assert upper >= lower
    spans = learned.explain("FREE lunch", "spam", "ham").spans
    if not lowercase:
        assert [(start, end) for start, end, _ in spans] == [(0, 4), (5, 10)], "each word with its evidence"


def test_unlabelled_and_missing_labels():
    for y in (
        [*Y[:3], np.nan, *Y[4:7], np.nan],
        np.array([*Y[:3], None, *Y[4:7], None], dtype=object),
    ):
        learned = new("graded").fit(X, y, unlabelled_weight=1.0)
        assert learned.n_unlabelled_ == 2
        assert learned.class_count_.sum() == pytest.approx(8.0)
        assert learned.predict(X).tolist() == Y
    marked = new("multinomial").fit(X, [*Y[:3], "?", *Y[4:7], "?"], unlabelled="?")
    expected = new("multinomial").fit(X, [*Y[:3], None, *Y[4:7], None])
    np.testing.assert_array_equal(marked.predict_proba(X), expected.predict_proba(X))
    numbers = new("graded").fit(X, [1, 1, 1, -1, 0, 0, 0, -1], unlabelled=-1, unlabelled_weight=1.0)
    np.testing.assert_array_equal(numbers.predict_proba(X), learned.predict_proba(X))


@every_kind
def test_documents_without_labels_have_the_given_weight(kind):
    y = [*Y[:3], None, *Y[4:7], None]
    for weight, total in ((1.0, 8.0), (0.0, 6.0)):
        learned = new(kind).fit(X, y, unlabelled_weight=weight)
        assert learned.class_count_.sum() == pytest.approx(total)
    assert new(kind).fit(X, y).class_count_.sum() == pytest.approx(6.2), "by default a tenth of a label"
    halves = new(kind).fit(X, y, sample_weight=np.full(8, 0.5), unlabelled_weight=1.0)
    assert halves.class_count_.sum() == pytest.approx(4.0)


@pytest.mark.filterwarnings("ignore:The number of unique classes")
def test_hidden_labels_of_more_classes_than_a_hundred():
    """A document without evidence belongs to each of 150 classes with less than a hundredth."""
    texts = [f"word{c} other{c}" for c in range(150)]
    labels = [f"class{c}" for c in range(150)]
    learned = TextClassifier(blocks=["words"], n_jobs=1).fit([*texts, ""], [*labels, None], unlabelled_weight=1.0)
    assert learned.class_count_.sum() == pytest.approx(151.0)
    assert np.isfinite(learned.predict_proba(["word3"])).all()


@every_kind
def test_after_hidden_labels_nothing_is_taken_out(kind, tmp_path):
    learned = new(kind).fit(X, [*Y[:7], None])
    before = learned.predict_proba(NEW)
    for again in (learned, pickle.loads(pickle.dumps(learned)), learned + MODELS[kind], MODELS[kind] + learned):
        with pytest.raises(ForgetError, match="inferred"):
            again.forget(X[:1], Y[:1])
        with pytest.raises(ForgetError, match="inferred"):
            again.leave_one_out(X[:1], Y[:1])
    learned.save(tmp_path / "model")
    with pytest.raises(ForgetError, match="inferred"):
        deciban.load(tmp_path / "model").forget(X[:1], Y[:1])
    np.testing.assert_array_equal(learned.predict_proba(NEW), before)
    learned.fit(X, Y).forget(X[:1], Y[:1])


@every_kind
def test_after_hidden_labels_it_goes_on_learning(kind):
    """Also where there were no documents yet to fit weights on."""
    for texts, labels in ((X, [*Y[:7], None]), (["cash", "lunch", "noon"], ["spam", "ham", None])):
        learned = new(kind).fit(texts, labels)
        before = learned.class_count_.sum()
        learned.partial_fit(X, Y)
        assert learned.class_count_.sum() == pytest.approx(before + 8.0)
        assert learned.predict(X).tolist() == Y


# ------------------------------------------------------------------ what it refuses


def bad_calls():
    """name → (call on a fitted model, what the error says)."""
    return {
        "a string for documents": (lambda m: m.partial_fit("cash", ["spam"]), "string object received"),
        "a string to predict": (lambda m: m.predict("cash"), "string object received"),
        "bytes to predict": (lambda m: m.predict_proba(b"cash"), "string object received"),
        "a table": (lambda m: m.predict(np.array([["a"], ["b"]])), "one column of texts"),
        "a sparse matrix": (lambda m: m.predict(sp.eye(2, format="csr")), "one column of texts"),
        "None among documents": (lambda m: m.partial_fit(["cash", None], Y[:2]), "document 1 is"),
        "NaN among documents": (lambda m: m.predict(["cash", np.nan]), "(?i)document 1 is"),
        "a number among documents": (lambda m: m.forget(["win cash now", 5], Y[:2]), "document 1 is"),
        "a list among documents": (lambda m: m.fit([["cash"], "x"], ["a", "b"]), "document 0 is"),
        "None to explain": (lambda m: m.explain(["cash", None]), "document 1|text 1|row 1"),
        "None to leave out": (lambda m: m.leave_one_out([None], ["spam"]), "document 0 is"),
        "invalid UTF-8": (lambda m: m.partial_fit([b"cash", b"\xff\xfe"], Y[:2]), r"start byte \(document 1\)"),
        "invalid UTF-8 to explain": (lambda m: m.explain([b"cash", b"\xff\xfe"]), r"document 1"),
        "too few labels": (lambda m: m.fit(X, Y[:3]), "inconsistent numbers of samples"),
        "no labels": (lambda m: m.fit(X, None), "requires y"),
        "labels that are all missing": (lambda m: m.fit(X, [None] * 8), "every label is missing"),
        "labels of two kinds": (lambda m: m.fit(["a", "b"], ["x", 1]), "all be strings or all be numbers"),
        "labels of another kind": (lambda m: m.partial_fit(["a"], [1]), "cannot be compared"),
        "soft labels": (lambda m: m.fit(X, np.full((8, 2), 0.5)), "one label per document"),
        "partial_fit without a label": (lambda m: m.partial_fit(X[:2], ["spam", None]), "row 1 of y has no label"),
        "forget without a label": (lambda m: m.forget(X[:2], ["spam", None]), "need their labels"),
        "leave_one_out without a label": (lambda m: m.leave_one_out(X[:2], ["spam", None]), "every row's label"),
        "weights of another length": (lambda m: m.fit(X, Y, sample_weight=[1.0]), "sample_weight.shape"),
        "a negative weight": (lambda m: m.fit(X[:2], Y[:2], sample_weight=[1, -1]), r"sample_weight\[1\] is -1"),
        "a weight that is no number": (lambda m: m.fit(X[:1], Y[:1], sample_weight=[np.nan]), "NaN or infinity"),
        "unlabelled_weight < 0": (lambda m: m.fit(X, Y, unlabelled_weight=-1), "unlabelled_weight is -1"),
        "unlabelled_weight nan": (lambda m: m.fit(X, Y, unlabelled_weight=np.nan), "unlabelled_weight is nan"),
        "other classes declared": (lambda m: m.partial_fit(X, Y, classes=["ham", "eggs"]), "as on last call"),
        "forget an unknown class": (lambda m: m.forget(["cash"], ["eggs"]), "never learned that class"),
        "forget an unknown word": (lambda m: m.forget(["zebra"], ["spam"]), "zebra"),
        "forget a word of another class": (lambda m: m.forget(["lunch"], ["spam"]), "lunch"),
        "forget too often": (lambda m: m.forget(["free cash"] * 5, ["spam"] * 5), "cannot forget"),
        "leave out what was not learned": (lambda m: m.leave_one_out(X * 2, Y * 2), "that the model has learned"),
        "leave out unknown words": (lambda m: m.leave_one_out(["zebra crossing"], ["spam"]), "never learned"),
        "leave out an unknown class": (lambda m: m.leave_one_out(["x"], ["eggs"]), "nothing of class 'eggs'"),
        "explain an unknown class": (lambda m: m.explain("cash", target="eggs"), "'eggs' is not one of the classes"),
        "explain against an unknown class": (lambda m: m.explain("cash", against="eggs"), "'eggs' is not one"),
        "explain a class against itself": (lambda m: m.explain("cash", "ham", "ham"), "over itself"),
        "top words of an unknown class": (lambda m: m.top_words("eggs"), "'eggs' is not one of the classes"),
        "costs of an unknown class": (lambda m: m.decide(NEW, costs={"eggs": {"ham": 1}}), "'eggs' is not one"),
        "costs of another shape": (lambda m: m.decide(NEW, costs=np.eye(3)), "costs must have shape"),
        "costs that are no mapping": (lambda m: m.decide(NEW, costs={"ham": 3}), "must be a mapping"),
        "a cost of not answering that is none": (lambda m: m.decide(NEW, reject=np.nan), "reject is nan"),
        "a prior of unknown classes": (lambda m: m.with_prior({"ham": 0.5, "eggs": 0.5}), "exactly the classes"),
        "a prior that does not sum to one": (lambda m: m.with_prior([0.5, 0.6]), "should be 1"),
        "a prior of another length": (lambda m: m.with_prior([0.2, 0.3, 0.5]), "classes|length|shape"),
        "a prior below nothing": (lambda m: m.with_prior([-0.5, 1.5]), "must have a probability|negative"),
        "merge with something else": (lambda m: m + 5, "unsupported operand"),
    }  # fmt: skip


@every_kind
@pytest.mark.parametrize("name", bad_calls())
def test_errors_name_the_problem_and_change_nothing(kind, name):
    call, message = bad_calls()[name]
    learned = fitted(kind)
    before, state = learned.predict_proba(NEW), dict(vars(learned))
    with pytest.raises((ValueError, TypeError), match=message):
        call(learned)
    assert vars(learned).keys() == state.keys()
    assert all(vars(learned)[key] is value for key, value in state.items()), "not even a copy"
    np.testing.assert_array_equal(learned.predict_proba(NEW), before)


BAD_PARAMETERS = [
    ({"reliability": "yes"}, "'reliability' parameter"),
    ({"family": "gaussian"}, "'family' parameter"),
    ({"alpha": -1.0}, "'alpha' parameter"),
    ({"alpha": np.nan}, "'alpha' parameter"),
    ({"alpha": np.inf}, "'alpha' parameter"),
    ({"alpha": "much"}, "'alpha' parameter"),
    ({"blocks": "words"}, "'blocks' parameter"),
    ({"blocks": ["pairs"]}, "it must be 'words' and any of"),
    ({"blocks": ["words", "words"]}, "each once"),
    ({"blocks": ["words", "verses"]}, "it must be 'words' and any of"),
    ({"blocks": []}, "it must be 'words' and any of"),
    ({"prior": ["cash"]}, "'prior' parameter"),
    ({"prior": {"cash": -1}}, "pseudo-counts must be numbers ≥ 0"),
    ({"prior": {"cash": np.nan}}, "pseudo-counts must be numbers ≥ 0"),
    ({"prior": {"cash": "much"}}, "pseudo-counts must be numbers ≥ 0"),
    ({"prior": {"cash": {"spam": np.inf}}}, "pseudo-counts must be numbers ≥ 0"),
    ({"prior": {"cash": {"eggs": 1}}}, "names the class 'eggs'"),
    ({"prior": {5: 1}}, "prior.*(word|string)"),
    ({"class_prior": [0.5, 0.6]}, "must have a probability"),
    ({"class_prior": [1.0]}, "must have a probability"),
    ({"class_prior": [-0.5, 1.5]}, "must have a probability"),
    ({"class_prior": "even"}, "'class_prior' parameter"),
    ({"lowercase": "yes"}, "'lowercase' parameter"),
    ({"n_jobs": "two"}, "'n_jobs' parameter"),
]


@pytest.mark.parametrize(("bad", "message"), BAD_PARAMETERS, ids=str)
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_parameters_are_checked_before_anything_is_learned(bad, message, method):
    model = TextClassifier(**bad)
    with pytest.raises(ValueError, match=message):
        getattr(model, method)(X, Y)
    assert not hasattr(model, "model_")
    learned = fitted("graded").set_params(**bad)
    with pytest.raises(ValueError, match=message):
        learned.fit(X, Y)
    assert learned.model_ is MODELS["graded"].model_
    assert learned.kept_ is MODELS["graded"].kept_


def test_parameters_that_do_not_go_together():
    with pytest.raises(ValueError, match="no marginal likelihood"):
        TextClassifier(reliability=None, family="complement", alpha="empirical").fit(X, Y)
    for alpha in ("loo", "empirical"):
        with pytest.raises(ValueError, match=r"prior .*alpha"):
            TextClassifier(reliability=None, alpha=alpha, prior={"cash": 1}).fit(X, Y)


@every_kind
def test_nothing_can_be_asked_before_it_has_learned(kind):
    for call in (
        lambda m: m.predict(X), lambda m: m.predict_proba(X), lambda m: m.forget(X, Y), lambda m: m.explain("x"),
        lambda m: m.leave_one_out(X, Y), lambda m: m.refit_reliability(), lambda m: m.save("nowhere"),
        lambda m: m.classes_, lambda m: m.class_count_, lambda m: m.vocabulary_, lambda m: m + m, lambda m: m.sample(1),
        lambda m: m.top_words(), lambda m: m.with_prior("uniform"), lambda m: m.adapt_prior(X),
    ):  # fmt: skip
        with pytest.raises(NotFittedError):
            call(new(kind))


@every_kind
def test_closed_classes(kind):
    learned = new(kind).partial_fit(X[:4], Y[:4], classes=["eggs", "ham", "spam"])
    assert learned.classes_.tolist() == ["eggs", "ham", "spam"]
    with pytest.raises(ValueError, match="do not exist in the initial classes"):
        learned.partial_fit(["x"], ["beans"])
    learned.partial_fit(X[4:], Y[4:]).partial_fit(["eggs and eggs"], ["eggs"], classes=["eggs", "ham", "spam"])
    assert learned.class_count_.tolist() == [1.0, 4.0, 4.0]
    learned.forget(["eggs and eggs"], ["eggs"])
    assert learned.classes_.tolist() == ["eggs", "ham", "spam"], "declared classes stay"
    assert learned.predict(X).tolist() == Y
    opened = new(kind).fit(X, Y)
    with pytest.raises(SchemaError, match="declared"):
        learned + opened.partial_fit(["x"], ["beans"])
    assert (learned + MODELS[kind]).class_count_.tolist() == [0.0, 8.0, 8.0]


@pytest.mark.parametrize("kind", ["graded", "multinomial", "bernoulli"])
def test_declared_classes_of_which_everything_was_forgotten(kind):
    learned = new(kind).partial_fit(X, Y, classes=["ham", "spam"]).forget(X, Y)
    assert learned.predict_proba(NEW) == pytest.approx(np.full((4, 2), 0.5))


@every_kind
def test_models_with_different_parameters_do_not_merge(kind):
    with pytest.raises(SchemaError, match="class_prior differs"):
        MODELS[kind] + new(kind, class_prior="uniform").fit(X, Y)
    with pytest.raises(SchemaError, match="prior differs"):
        MODELS[kind] + new(kind, prior={"cash": 1}).fit(X, Y)
    with pytest.raises(SchemaError, match="lowercase differs"):
        MODELS[kind] + new(kind, lowercase=False).fit(X, Y)
    other = "multinomial" if kind != "multinomial" else "bernoulli"
    with pytest.raises(SchemaError, match="differs"):
        MODELS[kind] + MODELS[other]


@every_kind
def test_a_prior_of_classes_that_were_forgotten(kind, tmp_path):
    learned = new(kind, prior={"viagra": {"spam": 50}}).fit(X, Y).forget(X[:4], Y[:4])
    assert learned.classes_.tolist() == ["ham"]
    learned.save(tmp_path / "model")
    again = deciban.load(tmp_path / "model").partial_fit(X[:4], Y[:4])
    assert again.predict(["viagra"]).tolist() == ["spam"]


@pytest.mark.parametrize("kind", ["graded", "multinomial", "bernoulli"])
def test_a_given_class_prior_is_for_the_classes_it_was_given_for(kind):
    learned = new(kind, class_prior=[0.3, 0.7]).fit(X, Y)
    before = learned.predict_proba(NEW)
    with pytest.raises(ValueError, match="prior"):
        learned.partial_fit(["eggs"], ["eggs"])
    with pytest.raises(ValueError, match="prior"):
        learned.forget(X[:4], Y[:4])
    np.testing.assert_array_equal(learned.predict_proba(NEW), before)
    other = fitted(kind).with_prior({"ham": 0.3, "spam": 0.7})
    with pytest.raises(ValueError, match="prior"):
        other.partial_fit(["eggs"], ["eggs"])
    with pytest.raises(ValueError, match="prior"):
        other.forget(X[:4], Y[:4])


# ------------------------------------------------------------------ as in scikit-learn


@every_kind
def test_clone_parameters_and_pickle(kind):
    model = new(kind, prior={"cash": 1}, blocks=("words", "pairs"))
    again = clone(model)
    assert again.get_params() == model.get_params()
    assert not hasattr(again, "model_")
    assert clone(MODELS[kind]).fit(X, Y).predict(NEW).tolist() == MODELS[kind].predict(NEW).tolist()
    stored = pickle.dumps(MODELS[kind])
    assert b"claim a cash prize now" not in stored, "kept documents are not pickled"
    np.testing.assert_array_equal(pickle.loads(stored).predict_proba(NEW), MODELS[kind].predict_proba(NEW))
    assert eval(repr(new(kind, alpha=0.5))).get_params() == new(kind, alpha=0.5).get_params()


def test_grids_folds_and_pipelines():
    texts, y = X * 3, Y * 3
    grid = GridSearchCV(
        TextClassifier(reliability=None), {"family": ["multinomial", "bernoulli"], "alpha": [0.1, 1.0]}, cv=3
    )
    assert grid.fit(texts, y).best_score_ > 0.9
    assert cross_val_score(TextClassifier(blocks=["words"]), texts, y, cv=2).mean() > 0.9
    assert (
        cross_val_score(TextClassifier(reliability=None), np.array(texts), y, cv=3, scoring="neg_log_loss").mean()
        > -0.5
    )
    upper = FunctionTransformer(lambda texts: [text.upper() for text in texts])
    pipeline = make_pipeline(upper, TextClassifier(reliability=None, lowercase=False)).fit(texts, y)
    assert pipeline.predict(["cash", "lunch"]).tolist() == ["spam", "ham"]
    assert set(pipeline[-1].vocabulary_) == {word.upper() for word in pipeline[-1].vocabulary_}


@every_kind
def test_sum_and_copies_keep_what_they_should(kind):
    total = sum([MODELS[kind], MODELS[kind]])
    assert total.class_count_.tolist() == [8.0, 8.0]
    assert MODELS[kind].class_count_.tolist() == [4.0, 4.0]
    one = sum([MODELS[kind]])
    assert one is not MODELS[kind]
    np.testing.assert_array_equal(one.predict_proba(NEW), MODELS[kind].predict_proba(NEW))
    if kind == "graded":
        assert len(total.kept_) == 16
        assert len(one.kept_) == 8
        even = MODELS[kind].with_prior("uniform").refit_reliability()
        assert even.predict(X).tolist() == Y


def test_a_plain_model_has_an_alpha_and_a_graded_one_has_reliabilities():
    assert MODELS["multinomial"].alpha_ == 1.0
    assert TextClassifier(reliability=None, alpha="loo").fit(X, Y).alpha_ > 0
    assert TextClassifier(reliability=None, alpha="empirical").fit(X, Y).alpha_ > 0
    with pytest.raises(AttributeError, match="reliability_"):
        MODELS["graded"].alpha_  # noqa: B018 - a property
    with pytest.raises(AttributeError, match="reliability is None"):
        MODELS["multinomial"].reliability_  # noqa: B018 - a property
    table = MODELS["graded"].reliability_
    assert table.columns == ("block", "pseudo-counts", "items", "weight")
    assert all(weight > 0 for *_, weight in table.rows)
    assert {block for block, *_ in table.rows} <= set(MODELS["graded"].model_.sums.blocks)


def test_an_alpha_that_was_given_is_not_chosen_anew():
    learned = fitted("multinomial")
    with pytest.raises(DecibanError):
        learned.refit_reliability(X, Y)
    assert learned.alpha_ == 1.0
    chosen = new("multinomial", alpha="loo").fit(X, Y)
    assert chosen.refit_reliability(X, Y).alpha_ == chosen.refit_reliability().alpha_


def test_only_a_plain_generative_model_has_a_density():
    assert MODELS["multinomial"].score_samples(NEW).shape == (4,)
    joint = MODELS["bernoulli"].predict_joint_log_proba(NEW)
    np.testing.assert_allclose(MODELS["bernoulli"].score_samples(NEW), np.logaddexp(*joint.T))
    for kind in ("graded", "complement"):
        assert not hasattr(MODELS[kind], "score_samples")
    with pytest.raises(AttributeError, match="not a generative model"):
        MODELS["complement"].sample(1)


@every_kind
def test_words_and_counts(kind):
    learned = MODELS[kind]
    assert learned.classes_.tolist() == ["ham", "spam"]
    assert learned.class_count_.tolist() == [4.0, 4.0]
    expected = {"win", "cash", "now", "claim", "prize", "free", "lunch", "at", "noon", "see", "you"}
    assert set(learned.vocabulary_) == (expected | {"a", "!", "?"} if kind == "graded" else expected)
    assert len(set(learned.vocabulary_.values())) == len(learned.vocabulary_)


@pytest.mark.parametrize("kind", ["graded", "multinomial", "bernoulli"])
def test_samples_can_be_repeated(kind):
    learned = MODELS[kind]
    one, two = (learned.sample(5, random_state=3) for _ in range(2))
    assert one[0] == two[0]
    assert one[1].tolist() == two[1].tolist()
    assert learned.sample(5, random_state=4)[0] != one[0]
    texts, labels = learned.sample(4, given="ham", random_state=0)
    assert labels.tolist() == ["ham"] * 4
    assert all(set(text.split()) <= set(learned.vocabulary_) for text in texts)
    with pytest.raises(ValueError, match="'eggs' is not one of the classes"):
        learned.sample(1, given="eggs")
    with pytest.raises(ValueError, match="negative"):
        learned.sample(-1)
    with pytest.raises(ValueError, match="negative"):
        learned.sample(1, length=-2)
    if kind != "bernoulli":
        assert [len(text.split()) for text in learned.sample(3, length=2, random_state=0)[0]] == [2, 2, 2]
        assert learned.sample(1, length=0)[0] == [""]


# ------------------------------------------------------------------ priors


@pytest.mark.parametrize("kind", ["graded", "multinomial", "bernoulli"])
def test_another_class_prior(kind):
    learned = MODELS[kind]
    odds = np.log(learned.predict_proba(NEW))
    shifted = learned.with_prior({"ham": 0.9, "spam": 0.1})
    log_proba = np.log(shifted.predict_proba(NEW))
    np.testing.assert_allclose(log_proba[:, 0] - log_proba[:, 1], odds[:, 0] - odds[:, 1] + np.log(9.0), rtol=1e-9)
    assert learned.class_prior is None
    assert shifted.explain("cash", "ham", "spam").prior == pytest.approx(10 * np.log10(9))
    np.testing.assert_allclose(shifted.with_prior("uniform").predict_proba(NEW), learned.predict_proba(NEW), rtol=1e-9)
    mostly_spam = ["cash prize now"] * 9 + ["see you at lunch"]
    adapted = learned.adapt_prior(mostly_spam)
    assert adapted.class_prior[1] == pytest.approx(0.9, abs=0.1)
    uniform = new(kind, class_prior="uniform").fit(X + X[:1], Y + Y[:1])
    assert uniform.explain("cash").prior == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("kind", ["graded", "multinomial"])
def test_a_class_prior_by_name(kind, tmp_path):
    named, listed = (new(kind, class_prior=p).fit(X, Y) for p in ({"spam": 0.7, "ham": 0.3}, [0.3, 0.7]))
    np.testing.assert_array_equal(named.predict_proba(NEW), listed.predict_proba(NEW))
    named.save(tmp_path / "model")
    again = deciban.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_proba(NEW), named.predict_proba(NEW))
    assert (again + named).class_count_.tolist() == [8.0, 8.0]
    with pytest.raises(ValueError, match="class_prior must name the classes"):
        new(kind, class_prior={"spam": 0.7, "eggs": 0.3}).fit(X, Y)
    for learned in (named, listed):
        assert learned.forget(X, Y).classes_.tolist() == [], "all classes are gone: the prior is kept for later"
        learned.partial_fit(X, Y)
    np.testing.assert_array_equal(named.predict_proba(NEW), listed.predict_proba(NEW))


@pytest.mark.parametrize("kind", ["graded", "multinomial", "bernoulli"])
def test_a_class_that_is_ruled_out(kind):
    learned = MODELS[kind].with_prior({"ham": 0.0, "spam": 1.0})
    assert learned.predict_proba(NEW)[:, 1].tolist() == [1.0] * 4
    why = learned.explain("lunch at noon", "spam", "ham")
    assert why.prior == np.inf
    assert why.total == np.inf
    assert learned.explain("lunch", "ham").total == -np.inf
    assert learned.leave_one_out(X[:1], Y[:1]).log_loss == pytest.approx(0.0)


# ------------------------------------------------------------------ what it shows

HOSTILE = "<script>alert('cash')</script> [/] [bold]cash[/bold] [link=x]win & \x00 \u202e now"


def shown(renderable, colour: bool = False) -> str:
    console = Console(file=io.StringIO(), width=120, force_terminal=colour, color_system="standard" if colour else None)
    console.print(renderable)
    return console.file.getvalue()


@pytest.fixture(scope="module", params=SETTINGS)
def hostile(request):
    """A model that has learned hostile texts, with hostile class names."""
    texts = [HOSTILE, HOSTILE + " prize", "lunch [/] at <b>noon</b>", "see you </td>", "see lunch"]
    return TextClassifier(**SETTINGS[request.param], n_jobs=1).fit(texts, ["<b>[/b]"] * 2 + ["[red]ham"] * 3)


def test_html_shows_hostile_text_and_does_not_run_it(hostile):
    for result in (hostile.explain(HOSTILE), hostile.top_words(), hostile.leave_one_out([HOSTILE], ["<b>[/b]"])):
        shown_as = result._repr_html_()
        for tag in ("<script", "</script", "<b>", "</b>"):
            assert tag not in shown_as
    page = hostile.explain(HOSTILE)._repr_html_()
    assert "&lt;b&gt;[/b] rather than [red]ham" in page
    assert re.sub("<[^>]*>", "", page).count(html.escape("<script>alert(")) == 1
    assert "&amp;" in page


def test_a_terminal_shows_hostile_text_as_it_is(hostile):
    page = shown(hostile.explain(HOSTILE))
    assert "[bold]" in page, "what looks like markup is text"
    assert "[/]" in page
    for result in (hostile.top_words(), hostile.explain("see [/] you")):
        assert shown(result)


def test_words_in_colour():
    why = MODELS["graded"].explain("win a prize at lunch, or nothing")
    assert "win" in shown(why)
    assert "\x1b[" not in shown(why)
    coloured = shown(why, colour=True)
    assert "\x1b[" in coloured
    text = "win a prize at lunch, or nothing"
    assert {text[a:b] for a, b, _ in why.spans} <= {"win", "a", "prize", "at", "lunch", ",", "nothing"}, (
        "its n-o is lunch's"
    )
    assert {text[a:b] for a, b, _ in why.spans} >= {"win", "prize", "lunch"}
    signs = {text[a:b]: db > 0 for a, b, db in why.spans}
    assert signs["win"] != signs["lunch"]


def test_no_color_is_respected(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    console = Console(file=io.StringIO(), width=120, force_terminal=True)
    console.print(MODELS["graded"].explain("win a prize at lunch"))
    page = console.file.getvalue()
    assert "\x1b[3" not in page.replace("\x1b[3m", ""), "no colours; italics may be"
    assert "win" in page


@every_kind
def test_what_is_shown(kind):
    why = MODELS[kind].explain("cash for lunch", "spam", "ham")
    assert repr(why).startswith(f"spam rather than ham: {why.total:+.2f} dB")
    assert "cash" in repr(why)
    document = json.loads(json.dumps(why.to_dict()))
    assert document["text"] == "cash for lunch"
    assert {"target", "against", "prior", "evidence", "total", "probability", "spans"} <= set(document)
    assert document["spans"][0].keys() == {"start", "end", "decibans"}
    table = MODELS[kind].top_words(n=2)
    assert [row[0] for row in table.rows] == ["ham", "ham", "spam", "spam"]
    assert json.loads(json.dumps(table.to_dict()))["class"] == ["ham", "ham", "spam", "spam"]
    assert MODELS[kind].top_evidence(2).rows == table.rows
    result = MODELS[kind].leave_one_out(X, Y)
    assert "accuracy" in repr(result)
    json.dumps(result.to_dict())
    assert repr(MODELS[kind]).startswith("TextClassifier(")
    assert "TextClassifier" in MODELS[kind]._repr_html_()
    pd = pytest.importorskip("pandas")
    assert isinstance(why.to_frame(), pd.DataFrame)
    assert len(result.to_frame()) == 8


def test_long_texts_are_cut_where_they_are_shown():
    text = "cash " * 5000 + "lunch"
    why = MODELS["graded"].explain(text)
    assert why.text == text
    assert len(why.spans) == 5001
    assert "…" in shown(why)
    assert len(shown(why)) < 10_000
    assert len(why._repr_html_()) < 200_000


def test_one_text_or_several_are_explained():
    one = MODELS["graded"].explain("cash")
    assert one.text == "cash"
    assert MODELS["graded"].explain(["cash"]).text == "cash"
    assert MODELS["graded"].explain(b"cash").text == "cash"
    both = MODELS["graded"].explain(["cash", "lunch"], target="spam")
    assert [why.text for why in both] == ["cash", "lunch"]
    assert both[0].total > both[1].total


def test_refusals_are_of_one_family():
    assert issubclass(ForgetError, DecibanError)
    assert issubclass(DecibanError, ValueError)


@pytest.mark.parametrize("options", [{}, {"reliability": None}, {"n_features": 64}], ids=str)
def test_a_model_that_has_forgotten_everything_is_kept_and_learns_again(options, tmp_path):
    texts, labels = ["hello there", "win now"], ["ham", "spam"]
    model = TextClassifier(**options).fit(texts, labels)
    model.forget(texts, labels)
    model.save(tmp_path / "m.deciban")
    again = deciban.load(tmp_path / "m.deciban")
    assert again.class_count_.sum() == 0
    assert again.partial_fit(texts, labels).predict(["win"]).tolist() == ["spam"]
