"""A small filter, made once, and a server with it."""

from __future__ import annotations

import pytest

import deciban

SPAM = [f"Subject: you win\n\nClaim cash prize {i} now!\n" for i in range(40)]
HAM = [f"Subject: lunch\n\nSee you at noon in room {i}?\n" for i in range(40)]


@pytest.fixture(scope="session")
def model_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("filter") / "mail.deciban"
    deciban.SpamFilter().train(SPAM, "spam").train(HAM, "ham").save(path)
    return path


@pytest.fixture(autouse=True)
def no_settings(monkeypatch):
    for name in ("DECIBAN_URL", "DECIBAN_SOCKET", "DECIBAN_TOKEN"):
        monkeypatch.delenv(name, raising=False)
