"""What every engine does: it says what columns there are, gives a sample, adds up over partitions, and answers rows.

A model is a sum, so nothing more is needed, wherever the rows are. What is added up is anything with `+`: the
statistics of a model while it learns, those under the posterior in a step of EM, a tally of rows left out.
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
    """A sum: what two partitions say together is what both say, in either order."""

    def __add__(self, other: Any) -> Any: ...


Sum = TypeVar("Sum", bound=Addable)
Work: TypeAlias = "Callable[[Iterator[pa.Table]], Sum | None]"  # rows of one partition → their sum, if there are any
Answer: TypeAlias = "Callable[[pa.Table], pa.Table]"  # rows → as many rows of answers, in the same order
Watch: TypeAlias = Callable[[int], None]  # told how much of the source is done, in its own unit (`Engine.size`)


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """Sums that a database can add up by itself."""

    joint: Joint
    schema: Schema  # columns by their names, pivots, and the classes and categories of a sample; others may join
    kinds: Mapping[str, str]  # how a column is read: "number", "date", "boolean", "category" or "code"
    target: str  # the column of labels
    weight: str | None = None  # the column of weights
    positive: bool = False  # whether a negative number is an error


@dataclass(frozen=True, slots=True, eq=False)
class Pushed:
    """What the database answered: sums, and how many rows are in none of them."""

    stats: Stats
    unlabelled: int = 0
    incomplete: int = 0  # labelled rows with a missing entry in a block whose columns depend on each other


class Engine(ABC):
    """Rows somewhere, in partitions, and a way to add up over all of them."""

    name: ClassVar[str]
    once: bool = False  # whether rows can be gone through only once
    named: bool = True  # whether the columns' names mean something
    target: str | None = None  # the column of labels, where they came apart from the rows
    size: int | None = None  # of the whole source, in the unit that a watch is told; None where it is not known
    unit: str = "partitions"
    rows_named: str = "the rows"  # what to call the source when speaking to a person; no password is in it

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """What every table of rows has."""

    @abstractmethod
    def sample(self, rows: int) -> pa.Table:
        """All rows, if there are no more than so many; otherwise about so many, from all over, without reading all."""

    @abstractmethod
    def collect(self, work: Work[Sum], watch: Watch | None = None) -> Sum | None:
        """The sum of work(partition) over all partitions, each of whose rows counts exactly once; None without rows."""

    @abstractmethod
    def apply(self, answer: Answer, fields: pa.Schema) -> Any:
        """Answers to all rows, `fields`, in the engine's own kind of table, when it is asked for them.

        Where rows have an order, the answers have it too; where they have none, each answer stands beside its row.
        """

    def pushed(self, question: Question) -> Pushed | None:
        """The sums as the database itself adds them up; None where there is none that could."""
        del question
        return None

    def __repr__(self) -> str:
        return f"<{self.name}: {self.rows_named}>"


def added(parts: Iterator[Sum | None]) -> Sum | None:
    """The sum of all parts that there are, in their order."""
    total: Sum | None = None
    for part in parts:
        if part is not None:
            total = part if total is None else total + part
    return total


def thinned(table: pa.Table, rows: int) -> pa.Table:
    """So many of the rows, at even distances."""
    import numpy as np

    from deciban.sources.base import numbers

    if table.num_rows <= rows:
        return table
    return table.take(numbers(np.linspace(0, table.num_rows - 1, rows)))
