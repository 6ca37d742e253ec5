"""How many items a text model keeps, whatever it reads, and what that leaves of its laws."""

from __future__ import annotations

import itertools
import pickle
import random
import warnings
from collections.abc import Iterable

import numpy as np
import pytest

import deciban
from deciban import SpamFilter, TextClassifier
from deciban.errors import ForgetError, VocabularyWarning
from deciban.text import kept, sums
from deciban.text.items import BLOCKS, Lexicon
from deciban.text.kept import Kept

MOST = 200
HIGHEST = MOST + MOST // 4
COMMON = ["invoice", "lunch", "meeting", "prize", "winner", "noon"]


@pytest.fixture(scope="module")
def documents() -> tuple[list[str], list[str]]:
    rng = random.Random(0)
    return [" ".join(rng.choices(COMMON, k=4)) for _ in range(60)], ["ham", "spam"] * 30


def new_words(rng: random.Random, n: int) -> list[str]:
    return ["".join(rng.choices("bcdfghklmnprst", k=8)) for _ in range(n)]


STREAMS = {
    "words": lambda rng: " ".join(new_words(rng, 30)),
    "names of header fields": lambda rng: "".join(f"X-{w}: lunch\n" for w in new_words(rng, 20)) + "\nlunch",
    "words in header fields": lambda rng: "".join(f"Subject: {w}\n" for w in new_words(rng, 20)) + "\nlunch",
    "one word": lambda rng: new_words(rng, 1)[0],
    "a long word": lambda rng: "".join(new_words(rng, 300)),
    "repeats": lambda rng: " ".join(word for word in new_words(rng, 15) for _ in range(8)),
    "letters without spaces": lambda rng: "".join(chr(rng.randrange(0x4E00, 0x9000)) for _ in range(60)),
}


def amounts(model: TextClassifier) -> dict[tuple[str, str], list[float]]:
    """By block and name, the sums of an item by class."""
    learned, out = model.model_.sums, {}
    for block, cells in learned.cells.items():
        dense = np.zeros((cells.size, len(learned.classes)))
        dense[np.repeat(np.arange(cells.size), np.diff(cells.ptr)), cells.cls] = cells.val
        names = learned.lexicon.names(block, np.arange(cells.size, dtype=np.int32))
        out |= {(block, name): row for name, row in zip(names, dense.tolist(), strict=True) if any(row)}
    return out


def check_small(model: TextClassifier) -> None:
    lexicon = model.model_.sums.lexicon
    sizes = {block: lexicon.size(block) for block in BLOCKS}
    names_of_fields = sizes["headers"]
    assert sizes.pop("words") <= HIGHEST + names_of_fields
    assert max(sizes.values()) <= HIGHEST
    longest = max(map(len, lexicon.words.strings()))
    assert longest <= 256


def read_stream(model: TextClassifier, documents: Iterable[tuple[str, str]], check_every: int = 0) -> None:
    """Learn one document after the other."""
    for number, (text, label) in enumerate(documents, 1):
        model.partial_fit([text], [label])
        if check_every and number % check_every == 0:
            check_small(model)


def drawn(stream: str, n: int, seed: int) -> list[tuple[str, str]]:
    rng = random.Random(seed)
    return [(STREAMS[stream](rng), rng.choice(["ham", "spam"])) for _ in range(n)]


@pytest.mark.parametrize("stream", sorted(STREAMS))
def test_no_stream_makes_a_model_larger(documents, stream):
    model = TextClassifier(blocks=BLOCKS, max_features=MOST).fit(*documents)
    with pytest.warns(VocabularyWarning, match=f"{MOST}"):
        read_stream(model, drawn(stream, 150, 1), 15)
    check_small(model)
    assert model.n_dropped_ > 0


def test_words_of_one_hash_are_dropped_too(documents, monkeypatch):
    monkeypatch.setattr(sums, "tie_breakers", lambda *items: np.zeros(len(items[-1]), dtype=np.int32))
    model = TextClassifier(blocks=BLOCKS, max_features=MOST).fit(*documents)
    with pytest.warns(VocabularyWarning):
        read_stream(model, drawn("words", 60, 1))
    check_small(model)


