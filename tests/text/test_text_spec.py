"""The systems of the lecture notes on raw text: S3–S6, S8, S18–S20, S23 on numbers and messages of our own."""

from __future__ import annotations

import numpy as np
import pytest

from deciban import TextClassifier, ZeroEvidenceWarning
from deciban.text import background

ANIMALS = " ".join(["dog"] * 50 + ["cat"] * 40 + ["tulip"] * 5 + ["rose"] * 5)
FLOWERS = " ".join(["dog"] * 10 + ["cat"] * 10 + ["tulip"] * 50 + ["rose"] * 30)
PLUS = {"dog": 0.5, "cat": 0.4, "tulip": 0.05, "rose": 0.05}
MINUS = {"dog": 0.1, "cat": 0.1, "tulip": 0.5, "rose": 0.3}
DOCUMENT = "dog dog cat dog cat tulip"


def decibans(ratio):
    return 10.0 * np.log10(ratio)


@pytest.fixture
def pets():
    """Two documents whose word frequencies are the notes' θ⁺ and θ⁻."""
    return TextClassifier(reliability=None, alpha=0).fit([ANIMALS, FLOWERS], ["animals", "flowers"])


# ------------------------------------------------------------------ S3–S6: bags of words


def test_s3_s4_dog_cat_tulip_rose(pets):
    joint = dict(zip(pets.classes_, pets.predict_joint_log_proba([DOCUMENT])[0], strict=True))
    assert np.exp(joint["animals"]) / 0.5 == pytest.approx(1.0e-3)
    assert np.exp(joint["flowers"]) / 0.5 == pytest.approx(5.0e-6)
    why = pets.explain(DOCUMENT, target="animals")
    assert why.total == pytest.approx(23.01, abs=5e-3)
    assert why.prior == pytest.approx(0.0, abs=1e-12)
    assert pets.predict([DOCUMENT]).tolist() == ["animals"]
    assert pets.predict_proba([DOCUMENT])[0, 0] == pytest.approx(200 / 201)
    assert pets.score_samples([DOCUMENT]) == pytest.approx([np.log(0.5 * 1.0e-3 + 0.5 * 5.0e-6)])


def test_s3_the_order_of_words_and_of_documents_is_nothing(pets):
    words = ANIMALS.split()
    cut = [" ".join(words[i::7]) for i in range(7)]
    bags = TextClassifier(reliability=None, alpha=0, class_prior=[0.5, 0.5]).fit(
        [*cut, FLOWERS], ["animals"] * 7 + ["flowers"]
    )
    shuffled = "cat tulip dog cat dog dog"
    assert bags.predict_proba([shuffled]) == pytest.approx(pets.predict_proba([DOCUMENT]))


def test_s5_weights_are_evidence(pets):
    """log-odds = Σ_w n(w) θ_w + θ_0 with θ_w = log θ⁺_w/θ⁻_w."""
    why = pets.with_prior({"animals": 0.2, "flowers": 0.8}).explain(DOCUMENT, "animals", "flowers")
    items = {name: (count, db) for name, count, db in why.items}
    for word, count in {"dog": 3, "cat": 2, "tulip": 1}.items():
        assert items[word] == (count, pytest.approx(count * decibans(PLUS[word] / MINUS[word])))
    assert "rose" not in {name for name, count, _ in why.items if count}
    assert why.prior == pytest.approx(decibans(0.25))
    assert why.total == pytest.approx(decibans(200 * 0.25))
    rows = {word: db for _, word, db in pets.top_words("animals", n=4).rows}
    assert rows == {word: pytest.approx(decibans(PLUS[word] / MINUS[word])) for word in PLUS}


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0, 3.0])
def test_s6_laplace_and_other_pseudo_counts(alpha):
    model = TextClassifier(reliability=None, alpha=alpha).fit([ANIMALS, FLOWERS], ["animals", "flowers"])
    joint = model.predict_joint_log_proba(["rose"])[0]
    assert np.exp(joint) / 0.5 == pytest.approx([(5 + alpha) / (100 + 4 * alpha), (30 + alpha) / (100 + 4 * alpha)])


def test_s6_s19_pseudo_counts_for_each_word_and_class():
    texts, labels = ["cheap pills now", "see you at noon"], ["spam", "ham"]
    model = TextClassifier(reliability=None, alpha=1.0, prior={"viagra": {"spam": 50}, "Noon": 3}).fit(texts, labels)
    assert set(model.vocabulary_) == {"viagra", "noon", "cheap", "pills", "now", "see", "you", "at"}
    ham, spam = np.exp(model.predict_joint_log_proba(["viagra", "noon", "cheap"]).T) / 0.5
    # 8 words with 1 each, 3 more for noon, 50 more for viagra in spam; 3 words of spam, 4 of ham
    assert spam == pytest.approx([51 / 64, 4 / 64, 2 / 64])
    assert ham == pytest.approx([1 / 15, 5 / 15, 1 / 15])
    assert model.predict(["viagra"]).tolist() == ["spam"]
    forgotten = model.forget(texts[:1], labels[:1])
    assert "viagra" in forgotten.vocabulary_, "the user's pseudo-counts are not counts of documents"


