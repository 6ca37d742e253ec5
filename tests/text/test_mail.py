"""Mail: the text that a reader sees, from any bytes, and in time linear in the length."""

from __future__ import annotations

import base64
import email
import gzip
import json
import mailbox
import os
import pickle
import re
import subprocess
import sys
from email import policy
from email.message import EmailMessage

import pytest
from conftest import DATA
from effort import growth
from hypothesis import given
from hypothesis import strategies as st

from deciban._kernel import mail as kernel
from deciban._kernel import text as text_kernel
from deciban.errors import FileError
from deciban.text.mail import CONTENT_HEADERS, Mail, markup, read, read_mailbox, tokens
from deciban.text.mail.decode import CODECS, characters, header, transfer
from deciban.text.mail.folders import LINE_BYTES
from deciban.text.mail.markup import text_of_html
from deciban.text.mail.message import MAX_BODY_CHARACTERS as LONGEST
from deciban.text.mail.message import MAX_PART_BYTES as MOST_DATA
from deciban.text.mail.message import field_name
from deciban.text.mail.mime import FIELD, MAX_DEPTH, MAX_HEADER_BYTES, MAX_PARTS
from deciban.text.mail.verdict import is_own

SET = DATA / "spamassassin" / "spamassassin.jsonl.gz"
TEXT_PART = "Content-Type: text/plain\n\n{}\n"
HTML_PART = "Content-Type: text/html\n\n{}\n"


def multipart(kind: str, *parts: str, end: str = "--cut--\n") -> str:
    """A mail of parts, each with its header."""
    sections = "".join(f"--cut\n{part}" for part in parts)
    return f"Subject: parts\nContent-Type: multipart/{kind}; boundary=cut\n\nFor old programs\n{sections}{end}"


def html(markup: str) -> str:
    return read(f"Content-Type: text/html\n\n{markup}").body


# The header


def test_character_references_that_are_kept_are_short():
    before = markup.kept_character.cache_info().currsize
    assert markup.unescaped("&#x" + "0" * 100_000 + "41; &eacute;") == "A é"
    assert markup.kept_character.cache_info().currsize <= before + 1
    assert markup.kept_character.cache_info().maxsize == 1024


def test_fields_are_unfolded_decoded_and_kept_in_order_with_their_names():
    raw = b"Subject: a long\n  line\nX-odd: 1\nReceived: one\nRECEIVED: two\nEmpty:\n\nBody\n"
    assert read(raw).headers == (
        ("Subject", "a long line"),
        ("X-odd", "1"),
        ("Received", "one"),
        ("RECEIVED", "two"),
        ("Empty", ""),
    )


@pytest.mark.parametrize(
    ("raw", "seen"),
    [
        (b"=?utf-8?B?Y2Fmw6k=?=", "café"),
        (b"=?ISO-8859-1?Q?caf=E9_au_lait?=", "café au lait"),
        (b"Re: =?utf-8?q?caf=C3=A9?= now", "Re: café now"),
        (b"=?utf-8?q?a?= =?utf-8?q?b?=\n =?utf-8?q?c?= d", "abc d"),
        (b"=?utf-8?B?w?= =?utf-8?B?w6k=?=", "=?utf-8?B?w?= é"),  # six bits are no byte
        (b"=?utf-8?q?=C3?= =?utf-8?q?=A9?=", "é"),  # split inside a character
        (b"=?utf-8?q?=C3=A9?= =?iso-8859-1?q?=E9?=", "éé"),
        (b"=?utf-8*en?q?a?=", "a"),
        (b"=?no-such-charset?q?caf=C3=A9?=", "café"),
        (b"=?utf-8?q?caf=E9?=", "café"),
        (b"=?utf-8?B?!!!?=", "=?utf-8?B?!!!?="),
        (b"=?utf-8?B?Zm9v", "=?utf-8?B?Zm9v"),
        (b"=?utf-8?x?Zm9v?=", "=?utf-8?x?Zm9v?="),
        (b"caf\xe9", "café"),
        (b"caf\xc3\xa9", "café"),
        (b"a\0b\x85c\x1cd", "ab c d"),
        (b"=?utf-8?b?" + base64.b64encode("a\u2028b\nc".encode()) + b"?=", "a b c"),
    ],
)
def test_header_values(raw, seen):
    assert header(raw) == seen
    assert read(b"Subject: " + raw + b"\n\n").subject == seen


@pytest.mark.parametrize(
    ("raw", "headers", "body"),
    [
        ("", 0, ""),
        ("\n", 0, ""),
        ("Just text\nand more", 0, "Just text\nand more"),
        ("\nFoo: bar\n", 0, "Foo: bar\n"),
        ("Subject: a", 1, ""),
        ("Subject: a\n", 1, ""),
        ("Subject: a\n\n", 1, ""),
        ("Subject: a\nno field\n\nb", 1, "no field\n\nb"),
        ("Subject : a\n\nb", 1, "b"),
        (" folded\nSubject: a\n\nb", 0, " folded\nSubject: a\n\nb"),
        ("From me@home Sat Jan  3 01:05:34 1996\nSubject: a\n\nb", 1, "b"),
        ("From me@home\n>From you\nSubject: a\n\nb", 1, "b"),
        ("From me@home Sat Jan  3 01:05:34 1996\n\nFoo: b", 0, "Foo: b"),
        ("From here on it is text", 0, "From here on it is text"),
        ("\ufeffSubject: a\n\nb", 1, "b"),
    ],
)
def test_where_the_header_ends(raw, headers, body):
    mail = read(raw.encode())
    assert (len(mail.headers), mail.body) == (headers, body)


