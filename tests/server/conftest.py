"""Small models to serve, made once."""

from __future__ import annotations

import pytest

pytest.importorskip("starlette", reason="the server is not installed: pip install 'deciban[server]'")

import numpy as np
from postgres_server import postgres  # noqa: F401 - a fixture

import deciban

from .api import Api

SPAM = ["win cash now", "claim a cash prize now", "win a prize", "free prize inside", "cash cash cash", "you win"]
HAM = ["lunch?", "see you at lunch", "lunch at noon", "are you home", "at noon then", "home late, see you"]


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    """Model files by what they read."""
    folder = tmp_path_factory.mktemp("models")
    texts = deciban.TextClassifier().fit(SPAM + HAM, ["spam"] * 6 + ["ham"] * 6)
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 200)
    table = {
        "size": y + rng.normal(size=200),
        "colour": np.where(rng.random(200) < 0.3 + 0.4 * y, "red", "blue"),
        "legs": rng.integers(2, 5, 200),
    }
    rows = deciban.Classifier().fit(table, np.where(y == 1, "cat", "dog"))
    mail = deciban.SpamFilter()
    mail.train([f"Subject: you win\n\nClaim cash prize {i} now!" for i in range(30)], "spam")
    mail.train([f"Subject: lunch\n\nSee you at noon in room {i}?" for i in range(30)], "ham")
    numbers = deciban.GaussianNB().fit(rng.normal(size=(40, 3)) + (np.arange(40) % 2)[:, None], np.arange(40) % 2)
    out = {}
    for name, model in {"texts": texts, "rows": rows, "mail": mail, "numbers": numbers}.items():
        out[name] = folder / f"{name}.deciban"
        model.save(out[name])
    return out


@pytest.fixture
def api(files, tmp_path):
    with Api(files, tmp_path / "store.sqlite") as running:
        yield running


@pytest.fixture(scope="module")
def one_api(files, tmp_path_factory):
    """A server for requests that change nothing."""
    with Api(
        {"texts": files["texts"], "rows": files["rows"]}, tmp_path_factory.mktemp("store") / "s.sqlite"
    ) as running:
        yield running


@pytest.fixture
def texts(files):
    return {"texts": files["texts"]}
