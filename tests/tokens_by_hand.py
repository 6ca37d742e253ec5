"""How texts are cut into tokens, written out character by character from Unicode's names and categories. Slow, and easy
to read; of code points that Unicode has not assigned it knows nothing."""

from __future__ import annotations

import unicodedata
from itertools import pairwise

MIXED = "⟨mixed scripts⟩"
UNSPACED = (
    "CJK UNIFIED IDEOGRAPH", "CJK COMPATIBILITY IDEOGRAPH", "IDEOGRAPHIC", "VERTICAL IDEOGRAPHIC", "HANGZHOU NUMERAL",
    "HIRAGANA", "KATAKANA", "HALFWIDTH KATAKANA", "HENTAIGANA", "VERTICAL KANA", "MASU MARK", "THAI", "LAO", "MYANMAR",
    "KHMER", "TAI LE", "NEW TAI LUE", "TAI THAM", "TAI VIET", "AHOM", "TANGUT", "NUSHU", "KHITAN SMALL SCRIPT",
    "OLD CHINESE", "KATAKANA-HIRAGANA",
)  # fmt: skip
SYLLABIC = (
    "DEVANAGARI", "BENGALI", "GURMUKHI", "GUJARATI", "ORIYA", "TAMIL", "TELUGU", "KANNADA", "MALAYALAM", "SINHALA",
    "TIBETAN", "ETHIOPIC", "CHEROKEE", "CANADIAN SYLLABICS", "YI SYLLABLE", "VAI SYLLABLE", "HANGUL SYLLABLE",
)  # fmt: skip
OTHER_MARKS = {"\u0e33", "\u0eb3", "\u200c", "\uff9e", "\uff9f", *map(chr, range(0x1F3FB, 0x1F400))}
OTHER_MARKS |= set(map(chr, range(0xE0020, 0xE0080)))
STACKERS = "\u1039\u17d2\u1a60"  # MYANMAR SIGN VIRAMA, KHMER SIGN COENG, TAI THAM SIGN SAKOT
NUMBER_SIGNS = "\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd"  # visible
PICTURES = [
    (0x231A, 0x231B), (0x23E9, 0x23FA), (0x2600, 0x27BF), (0x2B1B, 0x2B1C), (0x2B50, 0x2B55), (0x1F000, 0x1F0FF),
    (0x1F170, 0x1F1E5), (0x1F200, 0x1FAFF), (0x1FC00, 0x1FFFD),
]  # fmt: skip


def kind(c: str) -> str:
    """What a character is: see docs/decisions/0026-texts-in-every-script.md."""
    category, name = unicodedata.category(c), unicodedata.name(c, "")
    if c in OTHER_MARKS or category[0] == "M" or c == "\u200d":
        return "mark"
    if c == "\u200b" or c.isspace():
        return "space"
    if category == "Cf" and c not in NUMBER_SIGNS:
        return "hidden"
    if name.startswith("REGIONAL INDICATOR"):
        return "flag"
    tangut = 0x17000 <= ord(c) < 0x19000  # whose names not every version of Python has
    if category in ("Lo", "Lm", "Nl") and (tangut or name.startswith(UNSPACED)):
        return "alone"
    if c.isalnum() or c == "_":
        return "letter"
    return "picture" if any(low <= ord(c) <= high for low, high in PICTURES) else "other"


def clusters(text: str) -> list[tuple[str, str]]:
    """(kind, string) of each character with its marks, and of what they join; hidden ones are left out."""
    out: list[tuple[str, str]] = []
    for c in text:
        mine, (before, joined) = kind(c), out[-1] if out else ("space", "")
        if mine == "hidden":
            continue
        if mine == "mark":
            if before == "space":
                out.append(("other", c))
            else:
                out[-1] = before, joined + c
        elif (
            (mine == before == "flag" and sum(kind(each) == "flag" for each in joined) == 1)
            or (mine == before == "picture" and joined[-1] == "\u200d")
            or (mine == before == "alone" and joined[-1] in STACKERS)
        ):
            out[-1] = before, joined + c
        else:
            out.append((mine, c))
    return out


def stretches(text: str) -> list[list[tuple[str, str]]]:
    """The clusters in rows of one kind, without white space; pictures and flags one by one."""
    out: list[list[tuple[str, str]]] = []
    last = "space"
    for mine, string in clusters(text):
        if not out or mine != last or mine in ("picture", "flag"):
            out.append([])
        out[-1].append((mine, string))
        last = mine
    return [row for row in out if row[0][0] != "space"]


def as_read(text: str, lower: bool = True, normalise: bool = True) -> str:
    text = unicodedata.normalize("NFKC", text) if normalise else text
    return text.lower() if lower else text


def tokens(text: str, lower: bool = True, normalise: bool = True) -> list[str]:
    """The tokens of a text."""
    out: list[str] = []
    for row in stretches(as_read(text, lower, normalise)):
        if row[0][0] == "alone":
            out += [string for _, string in row]
            continue
        out.append("".join(string for _, string in row))
        if row[0][0] == "letter" and mixes(out[-1]):
            out.append(MIXED)
    return out


def mixes(word: str) -> bool:
    """Whether there are both Latin letters and some of the blocks of Greek and Cyrillic, μ apart."""
    latin = any("LATIN" in unicodedata.name(c, "") and (c < "\u0250" or "\u1e00" <= c < "\u1f00") for c in word)
    return latin and any("\u0370" <= c < "\u0530" and c != "μ" for c in word)


def words(text: str, lower: bool = True, normalise: bool = True) -> list[str]:
    """What a plain model counts: words of two characters or more, and neighbours in scripts without spaces."""
    rows = stretches(as_read(text, lower, normalise))
    out = ["".join(string for _, string in row) for row in rows if row[0][0] == "letter"]
    neighbours = [a + b for row in rows if row[0][0] == "alone" for (_, a), (_, b) in pairwise(row)]
    return [word for word in out if len(word) > 1] + neighbours


def runs(text: str, lower: bool = True, normalise: bool = True) -> set[str]:
    """The runs of characters: of three to five in words, two and three of syllables, two to four without spaces."""
    out = set()
    for row in stretches(as_read(text, lower, normalise)):
        units = [string for _, string in row]
        if row[0][0] == "alone":
            out |= {"".join(units[i : i + n]) for n in (2, 3, 4) for i in range(len(units) - n + 1)}
        elif row[0][0] in ("letter", "other"):
            syllabic = any(unicodedata.name(c, "").startswith(SYLLABIC) for unit in units for c in unit)
            padded = [" ", *units, " "]
            out |= {
                "".join(padded[i : i + n])
                for n in ((2, 3) if syllabic else (3, 4, 5))
                for i in range(max(1, len(padded) - n + 1))
            }
    return out
