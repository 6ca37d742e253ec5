"""Texts in every script: how they are cut, read in normal form, stored and shown."""

from __future__ import annotations

import unicodedata
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import tokens_by_hand as by_hand
from conftest import DATA
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

import deciban
from deciban import Classifier, SpamFilter, TextClassifier
from deciban._kernel import text as kernel
from deciban.errors import SchemaError
from deciban.text import background
from deciban.text.items import Lexicon, choose_blocks
from deciban.text.raw import Documents, Vocabulary
from deciban.text.tokens import BY_SCRIPT, BY_SPACES, MIXED_SCRIPTS, TokenRule

GOLDEN = Path(__file__).parents[1] / "golden" / "1"
AS_GIVEN = TokenRule(normalise=False)
TOKENS = {
    "Chinese": ("这个不好，真的。", ["这", "个", "不", "好", ",", "真", "的", "。"]),
    "extensions": ("𠮷野家", ["𠮷", "野", "家"]),
    "Japanese": ("東京タワーへ行く", ["東", "京", "タ", "ワ", "ー", "へ", "行", "く"]),
    "kana of half width": ("ｶﾞｷﾞ", ["ガ", "ギ"]),
    "iteration": ("人々", ["人", "々"]),
    "a variant of an ideograph": ("葛\U000e0100城", ["葛\U000e0100", "城"]),
    "Thai": ("ไม่ดีน้ำ", ["ไ", "ม่", "ดี", "น้ํ", "า"]),
    "Lao": ("ສະບາຍດີ", ["ສ", "ະ", "ບ", "າ", "ຍ", "ດີ"]),
    "Khmer, stacked": ("ខ្មែរ", ["ខ្មែ", "រ"]),
    "Myanmar, stacked": ("မန္တလေး", ["မ", "န္တ", "လေး"]),
    "Korean": ("한국어를 좋아해요", ["한국어를", "좋아해요"]),
    "Hangul of jamo": ("\u1112\u1161\u11ab", ["한"]),
    "Hindi": ("नमस्ते दुनिया", ["नमस्ते", "दुनिया"]),
    "Tamil": ("வணக்கம்", ["வணக்கம்"]),
    "Arabic": ("السَّلامُ عليكم", ["السَّلامُ", "عليكم"]),
    "Hebrew": ("שָׁלוֹם עולם", ["שָׁלוֹם", "עולם"]),
    "Persian, not joined": ("می\u200cخواهم", ["می\u200cخواهم"]),
    "Russian": ("Привет, мир", ["привет", ",", "мир"]),
    "Greek": ("ΟΔΟΣ σοφός", ["οδος", "σοφός"]),
    "accents typed apart": ("cafe\u0301", ["café"]),
    "full width": ("ＡＢＣ１２３！", ["abc123", "!"]),
    "ligatures": ("ﬁne ﬀ", ["fine", "ff"]),
    "English in Chinese": ("我用iPhone很久", ["我", "用", "iphone", "很", "久"]),
    "digits in Chinese": ("3天5元", ["3", "天", "5", "元"]),
    "emoji": ("so😀😀 good!!👍", ["so", "😀", "😀", "good", "!!", "👍"]),
    "colours of skin": ("👍🏽👍", ["👍🏽", "👍"]),
    "a family": ("👨‍👩‍👧👧", ["👨‍👩‍👧", "👧"]),
    "a heart in colour": ("❤️❤", ["❤️", "❤"]),
    "flags": ("🇩🇪🇫🇷🇺", ["🇩🇪", "🇫🇷", "🇺"]),
    "a flag of tags": ("🏴\U000e0067\U000e0062\U000e007f!", ["🏴\U000e0067\U000e0062\U000e007f", "!"]),
    "keycap": ("3\ufe0f\u20e3", ["3\ufe0f\u20e3"]),
    "soft hyphen and direction": ("in\u00advis\u200eible", ["invisible"]),
    "byte order mark": ("\ufeffhello", ["hello"]),
    "zero width space": ("ไม่\u200bดี", ["ไ", "ม่", "ดี"]),
    "marks alone": ("\u0301 \u0301\u0301", ["\u0301", "\u0301\u0301"]),
    "look-alikes": ("р\u0430ypal login", ["р\u0430ypal", MIXED_SCRIPTS, "login"]),
    "Cyrillic beside Latin": ("Москва Moscow", ["москва", "moscow"]),
    "micro": ("5µm", ["5μm"]),
    "a lone surrogate": ("a\ud800b", ["a", "\ud800", "b"]),
    "nothing": ("", []),
}
ALPHABET = (
    "aé1_ .,-不好人々ガかｶﾞター한국\u1112\u1161\u11abกดีม่ไะำນຳខ្មမန္တနေ्षकिक़ شَلاם\u05b8ΑΣσİраp"
    "😀👍🏽❤️👨‍👩🇩🇪\u0301\u0323\u200b\u200c\u200d\u200e\u00ad\ufeff…ﬁ①Ａ！㍿\ud800\U00020000\U0001f100\U0002f800"
)
strange = st.text(st.sampled_from(ALPHABET) | st.characters(exclude_categories=("Cn",)), max_size=12)


