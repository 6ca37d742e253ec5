"""The rows of files, as a model takes them: some, all, or batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from deciban.errors import DecibanError, numbered

if TYPE_CHECKING:
    from deciban._typing import Array
    from deciban.engines.split import Split
    from deciban.engines.stream import Stream
    from deciban.sources import Batch

AT_ONCE = 200_000  # rows that are held in memory; of more, a sample makes the choices and batches are learned
AT_ONCE_BYTES = 1 << 28  # of them, however few rows they are
TEXT, LABEL = "text", "label"  # the columns of folders and mail

Result = TypeVar("Result")


@dataclass(frozen=True)
class ModelRows:
    """Files, and what a model takes of their columns: all but that of the labels, or one of texts."""

    engine: Stream
    split: Split

    @property
    def name(self) -> str:
        return self.engine.rows_named

    def whole(self) -> Any:
        """All rows, if memory holds them."""
        return self.engine.whole(AT_ONCE, AT_ONCE_BYTES)

    def some(self, most: int) -> tuple[Any, bool]:
        """All rows if there are no more than so many, else a sample from all over; and whether they are all."""
        table = self.engine.whole(most, AT_ONCE_BYTES)
        return (self.engine.sample(most), False) if table is None else (table, True)

    @contextmanager
    def labelled(self, table: Any, all_here: bool = True) -> Iterator[tuple[Any, Array]]:
        """What is learned of a table: inputs and labels. Inside, rows are called by their numbers in the files."""
        from deciban.reading.labels import label_array

        with numbered(range(1, table.num_rows + 1) if all_here else None), self.split.rows(table) as (X, y, _):
            labels = label_array(y)
            if not len(labels):
                what = "no rows" if not table.num_rows else "no row with a label in column {column!r}"
                raise DecibanError(
                    f"{{rows}} has {what}: there is nothing to learn from", rows=self.name, column=self.target
                )
            yield X, labels

    @property
    def target(self) -> str:
        return str(self.split.target)

    def each(self, work: Callable[[Any, Any], Result], watch: Callable[[int], None] | None = None) -> Iterator[Result]:
        """What comes of the labelled rows of every batch: work(inputs, labels)."""
        for result in self.engine.each(partial(self._worked, work), watch):
            if result is not None:
                yield result

    def _worked(self, work: Callable[[Any, Any], Result], batch: Batch) -> Result | None:
        with self.split.rows(batch.table) as (X, y, _):
            return work(X, y) if len(y) else None

    def digests(self) -> list[str]:
        """What files are known by once they were learned: what is in them, and which column was the label."""
        return [f"{digest} {self.split.target}" for digest in self.engine.source.digests()]


def split_columns(
    engine: Stream, target: str | None, text: str | None = None, classes: Array | None = None, labelled: bool = True
) -> ModelRows:
    """Rows of which one column holds labels, and perhaps one the texts, checked against those there are."""
    from deciban.engines.split import Split

    for column in (target, text):
        check_column(engine, column)
    engine.source.hashes = labelled  # a model remembers which files it has learned
    return ModelRows(engine, Split(target, text=text, labelled=labelled, classes=classes if labelled else None))


def check_column(engine: Any, column: str | None) -> None:
    names = tuple(engine.schema.names)
    if column is not None and column not in names:
        from deciban.reading.frames import unknown_column

        raise DecibanError("{problem}", file=engine.rows_named, column=column, problem=unknown_column(column, names))


def check_target(engine: Any, target: str | None) -> str:
    """The column of labels, which must be named."""
    if target is None:
        raise DecibanError(
            "name the column that holds the classes, with --target: {rows} has {columns}",
            rows=engine.rows_named,
            columns=", ".join(engine.schema.names),
        )
    return target


def check_classes(column: Any, target: str) -> None:
    """Quantities are no classes, nor are values that hardly ever come twice."""
    import pyarrow as pa
    import pyarrow.compute as pc

    values = column.filter(pc.invert(pc.is_null(column, nan_is_null=True)))
    distinct = len(pc.unique(values))
    if pa.types.is_floating(values.type) and distinct > 20 and not pc.all(pc.equal(values, pc.round(values))).as_py():
        raise DecibanError(
            "column {column!r} holds {distinct} different numbers: deciban tells classes apart, and does not estimate "
            "numbers; give a column of classes with --target, or cut the numbers into ranges first",
            column=target,
            distinct=distinct,
        )
    if distinct > 0.5 * len(values) > 25:
        raise DecibanError(
            "column {column!r} holds {distinct} different values in {rows} rows: as classes they are too many; is "
            "--target the column that was meant?",
            column=target,
            distinct=distinct,
            rows=len(values),
        )