def test_s6_a_prior_by_itself_is_its_own_mode():
    model = TextClassifier(reliability=None, alpha=0, prior={"dog": {"a": 3, "b": 1}, "cat": {"a": 1, "b": 3}})
    model.partial_fit(["", ""], ["a", "b"])
    assert np.exp(model.predict_joint_log_proba(["dog", "cat"])) / 0.5 == pytest.approx(
        np.array([[0.75, 0.25], [0.25, 0.75]])
    )


def test_s19_a_prior_where_evidence_is_graded():
    texts = ["cheap pills now", "buy now", "see you at noon", "lunch at noon"]
    labels = ["spam", "spam", "ham", "ham"]
    without = TextClassifier().fit(texts, labels).predict_proba(["viagra"])[0, 1]
    assert without == pytest.approx(0.5, abs=0.05)
    with_prior = [
        TextClassifier(prior={"viagra": {"spam": n}}).fit(texts, labels).predict_proba(["viagra"])[0, 1]
        for n in (1, 5, 50)
    ]
    assert without < with_prior[0] < with_prior[1] < with_prior[2]
    assert TextClassifier(prior={"viagra": 50}).fit(texts, labels).predict_proba(["viagra"])[0, 1] == pytest.approx(
        without, abs=1e-6
    ), "the same pseudo-count for all classes is no evidence"


def test_s6_a_background_is_a_prior():
    prior = background(["the cat and the dog", "the end"], strength=7)
    model = TextClassifier(reliability=None, alpha=0, prior=prior).fit(["cat cat", "dog"], ["c", "d"])
    joint = np.exp(model.predict_joint_log_proba(["the", "cat", "dog"])) / 0.5
    assert joint == pytest.approx(np.array([[3 / 9, 3 / 8], [3 / 9, 1 / 8], [1 / 9, 2 / 8]]))
    with pytest.raises(ValueError, match="no words"):
        background(["", "?"])
    with pytest.raises(ValueError, match="strength"):
        background(["a word"], strength=-1)


def test_never_nan_where_nothing_is_possible():
    """λ = 0 and words that are impossible in every class: 0/0 is answered by the prior, with a warning."""
    model = TextClassifier(reliability=None, alpha=0).fit(["dog", "tulip", "rose", "tulip"], list("abbb"))
    with pytest.warns(ZeroEvidenceWarning, match="prior"):
        assert model.predict_proba(["dog tulip"]) == pytest.approx(np.array([[0.25, 0.75]]))
    with pytest.warns(ZeroEvidenceWarning):
        assert model.predict(["dog tulip"]).tolist() == ["b"], "the likelier class by the probabilities"
    why = model.explain("dog tulip", "a", "b")
    assert why.total == pytest.approx(decibans(1 / 3))
    assert model.predict_proba(["unheard"]) == pytest.approx(np.array([[0.25, 0.75]])), "an unknown word is ignored"


# ------------------------------------------------------------------ S8: words that are absent


def test_s8_absent_words_are_evidence():
    texts = ["cheap pills", "cheap cheap cheap", "lunch noon", "lunch", "cheap lunch"]
    labels = ["spam", "spam", "ham", "ham", "ham"]
    model = TextClassifier(reliability=None, family="bernoulli").fit(texts, labels)
    phi = {  # (1 + documents with the word) / (2 + documents)
        "spam": {"cheap": 3 / 4, "pills": 2 / 4, "lunch": 1 / 4, "noon": 1 / 4},
        "ham": {"cheap": 2 / 5, "pills": 1 / 5, "lunch": 4 / 5, "noon": 2 / 5},
    }
    why = model.explain("cheap cheap unheard", "spam", "ham", by="item")
    items = {name: (value, db) for name, value, db in why.items}
    assert items["cheap"][1] == pytest.approx(decibans(phi["spam"]["cheap"] / phi["ham"]["cheap"])), "once is enough"
    for word in ("pills", "lunch", "noon"):
        value, db = items[word]
        assert value == 0
        assert db == pytest.approx(decibans((1 - phi["spam"][word]) / (1 - phi["ham"][word])))
    assert why.prior == pytest.approx(decibans(2 / 3))
    assert why.total == pytest.approx(why.prior + sum(db for _, db in items.values()))
    assert set(items) == {"cheap", "pills", "lunch", "noon"}


# ------------------------------------------------------------------ S18: generating


