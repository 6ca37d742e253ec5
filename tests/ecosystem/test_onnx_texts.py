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


def test_other_models_of_texts_are_refused_with_what_to_choose():
    mail = [f"From: a@b.org\nSubject: {text}\n\n{text}" for text in TEXTS]
    for model in (
        TextClassifier().fit(TEXTS, LABELS),
        SpamFilter().fit(mail, LABELS),
        TextClassifier(reliability=None, n_features=64).fit(TEXTS, LABELS),
    ):
        with pytest.raises(DecibanError, match="fit TextClassifier\\(reliability=None"):
            model.to_onnx()
    with pytest.raises(DecibanError, match="columns= is for tables"):
        TextClassifier(reliability=None).fit(TEXTS, LABELS).to_onnx(columns=["a"])


@pytest.mark.slow_where("bernoulli")
@pytest.mark.parametrize("family", ["multinomial", "bernoulli"])
def test_a_real_spam_filter(family):
    path = DATA / "sms_spam" / "SMSSpamCollection.tsv"
    if not path.exists():
        pytest.skip("there is no data set 'sms_spam': DECIBAN_DATA says where the sets are")
    rows = [line.split("\t", 1) for line in path.read_text(encoding="utf-8").splitlines()]
    labels, texts = [label for label, _ in rows], [text for _, text in rows]
    model = TextClassifier(reliability=None, family=family).fit(texts[::2], labels[::2])
    found, proba = run(model, texts[1::8])
    known = ~np.isnan(proba[:, 0])
    assert known.mean() > 0.98, "few messages have other characters"
    expected = model.predict_proba(texts[1::8])
    np.testing.assert_allclose(proba[known], expected[known], rtol=1e-8, atol=1e-12)
    np.testing.assert_array_equal(found[known], model.predict(texts[1::8])[known])
