"""The interface of experts. An expert is a value: fixed functions of x, chosen once, and sums that add and subtract.

Its evidence about a row is, for each class, log p(its features of the row | class), up to a constant per row.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from deciban._kernel import scores
from deciban._typing import Array, Codes, Floats
from deciban.errors import DecibanError
from deciban.tables.encode import EncodedRows, Encoding

if TYPE_CHECKING:
    from deciban.formula import Sketch, Term
    from deciban.storage.arrays import CheckedArrays


MAX_EVIDENCE_NATS = 50.0  # a limit for each expert, so that none can overrule all others on an unusual row

CALIBRATED_LIMIT = 12.0  # the same if the evidence were scaled so that it predicts best alone
SCALES = (0.03, 0.045, 0.06, 0.09, 0.12, 0.18, 0.25, 0.35, 0.5, 0.7, 1.0)  # of evidence that is too sure of itself


def limited(evidence: Floats, max_nats: float = MAX_EVIDENCE_NATS) -> Floats:
    """Evidence against each class compared with the best one, `max_nats` at most; its mean over the classes is 0.

    >>> limited(np.array([[-2.0, -3.0, -900.0], [-np.inf, 0.0, 1.0]]), 20.0).round(1).tolist()
    [[7.0, 6.0, -13.0], [-13.0, 6.0, 7.0]]
    """
    out = np.empty(evidence.shape)
    scores.limit(evidence, max_nats, out)
    return out


def pseudo_rows(strength: float) -> str:
    """How strong a prior is, in words: the number of rows that it counts for.

    >>> pseudo_rows(1.0), pseudo_rows(0.5)
    ('1 pseudo-row', '0.5 pseudo-rows')
    """
    return f"{strength:g} pseudo-row{'s' * (strength != 1)}"


class Expert(ABC):
    """One way to get evidence from a row."""

    name: ClassVar[str]
    changing: ClassVar[tuple[str, ...]]  # the arrays of `pack` that learning changes: sums, and room for new classes

    @property
    def kind(self) -> str:
        """The kind of expert, more specific than its name."""
        return self.name

    @property
    def coordinates(self) -> str:
        """The coordinates that it reads: "real" or "scores"; empty if none."""
        return ""

    @property
    def is_default(self) -> bool:
        """Whether its settings are the defaults, which are kept unless others are clearly better."""
        return False

    @property
    def limit(self) -> float:
        """The most evidence, in nats, against a class compared with the best one."""
        return MAX_EVIDENCE_NATS

    def limited(self, evidence: Floats) -> Floats:
        """Its evidence as it is weighted."""
        return limited(evidence, self.limit)

    @property
    @abstractmethod
    def settings(self) -> str:
        """The chosen settings, for display."""

    @abstractmethod
    def learned(self, rows: EncodedRows, y: Codes, weight: Floats | None = None) -> Self:
        """The expert with these rows of classes y added to its sums."""

    @abstractmethod
    def plus(self, other: Self, sign: float = 1.0) -> Self:
        """With the sums of another expert of the same structure added, or subtracted if the sign is −1."""

    def added(self, others: Sequence[Self]) -> Self:
        """With the sums of several others added."""
        total = self
        for other in others:
            total = total.plus(other)
        return total

    def without(self, rows: EncodedRows, y: Codes, weight: Floats | None = None) -> Self:
        """Without these rows of classes y, which it has learned."""
        return self.plus(self.scaled(0.0).learned(rows, y, weight), -1.0)

    @abstractmethod
    def scaled(self, factor: float) -> Self:
        """With every sum times a number."""

    @abstractmethod
    def in_classes(self, where: Array, k: int) -> Self:
        """Among k classes, of which the present ones are where[0], where[1], …; the others have no rows."""

    @abstractmethod
    def is_valid(self) -> bool:
        """Whether some rows can have these sums; false after subtracting rows that were never learned."""

    @abstractmethod
    def evidence(self, rows: EncodedRows) -> Floats:
        """Evidence about rows, (n, k)."""

    @abstractmethod
    def evidence_without(self, rows: EncodedRows, y: Codes, weight: Floats | None = None) -> Floats:
        """The same for learned rows of classes y, each under the sums without it, (n, k)."""

    def evidence_unlearned(self, rows: EncodedRows, y: Codes) -> Floats:
        """The same for rows that are not in the sums, but that the structure may have been chosen on, (n, k)."""
        del y
        return self.evidence(rows)

    @abstractmethod
    def terms(self, rows: EncodedRows, unlearned: Codes | None = None) -> tuple[Floats, Floats]:
        """Evidence by column, (n, d, k), and the part that belongs to no single column, (n, k).

        They add up to `evidence`; with `unlearned`, the classes of rows, to `evidence_unlearned`.
        """

    @property
    def text_place(self) -> int | None:
        """Which of the columns of text it reads, if it reads that one alone."""
        return None

    def items(self, rows: EncodedRows, target: int, against: int, by: str) -> list[tuple[str, float]] | None:
        """For an expert of parts of a column, such as words: the evidence of each part of one row, in decibans; `by`
        item, the finest parts."""
        del rows, target, against, by
        return None

    def fits(self, weight: Floats) -> bool:
        """Whether its sums can come from rows of this weight by class."""
        del weight
        return True

    @abstractmethod
    def pack(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """The whole expert as settings for JSON, and arrays."""

    @classmethod
    @abstractmethod
    def unpack(cls, settings: Mapping[str, Any], arrays: CheckedArrays, encoding: Encoding, k: int) -> Self:
        """The inverse of `pack`, for k classes; a file may hold anything, so everything is checked."""

    def choices(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """The part of `pack` that was chosen: the same before and after learning more."""
        settings, arrays = self.pack()
        return settings, {name: array for name, array in arrays.items() if name not in self.changing}

    def term(self, encoding: Encoding, places: Sequence[int], sketch: Sketch) -> Term:
        """Its evidence as a formula, from which SQL and ONNX are written; `places` are those of the columns."""
        del encoding, places, sketch
        raise DecibanError(
            "the expert of {expert} ({settings}) cannot be put into SQL or ONNX: score rows with predict_proba",
            expert=self.name,
            settings=self.settings,
            command_line="the expert of {expert} ({settings}) cannot be put into SQL or ONNX: score rows with `deciban "
            "predict`, or train with --model naive-bayes",
        )