def test_line_ends_do_not_matter():
    raw = multipart("mixed", TEXT_PART.format("one\ntwo"), HTML_PART.format("<p>three"))
    assert read(raw).body == "one\ntwo\nthree"
    assert read(raw.replace("\n", "\r\n")) == read(raw.replace("\n", "\r")) == read(raw)


def test_headers_can_be_restricted():
    raw = "From: a\nDate: b\nsubject: c\nReceived: d\nTo: e\n\ntext"
    assert [name for name, _ in read(raw, headers=CONTENT_HEADERS).headers] == ["From", "subject"]
    assert read(raw, headers=["DATE"]).headers == (("Date", "b"),)
    assert read(raw, headers=()).text == "\ntext"
    with pytest.raises(TypeError, match=r"give \('subject',\)"):
        read(raw, headers="subject")


def test_subject_and_sender():
    mail = read("from: Ann <a@b>\nSUBJECT: one\nSubject: two\n\n")
    assert (mail.sender, mail.subject) == ("Ann <a@b>", "one")
    assert (read("x").sender, read("x").subject) == ("", "")


# Parts


def test_of_alternatives_the_plain_one_is_read():
    plain, markup = TEXT_PART.format("plain words"), HTML_PART.format("<b>rich words")
    assert read(multipart("alternative", plain, markup)).body.strip() == "plain words"
    assert read(multipart("alternative", markup, plain)).body.strip() == "plain words"
    assert read(multipart("alternative", plain, markup)).parts == (("text/plain", ""), ("text/html", ""))


@pytest.mark.parametrize("plain", [[], [TEXT_PART.format("  \n")], [TEXT_PART.format("This is an HTML message.")]])
def test_html_is_read_where_there_is_no_plain_text(plain):
    markup = HTML_PART.format("<b>rich words</b> " + "and more " * 50)
    assert read(multipart("alternative", *plain, markup)).body.startswith("rich words and more")


def test_a_short_plain_text_beside_a_short_other_is_not_a_note():
    mail = multipart("alternative", TEXT_PART.format("Yes."), HTML_PART.format("<i>Yes!"))
    assert read(mail).body.strip() == "Yes."


def test_alternatives_may_hold_parts():
    picture = 'Content-Type: image/gif; name="a.gif"\nContent-Transfer-Encoding: base64\n\nR0lGODlh\n'
    related = multipart("related", HTML_PART.format("<p>words"), picture).replace("cut", "cut2")
    mail = read(multipart("alternative", TEXT_PART.format(""), related))
    assert mail.body == "words"
    assert mail.attachments == (("a.gif", "image/gif"),)


def test_mixed_parts_are_read_in_order_and_attachments_by_name_only():
    mail = read(
        multipart(
            "mixed",
            "\nno header at all\n",
            'Content-Type: application/x-msdownload; name="evil.exe"\n\nMZ secret\n',
            'Content-Type: text/plain\nContent-Disposition: attachment; filename="=?utf-8?q?=E9?=.txt"\n\nsecret\n',
            "Content-Type: text/plain\nContent-Disposition: inline; filename=shown.txt\n\nshown\n",
            "Content-Type: application/pdf\n\nsecret\n",
        )
    )
    assert mail.body.split() == ["no", "header", "at", "all", "shown"]
    assert mail.attachments == (
        ("evil.exe", "application/x-msdownload"),
        ("é.txt", "text/plain"),
        ("", "application/pdf"),
    )
    assert "X-Attachment: evil.exe application/x-msdownload\n" in mail.text
    assert "secret" not in mail.text


def test_mails_inside_mails_show_what_was_written():
    inner = "Subject: inner\nReceived: from there\nContent-Type: text/html\n\n<p>words\n"
    forwarded = read(multipart("mixed", TEXT_PART.format("See:"), f"Content-Type: message/rfc822\n\n{inner}"))
    assert forwarded.body.split("\n") == ["See:", "Subject: inner", "", "words"]
    packed = base64.b64encode(inner.encode()).decode()
    encoded = f"Content-Type: message/rfc822\nContent-Transfer-Encoding: base64\n\n{packed}\n"
    assert read(multipart("mixed", TEXT_PART.format("See:"), encoded)).body == forwarded.body
    digest = read(multipart("digest", "\nSubject: one\n\nfirst\n", "\nSubject: two\n\nsecond\n"))
    assert digest.body.split() == ["Subject:", "one", "first", "Subject:", "two", "second"]


@pytest.mark.parametrize(
    ("filename", "seen"),
    [
        ('"a b.exe"', "a b.exe"),
        ("plain.exe; size=3", "plain.exe"),
        (r'"a\"b"', 'a"b'),
        ('"never closed', "never closed"),
        ('""', ""),
    ],
)
def test_file_names(filename, seen):
    assert (
        read(f"Content-Type: a/b\nContent-Disposition: attachment; filename={filename}\n\n").attachments[0][0] == seen
    )


@pytest.mark.parametrize(
    "parameters",
    [
        "name*=utf-8''caf%C3%A9.exe",
        "name*0*=utf-8''caf%C3%A9;\n name*1=.exe",
        "name*1=.exe; name*0=café",
        "NAME=café.exe",
    ],
)
def test_file_names_of_rfc_2231(parameters):
    assert read(f"Content-Type: a/b; {parameters}\n\n").attachments == (("café.exe", "a/b"),)


# What is broken


def test_no_encoding_brings_a_line_end_into_a_field():
    mail = read("Content-Type: a/b; name*=utf-8''x%0AFoo:%00y; charset*=utf-8''z%0D%0A%00\n\n")
    check(mail)
    assert mail.attachments == (("x Foo:y", "a/b"),)
    check(read("Content-Type: text/b; charset*=utf-8''z%0D%0A%00%E2%80%A8x\n\n"))


