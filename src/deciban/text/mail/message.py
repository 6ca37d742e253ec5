"""A mail as its reader sees it: header, text, names of attachments."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any

from deciban._kernel import mail as kernel
from deciban.errors import KindError
from deciban.text.mail.decode import characters, clean, transfer
from deciban.text.mail.markup import text_of_html
from deciban.text.mail.mime import UNICODE, Part, as_unicode, from_message, is_unicode, parse, to_bytes
from deciban.text.mail.verdict import is_own

if TYPE_CHECKING:
    from email.message import Message

MAX_BODY_CHARACTERS = 1 << 20  # kept of a body: more is never written by hand, and hardly changes a score
MAX_PART_BYTES = 4 * MAX_BODY_CHARACTERS  # decoded of a part: base64 and markup are longer than the text in them
MAX_MAIL_BYTES = 1 << 26  # read of a mail; most servers refuse half of that

MAX_NOTE_CHARACTERS = 200  # of a note such as "This is an HTML message. Please use …" in place of the text

CONTENT_HEADERS = ("subject", "from", "reply-to", "organization")

WORD = re.compile(r"\w+|[^\w\s]+")
NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9-]+")
PLAIN_TYPES = ("", "text/plain")
HTML_TYPES = ("text/html", "application/xhtml+xml")
LOOKS_LIKE_HTML = re.compile(
    r"\s*+<(?:!doctype\s+html|(?:x-)?html|head|title|meta|body|div|table|center|font)\b", re.IGNORECASE
)


class Mail:
    """A mail: its header fields (name, value), its text, and its other parts.

    `parts` are the kinds and charsets declared for its texts, `attachments` the file names and kinds of everything that
    was not read. `text` is all of it as one string, which is what text classifiers use.

    >>> mail = Mail((("Subject", "Lunch?"),), "At noon.", attachments=(("menu.pdf", "application/pdf"),))
    >>> print(mail.text)
    Subject: Lunch?
    X-Attachment: menu.pdf application/pdf
    <BLANKLINE>
    At noon.
    """

    # Not a dataclass: a filter starts for every mail, and importing `dataclasses` takes as long as reading the mail.
    __slots__ = ("attachments", "body", "headers", "parts")
    headers: tuple[tuple[str, str], ...]
    body: str
    attachments: tuple[tuple[str, str], ...]
    parts: tuple[tuple[str, str], ...]

    def __init__(
        self,
        headers: tuple[tuple[str, str], ...],
        body: str,
        attachments: tuple[tuple[str, str], ...] = (),
        parts: tuple[tuple[str, str], ...] = (),
    ) -> None:
        put = object.__setattr__
        put(self, "headers", headers)
        put(self, "body", body)
        put(self, "attachments", attachments)
        put(self, "parts", parts)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"a Mail cannot be changed: {name!r}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a Mail cannot be changed: {name!r}")

    def __eq__(self, other: object) -> bool:
        return self._values() == other._values() if isinstance(other, Mail) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._values())

    def __reduce__(self) -> tuple[type[Mail], tuple[Any, ...]]:
        return Mail, self._values()

    def __repr__(self) -> str:
        headers, body, attachments, parts = self._values()
        return f"Mail({headers=!r}, {body=!r}, {attachments=!r}, {parts=!r})"

    def _values(self) -> tuple[Any, ...]:
        return self.headers, self.body, self.attachments, self.parts

    @property
    def subject(self) -> str:
        """The first Subject; empty if there is none."""
        return self._first("subject")

    @property
    def sender(self) -> str:
        """The first From; empty if there is none."""
        return self._first("from")

    def _first(self, wanted: str) -> str:
        return next((value for name, value in self.headers if name.lower() == wanted), "")

    @property
    def fields(self) -> tuple[tuple[str, str], ...]:
        """The header fields, and X-Part and X-Attachment for the parts of the mail. Names consist of letters, digits
        and hyphens here, so that a line "Name: value" can be recognised."""
        return (*((field_name(name), value) for name, value in self.headers), *self._part_fields())

    def _part_fields(self) -> list[tuple[str, str]]:
        fields = [("X-Part", f"{kind} {charset}".rstrip()) for kind, charset in self.parts]
        return fields + [("X-Attachment", f"{name} {kind}".strip()) for name, kind in self.attachments]

    @property
    def text(self) -> str:
        """The mail in a normal form: lines "Name: value", an empty line, the body. A mail without header fields starts
        with the empty line, so that its body is not mistaken for a header."""
        return kernel.mail_text([*self.headers, *self._part_fields()], self.body, field_name)


def field_name(name: str) -> str:
    plain = NOT_IN_A_NAME.sub("-", name)
    return plain if plain[:1].isalpha() else "X-" + plain.lstrip("-")


def read(raw: bytes | str | os.PathLike[str] | Message[Any, Any], headers: Collection[str] | None = None) -> Mail:
    """Read a mail, however broken: no bytes make it raise, and time is linear in their number.

    Parameters
    ----------
    raw : the mail: its bytes, its text (a `str` is never a path), a path to its file, or a message that `email` parsed.
        A first line "From …", as in mbox files, is skipped.
    headers : names of the header fields to keep; by default all. Beware of Received, Date and
        Message-ID: they reveal when and through which list a mail came, so that a model tested on mails of the same
        weeks and lists seems better than it is. CONTENT_HEADERS are the informative ones: subject and sender.

    Texts are decoded, those in HTML are stripped (the hosts of links are kept as words), and of alternatives the plain
    one is used, unless it is empty or only a note that there is another. Of attachments only names and kinds are kept.
    A body is cut after a million characters. Fields that the filter has added (X-Deciban) are skipped.

    >>> mail = read(b"Subject: =?utf-8?q?Caf=C3=A9?=\\nContent-Type: text/html\\n\\n<p>Come <b>now</b>!")
    >>> mail.subject, mail.body
    ('Café', 'Come now!')
    >>> print(mail.text)
    Subject: Café
    Content-Type: text/html
    X-Part: text/html
    <BLANKLINE>
    Come now!
    >>> read("Subject: Hello\\nDate: today\\n\\nText", headers=CONTENT_HEADERS).headers
    (('Subject', 'Hello'),)
    """
    if isinstance(headers, str):
        raise TypeError(f"headers must be a list of names: give ({headers!r},) to keep one of them")
    mail = parsed(raw)
    wanted = None if headers is None else {name.lower() for name in headers}
    attachments: list[tuple[str, str]] = []
    texts: list[tuple[str, str]] = []
    for part in mail.leaves() if mail.children else (mail,):
        if not is_read(part):
            attachments.append((part.name, part.kind))
        elif part.kind:
            texts.append((part.kind, one_word(part.charset)))
    return Mail(
        kernel.kept_fields(mail.fields, wanted, is_own),
        clean(body(mail))[:MAX_BODY_CHARACTERS],
        tuple(attachments),
        tuple(texts),
    )


def parsed(raw: bytes | str | os.PathLike[str] | Message[Any, Any]) -> Part:
    if isinstance(raw, str):
        if raw.isascii():
            return parse(raw.encode("ascii"))
        part = parse(to_bytes(raw))
        return as_unicode(part) if is_unicode(raw) else part
    if isinstance(raw, bytes | bytearray | memoryview):
        return parse(bytes(raw))
    if isinstance(raw, os.PathLike):
        with open(raw, "rb") as file:
            return parse(file.read(MAX_MAIL_BYTES))
    from email.message import Message  # a slow import that raw mails do not need

    if isinstance(raw, Message):
        return from_message(raw)
    raise KindError(
        "a mail must be bytes, a string, a path or an email.message.Message, not {type} {shown}",
        value=raw,
        type=type(raw).__name__,
        shown=f"{raw!r:.80}",
    )


def is_read(part: Part) -> bool:
    """Whether a part is a text to read; the others are attachments. A multipart that could not be split is read too."""
    readable = not part.kind or part.kind in HTML_TYPES or part.kind.startswith(("text/", "multipart/", "message/"))
    return readable and not part.attached


def body(part: Part) -> str:
    """The text of a part and of those in it."""
    if not part.children:
        return shown(part)
    if part.kind == "multipart/alternative":
        return one_of(part.children)
    texts = [text for text in map(body, part.children) if text.strip()]
    if part.kind.startswith("message/"):
        seen = [field for field in part.children[0].fields if field[0].lower() in CONTENT_HEADERS]
        texts.insert(0, "".join(f"{name}: {value}\n" for name, value in seen))
    return "\n".join(texts)


def one_of(alternatives: tuple[Part, ...]) -> str:
    """The plain text, unless it is empty or only a note that there is another; else the first that is not empty."""
    plain = next(filter(str.strip, (body(part) for part in alternatives if part.kind in PLAIN_TYPES)), "")
    if len(plain) > MAX_NOTE_CHARACTERS:
        return plain
    other = next(filter(str.strip, (body(part) for part in alternatives if part.kind not in PLAIN_TYPES)), "")
    return plain if plain and len(other) < 10 * len(plain) else other


def shown(part: Part) -> str:
    """A leaf as text, empty if it is an attachment."""
    if not is_read(part):
        return ""
    charsets = ("utf-8", part.charset) if part.encoding == UNICODE else (part.charset,)
    text = characters(transfer(part.data[:MAX_PART_BYTES], part.encoding), *charsets)
    is_html = part.kind in HTML_TYPES or (part.kind in PLAIN_TYPES and LOOKS_LIKE_HTML.match(text))
    return text_of_html(text) if is_html else text


def one_word(charset: str) -> str:
    return "-".join(charset.lower().split())


def tokens(mail: Mail) -> Iterator[str]:
    """The words of a mail in lower case and the runs of other signs, those of a header field marked by its name.

    >>> list(tokens(Mail((("Subject", "FREE!!"),), "Call me")))
    ['subject:free', 'subject:!!', 'call', 'me']
    """
    for name, value in mail.fields:
        mark = name.lower()
        for word in WORD.findall(value.lower()):
            yield f"{mark}:{word}"
    for match in WORD.finditer(mail.body.lower()):
        yield match[0]
