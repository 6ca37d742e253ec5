"""Texts and mails: folders that are classes, LABEL=PATH, lines, mailboxes."""

from __future__ import annotations

import gzip
import hashlib
import mailbox

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deciban.errors import DecibanError, FileError
from deciban.sources import open_source
from deciban.text import Lines, mail

MESSAGE = b"From: ann@home.example\nReceived: by x\nSubject: =?utf-8?q?Caf=C3=A9?=\n\nna\xefve caf\xc3\xa9\n"
OTHER_MESSAGE = b"Return-Path: <bob@home.example>\nSubject: two\n\nFrom here on\n"


@pytest.fixture
def here(tmp_path, monkeypatch):
    """here(path, text) writes a file below the current folder."""
    monkeypatch.chdir(tmp_path)

    def write(path, text):
        place = tmp_path / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(text if isinstance(text, bytes) else text.encode())
        return place

    write.folder = tmp_path
    return write


def all_rows(source):
    return [row for batch in source.batches() for row in batch.table.to_pylist()]


def names(source):
    return [name for batch in source.batches() for name in batch.names]


def test_folders_that_are_classes(here):
    here("news/space/b.txt", "two\nlines")
    here("news/space/a.txt", "the moon")
    here("news/autos/deep/x", "a car")
    here("news/autos/.hidden", "no")
    source = open_source(["news"])
    assert (source.kind, source.columns) == ("texts", ("text", "label"))
    assert all_rows(source) == [
        {"text": "a car", "label": "autos"},
        {"text": "the moon", "label": "space"},
        {"text": "two\nlines", "label": "space"},
    ]
    assert names(source) == ["news/autos/deep/x", "news/space/a.txt", "news/space/b.txt"]
    assert source.size == 5 + 8 + 9
    content = {"autos": b"a car", "space": b"the moontwo\nlines"}
    assert source.digests() == [f"{hashlib.sha256(data).hexdigest()} {label}" for label, data in content.items()]
    assert source.row(1).to_pylist()[0]["text"] == "the moon"
    assert source.sample(2).num_rows == 2


def test_labels_by_hand(here):
    here("good.txt", "one\r\ntwo\n\nthree")
    here("bad/x", "four")
    here("bad/y", "five")
    source = open_source(["pos=good.txt", "neg=bad"])
    assert [(row["label"], row["text"]) for row in all_rows(source)] == [
        ("pos", "one"),
        ("pos", "two"),
        ("pos", ""),
        ("pos", "three"),
        ("neg", "four"),
        ("neg", "five"),
    ]
    assert source.kind == "texts"


def test_without_labels(here):
    here("some/a", "one")
    here("some/b", "two")
    source = open_source(["some"])
    assert source.columns == ("text",)
    assert all_rows(source) == [{"text": "one"}, {"text": "two"}]
    assert all_rows(open_source(["some/a"], format="texts")) == [{"text": "one"}]
    assert all_rows(open_source(["x=some/*"])) == [{"text": "one", "label": "x"}, {"text": "two", "label": "x"}]


def test_a_path_with_an_equals_sign_is_a_path(here):
    here("a=b.txt", "one\n")
    assert open_source(["a=b.txt"]).columns == ("text",)
    assert all_rows(open_source(["label=a=b.txt"])) == [{"text": "one", "label": "label"}]


@given(st.text(st.sampled_from(list("ab\r\n é😀")), max_size=40))
def test_lines_are_those_of_lines(tmp_path_factory, text):
    path = tmp_path_factory.mktemp("lines") / "a.txt"
    path.write_bytes(text.encode())
    expected = list(Lines(path))
    while expected and not expected[-1].strip():  # blank lines at the end
        expected.pop()
    got = [row["text"] for row in all_rows(open_source([path]))]
    while got and not got[-1].strip():
        got.pop()
    assert got == expected


def test_lines_of_a_large_file_in_blocks(here, monkeypatch):
    monkeypatch.setattr("deciban.sources.blocks.BLOCK_BYTES", 100)
    lines = [f"line {i} é" for i in range(1000)]
    here("a.txt", "\n".join(lines) + "\n\n\n")
    source = open_source(["a.txt"])
    assert [row["text"] for row in all_rows(source)] == [*lines, "", ""]
    assert next(source.batches()).names is None
    here("b.txt.gz", gzip.compress("\n".join(lines).encode()))
    assert [row["text"] for row in all_rows(open_source(["b.txt.gz"]))] == lines


def test_long_documents_come_in_small_batches(here, monkeypatch):
    monkeypatch.setattr("deciban.sources.texts.MAX_BATCH_CHARACTERS", 1000)
    for i in range(50):
        here(f"some/{i:02}", "x" * 100)
    batches = list(open_source(["some"]).batches())
    assert [batch.first for batch in batches] == [0, 10, 20, 30, 40]


