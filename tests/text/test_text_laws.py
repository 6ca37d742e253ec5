"""A text model is a sum: any split and order of learning, forgetting, leave-one-out, merging, files, decibans.

Weights are fitted in test_graded.py; here they are random numbers ≥ 0, so that every vector counts.
"""

from __future__ import annotations

import copy
import json
import tempfile
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
import tokens_by_hand as by_hand
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.utils import murmurhash3_32

import deciban
from deciban import CountVectorizer, MultinomialNB, TextClassifier
from deciban.bayes import DECIBANS
from deciban.errors import ForgetError
from deciban.pool import Chosen, Pool
from deciban.text import graded
from deciban.text.items import BLOCKS

KINDS = {
    "graded": {"blocks": BLOCKS},
    "graded words": {"blocks": ["words"]},
    "graded, prior": {"blocks": ["words", "pairs"], "prior": {"cash": 2.0, "zebra": 1.5, "Lunch": 0.5}},
    "multinomial": {"reliability": None},
    "bernoulli": {"reliability": None, "family": "bernoulli"},
    "complement": {"reliability": None, "family": "complement", "alpha": 0.5},
    "multinomial, prior": {"reliability": None, "prior": {"cash": 2.0, "zebra": 1.5, "Lunch": 0.5}, "alpha": 0.1},
    # Few buckets, so that different items are in one of them.
    "graded, hashed": {"blocks": BLOCKS, "n_features": 50},
    "graded, prior, hashed": {"blocks": ["words", "pairs"], "prior": {"cash": 2.0, "zebra": 1.5}, "n_features": 5},
    "multinomial, hashed": {"reliability": None, "n_features": 5},
    "bernoulli, prior, hashed": {"reliability": None, "family": "bernoulli", "prior": {"cash": 2.0}, "n_features": 5},
}
kinds = st.sampled_from(sorted(KINDS))
every_kind = pytest.mark.parametrize("kind", sorted(KINDS))
PIECES = [
    "cash",
    "CASH",
    "win",
    "prize",
    "lunch",
    "noon",
    "at",
    "ice cream",
    "日本",
    "日本語",
    "ไม่ดี",
    "한국어",
    "р\u0430ypal",
    "ｃａｓｈ",
    "👩‍👩‍👧🇫🇷",
    "naïve",
    "!!",
    "?",
    "x",
    "Re: hi\n",
]


@pytest.fixture(autouse=True, scope="module")
def any_reliability():
    """Weights that do not depend on the documents."""

    def choose(evidence, y, log_prior, *others):
        del y, others
        rng = np.random.default_rng(evidence.shape[1])
        believed = rng.random(evidence.shape[1]) < 0.6
        pool = Pool(rng.exponential(0.3, evidence.shape[1]) * believed, rng.normal(size=len(log_prior)))
        return Chosen(pool, None, ())

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(graded, "cross_fit", choose)
        yield


texts = st.lists(st.sampled_from(PIECES), max_size=7).map(" ".join)
documents = st.tuples(texts, st.sampled_from("abc"))
corpora = st.lists(documents, min_size=1, max_size=9)


def model(kind: str, **more) -> TextClassifier:
    return TextClassifier(**KINDS[kind], **more, n_jobs=1)


def fit(kind: str, corpus, weight=None, **more) -> TextClassifier:
    return model(kind, **more).fit(*zip(*corpus, strict=True), sample_weight=weight)


def apart(corpus) -> tuple[list, list]:
    return [text for text, _ in corpus], [label for _, label in corpus]


def sums(fitted: TextClassifier) -> dict:
    """The sums by names of items and classes, since numbers of items depend on the order of learning."""
    labels = fitted.classes_.tolist()
    out: dict = {("documents", label): n for label, n in zip(labels, fitted.class_count_.tolist(), strict=True)}
    if fitted.reliability is None:
        words, stats = fitted.model_.words.strings(), fitted.model_.model.stats.sums[0]["x"]
        for c, w in zip(*np.nonzero(stats), strict=True):
            out["words", words[w], labels[c]] = float(stats[c, w])
        return out
    lexicon = fitted.model_.sums.lexicon
    for block, cells in fitted.model_.sums.cells.items():
        names = item_names(lexicon, block)
        assert len(set(names)) == len(names)
        for w, name in enumerate(names):
            for e in range(cells.ptr[w], cells.ptr[w + 1]):
                out[block, name, labels[cells.cls[e]]] = float(cells.val[e])
        out["mass", block] = fitted.model_.sums.mass[block]
    return out


