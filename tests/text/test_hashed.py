"""The hashed vocabulary: its buckets, what is kept and what is not, and sums of parts that were learned separately.

That learning, forgetting, merging and leaving out work as with words is tested in test_text_laws.py.
"""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.utils import murmurhash3_32

import deciban
from deciban import SpamFilter, TextClassifier
from deciban.errors import DecibanError, FileError, SchemaError
from deciban.text import files
from deciban.text.hashed import MAX_BUCKETS, Buckets, HashedLexicon, hashes, murmur_hash
from deciban.text.items import BLOCKS, PAIRED, Lexicon
from deciban.text.raw import Documents

X = [
    "win cash now", "claim a cash prize now!", "win a prize", "free cash",
    "lunch at noon?", "see you at lunch", "at noon", "see you",
]  # fmt: skip
Y = ["spam"] * 4 + ["ham"] * 4
NEW = ["cash for lunch", "claim your prize now", "", "noon", "日本 naïve"]
KINDS = {
    "graded": {"blocks": BLOCKS},
    "multinomial": {"reliability": None},
    "bernoulli": {"reliability": None, "family": "bernoulli"},
    "complement": {"reliability": None, "family": "complement"},
}
every_kind = pytest.mark.parametrize("kind", KINDS)


def new(kind: str, n_features: int | None = 64, **more) -> TextClassifier:
    return TextClassifier(**KINDS[kind], n_features=n_features, n_jobs=1, **more)


def fitted(kind: str, n_features: int | None = 64, **more) -> TextClassifier:
    return new(kind, n_features, **more).fit(X, Y)


# ------------------------------------------------------------------ buckets


def test_words_are_in_the_columns_of_scikit_learn():
    size = 97
    learned = fitted("multinomial", size)
    columns = HashingVectorizer(n_features=size, norm=None, alternate_sign=False).transform(X)
    counts = dict(zip(learned.model_.words.strings(), learned.model_.model.stats.sums[0]["x"].T.tolist(), strict=True))
    for column in range(size):
        expected = [columns[4:, column].sum(), columns[:4, column].sum()]  # ham, spam
        assert counts.pop(f"#{column}", [0.0, 0.0]) == expected
    assert not counts


def test_pairs_are_hashed_as_the_hashes_of_their_words():
    lexicon = Lexicon()
    lexicon.read(Documents(["Subject: naïve\n\n日本 cash cash"]), 0, 1, BLOCKS)
    words = lexicon.words.strings()
    for block in PAIRED:
        first, second = getattr(lexicon, block).arrays()
        both = [
            np.array([murmurhash3_32(words[a]), murmurhash3_32(words[b])], dtype="<i4").tobytes()
            for a, b in zip(first, second, strict=True)
        ]
        assert hashes(lexicon, block).tolist() == [murmurhash3_32(key) for key in both]
    assert murmur_hash([np.zeros(0, dtype=np.uint32)] * 2).tolist() == []


@pytest.mark.parametrize("size", [1, 2, MAX_BUCKETS])
def test_the_least_and_the_most_buckets(size):
    """The hash −2³¹ has no absolute value among 32 bits."""
    buckets = Buckets(size)
    extremes = np.array([-(2**31), 2**31 - 1, 0, -1], dtype=np.int32)
    expected = [value % size for value in (2**31, 2**31 - 1, 0, 1)]
    assert buckets.buckets(buckets.number(extremes)).tolist() == expected
    for kind in KINDS:
        proba = fitted(kind, size).predict_proba(NEW)
        assert np.isfinite(proba).all()


@every_kind
@pytest.mark.parametrize("n_features", [0, -1, 2.5, MAX_BUCKETS + 1, "many"])
def test_numbers_of_buckets_that_make_no_sense(kind, n_features):
    with pytest.raises(ValueError, match="n_features"):
        new(kind, n_features).fit(X, Y)


@every_kind
def test_where_no_two_items_meet_it_is_the_model_of_the_words(kind):
    words, hashed = fitted(kind, None), fitted(kind, MAX_BUCKETS)
    np.testing.assert_allclose(hashed.predict_log_proba(NEW), words.predict_log_proba(NEW), rtol=1e-9, atol=1e-9)
    log_probas = [model.leave_one_out(X, Y).log_proba for model in (words, hashed)]
    np.testing.assert_allclose(*log_probas, rtol=1e-9, atol=1e-9)
    text = "claim cash for lunch"
    one, two = ({name: db for name, _, db in model.explain(text, "spam").items} for model in (words, hashed))
    if kind != "bernoulli":  # which speaks of absent words too
        assert one == pytest.approx(two, rel=1e-9, abs=1e-9)
    np.testing.assert_allclose(hashed.explain(text).spans, words.explain(text).spans, rtol=1e-9, atol=1e-9)


