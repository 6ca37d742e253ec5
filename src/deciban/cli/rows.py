"""The rows of files for a model: all, a sample, or batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from deciban.errors import DecibanError, numbered

if TYPE_CHECKING:
    from deciban._typing import Array
    from deciban.engines.split import Split
    from deciban.engines.stream import Stream
    from deciban.reading.convert import Format
    from deciban.sources import Batch

MAX_ROWS_IN_MEMORY = 200_000  # of more rows, choices are made on a sample and rows are learned in batches
MAX_BYTES_IN_MEMORY = 1 << 28  # of those rows
TEXT, LABEL = "text", "label"  # columns of a source of folders or mail

Result = TypeVar("Result")


@dataclass(frozen=True)
class ModelRows:
    """Files, split into the label column and the inputs of a model: all other columns, or one of texts."""

    engine: Stream
    split: Split

    @property
    def name(self) -> str:
        return self.engine.rows_named

    def all_rows(self) -> Any:
        """All rows, or None if they do not fit in memory."""
        return self.engine.whole(MAX_ROWS_IN_MEMORY, MAX_BYTES_IN_MEMORY)

    def all_or_sample(self, max_rows: int) -> tuple[Any, bool]:
        """All rows if there are at most `max_rows`, else a sample spread over the files; and whether they are all."""
        table = self.engine.whole(max_rows, MAX_BYTES_IN_MEMORY)
        return (self.engine.sample(max_rows), False) if table is None else (table, True)

    @contextmanager
    def labelled(self, table: Any, all_here: bool = True) -> Iterator[tuple[Any, Array]]:
        """Inputs and labels of a table. Inside, errors name rows by their numbers in the files."""
        from deciban.reading.labels import label_array

        with numbered(range(1, table.num_rows + 1) if all_here else None), self.split.rows(table) as (X, y, _):
            labels = label_array(y)
            if not len(labels):
                what = "no rows" if not table.num_rows else "no row with a label in column {column!r}"
                raise DecibanError(
                    f"{{rows}} has {what}: there is nothing to learn from", rows=self.name, column=self.target
                )
            yield X, labels

    def with_formats(self, formats: Mapping[str, Format]) -> ModelRows:
        """The same, with strings read as numbers and dates in these formats."""
        return replace(self, split=replace(self.split, formats=formats))

    def of_columns(self, used: tuple[str, ...]) -> ModelRows:
        """The same, with these columns as inputs."""
        return replace(self, split=replace(self.split, columns=used))

    @property
    def target(self) -> str:
        return str(self.split.target)

    def each(self, work: Callable[[Any, Any], Result], watch: Callable[[int], None] | None = None) -> Iterator[Result]:
        """work(inputs, labels) for every batch that has labelled rows."""
        for result in self.engine.each(partial(self._apply, work), watch):
            if result is not None:
                yield result

    def _apply(self, work: Callable[[Any, Any], Result], batch: Batch) -> Result | None:
        with self.split.rows(batch.table) as (X, y, _):
            return work(X, y) if len(y) else None

    def digests(self) -> list[str]:
        """What identifies learned files: the digest of each, and the label column."""
        return [f"{digest} {self.split.target}" for digest in self.engine.source.digests()]


def split_columns(
    engine: Stream,
    target: str | None,
    text: str | None = None,
    classes: Array | None = None,
    labelled: bool = True,
    formats: Mapping[str, Any] | None = None,
) -> ModelRows:
    """Rows split into labels and inputs, or texts; the columns must exist.

    `formats` are how strings write numbers and dates, as a model file stores them.
    """
    from deciban.engines.split import Split

    for column in (target, text):
        check_column(engine, column)
    engine.source.hashes = labelled  # a model remembers which files it has learned
    rows = ModelRows(engine, Split(target, text=text, labelled=labelled, classes=classes if labelled else None))
    if not formats:
        return rows
    from deciban.reading.convert import format_from_dict

    return rows.with_formats({name: format_from_dict(about) for name, about in formats.items()})


def check_column(engine: Any, column: str | None) -> None:
    names = tuple(engine.schema.names)
    if column is not None and column not in names:
        from deciban.reading.frames import unknown_column

        raise DecibanError("{problem}", file=engine.rows_named, column=column, problem=unknown_column(column, names))


def check_target(engine: Any, target: str | None) -> str:
    """The label column, or an error if none is named."""
    if target is None:
        raise DecibanError(
            "give the column that holds the classes with --target: {rows} has {columns}",
            rows=engine.rows_named,
            columns=", ".join(engine.schema.names),
        )
    return target


def check_classes(column: Any, target: str) -> None:
    """Refuse a target of real numbers, or of values that are nearly all distinct."""
    import pyarrow as pa
    import pyarrow.compute as pc

    values = column.filter(pc.invert(pc.is_null(column, nan_is_null=True)))
    distinct = len(pc.unique(values))
    if pa.types.is_floating(values.type) and distinct > 20 and not pc.all(pc.equal(values, pc.round(values))).as_py():
        raise DecibanError(
            "column {column!r} holds {distinct} different numbers, but deciban predicts classes, not numbers: give a "
            "column of classes with --target, or divide the numbers into ranges first",
            column=target,
            distinct=distinct,
        )
    if distinct > 0.5 * len(values) > 25:
        raise DecibanError(
            "column {column!r} holds {distinct} different values in {rows} rows, too many to be classes: check that "
            "--target names the right column",
            column=target,
            distinct=distinct,
            rows=len(values),
        )
