"""The parts of a mail (RFC 822, MIME), from bytes of any kind. Nothing raises, and time is linear in the length.

The standard library's parser asks every line about the boundaries of all the parts it is nested in, and takes seconds
for a hostile mail of 200 kB; so parts are cut here, from the outside to the inside.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_to_bytes

from deciban.text.mail.decode import characters, header, one_line, transfer

if TYPE_CHECKING:
    from email.message import Message

MAX_DEPTH = 20  # parts inside parts: forwards of forwards rarely reach 10, and each level copies the bytes once
MAX_PARTS = 1000  # of a whole mail; a digest of a busy list has about a hundred
MAX_HEADER_BYTES = 1 << 18  # bytes of a header that are read; servers refuse more than about 64 kB
MAX_PARAMETER_CHARACTERS = 1 << 12  # characters of a Content-Type that are searched for parameters

FIELD = re.compile(rb"([!-9;-~]++)[ \t]*+:(.*+(?:\n[ \t].*+)*+)\n?")
ENVELOPE = re.compile(rb">?From .*+\n?(?:>From .*+\n)*+")
DATE = re.compile(rb">?From (?=.*\d:\d\d)(?=.*\b(?:19|20)\d\d\b)")
NO_BYTE = re.compile(r"[^\x00-\xff\udc80-\udcff]")
LIKELY_BOUNDARY = re.compile(rb"^--(.{1,70}?)[ \t]*+\nContent-[A-Za-z-]++:", re.MULTILINE)
TYPE = re.compile(r"\s*+([\w.+-]++/[\w.+-]++)", re.ASCII)
PARAMETER = re.compile(r"""[;\s]\s*+([\w*.!#$%&'+-]++)\s*+=\s*+(?:"((?:[^"\\]++|\\.)*+)"?|([^;\s]*+))""", re.DOTALL)

ENCODINGS = ("base64", "quoted-printable")
UNICODE = "unicode"

Fields = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a mail: its header, and either bytes or other parts."""

    fields: Fields  # decoded, each on one line
    kind: str  # "text/plain"; empty where nothing or nothing sensible was declared
    charset: str
    encoding: str  # of its bytes: "base64", "quoted-printable", UNICODE, or anything else, which means none
    name: str  # of the file, if it has one
    attached: bool  # to be saved rather than shown
    data: bytes = b""
    children: tuple[Part, ...] = ()

    def leaves(self) -> Iterator[Part]:
        if not self.children:
            yield self
        for child in self.children:
            yield from child.leaves()


def parse(raw: bytes) -> Part:
    """A whole mail as parts.

    >>> mail = parse(b"Content-Type: multipart/mixed; boundary=b\\n\\n--b\\n\\nHello\\n--b\\nContent-Type: a/b\\n")
    >>> [(part.kind, part.data) for part in mail.leaves()]
    [('', b'Hello'), ('a/b', b'')]
    """
    if b"\r" in raw:
        raw = raw.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return parse_part(raw.removeprefix(b"\xef\xbb\xbf"), 0, "", iter(range(MAX_PARTS)))


def parse_part(raw: bytes, depth: int, default: str, left: Iterator[int]) -> Part:
    """`default` is the kind of a part that does not say its kind; `left` counts how many parts may still come."""
    fields, start = read_header(raw)
    part, boundary = described(fields, raw[start:], default)
    if depth == MAX_DEPTH:
        return part
    if part.kind.startswith("multipart/") or not part.kind:
        inner = "message/rfc822" if part.kind == "multipart/digest" else ""
        sections = cut(part.data, boundary) if boundary else []
        if not sections and (boundary := likely_boundary(part)):
            part, sections = replace(part, kind=part.kind or "multipart/mixed"), cut(part.data, boundary)
        children = [parse_part(section, depth + 1, inner, left) for section, _ in zip(sections, left, strict=False)]
    elif part.kind in ("message/rfc822", "message/global", "message/news"):
        children = [parse_part(transfer(part.data, part.encoding).lstrip(b"\n"), depth + 1, "", left)]
    else:
        return part
    return replace(part, data=b"", children=tuple(children)) if children else part


def from_message(message: Message[Any, Any], depth: int = 0) -> Part:
    """The same parts from a message that the standard library has parsed."""
    from email.message import Message

    fields = tuple((name, header(to_bytes(str(value)))) for name, value in message.raw_items())
    # What get_payload() reads: it replaces bytes that are no ASCII, and raises where it cannot.
    payload = getattr(message, "_payload", None)
    if not isinstance(payload, list):
        text = "" if payload is None else str(payload)
        part, _ = described(fields, to_bytes(text), "")
        return as_unicode(part) if is_unicode(text) else part
    part, _ = described(fields, b"", "")
    if depth == MAX_DEPTH:
        return part
    children = [from_message(child, depth + 1) for child in payload[:MAX_PARTS] if isinstance(child, Message)]
    return replace(part, children=tuple(children))


def as_unicode(part: Part) -> Part:
    """The same part, where its bytes are UTF-8 because a text has been encoded, and not because its charset says so."""
    if part.children:
        return replace(part, children=tuple(map(as_unicode, part.children)))
    return part if part.encoding in ENCODINGS else replace(part, encoding=UNICODE)


def is_unicode(text: str) -> bool:
    """Whether a text holds characters that do not stand for bytes."""
    return NO_BYTE.search(text) is not None


def to_bytes(text: str) -> bytes:
    """The bytes that a text was read from, as far as can be told: Latin-1 maps bytes to characters one to one, and
    surrogates are what Python makes of bytes that are no UTF-8."""
    for codec, errors in (("latin-1", "strict"), ("utf-8", "surrogateescape")):
        try:
            return text.encode(codec, errors)
        except UnicodeEncodeError:
            continue
    return text.encode("utf-8", "replace")


def read_header(raw: bytes) -> tuple[Fields, int]:
    """The header fields at the beginning of bytes, and where the body begins."""
    found: list[tuple[str, str]] = []
    at = 0
    while True:
        if field := FIELD.match(raw, at):
            if at < MAX_HEADER_BYTES:
                name, value = field[1][: MAX_HEADER_BYTES - at], field[2][: max(0, MAX_HEADER_BYTES - field.start(2))]
                found.append((name.decode("ascii"), header(value)))
            at = field.end()
        elif (end := end_of_envelope(raw, at)) > at:
            at = end
        else:
            return tuple(found), at + (raw[at : at + 1] == b"\n")


def end_of_envelope(raw: bytes, at: int) -> int:
    """Where the line ends that mbox files begin a mail with; `at` if there is none."""
    line = ENVELOPE.match(raw, at)
    return line.end() if line and (is_dated(raw, at) or FIELD.match(raw, line.end())) else at


def is_dated(raw: bytes, at: int = 0) -> bool:
    """Whether a line "From …" ends in a date, as those of mbox files do and those of letters do not."""
    return DATE.match(raw, at, at + 300) is not None  # three times as long as such lines are


def described(fields: Fields, data: bytes, default: str) -> tuple[Part, str]:
    """A part with what its header says of it, and the boundary of the parts in it."""
    said: dict[str, str] = {}
    for name, value in fields:
        said.setdefault(name.lower(), value[:MAX_PARAMETER_CHARACTERS])
    content, disposition = said.get("content-type", ""), said.get("content-disposition", "")
    kind = TYPE.match(content)
    about, shown = parameters(content), parameters(disposition)
    part = Part(
        fields,
        kind[1].lower() if kind else "" if content else default,
        parameter(about, "charset"),
        said.get("content-transfer-encoding", "").lower(),
        parameter(shown, "filename") or parameter(about, "name"),
        disposition.lower().startswith("attachment"),
        data,
    )
    return part, parameter(about, "boundary")


def parameters(value: str) -> dict[str, str]:
    """What follows the first word of a Content-Type: name="value" or name=value, the first of each name.

    >>> parameters('text/plain; charset="utf-8"; Name=a.txt')
    {'charset': 'utf-8', 'name': 'a.txt'}
    """
    found: dict[str, str] = {}
    for name, quoted, bare in PARAMETER.findall(value):
        found.setdefault(name.lower(), re.sub(r"\\(.)", r"\1", quoted) if quoted else bare)
    return found


def parameter(given: dict[str, str], name: str) -> str:
    """A parameter, also where RFC 2231 encodes it (name*) or continues it (name*0, name*1, …).

    >>> parameter({"name*0*": "utf-8''caf%C3%A9", "name*1": ".exe"}, "name")
    'café.exe'
    """
    if name in given:
        return given[name]
    keys = [name + "*"]
    for number in range(len(given)):
        keys += [f"{name}*{number}", f"{name}*{number}*"]
    value = "".join(given[key] for key in keys if key in given)
    charset, quoted, rest = value.partition("'")
    return one_line(characters(unquote_to_bytes(rest.partition("'")[2]), charset)) if quoted else value


def likely_boundary(part: Part) -> str:
    """The first line "--…" with a part's header after it, for mails that have lost their own header or changed it.
    Where no parts were said to come, they must come at once or after a single line: others may speak of mail."""
    line = LIKELY_BOUNDARY.search(part.data, 0, len(part.data) if part.kind else 1000)
    if line is None or (not part.kind and b"\n" in part.data[: line.start()].strip()):
        return ""
    return line[1].decode("latin-1")


def cut(data: bytes, boundary: str) -> list[bytes]:
    """What stands between the lines "--boundary", up to "--boundary--" or the end.

    >>> cut(b"before\\n--b\\none\\n--b\\n\\ntwo\\n--bb\\n--b--\\nafter", "b")
    [b'one', b'\\ntwo\\n--bb']
    """
    mark, data = b"\n--" + to_bytes(boundary), b"\n" + data
    found: list[bytes] = []
    start, at = -1, data.find(mark)
    while at >= 0 and len(found) < MAX_PARTS:
        end = data.find(b"\n", at + 1)
        end = len(data) if end < 0 else end
        after = data[at + len(mark) : end].rstrip()
        if after in (b"", b"--"):
            if start >= 0:
                found.append(data[start:at])
            if after:
                return found
            start = end + 1
        at = data.find(mark, end)
    if start >= 0:
        found.append(data[start:])
    return found
