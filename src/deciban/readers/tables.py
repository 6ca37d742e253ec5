"""Any table, for a model that codes its columns itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from deciban._typing import Floats
from deciban.readers.base import Reader
from deciban.reading.frames import Frame
from deciban.reading.labels import Labels
from deciban.reading.native import to_native


@dataclass(frozen=True, slots=True)
class TableReader(Reader):
    """A table; `like` is the user's kind of table: pandas, polars, pyarrow, numpy or dict."""

    like: str = "dict"

    form: ClassVar[str] = "any"  # the model reads the rows itself
    strings: ClassVar[bool] = True

    def learn(self, X: Frame, known: Any, labels: Labels, weight: Floats | None) -> Frame:
        del labels, weight
        return X if known is None else self.score(X, known)

    def score(self, X: Frame, model: Any) -> Frame:
        frame: Frame = model.read(X)
        return frame

    def native(self, rows: Frame, model: Any) -> Any:
        names = [kind.name for kind in model.reader.used]
        return to_native(self.like, names, [rows[name] for name in names])

    def kinds(self, names: tuple[str, ...], model: Any) -> None:
        """No database computes the sums of experts."""
        del names, model