def item_names(lexicon, block: str) -> list:
    if lexicon.n_features is not None:
        return lexicon.names(block, np.arange(lexicon.size(block), dtype=np.int32))
    return lexicon.parts(block)


def same(one: TextClassifier, two: TextClassifier) -> None:
    """Sums are multiples of 2^−30, or whole numbers: they are exactly equal."""
    assert sums(one) == sums(two)
    assert vocabulary(one) == vocabulary(two)


def vocabulary(fitted: TextClassifier) -> set:
    """The words that were learned, or the buckets that they are in."""
    if fitted.n_features is None:
        return set(fitted.vocabulary_)
    if fitted.reliability is None:
        return set(fitted.model_.words.strings())
    return {name for block, name, *_ in sums(fitted) if block == "words"}


def of_the_prior(kind: str) -> set:
    """What stays in the vocabulary after everything is forgotten."""
    words, buckets = {word.lower() for word in KINDS[kind].get("prior", ())}, KINDS[kind].get("n_features")
    if buckets is None:
        return words
    graded_kind = KINDS[kind].get("reliability", "") is not None  # has cells of what was learned alone
    return set() if graded_kind else {f"#{abs(murmurhash3_32(word)) % buckets}" for word in words}


def close(actual, expected) -> None:
    """Log-probabilities under the same sums in another order.

    A vector whose items know next to nothing (κ = 1e-9, where it is clipped) is divided by √κ, and κ is a difference of
    logarithms, rounded at 1e-16: three units in 1e-7 of it.
    """
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert (np.isneginf(actual) == np.isneginf(expected)).all()
    finite = np.isfinite(expected)
    np.testing.assert_allclose(actual[finite], expected[finite], rtol=1e-6, atol=1e-6)


NEW = ["cash prize", "lunch at noon", "", "nothing known of this", "CASH !! 日本", "ice cream ice cream x"]


# ------------------------------------------------------------------ learning


@given(kinds, corpora, st.randoms(use_true_random=False), st.lists(st.integers(1, 4), max_size=4))
def test_learning_in_any_split_and_order_is_one_fit(kind, corpus, random, cuts):
    whole = fit(kind, corpus)
    shuffled = list(corpus)
    random.shuffle(shuffled)
    pieces = []
    for cut in cuts:
        pieces.append(shuffled[:cut])
        shuffled = shuffled[cut:]
    pieces = [piece for piece in [*pieces, shuffled] if piece]
    learned = model(kind)
    for piece in pieces:
        learned.partial_fit(*apart(piece))
    same(learned, whole)
    merged = sum(fit(kind, piece) for piece in pieces)
    same(merged, whole)
    if KINDS[kind].get("reliability", "") is None:
        for one in (learned, merged):
            close(one.predict_log_proba(NEW), whole.predict_log_proba(NEW))


@given(kinds, corpora, corpora)
def test_merging_does_not_change_what_is_merged(kind, one, two):
    a, b = fit(kind, one), fit(kind, two)
    before = sums(a), sums(b), a.predict_proba(NEW), b.predict_proba(NEW)
    same(a + b, b + a)
    (a + b).partial_fit(["entirely new words"], ["d"])
    (a + b).forget(*apart(one))
    assert (sums(a), sums(b)) == before[:2]
    np.testing.assert_array_equal(a.predict_proba(NEW), before[2])
    np.testing.assert_array_equal(b.predict_proba(NEW), before[3])


@every_kind
def test_merging_is_associative(kind):
    a, b, c = (fit(kind, [(text, label)]) for text, label in [("cash win", "a"), ("win lunch", "b"), ("noon", "a")])
    for one, two, three in permutations((a, b, c)):
        same((one + two) + three, a + (b + c))