@pytest.mark.parametrize("script", TOKENS)
def test_tokens(script):
    text, expected = TOKENS[script]
    assert BY_SCRIPT.tokens(text, lower=True) == expected
    assert by_hand.tokens(text) == expected
    if "\ud800" not in text:
        assert cut([text.encode()], BY_SCRIPT) == [expected]


def cut(texts, rule, lower=True) -> list[list[str]]:
    words, documents = Vocabulary(), rule.prepared(Documents(texts, lower))
    ids, indptr, _ = kernel.tokenize(documents, 0, len(texts), words, True, rule.name)
    strings = words.strings()
    return [[strings[i] for i in ids[a:b]] for a, b in pairwise(indptr)]


@pytest.mark.parametrize("around", ["{0}", "x{0}x", "好{0}好", "!{0}{0}!", "😀{0}😀"])
def test_every_character_is_cut_as_by_hand(around, thorough):
    assigned = [c for c in map(chr, range(0x110000)) if unicodedata.category(c) != "Cn"]
    texts = [around.format(c) for c in assigned[:: 1 if thorough else 23]]
    assert cut(texts, AS_GIVEN, lower=False) == [by_hand.tokens(text, False, False) for text in texts]


@given(st.lists(strange, min_size=1, max_size=6), st.booleans(), st.booleans())
def test_any_texts_are_cut_as_by_hand(texts, lower, normalise):
    assert cut(texts, TokenRule(normalise=normalise), lower) == [by_hand.tokens(t, lower, normalise) for t in texts]


@given(st.text(st.sampled_from(ALPHABET) | st.characters(), max_size=30))
def test_tokens_are_the_text_without_what_is_not_seen(text):
    """Whatever the text, unassigned code points and lone surrogates with it: nothing is lost, nothing comes twice."""
    seen = "".join(c for c in text if by_hand.kind(c) not in ("space", "hidden"))
    assert "".join(t for t in AS_GIVEN.tokens(text, lower=False) if t != MIXED_SCRIPTS) == seen


@given(st.lists(strange, min_size=1, max_size=6), st.booleans())
def test_the_normal_form_is_that_of_python(texts, lower):
    words, documents = Vocabulary(), Documents(texts, lower).normalised()
    ids, indptr, _ = kernel.tokenize(documents, 0, len(texts), words, True, "spaces")
    strings = words.strings()
    for text, (a, b) in zip(texts, pairwise(indptr), strict=True):
        normal = unicodedata.normalize("NFKC", text)
        assert [strings[i] for i in ids[a:b]] == (normal.lower() if lower else normal).split()


@given(st.lists(strange, min_size=1, max_size=4), st.sampled_from(["plain words ", "e", "ab "]), st.booleans())
def test_the_normal_form_of_few_strange_characters_among_many_plain_ones(texts, plain, lower):
    """Most of such a text is not looked at."""
    text = (plain * 200).join(["", *texts])
    normal = unicodedata.normalize("NFKC", text)
    words = Vocabulary()
    ids, _, _ = kernel.tokenize(Documents([text], lower).normalised(), 0, 1, words, True, "spaces")
    assert words.strings(ids) == (normal.lower() if lower else normal).split()


def test_every_character_has_the_normal_form_of_python(thorough):
    for around in ("{0}", "e{0}\u0301", "\u1100{0}\u11a8", "か{0}"):
        texts = [around.format(chr(c)) for c in range(0, 0x110000, 1 if thorough else 17)]
        words, documents = Vocabulary(), Documents(texts, lower=False).normalised()
        ids, indptr, _ = kernel.tokenize(documents, 0, len(texts), words, True, "spaces")
        normal = [unicodedata.normalize("NFKC", text).split() for text in texts]
        assert words.strings(ids) == [word for text in normal for word in text]
        assert np.diff(indptr).tolist() == list(map(len, normal))


def test_documents_in_normal_form_are_not_copied():
    for texts in (["plain", "naïve 不好"], [b"plain", "naïve".encode()]):
        documents = Documents(texts)
        assert documents.normalised() is documents


