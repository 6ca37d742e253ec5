"""The evidence of a text by word: every item's evidence goes to the words that it lies in, and nothing is lost."""

from __future__ import annotations

import numpy as np
import pytest

from deciban import Classifier, TextClassifier
from deciban.text.shares import ItemEvidence, TokensOfText
from deciban.text.tokens import BY_SCRIPT

SPAM = ["Win free cash now!", "free prize, claim cash now", "cash prize! win now", "claim a prize, claim it"]
HAM = ["lunch at noon?", "see you at lunch", "the meeting is at noon", "notes of the meeting, see you"]
X, Y = (SPAM + HAM) * 3, (["spam"] * 4 + ["ham"] * 4) * 3
TEXT = "Claim the cash, claim it now! Lunch?"
MODELS = {
    "graded": {"blocks": ("words", "pairs", "headers", "gaps", "characters", "repeats")},
    "hashed": {"n_features": 64},
    "multinomial": {"reliability": None},
    "bernoulli": {"reliability": None, "family": "bernoulli"},
    "complement": {"reliability": None, "family": "complement"},
}


def shares(text, *items):
    tokens = TokensOfText.of(text, True, BY_SCRIPT)
    by_token, left = tokens.shares(ItemEvidence(*item) for item in items)
    return dict(enumerate(by_token.tolist())), left


@pytest.mark.parametrize(
    ("item", "expected"),
    {
        "a word": (("words", [("cash",)]), {1: 1.0}),
        "a word that occurs twice": (("words", [("win",)]), {0: 0.5, 3: 0.5}),
        "a pair": (("pairs", [("win", "cash")]), {0: 0.5, 1: 0.5}),
        "the first word": (("pairs", [("", "win")]), {0: 1.0}),
        "the last word": (("pairs", [("bananas", "")]), {4: 1.0}),
        "a gap": (("gaps", [("win", "now")]), {0: 0.5, 2: 0.5}),
        "a long gap": (("gaps", [("win", "win")]), {0: 0.5, 3: 0.5}),
        "characters of a word": (("characters", [("cas",)]), {1: 1.0}),
        "characters at a word's end": (("characters", [("in ",)]), {0: 0.5, 3: 0.5}),
        "characters of two words": (("characters", [(" no",), (" ba",)]), {2: 0.5, 4: 0.5}),
        "a repeat": (("repeats", [("win", "2")]), {0: 0.5, 3: 0.5}),
    }.values(),
)
def test_an_item_is_shared_by_the_words_it_lies_in(item, expected):
    by_token, left = shares("Win cash now win bananas", (*item, 1.0))
    assert not left
    assert {i: db for i, db in by_token.items() if db} == pytest.approx(expected)


def test_items_that_lie_in_no_word_are_left():
    items = [
        ("words", [("zebra",)], 1.0),
        ("headers", [("subject", "win")], 2.0),
        ("pairs", [("now", "cash")], -np.inf),
    ]
    by_token, left = shares("now cash", *items)
    assert not any(by_token.values())
    assert [item.decibans for item in left] == [1.0, 2.0, -np.inf]


def test_header_fields_are_found_in_a_mail():
    by_token, left = shares("Subject: Win\nTo: me\n\nwin", ("headers", [("subject", "win")], 3.0))
    assert by_token[2] == 3.0, "Win, after subject and the colon"
    assert sum(by_token.values()) == 3.0
    assert not left


def test_letters_of_scripts_without_spaces_share_a_run():
    by_token, left = shares("质量不好", ("characters", [("量不好",)], 3.0))
    assert not left
    assert by_token == pytest.approx({0: 0.0, 1: 1.0, 2: 1.0, 3: 1.0})


@pytest.mark.parametrize("name", MODELS)
def test_words_add_up_to_what_items_add_up_to(name):
    model = TextClassifier(**MODELS[name]).fit(X, Y)
    words, items = (model.explain(TEXT, "spam", "ham", by=by) for by in ("word", "item"))
    assert words.total == pytest.approx(items.total, abs=1e-9)
    log_odds = np.diff(model.predict_log_proba([TEXT])[0])[0] * 10 / np.log(10)
    assert words.total == pytest.approx(log_odds, abs=1e-6)
    assert words.prior == items.prior
    assert words.spans == items.spans, "the text is coloured alike"
    listed = [item for item, _, _ in words.items]
    assert len(set(listed)) == len(listed)
    sizes = [abs(db) for _, _, db in words.items]
    assert sizes == sorted(sizes, reverse=True)


def test_a_word_has_the_evidence_of_its_characters_and_pairs():
    model = TextClassifier(**MODELS["graded"]).fit(X, Y)
    words, items = (model.explain(TEXT, "spam", "ham", by=by) for by in ("word", "item"))
    kinds = {kind for _, kind, _ in items.items}
    assert {"word", "pair", "gap", "characters", "repeat"} <= kinds
    assert all(isinstance(times, int) or times == "" for _, times, _ in words.items), "words and offsets"
    by_word = {name: (times, db) for name, times, db in words.items}
    assert by_word["claim"][0] == 2
    assert by_word["claim"][1] == pytest.approx(sum(db for a, _, db in words.spans if a in (0, 16)))
    assert words.positions["claim"] == ((0, 5), (16, 21))
    assert [TEXT[a:b] for a, b in words.positions["!"]] == ["!"]
    document = words.to_dict()["evidence"]
    assert next(item for item in document if item["name"] == "cash")["positions"] == [{"start": 10, "end": 14}]


def test_offsets_are_said_in_words():
    model = TextClassifier().fit([*X, *HAM * 9], [*Y, *["ham"] * 36])
    why = model.explain(TEXT, "spam", "ham")
    assert "class balance (correction)" in [name for name, _, _ in why.items]
    assert "correction of the prior" not in repr(why)
    assert ("a constant, fitted on rows left out" in repr(why).replace("\n", " ")) == any(
        name == "class balance (correction)" and abs(db) >= 0.5 for name, _, db in why.items
    )


def test_words_that_are_absent_are_one_item():
    model = TextClassifier(reliability=None, family="bernoulli").fit(X, Y)
    words, items = (model.explain("cash now", by=by) for by in ("word", "item"))
    assert [name for name, _, _ in words.items if name not in ("cash", "now")] == ["(common words that are absent)"]
    assert len(items.items) > 15


def test_columns_of_text_are_explained_by_word():
    rng = np.random.default_rng(0)
    table = {"text": [f"{text} {i}" for i, text in enumerate(X)], "n": rng.normal(size=len(X)).tolist()}
    model = Classifier(schema={"text": "text"}).fit(table, Y)
    row = {"text": TEXT, "n": 0.3}
    words, items = (model.explain(row, "spam", "ham", by=by) for by in ("column", "item"))
    assert words.total == pytest.approx(items.total, abs=1e-9)
    assert "text: claim" in [name for name, _, _ in words.items]
    assert not any("␣" in name for name, _, _ in words.items)
    assert any("␣" in name for name, _, _ in items.items)
    assert model.explain(row, "spam", "ham", by="word").items == words.items
