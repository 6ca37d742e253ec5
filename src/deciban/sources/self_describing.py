"""Files that say what their columns are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from deciban.sources.base import Piece, Source, numbers, spread
from deciban.sources.column_types import as_names, check_names, conform, declared, same_columns, without
from deciban.sources.input_file import InputFile, Pass

LOOKED = 1 << 16  # rows at a time: such files have no cheap way to a few


class SelfDescribing(Source):
    """Tables whose types are declared: those of the first file, which the others are cast to."""

    def __init__(self, name: str, files: Sequence[InputFile], missing: Sequence[str] | None) -> None:
        super().__init__(name, "table", files)
        self._missing = missing
        self._sampled: pa.Table | None = None  # looked at already: to find them can be as dear as to read all

    def _settle(self, schemas: Sequence[pa.Schema], given: Mapping[str, pa.DataType]) -> None:
        """Say what the columns are read as, once rows can be read."""
        first = self.files[0].name
        for file, schema in zip(self.files, schemas, strict=True):
            check_names(schema.names, file.name)
            self.columns = self.columns or tuple(schema.names)
            same_columns(self.columns, schema.names, first, file.name)
        self.types = {field.name: declared(field.type, field.name, first) for field in schemas[0]}
        self.types |= {column: given[column] for column in self.columns if column in given}
        self.whole = frozenset(column for column in self.columns if pa.types.is_integer(self.types[column]))
        names = [column for column in self.columns if self.types[column] == pa.string() and column not in given]
        if names:
            self._sampled = self.sample()
            self.types |= {column: as_names([self._sampled.column(column)]) for column in names}

    def sample(self, rows: int = 100_000) -> pa.Table:
        """All rows, if there are no more than `rows`; otherwise at most so many, from places spread evenly."""
        if self._sampled is None or self._sampled.num_rows < rows:
            return self._found(rows)
        some = np.concatenate([np.arange(start, end) for start, end in spread(self._sampled.num_rows, rows)])
        return conform(self._sampled.take(numbers(some)), self.columns, self.types, self.name).unify_dictionaries()

    def _found(self, rows: int) -> pa.Table:
        """A sample from the files."""
        return super().sample(rows)

    def _look(self) -> Iterator[Piece]:
        return self._pieces(LOOKED, Pass())

    def _conformed(self, batch: pa.RecordBatch, file: InputFile) -> pa.Table:
        table = without(pa.Table.from_batches([batch]), self._missing)
        return conform(table, self.columns, self.types, file.name)