@given(strange, st.booleans())
def test_tokens_are_where_they_are(text, normalise):
    located = list(TokenRule(normalise=normalise).located(text, lower=True))
    assert [token.string for token in located] == TokenRule(normalise=normalise).tokens(text, lower=True)
    before = 0
    for start, end, string in located:
        assert before <= start < end <= len(text)
        before = start
        if string != MIXED_SCRIPTS:
            piece = by_hand.as_read(text[start:end], normalise=normalise)
            assert string in "".join(c for c in piece if by_hand.kind(c) != "hidden") or "Σ" in text.upper()


@given(strange)
def test_runs_of_characters_are_those_by_hand(text):
    lexicon = Lexicon()
    lexicon.read(BY_SCRIPT.prepared(Documents([text])), 0, 1, ("words", "characters"))
    assert set(lexicon.characters.strings()) - {"  "} == by_hand.runs(text)  # the mark of a text's ends has that run


def test_ascii_is_cut_as_ever():
    texts = ["Hello, world!! it's 5 o'clock_now", "a\x1cb\x85c", "x" * 300 + " e-mail: me@example.org"]
    assert cut(texts[:1] + texts[2:], BY_SCRIPT) == cut(texts[:1] + texts[2:], BY_SPACES)


def test_blocks_for_scripts_without_spaces():
    """Single letters with pairs and runs; gaps are for words."""
    assert choose_blocks(Documents(["质量不好，非常失望", "这个手机很好"])) == ("words", "pairs", "characters")
    assert choose_blocks(Documents(["good phone", "bad phone"])) == ("words", "pairs", "gaps", "characters")
    assert choose_blocks(Documents(["质量不好"]), BY_SPACES) == ("words", "pairs", "gaps", "characters")


# ---- models ----

REVIEWS = [
    "这个手机很好，我很喜欢",
    "质量不好，非常失望 very bad",
    "屏幕很好看，推荐",
    "不好用，退货了",
    "很好",
    "太差了不好",
]
STARS = [1, 0, 1, 0, 1, 0]


def printed(result, width=60) -> list[str]:
    console = Console(width=width, force_terminal=False, record=True)
    with console.capture() as captured:
        console.print(result)
    return captured.get().rstrip("\n").split("\n")


def test_an_explanation_shows_what_a_reader_reads():
    model = TextClassifier(blocks=("words", "pairs", "gaps", "characters"), n_jobs=1).fit(REVIEWS, STARS)
    evidence = model.explain(["质量不好 ｖｅｒｙ bad"], by="item")
    names = {(name, kind) for name, kind, _ in evidence.items}
    assert {("不好", "pair"), ("不好", "characters"), ("very bad", "pair"), ("很好", "pair")} & names == {
        ("不好", "pair"),
        ("不好", "characters"),
        ("very bad", "pair"),
    }
    assert [evidence.text[a:b] for a, b, _ in evidence.spans] == ["质", "量", "不", "好", "ｖｅｒｙ", "bad"]
    table = printed(evidence)
    assert len({cell_len(line) for line in table if line.startswith(("│", "┃", "└"))}) == 1
    sure = np.log(evidence.probability / (1 - evidence.probability)) * 10 / np.log(10)
    assert evidence.prior + sum(db for *_, db in evidence.items) == pytest.approx(sure)


@pytest.mark.parametrize("more", [{}, {"reliability": None}, {"n_features": 64}])
def test_any_script_is_explained(more):
    texts = [text for text, _ in TOKENS.values() if "\ud800" not in text]
    labels = [len(text) % 2 for text in texts]
    model = TextClassifier(**more, n_jobs=1).fit(texts, labels)
    for evidence in model.explain(texts):
        assert evidence.text in texts
        assert printed(evidence, 40)
        assert "<p" in evidence._repr_html_()


def test_look_alikes_are_evidence():
    texts = ["log in to р\u0430ypal", "lunch at noon", "your \u0430mazon account", "the report is here"]
    model = TextClassifier(n_jobs=1).fit(texts, ["spam", "ham", "spam", "ham"])
    evidence = {name: db for name, kind, db in model.explain(["goog\u04cfe"], "spam", "ham").items if kind == 1}
    assert evidence[MIXED_SCRIPTS] > 0
    assert MIXED_SCRIPTS not in " ".join(model.sample(20, random_state=0)[0])


def test_a_plain_model_counts_neighbours():
    model = TextClassifier(reliability=None, n_jobs=1).fit(REVIEWS, STARS)
    assert {"不好", "质量", "very", "bad"} <= set(model.vocabulary_)
    assert not any(len(word) > 2 and not word.isascii() for word in model.vocabulary_)
    evidence = model.explain(["质量不好"])
    assert [name for name, _, _ in evidence.items if name == "不好"] == ["不好"]
    assert [evidence.text[a:b] for a, b, _ in evidence.spans] == ["质", "量", "不", "好"]