@given(kinds, corpora)
def test_an_empty_batch_is_nothing(kind, corpus):
    learned = fit(kind, corpus)
    before = sums(learned)
    learned.partial_fit([], []).forget([], [])
    assert sums(learned) == before
    learned.forget(*apart(corpus)).partial_fit([], [])
    assert learned.classes_.tolist() == []
    with tempfile.TemporaryDirectory() as folder:
        fit(kind, corpus).save(Path(folder) / "model")
        assert sums(deciban.load(Path(folder) / "model").partial_fit([], [])) == before


@given(kinds, corpora, st.data())
def test_a_weight_is_a_number_of_times(kind, corpus, data):
    times = data.draw(st.lists(st.integers(1, 3), min_size=len(corpus), max_size=len(corpus)))
    repeated = [row for row, n in zip(corpus, times, strict=True) for _ in range(n)]
    weighted, expected = fit(kind, corpus, weight=times), fit(kind, repeated)
    same(weighted, expected)
    if KINDS[kind].get("reliability", "") is None:
        close(weighted.predict_log_proba(NEW), expected.predict_log_proba(NEW))


@every_kind
def test_what_weighs_nothing_adds_nothing(kind):
    corpus = [("cash win", "a"), ("lunch noon", "b"), ("zweisam", "a"), ("win win", "a"), ("noon at", "b")]
    without = fit(kind, corpus[:2] + corpus[3:])
    weighted = fit(kind, corpus, weight=[1, 1, 0, 1, 1])
    same(weighted, without)
    close(weighted.predict_log_proba(NEW), without.predict_log_proba(NEW))
    later = fit(kind, corpus[:2] + corpus[3:]).partial_fit(["zweisam"], ["a"], sample_weight=[0.0])
    same(later, without)
    close(later.predict_log_proba(NEW), without.predict_log_proba(NEW))


@every_kind
def test_fractions_add_up(kind):
    corpus = [("cash win", "a"), ("lunch noon", "b"), ("win win", "a"), ("noon at", "b")]
    halves = fit(kind, corpus + corpus, weight=[0.5] * 8)
    same(halves, fit(kind, corpus))


# ------------------------------------------------------------------ decay


def nearly(one: TextClassifier, two: TextClassifier) -> None:
    """The same sums but for rounding, for a share of a sum is no multiple of 2^−30."""
    assert sums(one) == pytest.approx(sums(two), rel=1e-9, abs=1e-12)
    assert vocabulary(one) == vocabulary(two)


some_rows = st.floats(0.0, 12.0)  # of half-lives of a row: of a document, more than 2^−24 is left


@given(kinds, corpora, some_rows, some_rows)
def test_half_lives_add_up(kind, corpus, first, then):
    nearly(fit(kind, corpus).decay(1, first).decay(1, then), fit(kind, corpus).decay(1, first + then))
    same(fit(kind, corpus).decay(np.inf, first), fit(kind, corpus))


@given(kinds, corpora, corpora, some_rows)
def test_a_stream_is_a_fit_with_weights(kind, before, after, rows):
    stream = model(kind).decay(1, rows).partial_fit(*apart(before)).decay(1, rows).partial_fit(*apart(after))
    weight = [2.0**-rows] * len(before) + [1.0] * len(after)
    whole = fit(kind, before + after, weight=weight)
    nearly(stream, whole)
    if KINDS[kind].get("reliability", "") is None:
        close(stream.predict_log_proba(NEW), whole.predict_log_proba(NEW))


@given(kinds, corpora, corpora, st.integers(1, 12))
def test_what_is_left_can_be_forgotten(kind, before, after, rows):
    """With the weight that documents have now; with the original one, more would be forgotten than there is."""
    faded = fit(kind, before).decay(1, rows)
    with pytest.raises(ForgetError):
        copy.copy(faded).forget(*apart(before))
    learned = faded.partial_fit(*apart(after)).forget(*apart(before), sample_weight=[2.0**-rows] * len(before))
    nearly(learned, fit(kind, after))
    assert {label for _, label, _ in learned.kept_.rows} <= {label for _, label in after}


