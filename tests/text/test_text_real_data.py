"""On real texts: agreement with scikit-learn's pipelines, the laws of sums, and accuracy.

Tolerances beside scikit-learn: a log-joint is a sum over a document's words, each rounded to 2⁻⁵² of itself, and a
posterior is a difference of two of them; so they agree to 1e-12 of the largest log-joint of the row.
"""

from __future__ import annotations

import copy
import gzip
import json
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import sklearn.naive_bayes as reference
import tokens_by_hand as by_hand
from conftest import DATA
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.special import log_softmax
from sklearn.feature_extraction.text import CountVectorizer

import deciban
from deciban import TextClassifier
from deciban.text.kept import marks

SETS = ["trec_qc", "webkb", "sms_spam", "rt_polarity", "20newsgroups", "spamassassin"]
NAIVE = {"multinomial": "MultinomialNB", "bernoulli": "BernoulliNB", "complement": "ComplementNB"}


def rows_of(path) -> list[dict]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


@cache
def read(name: str) -> tuple[list[str], list[str], list[str], list[str]]:
    """Training and test texts and labels; a set without a split has a random fifth of it for testing."""
    folder = DATA / name
    if name == "sms_spam":
        lines = (folder / "SMSSpamCollection.tsv").read_text(encoding="utf-8").split("\n")
        rows = [dict(zip(("label", "text"), line.split("\t", 1), strict=True)) for line in lines if line]
    elif name == "trec_qc":
        return *columns(rows_of(folder / "trec_train.jsonl.gz")), *columns(rows_of(folder / "trec_test.jsonl.gz"))
    elif name == "20newsgroups":
        parts = [rows_of(folder / f"20news-bydate-{part}.jsonl.gz") for part in ("train", "test")]
        return *columns(parts[0]), *columns(parts[1])
    elif name == "webkb":
        rows = rows_of(folder / "webkb_stemmed.jsonl.gz")
        return *columns([r for r in rows if r["split"] == "train"]), *columns(
            [r for r in rows if r["split"] != "train"]
        )
    else:
        rows = rows_of(folder / f"{name}.jsonl.gz")
    order = np.random.default_rng(0).permutation(len(rows))
    rows = [rows[i] for i in order]
    cut = len(rows) * 4 // 5
    return *columns(rows[:cut]), *columns(rows[cut:])


def columns(rows) -> tuple[list[str], list[str]]:
    return [row["text"] for row in rows], [row["label"] for row in rows]


def texts(name: str, every: int = 1):
    if not (DATA / name).is_dir():
        pytest.skip(f"there is no data set {name!r}: DECIBAN_DATA says where the sets are")
    X, y, new, truth = read(name)
    return X[::every], y[::every], new[::every], truth[::every]


def quality(model, new, truth) -> tuple[float, float]:
    """Log loss and accuracy."""
    log_proba = model.predict_log_proba(new)
    codes = np.searchsorted(model.classes_, truth)
    return -log_proba[np.arange(len(new)), codes].mean(), (log_proba.argmax(axis=1) == codes).mean()


# ------------------------------------------------------------------ the plain model is scikit-learn's pipeline


def compare_with_pipelines(X, y, new):
    # Of ASCII, words are scikit-learn's; of other texts those of the definition.
    by_definition = {"tokenizer": by_hand.words, "token_pattern": None, "lowercase": False}
    vectorizer = CountVectorizer(**({} if all(map(str.isascii, X + new)) else by_definition))
    counts, asked = vectorizer.fit_transform(X), vectorizer.transform(new)
    for family, name in NAIVE.items():
        expected = getattr(reference, name)().fit(counts, y)
        model = TextClassifier(reliability=None, family=family).fit(X, y)
        assert set(model.vocabulary_) == set(vectorizer.vocabulary_)
        joint = expected.predict_joint_log_proba(asked)
        actual = model.predict_joint_log_proba(new)
        scale = np.abs(joint).max(axis=1, keepdims=True, initial=1.0)
        assert (np.abs(actual - joint) <= 1e-12 * scale).all(), family
        near = np.diff(np.sort(joint, axis=1)[:, -2:], axis=1).ravel() < 1e-12 * scale.ravel()
        assert (near | (model.predict(new) == expected.predict(asked))).all()
        difference = np.abs(model.predict_log_proba(new) - log_softmax(joint, axis=1))
        assert (difference <= 4e-12 * scale).all(), family


