"""Rows and labels for a command, batch by batch, from whatever the user pointed at."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from deciban._typing import Array
from deciban.errors import DecibanError
from deciban.show import plain

if TYPE_CHECKING:
    from deciban.sources import Batch, Source

IN_MEMORY = 1 << 28  # bytes of rows that are held at once, however few rows they are
TEXT, LABEL = "text", "label"  # the columns of folders and mail

Item = TypeVar("Item")


@dataclass(frozen=True)
class Reading:
    """How files are to be read."""

    format: str | None = None
    delimiter: str | None = None
    encoding: str = "utf-8"
    missing: Sequence[str] | None = None

    def open(self, paths: Sequence[str]) -> Source:
        from deciban.sources import open_source

        return open_source(
            paths, format=self.format, delimiter=self.delimiter, encoding=self.encoding, missing=self.missing or None
        )


@dataclass
class Rows:
    """What a model takes of a source: all columns but that of the labels, or one column of texts."""

    source: Source
    target: str | None = None  # the column of labels, where they are wanted
    text: str | None = None  # the column of texts, for a model of texts
    classes: Array | None = None  # those of a model: labels are read as they are
    unlabelled: int = field(default=0, init=False)  # rows passed over, for they have no label
    numbers: Array | None = field(default=None, init=False)  # of the rows at hand, counted from 1 over all files

    def __post_init__(self) -> None:
        for column in (self.target, self.text):
            if column is not None and column not in self.source.columns:
                from deciban.reading.frames import unknown_column

                raise DecibanError(f"{self.source.name}: {unknown_column(column, self.source.columns)}")

    def inputs(self, table: Any) -> Any:
        """What the model looks at."""
        if self.text is not None:
            from deciban.sources.column_types import as_texts

            return as_texts(table[self.text])
        return table.drop_columns([self.target]) if self.target in table.column_names else table

    def labelled(self, table: Any, first: int = 0) -> tuple[Any, Array, Array]:
        """Rows that have a label, the labels, and the rows' numbers; `first` rows are before them."""
        import pyarrow.compute as pc

        column = table[self.target]
        numbers = first + 1 + np.arange(table.num_rows)
        there = pc.invert(pc.is_null(column, nan_is_null=True))
        if not pc.all(there, min_count=0).as_py():
            table, numbers = table.filter(there), numbers[there.to_numpy()]
            column = table[self.target]
        return self.inputs(table), labels(column, self.classes), numbers

    def sample(self, rows: int) -> tuple[Any, Array, bool]:
        """Some rows with their labels, and whether they are all that there are."""
        table, all_here = some_of(self.source, rows)
        from deciban.sources.column_types import as_written

        X, y, numbers = self.labelled(as_written(table, self.source.whole))
        self.unlabelled, self.numbers = table.num_rows - len(y), numbers if all_here else None
        if not len(y):
            what = "no rows" if not table.num_rows else f"no row with a label in column {self.target!r}"
            raise DecibanError(f"{self.source.name} has {what}: there is nothing to learn from")
        return X, y, all_here

    def batches(self, watch: Callable[[int], None] | None = None) -> Iterator[tuple[Any, Array]]:
        """Labelled rows, read ahead while those before are learned."""

        self.unlabelled = 0

        def read() -> Generator[tuple[Any, Array, Array], None, None]:
            for batch in self.source.batches(watch=watch):
                X, y, numbers = self.labelled(batch.table, batch.first)
                self.unlabelled += batch.table.num_rows - len(y)
                if len(y):
                    yield X, y, numbers

        for X, y, self.numbers in ahead(read()):
            yield X, y

    def unlabelled_batches(self, watch: Callable[[int], None] | None = None) -> Iterator[tuple[Any, Batch]]:
        """What the model looks at, batch by batch, and the batch."""
        for X, batch in ahead((self.inputs(b.table), b) for b in self.with_rows(watch)):
            self.numbers = batch.first + 1 + np.arange(batch.table.num_rows)
            yield X, batch

    def with_rows(self, watch: Callable[[int], None] | None) -> Iterator[Batch]:
        """All batches; where there are none, one without rows, which has the columns."""
        from deciban.sources import Batch

        batch = None
        for batch in self.source.batches(watch=watch):
            yield batch
        if batch is None:
            yield Batch(self.source.schema.empty_table(), 0, self.source.name)

    @contextmanager
    def numbered(self) -> Iterator[None]:
        """What a model says of rows while it is asked, it says by their numbers in the files.

        It counts those it is given, from 0; people count all rows of a file, from 1.
        """
        said = warnings.showwarning
        warnings.showwarning = lambda message, *more: said(renumbered(str(message), self.numbers), *more)
        try:
            yield
        except DecibanError as error:
            raise type(error)(renumbered(str(error), self.numbers)) from error
        finally:
            warnings.showwarning = said