@given(kinds, corpora)
def test_of_the_distant_past_nothing_is_left_but_its_classes(kind, corpus):
    learned, classes = fit(kind, corpus), sorted({label for _, label in corpus})
    for rows in (29, 100, 1e4):
        learned.decay(1, rows)
        assert learned.classes_.tolist() == classes
        np.testing.assert_allclose(learned.predict_proba(NEW).sum(axis=1), 1.0)
    assert vocabulary(learned) == of_the_prior(kind)
    assert not learned.class_count_.any()
    learned.partial_fit(*apart(corpus))
    nearly(learned, fit(kind, corpus))


@every_kind
def test_words_that_nobody_uses_any_more_are_dropped(kind):
    """A stream does not fill the memory: after thirty half-lives a word is gone, and its pairs with it."""
    learned = model(kind)
    for i in range(100):
        learned.decay(half_life=2, rows=1).partial_fit([f"cash word{i} old{i}"], ["ab"[i % 2]])
    if learned.n_features is None:
        ages = [99 - int(word[4:]) for word in learned.vocabulary_ if word.startswith("word")]
        assert max(ages) < 2 * 31
        assert len(ages) > 2 * 25
        assert "cash" in learned.vocabulary_
    else:
        assert len(vocabulary(learned)) <= learned.n_features
    assert len(learned.kept_) < 2 * 11
    with tempfile.TemporaryDirectory() as folder:
        learned.save(Path(folder) / "model")
        loaded = deciban.load(Path(folder) / "model")
    np.testing.assert_array_equal(loaded.predict_proba(NEW), learned.predict_proba(NEW))


@every_kind
def test_reliabilities_are_fitted_on_what_is_left(kind):
    corpus = [("cash win", "a"), ("lunch noon", "b"), ("win prize", "a"), ("noon at", "b")]
    learned = fit(kind, corpus).decay(1, 3)
    if not learned.kept_.rows:  # a plain model chooses nothing
        assert learned.reliability is None
        return
    assert {weight for _, _, weight in learned.kept_.rows} == {2.0**-3}
    before = learned.model_.choice
    assert learned.refit_reliability().model_.choice is not before
    learned.partial_fit(*apart(corpus)).decay(1, 7.5)
    assert {weight for _, _, weight in learned.kept_.rows} == {2.0**-7.5}, "the weights of earlier ones are too small"
    learned.refit_reliability()


@every_kind
@pytest.mark.parametrize(("half_life", "rows"), [(0, 1), (-2, 1), (np.nan, 1), (10, -1), (10, np.nan)])
def test_a_wrong_half_life_changes_nothing(kind, half_life, rows):
    learned = fit(kind, [("cash", "a"), ("noon", "b")])
    before = learned.model_
    with pytest.raises(deciban.DecibanError, match="it must be"):
        learned.decay(half_life, rows)
    with pytest.raises(deciban.DecibanError, match="it must be"):
        model(kind).decay(half_life, rows)
    assert learned.model_ is before


# ------------------------------------------------------------------ forgetting


@given(kinds, corpora, st.lists(documents, max_size=6), st.randoms(use_true_random=False))
def test_forgetting_is_never_having_seen(kind, kept, gone, random):
    together = kept + gone
    random.shuffle(together)
    learned = fit(kind, together).forget(*apart(gone))
    expected = fit(kind, kept)
    same(learned, expected)
    learned.partial_fit(*apart(gone)).forget(*apart(gone))
    same(learned, expected)
    if KINDS[kind].get("reliability", "") is None:
        close(learned.predict_log_proba(NEW), expected.predict_log_proba(NEW))


@given(kinds, corpora)
def test_everything_can_be_forgotten_and_learned_anew(kind, corpus):
    learned = fit(kind, corpus).forget(*apart(corpus))
    assert learned.class_count_.tolist() == []
    assert vocabulary(learned) == of_the_prior(kind)
    with pytest.raises(ValueError, match="no classes"):
        learned.predict(["cash"])
    same(learned.partial_fit(*apart(corpus)), fit(kind, corpus))


@given(kinds, corpora, documents)
def test_what_was_never_learned_cannot_be_forgotten(kind, corpus, stranger):
    learned = fit(kind, corpus)
    before, proba = sums(learned), learned.predict_proba(NEW)
    for text, label in [(stranger[0] + " zebra unheard", "a"), ("cash", "d"), ("cash " * 40 + "win", "a")]:
        weight = [len(corpus) + 1.0]
        with pytest.raises(ForgetError):
            learned.forget([text], [label], sample_weight=weight)
        assert sums(learned) == before
        np.testing.assert_array_equal(learned.predict_proba(NEW), proba)


