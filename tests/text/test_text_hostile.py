"""Texts and files that nobody would write by hand: right answers or clear errors, and memory that stays in bounds."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
import textwrap
import unicodedata
from functools import cache

import numpy as np
import pytest
import tokens_by_hand as by_hand
from hypothesis import given
from hypothesis import strategies as st

import deciban
from deciban import FileError, TextClassifier
from deciban.storage import files
from deciban.text.files import parts

KINDS = {
    "graded": {"blocks": ["words", "pairs", "headers", "gaps", "characters"]},
    "multinomial": {"reliability": None},
    "bernoulli": {"reliability": None, "family": "bernoulli"},
}
every_kind = pytest.mark.parametrize("kind", KINDS)
RULE = {"graded": by_hand.tokens, "multinomial": by_hand.words, "bernoulli": by_hand.words}
STRANGE = {
    "nothing": "",
    "only spaces": " \t\n\r\x0b\x0c\x1c\x85\xa0\u2003\u3000 ",
    "NULs": "cash\x00win\x00\x00prize \x00",
    "control characters": "cash\x01\x02win\x7f prize\x1b[31mred",
    "lone surrogates": "cash \ud800 \udfff win\udc00prize",
    "composed": unicodedata.normalize("NFC", "café naïve Ångström"),
    "decomposed": unicodedata.normalize("NFD", "café naïve Ångström"),
    "right to left": "\u202ecash\u202c שלום \u200fعليكم win\u200e",
    "zero width": "ca\u200bsh wi\u200dn pri\ufeffze",
    "emoji": "👍🏽👨‍👩‍👧 cash🎉 win",
    "digits of the world": "١٢٣ ४५६ ⅷ ²³ 12,345.6",
    "case that grows": "İSTANBUL ΌΣΟΣ ΣΑΣ ŉ ǅ STRASSE straße ﬁn",
    "underscores": "__init__ _ __ a_b",
    "only punctuation": "!!! ... ??? --- ((( )))",
    "end of the planes": "\U0010ffff \U000e0041 \uffff\ufffe",
}
OTHERS = ["lunch noon", "see you at lunch", "noon"]


def learned_words(model) -> set:
    return set(model.vocabulary_)


@pytest.mark.crossed(4)
@every_kind
@pytest.mark.parametrize("name", STRANGE)
def test_strange_texts(kind, name, tmp_path):
    text = STRANGE[name]
    texts, labels = [text, text + " prize", *OTHERS], ["a", "a", "b", "b", "b"]
    model = TextClassifier(**KINDS[kind], n_jobs=1).fit(texts, labels)
    expected = {word for one in texts for word in RULE[kind](one)}
    assert learned_words(model) == expected
    proba = model.predict_proba([text, *STRANGE.values()])
    assert np.isfinite(proba).all()
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    why = model.explain(text, "a", "b")
    assert json.loads(json.dumps(why.to_dict()))["text"] == text
    assert all(0 <= start < end <= len(text) for start, end, _ in why.spans)
    assert why._repr_html_().count("<p ") == 1
    model.save(tmp_path / "model")
    again = deciban.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_proba([text]), model.predict_proba([text]))
    assert again.vocabulary_ == model.vocabulary_
    again.forget(texts[:2], labels[:2])
    assert learned_words(again) == {word for one in OTHERS for word in RULE[kind](one)}
    if "\ud800" not in text and kind != "graded":
        as_bytes = TextClassifier(**KINDS[kind], n_jobs=1).fit([one.encode() for one in texts], labels)
        np.testing.assert_allclose(as_bytes.predict_proba([text.encode()]), model.predict_proba([text]), rtol=1e-12)


def test_forms_of_the_same_letter_are_different_words_where_texts_are_not_normalised():
    """As in Python and scikit-learn."""
    forms = [STRANGE["composed"], STRANGE["decomposed"]]
    model = TextClassifier(reliability=None, normalise=False).fit(forms, ["c", "d"])
    assert model.predict(forms).tolist() == ["c", "d"]
    same = TextClassifier(reliability=None).fit(forms, ["c", "d"])
    np.testing.assert_allclose(same.predict_proba(forms), 0.5, rtol=1e-12)


@given(st.lists(st.tuples(st.text(st.characters(), max_size=12), st.sampled_from("ab")), min_size=1, max_size=5))
def test_any_text_at_all(corpus):
    texts, labels = [text for text, _ in corpus], [label for _, label in corpus]
    for kind, more in KINDS.items():
        if kind == "graded" and min(labels.count("a"), labels.count("b")) > 1:
            more = {"blocks": ["words"]}  # faster to fit
        model = TextClassifier(**more, n_jobs=1).fit(texts, labels)
        assert learned_words(model) == {word for text in texts for word in RULE[kind](text)}
        assert np.isfinite(model.predict_proba(texts)).all()
        model.forget(texts[:1], labels[:1])
        assert learned_words(model) == {word for text in texts[1:] for word in RULE[kind](text)}


@every_kind
@pytest.mark.parametrize("bad", [b"\xff", b"cash \xc3", b"\xed\xa0\x80", b"\xf5\x80\x80\x80", b"\xc0\xaf"], ids=repr)
def test_bytes_that_are_no_utf8(kind, bad):
    model = TextClassifier(**KINDS[kind], n_jobs=1).fit(OTHERS, ["a", "b", "b"])
    before = model.predict_proba(OTHERS)
    for call in (model.predict, lambda X: model.partial_fit(X, ["a"] * 3), lambda X: model.forget(X, ["a"] * 3)):
        with pytest.raises(UnicodeDecodeError, match="document 2"):
            call([b"lunch", "noon", bad])
    np.testing.assert_array_equal(model.predict_proba(OTHERS), before)


# ------------------------------------------------------------------ sizes


def test_many_empty_documents():
    n = 50_000
    model = TextClassifier(n_jobs=1, blocks=["words"]).fit([""] * n + OTHERS, ["a"] * n + ["b"] * 3)
    assert model.class_count_.tolist() == [n, 3.0]
    assert model.predict_proba([""])[0, 0] == pytest.approx(n / (n + 3), abs=1e-3)
    assert model.predict(["see you at lunch"]).tolist() == ["b"]


def sizes(distinct: int, words: int, letters: int) -> dict:
    """How much more memory than before each text needs to be learned, asked about and forgotten, in bytes."""
    script = f"""
        import json, resource, sys
        import numpy as np
        from deciban import TextClassifier

        def memory():
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)

        out = {{}}
        for reliability in ("loo", None):
            TextClassifier(reliability=reliability).fit(["a b", "c d", "a", "d"], list("xyxy"))
            for name in ("letters", "words", "distinct"):
                text = {{
                    "distinct": lambda: " ".join(f"w{{i}}" for i in range({distinct})),
                    "words": lambda: "cash win prize now " * ({words} // 4),
                    "letters": lambda: "x" * {letters},
                }}[name]()
                before = memory()
                model = TextClassifier(reliability=reliability)
                model.fit([text, "lunch noon", "cash win", "see you"], list("abab"))
                proba = model.predict_proba([text, "cash", "lunch"])
                assert np.isfinite(proba).all() and np.allclose(proba.sum(axis=1), 1.0)
                assert reliability or proba[0, 0] > 0.5 > proba[2, 0]
                assert len(model.vocabulary_) == {{"distinct": {distinct}, "words": 2, "letters": 1}}[name] + 6
                longest = max(map(len, model.vocabulary_))
                assert longest <= (256 if reliability else max({letters}, 10))
                model.forget([text], ["a"])
                assert sorted(model.vocabulary_) == ["cash", "lunch", "noon", "see", "win", "you"]
                out[f"{{name}}, {{reliability}}"] = [len(text), memory() - before]
        print(json.dumps(out))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


@pytest.mark.slow
def test_long_texts_take_memory_in_proportion():
    for name, (length, memory) in sizes(distinct=30_000, words=300_000, letters=3_000_000).items():
        # Words, pairs, gaps and characters of 30,000 words are some 300,000 items, at about 100 bytes with their sums
        # before and after; a token of a repeated word takes some 16 bytes; a letter is read in place or copied thrice.
        most = {"distinct": 1200 * 30_000, "words": 60 * 300_000, "letters": 8 * length}[name.split(",")[0]]
        assert memory < most + (20 << 20), name


@pytest.mark.slow
def test_very_long_texts_take_memory_in_proportion():
    for name, (length, memory) in sizes(distinct=1_000_000, words=10_000_000, letters=100_000_000).items():
        most = {"distinct": 1200 * 1_000_000, "words": 60 * 10_000_000, "letters": 8 * length}[name.split(",")[0]]
        assert memory < most + (20 << 20), name


# ------------------------------------------------------------------ files


def small(kind: str, **more) -> TextClassifier:
    texts = [
        "Re: cash\n\nwin cash now",
        "claim a prize",
        "lunch at noon?",
        "see you at lunch",
        "ice cream",
        "cream now",
    ]
    return TextClassifier(**KINDS[kind], n_jobs=1, **more).fit(texts, ["spam", "spam", "ham", "ham", "food", "food"])


NEW = ["cash", "lunch now", "ice", ""]


@every_kind
def test_a_file_with_a_flipped_byte_is_refused(kind, tmp_path):
    model = small(kind, prior={"cash": {"spam": 2.0}})
    path = tmp_path / "model"
    model.save(path)
    whole, proba = path.read_bytes(), model.predict_proba(NEW)
    rng = np.random.default_rng(0)
    refused = 0
    for place in rng.integers(0, len(whole), 250):
        broken = bytearray(whole)
        broken[place] ^= int(rng.integers(1, 256))
        path.write_bytes(broken)
        try:
            again = deciban.load(path)
        except FileError:
            refused += 1
        else:
            np.testing.assert_array_equal(again.predict_proba(NEW), proba)
    assert refused > 200, "most bytes are under the checksum"


@every_kind
def test_a_file_that_was_cut_or_padded_is_refused(kind, tmp_path):
    path = tmp_path / "model"
    small(kind).save(path)
    whole = path.read_bytes()
    for size in [0, 1, 8, 100, len(whole) // 2, len(whole) - 1]:
        path.write_bytes(whole[:size])
        with pytest.raises(FileError):
            deciban.load(path)
    path.write_bytes(whole + b"\0")
    with pytest.raises(FileError):
        deciban.load(path)


def set_tensor(name, change):
    def tamper(document, tensors, about):
        del document, about
        tensors[name] = change(tensors[name].copy())

    return tamper


def at(place, value):
    def change(array):
        array[place] = value
        return array

    return change


def set_document(*keys, value):
    def tamper(document, tensors, about):
        del tensors, about
        for key in keys[:-1]:
            document = document[key]
        document[keys[-1]] = value

    return tamper


def set_about(key, value):
    def tamper(document, tensors, about):
        del document, tensors
        about[key] = value

    return tamper


def set_parameter(key, value):
    def tamper(document, tensors, about):
        del document, tensors
        about["parameters"][key] = value

    return tamper


def drop_tensor(name):
    def tamper(document, tensors, about):
        del document, about
        del tensors[name]

    return tamper


def pair_twice(document, tensors, about):
    del document, about
    for side in ("pairs.first", "pairs.second"):
        tensors[side] = at(1, tensors[side][0])(tensors[side].copy())


NEITHER = {
    "no state": lambda document, tensors, about: about.clear(),  # noqa: ARG005 - all of them are given
    "another model": set_about("model", "MultinomialNB"),
    "an unknown model": set_about("model", "os.system"),
    "an unknown parameter": set_parameter("gamma", 1.0),
    "a bad parameter": set_parameter("alpha", -1.0),
    "unlabelled that are no number": set_about("n_unlabelled", "many"),
    "fewer than none unlabelled": set_about("n_unlabelled", -1),
    "classes out of order": set_document("classes", "values", value=["spam", "ham", "food"]),
    "a class twice": set_document("classes", "values", value=["ham", "ham", "spam"]),
    "too few classes": set_document("classes", "values", value=["ham", "spam"]),
    "a class prior of another length": set_document("class_prior", value={"dtype": "<f8", "values": [0.5, 0.5]}),
    "an unknown class prior": set_document("class_prior", value="even"),
    "a negative weight": set_tensor("weight", at(0, -1.0)),
    "a weight that is no number": set_tensor("weight", at(0, np.nan)),
    "weights of another kind": set_tensor("weight", lambda a: a.astype(np.float32)),
    "words of no encoding": set_tensor("words.bytes", at(1, 0xFF)),
    "words that end before they begin": set_tensor("words.ends", at(1, 10**9)),
    "words twice": set_tensor("words.ends", lambda a: np.concatenate([a[:2], a[1:]])),
    "words missing": drop_tensor("words.bytes"),
    "a later format": set_document("format", value=99),
}
GRADED = {
    "pairs of words that are not": set_tensor("pairs.first", at(0, 10_000)),
    "pairs of negative words": set_tensor("pairs.second", at(0, -1)),
    "a pair twice": pair_twice,
    "pairs of other numbers": set_tensor("pairs.first", lambda a: a[:-1]),
    "cells that go back": set_tensor("words.ptr", at(1, 1000)),
    "cells below": set_tensor("words.ptr", at(0, -1)),
    "cells that end elsewhere": set_tensor("words.ptr", at(-1, 1)),
    "cells of another class": set_tensor("words.cls", at(0, 7)),
    "cells of no class": set_tensor("words.cls", at(0, -1)),
    "a negative sum": set_tensor("words.val", at(0, -1.0)),
    "an empty sum": set_tensor("words.val", at(0, 0.0)),
    "an infinite sum": set_tensor("words.val", at(0, np.inf)),
    "fewer sums than cells": set_tensor("words.val", lambda a: a[:-1]),
    "sums of another kind": set_tensor("pairs.cls", lambda a: a.astype(np.int64)),
    "an unknown block": set_document("graded", "blocks", value=["words", "verses"]),
    "no words": set_document("graded", "blocks", value=["pairs"]),
    "blocks twice": set_document("graded", "blocks", value=["words", "words"]),
    "an amount that is no number": set_document("graded", "mass", "words", value=float("nan")),
    "a negative amount": set_document("graded", "mass", "words", value=-1.0),
    "an amount missing": set_document("graded", "mass", value={}),
    "a negative reliability": set_tensor("choice.weights", at(0, -1.0)),
    "reliabilities of another number": set_tensor("choice.weights", lambda a: a[:-1]),
    "an offset that is no number": set_tensor("choice.offsets", at(0, np.nan)),
    "an offset too few": set_tensor("choice.offsets", lambda a: a[:-1]),
    "no strength": set_tensor("choice.strengths", at((0, 0), 0.0)),
    "offsets of other classes": set_document("choice", "classes", value="spam"),
    "a prior of words that are not": set_document("graded", "prior", value={"dict": [["zebra", 3.0]]}),
    "a negative prior": set_document("graded", "prior", value={"dict": [["cash", -3.0]]}),
    "a prior that is no number": set_document("graded", "prior", value={"dict": [["cash", "x"]]}),
    "an infinite prior": set_document("graded", "prior", value={"dict": [["cash", float("inf")]]}),
    "a prior that is no mapping": set_document("graded", "prior", value=[1, 2]),
    "a plain model's parameters": set_parameter("reliability", None),
    "first word not the mark": set_tensor("words.ends", lambda a: np.concatenate([[0], a[2:]])),
}
PLAIN = {
    "a graded model's parameters": set_parameter("reliability", "loo"),
    "another family's parameters": set_parameter("family", "complement"),
    "a word too few": set_tensor("words.ends", lambda a: a[:-1]),
    "a negative count": set_tensor("0.x", at((0, 0), -1.0)),
    "an infinite count": set_tensor("0.x", at((0, 0), np.inf)),
    "counts of other words": set_tensor("0.x", lambda a: a[:, :-1]),
    "a negative alpha": set_document("text", "alpha", value=-1.0),
    "an alpha that is no number": set_document("text", "alpha", value=[]),
    "a prior of words that are not": set_document("text", "prior", value={"dict": [["zebra", 3.0]]}),
    "a negative prior": set_document("text", "prior", value={"dict": [["cash", -3.0]]}),
    "a prior that is no number": set_document("text", "prior", value={"dict": [["cash", "x"]]}),
    "a prior that is no mapping": set_document("text", "prior", value=[1, 2]),
}


TAMPERED = {
    **{("graded", name): change for name, change in {**NEITHER, **GRADED}.items()},
    **{("multinomial", name): change for name, change in {**NEITHER, **PLAIN}.items()},
}


@cache
def to_tamper_with(kind: str) -> TextClassifier:
    return small(kind, prior={"cash": {"spam": 2.0}})


@pytest.mark.parametrize(("kind", "name"), TAMPERED)
def test_a_file_with_a_right_checksum_and_wrong_contents_is_refused(kind, name, tmp_path):
    """Everything in a file is checked before use, so that no kernel reads out of bounds."""
    model = to_tamper_with(kind)
    document, tensors = parts(model.model_)
    document = copy.deepcopy(document)
    about = {"model": "TextClassifier", "parameters": dict(model.get_params(deep=False)), "n_unlabelled": 0}
    path = tmp_path / "model"
    files.write_parts(path, document, tensors, about)
    np.testing.assert_array_equal(deciban.load(path).predict_proba(NEW), model.predict_proba(NEW))
    TAMPERED[kind, name](document, tensors, about)
    files.write_parts(path, document, {key: np.ascontiguousarray(t) for key, t in tensors.items()}, about)
    with pytest.raises(FileError):
        deciban.load(path)