def test_many_at_once_and_merged_are_cut_too(documents):
    rng = random.Random(2)
    texts = [STREAMS["words"](rng) for _ in range(40)]
    with pytest.warns(VocabularyWarning):
        at_once = TextClassifier(blocks=BLOCKS, max_features=MOST).fit(texts + documents[0], ["ham", "spam"] * 50)
    check_small(at_once)
    with pytest.warns(VocabularyWarning):
        merged = at_once.empty().partial_fit(texts[:20], ["ham"] * 20) + at_once.empty().partial_fit(
            texts[20:], ["spam"] * 20
        )
    check_small(merged)


def test_spam_filters_and_plain_models_have_the_same_limit():
    rng = random.Random(3)
    mails = [f"Subject: {' '.join(new_words(rng, 5))}\n\n{' '.join(new_words(rng, 20))}".encode() for _ in range(60)]
    labels = ["ham", "spam"] * 30
    with pytest.warns(VocabularyWarning):
        mail = SpamFilter(max_features=MOST).fit(mails, labels)
    with pytest.warns(VocabularyWarning):
        plain = TextClassifier(reliability=None, max_features=MOST).fit([m.decode() for m in mails], labels)
    with pytest.warns(VocabularyWarning):
        read_stream(plain, drawn("words", 60, 3))
    check_small(mail)
    assert len(plain.vocabulary_) <= HIGHEST
    assert plain.n_dropped_ > 0
    with pytest.raises(ForgetError, match="dropped"):
        plain.forget([mails[0].decode()], ["ham"])


def test_below_the_limit_nothing_changes(documents):
    with warnings.catch_warnings():
        warnings.simplefilter("error", VocabularyWarning)
        capped, free = (TextClassifier(max_features=most).fit(*documents) for most in (MOST, None))
    assert amounts(capped) == amounts(free)
    assert capped.n_dropped_ == 0
    np.testing.assert_array_equal(capped.predict_proba(documents[0]), free.predict_proba(documents[0]))


def test_the_least_used_are_dropped_and_the_others_exact(documents):
    """Words that are always used more than those that come and go have the sums of a model without a limit."""
    capped, free = (TextClassifier(blocks=("words",), max_features=most).fit(*documents) for most in (MOST, None))
    stream = drawn("words", 60, 4)
    read_stream(free, stream)
    with pytest.warns(VocabularyWarning):
        read_stream(capped, stream)
    mine, every = amounts(capped), amounts(free)
    assert {word for block, word in mine} >= set(COMMON)
    assert mine == {item: every[item] for item in mine}  # each new word came once
    assert capped.n_dropped_ == len(every) - len(mine)
    for text, label in [*stream, *zip(*(given[:10] for given in documents), strict=True)]:
        for model in (capped, free):
            model.forget([text], [label])
    mine, every = amounts(capped), amounts(free)
    assert mine == every
    np.testing.assert_array_equal(capped.class_count_, free.class_count_)
    np.testing.assert_allclose(capped.predict_proba(documents[0]), free.predict_proba(documents[0]), rtol=1e-12)


def test_what_is_dropped_does_not_depend_on_the_order(documents):
    rng = random.Random(5)
    texts = documents[0] + [STREAMS["words"](rng) for _ in range(40)]
    labels, seen = ["ham", "spam"] * 50, []
    for _ in range(3):
        order = rng.sample(range(100), 100)
        model = TextClassifier(blocks=BLOCKS, max_features=MOST)
        with pytest.warns(VocabularyWarning):
            model.fit([texts[i] for i in order], [labels[i] for i in order])
        seen.append(amounts(model))
    assert seen[0] == seen[1] == seen[2]


def test_forgetting_more_than_was_learned_is_still_refused(documents):
    model = TextClassifier(blocks=("words",), max_features=MOST).fit(*documents)
    with pytest.warns(VocabularyWarning):
        read_stream(model, drawn("words", 20, 6))
    before = amounts(model)
    with pytest.raises(ForgetError):
        model.forget(["zebra"], ["ham"])  # one word alone is used more than any that was dropped
    assert amounts(model) == before