@every_kind
def test_no_string_of_a_forgotten_document_is_left(kind, tmp_path):
    corpus = [("cash win prize", "a"), ("lunch at noon", "b"), ("win a prize", "a"), ("noon lunch", "b")]
    secret = "Qwertzu: uiopü\n\nzxcvbnm cash QWERTZU!? zxcvbnm"
    learned = fit(kind, [*corpus, (secret, "a")]).forget([secret], ["a"])
    assert not {"qwertzu", "uiopü", "zxcvbnm", "!?"} & vocabulary(learned)
    if learned.reliability is not None:
        for block in BLOCKS:
            for name in item_names(learned.model_.sums.lexicon, block):
                assert not any(part in "".join(name) for part in ("zxc", "qwe", "uio", "!?")), (block, name)
    assert not any(secret in row for row in learned.kept_.rows)
    learned.save(tmp_path / "model")
    for stored in ((tmp_path / "model").read_bytes(), deciban_pickled(learned)):
        for part in ("zxc", "vbn", "qwe", "Qwe", "QWE", "uio", "!?"):
            assert part.encode() not in stored, part


def deciban_pickled(learned):
    import pickle

    return pickle.dumps(learned)


def test_only_what_was_learned_is_in_the_vocabulary():
    """The name of a field without a value is no item, though its parts are words."""
    corpus = [("X-Keywords:\nSubject: cash\n\ncash", "a"), ("lunch", "b"), ("noon", "b"), ("win", "a")]
    learned = fit("graded", corpus)
    assert set(learned.vocabulary_) == {"x", "-", "keywords", ":", "subject", "cash", "lunch", "noon", "win"}
    same(fit("graded", [*corpus, ("extra", "b")]).forget(["extra"], ["b"]), learned)


@every_kind
def test_a_model_that_has_forgotten_does_everything(kind, tmp_path):
    corpus = [("cash win prize", "a"), ("lunch at noon", "b"), ("win a prize", "a"), ("noon lunch", "b"), ("x y", "c")]
    gone = [("zebra zebra cash", "a"), ("unheard words", "d")]
    learned, expected = fit(kind, corpus + gone).forget(*apart(gone)), fit(kind, corpus)
    X, y = apart(corpus)
    assert learned.classes_.tolist() == ["a", "b", "c"]
    assert np.isfinite(learned.leave_one_out(X[:4], y[:4]).log_losses).all()
    if learned.reliability is None:
        close(learned.leave_one_out(X, y).log_proba, expected.leave_one_out(X, y).log_proba)
        if learned.family != "complement" and learned.n_features is None:
            assert sorted(learned.sample(1, random_state=0, length=3)[0][0].split()) != []
    assert learned.explain("cash lunch", "a", "b").items
    assert learned.top_words("a", n=2).rows
    learned.save(tmp_path / "model")
    np.testing.assert_array_equal(deciban.load(tmp_path / "model").predict_proba(NEW), learned.predict_proba(NEW))
    same(learned + expected, expected + expected)


@pytest.mark.parametrize(
    ("learned_as", "forgotten_as"),
    [
        ({"X": ["cash zxcvbnm"] * 2, "w": None}, {"X": ["cash zxcvbnm"], "w": [2.0]}),
        ({"X": ["cash zxcvbnm"], "w": [2.0]}, {"X": ["cash zxcvbnm"] * 2, "w": None}),
        ({"X": ["cash zxcvbnm"] * 2, "w": [0.5, 1.5]}, {"X": ["cash zxcvbnm"], "w": [2.0]}),
        ({"X": ["Cash zxcvbnm"], "w": None}, {"X": ["cash ZXCVBNM"], "w": None}),
        ({"X": ["cash  zxcvbnm"], "w": None}, {"X": ["cash zxcvbnm"], "w": None}),
    ],
    ids=["twice, then 2", "2, then twice", "parts, then whole", "another case", "another space"],
)
def test_documents_that_are_kept_are_forgotten_too(learned_as, forgotten_as):
    """Forgetting a text with the same sums as a kept document forgets that document: nothing of it stays in memory."""
    corpus = [("cash win prize", "a"), ("lunch at noon", "b"), ("win a prize", "a"), ("noon lunch", "b")]
    learned = fit("graded", corpus)
    learned.partial_fit(learned_as["X"], ["a"] * len(learned_as["X"]), sample_weight=learned_as["w"])
    learned.forget(forgotten_as["X"], ["a"] * len(forgotten_as["X"]), sample_weight=forgotten_as["w"])
    same(learned, fit("graded", corpus))
    assert not any("zxcvbnm" in text.lower() for text, _, _ in learned.kept_.rows)
    learned.refit_reliability()