def test_two_words_in_one_bucket_are_one_word():
    """With one bucket, every word is the same word, present or not."""
    learned = (
        new(
            "graded",
            1,
        )
        .set_params(blocks=["words"])
        .fit(["cash prize", "lunch", "", ""], ["a", "b", "a", "b"])
    )
    cells = learned.model_.sums.cells["words"]
    assert cells.val.tolist() == [1.0, 1.0], "a text of two words has one item, and is damped as one"
    same = learned.predict_proba(["cash", "lunch", "cash lunch", "unheard of"])
    assert (same == same[0]).all()


# ------------------------------------------------------------------ what is kept


@every_kind
def test_no_word_is_kept(kind, tmp_path):
    learned = fitted(kind, 2**20)
    learned.save(tmp_path / "model")
    for stored in ((tmp_path / "model").read_bytes(), pickle.dumps(learned)):
        for word in ("cash", "prize", "claim", "lunch", "noon"):
            assert word.encode() not in stored
    for again in (deciban.load(tmp_path / "model"), pickle.loads(pickle.dumps(learned))):
        np.testing.assert_array_equal(again.predict_proba(NEW), learned.predict_proba(NEW))
        assert again.n_features == 2**20
    assert all(word.startswith("#") for _, word, _ in learned.top_words().rows)
    assert len(learned.top_words("spam", n=3).rows) == 3
    with pytest.raises(AttributeError, match="n_features is 1048576"):
        learned.vocabulary_  # noqa: B018 - a property
    if kind != "complement":
        with pytest.raises(DecibanError, match="n_features=1048576"):
            learned.sample(1)


@every_kind
def test_an_explanation_names_the_words_of_the_text(kind):
    learned = fitted(kind, 3)
    why = learned.explain("cash lunch zebra at noon", "spam", "ham", by="item")
    names = [part for name, value, _ in why.items if value in ("word", 1.0, 2.0, 3.0) for part in name.split(" / ")]
    assert sorted(names) == ["at", "cash", "lunch", "noon", "zebra"]
    assert any(" / " in name for name, *_ in why.items), "five words are in three buckets"
    by_word = learned.explain("cash lunch zebra at noon", "spam", "ham")
    assert {name for name, value, _ in by_word.items if value == 1} == {"at", "cash", "lunch", "noon", "zebra"}
    shown = [why.text[start:end] for start, end, _ in why.spans]
    assert set(shown) <= {"cash", "lunch", "zebra", "at", "noon"}
    assert shown


def test_memory_is_bounded():
    learned = new("graded", 1000)
    for i in range(20):
        learned.partial_fit([" ".join(f"w{i}x{j}" for j in range(500))], ["ab"[i % 2]])
    lexicon = learned.model_.sums.lexicon
    assert all(lexicon.size(block) <= 1000 for block in BLOCKS)
    assert lexicon.size("words") == 1000
    assert all(len(cells.val) <= 2 * 1000 for cells in learned.model_.sums.cells.values())


# ------------------------------------------------------------------ sums of parts


@every_kind
def test_buckets_of_other_numbers_do_not_merge(kind):
    for other in (None, 65):
        with pytest.raises(SchemaError, match="n_features differs"):
            fitted(kind) + fitted(kind, other)
        renamed = fitted(kind, other).set_params(n_features=64)  # the parameter says so, but its sums are others
        with pytest.raises(SchemaError, match="n_features differs"):
            fitted(kind) + renamed
        with pytest.raises(SchemaError, match="n_features differs"):
            fitted(kind).empty() + renamed