def test_boundaries_that_are_missing_or_never_close():
    parts = (TEXT_PART.format("one"), HTML_PART.format("<p>two"))
    assert read(multipart("mixed", *parts, end="")).body.split() == ["one", "two"]
    truncated = multipart("mixed", *parts)
    assert [read(truncated[:at]).subject for at in range(15, len(truncated), 7)]  # none raises
    unnamed = multipart("mixed", *parts).replace("; boundary=cut", "")
    assert read(unnamed).body.split() == ["one", "two"]
    misspelt = multipart("mixed", *parts).replace("boundary=cut", "boundary=other")
    assert read(misspelt).body.split() == ["one", "two"]
    undeclared = multipart("mixed", *parts).replace("Content-Type: multipart/mixed; boundary=cut\n", "")
    assert read(undeclared).body.split() == ["one", "two"]
    assert read("Content-Type: multipart/mixed; boundary=cut\n\nnothing of it").body == "nothing of it"


def test_a_letter_about_mime_is_a_letter():
    letter = "Subject: q\n\nLook at this,\nplease:\n\n--cut\nContent-Type: text/plain\n\nodd\n--cut--\n"
    assert read(letter).body == letter.partition("\n\n")[2]


def test_what_follows_the_last_boundary_is_not_read():
    assert read(multipart("mixed", TEXT_PART.format("one")) + "after").body.strip() == "one"


def test_a_boundary_that_begins_like_another_is_not_it():
    assert read(multipart("mixed", TEXT_PART.format("one\n--cutter\n--cut -- no\ntwo"))).body.split()[-1] == "two"


def test_nested_parts_with_the_same_boundary():
    mail = multipart("mixed", "Content-Type: multipart/mixed; boundary=cut\n\n", TEXT_PART.format("one"))
    assert read(mail).body.split() == ["one"]


@pytest.mark.parametrize(
    ("data", "encoding", "seen"),
    [
        (b"aGVs\nbG8=\n", "base64", b"hello"),
        (b"aGVsbG8", "base64", b"hello"),
        (b"aGVsbG8h!\n", "base64", b"hello!"),
        (b"aGVs\xff\0bG8h", "base64", b"hello!"),
        (b"aGVsbG8=\n\n-- \nA list", "base64", b"hello"),
        (b"plain words, by mistake", "base64", b"plain words, by mistake"),
        (b"", "base64", b""),
        (b"A", "base64", b""),
        (b"a=3Db=\nc", "quoted-printable", b"a=bc"),
        (b"50=25 =ZZ =", "quoted-printable", b"50% =ZZ "),
        (b"as it is =3D", "8bit", b"as it is =3D"),
        (b"as it is =3D", "no-such", b"as it is =3D"),
    ],
)
def test_transfer_encodings(data, encoding, seen):
    assert transfer(data, encoding) == seen


@pytest.mark.parametrize(
    ("text", "codec", "charset"),
    [
        ("Grüße", "latin-1", "ISO-8859-1"),
        ("Grüße", "latin-1", "no-such"),
        ("Grüße", "latin-1", "utf-8"),
        ("Grüße", "latin-1", "us-ascii"),
        ("Grüße", "utf-8", "us-ascii"),
        ("Grüße", "utf-8", ""),
        ("Привет", "koi8-r", "KOI8-R"),
        ("Привет", "koi8-u", "koi8-u"),
        ("你好", "gbk", "GB2312"),
        ("안녕", "cp949", "ks_c_5601-1987"),
        ("สวัสดี", "cp874", "windows-874"),
        ("こんにちは", "iso2022_jp", "iso-2022-jp"),
        ("“quoted”", "cp1252", "windows-1252"),
        ("plain", "ascii", "zlib"),
        ("plain", "ascii", "rot13"),
        ("plain", "ascii", "\0"),
        ("plain", "ascii", "idna"),
    ],
)
def test_charsets(text, codec, charset):
    assert characters(text.encode(codec), charset) == text
    body = f"Content-Type: text/plain; charset={charset}\n\n".encode() + text.encode(codec)
    assert read(body).body == text


def test_a_text_cut_inside_a_character_is_still_in_its_charset():
    text = "你好世界" * 3
    assert characters(text.encode("utf-8")[:-1], "utf-8") == text[:-1] + "\ufffd"
    assert characters(text.encode("gbk")[:-1], "gb2312") == text[:-1] + "\ufffd"


@pytest.mark.parametrize("codec", sorted(set(CODECS.values())))
def test_no_codec_raises(codec):
    characters(bytes(range(256)) * 3, codec).encode("utf-8")
    assert codec not in ("idna", "punycode", "unicode_escape")  # of quadratic time, or no charsets


# HTML


