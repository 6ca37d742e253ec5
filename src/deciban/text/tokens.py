"""How texts are cut into tokens: a fixed function of the text, stored with a model, so that its sums stay exact.

By script, at Unicode's word boundaries (decision 26): letters, digits and underscores in a
row are a word; punctuation in a row is a token; a letter of a script that puts no spaces between words is a token, and
so is an emoji. Marks stay with the character that they are on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import numpy as np

from deciban._kernel import text as kernel
from deciban._typing import Array, Codes
from deciban.text.raw import Documents, Vocabulary

MAX_WORD_CHARACTERS = 256  # longer words are cut, so that they cannot fill the memory
# Of these scripts, characters have no effect on how others are read: up to Latin Extended-B, punctuation, currencies.
SIMPLE_CHARACTERS = (range(1, 0x250), range(0x2010, 0x2028), range(0x2030, 0x205F), range(0x20A0, 0x20C1))
MIXED_SCRIPTS = "⟨mixed scripts⟩"  # comes after a word of Latin letters and letters that look like them


class Token(NamedTuple):
    """A token of a text, and where it is."""

    start: int
    end: int
    string: str


@dataclass(frozen=True, slots=True)
class TokenRule:
    """Whether texts are cut by script, or only at white space and punctuation, as older versions did; and whether
    they are first brought into Unicode's normal form NFKC."""

    scripts: bool = True
    normalise: bool = True

    @property
    def name(self) -> str:
        """The kernel's name of the rule, for all tokens."""
        return "scripts" if self.scripts else "punctuation"

    @property
    def words_name(self) -> str:
        """The same for words only."""
        return "script words" if self.scripts else "words"

    def prepared(self, documents: Documents) -> Documents:
        return documents.normalised() if self.normalise else documents

    def tokens(self, text: str, lower: bool) -> list[str]:
        """The tokens of a text."""
        words = Vocabulary()
        documents = self.prepared(Documents([text], lower))
        ids, _, _ = kernel.tokenize(documents, 0, 1, words, True, self.name, longest=MAX_WORD_CHARACTERS)
        strings = words.strings()
        return [strings[i] for i in ids.tolist()]

    def located(self, text: str, lower: bool) -> Iterator[Token]:
        """The tokens of a text, in order, and their places in the text as given."""
        words = Vocabulary()
        ids, spans = self._located(text, words)
        strings = [word.lower() if lower and word != MIXED_SCRIPTS else word for word in words.strings()]
        return (
            Token(start, end, strings[word]) for word, (start, end) in zip(ids.tolist(), spans.tolist(), strict=True)
        )

    def spans(self, text: str) -> Array:
        """(tokens, 2): where they are in the text as it was given."""
        return self._located(text, Vocabulary())[1]

    def _located(self, text: str, words: Vocabulary) -> tuple[Codes, Array]:
        read, first, last = normal_form(text) if self.normalise else (text, None, None)
        ids, spans = kernel.locate(read, words, self.name, MAX_WORD_CHARACTERS)
        if first is not None and last is not None:
            spans = np.stack([first[spans[:, 0]], last[spans[:, 1] - 1]], axis=1)
        return ids, spans


class SimpleCharacters(NamedTuple):
    """Characters that are read as they are, whatever is next to them."""

    letters: str  # of words, digits included
    signs: str  # of punctuation
    spaces: str


def simple_characters(lower: bool, rule: TokenRule) -> SimpleCharacters:
    """Those of Latin letters and common punctuation: what a simpler splitter needs to know.

    A capital of ASCII is among them, even if it is read as a small letter.
    """
    letters, signs, spaces = "", "", ""
    for code in chain(*SIMPLE_CHARACTERS):
        one = chr(code)
        as_read = one.lower() if lower and one.isascii() else one
        found = [rule.tokens(text, lower) for text in (f"ab{one}cd", f"!{one}!", one + one)]
        if found == [[f"ab{as_read}cd"], ["!", as_read, "!"], [as_read + as_read]]:
            letters += one
        elif found == [["ab", one, "cd"], [f"!{one}!"], [one + one]]:
            signs += one
        elif found == [["ab", "cd"], ["!", "!"], []]:
            spaces += one
    return SimpleCharacters(letters, signs, spaces)


BY_SCRIPT = TokenRule()
BY_SPACES = TokenRule(scripts=False, normalise=False)  # of models that older versions saved


def normal_form(text: str) -> tuple[str, Array | None, Array | None]:
    """A text in NFKC, and for each of its characters where the original characters start and end; None if the text
    is unchanged."""
    from unicodedata import combining, is_normalized, normalize

    if is_normalized("NFKC", text):
        return text, None, None
    pieces: list[str] = []  # none of which changes the form of another
    for character in text:
        if pieces and (
            combining(character)
            or (
                character >= "\u0300"  # below, no character combines with the one before it
                and normalize("NFKC", pieces[-1] + character)
                != normalize("NFKC", pieces[-1]) + normalize("NFKC", character)
            )
        ):
            pieces[-1] += character
        else:
            pieces.append(character)
    forms = [normalize("NFKC", piece) for piece in pieces]
    sizes, end = [len(form) for form in forms], np.cumsum([len(piece) for piece in pieces])
    return "".join(forms), np.repeat(end - [len(piece) for piece in pieces], sizes), np.repeat(end, sizes)
