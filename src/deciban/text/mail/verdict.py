"""X-Deciban: what the filter writes into the header of a mail, and the name under which a mail is learned."""

from __future__ import annotations

import binascii
import re
from typing import NamedTuple

LINE_CHARACTERS = 76
MAX_ITEM_BYTES = 45  # of an item's name: so that it is one encoded word, which has at most 75 characters

OWN_FIELDS = re.compile(rb"^x-deciban[-: \t].*+\n?(?:[ \t].*+\n?)*+", re.IGNORECASE | re.MULTILINE)
HEADER = re.compile(rb"(?:.+\n)*+")  # lines up to the first empty one
NOT_IN_A_VALUE = re.compile(r"[^!-:<-~]+")
IDENTIFYING = ("message-id", "date", "from", "subject")  # fields that no server on the way changes
FIELD = re.compile(rb"^([!-9;-~]++)[ \t]*+:(.*+(?:\n[ \t].*+)*+)", re.MULTILINE)


class Verdict(NamedTuple):
    """What the filter answers about a mail. Probability and decibans are those of spam, or of the label where the
    model knows no spam; evidence is (item, decibans), the strongest first."""

    label: str
    probability: float
    decibans: float
    model: str
    version: int | None = None
    evidence: tuple[tuple[str, float], ...] = ()

    def header(self) -> str:
        r"""The header fields, each line ended by "\n".

        >>> print(Verdict("spam", 0.9995, 33.0, "mail", 7, (("subject:free", 4.25), ("caf\u00e9", -1.0))).header())
        X-Deciban: spam; probability=0.999500; decibans=33.0; model=mail; version=7
        X-Deciban-Evidence: +4.2 subject:free | -1.0 =?utf-8?b?Y2Fmw6k=?=
        <BLANKLINE>
        """
        parts = [
            value(self.label),
            f"probability={self.probability:.6f}",
            f"decibans={self.decibans:.1f}",
            f"model={value(self.model)}",
        ]
        if self.version is not None:
            parts.append(f"version={self.version}")
        lines = folded("X-Deciban", [part + ";" for part in parts[:-1]] + parts[-1:])
        if self.evidence:
            items = [f"{decibans:+.1f} {item(name)}" for name, decibans in self.evidence]
            lines += folded("X-Deciban-Evidence", [one + " |" for one in items[:-1]] + items[-1:])
        return lines


def folded(name: str, parts: list[str]) -> str:
    """A header field whose parts stand in lines of at most LINE_CHARACTERS, if a part is not longer itself."""
    lines = [f"{name}:"]
    for part in parts:
        if len(lines[-1]) + 1 + len(part) > LINE_CHARACTERS and (len(lines) > 1 or lines[-1] != f"{name}:"):
            lines.append("")
        lines[-1] += " " + part
    return "".join(line + "\n" for line in lines)


def value(text: str) -> str:
    """A value without signs that would end it.

    >>> value("a; b\\nc: d")
    'a_b_c:_d'
    """
    return NOT_IN_A_VALUE.sub("_", text)[:100] or "_"


def item(name: str) -> str:
    """The name of an item in printable ASCII; other letters as an encoded word (RFC 2047)."""
    if name.isascii() and name.isprintable() and "=?" not in name:
        return name[:MAX_ITEM_BYTES]
    cut = name.encode("utf-8", "replace")[:MAX_ITEM_BYTES].decode("utf-8", "ignore").encode()
    return f"=?utf-8?b?{binascii.b2a_base64(cut, newline=False).decode()}?="


def is_own(field: str) -> bool:
    """Whether a header field is ours: it is no evidence, since a filter must not learn from its own answers.

    >>> is_own("X-DECIBAN"), is_own("X-Deciban-Evidence"), is_own("X-Decibanned")
    (True, True, False)
    """
    return field[:9].lower() == "x-deciban" and (field.rstrip().lower() + "-").startswith("x-deciban-")


def canonical(raw: bytes) -> bytes:
    r"""A mail as it was before a filter or a mailbox added to it: without our fields, without the line "From …" of mbox
    files, lines ended by "\n".

    >>> canonical(b"From me Sat Jan  3 01:05:34 1996\r\nX-Deciban: ham\r\n folded\r\nTo: me\r\n\r\nX-Deciban: a")
    b'To: me\n\nX-Deciban: a'
    """
    if b"\r\n" in raw:
        raw = raw.replace(b"\r\n", b"\n")
    if raw.startswith(b"From "):
        raw = raw[raw.find(b"\n") + 1 or len(raw) :]
    end = header_end(raw)
    return OWN_FIELDS.sub(b"", raw[:end]) + raw[end:]


def header_end(raw: bytes) -> int:
    """Where the first empty line begins, or the end."""
    header = HEADER.match(raw)
    assert header is not None  # it matches nothing, too
    end = header.end()
    return end if raw[end : end + 1] == b"\n" else len(raw)


def identity(raw: bytes) -> str:
    r"""The id of a mail: the same wherever the mail is met on its way, and another for any other mail.

    It is a hash of the fields that no server changes and of the body. A Message-ID alone would be for the sender to
    choose: a spam with the id of a wanted mail would take its place when it is learned.

    >>> one = b"Message-ID: <1@home.example>\nSubject: Lunch\n\nAt noon?\n"
    >>> other = b"Received: by post.example\r\nX-Deciban: ham\r\n" + one.replace(b"\n", b"\r\n")
    >>> identity(one) == identity(other), identity(one) == identity(one.replace(b"noon", b"ten"))
    (True, False)
    """
    import hashlib  # not needed to answer

    raw = canonical(raw)
    end = header_end(raw)
    first: dict[str, bytes] = {}
    for field in FIELD.finditer(raw, 0, end):
        name = field[1].decode("ascii").lower()
        if name in IDENTIFYING:
            first.setdefault(name, b" ".join(field[2].split()))
    digest = hashlib.sha256()
    for name in IDENTIFYING:
        digest.update(first.get(name, b"") + b"\n")
    digest.update(raw[end:].strip())
    return "mail-" + digest.hexdigest()[:40]
