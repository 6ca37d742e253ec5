"""Header fields of the filter, and the names of mails."""

from __future__ import annotations

from email import message_from_bytes
from email.header import decode_header, make_header

from hypothesis import given
from hypothesis import strategies as st

from deciban.text import mail
from deciban.text.mail.verdict import MAX_ITEM_BYTES, Verdict

names = st.text(st.characters(), max_size=80)
verdicts = st.builds(
    Verdict,
    names,
    st.floats(0, 1),
    st.floats(-9999, 9999),
    names,
    st.none() | st.integers(0, 1 << 62),
    st.lists(st.tuples(names, st.floats(-500, 500)), max_size=20).map(tuple),
)


@given(verdicts)
def test_fields_are_lines_of_printable_ascii_and_stay_in_the_header(verdict):
    header = verdict.header()
    assert header.isascii()
    lines = header.removesuffix("\n").split("\n")
    assert all(line.isprintable() and 0 < len(line) <= 230 for line in lines)
    message = message_from_bytes(b"Subject: before\n" + header.encode() + b"Subject: after\n\nbody\n")
    assert message.get_payload() == "body\n"
    assert message.get_all("Subject") == ["before", "after"]
    assert set(message.keys()) <= {"Subject", "X-Deciban", "X-Deciban-Evidence"}


def test_a_verdict_in_full():
    evidence = (("subject:free", 12.345), ("money", -3.0), ("不好", 1.0), ("a =?b?c", 2.0))
    header = Verdict("unsure", 0.5, 0.0, "mail", 3, evidence).header()
    message = message_from_bytes(header.encode() + b"\n")
    assert message["X-Deciban"] == "unsure; probability=0.500000; decibans=0.0; model=mail; version=3"
    shown = str(make_header(decode_header(message["X-Deciban-Evidence"]))).replace("\n", "")
    assert shown == "+12.3 subject:free | -3.0 money | +1.0 不好 | +2.0 a =?b?c"
    assert max(map(len, header.split("\n"))) <= 76


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_a_long_item_is_cut_between_letters(name):
    shown = str(make_header(decode_header(mail.verdict.item(name))))
    if not name.isascii():
        assert name.startswith(shown)
        assert len(shown.encode()) > min(MAX_ITEM_BYTES, len(name.encode())) - 4


fields = st.sampled_from(
    [b"Received: by a.example", b"X-Deciban: spam; probability=1", b"x-deciban-evidence: +9 win\n\t| +8 now", b"To: me"]
)


@given(st.lists(fields), st.binary(), st.booleans(), st.booleans())
def test_a_mail_is_the_same_mail_wherever_it_is_met(more, body, carriage, envelope):
    body = body.replace(b"\r", b"")
    own = b"Message-ID: <1@a.example>\nSubject: a\n  b\nFrom: me\nDate: today\n"
    one = own + b"\n" + body
    other = b"".join(field + b"\n" for field in more) + own.replace(b"\n  b", b" b") + b"\n" + body + b"\n"
    if carriage:
        other = other.replace(b"\n", b"\r\n")
    if envelope:
        other = b"From me@a.example Sat Jan  3 01:05:34 1996\n" + other
    assert mail.identity(one) == mail.identity(other)
    for changed in (one.replace(b"<1@", b"<2@"), one.replace(b"From: me", b"From: you"), one + b"."):
        assert mail.identity(changed) != mail.identity(one)


@given(st.binary(), st.binary())
def test_what_the_filter_adds_is_no_evidence(head, body):
    raw = b"Subject: lunch\n" + head.replace(b"\n", b"") + b"\n\n" + body
    header = Verdict("spam", 0.9, 9.0, "mail", 1, (("win", 3.0),)).header().encode()
    assert mail.read(header + raw) == mail.read(raw)
    assert mail.canonical(header + raw) == mail.canonical(raw)
    assert mail.canonical(mail.canonical(raw)) == mail.canonical(raw)


def test_time_is_linear():
    for raw in (
        b"a\n" * 500_000,
        b"X-Deciban: a\n" * 100_000,
        b"X-Deciban: a\n" + b" a\n" * 300_000,
        b"a: b\n" * 200_000,
    ):
        assert len(mail.identity(raw)) == 45