@pytest.mark.parametrize(
    ("name", "every"),
    [
        ("trec_qc", 1),
        ("spamassassin", 120),
        pytest.param("sms_spam", 1, marks=pytest.mark.slow),
        pytest.param("webkb", 1, marks=pytest.mark.slow),
        pytest.param("rt_polarity", 1, marks=pytest.mark.slow),
        pytest.param("20newsgroups", 1, marks=pytest.mark.slow),
        pytest.param("spamassassin", 1, marks=pytest.mark.slow),
    ],
)
def test_a_plain_model_is_the_pipeline(name, every):
    X, y, new, _ = texts(name, every)
    compare_with_pipelines(X, y, new)


@given(
    st.lists(st.tuples(st.text(st.sampled_from("ab cA?é_1 日\n"), max_size=15), st.sampled_from("xyz")), min_size=2),
    st.lists(st.text(st.sampled_from("ab cA?é_1 日\n"), max_size=15), min_size=1, max_size=4),
)
def test_a_plain_model_is_the_pipeline_on_any_texts(corpus, new):
    X, y = [text for text, _ in corpus], [label for _, label in corpus]
    assume(len(set(y)) > 1)
    try:
        CountVectorizer().fit(X)
    except ValueError:
        assume(False)  # scikit-learn refuses texts without any word
    assume(any(map(by_hand.words, X)))
    compare_with_pipelines(X, y, new)


@pytest.mark.parametrize("family", NAIVE)
def test_hidden_labels_of_a_plain_model_are_estimated_as_on_counts(family):
    X, y, new, _ = texts("webkb", 4)
    hidden = [label if i % 10 == 0 else None for i, label in enumerate(y)]
    model = TextClassifier(reliability=None, family=family).fit(X, hidden, unlabelled_weight=0.3)
    vectorizer = CountVectorizer()
    counts = vectorizer.fit_transform(X)
    expected = getattr(deciban, NAIVE[family])().fit(counts, hidden, unlabelled_weight=0.3)
    joint = expected.predict_joint_log_proba(vectorizer.transform(new))
    # EM stops where a step changes the likelihood by less than 1e-7 a row: columns in another order may stop it a step
    # earlier or later.
    actual = model.predict_joint_log_proba(new)
    assert np.abs(actual - joint).max() <= 1e-4 * np.abs(joint).max()
    np.testing.assert_allclose(model.class_count_, expected.class_count_, rtol=1e-4)


# ------------------------------------------------------------------ laws, on real texts


@pytest.mark.parametrize(
    ("name", "every"),
    [
        ("webkb", 20),
        *(pytest.param(*other, marks=pytest.mark.slow) for other in (("spamassassin", 60), ("trec_qc", 40))),
    ],
)
def test_laws_hold_on_real_texts(name, every, tmp_path):
    X, y, new, _ = texts(name, every)
    model = TextClassifier().fit(X, y)
    blocks = model.model_.sums.blocks
    half = len(X) // 2
    one, two = (TextClassifier(blocks=blocks).fit(X[s], y[s]) for s in (slice(half), slice(half, None)))
    for same in (
        one + two,
        two + one,
        TextClassifier(blocks=blocks, n_jobs=1).fit(X[:half], y[:half]).partial_fit(X[half:], y[half:]),
        TextClassifier(blocks=blocks).fit(X + X[:30], y + y[:30]).forget(X[:30], y[:30]),
    ):
        assert sorted(same.vocabulary_) == sorted(model.vocabulary_)
        for block in blocks:
            actual, expected = same.model_.sums, model.model_.sums
            assert actual.mass[block] == expected.mass[block], "to the last digit"
            assert sorted(actual.cells[block].val) == sorted(expected.cells[block].val), "to the last digit"
        # The sums are the same; what was chosen is put in its place, as it was for half of the documents: what
        # leave-one-out chose, and the items that are taken together.
        sums = replace(same.model_.sums, common=model.model_.sums.common)
        same.model_ = type(same.model_)(sums, model.model_.choice)
        np.testing.assert_allclose(same.predict_log_proba(new), model.predict_log_proba(new), rtol=1e-7, atol=1e-8)
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(deciban.load(tmp_path / "model").predict_proba(new), model.predict_proba(new))


