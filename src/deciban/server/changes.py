"""What a request to learn, correct or forget will change, given the store: decided before anything is written."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from deciban.server.examples import Example
from deciban.server.model import Content, ServedModel
from deciban.server.problems import RequestError
from deciban.server.store.base import Store, StoredExample
from deciban.server.store.content import ContentKeeper

Pair = tuple[Content, Any]  # an example's content and its label


@dataclass(frozen=True, slots=True, eq=False)
class Change:
    """A request that waits for the writer; `done` receives a list of results, or an exception."""

    model: str
    kind: str  # "learn", "correct" or "forget"
    examples: Sequence[Example]
    actor: str
    done: Future[list[dict[str, Any]]] = field(default_factory=Future)

    @property
    def by_content(self) -> bool:
        """Whether it forgets by content: then it must see what all earlier requests stored."""
        return self.kind == "forget" and any(example.content is not None for example in self.examples)


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """What happens to one example."""

    id: str
    status: str  # "learned", "corrected", "forgotten" or "unchanged"
    learn: Pair | None = None
    forget: Pair | None = None
    stored: bool = False  # whether the store has an example of this id now
    new: bool = False  # whether the model has never learned it, so that its prediction is a fair test

    def to_dict(self) -> dict[str, Any]:
        out: dict[str, Any] = {"id": self.id, "status": self.status}
        if self.learn is not None:
            out["label"] = self.learn[1]
        if self.forget is not None:
            out["was"] = self.forget[1]
        return out


def steps_of(change: Change, model: ServedModel, store: Store, keeper: ContentKeeper) -> list[Step]:
    """The steps of a request; a RequestError if one of them is impossible: then none is taken."""
    if model.why_not_learning:
        raise RequestError("this model cannot learn: {why}", status=409, code="read_only", why=model.why_not_learning)
    known = store.find(change.model, [example.id for example in change.examples])
    step = STEPS[change.kind]
    planner = Planner(model, store, keeper, change.model)
    return [step(planner, row, example, known) for row, example in enumerate(change.examples)]


@dataclass(frozen=True, slots=True, eq=False)
class Planner:
    """The context in which steps are decided."""

    model: ServedModel
    store: Store
    keeper: ContentKeeper
    name: str

    def learn(self, row: int, example: Example, known: Mapping[str, StoredExample]) -> Step:
        label, before = self.model.label_of(example.label, example.new_class, row), known.get(example.id)
        content = self._new_content(row, example)
        if before is None:
            return Step(example.id, "learned", learn=(content, label), new=True)
        if before.digest == self.keeper.digest(label, content):
            return Step(example.id, "unchanged", stored=True)
        raise RequestError(
            "another example was learned with the id {value!r} of example {row}: use correct to change it",
            status=409,
            code="id_in_use",
            row=row,
            value=example.id,
        )

    def correct(self, row: int, example: Example, known: Mapping[str, StoredExample]) -> Step:
        label, before = self.model.label_of(example.label, example.new_class, row), known.get(example.id)
        if before is None:
            return Step(example.id, "learned", learn=(self._new_content(row, example), label), new=True)
        old_label = json.loads(before.label)
        old = self._content_of(before, old_label, example, row)
        content = old if example.content is None else example.content
        if self.keeper.digest(label, content) == before.digest:
            return Step(example.id, "unchanged", stored=True)
        return Step(example.id, "corrected", learn=(content, label), forget=(old, old_label), stored=True)

    def forget(self, row: int, example: Example, known: Mapping[str, StoredExample]) -> Step:
        before = known.get(example.id)
        if before is None and example.content is not None and example.label is not None:
            label = self.model.label_of(example.label, False, row)
            before = self.store.find_same(self.name, self.keeper.digest(label, example.content))
        if before is not None:
            label = json.loads(before.label)
            content = self._content_of(before, label, example, row)
            return Step(before.id, "forgotten", forget=(content, label), stored=True)
        if example.given_id and self.store.was_forgotten(self.name, example.id):
            return Step(example.id, "unchanged")
        if example.content is None:
            raise unknown_id(row, example.id)
        if example.label is None:
            raise RequestError(
                "example {row} was not learned on this server: to forget what the model learned earlier, send its "
                "label too",
                row=row,
                status=404,
                code="unknown_id",
            )
        label = self.model.label_of(example.label, False, row)
        return Step(example.id, "forgotten", forget=(example.content, label))

    def _new_content(self, row: int, example: Example) -> Content:
        """The content to learn: as sent, or as recently classified under this id."""
        content = example.recent if example.content is None else example.content
        if content is None:
            raise RequestError(
                "the id {value!r} of example {row} does not belong to a recent decision: send the content too",
                status=404,
                code="unknown_id",
                row=row,
                value=example.id,
            )
        return content

    def _content_of(self, before: StoredExample, label: Any, example: Example, row: int) -> Content:
        """The content that was learned: from the store, or from the request if content is not stored."""
        given = example.recent if example.content is None else example.content
        if before.form != "none" or given is None:
            content: Content = self.keeper.content(before)
            return content
        if self.keeper.digest(label, given) != before.digest:
            raise RequestError(
                "example {row} differs from what was learned with the id {value!r}, whose content is not stored",
                status=409,
                code="not_learned",
                row=row,
                value=before.id,
            )
        return given


STEPS: dict[str, Callable[[Planner, int, Example, Mapping[str, StoredExample]], Step]] = {
    "learn": Planner.learn,
    "correct": Planner.correct,
    "forget": Planner.forget,
}


def unknown_id(row: int, id_: str) -> RequestError:
    return RequestError(
        "no example with the id {value!r} (example {row}) was learned",
        status=404,
        code="unknown_id",
        row=row,
        value=id_,
    )
