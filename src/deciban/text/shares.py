"""The evidence of a text's items, shared among the words that they are in."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np

from deciban._kernel import filter_index
from deciban._kernel import text as kernel
from deciban._typing import Floats
from deciban.text.items import GAPS, UNSPACED_RUNS, Lexicon
from deciban.text.raw import Documents, Vocabulary
from deciban.text.tokens import MAX_WORD_CHARACTERS, Token, TokenRule

Parts: TypeAlias = tuple[str, ...]  # the words of an item, or its run of characters
Place: TypeAlias = tuple[int, ...]  # the tokens that one occurrence of an item is in


class ItemEvidence(NamedTuple):
    """The evidence of an item, and what it is in the text: a hashed item may be several."""

    block: str
    spellings: list[Parts]  # a word of two parts is two letters of a script without spaces
    decibans: float
    times: float | None = None  # how often it counts, if that matters


@dataclass(frozen=True, eq=False)
class TokensOfText:
    """The tokens of a text, and where each of its items occurs."""

    tokens: list[Token]
    fields: list[str]  # the header field that each token is in, or ""
    rule: TokenRule

    @classmethod
    def of(cls, text: str, lower: bool, rule: TokenRule) -> TokensOfText:
        located, words = list(rule.located(text, lower)), Vocabulary()
        ids, _, fields = kernel.tokenize(
            rule.prepared(Documents([text], lower)), 0, 1, words, True, rule.name, 1, MAX_WORD_CHARACTERS, headers=True
        )
        if fields is None or len(ids) != len(located):  # lower case may be cut differently from capitals
            return cls(located, [""] * len(located), rule)
        strings = [*words.strings(), ""]  # number −1 means no field
        read = (Token(start, end, strings[i]) for (start, end, _), i in zip(located, ids.tolist(), strict=True))
        return cls(list(read), [strings[field] for field in fields.tolist()], rule)

    @property
    def strings(self) -> list[str]:
        return [token.string for token in self.tokens]

    def places(self, block: str, parts: Parts) -> list[Place]:
        """Where an item occurs; empty if it is in no token."""
        if block == "repeats":
            block, parts = "words", parts[:1]
        elif block == "words" and len(parts) == 2:
            block = "pairs"
        found: dict[Parts, list[Place]] = getattr(self, block)
        return found.get(parts, [])

    @cached_property
    def words(self) -> dict[Parts, list[Place]]:
        return gathered(((word,), (i,)) for i, word in enumerate(self.strings))

    @cached_property
    def pairs(self) -> dict[Parts, list[Place]]:
        marked, last = ["", *self.strings, ""], len(self.tokens)
        return gathered(
            ((marked[i], marked[i + 1]), tuple(j for j in (i - 1, i) if 0 <= j < last)) for i in range(last + 1)
        )

    @cached_property
    def headers(self) -> dict[Parts, list[Place]]:
        return gathered(
            ((field, word), (i,)) for i, (field, word) in enumerate(zip(self.fields, self.strings, strict=True))
        )

    @cached_property
    def gaps(self) -> dict[Parts, list[Place]]:
        words = self.strings
        return gathered(((words[i], words[i + gap]), (i, i + gap)) for gap in GAPS for i in range(len(words) - gap))

    @cached_property
    def characters(self) -> dict[Parts, list[Place]]:
        lexicon = Lexicon(rule=self.rule)
        distinct = list(dict.fromkeys(self.strings))
        runs = lexicon.runs_of(distinct)
        of_words = gathered(((run,), place) for word in distinct for run in runs[word] for place in self.words[(word,)])
        for run, places in gathered(self._unspaced_runs()).items():
            of_words.setdefault(run, []).extend(places)
        return of_words

    def _unspaced_runs(self) -> Iterable[tuple[Parts, Place]]:
        """Runs of letters in scripts without spaces between words, each of which is a token."""
        if not self.rule.scripts:
            return
        low, high = UNSPACED_RUNS
        for first, token in enumerate(self.tokens):
            run, end = "", token.start
            for i in range(first, min(first + high, len(self.tokens))):
                start, stop, letter = self.tokens[i]
                if start != end or not filter_index.stands_alone(letter):
                    break
                run, end = run + letter, stop
                if i - first + 1 >= low:
                    yield (run,), tuple(range(first, i + 1))

    def shares(self, items: Iterable[ItemEvidence]) -> tuple[Floats, list[ItemEvidence]]:
        """The decibans of each token, and the items that are in none.

        An item's evidence is shared equally by its occurrences, and that of an occurrence by its tokens. Infinite
        evidence of several tokens cannot be shared, so such an item is unchanged.
        """
        total, left = np.zeros(len(self.tokens)), []
        for item in items:
            places = [place for parts in item.spellings for place in self.places(item.block, parts) if place]
            if not places or (np.isinf(item.decibans) and any(len(place) > 1 for place in places)):
                left.append(item)
                continue
            for place in places:
                total[list(place)] += item.decibans / (len(places) * len(place))
        return total, left


def gathered(pairs: Iterable[tuple[Parts, Place]]) -> dict[Parts, list[Place]]:
    """The places of each item."""
    out: dict[Parts, list[Place]] = defaultdict(list)
    for parts, place in pairs:
        out[parts].append(place)
    return out
