"""The parts of a mail (RFC 822, MIME), from any bytes. Nothing raises, and time is linear in the length.

The standard library's parser compares every line with the boundaries of all enclosing parts, and takes seconds for a
hostile mail of 200 kB; so parts are split here, from the outside in.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from deciban._kernel import mail as kernel
from deciban.text.mail.decode import characters, header, one_line, transfer

if TYPE_CHECKING:
    from email.message import Message

MAX_DEPTH = 20  # of nested parts: forwarded mails rarely reach 10, and each level copies the bytes once
MAX_PARTS = 1000  # of a mail; a digest of a busy list has about a hundred
MAX_HEADER_BYTES = 1 << 18  # read of a header; servers refuse more than about 64 kB
MAX_PARAMETER_CHARACTERS = 1 << 12  # of a Content-Type that are searched for parameters

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


class Part(NamedTuple):
    """A part of a mail: its header, and either bytes or other parts."""

    fields: Fields  # decoded, each on one line
    kind: str  # "text/plain"; empty if no valid type was declared
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


def parse_part(raw: bytes, depth: int, default: str, part_numbers: Iterator[int]) -> Part:
    """A part and those in it. `default` is the kind of a part without a declared one; `part_numbers` limits how many
    parts are parsed."""
    fields, start = read_header(raw)
    part, boundary = described(fields, raw[start:], default)
    if depth == MAX_DEPTH:
        return part
    if part.kind.startswith("multipart/") or not part.kind:
        inner = "message/rfc822" if part.kind == "multipart/digest" else ""
        sections = cut(part.data, boundary) if boundary else []
        if not sections and (boundary := likely_boundary(part)):
            part, sections = part._replace(kind=part.kind or "multipart/mixed"), cut(part.data, boundary)
        children = [
            parse_part(section, depth + 1, inner, part_numbers)
            for section, _ in zip(sections, part_numbers, strict=False)
        ]
    elif part.kind in ("message/rfc822", "message/global", "message/news"):
        children = [parse_part(transfer(part.data, part.encoding).lstrip(b"\n"), depth + 1, "", part_numbers)]
    else:
        return part
    return part._replace(data=b"", children=tuple(children)) if children else part


def from_message(message: Message[Any, Any], depth: int = 0) -> Part:
    """The same parts from a message that the standard library has parsed."""
    from email.message import Message

    fields = tuple((name, header(to_bytes(str(value)))) for name, value in message.raw_items())
    # Not get_payload(), which replaces bytes that are not ASCII, and may raise.
    payload = getattr(message, "_payload", None)
    if not isinstance(payload, list):
        text = "" if payload is None else str(payload)
        part, _ = described(fields, to_bytes(text), "")
        return as_unicode(part) if is_unicode(text) else part
    part, _ = described(fields, b"", "")
    if depth == MAX_DEPTH:
        return part
    children = [from_message(child, depth + 1) for child in payload[:MAX_PARTS] if isinstance(child, Message)]
    return part._replace(children=tuple(children))


def as_unicode(part: Part) -> Part:
    """The same part, marked as UTF-8 because it was encoded from a str, whatever charset it declares."""
    if part.children:
        return part._replace(children=tuple(map(as_unicode, part.children)))
    return part if part.encoding in ENCODINGS else part._replace(encoding=UNICODE)


def is_unicode(text: str) -> bool:
    """Whether a text holds characters that do not represent bytes."""
    try:
        text.encode("latin-1")  # much faster than to search
    except UnicodeEncodeError:
        return NO_BYTE.search(text) is not None
    return False


def to_bytes(text: str) -> bytes:
    """The bytes that a text was probably read from: Latin-1 maps bytes to characters one to one, and surrogates are
    Python's escapes for bytes that are not UTF-8."""
    for codec, errors in (("latin-1", "strict"), ("utf-8", "surrogateescape")):
        try:
            return text.encode(codec, errors)
        except UnicodeEncodeError:
            continue
    return text.encode("utf-8", "replace")


def read_header(raw: bytes) -> tuple[Fields, int]:
    """The header fields at the start of bytes, and where the body starts."""
    fields: list[tuple[str, str]] = []
    at = 0
    while True:
        plain, at = kernel.header_fields(raw, at, MAX_HEADER_BYTES, header)
        fields += plain
        if raw.startswith(b"\n", at):
            return tuple(fields), at + 1
        if field := FIELD.match(raw, at):  # not all of it is read
            if at < MAX_HEADER_BYTES:
                name, value = field[1][: MAX_HEADER_BYTES - at], field[2][: max(0, MAX_HEADER_BYTES - field.start(2))]
                fields.append((name.decode("ascii"), header(value)))
            at = field.end()
        elif (end := end_of_envelope(raw, at)) > at:
            at = end
        else:
            return tuple(fields), at


