"""Files that say what their columns are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from deciban.sources.base import Source
from deciban.sources.kinds import as_names, check_names, conform, declared, same_columns, without
from deciban.sources.places import Place


class Typed(Source):
    """Tables whose types are declared: those of the first file, which the others are cast to."""

    def __init__(self, name: str, places: Sequence[Place], missing: Sequence[str] | None) -> None:
        super().__init__(name, "table", places)
        self._missing = missing

    def _settle(self, schemas: Sequence[pa.Schema], given: Mapping[str, pa.DataType]) -> None:
        """Say what the columns are read as, once rows can be read."""
        first = self.places[0].name
        for place, schema in zip(self.places, schemas, strict=True):
            check_names(schema.names, place.name)
            self.columns = self.columns or tuple(schema.names)
            same_columns(self.columns, schema.names, first, place.name)
        self.types = {field.name: declared(field.type, field.name, first) for field in schemas[0]}
        self.types |= {column: given[column] for column in self.columns if column in given}
        self.whole = frozenset(column for column in self.columns if pa.types.is_integer(self.types[column]))
        names = [column for column in self.columns if self.types[column] == pa.string() and column not in given]
        if names:
            sampled = self.sample()
            self.types |= {column: as_names([sampled.column(column)]) for column in names}

    def _conformed(self, batch: pa.RecordBatch, place: Place) -> pa.Table:
        table = without(pa.Table.from_batches([batch]), self._missing)
        return conform(table, self.columns, self.types, place.name)