# ------------------------------------------------------------------ any life of a model


steps = st.lists(
    st.one_of(
        st.tuples(st.just("learn"), st.lists(documents, max_size=3), st.sampled_from([None, 1.0, 2.0, 0.0])),
        st.tuples(st.just("forget"), st.integers(1, 4), st.just(None)),
        st.tuples(st.just("merge"), st.lists(documents, min_size=1, max_size=3), st.booleans()),
        st.tuples(st.sampled_from(["copy", "save", "refit", "ask"]), st.just(None), st.just(None)),
    ),
    max_size=6,
)


@given(kinds, corpora, steps, st.randoms(use_true_random=False))
def test_after_any_sequence_of_changes_a_model_is_the_sum_of_what_is_left(kind, corpus, steps, random):
    """The sums are those of one fit, and the documents that are kept are those that are left."""
    learned, left, saved = fit(kind, corpus), [(row, 1.0) for row in corpus], False
    for step, what, how in steps:
        if step == "learn":
            if how == 0.0:  # a class is learned of by its name, whatever its documents weigh
                what = [row for row in what if row[1] in learned.classes_.tolist()]
            weight = None if how is None else [how] * len(what)
            learned.partial_fit(*apart(what), sample_weight=weight)
            left += [(row, 1.0 if how is None else how) for row in what if how != 0.0]
        elif step == "forget" and left:
            gone = random.sample(left, min(what, len(left)))
            for one in gone:
                left.remove(one)
            rows, weight = [row for row, _ in gone], [w for _, w in gone]
            learned.forget(*apart(rows), sample_weight=weight)
        elif step == "merge" and left:
            learned = learned + fit(kind, what) if how else sum([fit(kind, what), learned])
            left += [(row, 1.0) for row in what]
        elif step == "copy":
            learned = copy.copy(learned)
        elif step == "save":
            with tempfile.TemporaryDirectory() as folder:
                learned.save(Path(folder) / "model")
                learned = deciban.load(Path(folder) / "model")
            saved = True  # no file has documents
        elif step == "refit" and left and learned.reliability is not None and not saved:
            learned.refit_reliability()
        elif step == "ask" and left:
            assert np.isfinite(learned.predict_proba(NEW)).all()
    if not left:
        assert learned.classes_.tolist() == []
        return
    same(learned, fit(kind, [row for row, _ in left], weight=[w for _, w in left]))
    if learned.reliability is not None and not saved:
        due: dict = {}
        for (text, label), weight in left:
            due[text, label] = due.get((text, label), 0.0) + weight
        for text, label, weight in learned.kept_.rows:
            due[text, label] -= weight
        assert not any(due.values())


# ------------------------------------------------------------------ leave-one-out


two_of_each = st.lists(texts, min_size=4, max_size=8).map(
    lambda all_texts: [(text, "ab"[i % 2]) for i, text in enumerate(all_texts)]
)


@given(
    st.sampled_from([kind for kind in KINDS if kind.startswith("graded")]), two_of_each, st.lists(documents, max_size=2)
)
def test_leave_one_out_is_forgetting_and_predicting(kind, corpus, more):
    """Of a graded model, with the same choice; a class that is gone without the document has probability nothing."""
    corpus = corpus + more
    learned = fit(kind, corpus)
    assert learned.model_.choice is not None
    result = learned.leave_one_out(*apart(corpus))
    for i, (text, label) in enumerate(corpus):
        left = copy.copy(learned).forget([text], [label])
        expected = np.full(len(learned.classes_), -np.inf)
        expected[np.isin(learned.classes_, left.classes_)] = left.predict_log_proba([text])[0]
        close(result.log_proba[i], expected)


