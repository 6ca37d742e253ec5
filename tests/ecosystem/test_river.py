"""In river: its own checks, pipelines, metrics and drift detectors; and the laws of a model that is a sum."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest

import deciban
from deciban import (
    BernoulliNB,
    CategoricalNB,
    Classifier,
    ComplementNB,
    GaussianNB,
    MultinomialNB,
    NaiveBayes,
    PoissonNB,
    TextClassifier,
    TreeAugmentedNB,
)
from deciban.errors import DecibanError, ForgetError, SchemaError

pytest.importorskip("river", reason="river is not installed: pip install river")
from river import checks, compose, datasets, drift, evaluate, feature_extraction, metrics, naive_bayes, preprocessing

from deciban.river import RiverClassifier


def stream(n=60, seed=0):
    """Rows whose features come and go: numbers, a category, a boolean; and their classes."""
    rng = np.random.default_rng(seed)
    for i in range(n):
        y = ["no", "yes", "maybe"][rng.integers(0, 2 if i < 20 else 3)]
        x = {
            "size": 1e6 + rng.normal() + 2 * (y == "yes"),
            "colour": str(rng.choice(["red", "blue"])),
            "old": i % 3 == 0,
        }
        if i > 15:
            x |= {"heat": 300.0 + rng.normal() * (1 + (y == "maybe")), "brand": str(rng.choice(["a", "b", "c"]))}
        yield {name: x[name] for name in rng.permutation(list(x)) if rng.random() < 0.8 or not i}, y


def counts(n=60, seed=0):
    """Bags of words, in which new ones appear."""
    rng = np.random.default_rng(seed)
    for i in range(n):
        y = bool(rng.random() < 0.4)
        words = rng.integers(0, 4 + i // 10, 5) + 3 * y
        yield {f"w{w}": int((words == w).sum()) for w in set(words.tolist())}, y


def at_once(estimator, rows, names):
    """The same model, fitted on a table with missing values, or zeros, in the order in which features appeared."""
    missing = 0 if isinstance(estimator, MultinomialNB | BernoulliNB | ComplementNB | PoissonNB) else None
    table = {name: [x.get(name, missing) for x, _ in rows] for name in names}
    y = [y for _, y in rows]
    if isinstance(estimator, NaiveBayes):
        return estimator.fit(table, y), table
    X = np.array(list(table.values()), dtype=object).T
    if not isinstance(estimator, CategoricalNB):
        X = X.astype(float)
    return estimator.fit(X, y), X


STREAMS = {
    "mixed": (NaiveBayes, lambda: list(stream())),
    "numbers": (GaussianNB, lambda: [({k: v for k, v in x.items() if k in ("size", "heat")}, y) for x, y in stream()]),
    "categories": (
        CategoricalNB,
        lambda: [({k: v for k, v in x.items() if k in ("colour", "brand")}, y) for x, y in stream()],
    ),
    "counts": (MultinomialNB, lambda: list(counts())),
    "complement": (ComplementNB, lambda: list(counts())),
    "rates": (PoissonNB, lambda: list(counts())),
    "truths": (BernoulliNB, lambda: list(counts())),
}


@pytest.mark.parametrize("kind", STREAMS)
def test_one_by_one_is_all_at_once_whatever_features_appear(kind):
    make, rows = STREAMS[kind][0], STREAMS[kind][1]()
    model = RiverClassifier(make())
    for x, y in rows:
        model.learn_one(x, y)
    names = list(dict.fromkeys(name for x, _ in rows for name in x))
    whole, X = at_once(make(), rows, model._features)
    assert set(model._features) == set(names)
    expected = [dict(zip(whole.classes_.tolist(), p, strict=True)) for p in whole.predict_proba(X).tolist()]
    for (x, _), wanted in zip(rows, expected, strict=True):
        assert model.predict_proba_one(x) == pytest.approx(wanted, abs=1e-9)


@pytest.mark.parametrize("kind", STREAMS)
def test_a_forgotten_row_was_never_seen(kind):
    make, rows = STREAMS[kind][0], STREAMS[kind][1]()
    model, never = RiverClassifier(make()), RiverClassifier(make())
    for i, (x, y) in enumerate(rows):
        model.learn_one(x, y)
        if i % 4 or i < 25:  # the others bring no feature, category or class that no other row has
            never.learn_one(x, y)
    for x, y in rows[28::4]:
        model.forget_one(x, y)
    for x, _ in rows:
        assert model.predict_proba_one(x) == pytest.approx(never.predict_proba_one(x), abs=1e-7)


def test_many_rows_are_one_after_another_also_when_they_fade():
    rows = list(stream(40))
    one, many = RiverClassifier(half_life=10), RiverClassifier(half_life=10)
    for x, y in rows:
        one.learn_one(x, y)
    for start in (0, 25):
        part = rows[start : start + 25]
        many.learn_many(pd.DataFrame([x for x, _ in part]), pd.Series([y for _, y in part]))
    frame = many.predict_proba_many(pd.DataFrame([x for x, _ in rows], index=range(100, 140)))
    assert frame.index[0] == 100
    for (x, _), wanted in zip(rows, frame.to_dict("records"), strict=True):
        assert one.predict_proba_one(x) == pytest.approx(wanted, abs=1e-9)
    assert one.model.class_count_.sum() == pytest.approx(sum(2 ** (-age / 10) for age in range(40)))
    assert one.predict_one(rows[0][0]) == many.predict_many(pd.DataFrame([rows[0][0]])).item()


def test_a_weight_counts_as_rows():
    twice, heavy = RiverClassifier(), RiverClassifier()
    for x, y in stream(30):
        heavy.learn_one(x, y, w=2.0)
        for _ in range(2):
            twice.learn_one(x, y)
    x, y = next(stream())
    assert heavy.predict_proba_one(x) == pytest.approx(twice.predict_proba_one(x))
    heavy.forget_one(x, y, w=1.0)
    twice.forget_one(x, y)
    assert heavy.predict_proba_one(x) == pytest.approx(twice.predict_proba_one(x))


def test_before_the_first_row_there_is_no_answer():
    model = RiverClassifier()
    assert model.predict_proba_one({"a": 1.0}) == {}
    assert model.predict_one({"a": 1.0}) is None
    assert model.predict_proba_many(pd.DataFrame({"a": [1.0]})).empty


def test_texts_are_learned_as_they_are():
    texts, labels = ["win cash now", "lunch at noon", "cash prize", "see you at lunch"], [True, False, True, False]
    model = RiverClassifier(TextClassifier(reliability=None))
    for x, y in zip(texts, labels, strict=True):
        model.learn_one(x, y)
    whole = TextClassifier(reliability=None).fit(texts, labels)
    assert list(model.predict_proba_one("cash at noon").values()) == pytest.approx(
        whole.predict_proba(["cash at noon"])[0].tolist()
    )
    model.forget_one(texts[0], True)
    assert "win" not in model.model.vocabulary_
    words = feature_extraction.BagOfWords() | RiverClassifier(MultinomialNB())
    for x, y in zip(texts, labels, strict=True):
        words.learn_one(x, y)
    assert words.predict_one("cash") is True


def test_a_fitted_model_goes_on_from_there_and_the_given_one_stays():
    rows = list(stream(50, seed=1))
    frame, y = pd.DataFrame([x for x, _ in rows]), [y for _, y in rows]
    start = Classifier().fit(frame, y)
    model = RiverClassifier(start)
    model.learn_one(rows[0][0], "yes")
    assert model.model.class_count_.sum() == start.class_count_.sum() + 1 == 51
    known = GaussianNB().fit(pd.DataFrame({"a": [1.0, 2.0, 8.0], "b": [3.0, 3.5, 1.0]}), ["x", "x", "y"])
    more = RiverClassifier(known)
    more.learn_one({"b": 1.2, "a": 7.0}, "y")
    assert more.predict_one({"a": 7.5, "b": 1.0}) == "y"
    assert {name for name, _, _ in more.model.explain({"a": 7.5, "b": 1.0}).items} == {"a", "b"}


def test_what_cannot_be_is_an_error():
    tree = RiverClassifier(TreeAugmentedNB().fit({"a": ["x", "y"] * 5, "b": ["u", "v"] * 5}, [0, 1] * 5))
    with pytest.raises(SchemaError, match="'c' is a new column, but the columns of a TreeAugmentedNB depend"):
        tree.learn_one({"a": "x", "c": "z"}, 0)
    model = RiverClassifier(GaussianNB())
    with pytest.raises(DecibanError, match="the first row has no features"):
        model.learn_one({}, 0)
    with pytest.raises(DecibanError, match="'a' is 'red', but GaussianNB takes numbers"):
        model.learn_one({"a": "red"}, 0)
    model.learn_one({"b": 1.0}, 0)
    with pytest.raises(ForgetError, match="no row with the feature 'z' was learned"):
        model.forget_one({"z": 1.0}, 0)


def test_in_pipelines_metrics_and_drift_detectors():
    """A stream whose classes swap: a detector notices, and a model with a half-life follows."""
    rng = np.random.default_rng(0)
    classes = rng.random(160) < 0.5
    swapped = classes ^ (np.arange(160) >= 80)
    rows = [({"a": float(rng.normal() + 2 * c)}, bool(s)) for c, s in zip(classes, swapped, strict=True)]
    scores = {}
    for half_life in (None, 15.0):
        model = preprocessing.StandardScaler() | RiverClassifier(GaussianNB(), half_life)
        detector, metric, found = drift.binary.DDM(), metrics.Accuracy(), []
        for i, (x, y) in enumerate(rows):
            predicted = model.predict_one(x)
            metric.update(y, predicted)
            detector.update(int(predicted != y))
            found += [i] * detector.drift_detected
            model.learn_one(x, y)
        assert half_life or any(80 < i < 150 for i in found), "a model that follows makes few errors"
        scores[half_life] = metric.get()
    assert scores[15.0] > scores[None] + 0.1
    retrained = drift.DriftRetrainingClassifier(RiverClassifier(GaussianNB()), drift.binary.DDM())
    assert evaluate.progressive_val_score(rows, retrained, metrics.Accuracy()).get() > scores[None]
    assert isinstance(pickle.loads(pickle.dumps(model)), compose.Pipeline)


@pytest.mark.slow
@pytest.mark.parametrize("estimator", [None, GaussianNB(), BernoulliNB(), MultinomialNB(), deciban.PoissonNB()])
def test_rivers_own_checks(estimator):
    checks.check_estimator(RiverClassifier(estimator))


@pytest.mark.parametrize("estimator", [None, TextClassifier(reliability=None)])
def test_rivers_own_checks_without_data(estimator):
    model = RiverClassifier(estimator)
    names = []
    for check in checks.yield_checks(model):
        if not hasattr(check, "keywords"):  # the others have a dataset
            check(model.clone())
            names.append(check.__name__)
    assert len(names) > 10


@pytest.mark.slow
def test_progressive_validation_beside_rivers_own():
    """The same assumption on the same stream."""
    scores = {}
    for name, model in {"river": naive_bayes.GaussianNB(), "deciban": RiverClassifier()}.items():
        scores[name] = evaluate.progressive_val_score(
            datasets.ImageSegments().take(600), model, metrics.Accuracy()
        ).get()
    assert scores["deciban"] > scores["river"] - 0.02
