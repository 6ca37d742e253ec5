"""Explanations of texts: their words coloured by evidence, on a terminal and in HTML."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deciban.results.evidence import Evidence
from deciban.show import visible
from deciban.text.tokens import Token

ITEM_KINDS = {
    "words": "word",
    "pairs": "pair",
    "headers": "header",
    "gaps": "gap",
    "characters": "characters",
    "repeats": "repeat",
}
PLURAL = ("word", "pair", "header", "gap", "repeat", "")
MAX_CHARACTERS_SHOWN = 4000  # of a text
WEAK, STRONG = 0.5, 6.0  # decibans: below the first a word is not coloured, from the second on it is bold


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TextEvidence(Evidence):
    """The evidence in a text: prior + Σ items = total, in decibans; and the text with the evidence of each word.

    `spans` are (start, end, dB) of the text's words: the word's evidence, and half of that of each pair with it.
    """

    text: str = ""
    spans: tuple[tuple[int, int, float], ...] = ()

    def _rest(self, items: Sequence[tuple[str, Any, float]]) -> list[tuple[str, float]]:
        """The items that are not shown, summed by kind where they have kinds."""
        kinds = {str(kind) for _, kind, _ in items}
        if not kinds or not kinds <= set(ITEM_KINDS.values()) | {""}:
            return Evidence._rest(self, items)
        out = []
        for kind in (*ITEM_KINDS.values(), ""):
            mine = [db for _, own, db in items if own == kind]
            if mine:
                out.append((f"{len(mine)} more {kind or 'part'}{'s' * (len(mine) > 1 and kind in PLURAL)}", sum(mine)))
        return out

    def _item_label(self, name: str, value: Any) -> str:
        return f"{name} ({value})" if value in ITEM_KINDS.values() else Evidence._item_label(self, name, value)

    def to_dict(self) -> dict[str, Any]:
        spans = [{"start": a, "end": b, "decibans": db} for a, b, db in self.spans]
        return {**Evidence.to_dict(self), "text": self.text, "spans": spans}

    def __rich__(self) -> Any:
        from rich.console import Group
        from rich.text import Text

        text = Text(visible(self.text[:MAX_CHARACTERS_SHOWN]) + ("…" if len(self.text) > MAX_CHARACTERS_SHOWN else ""))
        for start, end, db in self.spans:
            if abs(db) >= WEAK and start < MAX_CHARACTERS_SHOWN:
                style = "green" if db > 0 else "red"
                text.stylize(f"bold {style}" if abs(db) >= STRONG else style, start, min(end, MAX_CHARACTERS_SHOWN))
        return Group(Evidence.__rich__(self), text)

    def _repr_html_(self) -> str:
        shown, parts, at = visible(self.text[:MAX_CHARACTERS_SHOWN]), [], 0
        for start, end, db in self.spans:
            if start >= MAX_CHARACTERS_SHOWN:
                break
            parts.append(html.escape(shown[at:start]))
            word = html.escape(shown[start:end])
            if abs(db) >= WEAK:
                colour, depth = "26,127,55" if db > 0 else "207,34,46", min(1.0, 0.15 + abs(db) / 20.0)
                word = f"<span title='{db:+.1f} dB' style='background:rgba({colour},{depth:.2f})'>{word}</span>"
            parts.append(word)
            at = end
        parts.append(html.escape(shown[at:]) + ("…" if len(self.text) > MAX_CHARACTERS_SHOWN else ""))
        return f"{Evidence._repr_html_(self)}<p style='white-space:pre-wrap'>{''.join(parts)}</p>"


def with_text(
    evidence: Evidence,
    tokens: Iterable[Token],
    text: str,
    words: Mapping[str, float],
    pairs: Mapping[tuple[str, ...], float] | None = None,
) -> TextEvidence:
    """Evidence together with the text and its tokens, given the evidence of each word and pair of neighbours."""
    tokens, pairs = list(tokens), pairs or {}
    marked = ["", *(word for _, _, word in tokens), ""]
    spans: list[tuple[int, int, float]] = []
    for i, (start, end, word) in enumerate(tokens):
        beside = pairs.get((marked[i], word), 0.0) + pairs.get((word, marked[i + 2]), 0.0)
        db = words.get(word, 0.0) + beside / 2.0
        if db and spans and start < spans[-1][1]:  # several tokens of one character, or about one word
            before = spans.pop()
            spans.append((before[0], max(end, before[1]), before[2] + db))
        elif db:
            spans.append((start, end, db))
    return TextEvidence(
        evidence.target, evidence.against, evidence.prior, evidence.items, evidence.probability, text, tuple(spans)
    )
