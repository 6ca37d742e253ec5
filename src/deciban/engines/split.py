"""Which columns of a table are the inputs of a model, and which hold labels and weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deciban._typing import Array
from deciban.engines.base import Sum, sum_of_parts
from deciban.errors import numbered
from deciban.sources.column_types import as_texts

if TYPE_CHECKING:
    from deciban.reading.convert import Format
    from deciban.reading.kinds import ColumnKind, Conventions

MICROSECONDS_PER_DAY = 86_400_000_000


@dataclass(frozen=True, slots=True, eq=False)
class Split:
    """How a table is split into inputs, labels and weights."""

    target: str | None = None
    weight: str | None = None
    text: str | None = None  # the column of texts, for a model of texts
    named: bool = True
    labelled: bool = False  # whether rows without a label are skipped
    columns: tuple[str, ...] | None = None  # those that were learned; None: all others
    mark: Any = None  # a label that means a missing label
    classes: Array | None = None  # of the model: labels are read as its type of label
    formats: Mapping[str, Format] = field(default_factory=dict)  # how strings write numbers, if the model needs them

    def inputs(self, table: pa.Table) -> Any:
        """The inputs of the model."""
        if self.text is not None:
            return as_texts(table[self.text])
        for name, form in self.formats.items():
            if name in table.column_names:
                table = table.set_column(table.column_names.index(name), name, converted(table[name], name, form))
        if self.columns is not None:
            table = table.select(self.columns)
        else:
            table = table.drop_columns([name for name in (self.target, self.weight) if name in table.column_names])
        if self.named:
            return table
        return np.column_stack([column.to_numpy() for column in table.columns])

    def labels(self, table: pa.Table) -> Any:
        """The column of labels, missing if there is none."""
        if self.target is None:
            return None
        column = table[self.target]
        if self.mark is not None:
            column = column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
            no_label = pc.equal(column, pa.scalar(self.mark, column.type))
            column = pc.if_else(no_label, pa.scalar(None, column.type), column)
        if self.classes is None:
            return column
        from deciban.reading.labels import like_classes  # imported only to read labels: rows to explain have none

        return like_classes(column, self.classes)

    def weights(self, table: pa.Table) -> Any:
        return None if self.weight is None else table[self.weight].to_numpy()

    @contextmanager
    def rows(self, table: pa.Table) -> Iterator[tuple[Any, Any, Any]]:
        """Inputs, labels and weights of a table. Errors inside have the row numbers of the table."""
        kept, labels = None, self.labels(table)
        if self.labelled and labels is not None:
            has_label = pc.invert(pc.is_null(labels, nan_is_null=True))
            if not pc.all(has_label, min_count=0).as_py():
                kept = np.flatnonzero(has_label.to_numpy()).tolist()
                table, labels = table.filter(has_label), labels.filter(has_label)
        with numbered(kept):
            yield self.inputs(table), labels, self.weights(table)

    def total(self, tables: Iterator[pa.Table], compute: Callable[[Any, Any, Any], Sum]) -> Sum | None:
        """The sum of compute(inputs, labels, weights) over a partition's tables; None without rows."""

        def part(table: pa.Table) -> Sum:
            with self.rows(table) as rows:
                return compute(*rows)

        return sum_of_parts(part(table) for table in tables if table.num_rows)


def converted(column: pa.ChunkedArray, name: str, form: Format) -> pa.Array:
    """Strings as the numbers or moments they are; what is neither is missing, with a warning."""
    from deciban.reading.columns import Numbers, read_column
    from deciban.reading.convert import as_kind
    from deciban.reading.dates import DateFormat

    strings, _ = read_column(column, name)
    kind = "date" if isinstance(form, DateFormat) else "number"
    numbers = as_kind(strings, kind, name, format=form)
    assert isinstance(numbers, Numbers)
    if kind == "number":
        return pa.array(numbers.values, mask=numbers.missing)
    microseconds = np.round(np.nan_to_num(numbers.values) * MICROSECONDS_PER_DAY).astype(np.int64)
    return pa.array(microseconds, mask=numbers.missing).cast(pa.timestamp("us"))


def inferred_kinds(inputs: pa.Table, conventions: Conventions | None = None) -> Sequence[ColumnKind]:
    """The kinds of the columns of a table."""
    from deciban.reading.frames import read_frame
    from deciban.reading.kinds import UNKNOWN, infer

    return infer(read_frame(inputs), None, conventions or UNKNOWN)


def formats_of(inputs: pa.Table, conventions: Conventions | None = None) -> dict[str, Format]:
    """How the strings of a table write numbers and dates, for models that would read them as categories."""
    return {kind.name: kind.format for kind in inferred_kinds(inputs, conventions) if kind.format is not None}
