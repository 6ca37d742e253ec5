"""Graded evidence of texts, against its equations written out, and the weights fitted by leave-one-out."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace
from itertools import pairwise

import graded_by_hand as by_hand
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deciban import TextClassifier
from deciban._kernel.text import Documents
from deciban.bayes import DECIBANS
from deciban.errors import DecibanError, SchemaError
from deciban.pool import Pool
from deciban.reading.labels import Labels, read_labels
from deciban.text import graded, kept, parallel
from deciban.text.documents import Texts
from deciban.text.graded import Graded, TextChoice
from deciban.text.items import BLOCKS, GAPS, Lexicon, choose_blocks
from deciban.text.kept import Kept
from deciban.text.sums import damped
from deciban.text.tables import KNOTS, MAX_KNOWLEDGE, MIN_KNOWLEDGE, PER_BLOCK, STRENGTHS, VECTORS
from deciban.threads import ENTRIES_PER_BLOCK

LETTER = "Subject: Cheap CASH now\nTo: you\n  and you\n\nDear friend,\nwin cash: now!!"
TALES = [
    LETTER,
    "",
    "  \t\n",
    "a",
    "Win cash, win CASH... now?",
    "ΌΣΟΣ σος",
    "日本語 text—mixed_case",
    "e\u0301 é",
    "one two three four five six",
]


# ------------------------------------------------------------------ items


def items_of(text: str, block: str) -> set:
    lexicon = Lexicon()
    (_, indices) = lexicon.read(Documents([text]), 0, 1, ("words", block) if block != "words" else ("words",))[block]
    assert len(set(indices.tolist())) == len(indices), "items of a document are distinct"
    if block in ("words", "characters"):
        return set(getattr(lexicon, block).strings(indices))
    return set(lexicon.parts(block, indices))


@pytest.mark.parametrize("text", TALES)
@pytest.mark.parametrize("block", BLOCKS)
def test_the_items_of_a_text(text, block):
    assert items_of(text, block) == by_hand.items(text, block)


def test_the_items_of_a_text_in_so_many_words():
    assert items_of("Win cash!! Win", "words") == {"win", "cash", "!!"}
    pairs = {("", "win"), ("win", "cash"), ("cash", "!!"), ("!!", "win"), ("win", "")}
    assert items_of("Win cash!! Win", "pairs") == pairs
    assert items_of("a b c d", "gaps") == {("a", "c"), ("b", "d"), ("a", "d")}
    assert items_of("win", "characters") == {" wi", "win", "in ", " win", "win ", " win "}
    assert items_of("Subject: cash\n\ncash", "headers") == {("subject", "cash")}
    assert items_of("win cash Win win now", "repeats") == {("win", "2"), ("win", "3")}


PIECES = ["cash", "WIN", "noon", "a", "!", "?!", "日本", "Subject: re\n", "\n", " x: y\n"]
texts = st.lists(st.sampled_from(PIECES), max_size=8).map(" ".join)


@given(texts, st.sampled_from(["words", "pairs", "gaps", "characters", "repeats"]))
def test_the_items_of_any_text(text, block):
    assert items_of(text, block) == by_hand.items(text, block)


def rows_by_hand(text: str) -> dict[str, list]:
    """The distinct items of a text of words between blanks, in the order in which they first come."""
    words = text.split()
    found = {"words": words, "pairs": list(pairwise(["", *words, ""])) if words else []}
    found["gaps"] = [pair for shift in GAPS for pair in zip(words, words[shift:], strict=False)]
    return {block: list(dict.fromkeys(items)) for block, items in found.items()}


@pytest.mark.parametrize("others", [0, 50_000], ids=["few words known", "many"])
@given(st.lists(st.lists(st.sampled_from("abcdefghij"), max_size=20).map(" ".join), min_size=1, max_size=5))
def test_rows_are_distinct_items_in_order(others, documents):
    """Learned, and asked about where half of the texts are known; where many words are known they are met otherwise."""
    blocks, lexicon = ("words", "pairs", "gaps"), Lexicon()
    lexicon.words.add([f"other{i}" for i in range(others)])
    half = (len(documents) + 1) // 2
    learned = lexicon.read(Documents(documents[:half]), 0, half, blocks)
    asked = lexicon.numbered(Documents(documents), 0, len(documents), blocks)
    for block in blocks:
        expected = [rows_by_hand(text)[block] for text in documents]
        (indptr, numbers), (asked_indptr, asked_numbers) = learned[block], asked[block]
        named = lexicon.words.strings if block == "words" else lambda which, block=block: lexicon.parts(block, which)
        assert [list(named(numbers[a:b])) for a, b in pairwise(indptr)] == expected[:half]
        known = {item for row in expected[:half] for item in row}
        for row, (a, b) in zip(expected, pairwise(asked_indptr), strict=True):
            mine = asked_numbers[a:b]
            assert (mine >= 0).tolist() == [item in known for item in row]
            assert list(named(mine[mine >= 0])) == [item for item in row if item in known]


def test_a_word_is_cut_where_it_is_no_word_any_more():
    assert items_of("x" * 1000 + " y", "words") == {"x" * 256, "y"}


@pytest.mark.parametrize(
    ("documents", "blocks"),
    [
        (["see you at lunch"] * 3, ("words", "pairs", "gaps", "characters")),
        (["Subject: lunch\n\nsee you"] * 3, ("words", "pairs", "headers", "gaps", "characters")),
        (["Subject: lunch\n\nsee you"] * 3 + ["see you"] * 4, ("words", "pairs", "gaps", "characters")),
        ([" ".join(f"word{i}" for i in range(100))] * 3, ("words", "pairs")),
        (["Subject: x\n\n" + " ".join(f"word{i}" for i in range(100))] * 3, ("words", "pairs", "headers")),
        ([" ".join(["same"] * 1000)] * 3, ("words", "pairs", "gaps", "characters")),
        (["a a b b c c d d e e"] * 3, ("words", "pairs", "gaps", "characters", "repeats")),
    ],
    ids=["short", "short letters", "few letters", "long", "long letters", "long, few distinct words", "repeats"],
)
def test_which_blocks_suit_which_texts(documents, blocks):
    assert choose_blocks(Documents(documents)) == blocks
    y = np.arange(len(documents)) % 2
    assert TextClassifier().fit(documents, y).model_.sums.blocks == blocks


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100, 12345])
def test_presence_is_damped_by_length(size):
    rows = np.array([0, size], dtype=np.int64), np.arange(size, dtype=np.int32)
    assert damped(rows)[0] == by_hand.presence(size) == pytest.approx(size**-0.75, rel=1e-4)
    assert damped(rows)[0] * 2**30 == int(damped(rows)[0] * 2**30), "a multiple of 2^-30"


# ------------------------------------------------------------------ evidence

CORPUS = [
    ("win cash now", 1),
    ("claim a CASH prize now!", 1),
    ("Subject: win\n\nwin a prize", 1),
    ("lunch at noon?", 0),
    ("Subject: noon\nTo: us\n\nsee you at lunch", 0),
    ("at noon", 0),
    ("ice cream now", 2),
    ("cream!", 2),
]
X, Y = [text for text, _ in CORPUS], [label for _, label in CORPUS]


def fitted(**more) -> TextClassifier:
    return TextClassifier(blocks=BLOCKS, n_jobs=1, **more).fit(X, Y)


def by_definition(learned, text, block, corpus, weight=None):
    """One block's vectors by the equations, under the model's strengths."""
    weight = [1.0] * len(corpus) if weight is None else weight
    documents = [by_hand.items(other, block) for other, _ in corpus]
    N = by_hand.sums(documents, [label for _, label in corpus], weight)
    pi = by_hand.shares([label for _, label in corpus], weight, 3)
    strengths = learned.model_.strengths()[block]
    factor = learned.model_.shares().factor
    items = by_hand.items(text, block)
    return by_hand.evidence(items, N, pi, strengths, KNOTS, MIN_KNOWLEDGE, MAX_KNOWLEDGE, None, factor), pi > 0


def compare(actual, expected, error, present):
    first = int(np.flatnonzero(present)[0])
    actual, expected = actual - actual[..., [first]], expected - expected[..., [first]]
    assert (np.abs(actual - expected)[..., present] <= error[..., None]).all()


def vectors(learned, rows, **more):
    out = learned.model_.evidence(rows) if not more else learned.model_.evidence_without(rows, **more)
    return out.reshape(len(out), len(BLOCKS), len(STRENGTHS), VECTORS, -1)


def numbered(learned, documents):
    ((_, rows),) = graded.numbered(Documents(documents), learned.model_.sums.lexicon, BLOCKS, 1)
    return rows


@pytest.mark.parametrize("text", ["win lunch now!", "entirely unheard", "Subject: cash\n\nwin ice cream", "", *X[:2]])
def test_evidence_of_a_text_is_the_definition(text):
    learned = fitted()
    evidence = vectors(learned, numbered(learned, [text]))
    for b, block in enumerate(BLOCKS):
        (expected, error), there = by_definition(learned, text, block, CORPUS)
        compare(evidence[0, b], expected, error, there)


@pytest.mark.parametrize("weight", [None, [1.0, 0.5, 2.0, 1.0, 0.3, 1.0, 2.0, 1.0]])
def test_evidence_without_a_text_is_that_of_a_model_without_it(weight):
    learned = TextClassifier(blocks=BLOCKS, n_jobs=1).fit(X, Y, sample_weight=weight)
    w = None if weight is None else np.array(weight)
    own = np.array(Y, dtype=np.int32)
    evidence = vectors(learned, numbered(learned, X), own=own, weight=w)
    for i, (text, _) in enumerate(CORPUS):
        rest = [row for j, row in enumerate(CORPUS) if j != i]
        left = None if weight is None else [one for j, one in enumerate(weight) if j != i]
        for b, block in enumerate(BLOCKS):
            (expected, error), there = by_definition(learned, text, block, rest, left)
            compare(evidence[i, b], expected, error, there)


def test_the_strengths_are_in_documents_of_mean_presence():
    learned = fitted()
    for block, strengths in learned.model_.strengths().items():
        mean = np.mean([by_hand.presence(len(by_hand.items(text, block))) for text in X])
        assert strengths == pytest.approx(np.array(STRENGTHS) * mean, rel=1e-12)


def test_a_prior_is_documents_that_were_not_seen():
    """Pseudo-counts of n are n documents of mean presence that have the word: in the sums of words, nowhere else."""
    learned = fitted(prior={"CASH": {1: 3.0}, "zebra": 2.0})
    unit = learned.model_.strengths()["words"][1]
    text = "cash zebra noon"
    N = by_hand.sums([by_hand.items(other, "words") for other in X], Y, [1.0] * len(X))
    N["cash"][1] += 3.0 * unit
    N["zebra"] = dict.fromkeys(range(3), 2.0 * unit)
    pi = by_hand.shares(Y, [1.0] * len(Y), 3)
    strengths = learned.model_.strengths()["words"]
    expected, error = by_hand.evidence(
        by_hand.items(text, "words"), N, pi, strengths, KNOTS, MIN_KNOWLEDGE, MAX_KNOWLEDGE
    )
    evidence = vectors(learned, numbered(learned, [text]))
    compare(evidence[0, 0], expected, error, pi > 0)
    (pairs, error), there = by_definition(learned, text, "pairs", CORPUS)
    compare(evidence[0, 1], pairs, error, there)


def test_the_answer_is_the_pool_of_the_evidence():
    learned, text = fitted(), "win lunch now!"
    choice = learned.model_.choice
    scores = learned.predict_joint_log_proba([text])[0]
    expected = np.log([3 / 8, 3 / 8, 2 / 8]) + choice.pool.offsets
    for b, block in enumerate(BLOCKS):
        (evidence, _), _ = by_definition(learned, text, block, CORPUS)
        weights = choice.pool.weights[b * PER_BLOCK : (b + 1) * PER_BLOCK].reshape(len(STRENGTHS), VECTORS)
        expected = expected + np.einsum("sv,svk->k", weights, evidence)
    np.testing.assert_allclose(scores - scores[0], expected - expected[0], rtol=1e-9, atol=1e-9)


# ------------------------------------------------------------------ reliability

WORDS = {"spam": ["cash", "win", "prize", "now", "click"], "ham": ["lunch", "noon", "see", "you", "work"]}
COMMON = ["the", "a", "at", "and", "we", "for", "!", "?"]


def messages(n: int, seed: int = 0, shared: float = 0.5) -> tuple[list[str], list[str]]:
    """Messages whose words are their class's own or anybody's."""
    rng = np.random.default_rng(seed)
    y = [str(label) for label in rng.choice(["spam", "ham"], n, p=[0.4, 0.6])]
    both = WORDS["spam"] + WORDS["ham"]
    out = []
    for label in y:
        size = int(rng.integers(3, 12))
        own = rng.choice(WORDS[label], size)
        anybody = rng.choice(COMMON + both, size)
        out.append(" ".join(np.where(rng.random(size) < shared, anybody, own)))
    return out, y


def test_a_batch_of_short_texts_is_shared_among_threads(monkeypatch):
    texts, y = messages(300)
    many = texts * (ENTRIES_PER_BLOCK // graded.ANSWERS_PER_BYTE // sum(map(len, texts)) + 1)
    model = TextClassifier(n_jobs=1).fit(texts, y)
    expected, workers = model.predict_proba(many), []
    monkeypatch.setattr(parallel, "in_threads", lambda work, n, threads: workers.append(threads) or map(work, range(n)))
    assert np.array_equal(model.set_params(n_jobs=2).predict_proba(many), expected)
    assert np.array_equal(model.predict_proba(texts[:10]), expected[:10])
    assert workers == [2]


@pytest.mark.parametrize("blocks", ["auto", ("words",)])
def test_it_learns_and_its_probabilities_are_calibrated(blocks):
    texts, y = messages(400)
    new, truth = messages(2000, seed=1)
    learned = TextClassifier(blocks=blocks, n_jobs=1).fit(texts, y)
    rows, codes = np.arange(len(new)), np.searchsorted(learned.classes_, truth)
    proba = learned.predict_proba(new)
    loss, right = -np.log(proba[rows, codes]).mean(), (proba.argmax(axis=1) == codes).mean()
    assert right > 0.9
    # The share of 2000 answers has a standard error of 0.006, and 400 documents leave a doubt of about twice as much.
    assert proba.max(axis=1).mean() == pytest.approx(right, abs=0.03)
    # The weights were fitted on the same documents, so leave-one-out is slightly optimistic.
    assert learned.leave_one_out(texts, y).log_loss == pytest.approx(loss, abs=0.06)
    plain = TextClassifier(reliability=None, n_jobs=1).fit(texts, y)
    # Words were drawn independently, as naive Bayes assumes, and counts carry more information than presence: here
    # naive Bayes cannot be beaten, but the difference must be small.
    assert loss < -np.log(plain.predict_proba(new)[rows, codes]).mean() + 0.08


def test_a_merge_refits_weights_like_one_fit():
    texts, y = messages(60)
    whole = TextClassifier(blocks=["words", "pairs"], n_jobs=1).fit(texts, y)
    parts = [TextClassifier(blocks=["words", "pairs"], n_jobs=1).fit(texts[i::3], y[i::3]) for i in range(3)]
    for merged in (parts[0] + parts[1] + parts[2], sum(parts), sum(parts[::-1])):
        assert len(merged.kept_) == 60
        merged.refit_reliability()
        # The pool's loop ends at steps that gain 1e-9, and rows come in another order.
        np.testing.assert_allclose(merged.predict_proba(texts), whole.predict_proba(texts), atol=1e-5)
    learned = TextClassifier(blocks=["words", "pairs"], n_jobs=1)
    for part in (slice(40, 60), slice(0, 20), slice(20, 40)):
        learned.partial_fit(texts[part], y[part])
    learned.refit_reliability()
    np.testing.assert_allclose(learned.predict_proba(texts), whole.predict_proba(texts), atol=1e-5)


def test_a_merge_takes_the_reliabilities_of_the_one_that_has_seen_more():
    texts, y = messages(60)
    large, small = (TextClassifier(blocks=["words"], n_jobs=1).fit(texts[s], y[s]) for s in (slice(40), slice(40, 60)))
    for merged in (large + small, small + large):
        assert merged.model_.choice is large.model_.choice
        assert merged.model_.sums.weight.sum() == 60
    one_each = TextClassifier(blocks=["words"], n_jobs=1).fit(["x", "y"], ["spam", "ham"])
    assert (one_each + small).model_.choice is small.model_.choice


def test_reliabilities_of_documents_that_are_given():
    texts, y = messages(60)
    learned = TextClassifier(blocks=["words"], n_jobs=1).fit(texts, y)
    before = learned.predict_proba(texts)
    again = copy.deepcopy(learned).refit_reliability(texts, y)
    np.testing.assert_allclose(again.predict_proba(texts), before, atol=1e-5)
    with pytest.raises(DecibanError, match="to fit reliabilities"):
        copy.deepcopy(learned).refit_reliability()  # a copy by way of pickling has kept none
    with pytest.raises(DecibanError, match="learned nothing of class 'eggs'"):
        learned.refit_reliability(texts, ["eggs"] * len(y))
    with pytest.raises(DecibanError, match="learned"):
        learned.refit_reliability(texts * 2, y * 2)
    np.testing.assert_array_equal(learned.predict_proba(texts), before)


def test_partial_fit_holds_what_was_chosen():
    texts, y = messages(60)
    learned = TextClassifier(blocks=["words"], n_jobs=1).fit(texts[:40], y[:40])
    choice = learned.model_.choice
    assert learned.partial_fit(texts[40:], y[40:]).model_.choice is choice
    assert learned.forget(texts[:5], y[:5]).model_.choice is choice
    assert learned.refit_reliability().model_.choice is not choice


def test_nothing_is_chosen_before_there_are_documents_to_choose_on():
    """With one document per class, no class is left without it. Then every block has the default weight."""
    learned = TextClassifier(n_jobs=1).fit(["win cash", "see lunch"], ["spam", "ham"])
    assert learned.model_.choice is None
    assert learned.predict(["cash", "lunch"]).tolist() == ["spam", "ham"]
    kinds = [row[1:3] for row in learned.reliability_.rows]
    assert kinds == [(1.0, "all, equally"), (1.0, "all, by information")] * len(learned.model_.sums.blocks)
    learned.partial_fit(["win prize", "lunch noon"], ["spam", "ham"])
    assert learned.model_.choice is not None, "now there is"


def test_a_class_that_comes_later_has_no_offset():
    texts, y = messages(40)
    learned = TextClassifier(blocks=["words"], n_jobs=1).fit(texts, y)
    choice = learned.model_.choice
    learned.partial_fit(["goulash recipe", "recipe of goulash"], ["cooking"] * 2)
    assert learned.classes_.tolist() == ["cooking", "ham", "spam"]
    assert choice.of_classes(learned.classes_).pool.offsets.tolist() == [0.0, *choice.pool.offsets.tolist()]
    assert learned.predict(["goulash recipe"]).tolist() == ["cooking"]


def test_it_does_not_learn_from_random_labels():
    """With random labels nothing can be learned, and the probabilities are close to even."""
    texts, new = messages(300)[0], messages(1000, seed=2)[0]
    losses = []
    for seed in (4, 5, 6):
        rng = np.random.default_rng(seed)
        learned = TextClassifier(n_jobs=1).fit(texts, rng.choice(["spam", "ham"], 300))
        proba = learned.predict_proba(new)
        losses.append(-np.log(proba[np.arange(1000), rng.integers(0, 2, 1000)]).mean())
    # The best possible loss is −log 0.5. Some 20 weights fitted to noise cost 20/(2·300) on average; three times as
    # much would be overfitting.
    assert np.mean(losses) < np.log(2.0) + 0.1


def test_the_strongest_words_where_importance_is_not_stored():
    learned = fitted()
    learned.model_ = replace(learned.model_, choice=replace(learned.model_.choice, importance=None))
    rows = learned.top_words(1, n=3).rows
    N = by_hand.sums([by_hand.items(text, "words") for text in X], Y, [1.0] * len(X))
    m, pi = learned.model_.strengths()["words"][1], 3 / 8
    for label, word, db in rows:
        p = (N[word][1] + m * pi) / (sum(N[word].values()) + m)
        assert label == 1
        assert db == pytest.approx(DECIBANS * np.log(p / (1 - p) * (1 - pi) / pi))
    assert [db for _, _, db in rows] == sorted((db for _, _, db in rows), reverse=True)
    assert {word for _, word, _ in rows} <= {"win", "cash", "prize", "now", "claim", "a", "!"}


def test_a_sample_has_words_of_its_class():
    learned = fitted()
    texts, labels = learned.sample(50, given=2, random_state=0, length=2)
    assert labels.tolist() == [2] * 50
    allowed = by_hand.items("ice cream now", "words") | by_hand.items("cream!", "words")
    for text in texts:
        words = text.split()
        assert len(words) == len(set(words)) == 2
        assert set(words) <= allowed
    count = sum("cream" in text for text in texts)
    assert count > sum("now" in text for text in texts), "cream is in both documents, and less damped in one"
    drawn, labels = learned.sample(300, random_state=1)
    # 300 draws of classes with shares 3/8, 3/8 and 2/8: a standard error of 0.028 at most.
    assert np.bincount(labels, minlength=3) / 300 == pytest.approx([3 / 8, 3 / 8, 2 / 8], abs=0.1)
    assert np.mean([len(text.split()) for text in drawn]) > 1.0


def test_which_documents_are_kept_depends_on_their_content(monkeypatch):
    monkeypatch.setattr(kept, "MAX_KEPT_DOCUMENTS", 20)
    rows = [(f"text {i}", "ab"[i % 2], 1.0) for i in range(100)]
    whole = Kept(tuple(rows)).limited(20)
    assert len(whole) == 20
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(100)
        shuffled = [rows[i] for i in order]
        parts = [Kept(tuple(shuffled[i : i + 30])) for i in range(0, 100, 30)]
        merged = sum(parts[1:], parts[0])
        assert set(merged.rows) == set(whole.rows)
    left = whole - Kept((whole.rows[3], whole.rows[5]))
    assert left.rows == (*whole.rows[:3], whole.rows[4], *whole.rows[6:])
    assert (whole - Kept((("never kept", "a", 1.0),))).rows == whole.rows
    heavy = Kept((("x", "a", 3.0),)) - Kept((("x", "a", 1.0), ("x", "b", 1.0)))
    assert heavy.rows == (("x", "a", 2.0),)


@pytest.mark.parametrize("settings", [{}, {"reliability": None, "alpha": "loo"}], ids=["graded", "plain"])
def test_a_model_that_chooses_keeps_documents_and_one_of_nothing_does_not(settings):
    """They are part of the value: added, subtracted and scaled with its sums, and in no pickle."""
    first = TextClassifier(**settings, n_jobs=1).fit(X, Y)
    model, labels = first.model_, read_labels(Y, len(Y))
    assert [text for text, _, _ in model.kept.rows] == list(X)
    assert model.choosing
    assert len((model + model).kept) == 2 * len(X)
    some = np.array([0, 1])
    assert [text for text, _, _ in model.forget(Texts(X).take(some), labels.take(some)).kept.rows] == list(X[2:])
    assert {weight for _, _, weight in model.scale(0.5).kept.rows} == {0.5}
    again = pickle.loads(pickle.dumps(model))
    assert (len(again.kept), again.choosing) == (0, True)
    none = model.zero()
    assert (len(none.kept), none.choosing) == (0, False)
    assert len(none.learn(Texts(X), labels).kept) == 0
    assert not pickle.loads(pickle.dumps(none)).choosing


def test_a_model_that_chooses_nothing_keeps_nothing():
    learned = TextClassifier(reliability=None).fit(X, Y)
    assert len(learned.partial_fit(X, Y).kept_) == 0


# ------------------------------------------------------------------ models are values


def test_models_of_other_blocks_do_not_merge():
    with pytest.raises(SchemaError, match="use the same blocks= for both"):
        TextClassifier(blocks=["words"]).fit(X, Y) + TextClassifier(blocks=["words", "pairs"]).fit(X, Y)


def test_a_model_is_a_value():
    learned = TextClassifier(n_jobs=1).fit(X, Y)
    before, proba = learned.model_, learned.predict_proba(X)
    learned.partial_fit(["more words"], [1]).forget(X[:2], Y[:2])
    assert before.sums.weight.tolist() == [3.0, 3.0, 2.0]
    assert learned.model_.sums.weight.tolist() == [3.0, 2.0, 2.0]
    learned.model_ = before
    np.testing.assert_array_equal(learned.predict_proba(X), proba)


def test_offsets_and_weights_by_block_and_class():
    weights = np.arange(2 * PER_BLOCK, dtype=float)
    choice = TextChoice(
        {"words": np.ones(3), "pairs": np.ones(3)},
        np.array([1.0, 4.0]),
        np.zeros(0),
        Pool(weights, np.array([1.0, 2.0])),
        np.array(["a", "b"]),
    )
    assert choice.weights("pairs")[0, 0] == PER_BLOCK
    assert choice.weights("words")[1, 2] == VECTORS + 2
    assert choice.of_classes(np.array(["b", "c"])).pool.offsets.tolist() == [2.0, 0.0]


@given(st.lists(st.tuples(texts, st.integers(0, 1)), min_size=4, max_size=8))
def test_no_words_at_all_is_the_prior(corpus):
    empty = Graded.none(np.array([0, 1]), ("words", "pairs"), {}, True, "empirical")
    codes = np.array([label for _, label in corpus], dtype=np.int32)
    learned = empty.learn(Texts([text for text, _ in corpus]), Labels(empty.classes, codes), None, 1)
    scores = learned.log_joints(Texts(["", "unheard of"]), 1)
    with np.errstate(divide="ignore"):
        prior = np.log(np.bincount(codes, minlength=2) / len(codes))
    np.testing.assert_allclose(np.exp(scores), np.exp([prior, prior]), rtol=1e-12)
