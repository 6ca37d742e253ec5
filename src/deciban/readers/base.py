"""What every reader does: read rows to learn from and rows to score, and return sampled rows as the user has them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from deciban._typing import Floats
from deciban.reading.labels import Labels


class Reader(ABC):
    """A way of reading rows in a `form`: a "matrix" of numbers, "objects", a "table" or "tree", "texts", or "any"."""

    __slots__ = ()

    form: ClassVar[str] = "matrix"
    sparse: ClassVar[bool] = True  # whether sparse rows are accepted
    strings: ClassVar[bool] = False  # whether values may be strings

    @abstractmethod
    def learn(self, X: Any, known: Any, labels: Labels, weight: Floats | None) -> Any:
        """Rows to learn from; `known` is the model so far, or None."""

    @abstractmethod
    def score(self, X: Any, model: Any) -> Any:
        """Rows to score."""

    @abstractmethod
    def native(self, rows: Any, model: Any) -> Any:
        """Rows sampled from a model, as the user has them."""

    def kinds(self, names: tuple[str, ...], model: Any) -> dict[str, str] | None:
        """How a database reads each column to compute the sums itself; None if it cannot."""
        del model
        return dict.fromkeys(names, "number")
