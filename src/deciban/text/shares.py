"""The evidence of a text's items, shared among the words that they are in.

`ReadText` has the places of all items of a text by number, which is quick; `TokensOfText` finds those of single items
by their strings.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np

from deciban._kernel import filter_index
from deciban._kernel import text as kernel
from deciban._typing import Array, Codes, Floats
from deciban.text.items import GAPS, REPEAT_TIMES, UNSPACED_RUNS, Lexicon
from deciban.text.raw import Documents, Vocabulary
from deciban.text.tokens import MAX_WORD_CHARACTERS, Token, TokenRule

Parts: TypeAlias = tuple[str, ...]  # the words of an item, or its run of characters
Place: TypeAlias = tuple[int, ...]  # the tokens that one occurrence of an item is in


class Occurrences(NamedTuple):
    """Where the items of a block occur: occurrence i is one of item `item[i]`, and lies in `size[i]` tokens; occurrence
    `owner[j]` lies in token `token[j]`."""

    item: Codes
    size: Array
    owner: Array
    token: Array

    @classmethod
    def of(cls, item: Codes, *tokens: Array) -> Occurrences:
        """Occurrences that each lie in one token of every list; −1 is no token."""
        owner = np.tile(np.arange(len(item)), len(tokens))
        token = np.concatenate(tokens)
        there = token >= 0
        owner = owner[there]
        return cls(item, np.bincount(owner, minlength=len(item)), owner, token[there])

    def shares(self, entry: Array, decibans: Floats, tokens: int) -> Floats:
        """The decibans of each token: those of entry `entry[item]` are shared equally by its occurrences, and those of
        an occurrence by its tokens; −1 has none."""
        mine = entry[self.item]
        times = np.bincount(mine[mine >= 0], minlength=len(decibans))
        each = np.append(decibans / np.maximum(times, 1), 0.0)[mine] / np.maximum(self.size, 1)
        return np.asarray(np.bincount(self.token, each[self.owner], minlength=tokens), dtype=np.float64)


class ReadText(NamedTuple):
    """A text's tokens, and where each of its items occurs, by block; the lexicon has the items."""

    lexicon: Lexicon
    words: Codes  # the number of each token's word
    spans: Array  # (tokens, 2) where they are
    occurrences: dict[str, Occurrences]

    @classmethod
    def of(cls, text: str, lower: bool, rule: TokenRule, blocks: Iterable[str]) -> ReadText | None:
        """None if the text is cut in other places than its small letters are: then strings have to do."""
        lexicon, documents = Lexicon(rule=rule), rule.prepared(Documents([text], lower))
        words, ends, fields = kernel.tokenize(
            documents, 0, 1, lexicon.words, True, rule.name, 1, MAX_WORD_CHARACTERS, headers=True
        )
        spans, at, found = rule.spans(text), np.arange(len(words)), {}
        if len(spans) != len(words) or fields is None:
            return None
        for block in blocks:
            if block == "words":
                found[block] = Occurrences.of(words, at)
            elif block == "pairs":
                item, _ = kernel.pair_up(words, ends, words, ends, 1, lexicon.pairs, True, 0)
                found[block] = Occurrences.of(item, np.arange(-1, len(item) - 1), np.append(at, -1)[: len(item)])
            elif block == "headers":
                item, _ = kernel.pair_up(fields, ends, words, ends, 0, lexicon.headers, True)
                inside = np.flatnonzero(item >= 0)
                found[block] = Occurrences.of(item[inside], inside)
            elif block == "gaps":
                several = [kernel.pair_up(words, ends, words, ends, gap, lexicon.gaps, True)[0] for gap in GAPS]
                first = np.concatenate([np.arange(len(item)) for item in several])
                last = np.concatenate([np.arange(len(item)) + gap for gap, item in zip(GAPS, several, strict=True)])
                found[block] = Occurrences.of(np.concatenate(several), first, last)
            elif block == "repeats":
                times = np.bincount(words)
                reached = [np.flatnonzero(times[words] >= level) for level in REPEAT_TIMES]
                level = np.repeat(np.array(REPEAT_TIMES, dtype=np.int32), [len(some) for some in reached])
                token = np.concatenate(reached)
                found[block] = Occurrences.of(lexicon.repeats.add(words[token], level), token)
            else:
                characters = character_runs(lexicon, documents, words, spans)
                if characters is None:
                    return None
                found[block] = characters
        return cls(lexicon, words, spans, found)

    def present(self) -> dict[str, Array]:
        """By block, the numbers of the items that are in the text; the lexicon has names of header fields as well."""
        return {block: np.flatnonzero(np.bincount(mine.item)) for block, mine in self.occurrences.items()}


def character_runs(lexicon: Lexicon, documents: Documents, words: Codes, spans: Array) -> Occurrences | None:
    """Where runs of characters occur: inside words, and as letters of scripts without spaces, each of which is a token.

    None if that does not follow from the tokens.
    """
    lexicon.spell()
    runs, begin = lexicon.spelled
    sizes = np.diff(begin)[words]
    token = np.repeat(np.arange(len(words)), sizes)
    run = runs[np.arange(len(token)) + np.repeat(begin[:-1][words] - (np.cumsum(sizes) - sizes), sizes)]
    inside = Occurrences.of(run, token)
    if not lexicon.rule.scripts:
        return inside
    low, high = UNSPACED_RUNS
    stretches, _ = kernel.stretches(documents, 0, 1, lexicon.characters, True, low, high)
    if not len(stretches):
        return inside
    strings = lexicon.words.strings()
    alone = np.array([filter_index.stands_alone(strings[word]) for word in words.tolist()])
    row: list[int] = []
    places: list[int] = []
    count = 0  # of letters in a row that end at a token
    for i in range(len(words)):
        follows = i > 0 and alone[i - 1] and spans[i, 0] == spans[i - 1, 1]
        count = (count + 1 if follows else 1) if alone[i] else 0
        for n in range(low, min(high, count) + 1):
            places += range(i - n + 1, i + 1)
            row.append(n)
    if len(row) != len(stretches):
        return None
    size, owner = np.array(row), np.repeat(np.arange(len(row)), row)
    n = len(inside.item)
    return Occurrences(
        np.concatenate([inside.item, stretches]),
        np.concatenate([inside.size, size]),
        np.concatenate([inside.owner, owner + n]),
        np.concatenate([inside.token, places]),
    )


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