def end_of_envelope(raw: bytes, at: int) -> int:
    """The end of the line that starts a mail in an mbox file; `at` if there is none."""
    line = ENVELOPE.match(raw, at)
    return line.end() if line and (is_dated(raw, at) or FIELD.match(raw, line.end())) else at


def is_dated(raw: bytes, at: int = 0) -> bool:
    """Whether a line "From …" ends in a date, as those of mbox files do and those of letters do not."""
    return DATE.match(raw, at, at + 300) is not None  # such lines are about a third as long


def described(fields: Fields, data: bytes, default: str) -> tuple[Part, str]:
    """A part with the properties declared in its header, and the boundary of the parts in it."""
    headers = kernel.content_fields(fields, MAX_PARAMETER_CHARACTERS)
    content, disposition = headers.get("content-type", ""), headers.get("content-disposition", "")
    kind, charset, name, boundary = declared(content, disposition)
    encoding = headers.get("content-transfer-encoding", "").lower()
    attached = disposition.lower().startswith("attachment")
    return Part(fields, kind if content else default, charset, encoding, name, attached, data), boundary


@lru_cache(256)
def declared(content: str, disposition: str) -> tuple[str, str, str, str]:
    """The kind of a part, its charset, the name of its file, and the boundary of the parts in it."""
    kind, given = TYPE.match(content), parameters(content)
    name = parameter(parameters(disposition), "filename") or parameter(given, "name")
    return kind[1].lower() if kind else "", parameter(given, "charset"), name, parameter(given, "boundary")


def parameters(value: str) -> dict[str, str]:
    """The parameters of a Content-Type: name="value" or name=value, the first of each name.

    >>> parameters('text/plain; charset="utf-8"; Name=a.txt')
    {'charset': 'utf-8', 'name': 'a.txt'}
    """
    values: dict[str, str] = {}
    for name, quoted, bare in PARAMETER.findall(value):
        plain = re.sub(r"\\(.)", r"\1", quoted) if "\\" in quoted else quoted
        values.setdefault(name.lower(), plain or bare)
    return values


def parameter(given: dict[str, str], name: str) -> str:
    """A parameter, also if encoded (name*) or continued (name*0, name*1, …) as in RFC 2231.

    >>> parameter({"name*0*": "utf-8''caf%C3%A9", "name*1": ".exe"}, "name")
    'café.exe'
    """
    if name in given:
        return given[name]
    if not any("*" in key for key in given):
        return ""
    keys = [name + "*"]
    for number in range(len(given)):
        keys += [f"{name}*{number}", f"{name}*{number}*"]
    value = "".join(given[key] for key in keys if key in given)
    charset, quoted, rest = value.partition("'")
    if not quoted:
        return value
    from urllib.parse import unquote_to_bytes  # few names are encoded so

    return one_line(characters(unquote_to_bytes(rest.partition("'")[2]), charset))


def likely_boundary(part: Part) -> str:
    """The first line "--…" followed by a part's header, for mails whose own header was lost or changed. If no parts
    were declared, they must come at once or after a single line: other texts may quote mail."""
    end = len(part.data) if part.kind else 1000
    if not part.data.startswith(b"--") and part.data.find(b"\n--", 0, end) < 0:  # there is mostly none
        return ""
    line = LIKELY_BOUNDARY.search(part.data, 0, end)
    if line is None or (not part.kind and b"\n" in part.data[: line.start()].strip()):
        return ""
    return line[1].decode("latin-1")


def cut(data: bytes, boundary: str) -> list[bytes]:
    """The sections between the lines "--boundary", up to "--boundary--" or the end.

    >>> cut(b"before\\n--b\\none\\n--b\\n\\ntwo\\n--bb\\n--b--\\nafter", "b")
    [b'one', b'\\ntwo\\n--bb']
    """
    mark, data = b"\n--" + to_bytes(boundary), b"\n" + data
    sections: list[bytes] = []
    start, at = -1, data.find(mark)
    while at >= 0 and len(sections) < MAX_PARTS:
        end = data.find(b"\n", at + 1)
        end = len(data) if end < 0 else end
        after = data[at + len(mark) : end].rstrip()
        if after in (b"", b"--"):
            if start >= 0:
                sections.append(data[start:at])
            if after:
                return sections
            start = end + 1
        at = data.find(mark, end)
    if start >= 0:
        sections.append(data[start:])
    return sections
