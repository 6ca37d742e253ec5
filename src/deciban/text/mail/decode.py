"""Bytes of a mail to characters: transfer encodings, charsets, encoded words. Broken encodings are read as they are."""

from __future__ import annotations

import binascii
import re
from encodings.aliases import aliases
from functools import lru_cache

from deciban._kernel import mail as kernel

# Codecs that Python lists but that are not charsets: they turn bytes into bytes, or exist on only one system.
NOT_CHARSETS = {"base64_codec", "bz2_codec", "hex_codec", "mbcs", "quopri_codec", "rot_13", "uu_codec", "zlib_codec"}

# Names that Python does not know, and charsets whose names are used for a superset of them.
SEEN_IN_MAIL = {
    "cp874": "cp874",
    "windows_874": "cp874",
    "koi8_u": "koi8_u",
    "iso_8859_8_i": "iso8859_8",
    "x_sjis": "cp932",
    "shift_jis": "cp932",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "x_gbk": "gb18030",
    "ks_c_5601_1987": "cp949",
    "euc_kr": "cp949",
}
CODECS = {name: codec for name, codec in aliases.items() if codec not in NOT_CHARSETS}
CODECS |= {codec: codec for codec in CODECS.values()} | SEEN_IN_MAIL

# Codecs that most texts are in: they read ASCII as it is, and give no halves of surrogate pairs.
ABOVE_ASCII = {"ascii", "utf_8", "latin_1", "cp1252"}

MAX_CHARSET_CHARACTERS = 40  # read of the name of a charset

ENCODED_WORD = re.compile(r"=\?([^?\s]+)\?([bBqQ])\?([^?]*)\?=")
NOT_BASE64 = bytes(set(range(256)) - set(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/="))

# Invisible characters that would split words; and halves of surrogate pairs, which UTF-7 can produce and UTF-8 cannot
# encode.
UNSEEN = "\0\xad\u200b\u2060\ufeff"
HALVES = re.compile("[\ud800-\udfff]")


def transfer(data: bytes, encoding: str) -> bytes:
    """Undo a transfer encoding; bytes that are not encoded as declared are returned as they are.

    >>> transfer(b"Z3JlZW4g\\nZ3Jhc3M", "base64"), transfer(b"caf=C3=A9 =?", "quoted-printable")
    (b'green grass', b'caf\\xc3\\xa9 =?')
    """
    if encoding == "base64":
        return from_base64(data)
    return binascii.a2b_qp(data) if encoding == "quoted-printable" else data


def from_base64(data: bytes) -> bytes:
    """Base64 up to its padding, ignoring characters outside its alphabet."""
    first = data.lstrip().partition(b"\n")[0].strip()
    if b" " in first:  # lines of base64 hold no blanks: this is plain text under a wrong name
        return data
    digits = data.translate(None, NOT_BASE64).partition(b"=")[0]
    if len(digits) % 4 == 1:  # six bits of a lost byte
        digits = digits[:-1]
    return binascii.a2b_base64(digits + b"=" * (-len(digits) % 4))


def characters(data: bytes, *charsets: str) -> str:
    """Decode by the first of the charsets that fits, else as UTF-8, else as Latin-1, which fits everything.

    If none fits, a charset is still used if it decodes five times as many characters as it does not: a text cut in
    the middle of a character, or one wrong byte in a page of Chinese.

    >>> characters(b"caf\\xc3\\xa9", "us-ascii"), characters(b"caf\\xe9", "utf-8"), characters(b"caf\\xe9", "no-such")
    ('café', 'café', 'café')
    """
    codecs = known_codecs(tuple([charset[:MAX_CHARSET_CHARACTERS] for charset in charsets]))
    if codecs[0] in ABOVE_ASCII and data.isascii():  # most texts
        return data.decode("ascii")
    for errors in ("strict", "replace"):
        for codec in codecs:
            try:
                text = data.decode(codec, errors)
            except UnicodeError:
                continue
            if errors == "strict" or believable(text):
                return text if codec in ABOVE_ASCII or is_encodable(text) else HALVES.sub("\ufffd", text)
    return data.decode("latin-1")


def is_encodable(text: str) -> bool:
    """Whether no half of a surrogate pair is in it; much faster than to search for one."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def believable(text: str) -> bool:
    wrong = text.count("\ufffd")
    return len(text) - len(text.encode("ascii", "ignore")) >= 6 * wrong


@lru_cache(256)
def known_codecs(charsets: tuple[str, ...]) -> tuple[str, ...]:
    """Python's names of charsets, as far as it knows them, and UTF-8; each once."""
    names = (re.sub(r"[^a-z0-9]+", "_", charset.lower()).strip("_") for charset in (*charsets, "utf-8"))
    return tuple(dict.fromkeys(CODECS[name] for name in names if name in CODECS))


def clean(text: str) -> str:
    """The text with line ends "\\n" and without invisible characters."""
    if not kernel.has_any(text, "\r" + UNSEEN):
        return text
    return without_unseen(text.replace("\r\n", "\n").replace("\r", "\n"))


def without_unseen(text: str) -> str:
    for sign in UNSEEN[:1] if text.isascii() else UNSEEN:
        text = text.replace(sign, "")
    return text


def header(raw: bytes) -> str:
    """The value of a header field as one line, its encoded words decoded.

    >>> header(b"=?utf-8?q?caf=C3=A9?=\\n =?utf-8?b?IGF1IGxhaXQ=?= =?broken?x?")
    'café au lait =?broken?x?'
    """
    text = raw.decode("ascii") if raw.isascii() else characters(raw)
    if "=?" in text:
        text = without_encoded_words(text)
    return one_line(text)


def one_line(text: str) -> str:
    """The text without line ends, runs of blanks and invisible characters."""
    return " ".join(without_unseen(text).split())


def without_encoded_words(text: str) -> str:
    """Encoded words decoded. Adjacent ones are joined first, since a character may be split between them; broken ones
    stay as they are."""
    out: list[str] = []
    run: list[bytes] = []
    charset, at = "", 0
    for word in ENCODED_WORD.finditer(text):
        data = encoded_word(word[2], word[3])
        if data is None:
            continue
        between, name = text[at : word.start()], word[1].partition("*")[0].lower()  # RFC 2231: charset*language
        if between.strip() or name != charset:
            out.append(characters(b"".join(run), charset))
            run.clear()
            charset = name
        if between.strip():
            out.append(between)
        run.append(data)
        at = word.end()
    return "".join(out) + characters(b"".join(run), charset) + text[at:]


def encoded_word(encoding: str, text: str) -> bytes | None:
    """The bytes of an encoded word; None if it is broken."""
    data = text.encode("utf-8")
    if encoding in "qQ":
        return binascii.a2b_qp(data, header=True)
    digits = data.rstrip(b"=")
    if digits.translate(None, NOT_BASE64 + b"=") != digits or len(digits) % 4 == 1:
        return None
    return binascii.a2b_base64(digits + b"=" * (-len(digits) % 4))