@every_kind
@pytest.mark.parametrize("n_features", [None, 64])
def test_copies_that_learned_nothing_learn_under_the_same_choices(kind, n_features):
    whole = fitted(kind, n_features)
    nothing = whole.empty()
    assert nothing.class_count_.tolist() == [0.0, 0.0]
    assert whole.class_count_.tolist() == [4.0, 4.0]
    parts = [pickle.loads(pickle.dumps(nothing)).partial_fit([x], [y]) for x, y in zip(X, Y, strict=True)]
    parts.insert(3, whole.empty())  # an empty partition
    parts.insert(5, whole.empty().partial_fit([], []))
    total = sum(parts[::-1])
    assert len(total.kept_) == 0
    assert total.class_count_.tolist() == [4.0, 4.0]
    np.testing.assert_allclose(total.predict_log_proba(NEW), whole.predict_log_proba(NEW), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(
        total.leave_one_out(X, Y).log_proba, whole.leave_one_out(X, Y).log_proba, rtol=1e-9, atol=1e-9
    )
    if kind == "graded":
        assert all(part.model_.choice is whole.model_.choice for part in (nothing, nothing.empty()))
        total.refit_reliability(X, Y)
        np.testing.assert_allclose(total.predict_log_proba(NEW), whole.predict_log_proba(NEW), rtol=1e-6, atol=1e-6)


def test_copies_that_learned_nothing_do_not_choose():
    """Not even where there was nothing to choose on, and now there is; on request they do."""
    first = new("graded").fit(["cash"], ["spam"])
    assert first.model_.choice is None
    copied = first.empty().partial_fit(X, Y)
    assert copied.model_.choice is None
    assert (copied + copied).model_.choice is None
    assert len(copied.kept_) == 0
    with pytest.raises(DecibanError, match="too few"):
        copied.refit_reliability()
    assert copied.refit_reliability(X, Y).model_.choice is not None
    assert len(copied.partial_fit(["more cash"], ["spam"]).kept_) == 1, "from then on it chooses automatically"
    assert len(first.empty().fit(X, Y).kept_) == 8


def test_classes_that_only_one_part_has():
    first = new("graded").fit(X, Y)
    part = first.empty().partial_fit(["bread and cheese"], ["food"])
    assert (first + part).classes_.tolist() == ["food", "ham", "spam"]
    assert (first.empty() + part).class_count_.tolist() == [1.0, 0.0, 0.0]
    closed = new("graded").partial_fit(X, Y, classes=["ham", "spam"]).empty()
    with pytest.raises(ValueError, match="do not exist"):
        closed.partial_fit(["bread"], ["food"])


@pytest.mark.parametrize("kind", ["graded", "multinomial"])
def test_the_smaller_is_looked_up_in_the_larger(kind):
    """On either side, and whichever has the prior: the sums are the same."""
    small, large = fitted(kind, None, prior={"cash": 2.0}), new(kind, None, prior={"cash": 2.0})
    large.fit([f"{text} word{i} other{i}" for i in range(5) for text in X], Y * 5)
    one, two = small + large, large + small
    assert set(one.vocabulary_) == set(two.vocabulary_)
    for merged in (one, two):
        np.testing.assert_allclose(merged.predict_log_proba(NEW), one.predict_log_proba(NEW), rtol=1e-9, atol=1e-9)
    assert small.class_count_.tolist() == [4.0, 4.0]


# ------------------------------------------------------------------ invalid files


@pytest.mark.parametrize("kind", ["graded", "multinomial"])
@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda buckets: buckets + 1000, "not among the 64"),
        (lambda buckets: -buckets - 1, "not among the 64"),
        (lambda buckets: np.full_like(buckets, 7), "not distinct"),
        (lambda buckets: buckets.astype(np.int64), "expected a row of int32"),
        (lambda buckets: buckets[:-1], "sums"),
    ],
)
def test_buckets_of_a_file_are_checked(kind, spoil, message):
    document, tensors = files.parts(fitted(kind).model_)
    tensors["words.buckets"] = spoil(tensors["words.buckets"])
    with pytest.raises(FileError, match=message):
        files.rebuild(document, tensors)


@pytest.mark.parametrize("kind", ["graded", "multinomial"])
@pytest.mark.parametrize("number", [0, True, "64", 2**31, -5, 64.0])
def test_a_file_has_the_number_of_buckets(kind, number):
    document, tensors = files.parts(fitted(kind).model_)
    document["graded" if kind == "graded" else "text"]["n_features"] = number
    with pytest.raises(FileError, match="buckets"):
        files.rebuild(document, tensors)


def test_a_filter_of_mail_that_keeps_no_word(tmp_path):
    spam = [f"Subject: you win\n\nClaim cash prize {i} now!" for i in range(30)]
    ham = [f"Subject: lunch\n\nSee you at noon in room {i}?" for i in range(30)]
    trained = SpamFilter(n_features=2**16, n_jobs=1).train(spam, "spam").train(ham, "ham")
    mails = ["Subject: you win\n\nClaim your cash now!", "Subject: lunch\n\nat noon?"]
    assert trained.predict(mails).tolist() == ["spam", "ham"]
    assert isinstance(trained.model_.sums.lexicon, HashedLexicon)
    trained.save(tmp_path / "filter")
    assert b"prize" not in (tmp_path / "filter").read_bytes()
    np.testing.assert_array_equal(deciban.load(tmp_path / "filter").predict_proba(mails), trained.predict_proba(mails))
    assert trained.correct(ham[0], "spam").class_count_.tolist() == [29.0, 31.0]