def test_other_encodings_and_what_is_no_text(here):
    here("a/x", "café".encode("latin-1"))
    assert all_rows(open_source(["a"], encoding="latin-1")) == [{"text": "café"}]
    with pytest.raises(FileError, match=r"^line 1 of a/x is not UTF-8 \(byte 0xe9\): give its encoding"):
        all_rows(open_source(["a"]))
    here("b/x", "one\ntw\0o")
    with pytest.raises(FileError, match=r"^line 2 of b/x holds a NUL byte"):
        all_rows(open_source(["b"]))


# ---------------------------------------------------------------------- mail


@pytest.fixture
def mails(here):
    here(
        "inbox",
        b"From ann Sat Jan  3 01:05:34 1996\n" + MESSAGE + b"\nFrom bob Sat Jan  3 01:05:35 1996\n" + OTHER_MESSAGE,
    )
    here("one.eml", MESSAGE)
    here("corpus/0001.abc", b"From ann Sat Jan  3 01:05:34 1996\n" + MESSAGE)
    here("corpus/0002.def", OTHER_MESSAGE)
    here("corpus/cmds", b"mv a b")
    box = mailbox.Maildir(here.folder / "Maildir")
    box.add(MESSAGE)
    box.add(OTHER_MESSAGE)
    return here


@pytest.mark.parametrize("path", ["inbox", "one.eml", "corpus", "Maildir", "corpus/0002.def"])
@pytest.mark.parametrize("label", ["", "spam="])
@pytest.mark.usefixtures("mails")
def test_mail_reads_back_as_from_the_mailbox(path, label):
    source = open_source([label + path])
    assert source.kind == "mail"
    assert source.columns == (("text", "label") if label else ("text",))
    expected = list(mail.read_mailbox(path))
    assert [mail.read(row["text"]) for row in all_rows(source)] == expected
    assert len(expected) > 0


@pytest.mark.usefixtures("mails")
def test_mails_are_called_by_their_place():
    assert names(open_source(["inbox"])) == ["inbox#1", "inbox#2"]
    assert names(open_source(["one.eml"])) == ["one.eml"]


@given(st.binary(max_size=200))
def test_any_bytes_of_a_mail_come_back(tmp_path_factory, body):
    path = tmp_path_factory.mktemp("mail") / "x.eml"
    path.write_bytes(b"Subject: x\n\n" + body)
    (row,) = all_rows(open_source([path]))
    assert row["text"].encode("latin-1") == b"Subject: x\n\n" + body
    assert mail.read(row["text"]) == next(iter(mail.read_mailbox(path)))


def test_classes_of_mail(mails):
    source = open_source(["spam=corpus", "ham=inbox", "ham=Maildir"])
    assert [row["label"] for row in all_rows(source)] == ["spam", "spam", "ham", "ham", "ham", "ham"]
    mails("boxes/ham/x", MESSAGE)
    mails("boxes/spam/cur/y", OTHER_MESSAGE)
    source = open_source(["boxes"])
    assert source.kind == "mail"
    assert [row["label"] for row in all_rows(source)] == ["ham", "spam"]


def test_an_empty_maildir_is_fine(mails):
    mailbox.Maildir(mails.folder / "Empty")
    assert [row["label"] for row in all_rows(open_source(["ham=one.eml", "spam=Empty"]))] == ["ham"]


def test_news_are_texts_and_can_be_called_mail(here):
    here("x/1", "From: ann\nSubject: cars\n\nThe car.\n")
    assert open_source(["x"]).kind == "texts"
    assert open_source(["x"], format="mail").kind == "mail"


@pytest.mark.parametrize(
    ("paths", "says"),
    [
        (["spam=one.eml", "ham=a.txt"], "one.eml holds mail and a.txt does not"),
        (["spam=one.eml", "inbox"], "inbox has no label, but others do: write LABEL=inbox"),
        (["spam=nothing"], "there is no file nothing for the label 'spam'"),
        (["spam=t.csv"], "t.csv is a table but was given the label 'spam'"),
        (["a.txt", "t.csv"], "a.txt is texts and t.csv is csv"),
        (["a.txt", "a.txt"], "a.txt is named twice"),
    ],
)
def test_what_does_not_go_together(mails, paths, says):
    mails("a.txt", "one\n")
    mails("t.csv", "a,b\n1,2\n")
    with pytest.raises(DecibanError) as error:
        open_source(paths)
    assert says in str(error.value)
    assert "\n" not in str(error.value)