@pytest.mark.parametrize(
    ("markup", "seen"),
    [
        ("vi<!-- x -->agra", "viagra"),
        ("v<b>i</b>a<font color=red>g</font>ra", "viagra"),
        ("v&#105;a&#x67;r&#0000097;", "viagra"),
        ("vi\u200bag\xadra", "viagra"),
        ("a<p>b<br/>c<DIV>d</DIV>e", "a\nb\nc\nd\ne"),
        ("<tr><td>a</td><td>b</td></tr>", "a b"),
        ("one\n  two\n", "one two"),
        ("<style>p { color: red }</style>a<script>if (a < b) x('<p>')</script>b", "ab"),
        ("a<SCRIPT>never closed", "a"),
        ("<script>'<!--'</script>seen<!-- x -->", "seen"),
        ("a &lt;b&gt; &amp;amp; &eacute; &nosuch; &", "a <b> &amp; é &nosuch; &"),
        ("a &#99999999; &#xD800; &#" + "9" * 5000 + ";", "a \ufffd \ufffd \ufffd"),
        ("<title>Title</title><body>Text", "Title\nText"),
        ("<a href='http://www.Shop.example/a?b'>here</a>", "www.Shop.example here"),
        ('<img src="https://1.2.3.4:8080/x.gif">', "1.2.3.4"),
        ("<a href=//x.example>y</a>", "x.example y"),
        ("<a href=mailto:me@x.example>y</a>", "x.example y"),
        ("<a href='&#104;ttp://x.example/'>y</a>", "x.example y"),
        ("caf\xe9 <a href='http://&#x4f60;.example/'>y</a>", "caf\xe9 \u4f60.example y"),
        ("<a href=/local>y</a>", "y"),
        ("<a title='>' href='http://x.example'>y", "x.example y"),
        ("<a title=' href=http://x.example>y</a>", "x.example y"),  # a quote that never closes
        ("1 < 2 <3 </ >", "1 < 2 <3 </ >"),
        ("<!doctype html><?xml?>a<!---->b<!-->c<!--->d", "abcd"),
        ("a<!-- never > closed", "a closed"),
        ("cut <a href=http://x.exam", "cut <a href=http://x.exam"),
        ("", ""),
    ],
)
def test_html_as_a_reader_sees_it(markup, seen):
    assert html(markup) == seen


def test_html_under_another_name_is_html():
    markup = "\n<HTML><body><p>a<b>b</b></body></html>"
    assert read(f"Subject: s\n\n{markup}").body == "ab"
    assert read(f"Content-Type: text/plain\n\n{markup}").body == "ab"
    assert read("Subject: s\n\nuse <html> so").body == "use <html> so"


# The normal form


def test_text_is_header_lines_an_empty_line_and_the_body():
    mail = read(b"X_odd.name: 1\n2nd: 2\n_: 3\nContent-Type: text/plain; charset=a\n\nFoo: bar\n")
    assert mail.text == (
        "X-odd-name: 1\nX-2nd: 2\nX-: 3\nContent-Type: text/plain; charset=a\nX-Part: text/plain a\n\nFoo: bar\n"
    )
    assert mail.headers[0] == ("X_odd.name", "1")
    assert read("\nFoo: bar").text == "\nFoo: bar"


def test_a_mail_is_a_value():
    mail = read("a: b\n\nc")
    assert mail == Mail((("a", "b"),), "c")
    assert hash(mail) == hash(Mail((("a", "b"),), "c"))
    assert pickle.loads(pickle.dumps(mail)) == mail
    assert eval(repr(mail)) == mail
    with pytest.raises(AttributeError):
        mail.body = "d"


def test_tokens():
    raw = "Subject: It's FREE!!\nContent-Type: text/html\n\n<p>Don't <b>wait</b>... 3%"
    assert list(tokens(read(raw, headers=["subject"]))) == [
        *("subject:it", "subject:'", "subject:s", "subject:free", "subject:!!"),
        *("x-part:text", "x-part:/", "x-part:html"),
        *("don", "'", "t", "wait", "...", "3", "%"),
    ]


def as_the_kernel_reads(mail: Mail) -> list[str]:
    """The marked words of `text`, without those of the names of fields."""
    words = text_kernel.Vocabulary()
    read_by = text_kernel.tokenize(text_kernel.Documents([mail.text]), 0, 1, words, True, "punctuation", headers=True)
    strings = words.strings()
    marked = [
        f"{strings[f]}:{strings[i]}" if f >= 0 else strings[i] for i, f in zip(read_by[0], read_by[2], strict=True)
    ]
    at = 0
    for name, value in mail.fields:
        named = re.findall(r"\w+|[^\w\s]+", name.lower() + ":")
        assert marked[at : at + len(named)] == named
        del marked[at : at + len(named)]
        at += len(re.findall(r"\w+|[^\w\s]+", value.lower()))
    return marked


@pytest.mark.parametrize(
    "raw",
    [
        "Subject: Free: money!\nX_odd-: a\n2: b\nEmpty:\nContent-Type: text/html; charset=utf-8\n\nFoo: bar\n <p>",
        "\nFoo: bar\nSubject: no header",
        "From here on it is text",
        "Subject: a\n\n\nFoo: bar",
        "From me Sat Jan  3 01:05:34 1996\nFrom: me\nno field: x\n",
        "",
    ],
)
def test_the_normal_form_is_read_as_it_is_meant(raw):
    mail = read(raw)
    assert as_the_kernel_reads(mail) == list(tokens(mail))


# Any input


def check(mail: Mail) -> None:
    """What holds for every mail."""
    text = mail.text
    text.encode("utf-8")
    assert "\r" not in text
    assert "\0" not in text
    head, _, body = text.partition("\n\n") if mail.fields else ("", "", text[1:])
    assert body == mail.body
    assert text.startswith("\n") == (not mail.fields)
    lines = head.split("\n") if mail.fields else []
    assert len(lines) == len(mail.fields)
    for line in lines:
        assert re.match(r"[A-Za-z][A-Za-z0-9-]*: ", line)
        assert len(line.splitlines()) == 1
    for token in tokens(mail):
        assert token == token.strip() != ""


