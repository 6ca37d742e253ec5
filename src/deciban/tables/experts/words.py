"""The expert of a column of text: the graded evidence of its words, with reliabilities of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from deciban._typing import Array, Codes, Floats
from deciban.errors import DecibanError, FileError
from deciban.reading.labels import Labels
from deciban.tables.encode import EncodedRows, Encoding, Strings
from deciban.tables.experts.base import Expert
from deciban.text import files
from deciban.text.documents import Texts, batches
from deciban.text.graded import Graded, Labelled
from deciban.text.items import choose_blocks
from deciban.text.raw import Documents

if TYPE_CHECKING:
    from deciban.formula import Sketch, Term
    from deciban.storage.arrays import CheckedArrays

MAX_EVAL_TEXTS = 5000  # to fit reliabilities on


@dataclass(frozen=True, slots=True, eq=False)
class Words(Expert):
    """A text model of one column, whose classes are the numbers 0, 1, …"""

    column: str
    place: int  # among the columns of text
    graded: Graded

    name: ClassVar[str] = "words"

    @classmethod
    def chosen(
        cls, column: str, place: int, rows: EncodedRows, y: Codes, k: int, weight: Floats | None, candidates: Array
    ) -> Words:
        """The expert chosen on these rows, which it has learned; reliabilities are fitted on the rows `candidates`."""
        texts = rows.texts[place].all()
        (documents,) = batches(texts, True)
        empty = Graded.none(np.arange(k), choose_blocks(documents), {}, True, "uniform")
        eval_index = np.sort(candidates[:MAX_EVAL_TEXTS])
        evaluated, others = (
            Labelled(read([texts[i] for i in some]), y[some], None if weight is None else weight[some])
            for some in (eval_index, np.setdiff1d(np.arange(len(texts)), eval_index))
        )
        graded = empty.learned_and_chosen(evaluated, others, np.arange(k), rows.mark[eval_index], 1)
        return cls(column, place, graded)

    @property
    def k(self) -> int:
        return len(self.graded.classes)

    @property
    def settings(self) -> str:
        return f"{self.column}: {', '.join(self.graded.sums.blocks)}"

    def learned(self, rows: EncodedRows, y: Codes, weight: Floats | None = None) -> Words:
        texts, y, weight = counted(rows.texts[self.place], y, weight, self.k)
        batch = self.graded.batch(Texts(texts), Labels(np.arange(self.k), y), weight, 1)
        return replace(self, graded=self.graded + batch)

    def plus(self, other: Words, sign: float = 1.0) -> Words:
        mine, theirs = self.graded, other.graded
        if sign < 0:
            return replace(self, graded=replace(mine, sums=mine.sums - theirs.sums))
        return replace(self, graded=replace(mine, sums=mine.sums + theirs.sums))

    def scaled(self, factor: float) -> Words:
        if factor:
            return replace(self, graded=self.graded.scale(factor))
        return replace(self, graded=self.graded.zero())

    def in_classes(self, where: Array, k: int) -> Words:
        graded, choice = self.graded, self.graded.choice
        sums = replace(graded.sums, classes=np.asarray(where), closed=False).in_classes(np.arange(k))
        choice = None if choice is None else replace(choice, classes=np.asarray(where)[choice.classes])
        return replace(self, graded=replace(graded, sums=replace(sums, closed=True), choice=choice))

    def is_valid(self) -> bool:
        return True  # subtracting texts that were never learned is an error already

    def evidence(self, rows: EncodedRows) -> Floats:
        texts = rows.texts[self.place].used()
        return np.asarray(self.graded.log_joints(Texts(texts.distinct), 1)[texts.which])

    def evidence_without(self, rows: EncodedRows, y: Codes, weight: Floats | None = None) -> Floats:
        return self.graded.log_joint_without(Texts(rows.texts[self.place].all()), y, weight, 1, rows.mark)

    def evidence_unlearned(self, rows: EncodedRows, y: Codes) -> Floats:
        return self.evidence_without(rows, y, np.zeros(len(rows)))

    @property
    def text_place(self) -> int:
        return self.place

    def terms(self, rows: EncodedRows, unlearned: Codes | None = None) -> tuple[Floats, Floats]:
        del unlearned  # it uses all items: none are chosen
        return np.zeros((*rows.codes.shape, self.k)), self.evidence(rows)

    def items(self, rows: EncodedRows, target: int, against: int, by: str) -> list[tuple[str, float]]:
        items = self.graded.explain(Texts(rows.texts[self.place].take(slice(1)).all()), target, against, by=by).items
        return [(f"{self.column}: {name}", db) for name, _, db in items]

    def fits(self, weight: Floats) -> bool:
        return bool(np.allclose(self.graded.sums.weight, weight))

    def pack(self) -> tuple[dict[str, Any], dict[str, Array]]:
        document, tensors = files.parts(self.graded)
        return {"column": self.column, "place": self.place, "document": document}, tensors

    @classmethod
    def unpack(cls, settings: Mapping[str, Any], arrays: CheckedArrays, encoding: Encoding, k: int) -> Words:
        place = int(settings["place"])
        if not 0 <= place < len(encoding.texts) or encoding.texts[place] != settings["column"]:
            raise FileError(f"a column of text {settings['column']!r} is unknown")
        graded = files.rebuild(settings["document"], arrays.all())
        if not isinstance(graded, Graded) or not np.array_equal(graded.classes, np.arange(k)):
            raise FileError("its text model has other classes")
        return cls(encoding.texts[place], place, graded)

    def choices(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """The reliabilities of its items; the items themselves are learned."""
        _, arrays = self.pack()
        chosen = {name: array for name, array in arrays.items() if name.startswith("choice.")}
        return {"column": self.column, "place": self.place}, chosen

    def term(self, encoding: Encoding, places: Sequence[int], sketch: Sketch) -> Term:
        del encoding, places, sketch
        raise DecibanError(
            "the expert of {expert} ({settings}) cannot be put into SQL or ONNX: fit the model without that column, "
            "schema={schema}, or score rows with predict_proba",
            expert=self.name,
            settings=self.settings,
            schema={self.column: "skip"},
            column=self.column,
            command_line="the expert of {expert} ({settings}) cannot be put into SQL or ONNX: train without that "
            "column, --schema {column}=skip, or score rows with `deciban predict`",
        )


def counted(texts: Strings, y: Codes, weight: Floats | None, k: int) -> tuple[list[str], Codes, Floats | None]:
    """The texts with their classes and weights. If texts are repeated, each is given once per class with the weight of
    all its copies: names of few values take a fraction of the time."""
    which: Array = texts.which * k + y
    if len(texts.distinct) * k <= len(y):  # few enough to count all, which is quicker than to sort
        pairs = np.flatnonzero(np.bincount(which))
        total = np.bincount(which, weight)[pairs].astype(float)
    else:
        pairs, which = np.unique(which, return_inverse=True)
        total = np.bincount(which, weight, minlength=len(pairs)).astype(float)
    if 2 * len(pairs) > len(y):
        return texts.all(), y, weight
    text, own = np.divmod(pairs, max(1, k))
    return [texts.distinct[i] for i in text.tolist()], own.astype(y.dtype), total


def read(texts: list[str]) -> Iterator[Documents]:
    return batches(texts, True)
