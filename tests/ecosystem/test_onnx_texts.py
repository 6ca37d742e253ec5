"""A spam filter in onnxruntime: texts in, the same probabilities out, or none."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import DATA

from deciban import SpamFilter, TextClassifier
from deciban.errors import DecibanError

pytest.importorskip("onnx", reason="onnx is not installed")
onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

TEXTS = [
    "WIN £1000 cash now!!! call 08000-930705",
    "Are you free for lunch at noon? I'll be at the café…",
    "win_win  prize\ttoday\nnaïve “quotes” — dashes 50%",
    "see you",
    "claim your prize, free free FREE",
    "",
    "a b c ! ?",
    "lunch",
]
LABELS = ["spam", "ham", "spam", "ham", "spam", "ham", "ham", "ham"]


def opened(model):
    """A function from texts to labels and probabilities."""
    session = onnxruntime.InferenceSession(model.to_onnx().SerializeToString())
    assert [(one.name, one.type) for one in session.get_inputs()] == [("text", "tensor(string)")]
    return lambda texts: session.run(None, {"text": np.array(texts, dtype=object)[:, None]})


def run(model, texts):
    return opened(model)(texts)


@pytest.mark.parametrize("settings", [{}, {"lowercase": False, "alpha": 0.01}, {"normalise": False}], ids=str)
@pytest.mark.parametrize("family", ["multinomial", "bernoulli", "complement"])
@pytest.mark.filterwarnings("ignore::deciban.ZeroEvidenceWarning")
def test_probabilities_and_labels_are_the_same(family, settings):
    model = TextClassifier(reliability=None, family=family, **settings).fit(TEXTS, LABELS)
    texts = [*TEXTS, "never seen words", "Free cash for café_win", "x" * 3000 + " cash", "cash " * 300]
    labels, proba = run(model, texts)
    np.testing.assert_allclose(proba, model.predict_proba(texts), rtol=1e-9, atol=1e-12)
    assert labels.tolist() == model.predict(texts).tolist()


@pytest.mark.filterwarnings("ignore::deciban.ZeroEvidenceWarning")
def test_words_that_rule_a_class_out():
    model = TextClassifier(reliability=None, alpha=0.0).fit(TEXTS, LABELS)
    texts = [*TEXTS, "cash lunch", "unknown"]
    np.testing.assert_allclose(run(model, texts)[1], model.predict_proba(texts), rtol=1e-9, atol=1e-12)
    with pytest.raises(DecibanError, match="use alpha > 0"):
        TextClassifier(reliability=None, alpha=0.0, family="bernoulli").fit(TEXTS, LABELS).to_onnx()


def test_one_text_at_a_time_even_without_words():
    model = TextClassifier(reliability=None).fit(TEXTS, LABELS)
    graph = opened(model)
    for text in TEXTS:
        _, proba = graph([text])
        np.testing.assert_allclose(proba, model.predict_proba([text]), rtol=1e-9)


def test_a_text_that_onnx_would_split_differently_has_no_answer():
    """Other scripts, capitals with accents, marks, ligatures, emoji, invisible characters."""
    model = TextClassifier(reliability=None).fit(TEXTS, LABELS)
    graph = opened(model)
    strange = ["日本語 cash", "пaypal cash", "ÉTÉ cash", "cash e\u0301", "ﬁne cash", "cash 😀"]
    for text in (*strange, "soft\u00adhyphen", "½ cash", "cash\u200bnow"):
        labels, proba = graph([text, TEXTS[0]])
        assert np.isnan(proba[0]).all(), text
        assert labels.tolist() == ["", "spam"]
        np.testing.assert_allclose(proba[1:], model.predict_proba(TEXTS[:1]), rtol=1e-9)


def test_any_text_of_the_characters_that_are_known():
    """Characters in any order: no mark or pair of them changes how others are split."""
    from deciban.text.plain import certain_characters
    from deciban.text.tokens import BY_SCRIPT

    rng, characters = np.random.default_rng(0), np.array(list("".join(certain_characters(True, BY_SCRIPT))))
    often = np.array(list("abAB _.'’é"))
    texts = [
        "".join(np.where(rng.random(40) < 0.5, rng.choice(often, 40), rng.choice(characters, 40))) for _ in range(200)
    ]
    model = TextClassifier(reliability=None).fit(texts, np.arange(200) % 3)
    labels, proba = run(model, texts)
    np.testing.assert_allclose(proba, model.predict_proba(texts), rtol=1e-9, atol=1e-12)
    assert labels.tolist() == model.predict(texts).tolist()


def test_what_is_refused_and_what_to_do_instead():
    for model in (
        TextClassifier(n_features=64),
        TextClassifier(reliability=None, n_features=64),
        SpamFilter(n_features=64),
    ):
        with pytest.raises(DecibanError, match=r"words are hashed, .*: fit again without n_features="):
            model.fit(TEXTS, LABELS).to_onnx()
    for model in (TextClassifier(), TextClassifier(reliability=None)):
        with pytest.raises(DecibanError, match="columns= is for tables"):
            model.fit(TEXTS, LABELS).to_onnx(columns=["a"])


# ---------------------------------------------------------------------- graded evidence

NEW = [
    *TEXTS,
    "never seen words",
    "UPPER case CASH free café_win",
    "cash " * 300,
    "free free prize free",
    "x" * 256 + " cash",
    "x" * 3000 + " cash " + "!" * 300,
    "é" * 300,
    " \t\n",
    "?",
]
ALL_BLOCKS = ("words", "pairs", "gaps", "characters", "repeats")


def check_graded(model, texts, unread=()):
    """The graph answers as the model does, all texts at once and each on its own, except those that are not read."""
    graph = opened(model)
    unread = np.isin(np.arange(len(texts)), unread)
    expected, best = model.predict_proba(texts), model.predict(texts)
    for labels, proba in (graph(texts), map(np.concatenate, zip(*(graph([text]) for text in texts), strict=True))):
        np.testing.assert_array_equal(np.isnan(proba).all(axis=1), unread)
        np.testing.assert_allclose(proba[~unread], expected[~unread], rtol=1e-9, atol=1e-12)
        np.testing.assert_array_equal(labels[~unread], best[~unread])
        assert unread.sum() == 0 or set(labels[unread]) == {""}


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"lowercase": False},
        {"normalise": False},
        {"blocks": ("words",)},
        {"blocks": ALL_BLOCKS},
        {"prior": {"cash": {"spam": 5}}},
        {"class_prior": {"ham": 0.9, "spam": 0.1}},
        {"class_prior": {"ham": 0.0, "spam": 1.0}},
        {"max_features": 20},
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore::deciban.VocabularyWarning")
def test_graded_evidence_is_the_same(settings):
    check_graded(TextClassifier(**settings).fit(TEXTS, LABELS), [text.replace("…", "") for text in NEW])


def made_up(n, seed=0):
    """Texts whose words depend on the class, of three, with repeats, and their classes."""
    rng = np.random.default_rng(seed)
    words = np.array(
        [*"0123456789", "win", "cash", "prize", "lunch", "noon", "at", "the", "café", "Monday", "£5", "!!"]
    )
    y = rng.integers(0, 3, n)
    shares = np.random.default_rng(0).dirichlet(np.full(len(words), 0.5), 3)
    return [" ".join(rng.choice(words, rng.integers(1, 30), p=shares[c])) for c in y], y


@pytest.mark.parametrize("classes", [[0, 1, 2], ["a", "b", "b"], [True, False, False], ["one"] * 3], ids=str)
def test_fitted_weights_and_common_items(classes):
    """Enough texts that weights are fitted, and the most common items modelled jointly."""
    texts, y = made_up(400)
    model = TextClassifier(blocks=ALL_BLOCKS).fit(texts, np.array(classes)[y])
    assert len(set(classes)) == 1 or model.model_.joint_slopes() is not None
    check_graded(model, [*made_up(20, seed=1)[0], *NEW[:1], *NEW[6:]])


@pytest.mark.slow
def test_many_classes():
    texts, y = made_up(600)
    model = TextClassifier().fit([f"{text} word{i % 40}" for i, text in enumerate(texts)], np.arange(600) % 40 + y)
    check_graded(model, [f"{text} word{i}" for i, text in enumerate(made_up(30, seed=1)[0])])


def test_merged_forgotten_updated_and_decayed():
    texts, y = made_up(500)
    new = [*made_up(20, seed=1)[0], *NEW[8:]]
    labels = np.array(["a", "b", "c"])[y]
    model = TextClassifier().fit(texts[:300], labels[:300])
    check_graded(model + TextClassifier().fit(texts[300:], labels[300:]), new)
    model.partial_fit(texts[300:310], labels[300:310])
    check_graded(model, new)
    model.forget(texts[:50], labels[:50])
    check_graded(model, new)
    check_graded(model.decay(0.5), new)
    check_graded(model.forget(texts[310:310], labels[310:310]).partial_fit(["entirely fresh words"], ["a"]), new)


def test_classes_that_only_one_of_two_models_has():
    texts, y = made_up(200)
    check_graded(
        TextClassifier().fit(texts[:100], y[:100] % 2) + TextClassifier().fit(texts[100:], y[100:] + 1), NEW[6:]
    )


SLOW = (pytest.param(settings, marks=pytest.mark.slow) for settings in ({"lowercase": False}, {"normalise": False}))


@pytest.mark.parametrize("settings", [{}, *SLOW], ids=str)
def test_any_text_of_simple_characters(settings):
    """Characters in any order: no mark or pair of them changes how others are split."""
    from deciban.text.tokens import TokenRule, simple_characters

    rule = TokenRule(normalise=settings.get("normalise", True))
    rng, often = np.random.default_rng(0), np.array(list("abAB _.'’é!"))
    characters = np.array(list("".join(simple_characters(settings.get("lowercase", True), rule))))
    texts = [
        "".join(np.where(rng.random(40) < 0.5, rng.choice(often, 40), rng.choice(characters, 40))) for _ in range(200)
    ]
    y = [("." in text) + ("é" in text) for text in texts]
    model = TextClassifier(blocks=ALL_BLOCKS, **settings).fit(texts, y)
    assert len(model.reliability_.rows) > 5, "items count"
    check_graded(model, texts[:50] + ["".join(rng.permutation(list(text))) for text in texts[:50]])


@pytest.mark.parametrize(
    "strange",
    [
        "日本語",
        "пaypal",
        "ÉTÉ",
        "e\u0301",
        "ﬁne",
        "😀",
        "soft\u00adhyphen",
        "½",
        "now\u200bhere",
        "wait…",
        "한국어",
        "\u212a",
    ],
)
def test_a_text_of_other_characters_has_no_answer(strange):
    check_graded(TextClassifier().fit([*TEXTS, strange], [*LABELS, "ham"]), [f"{strange} cash", *TEXTS[3:]], unread=[0])


def test_header_fields_are_not_read():
    mails = [f"Subject: {text}\nFrom: a@b.org\n\n{text}" for text in TEXTS]
    model = TextClassifier().fit(mails, LABELS)
    assert "headers" in model.model_.sums.blocks
    check_graded(
        model, [*mails[3:5], "From me to you", "cash: now", *TEXTS[3:], "call me: now", "\nSubject: cash"], [0, 1, 2, 3]
    )
    check_graded(TextClassifier(blocks=ALL_BLOCKS).fit(mails, LABELS), [*mails[3:5], "cash: now"])


def test_texts_of_unequal_lengths_together():
    texts, y = made_up(100)
    check_graded(TextClassifier(blocks=ALL_BLOCKS).fit(texts, y), ["cash", " ".join(made_up(500)[0]), "", "win"])


def test_a_filter_for_mail_reads_plain_texts():
    texts, y = made_up(300)
    labels = np.array(["ham", "spam", "ham"])[y]
    model = SpamFilter().fit(texts, labels)
    new = [*made_up(40, seed=1)[0], "-- \nme", "<3 you", "a < b", "é £5", "call me: now", "\nSubject: cash"]
    assert set(model.predict(new)) == {"ham", "unsure", "spam"}
    check_graded(model, new)
    mails = [f"Subject: {text}\n\n{text}" for text in texts]
    check_graded(SpamFilter(unsure=0.1, false_positive=3.0).fit(mails, labels), new)
    assert set(run(SpamFilter().train(texts, "ham"), new)[0]) == {"unsure"}  # until spam was learned


def test_what_may_be_mail_has_no_answer():
    """Header fields, mailboxes, parts, HTML, and characters that may be bytes in another encoding."""
    texts, y = made_up(300)
    model = SpamFilter().fit(texts, np.array(["ham", "spam", "ham"])[y])
    mails = [
        "Subject: cash\n\nwin",
        "cash: win",
        "http://cash.org",
        "x-y_z \t: win",
        "From me to you",
        ">From me to you",
        "--b\nContent-Type: text/html\n\n<b>cash</b>",
        "hello\r\n--b\r\nContent-Type: text/html\r\n\r\n<b>cash</b>",
        "<html>cash</html>",
        " \n\x1c<P>cash",
        "cash for the cafÃ©",
        "cash " * 220_000,
        "日本語 cash",
    ]
    check_graded(model, [*mails, "cash", ""], unread=np.arange(len(mails)))


def messages():
    """Labels and texts of the SMS Spam Collection."""
    path = DATA / "sms_spam" / "SMSSpamCollection.tsv"
    if not path.exists():
        pytest.skip("there is no data set 'sms_spam': DECIBAN_DATA says where the sets are")
    rows = [line.split("\t", 1) for line in path.read_text(encoding="utf-8").splitlines()]
    return [label for label, _ in rows], [text for _, text in rows]


@pytest.mark.parametrize("kind", [TextClassifier, SpamFilter])
def test_a_real_filter_of_graded_evidence(kind):
    labels, texts = messages()
    model = kind().fit(texts[::2], labels[::2])
    found, proba = run(model, texts[1::4])
    known = ~np.isnan(proba[:, 0])
    assert known.mean() > (0.98 if kind is TextClassifier else 0.96), "few messages have other characters"
    expected = model.predict_proba(texts[1::4])
    np.testing.assert_allclose(proba[known], expected[known], rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(found[known], model.predict(texts[1::4])[known])


# ---------------------------------------------------------------------- counts of words


@pytest.mark.slow_where("bernoulli")
@pytest.mark.parametrize("family", ["multinomial", "bernoulli"])
def test_a_real_spam_filter(family):
    labels, texts = messages()
    model = TextClassifier(reliability=None, family=family).fit(texts[::2], labels[::2])
    found, proba = run(model, texts[1::8])
    known = ~np.isnan(proba[:, 0])
    assert known.mean() > 0.98, "few messages have other characters"
    expected = model.predict_proba(texts[1::8])
    np.testing.assert_allclose(proba[known], expected[known], rtol=1e-8, atol=1e-12)
    np.testing.assert_array_equal(found[known], model.predict(texts[1::8])[known])
