"""Files that declare the types of their columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np
import pyarrow as pa

from deciban.errors import DecibanError, FileError
from deciban.show import one_line
from deciban.sources.base import Piece, Source, even_spans, row_indices
from deciban.sources.column_types import (
    check_names,
    check_same_columns,
    conform,
    declared_type,
    string_type,
    with_nulls,
)
from deciban.sources.input_file import InputFile, Pass

ROWS_PER_LOOK = 1 << 16  # such formats cannot read just a few rows cheaply


class SelfDescribing(Source):
    """Tables with declared types: those of the first file, to which the others are cast."""

    def __init__(self, name: str, files: Sequence[InputFile], missing: Sequence[str] | None) -> None:
        super().__init__(name, "table", files)
        self._missing = missing
        self._sampled: pa.Table | None = None  # kept, since sampling can cost as much as reading all

    def _set_columns(self, schemas: Sequence[pa.Schema], given: Mapping[str, pa.DataType]) -> None:
        """Set columns and types; needs `_pieces` to work, for a sample."""
        first = self.files[0].name
        for file, schema in zip(self.files, schemas, strict=True):
            check_names(schema.names, file.name)
            self.columns = self.columns or tuple(schema.names)
            check_same_columns(self.columns, schema.names, first, file.name)
        self.types = {field.name: declared_type(field.type, field.name, first) for field in schemas[0]}
        self.types |= {column: given[column] for column in self.columns if column in given}
        self.whole = frozenset(column for column in self.columns if pa.types.is_integer(self.types[column]))
        names = [column for column in self.columns if self.types[column] == pa.string() and column not in given]
        if names:
            self._sampled = self.sample()
            self.types |= {column: string_type([self._sampled.column(column)]) for column in names}

    def _sample(self, rows: int) -> pa.Table:
        if self._sampled is None or self._sampled.num_rows < rows:
            return self._read_sample(rows)
        some = np.concatenate([np.arange(start, end) for start, end in even_spans(self._sampled.num_rows, rows)])
        return conform(self._sampled.take(row_indices(some)), self.columns, self.types, self.name).unify_dictionaries()

    def _read_sample(self, rows: int) -> pa.Table:
        """A sample from the files."""
        return super()._sample(rows)

    def _peek(self) -> Iterator[Piece]:
        return self._pieces(ROWS_PER_LOOK, Pass())

    def _as_table(self, batch: pa.RecordBatch, file: InputFile) -> pa.Table:
        table = with_nulls(pa.Table.from_batches([batch]), self._missing)
        return conform(table, self.columns, self.types, file.name)


@contextmanager
def file_errors(
    name: str, what: str, remedy: str = "write it again", raised: type[Exception] = pa.ArrowException
) -> Iterator[None]:
    """Turn errors of libraries and of the system into one that names the file and the remedy."""
    try:
        yield
    except DecibanError:  # which may be a ValueError
        raise
    except (raised, OSError, ValueError) as error:
        raise FileError(
            "{file} is not a complete {what} ({problem}): {remedy}",
            file=name,
            what=what,
            problem=one_line(str(error)),
            remedy=remedy,
        ) from None