def test_a_class_that_is_gone_takes_its_pseudo_counts_with_it():
    corpus = [("", "a"), ("", "b"), ("", "a"), ("", "b"), ("", "a"), ("cash", "c")]
    learned = fit("graded, prior", corpus)
    log_proba = learned.leave_one_out(["cash"], ["c"]).log_proba[0]
    left = copy.copy(learned).forget(["cash"], ["c"])
    close(log_proba, [*left.predict_log_proba(["cash"])[0], -np.inf])


@given(two_of_each, st.data())
@settings(max_examples=12)
def test_leave_one_out_of_weights(corpus, data):
    weight = data.draw(st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.0, 3.0]), min_size=len(corpus), max_size=len(corpus)))
    assume(sum(w > 0 for w in weight[::2]) >= 2 and sum(w > 0 for w in weight[1::2]) >= 2)
    learned = fit("graded", corpus, weight=weight)
    result = learned.leave_one_out(*apart(corpus), sample_weight=weight)
    for i, (text, label) in enumerate(corpus):
        left = copy.copy(learned).forget([text], [label], sample_weight=[weight[i]])
        close(result.log_proba[i], left.predict_log_proba([text])[0])


@pytest.mark.parametrize("family", ["multinomial", "bernoulli", "complement"])
@given(corpus=corpora, uniform=st.booleans())
def test_leave_one_out_of_a_plain_model_is_that_of_its_counts(family, corpus, uniform):
    """The vocabulary is fixed, as where documents are counted first."""
    X, y = apart(corpus)
    assume(any(len(word) > 1 for text in X for word in text.split() if word.isalnum()))
    assume(len(set(y)) > 1)
    learned = TextClassifier(
        reliability=None, family=family, class_prior="uniform" if uniform else None, n_jobs=1
    ).fit(X, y)  # fmt: skip
    log_proba = learned.leave_one_out(X, y).log_proba
    vectorizer = CountVectorizer(analyzer=by_hand.words)
    counts = vectorizer.fit_transform(X)
    kind = {"multinomial": MultinomialNB, "bernoulli": deciban.BernoulliNB, "complement": deciban.ComplementNB}[family]
    for i in range(len(X)):
        rest = np.arange(len(X)) != i
        refitted = kind(fit_prior=not uniform).fit(counts[rest], np.array(y)[rest])
        expected = np.full(len(learned.classes_), -np.inf)
        expected[np.isin(learned.classes_, refitted.classes_)] = refitted.predict_log_proba(counts[[i]])[0]
        close(log_proba[i], expected)


@pytest.mark.parametrize("kind", ["graded", "multinomial", "bernoulli"])
def test_a_declared_class_stays_when_its_only_document_is_left_out(kind):
    corpus = [
        ("cash win", "a"),
        ("win prize", "a"),
        ("cash now", "a"),
        ("lunch noon", "b"),
        ("noon at", "b"),
        ("x", "c"),
    ]
    learned = model(kind, class_prior="uniform").partial_fit(*apart(corpus), classes=list("abc"))
    log_proba = learned.leave_one_out(["x"], ["c"]).log_proba[0]
    left = copy.copy(learned).forget(["x"], ["c"])
    assert left.classes_.tolist() == ["a", "b", "c"]
    close(log_proba, left.predict_log_proba(["x"])[0])


@every_kind
def test_what_was_learned_can_be_left_out_with_the_same_weights(kind):
    corpus = [("cash win", "a"), ("zebra", "a"), ("lunch", "b"), ("win x", "a"), ("lunch at", "b")]
    weight = [1.0, 0.0, 1.0, 2.0, 0.5]
    result = fit(kind, corpus, weight=weight).leave_one_out(*apart(corpus), sample_weight=weight)
    assert result.log_proba.shape == (5, 2), "a row for every document, also for one of weight 0"
    assert np.isfinite(result.log_loss)


