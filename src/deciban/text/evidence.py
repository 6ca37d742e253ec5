"""Explanations of texts: their words coloured by evidence, on a terminal and in HTML."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from deciban._typing import Array, Floats
from deciban.results.evidence import Evidence
from deciban.show import signed, visible
from deciban.text.item_names import ITEM_FORMATS, item_name
from deciban.text.items import Lexicon
from deciban.text.shares import ItemEvidence, ReadText, TokensOfText

Item: TypeAlias = tuple[str, Any, float]  # as in `Evidence.items`

ITEM_KINDS = {
    "words": "word",
    "pairs": "pair",
    "headers": "header",
    "gaps": "gap",
    "characters": "characters",
    "repeats": "repeat",
}
MAX_CHARACTERS_SHOWN = 4000  # of a text
WEAK, STRONG = 0.5, 6.0  # decibans: below the first a word is not coloured, from the second on it is bold
WEAK_SHARE = 0.25  # of the strongest word's evidence, where that is less than the first


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TextEvidence(Evidence):
    """The evidence in a text: prior + Σ items = total, in decibans; and the text with the evidence of each word.

    `items` are words, each with how often it occurs, unless `by="item"` was requested; `positions` are their places.
    A word's evidence is that of the word itself, of the characters in it, and its share of pairs and gaps: the evidence
    of an item is shared equally by the item's occurrences, and that of an occurrence by its words. Words of header
    fields, such as `subject:free`, are items of their own.

    `spans` are (start, end, dB) of each word of the text in turn, header fields included.

    >>> from deciban import TextClassifier
    >>> model = TextClassifier(reliability=None).fit(["win cash now", "lunch at noon"], ["spam", "ham"])
    >>> why = model.explain("cash now?")
    >>> why.target, why.text, [(why.text[start:end], round(db, 2)) for start, end, db in why.spans]
    ('spam', 'cash now?', [('cash', 3.01), ('now', 3.01)])
    """

    text: str = ""
    spans: tuple[tuple[int, int, float], ...] = ()
    positions: Mapping[str, tuple[tuple[int, int], ...]] = field(default_factory=dict)

    def rest(self, items: Sequence[tuple[str, Any, float]], what: str = "") -> list[tuple[str, float]]:
        """The items that are not shown, summed by kind."""
        out: list[tuple[str, float]] = []
        for kind in (*ITEM_KINDS.values(), "part"):
            mine = [item for item in items if kind_of(item[1]) == kind]
            if kind == "part":  # of no word: few, and each is something else
                out += [(name, db) for name, _, db in mine]
                continue
            plural = "s" * (len(mine) > 1 and kind != "characters")
            out += Evidence.rest(self, mine, what or f" {kind}{plural}")
        return out

    @property
    def weak(self) -> float:
        """From how many decibans on a word is coloured: fewer in a long text, whose words all have little evidence."""
        return min(WEAK, WEAK_SHARE * max((abs(db) for *_, db in self.spans), default=0.0)) or WEAK

    def item_label(self, name: str, value: Any) -> str:
        shown = self.shown_value(value)
        return f"{name} ({shown})" if shown else name

    def shown_value(self, value: Any) -> str:
        """The kind of an item; or how often a word occurs, if more than once."""
        if isinstance(value, int | float):
            return "" if value == 1 else f"{value:g} times"
        return str(value)

    def to_dict(self) -> dict[str, Any]:
        document = Evidence.to_dict(self)
        for item in document["evidence"]:
            if item["name"] in self.positions:
                item["positions"] = [{"start": a, "end": b} for a, b in self.positions[item["name"]]]
        spans = [{"start": a, "end": b, "decibans": db} for a, b, db in self.spans]
        return {**document, "text": self.text, "spans": spans}

    def __rich__(self) -> Any:
        from rich.console import Group
        from rich.text import Text

        weak = self.weak
        text = Text(visible(self.text[:MAX_CHARACTERS_SHOWN]) + ("…" if len(self.text) > MAX_CHARACTERS_SHOWN else ""))
        for start, end, db in self.spans:
            if abs(db) >= weak and start < MAX_CHARACTERS_SHOWN:
                style = "green" if db > 0 else "red underline"
                text.stylize(f"bold {style}" if abs(db) >= STRONG else style, start, min(end, MAX_CHARACTERS_SHOWN))
        return Group(Evidence.__rich__(self), text)

    def _repr_html_(self) -> str:
        shown, parts, at, weak = visible(self.text[:MAX_CHARACTERS_SHOWN]), [], 0, self.weak
        for start, end, db in self.spans:
            if start >= MAX_CHARACTERS_SHOWN:
                break
            parts.append(html.escape(shown[at:start]))
            word = html.escape(shown[start:end])
            if abs(db) >= weak:
                colour, depth = "26,127,55" if db > 0 else "207,34,46", min(1.0, 0.15 + abs(db) / 20.0)
                word = f"<span title='{signed(db)} dB' style='background:rgba({colour},{depth:.2f})'>{word}</span>"
            parts.append(word)
            at = end
        parts.append(html.escape(shown[at:]) + ("…" if len(self.text) > MAX_CHARACTERS_SHOWN else ""))
        return f"{Evidence._repr_html_(self)}<p style='white-space:pre-wrap'>{''.join(parts)}</p>"


def with_text(
    evidence: Evidence, text: str, tokens: TokensOfText, items: Sequence[ItemEvidence], others: Sequence[Item], by: str
) -> TextEvidence:
    """Evidence with the text, by word (the same as by column) or by item; `others` are in no word."""
    own = [item for item in items if is_named_alone(item)]
    by_token, left = tokens.shares(item for item in items if not is_named_alone(item))
    named, positions = list(others), {}
    if by == "item":
        named += map(named_item, items)
    else:
        named += map(named_item, [*left, *own])
        known = {parts[0] for item in items if item.block == "words" for parts in item.spellings}
        for (word,), places in tokens.words.items():
            db = float(sum(by_token[i] for (i,) in places))
            if db or word in known:
                named.append((word, len(places), db))
                positions[word] = tuple(tokens.tokens[i][:2] for (i,) in places)
        for item in own:
            places = [place for parts in item.spellings for place in tokens.places(item.block, parts)]
            spans_of_item = tuple((tokens.tokens[place[0]].start, tokens.tokens[place[-1]].end) for place in places)
            positions[named_item(item)[0]] = spans_of_item
    by_token = by_token + tokens.shares(own)[0]
    return coloured(evidence, text, [token[:2] for token in tokens.tokens], by_token, named, positions)


def with_items(
    evidence: Evidence, read: ReadText, text: str, found: Sequence[BlockEvidence], others: Sequence[Item], by: str
) -> TextEvidence:
    """The same for items that were read with their places."""
    n, spans = len(read.words), list(map(tuple, read.spans.tolist()))
    shares = {mine.block: read.occurrences[mine.block].shares(mine.entry, mine.decibans, n) for mine in found}
    by_token = np.zeros(n) + sum(mine for block, mine in shares.items() if block != "headers")
    named = list(others)
    positions: dict[str, tuple[tuple[int, int], ...]] = {}
    for mine in found:
        if by == "item":
            named += mine.named(read.lexicon)
        elif mine.block == "headers":  # each on its own
            own = mine.named(read.lexicon)
            occurrences = read.occurrences[mine.block]
            places = grouped(mine.entry[occurrences.item], occurrences.token)
            positions |= {name: tuple([spans[i] for i in places[e]]) for e, (name, _, _) in enumerate(own)}
            named += own
    if by != "item":
        known = next(mine for mine in found if mine.block == "words").entry >= 0
        strings, by_word = read.lexicon.words.strings(), np.bincount(read.words, by_token, minlength=1).tolist()
        for word, tokens in grouped(read.words, np.arange(n)).items():
            if by_word[word] or known[word]:
                named.append((strings[word], len(tokens), by_word[word]))
                positions[strings[word]] = tuple([spans[i] for i in tokens])
    return coloured(evidence, text, spans, by_token + shares.get("headers", 0.0), named, positions)


def grouped(group: Array, values: Array) -> dict[int, list[int]]:
    """The values of each group, both in the order in which they come."""
    out: dict[int, list[int]] = {}
    for one, value in zip(group.tolist(), values.tolist(), strict=True):
        if one in out:
            out[one].append(value)
        else:
            out[one] = [value]
    return out


class BlockEvidence(NamedTuple):
    """The evidence of the items of a block in a text: `entry` is the place of each item of the text's lexicon in
    `decibans`, −1 if it has none. With hashing, several items may be in one place."""

    block: str
    entry: Array
    decibans: Floats

    def spellings(self, lexicon: Lexicon) -> list[list[tuple[str, ...]]]:
        known = np.flatnonzero(self.entry >= 0).astype(np.int32)
        out: list[list[tuple[str, ...]]] = [[] for _ in range(len(self.decibans))]
        for entry, parts in zip(self.entry[known].tolist(), lexicon.parts(self.block, known), strict=True):
            out[entry].append(parts)
        return out

    def items(self, lexicon: Lexicon) -> list[ItemEvidence]:
        """The same with strings."""
        listed = zip(self.spellings(lexicon), self.decibans.tolist(), strict=True)
        return [ItemEvidence(self.block, several, db) for several, db in listed]

    def named(self, lexicon: Lexicon) -> list[Item]:
        """Items as they are listed: name, kind and evidence."""
        name, kind = ITEM_FORMATS[self.block], ITEM_KINDS[self.block]
        names = [" / ".join([name(*parts) for parts in several]) for several in self.spellings(lexicon)]
        return [(one, kind, db) for one, db in zip(names, self.decibans.tolist(), strict=True)]


def coloured(
    evidence: Evidence,
    text: str,
    places: Sequence[tuple[int, int]],
    by_token: Floats,
    named: Sequence[Item],
    positions: Mapping[str, tuple[tuple[int, int], ...]],
) -> TextEvidence:
    """Evidence with the text, by its named parts, and by token, of which the places are given."""
    some = np.flatnonzero(by_token)
    spans = [(*places[i], db) for i, db in zip(some.tolist(), by_token[some].tolist(), strict=True)]
    if any(after[0] < before[1] for before, after in pairwise(spans)):
        spans = merged(spans)
    order = np.argsort([-abs(db) for _, _, db in named], kind="stable")
    return TextEvidence(
        evidence.target,
        evidence.against,
        evidence.prior,
        tuple([named[i] for i in order.tolist()]),
        evidence.probability,
        text,
        tuple(spans),
        positions,
    )


def merged(spans: Sequence[tuple[int, int, float]]) -> list[tuple[int, int, float]]:
    """Spans that overlap as one: several tokens of one character, or about one word."""
    out: list[tuple[int, int, float]] = []
    for start, end, db in spans:
        if out and start < out[-1][1]:
            before = out.pop()
            out.append((before[0], max(end, before[1]), before[2] + db))
        else:
            out.append((start, end, db))
    return out


def is_named_alone(item: ItemEvidence) -> bool:
    """Whether an item is listed separately, not as part of its words: a word of a header field; and the words of
    plain models in scripts without spaces, which are two letters each."""
    return item.block == "headers" or (item.block == "words" and len(item.spellings[0]) == 2)


def kind_of(value: Any) -> str:
    """The kind of an item with this value; a number is how often a word occurs."""
    return "word" if isinstance(value, int | float) else str(value) or "part"


def named_item(item: ItemEvidence) -> Item:
    """An item as it is listed: its name, its kind, and its evidence."""
    block = item.block
    names = [item_name("pairs" if block == "words" and len(parts) == 2 else block, parts) for parts in item.spellings]
    return " / ".join(names), ITEM_KINDS[block] if item.times is None else item.times, item.decibans