PIECES = st.sampled_from(
    [
        *(
            b"\n",
            b"\n\n",
            b"\r\n",
            b"\r",
            b"\0",
            b" ",
            b"\t",
            b": ",
            b"--b",
            b"--b\n",
            b"--b--\n",
            b";",
            b"=",
            b'"',
            b"\\",
        ),
        *(b"Content-Type: multipart/mixed; boundary=b\n", b"Content-Type: multipart/alternative; boundary=b\n"),
        *(
            b"Content-Type: multipart/digest;boundary=b\n",
            b"Content-Type: message/rfc822\n",
            b"Content-Type: multipart/x\n",
        ),
        *(
            b"Content-Type: text/html; charset=utf-7\n",
            b"Content-Type: text/plain; charset=gb2312\n",
            b"Content-Type: ",
        ),
        *(
            b"Content-Transfer-Encoding: base64\n",
            b"Content-Transfer-Encoding: quoted-printable\n",
            b"Subject: ",
            b">From ",
        ),
        *(
            b"Content-Disposition: attachment; filename*0*=utf-8''a%ff%0A; filename*1=b\n",
            b"From x 1:11 2002\n",
            b"From ",
        ),
        *(
            b"=?utf-8?b?",
            b"=?x?q?",
            b"?=",
            b"=E9",
            b"Zm9v",
            b"<html>",
            b"<!--",
            b"-->",
            b"<script>",
            b"</script>",
            b"<",
            b">",
        ),
        *(
            b"<a href='http://x.y/",
            b"'>",
            b"&#",
            b"&#99999999999",
            b"&#x110000;",
            b"&amp;",
            b"+2D0-",
            b"\xff",
            b"\xe4\xbd\xa0",
        ),
    ]
)


@given(st.binary(max_size=300) | st.lists(PIECES, max_size=40).map(b"".join))
def test_any_bytes_are_a_mail(raw):
    mail = read(raw)
    check(mail)
    assert read(raw.decode("latin-1")) == mail
    assert read(bytearray(raw)) == read(memoryview(raw)) == mail
    check(read(raw.decode("utf-8", "surrogateescape")))
    check(read(email.message_from_bytes(raw)))
    check(read(email.message_from_bytes(raw, policy=policy.default)))


@given(st.text(max_size=200))
def test_any_text_is_a_mail(text):
    check(read(text))
    check(Mail((), text_of_html(text).replace("\r", "").replace("\0", "")))


OPENING = re.compile(r"<(?:(!--)|[!?]|(/?)([a-zA-Z][^\s/>]*))")
REST_OF_TAG = re.compile(r"""(?:[^>"']++|"[^"]*+"|'[^']*+')*+>""")
MARKUP = "< > \" ' ! -- --> <!-- <a <img href= src=' HREF =// http:// mailto: me@x.y:8/ = & &amp; &#x68;ref=//h "
MARKUP += "<script> </script> <STYLE </style p br td BLOCKQUOTE <p> <br/> ſ ı K é ? # : / x _src <ſcript> </ſcript "
MARKUP += "&nGt; 😀"
MARKUP_PIECES = st.sampled_from([*MARKUP.split(), " ", "\n", "\t", "\x1c", "\x85", "\xa0", "\0"])


def defined_text_of_html(text: str) -> str:
    """text_of_html by regular expressions."""
    text = text.replace("\n", " ")
    out, at, quotes, comments = [], 0, True, True
    while opening := OPENING.search(text, at):
        out.append(text[at : opening.start()])
        comment, closing, name = opening.groups()
        end = text.find("-->", opening.end() - 2) if comment and comments else -1
        if end >= 0:
            at = end + 3
            continue
        comments = comments and not comment
        whole = REST_OF_TAG.match(text, opening.end()) if quotes and name else None
        quotes = quotes and (whole is not None or not name)
        end = whole.end() if whole else text.find(">", opening.end()) + 1
        if not end:
            at = opening.start()
            break
        at = end
        if name:
            name = name.lower()
            out.append("\n" if name in markup.LINE_TAGS else " " if name in markup.CELL_TAGS else "")
            if not closing:
                attributes = text[opening.end() : end]
                out += [f" {host} " for host in markup.hosts(attributes)] if "=" in attributes else []
                if name in markup.NOT_SHOWN:
                    over = markup.NOT_SHOWN[name].search(text, at)
                    at = over.start() if over else len(text)
    lines = (" ".join(line.split()) for line in markup.unescaped("".join([*out, text[at:]])).split("\n"))
    return "\n".join(filter(None, lines))


@given(st.lists(MARKUP_PIECES, max_size=30).map("".join) | st.text("<>/ab\"'=!- \n", max_size=40))
def test_markup_is_read_as_defined(text):
    assert text_of_html(text) == defined_text_of_html(text)


REFERENCE = re.compile(r"&(?:#[0-9]++;?|#[xX][0-9a-fA-F]++;?|[^\t\n\f <&#;]{1,32}+;?)")  # as html.unescape finds them
REFERENCE_PIECES = st.sampled_from(
    [*"&#xX0aG7; \n\f<é你", "&#0000", "&#12345678", "&amp", "&notit;", "abcdefghijklmnop"]
)


@given(st.lists(REFERENCE_PIECES, max_size=20).map("".join))
def test_references_are_replaced_as_defined(text):
    defined = REFERENCE.sub(lambda found: f"({found[0]})", text)
    assert kernel.unescaped(text, "({})".format) == (None if re.search("&#[0-9]{8}", text) else defined)


@given(st.text("ab\r\0\xad\u200b😀", max_size=20), st.text("a\r\0\xad\u200b😀\u010d", max_size=3))
def test_signs_are_found(text, signs):
    assert kernel.has_any(text, signs) == any(sign in text for sign in signs)


