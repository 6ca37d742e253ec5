"""Golden files: a small model of every kind as this version writes it, and what it says of a few rows.

A file that was written once must stay readable (docs/policy.md): these are never written anew. Folder `1` is of the
time before the first release, `1.0` of version 1.0; a version that writes other files gets a folder of its own: `python
tests/golden/make.py FOLDER`. A new kind is added to a folder by its name: `python tests/golden/make.py FOLDER NAME`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from unittest.mock import patch

import numpy as np

import deciban
from deciban.storage import files

WORDS = ["cash", "prize", "winner", "lunch", "meeting", "report", "money", "free"]
WORDS += ["now", "later", "please", "call", "home", "green", "paper", "stone"]


def numbers(rng, n=40):
    """Three classes of real numbers, well apart enough that no probability hangs on a last digit."""
    y = np.arange(n) % 3
    return np.round(rng.normal(size=(n, 3)) + 0.8 * y[:, None] * [1, -1, 0.5], 2), np.array(["ant", "bee", "crab"])[y]


def counts(rng, n=40, d=60):
    """Bags of words, most of them absent."""
    y = np.arange(n) % 3
    rate = np.where((np.arange(d) % 3)[None] == y[:, None], 0.5, 0.05)
    return rng.poisson(rate).astype(float), y


def texts(rng, n=40):
    y = np.arange(n) % 2
    said = [" ".join(rng.choice(WORDS[:10] if c else WORDS[6:], 8)) for c in y]
    return said, np.array(["ham", "spam"])[y]


def long_texts(rng, n=240):
    """Words come again and again, and classes are unequal: repeats, common items and factors are all there."""
    y = np.minimum(rng.geometric(0.6, n), 3) - 1
    said = [" ".join(rng.choice(WORDS[2 * c :][:9], 40)) for c in y]
    return said, np.array(["many", "some", "few"])[y]


def mails(rng, n=24):
    said, y = texts(rng, n)
    return [f"From: {w}@example.org\nSubject: {t[:12]}\n\n{t}\n" for w, t in zip(WORDS * 2, said, strict=False)], y


def table(rng, n=40):
    y = np.arange(n) % 2
    said, _ = texts(rng, n)
    X = {
        "size": np.round(rng.normal(size=n) + y, 2).tolist(),
        "legs": rng.integers(0, 9, n).tolist(),
        "colour": [None if i % 11 == 0 else str(c) for i, c in enumerate(rng.choice(["red", "green", "blue"], n))],
        "seen": [f"2024-0{1 + i % 7}-1{i % 9}" for i in range(n)],
        "note": [f"{text} {i}" for i, text in enumerate(said)],
    }
    return X, np.array(["no", "yes"])[y]


def grades(rng, n=80):
    """Classes are numbers, and columns follow them: one expert has them on a line."""
    y = np.arange(n) % 5
    X = {
        name: np.round(y * rate + rng.normal(size=n), 2).tolist()
        for name, rate in (("a", 0.8), ("b", -0.5), ("c", 0.3))
    }
    return X, y


def codes(rng, n=40):
    X, y = numbers(rng, n)
    return np.clip(np.round(X + 2), 0, 4), y


def colours(rng, n=40):
    X, y = codes(rng, n)
    rows = np.array(["red", "green", "blue", "black", "white"], dtype=object)[X.astype(int)]
    return rows, y


# Every kind of model, and what it learns from.
MODELS = {
    "BernoulliNB": (deciban.BernoulliNB(), counts),
    "CategoricalNB": (deciban.CategoricalNB(), colours),
    "Classifier": (deciban.Classifier(n_jobs=1), table),
    "Classifier-ordered": (deciban.Classifier(n_jobs=1), grades),
    "ComplementNB": (deciban.ComplementNB(), counts),
    "GaussianDiscriminant": (deciban.GaussianDiscriminant(), numbers),
    "GaussianMixture": (deciban.GaussianMixture(n_components=2, random_state=0), numbers),
    "GaussianNB": (deciban.GaussianNB(), numbers),
    "GaussianNB-private": (deciban.GaussianNB(), numbers),
    "LinearDiscriminantAnalysis": (deciban.LinearDiscriminantAnalysis(), numbers),
    "MixtureDiscriminant": (deciban.MixtureDiscriminant(components=2, random_state=0), numbers),
    "MultinomialNB": (deciban.MultinomialNB(alpha="empirical"), counts),
    "NaiveBayes": (deciban.NaiveBayes({(0, 1): "full", 2: "gaussian"}), numbers),
    "NearestCentroid": (deciban.NearestCentroid(), numbers),
    "PoissonNB": (deciban.PoissonNB(), counts),
    "QuadraticDiscriminantAnalysis": (deciban.QuadraticDiscriminantAnalysis(), numbers),
    "SpamFilter": (deciban.SpamFilter(), mails),
    "TextClassifier": (deciban.TextClassifier(n_jobs=1), texts),
    "TextClassifier-unequal": (deciban.TextClassifier(n_jobs=1), long_texts),
    "TextClassifier-plain": (deciban.TextClassifier(reliability=None, prior={"cash": {"spam": 2.0}}), texts),
    "TreeAugmentedNB": (deciban.TreeAugmentedNB(), codes),
}


def plain(rows):
    return rows.tolist() if isinstance(rows, np.ndarray) else rows


def some(rows, which):
    if isinstance(rows, dict):
        return {name: values[which] for name, values in rows.items()}
    return rows[which]


def fitted(name):
    """A model of a kind, six rows, and their labels."""
    model, draw = MODELS[name]
    X, y = draw(np.random.default_rng(7))
    if name == "GaussianMixture":
        model.fit(X)
    elif name.endswith("-private"):  # the noise has no seed
        model = model.private(X, y, epsilon=20.0, classes=["ant", "bee", "crab"], bounds=(-4.0, 4.0))
    else:
        model.fit(X, y)
    return model, some(X, slice(6)), y[:6]


def make(folder: Path, names: list[str]) -> None:
    folder.mkdir(exist_ok=True)
    for name in names or MODELS:
        model, X, y = fitted(name)
        model.save(folder / f"{name}.deciban")
        said = {"rows": plain(X), "labels": plain(y), "says": model.predict_proba(X).tolist()}
        if hasattr(model, "partial_fit") and not name.endswith("-private"):  # that learns no rows without noise
            said["learned"] = model.partial_fit(X, y).predict_proba(X).tolist()
        (folder / f"{name}.json").write_text(json.dumps(said) + "\n")
    if names:
        return
    # As it was before arrays were packed: that is a choice of whoever writes, and no other format.
    model, _, _ = fitted("MultinomialNB")
    with patch.object(files, "pack", return_value=None):
        model.save(folder / "MultinomialNB-unpacked.deciban")
    said = (folder / "MultinomialNB.json").read_text()
    (folder / "MultinomialNB-unpacked.json").write_text(said)


if __name__ == "__main__":
    make(Path(sys.argv[1]), sys.argv[2:])
