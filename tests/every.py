"""Every public estimator in `deciban.__all__`, and some rows that it can learn.

A new one fails `tests/estimators/test_every.py` until `READS` says how it reads rows; then the tests that ask for its
way of reading have it, too.
"""

from __future__ import annotations

import numpy as np
import pytest

import deciban

ESTIMATORS = {name: getattr(deciban, name) for name in deciban.__all__ if hasattr(getattr(deciban, name), "get_params")}

# The first of each way of reading stands for the others in a quick run.
READS = {
    "numbers": ["GaussianNB"],
    "numbers, rows whole": [
        "LinearDiscriminantAnalysis",
        "QuadraticDiscriminantAnalysis",
        "GaussianDiscriminant",
        "NearestCentroid",
        "MixtureDiscriminant",
    ],
    "numbers, no labels": ["GaussianMixture"],
    "counts": ["MultinomialNB", "ComplementNB", "PoissonNB"],
    "bits": ["BernoulliNB"],
    "categories": ["CategoricalNB", "TreeAugmentedNB"],
    "columns of any kind": ["NaiveBayes", "Classifier"],
    "texts": ["TextClassifier"],
    "mail": ["SpamFilter"],
    "documents": ["CountVectorizer"],
}
QUICK = {"GaussianDiscriminant": {"shrinkage": 0.1}, "MixtureDiscriminant": {"components": 2, "random_state": 0}}


def reading(*ways: str) -> list[type]:
    """The estimators that read rows in one of these ways."""
    return [ESTIMATORS[name] for way in ways for name in READS[way]]


def quickly(models: list[type]) -> list[object]:
    """Of each way of reading the first; the rest in `make test-all`."""
    way = {ESTIMATORS[name]: way for way, names in READS.items() for name in names}
    first, seen = [], set()
    for model in models:
        first.append(model if way[model] not in seen else pytest.param(model, marks=pytest.mark.slow))
        seen.add(way[model])
    return first


def made(name: str):
    """With default parameters, except those that would take long."""
    return ESTIMATORS[name](**QUICK.get(name, {}))


def rows_for(name: str, n: int = 60):
    """Rows of the kind that the estimator reads, and labels of two classes."""
    way = next(way for way, names in READS.items() if name in names)
    rng, y = np.random.default_rng(0), np.array(["ham", "spam"])[np.arange(n) % 2]
    code = np.arange(n)[:, None] % 2
    if way.startswith("numbers"):
        return rng.normal(size=(n, 3)) + 1.5 * code, y
    if way == "counts":
        return rng.poisson(1.0 + 4.0 * np.hstack([code, 1 - code, code]), (n, 3)).astype(float), y
    if way == "bits":
        return (rng.random((n, 3)) < 0.3 + 0.4 * code).astype(float), y
    if way == "categories":
        return np.array(["red", "green", "blue"])[(code + rng.integers(0, 2, (n, 3))) % 3], y
    if way == "columns of any kind":
        colour = np.array(["red", "green", "blue"])[(code[:, 0] + rng.integers(0, 2, n)) % 3]
        return {"size": (rng.normal(size=n) + code[:, 0]).tolist(), "colour": colour.tolist()}, y
    words = np.array(["lunch", "noon", "report", "cash", "prize", "free"])
    texts = [" ".join(rng.choice(words, 6, p=np.roll([0.3, 0.3, 0.2, 0.1, 0.05, 0.05], 3 * c))) for c in code[:, 0]]
    return [f"From: a@example.org\nSubject: hello\n\n{text}\n" for text in texts] if way == "mail" else texts, y