# In quotes is data. What was wrong with a file is said by its lines, and rows are counted from 1 there already.
ROW = re.compile(r"""('[^']*'|"[^"]*"|row \d+ of )|\brow (\d+)\b""")


def renumbered(message: str, numbers: Array | None) -> str:
    """A message with rows by their numbers.

    >>> renumbered("'row 1' in row 0, and row 1", np.array([7, 9]))
    "'row 1' in row 7, and row 9"
    """

    def said(found: re.Match[str]) -> str:
        kept, row = found.groups()
        known = kept is None and numbers is not None and int(row) < len(numbers)
        return f"row {numbers[int(row)]}" if known and numbers is not None else found[0]

    return ROW.sub(said, message)


def some_of(source: Source, rows: int) -> tuple[Any, bool]:
    """All rows where there are no more than so many, else a sample from all over; and whether they are all."""
    import pyarrow as pa

    if source.size is None:  # a pipe: its first rows
        table = source.sample(rows)
        return table, table.num_rows < rows
    tables, total, size = [source.schema.empty_table()], 0, 0
    for batch in source.batches():
        tables.append(batch.table)
        total += batch.table.num_rows
        size += batch.table.nbytes
        if total > rows or size > IN_MEMORY:
            return source.sample(min(rows, 1 + total * IN_MEMORY // max(1, size))), False
    return pa.concat_tables(tables).unify_dictionaries(), True


def labels(column: Any, classes: Array | None = None) -> Array:
    """Labels as they are: whole numbers as such, though files are read as fractions; of a model, as it knows them."""
    import pyarrow as pa

    from deciban.sources.column_types import all_whole

    kind = column.type
    if pa.types.is_integer(kind):
        found: Array = column.to_numpy()
    elif pa.types.is_floating(kind):
        numbers = column.to_numpy()
        found = numbers.astype(np.int64) if all_whole(numbers) else numbers
    elif pa.types.is_dictionary(kind):
        found = np.concatenate([np.zeros(0, dtype=object), *map(spelled_out, column.chunks)])
    elif pa.types.is_boolean(kind):
        found = np.asarray(column.to_pylist(), dtype=bool)
    else:
        found = np.empty(len(column), dtype=object)
        found[:] = [value if isinstance(value, str) else str(value) for value in column.to_pylist()]
    return found if classes is None else like_classes(found, classes)


def spelled_out(chunk: Any) -> Array:
    """Categories of Arrow as what they stand for."""
    names = np.array([*map(str, chunk.dictionary.to_pylist()), None], dtype=object)
    return np.asarray(names[chunk.indices.to_numpy(zero_copy_only=False)])


def like_classes(found: Array, classes: Array) -> Array:
    """Labels of the kind that a model's classes are: the number 1 is the class "1" where classes are strings."""
    spelled = {str(plain(label)): label for label in classes.tolist()}
    known = set(spelled.values())
    if all(label in known for label in set(found.tolist())):
        return found
    out = np.empty(len(found), dtype=object)
    out[:] = [spelled.get(str(label), label) for label in found.tolist()]
    odd = [label for label in out.tolist() if isinstance(label, str)]
    if odd and classes.dtype.kind not in "UO":
        raise DecibanError(
            f"{odd[0]!r} is a label, but the model's classes are {', '.join(spelled)}: is it that column?"
        )
    return out


def check_not_among(output: str | None, inputs: Sequence[str]) -> None:
    """What is read is not overwritten."""
    for path in inputs:
        for name in (path, path.partition("=")[2]):
            if output and name and os.path.exists(output) and os.path.exists(name) and os.path.samefile(output, name):
                raise DecibanError(f"{output!r} is what is read, and would be lost: write to another file with -o")


def check_classes(y: Array, target: str) -> None:
    """Numbers by the hundred are no classes."""
    distinct = len(set(y.tolist()))
    if y.dtype.kind == "f" and distinct > 20:
        raise DecibanError(
            f"column {target!r} holds {distinct} different numbers: deciban tells classes apart, and does not estimate "
            "numbers; give a column of classes with --target, or cut the numbers into ranges first"
        )
    if distinct > 0.5 * len(y) > 25:
        raise DecibanError(
            f"column {target!r} holds {distinct} different values in {len(y)} rows: as classes they are too many; is "
            "--target the column that was meant?"
        )


def ahead(items: Generator[Item, None, None]) -> Iterator[Item]:
    """The same items, made in another thread while those before are used."""
    from deciban.sources.read_ahead import in_order

    return (item for item, _ in in_order(items, lambda item: None, threads=1))  # noqa: ARG005 - they are done
