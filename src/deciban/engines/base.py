"""What every engine does: give the schema and a sample, sum over partitions, and score rows.

A model is a sum, so nothing more is needed, wherever the rows are. Anything with `+` can be summed: the statistics of a
model while it learns, those under the posterior in a step of EM, a tally of rows left out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias, TypeVar

from deciban.algebra import Stats
from deciban.joint import Joint
from deciban.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa


class Addable(Protocol):
    """A sum: that of two partitions is the sum of both, in either order."""

    def __add__(self, other: Any) -> Any: ...


Sum = TypeVar("Sum", bound=Addable)
Work: TypeAlias = "Callable[[Iterator[pa.Table]], Sum | None]"  # rows of one partition → their sum; None without rows
Answer: TypeAlias = "Callable[[pa.Table], pa.Table]"  # rows → a row of answers for each, in the same order
Watch: TypeAlias = Callable[[int], None]  # called with how much of the source is done, in the unit of `Engine.size`


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """Sums for a database to compute."""

    joint: Joint
    schema: Schema  # names of columns, pivots, and the classes and categories of a sample; new ones may be added
    kinds: Mapping[str, str]  # how a column is read: "number", "date", "boolean", "category" or "code"
    target: str  # the column of labels
    weight: str | None = None  # the column of weights
    positive: bool = False  # whether a negative number is an error


@dataclass(frozen=True, slots=True, eq=False)
class PushedSums:
    """Sums that a database computed, and how many rows are in none of them."""

    stats: Stats
    unlabelled: int = 0
    incomplete: int = 0  # labelled rows with a missing entry in a block whose columns depend on each other


class Engine(ABC):
    """Rows in partitions, and a way to sum over all of them."""

    name: ClassVar[str]
    once: bool = False  # whether rows can be read only once
    named: bool = True  # whether columns have names
    target: str | None = None  # the column of labels, if they were given separately
    size: int | None = None  # of the whole source, in `unit`; None if unknown
    unit: str = "partitions"
    rows_named: str = "the rows"  # the name of the source in messages, without passwords

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """The schema of every table of rows."""

    @abstractmethod
    def sample(self, rows: int) -> pa.Table:
        """All rows, if there are at most `rows`; otherwise about that many, spread evenly, without reading all."""

    @abstractmethod
    def collect(self, work: Work[Sum], watch: Watch | None = None) -> Sum | None:
        """The sum of work(partition) over all partitions; every row counts exactly once; None without rows."""

    @abstractmethod
    def apply(self, answer: Answer, fields: pa.Schema) -> Any:
        """Answers for all rows, with the schema `fields`, in the engine's own kind of table, computed lazily.

        If rows have an order, the answers have it too; otherwise the answers are columns next to the rows.
        """

    def pushed(self, question: Question) -> PushedSums | None:
        """The sums, computed by the database itself; None if that is impossible."""
        del question
        return None

    def __repr__(self) -> str:
        return f"<{self.name}: {self.rows_named}>"


def sum_of_parts(parts: Iterator[Sum | None]) -> Sum | None:
    """The sum of all parts that are not None, in their order; None without any."""
    total: Sum | None = None
    for part in parts:
        if part is not None:
            total = part if total is None else total + part
    return total


def thinned(table: pa.Table, rows: int) -> pa.Table:
    """At most `rows` of the rows, evenly spaced."""
    import numpy as np

    from deciban.sources.base import row_indices

    if table.num_rows <= rows:
        return table
    return table.take(row_indices(np.linspace(0, table.num_rows - 1, rows)))
