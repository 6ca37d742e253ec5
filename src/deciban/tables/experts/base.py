"""What every expert can do. An expert is a value: fixed functions of x, chosen once, and sums that add and subtract.

What it says of a row is evidence: for each class log p(what it looks at | class), up to what all classes share.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

from deciban._typing import Array, Codes, Floats
from deciban.errors import DecibanError
from deciban.tables.encode import EncodedRows, Encoding

if TYPE_CHECKING:
    from deciban.formula import Sketch, Term
    from deciban.storage.arrays import CheckedArrays


class Expert(ABC):
    """One way to look at a row."""

    name: ClassVar[str]
    changing: ClassVar[tuple[str, ...]]  # the arrays of `pack` that learning changes: sums, and room for new classes

    @property
    def way(self) -> str:
        """How it looks at a row, more closely than its name says."""
        return self.name

    @property
    def usual(self) -> bool:
        """Whether its settings are those to take unless rows clearly ask for others."""
        return False

    @property
    @abstractmethod
    def settings(self) -> str:
        """What was chosen, for a person."""

    @abstractmethod
    def learned(self, rows: EncodedRows, y: Codes, weight: Floats | None = None) -> Self:
        """With these rows of classes y added to the sums."""

    @abstractmethod
    def plus(self, other: Self, sign: float = 1.0) -> Self:
        """With the sums of another of the same structure added, or with sign −1 taken away."""

    def added(self, others: Sequence[Self]) -> Self:
        """With the sums of several others."""
        total = self
        for other in others:
            total = total.plus(other)
        return total

    @abstractmethod
    def scaled(self, factor: float) -> Self:
        """With every sum times a number."""

    @abstractmethod
    def in_classes(self, where: Array, k: int) -> Self:
        """Among k classes, of which the present ones are where[0], where[1], …; the others have no rows."""

    @abstractmethod
    def sound(self) -> bool:
        """Whether its sums can be those of rows: after a subtraction of rows that were never learned they are not."""

    @abstractmethod
    def evidence(self, rows: EncodedRows) -> Floats:
        """What it says of rows, (n, k)."""

    @abstractmethod
    def evidence_without(self, rows: EncodedRows, y: Codes, weight: Floats | None = None) -> Floats:
        """The same of rows that were learned as of class y, each by the sums without it, (n, k)."""

    def evidence_unlearned(self, rows: EncodedRows, y: Codes) -> Floats:
        """The same of rows that are not in the sums, but of which the structure may have been found: (n, k)."""
        del y
        return self.evidence(rows)

    @abstractmethod
    def terms(self, rows: EncodedRows) -> tuple[Floats, Floats]:
        """One row's evidence: what each column says, (d, k), and what no single column says, (k,)."""

    def items(self, rows: EncodedRows, target: int, against: int) -> list[tuple[str, float]] | None:
        """Where it speaks of what is inside a column, such as words: what each part of one row says, in decibans."""
        del rows, target, against
        return None

    def fits(self, weight: Floats) -> bool:
        """Whether its sums can be those of rows that weigh so much by class."""
        del weight
        return True

    @abstractmethod
    def pack(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Settings that JSON can hold, and arrays: all there is to it."""

    @classmethod
    @abstractmethod
    def unpack(cls, settings: Mapping[str, Any], arrays: CheckedArrays, encoding: Encoding, k: int) -> Self:
        """The expert that `pack` took apart, of k classes; a file may say anything, so everything is checked."""

    def choices(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """What of `pack` was chosen: the same before and after learning more."""
        settings, arrays = self.pack()
        return settings, {name: array for name, array in arrays.items() if name not in self.changing}

    def term(self, encoding: Encoding, places: Sequence[int], sketch: Sketch) -> Term:
        """Its evidence as a formula, which SQL and ONNX are both written from; `places` are those of the columns."""
        del encoding, places, sketch
        raise DecibanError(
            f"the expert of {self.name} ({self.settings}) cannot be put into SQL or ONNX: score rows with predict_proba"
        )