@pytest.mark.slow_where("webkb|spam")
@pytest.mark.parametrize(("name", "every"), [("trec_qc", 20), ("webkb", 10), ("spamassassin", 60)])
def test_leave_one_out_on_real_texts(name, every):
    X, y, _, _ = texts(name, every)
    model = TextClassifier().fit(X, y)
    log_proba, choice = model.leave_one_out(X, y).log_proba, model.model_.choice
    codes = np.searchsorted(model.classes_, y)
    fold = choice.left_out.folds.which(choice.left_out.marks(marks(X), codes), codes)
    for i in range(0, len(X), max(1, len(X) // 12)):
        left = copy.copy(model)  # under the reliabilities that its fold had no part in
        left.model_ = replace(model.model_, choice=replace(choice, pool=choice.left_out.pools[fold[i]]))
        left.forget(X[i : i + 1], y[i : i + 1])
        expected = np.full(len(model.classes_), -np.inf)
        expected[np.isin(model.classes_, left.classes_)] = left.predict_log_proba(X[i : i + 1])[0]
        np.testing.assert_allclose(log_proba[i], expected, rtol=1e-8, atol=1e-9)


def test_explanations_add_up_on_real_texts():
    X, y, new, _ = texts("trec_qc", 5)
    for model in (TextClassifier().fit(X, y), TextClassifier(reliability=None, family="bernoulli").fit(X, y)):
        logs = model.predict_log_proba(new[:20])
        for text, scores in zip(new[:20], logs, strict=True):
            why = model.explain(text)
            best = np.argsort(-scores)[:2]
            assert (why.target, why.against) == tuple(model.classes_[best])
            odds = 10.0 / np.log(10.0) * (scores[best[0]] - scores[best[1]])
            assert why.total == pytest.approx(odds, rel=1e-8, abs=1e-8)


# ------------------------------------------------------------------ accuracy and calibration


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "log_loss", "accuracy"),
    [  # what TF-IDF and logistic regression reach on the same texts; of two standard errors, accuracy may fall short
        ("trec_qc", 0.376, 0.868),
        ("webkb", 0.228, 0.925),
        ("sms_spam", 0.053, 0.984),
        ("rt_polarity", 0.533, 0.759),
        ("20newsgroups", 0.594, 0.855),
        ("spamassassin", 0.034, 0.989),
    ],
)
def test_better_than_logistic_regression(name, log_loss, accuracy):
    X, y, new, truth = texts(name)
    reached = quality(TextClassifier().fit(X, y), new, truth)
    assert reached[0] < log_loss
    assert reached[1] > accuracy - 2 * np.sqrt(accuracy * (1 - accuracy) / len(new))


def test_probabilities_are_calibrated():
    X, y, new, truth = texts("rt_polarity")
    model = TextClassifier().fit(X, y)
    proba = model.predict_proba(new)
    right = model.classes_[proba.argmax(axis=1)] == truth
    # Two standard errors of a share of 2133 answers are 0.017, and as much again for what was learned.
    assert proba.max(axis=1).mean() == pytest.approx(right.mean(), abs=0.025)


@pytest.mark.parametrize(
    ("name", "weight", "every"),
    [
        pytest.param("webkb", 0.1, 1, marks=pytest.mark.slow),
        pytest.param("webkb", 1.0, 1, marks=pytest.mark.slow),
        pytest.param("sms_spam", 0.1, 2, marks=pytest.mark.slow),
        ("trec_qc", 0.1, 2),
        pytest.param("rt_polarity", 0.1, 1, marks=pytest.mark.slow),
        pytest.param("20newsgroups", 0.1, 3, marks=pytest.mark.slow),
    ],
)
def test_documents_without_labels_do_no_harm(name, weight, every):
    """A hundred labels: with all other documents beside them, not worse than alone by a twentieth (of a nat), nor by
    three documents in a hundred, which is two standard errors of what another hundred labels would change."""
    X, y, new, truth = texts(name, every)
    rng = np.random.default_rng(0)
    known = set(rng.choice(len(X), 100, replace=False).tolist())
    for label in set(y):  # two of each class at least
        known |= set([i for i in range(len(y)) if y[i] == label][:2])
    some = sorted(known)
    alone = quality(TextClassifier().fit([X[i] for i in some], [y[i] for i in some]), new, truth)
    hidden = [label if i in known else None for i, label in enumerate(y)]
    model = TextClassifier().fit(X, hidden, unlabelled_weight=weight)
    with_unlabelled = quality(model, new, truth)
    assert with_unlabelled[0] < alone[0] + 0.05
    assert with_unlabelled[1] > alone[1] - 0.03
    assert model.n_unlabelled_ == len(X) - len(some)
    assert model.class_count_.sum() == pytest.approx(len(some) + weight * model.n_unlabelled_)
    with pytest.raises(deciban.ForgetError, match="inferred"):
        model.forget(X[:1], y[:1])
    with pytest.raises(deciban.ForgetError, match="inferred"):
        model.leave_one_out(X[:1], y[:1])
