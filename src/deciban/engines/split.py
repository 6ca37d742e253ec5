"""Which columns of a table a model looks at, and which hold labels and weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deciban._typing import Array
from deciban.engines.base import Sum, added
from deciban.errors import numbered
from deciban.sources.column_types import as_texts


@dataclass(frozen=True, slots=True, eq=False)
class Split:
    """A table cut into what a model looks at, labels and weights."""

    target: str | None = None
    weight: str | None = None
    text: str | None = None  # the column of texts, for a model of texts
    named: bool = True
    labelled: bool = False  # whether rows without a label are passed over
    columns: tuple[str, ...] | None = None  # those that were learned; None: all others
    mark: Any = None  # a label that says that there is none
    classes: Array | None = None  # those of a model: labels are read as it knows them

    def inputs(self, table: pa.Table) -> Any:
        """What the model looks at."""
        if self.text is not None:
            return as_texts(table[self.text])
        if self.columns is not None:
            table = table.select(self.columns)
        else:
            table = table.drop_columns([name for name in (self.target, self.weight) if name in table.column_names])
        if self.named:
            return table
        return np.column_stack([column.to_numpy() for column in table.columns])

    def labels(self, table: pa.Table) -> Any:
        """The column of labels, missing where there is none."""
        if self.target is None:
            return None
        column = table[self.target]
        if self.mark is not None:
            column = column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
            no_label = pc.equal(column, pa.scalar(self.mark, column.type))
            column = pc.if_else(no_label, pa.scalar(None, column.type), column)
        if self.classes is None:
            return column
        from deciban.reading.labels import like_classes  # where labels are read: rows to explain have none

        return like_classes(column, self.classes)

    def weights(self, table: pa.Table) -> Any:
        return None if self.weight is None else table[self.weight].to_numpy()

    @contextmanager
    def rows(self, table: pa.Table) -> Iterator[tuple[Any, Any, Any]]:
        """What is learned of a table: inputs, labels and weights. Errors inside count the table's rows."""
        kept, labels = None, self.labels(table)
        if self.labelled and labels is not None:
            there = pc.invert(pc.is_null(labels, nan_is_null=True))
            if not pc.all(there, min_count=0).as_py():
                kept = np.flatnonzero(there.to_numpy()).tolist()
                table, labels = table.filter(there), labels.filter(there)
        with numbered(kept):
            yield self.inputs(table), labels, self.weights(table)

    def added_up(self, tables: Iterator[pa.Table], of: Callable[[Any, Any, Any], Sum]) -> Sum | None:
        """The sum of what is said of a partition's inputs, labels and weights, table by table; None without rows."""

        def part(table: pa.Table) -> Sum:
            with self.rows(table) as rows:
                return of(*rows)

        return added(part(table) for table in tables if table.num_rows)