HEADER_PIECES = ["A", "Subject", ":", "=", "?", "=?utf-8?q?caf=C3=A9?=", "é", "x-y", ">From", "12:30", "a:b"]
HEADER_PIECES += [" ", "\t", "\n", "\n ", "\0", "\x1f", "\x7f"]


@given(st.lists(st.sampled_from(HEADER_PIECES), max_size=16).map("".join))
def test_header_fields_are_read_as_defined(text):
    raw, defined, at = text.encode(), [], 0
    while field := FIELD.match(raw, at):
        defined.append((field[1].decode(), header(field[2])))
        at = field.end()
    assert kernel.header_fields(raw, 0, 1 << 20, header) == (defined, at)
    some, end = kernel.header_fields(raw, 0, len(raw) // 2, header)  # of more than is read, fields that are whole
    assert some == defined[: len(some)]
    assert end <= max(len(raw) // 2, 0)


FIELD_NAMES = [
    "X-Deciban",
    "x-deciban-Evidence",
    "X-Decibanned",
    "x-decİban",
    "Content-Type",
    "CONTENT-type",
    "content",
]
FIELD_NAMES += ["contenT-\u212a", "Subject", "x_y", "3", "-", "", "é", "\ud800", "a\0b", "A--9", "to ", "X-Deciban\xa0"]


@given(
    st.lists(st.tuples(st.sampled_from(FIELD_NAMES) | st.text(max_size=4), st.text(max_size=6)), max_size=8).map(tuple),
    st.none() | st.sets(st.sampled_from([name.lower() for name in FIELD_NAMES])),
)
def test_header_fields_are_chosen_and_written_as_defined(fields, wanted):
    content: dict[str, str] = {}
    for name, value in fields:
        if name[:8].lower() == "content-":
            content.setdefault(name.lower(), value[:3])
    assert kernel.content_fields(fields, 3) == content
    kept = tuple(field for field in fields if not is_own(field[0]) and (wanted is None or field[0].lower() in wanted))
    assert kernel.kept_fields(fields, wanted, is_own) == kept
    lines = "".join(f"{field_name(name)}: {value}\n" for name, value in fields)
    for body in ("", "Foo: bar\n", "café"):
        assert kernel.mail_text(fields, body, field_name) == f"{lines}\n{body}"


def test_decoded_text_is_not_decoded_again():
    raw = "Subject: Привет\nContent-Type: text/plain; charset=koi8-r\n\nПривет"
    assert (read(raw).subject, read(raw).body) == ("Привет", "Привет")
    encoded = "Content-Type: text/plain; charset=koi8-r\nContent-Transfer-Encoding: base64\nX: П\n\n"
    assert read(encoded + base64.b64encode("Привет".encode("koi8-r")).decode()).body == "Привет"
    assert read(email.message_from_string(raw)).body == "Привет"
    assert read("Content-Type: text/plain; charset=utf-8\n\ncafé").body == "café"


def test_messages_of_the_standard_library_agree_with_their_bytes():
    message = EmailMessage()
    message["Subject"] = "Grüße"
    message["From"] = "Ännchen <a@b.example>"
    message.set_content("Plain words: ä")
    message.add_alternative("<p>Rich words: ä", subtype="html")
    message.add_attachment(b"MZ", maintype="application", subtype="x-msdownload", filename="übel.exe")
    raw = message.as_bytes()
    for made in (read(message), read(email.message_from_bytes(raw))):
        assert made.body.strip() == read(raw).body.strip() == "Plain words: ä"
        assert made.attachments == read(raw).attachments == (("übel.exe", "application/x-msdownload"),)
        assert made.subject == read(raw).subject == "Grüße"
        assert made.parts == read(raw).parts
    raw8 = b"Content-Type: text/plain; charset=koi8-r\n\n" + "Привет".encode("koi8-r")
    assert read(email.message_from_bytes(raw8)).body == "Привет"


@pytest.mark.parametrize("what", [None, 3, ["Subject: a"], {"a": "b"}])
def test_other_types_are_refused_by_name(what):
    with pytest.raises(TypeError, match=type(what).__name__):
        read(what)


# Limits


def nested(depth: int) -> bytes:
    return b"".join(b"Content-Type: multipart/mixed; boundary=b%d\n\n--b%d\n" % (i, i) for i in range(depth))


BIG = 1_000_000
HOSTILE = {
    "a header line": b"Subject: " + b"x" * BIG,
    "a header name": b"x" * BIG,
    "a long name": b"x" * BIG + b": y",
    "encoded words": b"Subject: " + b"=?utf-8?q?a?= " * (BIG // 14),
    "half encoded words": b"Subject: " + b"=?utf-8?q?a" * (BIG // 11),
    "header fields": b"a:b\n" * (BIG // 4),
    "continued fields": b"a:b" + b"\n c" * (BIG // 3),
    "envelopes": b"From 1:11 1:11 1:11 1:11 1:11 2002\n" * (BIG // 35),
    "parameters": b"Content-Type: a/b" + b';a="\\"' * (BIG // 6),
    "nested parts": nested(2000) + b"\nx\n" * (BIG // 3),
    "many parts": b"Content-Type: multipart/mixed; boundary=b\n\n" + b"--b\n\nx\n" * (BIG // 7),
    "boundaries that are none": b"Content-Type: multipart/mixed; boundary=b\n\n" + b"--bb\n" * (BIG // 5),
    "mails in mails": b"Content-Type: message/rfc822\n\n" * (BIG // 30),
    **{
        f"html {unit!r}": b"Content-Type: text/html\n\n" + unit * (BIG // len(unit)) + b">"
        for unit in (
            *(
                b"<",
                b"<a ",
                b"<a>",
                b'<a "',
                b'<a "> "',
                b"<a '\">",
                b"<!--",
                b"<!-- >",
                b"<!",
                b"<script>",
                b"<style ",
            ),
            *(b"<script></script>", b"</scrip", b"<div>", b"<a href=", b"&", b"&#0", b"&ampamp", b" ", b"\n"),
        )
    },
    "a character reference": b"Content-Type: text/html\n\n&#" + b"9" * BIG,
    "nothing": b"\0" * BIG,
    "newlines": b"\n" * BIG,
}


@pytest.mark.slow
@pytest.mark.parametrize("raw", HOSTILE.values(), ids=HOSTILE)
def test_time_is_linear_in_the_length(raw):
    mail = read(raw)
    # Eight times as much takes about eight times as long; were it quadratic, 64 times.
    assert growth(lambda: read(raw[: len(raw) // 8]), lambda: read(raw), 24) <= 24
    assert len(mail.body) <= LONGEST
    assert sum(len(name) + len(value) for name, value in mail.headers) <= MAX_HEADER_BYTES + len(raw[:100])


def test_limits_cut_but_do_not_lose_what_came_before():
    assert read(b"Subject: s\n" + b"a: b\n" * MAX_HEADER_BYTES + b"\nbody").body == "body"
    assert len(read(b"a: b\n\n" + b"x " * LONGEST).body) == LONGEST
    packed = base64.b64encode(b"x" * MOST_DATA)
    assert len(read(b"Content-Transfer-Encoding: base64\n\n" + packed).body) == LONGEST
    parts = multipart("mixed", *(TEXT_PART.format(i) for i in range(2 * MAX_PARTS)))
    assert read(parts).body.split() == [str(i) for i in range(MAX_PARTS)]
    shallow, deep = nested(MAX_DEPTH - 1) + b"\nbottom", nested(MAX_DEPTH + 5) + b"\nbottom"
    assert read(shallow).body == "bottom"
    assert read(deep).body.endswith("bottom")


# Mailboxes


ONE = "Subject: One\n\nfirst\n"
TWO = "Subject: Two\n\nsecond\n"
ENVELOPE = "From me@home.example Sat Jan  3 01:05:34 1996\n"


def subjects(path, **options) -> list[str]:
    return [mail.subject for mail in read_mailbox(path, **options)]


def test_an_mbox_of_the_standard_library(tmp_path):
    box = mailbox.mbox(tmp_path / "inbox")
    bodies = ["first\n", "From the start,\n\nFrom there on\n", "\n\n", "last"]
    for number, body in enumerate(bodies):
        message = EmailMessage()
        message["Subject"] = str(number)
        message.set_content(body)
        box.add(message)
    box.close()
    mails = list(read_mailbox(str(tmp_path / "inbox")))
    assert [mail.subject for mail in mails] == ["0", "1", "2", "3"]
    assert [mail.body.strip() for mail in mails] == [body.strip() for body in bodies]


@pytest.mark.parametrize(
    ("text", "bodies"),
    [
        (ENVELOPE + "\nFoo: 1\n\n" + ENVELOPE + "\nBar: 2\n", ["Foo: 1\n", "Bar: 2\n"]),  # mails without a header
        (ENVELOPE + ONE + ENVELOPE + TWO, ["first\n", "second\n"]),  # no blank line between them
        ("From me\n" + ONE + "\nFrom you\n" + TWO, ["first\n", "second\n"]),  # no dates
        (ENVELOPE + "Subject: One\n\nHi\n\nFrom now on\nall\n", ["Hi\n\nFrom now on\nall\n"]),  # not quoted
        (ENVELOPE + "Subject: One\n\n>From a\n>>From b\n> From c\n", ["From a\n>From b\n> From c\n"]),
        (ENVELOPE, [""]),
        (
            ENVELOPE + "Subject: One\n\na\n" + ENVELOPE.replace("From", "from"),
            ["a\n" + ENVELOPE.replace("From", "from")],
        ),
    ],
)
def test_where_an_mbox_is_split(text, bodies, tmp_path):
    path = tmp_path / "box"
    path.write_bytes(text.encode())
    assert [mail.body for mail in read_mailbox(path)] == bodies
    path.write_bytes(text.replace("\n", "\r\n").encode())
    assert [mail.body for mail in read_mailbox(path)] == bodies


def test_long_lines_of_an_mbox_are_not_split(tmp_path):
    path = tmp_path / "box"
    path.write_text(ENVELOPE + "Subject: One\n\n" + "x" * LINE_BYTES + "From 1:11 2002\nNote: no\n\n" + ENVELOPE + TWO)
    assert subjects(path) == ["One", "Two"]


PEAK = """
import sys, tracemalloc
from deciban.text.mail import read_mailbox
assert sum(1 for _ in read_mailbox(sys.argv[1])) == 1000  # imports what reading needs
tracemalloc.start()
assert sum(1 for _ in read_mailbox(sys.argv[1])) == 1000
print(tracemalloc.get_traced_memory()[1])
"""


def test_memory_does_not_grow_with_the_number_of_mails(tmp_path):
    """In a process of its own: in one that has run thousands of tests, the peak was twice as high."""
    path = tmp_path / "box"
    path.write_text((ENVELOPE + ONE + "some words\n" * 100 + "\n") * 1000)
    peak = subprocess.run([sys.executable, "-c", PEAK, path], capture_output=True, text=True, check=True).stdout
    assert int(peak) < path.stat().st_size / 5  # 1.2 MB; a mail takes 1.2 kB, buffers some more


def test_a_maildir(tmp_path):
    box = mailbox.Maildir(tmp_path / "Mail")
    box.add(ONE.encode())
    box.add(b"\nno header")
    (tmp_path / "Mail" / "tmp" / "1").write_text("Subject: half written\n")
    (tmp_path / "Mail" / "dovecot.index").write_bytes(b"\1\2")
    message = mailbox.MaildirMessage(TWO.encode())
    message.set_subdir("cur")
    box.add(message)
    assert sorted(subjects(tmp_path / "Mail")) == ["", "One", "Two"]
    assert subjects(tmp_path / "Mail")[0] == "Two"  # cur comes before new


def test_a_folder_is_read_in_the_order_of_names(tmp_path):
    (tmp_path / "b").mkdir()
    for name, text in {
        "c.eml": ENVELOPE + TWO + ENVELOPE + ONE,  # one mail, whatever is in it
        "a.txt": ONE,
        "b/2": ENVELOPE + "Subject: Three\n\n\n" + ENVELOPE + "Subject: Four\n\n",
        "b/1.EML": "no header at all",
        "cmds": "mv a b",
        ".hidden": "junk",
        "d.mbox": "",
    }.items():
        (tmp_path / name).write_text(text)
    assert subjects(tmp_path) == ["One", "", "Three", "Four", "Two"]
    assert subjects(tmp_path / "c.eml") == ["Two"]
    assert subjects(tmp_path / "d.mbox") == []
    assert [mail.headers for mail in read_mailbox(tmp_path / "a.txt", headers=())] == [()]


def test_links_that_lead_in_circles_end(tmp_path):
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "1.eml").write_text(ONE)
    for number in range(3):
        (inner / f"up{number}").symlink_to(tmp_path)
        (tmp_path / f"again{number}").symlink_to(inner)
    (tmp_path / "self").symlink_to(tmp_path / "self")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    os.mkfifo(tmp_path / "pipe")
    assert subjects(tmp_path) == ["One"]


def test_what_is_not_mail_is_refused_by_name_at_once_where_it_can_be(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        read_mailbox(tmp_path / "nowhere")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FileError, match="neither"):
        read_mailbox(tmp_path / "pipe")
    (tmp_path / "notes.txt").write_text("Dear all,\n")
    with pytest.raises(FileError, match=r"notes\.txt.* does not look like mail.*Dear all"):
        subjects(tmp_path)
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "nowhere.eml")


def test_a_path_is_read_and_a_string_is_not_a_path(tmp_path):
    path = tmp_path / "1.eml"
    path.write_text(ONE)
    assert read(path) == read(ONE)
    assert read(str(path)).body == str(path)


# Real mail


@pytest.fixture(scope="module")
def corpus() -> list[dict[str, str]]:
    if not SET.exists():
        pytest.skip("there is no data set 'spamassassin': DECIBAN_DATA says where the sets are")
    with gzip.open(SET, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def test_every_mail_of_a_real_set_is_read(corpus, thorough):
    assert len(corpus) == 6047
    some = corpus if thorough else corpus[::4]
    raws = [mail["text"].encode("latin-1") for mail in some]
    mails = [read(raw) for raw in raws]
    assert all(mail.headers for mail in mails)
    for mail, row in zip(mails[::7], some[::7], strict=True):
        check(mail)
        assert as_the_kernel_reads(mail) == list(tokens(mail))
        assert read(row["text"]) == mail
    empty = sum(not mail.body.strip() for mail in mails)
    assert empty == 3 if thorough else empty <= 3  # two that a script writes, one that is an attachment


def declares(row: dict[str, str], field: str, value: str) -> bool:
    header = row["text"].partition("\n\n")[0]
    return re.search(rf"(?im)^content-{field}:\s*{value}", header) is not None


def test_html_of_a_real_set_becomes_words(corpus):
    bodies = [read(row["text"]).body for row in corpus if declares(row, "type", "text/html")]
    assert len(bodies) > 700
    tagged = [body for body in bodies if re.search(r"</?(?:p|br|a|td|font|b)\b[^>]*>", body)]
    assert len(tagged) < len(bodies) / 100  # cut in the middle of a tag, or tags inside entities
    assert sum("click" in body.lower() for body in bodies) > len(bodies) / 3


def test_base64_of_a_real_set_becomes_words(corpus):
    packed = [read(row["text"]) for row in corpus if declares(row, "transfer-encoding", "base64")]
    assert len(packed) == 8
    for mail in packed:
        assert not re.search(r"[A-Za-z0-9+/]{60}", mail.body)
        assert len(re.findall(r"\w+", mail.body)) > 20
        if mail.parts[0][1] in ("euc-kr", "ks_c_5601-1987", "gb2312"):
            assert len(re.findall("[\u4e00-\u9fff\uac00-\ud7af]", mail.body)) > 30


def without_quotes(body: str) -> list[str]:
    return re.sub(r"(?m)^>+From ", "From ", body).split()


def test_a_real_set_as_an_mbox_and_as_a_folder(corpus, tmp_path):
    some = corpus[::21]
    folder = tmp_path / "folder"
    folder.mkdir()
    with (tmp_path / "box").open("wb") as box:
        for number, row in enumerate(some):
            raw = row["text"].encode("latin-1")
            (folder / f"{number:05}").write_bytes(raw)
            headed = raw if raw.startswith(b"From ") else ENVELOPE.encode() + raw
            box.write(headed[:5] + headed[5:].replace(b"\nFrom ", b"\n>From ") + b"\n")
    direct = [read(row["text"]) for row in some]
    for mails in (read_mailbox(folder), read_mailbox(tmp_path / "box")):
        for mail, expected in zip(mails, direct, strict=True):
            assert mail.headers == expected.headers
            assert without_quotes(mail.body) == without_quotes(expected.body)