def test_words_of_the_prior_stay():
    rng = random.Random(7)
    texts = [" ".join(rng.choices(COMMON[3 * (n % 2) :][:4], k=4)) for n in range(60)]
    model = TextClassifier(max_features=MOST, prior={"viagra": {"spam": 20.0}}).fit(texts, ["ham", "spam"] * 30)
    with pytest.warns(VocabularyWarning):
        read_stream(model, drawn("words", 40, 7))
    known, unknown = model.predict_proba(["viagra", "okapi"])[:, 1]
    assert known > unknown + 0.1
    assert "viagra" in model.vocabulary_


def test_a_model_in_files_and_pickles_is_the_same(documents, tmp_path):
    model = TextClassifier(blocks=BLOCKS, max_features=MOST).fit(*documents)
    with pytest.warns(VocabularyWarning):
        read_stream(model, drawn("words in header fields", 30, 8))
    secret = "lunch kryptonite"
    model.partial_fit([secret], ["spam"]).forget([secret], ["spam"])
    model.save(tmp_path / "model.deciban")
    written = pickle.dumps(model), (tmp_path / "model.deciban").read_bytes()
    copies = [pickle.loads(written[0]), deciban.load(tmp_path / "model.deciban")]  # written above
    asked = ["lunch", "prize winner", "Subject: lunch\n\nnoon"]
    for copied in copies:
        assert amounts(copied) == amounts(model)
        assert copied.model_.limit == model.model_.limit
        assert copied.n_dropped_ == model.n_dropped_
        np.testing.assert_allclose(copied.predict_proba(asked), model.predict_proba(asked), rtol=1e-12)
        copied.partial_fit(["prize noon"], ["spam"]).forget(["prize noon"], ["spam"])
        assert amounts(copied) == amounts(model)
    assert not any(b"kryptonite" in data for data in written)
    read = deciban.read(tmp_path / "model.deciban")
    np.testing.assert_allclose(read.predict_proba(asked), model.predict_proba(asked), rtol=1e-12)


def test_a_lower_limit_holds_from_the_next_document_on(documents):
    model = TextClassifier(blocks=BLOCKS, max_features=None).fit(*documents)
    assert max(model.model_.sums.lexicon.size(block) for block in BLOCKS) > 25
    model.max_features = 20
    with pytest.warns(VocabularyWarning):
        model.partial_fit(["lunch"], ["ham"])
    assert max(model.model_.sums.lexicon.size(block) for block in BLOCKS) <= 25


@pytest.mark.parametrize("most", [0, -1, 1.5, "many"])
def test_a_limit_is_a_number_of_items(documents, most):
    with pytest.raises(ValueError, match="max_features"):
        TextClassifier(max_features=most).fit(*documents)


def test_jointly_modelled_items_do_not_grow_with_the_model():
    rng = random.Random(9)
    texts = [" ".join(rng.choices(COMMON, k=4)) for _ in range(300)]
    model = TextClassifier(blocks=("words",)).fit(texts, ["ham", "spam"] * 150)
    common = model.model_.sums.common
    assert isinstance(common.items, Lexicon)
    words = common.items.size("words")
    model.partial_fit([STREAMS["words"](rng) for _ in range(20)], ["ham"] * 20)
    assert common.items.size("words") == words


# ---------------------------------------------------------------------- documents in memory


def test_kept_documents_have_a_limit_of_characters(monkeypatch):
    monkeypatch.setattr(kept, "MAX_KEPT_CHARACTERS", 1000)
    monkeypatch.setattr(kept, "MAX_CHARACTERS_OF_ONE", 100)
    rows = [(f"{n} " * (5 + n % 7), "ham", 1.0) for n in range(80)] + [("long " * 60, "spam", 1.0)]
    whole = Kept(rows).limited(kept.MAX_KEPT_DOCUMENTS).rows
    assert 800 < kept.characters(whole) <= 1000
    assert all(len(text) <= 100 for text, _, _ in whole)
    assert Kept(whole).stand_for(np.array([500.0]))
    for size in (1, 7, 40):
        parts = [Kept(rows[start : start + size]) for start in range(0, len(rows), size)]
        for order in (parts, parts[::-1]):
            total = list(itertools.accumulate(order))[-1]
            assert sorted(total.rows) == sorted(whole)
            shelf = total._shelf
            assert shelf is None or shelf.characters == kept.characters(shelf.rows.values()) <= 2000
