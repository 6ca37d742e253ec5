"""Recent decisions, only in memory: a bounded number of the latest, for people to review and label."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from deciban.server.model import Answer, Content

MAX_CHARACTERS_SHOWN = 2000  # of a text, in a list
MAX_CHARACTERS_KEPT = 50_000  # longer ones are not kept: to learn them, they must be sent again

ORDERS = ("newest", "unsure")


@dataclass(slots=True, eq=False)
class Decision:
    """A prediction that was returned, and the label that was given since, or None."""

    id: str
    time: float
    answer: Answer
    content: Content | None
    taught: Any = None

    def to_dict(self, *, whole: bool = False) -> dict[str, Any]:
        return {
            "id": self.id,
            "time": self.time,
            "label": self.answer.label,
            "likeliest": self.answer.likeliest,
            "probability": self.answer.probability,
            "margin": self.answer.margin,
            "content": self.content if whole or self.content is None else shortened(self.content),
            "taught": self.taught,
        }


class RecentDecisions:
    """The latest decisions by id. Written and read by different threads."""

    def __init__(self, most: int, keep_content: bool) -> None:
        self.most, self.keep_content = most, keep_content
        self._lock, self._decisions = threading.Lock(), OrderedDict[str, Decision]()

    def add(self, ids: Sequence[str], contents: Sequence[Content], answers: Sequence[Answer], now: float) -> None:
        if not self.most:
            return
        made = [
            Decision(id_, now, answer, content if self.keep_content and size(content) <= MAX_CHARACTERS_KEPT else None)
            for id_, content, answer in zip(
                ids[-self.most :], contents[-self.most :], answers[-self.most :], strict=True
            )
        ]
        with self._lock:
            for decision in made:
                before = self._decisions.pop(decision.id, None)
                if before is not None:
                    decision.taught = before.taught
                self._decisions[decision.id] = decision
            while len(self._decisions) > self.most:
                self._decisions.popitem(last=False)

    def content(self, id_: str) -> Content | None:
        """The content classified under an id, so that it can be learned without sending it again."""
        with self._lock:
            decision = self._decisions.get(id_)
            return None if decision is None else decision.content

    def one(self, id_: str) -> dict[str, Any] | None:
        """A decision with its whole content."""
        with self._lock:
            decision = self._decisions.get(id_)
            return None if decision is None else decision.to_dict(whole=True)

    def taught(self, id_: str, label: Any) -> None:
        """Record the label that was learned; None after it was forgotten."""
        with self._lock:
            if id_ in self._decisions:
                self._decisions[id_].taught = label

    def remove(self, id_: str) -> None:
        """Remove a forgotten example."""
        with self._lock:
            self._decisions.pop(id_, None)

    def list(
        self, most: int, order: str = "newest", label: str | None = None, untaught: bool = False
    ) -> list[dict[str, Any]]:
        """Decisions, the newest first or the least sure first; with a label, or those without one."""
        with self._lock:
            decisions = list(reversed(self._decisions.values()))
        chosen = [
            decision
            for decision in decisions
            if (label is None or str(decision.answer.label) == label) and not (untaught and decision.taught is not None)
        ]
        if order == "unsure":
            chosen.sort(key=lambda decision: decision.answer.margin)
        return [decision.to_dict() for decision in chosen[:most]]

    def __len__(self) -> int:
        return len(self._decisions)


def size(content: Content) -> int:
    """Its approximate number of characters."""
    return sum(len(value) if isinstance(value, str) else len(str(value)) for value in content.values())


def shortened(content: Content) -> Content:
    """Content, cut to a length that a person would read."""
    return {kind: value[:MAX_CHARACTERS_SHOWN] if isinstance(value, str) else value for kind, value in content.items()}
