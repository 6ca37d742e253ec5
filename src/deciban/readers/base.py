"""What every reader does: rows to learn from, rows to score, and rows that were drawn as a person has them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from deciban._typing import Floats
from deciban.reading.labels import Labels


class Reader(ABC):
    """A way of reading rows in a `form`: a "matrix" of numbers, "objects", a "table" or "tree", "texts", or "any"."""

    __slots__ = ()

    form: ClassVar[str] = "matrix"
    sparse: ClassVar[bool] = True  # whether sparse rows are taken
    strings: ClassVar[bool] = False  # whether values may be strings

    @abstractmethod
    def learn(self, X: Any, known: Any, labels: Labels, weight: Floats | None) -> Any:
        """Rows to learn from; `known` is the model so far, or None."""

    @abstractmethod
    def score(self, X: Any, model: Any) -> Any:
        """Rows to ask a model about."""

    @abstractmethod
    def native(self, rows: Any, model: Any) -> Any:
        """Rows that a model drew, as a person has them."""

    def kinds(self, names: tuple[str, ...], model: Any) -> dict[str, str] | None:
        """What each column is to a database that adds up by itself; None where it cannot."""
        del model
        return dict.fromkeys(names, "number")