def test_s18_words_are_drawn_as_they_are_spread(pets):
    texts, labels = pets.sample(40, given="animals", length=100, random_state=0)
    assert labels.tolist() == ["animals"] * 40
    words = " ".join(texts).split()
    assert len(words) == 4000
    for word, share in PLUS.items():
        # Four standard errors of a share of 4000 words.
        assert words.count(word) / 4000 == pytest.approx(share, abs=4 * np.sqrt(share / 4000))
    uneven = pets.with_prior({"animals": 0.9, "flowers": 0.1})
    _, labels = uneven.sample(400, length=1, random_state=1)
    assert (labels == "animals").mean() == pytest.approx(0.9, abs=0.06)  # four standard errors
    lengths = [len(text.split()) for text in pets.sample(30, given="flowers", random_state=2)[0]]
    assert np.mean(lengths) == pytest.approx(100, abs=4 * 10 / np.sqrt(30))  # Poisson about the class's mean


def test_s18_what_is_drawn_can_be_learned(pets):
    texts, labels = pets.sample(300, length=20, random_state=3)
    again = TextClassifier(reliability=None).fit(texts, labels)
    assert again.score([ANIMALS, FLOWERS, DOCUMENT], ["animals", "flowers", "animals"]) == 1.0


# ------------------------------------------------------------------ S20: any loss


def test_s20_decisions_under_costs(pets):
    probability = pets.predict_proba(["dog rose", DOCUMENT])[:, 0]
    assert probability == pytest.approx([5 / 11, 200 / 201])  # 0.5·0.05 against 0.1·0.3
    assert pets.decide(["dog rose"]).tolist() == ["flowers"]
    dear = {"animals": {"flowers": 3.0}}  # calling an animal a flower costs thrice as much
    assert pets.decide(["dog rose"], costs=dear).tolist() == ["animals"]
    assert pets.decide(["dog rose", DOCUMENT], reject=0.1).tolist() == [None, "animals"]
    assert pets.decide(["dog rose"], costs=[[0, 1.1], [1, 0]]).tolist() == ["flowers"]  # 1.1·5 < 6
    assert pets.decide(["dog rose"], costs=[[0, 1.3], [1, 0]]).tolist() == ["animals"]  # 1.3·5 > 6


# ------------------------------------------------------------------ S23: a spam filter

SPAM = [
    "WIN a FREE holiday!!! Reply with your bank details now",
    "Congratulations, you have won a free prize. Claim your cash now!",
    "Cheap meds, no prescription, free delivery, order now",
    "You are selected: claim 1000 pounds cash prize, call now",
    "Lose weight fast!!! Free trial, order now",
    "URGENT: your account won a cash bonus, click to claim",
    "Free free free ringtones, reply now to win",
    "Hot singles want to meet, click now for free photos",
]
HAM = [
    "Are we still meeting for lunch at noon?",
    "I'll be home late, could you buy milk and bread",
    "The meeting about the budget moved to Tuesday",
    "Thanks for the photos of your holiday, lovely",
    "Could you send me the notes of the lecture please",
    "See you at the station at seven",
    "Mum called, she wants to know about Sunday lunch",
    "I left my keys at your place, can I get them tonight?",
]
NEW = {
    "Claim your FREE cash prize now!!!": "spam",
    "Order cheap meds now, free trial": "spam",
    "you won, click to claim the bonus": "spam",
    "lunch on Tuesday at the station?": "ham",
    "could you get the milk tonight please": "ham",
    "the notes about the meeting": "ham",
}


@pytest.mark.parametrize(
    "settings",
    [{}, {"reliability": None}, {"reliability": None, "family": "bernoulli"}, {"reliability": None, "alpha": "loo"}],
    ids=["graded", "multinomial", "bernoulli", "alpha by leave-one-out"],
)
def test_s23_a_small_spam_filter(settings):
    model = TextClassifier(**settings).fit(SPAM + HAM, ["spam"] * 8 + ["ham"] * 8)
    assert model.predict(list(NEW)).tolist() == list(NEW.values())
    why = model.explain("Claim your FREE cash prize now!!!")
    assert (why.target, why.against) == ("spam", "ham")
    assert why.total > 3.0, "two to one at least"
    strongest = {name for name, _, db in why.items[:6] if db > 0}
    assert strongest & {"free", "now", "claim", "cash", "prize", "!!!"}
    # A letter that is lost costs fifty times a spam that comes through.
    ham, spam = model.predict_proba([*NEW, "free lunch"]).T
    careful = model.decide([*NEW, "free lunch"], costs={"ham": {"spam": 50.0}})
    assert careful.tolist() == np.where(50.0 * ham > spam, "ham", "spam").tolist()
    assert careful[-1] == "ham"
    # The user corrects it, and takes the correction back.
    before = model.predict_proba(list(NEW))
    model.partial_fit(["free cash lunch for members"], ["ham"])
    after = model.predict_proba(["free cash"])[0]
    model.forget(["free cash lunch for members"], ["ham"])
    np.testing.assert_allclose(model.predict_proba(list(NEW)), before, rtol=1e-9, atol=1e-12)
    assert after[0] > model.predict_proba(["free cash"])[0, 0]
    assert model.leave_one_out(SPAM + HAM, ["spam"] * 8 + ["ham"] * 8).accuracy >= 0.7