@pytest.mark.parametrize("kind", ["graded", "multinomial"])
def test_a_document_that_is_all_there_is(kind):
    learned = fit(kind, [("cash win", "a")])
    result = learned.leave_one_out(["cash win"], ["a"])
    assert result.log_losses.tolist() == [np.inf], "without it there is no class at all"
    assert result.evaluated_rows == 0
    two = fit(kind, [("cash win", "a"), ("lunch", "b")])
    assert two.leave_one_out(["cash win", "lunch"], ["a", "b"]).log_losses.tolist() == [np.inf, np.inf]


# ------------------------------------------------------------------ answers


@given(kinds, corpora, st.lists(texts, max_size=4))
def test_probabilities_are_probabilities(kind, corpus, new):
    learned = fit(kind, corpus)
    proba = learned.predict_proba([*new, *NEW])
    assert ((proba >= 0) & (proba <= 1)).all()
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, rtol=1e-12)
    logs = learned.predict_log_proba([*new, *NEW])
    np.testing.assert_allclose(np.exp(logs), proba, rtol=1e-12, atol=1e-300)
    assert (learned.predict([*new, *NEW]) == learned.classes_[np.argmax(proba, axis=1)]).all()
    one_by_one = np.vstack([learned.predict_log_proba([text]) for text in [*new, *NEW]])
    np.testing.assert_allclose(one_by_one, logs, rtol=1e-12, atol=1e-12)


@given(kinds, corpora, texts)
def test_decibans_add_up_to_the_odds(kind, corpus, text):
    learned = fit(kind, corpus)
    assume(len(learned.classes_) > 1)
    logs = learned.predict_log_proba([text])[0]
    place = {label: c for c, label in enumerate(learned.classes_.tolist())}
    for target, against in permutations(place, 2):
        why = learned.explain(text, target, against)
        assert (why.target, why.against) == (target, against)
        assert why.prior + sum(db for _, _, db in why.items) == pytest.approx(why.total, rel=1e-9, abs=1e-9)
        odds = DECIBANS * (logs[place[target]] - logs[place[against]])
        assert why.total == pytest.approx(odds, rel=1e-6, abs=1e-5)  # as `close` has it, in decibans
        assert why.probability == pytest.approx(np.exp(logs[place[target]]), rel=1e-6)
        json.dumps(why.to_dict())
    best = np.argsort(-logs, kind="stable")
    why = learned.explain(text)
    if logs[best[0]] - logs[best[1]] > 1e-6 and (len(best) < 3 or logs[best[1]] - logs[best[2]] > 1e-6):
        assert (why.target, why.against) == tuple(learned.classes_[best[:2]])


@given(kinds, corpora, corpora)
def test_a_file_brings_back_the_same_model_and_it_goes_on(kind, corpus, more):
    learned = fit(kind, corpus)
    chosen = learned.reliability is None or learned.model_.choice is not None  # else by documents, which no file has
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.deciban"
        learned.save(path)
        again = deciban.load(path)
    assert again.get_params().keys() == learned.get_params().keys()
    np.testing.assert_array_equal(again.predict_proba(NEW), learned.predict_proba(NEW))
    assert vocabulary(again) == vocabulary(learned)
    for one in (learned, again):
        one.partial_fit(*apart(more)).forget(*apart(corpus[:1]))
    same(again, learned)
    if chosen:
        np.testing.assert_allclose(again.predict_proba(NEW), learned.predict_proba(NEW), rtol=1e-9, atol=1e-12)
    same(again + learned, learned + again)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["graded", "multinomial", "graded, hashed", "multinomial, hashed"])
def test_threads_change_nothing(kind):
    rng = np.random.default_rng(0)
    words = np.array([f"w{i}" for i in range(300)])
    corpus = [(" ".join(rng.choice(words[100 * c : 100 * c + 200], 60)), "ab"[c]) for c in rng.integers(0, 2, 800)]
    one, many = fit(kind, corpus), TextClassifier(**KINDS[kind], n_jobs=3).fit(*apart(corpus))
    same(one, many)
    X, y = apart(corpus[:50])
    np.testing.assert_allclose(many.predict_proba(X), one.predict_proba(X), rtol=1e-9, atol=1e-12)
    loo = [fitted.leave_one_out(X, y).log_proba for fitted in (one, many)]
    np.testing.assert_allclose(*loo, rtol=1e-9, atol=1e-9)