def test_pseudo_counts_are_read_by_the_same_rule():
    model = TextClassifier(prior={"好": {1: 5.0}, "ＦＲＥＥ": 1.0}, n_jobs=1).fit(REVIEWS, STARS)
    assert {"好", "free"} <= set(model.vocabulary_)
    with pytest.raises(ValueError, match="'不好', which is not a single word"):
        TextClassifier(prior={"不好": 1.0}).fit(REVIEWS, STARS)
    assert set(background(["不好", "好"])) == {"不", "好"}
    assert set(background(["不好", "好"], reliability=None)) == {"不好"}


def test_the_rule_is_stored(tmp_path):
    for more in ({}, {"reliability": None}, {"n_features": 64}):
        for normalise in (True, False):
            model = TextClassifier(normalise=normalise, n_jobs=1, **more).fit(REVIEWS, STARS)
            model.save(tmp_path / "model.deciban")
            again = deciban.load(tmp_path / "model.deciban")
            assert again.model_.rule == model.model_.rule == TokenRule(normalise=normalise)
            asked = [*REVIEWS, "ＶＥＲＹ ｂａｄ"]
            np.testing.assert_array_equal(again.predict_proba(asked), model.predict_proba(asked))
            np.testing.assert_array_equal(
                deciban.read(tmp_path / "model.deciban").predict_proba(asked), model.predict_proba(asked)
            )


def test_models_of_older_versions_keep_their_rule():
    for path in sorted(GOLDEN.glob("*[tT]ext*.deciban")):
        old = deciban.load(path)
        assert old.model_.rule == BY_SPACES
        assert old.normalise is False
        label = old.classes_[0]
        old.partial_fit(["不好用 ｃａｓｈ"], [label])
        if old.n_features is None:
            assert {"不好用", "ｃａｓｈ"} <= set(old.vocabulary_)
        old.forget(["不好用 ｃａｓｈ"], [label])
        new = old.empty().set_params(normalise=True)
        assert new.fit(["不好用"] * 2 + ["a"] * 2, [label] * 2 + [old.classes_[1]] * 2).model_.rule == BY_SCRIPT


def test_models_of_other_rules_do_not_merge():
    one = TextClassifier(blocks=["words"], n_jobs=1).fit(REVIEWS, STARS)
    other = TextClassifier(blocks=["words"], normalise=False, n_jobs=1).fit(REVIEWS, STARS)
    with pytest.raises(SchemaError, match="normalise differs"):
        one + other
    with pytest.raises(ValueError, match="normalise has changed"):
        one.set_params(normalise=False).predict(REVIEWS)
    one.set_params(normalise=True)
    one.model_.sums.lexicon.rule = BY_SPACES
    with pytest.raises(SchemaError, match="older version"):
        one + TextClassifier(blocks=["words"], n_jobs=1).fit(REVIEWS, STARS)


def test_mail_and_columns_of_text_are_cut_by_script():
    mails = [f"Subject: {text}\n\n{text}\n" for text in REVIEWS]
    spam = SpamFilter(n_jobs=1).fit(mails, ["ham", "spam"] * 3)
    assert {"不", "好"} <= set(spam.model_.sums.lexicon.words.strings())
    table = {"review": [f"{text}{i}" for i in range(10) for text in REVIEWS], "size": [1, 2, 3] * 20}
    model = Classifier(n_jobs=1).fit(table, STARS * 10)
    assert model.predict({"review": ["很好", "不好"], "size": [3, 4]}).tolist() == [1, 0]


def test_chinese_reviews_are_told_apart_better_than_before():
    """With 200 to learn from: accuracy was .667 and log loss .645 when whole sentences were words."""
    import gzip
    import json

    path = DATA / "zh_reviews" / "zh_reviews.jsonl.gz"
    if not path.exists():
        pytest.skip("there is no data set 'zh_reviews': DECIBAN_DATA says where the sets are")
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    order = np.random.default_rng(0).permutation(len(rows))[:2200]
    texts, labels = [rows[i]["text"] for i in order], np.array([rows[i]["label"] for i in order])
    proba = (model := TextClassifier().fit(texts[:200], labels[:200])).predict_proba(texts[200:])
    truth = proba[np.arange(2000), np.searchsorted(model.classes_, labels[200:])]
    assert np.mean(truth > 0.5) > 0.69
    assert -np.log(truth).mean() < 0.60
