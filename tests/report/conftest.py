"""Pages to look at, made once."""

from __future__ import annotations

import numpy as np
import pytest
from report.tables import CLOSING, HOSTILE, LONG, mixed_table

from deciban import Classifier, GaussianDiscriminant, TextClassifier
from deciban.report import page


@pytest.fixture(scope="session")
def table_page():
    """Of a table whose rows were learned, with everything in it."""
    table, y = mixed_table()
    model = Classifier(n_jobs=1).fit(table, y)
    return page(model, table, y, learned=True, title="A small table", origin={"file": "small.deciban"})


@pytest.fixture(scope="session")
def flat():
    """Two numbers and three classes."""
    rng = np.random.default_rng(1)
    y = np.arange(150) % 3
    X = rng.normal(size=(150, 2)) + np.array([[0, 0], [3, 0], [0, 3]])[y]
    return X, np.array(["a", "b", "c"])[y]


@pytest.fixture(scope="session")
def plane_page(flat):
    X, y = flat
    return page(GaussianDiscriminant(n_jobs=1).fit(X[:100], y[:100]), X[100:], y[100:], names=["width", "height"])


@pytest.fixture(scope="session")
def hostile_page():
    """Every name in it is hostile."""
    rng = np.random.default_rng(2)
    n = 120
    y = np.arange(n) % 2
    table = {
        HOSTILE: np.where(rng.random(n) < 0.2 + 0.6 * y, HOSTILE + "a", CLOSING).tolist(),
        LONG: rng.normal(size=n) + y,
        CLOSING: rng.integers(0, 9, n).tolist(),
    }
    labels = np.array([HOSTILE, CLOSING], dtype=object)[y]
    model = Classifier(n_jobs=1).fit(table, labels)
    return page(model, table, labels, title=CLOSING, origin={HOSTILE: HOSTILE, CLOSING: [LONG]}, curve=False)


@pytest.fixture(scope="session")
def text_page():
    rng = np.random.default_rng(3)
    n = 80
    y = np.arange(n) % 2
    words = (["lunch", "noon", "<b>you</b>", LONG], ["cash", "prize", "<i>win</i>", "\u202ewin"])
    texts = ["first line\n" + " ".join(rng.choice(words[c], 5)) for c in y]
    labels = np.array(["ham", "spam"])[y]
    return page(TextClassifier(n_jobs=1).fit(texts, labels), texts, labels, learned=True, curve=False)
