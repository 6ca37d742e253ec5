"""The spam filter (S23): ham, unsure or spam; trained, corrected and forgotten as mail comes in."""

from __future__ import annotations

import json
import mailbox
from email.message import EmailMessage
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

import deciban
from deciban import SpamFilter
from deciban.text import mail


def message(subject: str, body: str, html: bool = False) -> bytes:
    out = EmailMessage()
    out["From"], out["To"], out["Subject"] = "ann@home.example", "bob@work.example", subject
    out.set_content(body, subtype="html" if html else "plain")
    return bytes(out)


SPAM = [message(f"You win {i}", f"Claim your cash prize number {i} now!", html=i % 2 == 0) for i in range(100)]
HAM = [message(f"Lunch {i}", f"See you at noon in room {i}, bring the minutes") for i in range(100)]
LABELS = ["spam"] * 100 + ["ham"] * 100
NEW = [message("You win 7", "Claim your cash prize now!"), message("Lunch", "at noon in the usual room"), b"zebra"]


@pytest.fixture(scope="module")
def fitted() -> SpamFilter:
    return SpamFilter().fit(SPAM + HAM, LABELS)


def test_three_answers(fitted: SpamFilter) -> None:
    assert fitted.predict(NEW).tolist() == ["spam", "ham", "unsure"]
    assert fitted.classes_.tolist() == ["ham", "spam"]


def test_answers_are_the_least_expected_cost(fitted: SpamFilter) -> None:
    other = clone(fitted).set_params(false_positive=3.0, false_negative=2.0, unsure=0.4).fit(SPAM + HAM, LABELS)
    mails = [*NEW, message("cash at noon", "see your prize in the room"), message("You", "the")]
    ham, spam = other.predict_proba(mails).T
    for i, answer in enumerate(other.predict(mails)):
        costs = {"ham": 2.0 * spam[i], "unsure": 0.4, "spam": 3.0 * ham[i]}
        assert answer == min(costs, key=costs.__getitem__)


def test_never_unsure_where_looking_costs_more_than_any_mistake() -> None:
    model = SpamFilter(unsure=1000.0).fit(SPAM + HAM, LABELS)
    assert "unsure" not in model.predict(NEW)


def test_every_form_of_mail_reads_the_same(fitted: SpamFilter, tmp_path) -> None:
    raw = SPAM[0]
    path = tmp_path / "one.eml"
    path.write_bytes(raw)
    forms = [raw, raw.decode(), mail.read(raw), path]
    probabilities = [fitted.predict_proba([form])[0, 1] for form in forms]
    assert probabilities == [probabilities[0]] * 4


@pytest.mark.parametrize("kind", ["mbox", "maildir", "folder"])
def test_trains_from_mailboxes(kind: str, fitted: SpamFilter, tmp_path) -> None:
    model = SpamFilter()
    for label, mails in (("spam", SPAM), ("ham", HAM)):
        where = tmp_path / label
        if kind == "folder":
            where.mkdir()
            for i, raw in enumerate(mails):
                (where / f"{i:03}.eml").write_bytes(raw)
        else:
            box = mailbox.mbox(where) if kind == "mbox" else mailbox.Maildir(where)
            for raw in mails:
                box.add(raw)
            box.close()
        model.train(where if label == "spam" else str(where), label)
    assert model.class_count_.tolist() == [100.0, 100.0]
    # A mailbox may end a mail with another line break, which no word is in.
    np.testing.assert_allclose(model.predict_proba(NEW), fitted.predict_proba(NEW), atol=1e-12)


def test_training_in_pieces_is_training_on_all(fitted: SpamFilter) -> None:
    model = SpamFilter().train(SPAM[:7], "spam").train(HAM, "ham").train(SPAM[7:], "spam")
    np.testing.assert_allclose(model.predict_proba(NEW), fitted.predict_proba(NEW), atol=1e-12)


def test_correcting_is_having_been_told_right() -> None:
    wrong = SpamFilter().fit(SPAM + HAM, ["ham", *LABELS[1:]]).correct(SPAM[0], "spam").refit_reliability()
    right = SpamFilter().fit(SPAM + HAM, LABELS)
    # The document comes last in one and first in the other: Newton's steps differ by rounding.
    np.testing.assert_allclose(wrong.predict_proba(NEW), right.predict_proba(NEW), atol=1e-7)


def test_what_was_not_learned_so_cannot_be_corrected(fitted: SpamFilter) -> None:
    before = fitted.predict_proba(NEW)
    with pytest.raises(deciban.ForgetError):
        fitted.correct(b"Subject: quetzal\n\nnobody has written this", "spam")
    assert np.array_equal(fitted.predict_proba(NEW), before)


def test_forgotten_words_are_gone() -> None:
    secret = message("Lunch", "my secret is xylophone")
    model = SpamFilter().fit([*SPAM, *HAM, secret], [*LABELS, "ham"])
    assert "xylophone" in model.vocabulary_
    assert "xylophone" not in model.forget([secret], ["ham"]).vocabulary_


def test_one_kind_of_mail_first() -> None:
    model = SpamFilter().train(HAM[:3], "ham")
    assert model.classes_.tolist() == ["ham", "spam"]
    assert set(model.predict(NEW)) <= {"ham", "unsure"}
    assert model.train(SPAM[:3], "spam").class_count_.tolist() == [3.0, 3.0]


def test_explains_in_words_and_header_fields(fitted: SpamFilter) -> None:
    why = fitted.explain(NEW[0])
    assert (why.target, why.against) == ("spam", "ham")
    names = [name for name, _, _ in why.items]
    assert "cash" in names
    assert "subject:win" in names
    assert why.total == pytest.approx(10 * np.log10(why.probability / (1 - why.probability)), abs=1e-6)
    json.dumps(why.to_dict())


def test_only_the_headers_that_were_asked_for() -> None:
    model = SpamFilter(headers=mail.CONTENT_HEADERS).fit(SPAM + HAM, LABELS)
    names = [name for name, _, _ in model.explain(NEW[0]).items]
    assert not [name for name in names if name.startswith("to:")]


def test_keeps_and_merges(fitted: SpamFilter, tmp_path) -> None:
    fitted.save(tmp_path / "spam.deciban")
    again = deciban.load(tmp_path / "spam.deciban")
    assert isinstance(again, SpamFilter)
    assert np.array_equal(again.predict_proba(NEW), fitted.predict_proba(NEW))
    both = SpamFilter().fit(SPAM[:50] + HAM[:50], LABELS[50:150]) + SpamFilter().fit(
        SPAM[50:] + HAM[50:], LABELS[50:150]
    )
    assert both.class_count_.tolist() == [100.0, 100.0]


@pytest.mark.parametrize("label", ["SPAM", 1, None])
def test_a_mail_is_ham_or_spam(label) -> None:
    with pytest.raises((ValueError, deciban.DecibanError)):
        SpamFilter().train(HAM[:2], label)


def test_a_mailbox_that_is_not_there() -> None:
    with pytest.raises(FileNotFoundError):
        SpamFilter().train(Path("no such folder"), "spam")
