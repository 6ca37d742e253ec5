"""T(x) compiled to SQL: the database adds up, and only sums leave it.

One statement says all: numbers are summed by class in one scan, and counted by category in one more (GROUPING SETS
where there are any). To sum numbers once for every set of categories as well would be one scan of many times the work.

Moments are kept about a pivot that all classes share, which costs no more than the sums themselves. Where a class lies
so far from it that digits were lost, which the sums tell, the statement is run again with a pivot for each class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from deciban._typing import Floats
from deciban.dialects import SqlDialect
from deciban.engines.base import Pushed, Question
from deciban.engines.sql.answers import Answered
from deciban.engines.sql.expressions import (
    ROWS,
    as_exact_text,
    as_label,
    as_number,
    is_date,
    is_number,
    is_text,
    unreadable,
)
from deciban.errors import DecibanError
from deciban.measure import InSql, Measure
from deciban.reading.frames import unknown_column
from deciban.schema import Bins, Columns
from deciban.show import one_line, plain

Run: TypeAlias = Callable[[Sequence[str]], Iterable[Sequence[Any]]]  # statements → the rows of all of them

MOST_SUMS = 50_000  # in a question: with more of them, fetching rows is quicker than reading the statement
HEAD = (
    "part",
    "y",
    "gap",
    "a",
    "b",
)  # before the sums: of which part, class and categories, and whether rows have gaps
FIRST = 3  # of the sums of each part: rows, their weight, and rows without a proper weight
MOST_SETS = 250  # of columns that rows are counted by in one SELECT


@dataclass(frozen=True, slots=True)
class SumByClass:
    """One number to add up by class: where it belongs, the columns that it needs, and its sum in SQL."""

    block: int
    name: str  # of the measure; "low" and "high" are the least and the greatest, which only check
    place: tuple[int, ...]
    inputs: tuple[int, ...]
    expression: str


@dataclass(frozen=True, slots=True)
class CountByCategory:
    """Rows to count by class and category, or by the categories of a column and its parent."""

    block: int
    columns: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Pivots:
    """For each block that has some: one for all classes (1, d), or one for each and the last for others (k + 1, d)."""

    classes: tuple[Any, ...]
    blocks: tuple[Floats | None, ...]

    def of(self, block: int, classes: Sequence[Any]) -> Floats | None:
        """The pivots under which these classes were summed, (k, d)."""
        mine = self.blocks[block]
        place = {label: row for row, label in enumerate(self.classes)}
        return None if mine is None else mine[[place.get(label, -1) for label in classes]]


@dataclass(frozen=True)
class PushDown:
    """What a database is asked, and what its answer means.

    `source` is a table's quoted name or a SELECT in brackets, `schema` what is in it, `called` what a person calls it.
    """

    database: SqlDialect
    source: str
    schema: pa.Schema
    called: str = "the table"

    def expressible(self, question: Question) -> str | None:
        """Why the database cannot be asked this; None where it can."""
        target, sums = self.kind(question.target), 0
        if not (is_text(target) or is_number(target) or pa.types.is_boolean(target)):
            return f"labels of type {target} are read row by row"
        if question.weight is not None and (why := self._not_numbers(question.weight)):
            return why
        for columns, measures in blocks_of(question):
            if columns.names is None:
                return "the columns have no names"
            for j, name in enumerate(columns.names):
                if self.reading(question, columns, j) == "text":
                    if not is_text(self.kind(name)):
                        return f"column {one_line(name)!r} is of type {self.kind(name)}, and is to be read as texts"
                elif why := self._not_numbers(name):
                    return why
            if unknown := next((m for m in measures if not m.pushes_down), None):
                return f"no database adds up {type(unknown).__name__}"
            sums += sum(columns.size ** len(m.shapes(columns)[-1]) for m in measures)
        return f"the statement would have {sums:,} sums" if sums > MOST_SUMS else None

    def answer(self, question: Question, run: Run) -> Pushed:
        """The sums, as the database adds them up."""
        means = [middle(columns) for columns in question.schema.blocks]
        asked = Asked(self, question, Pivots((), tuple(means)))
        found = asked.read(run(asked.statements()))
        better = found.better_pivots()
        if better is not None:
            labels = found.classes.tolist()
            at = [i for i, y in enumerate(labels) if not isinstance(y, str) or self.database.text(y) is not None]
            classes = tuple(labels[i] for i in at)
            blocks = [
                None if p is None or m is None else np.vstack([p[at], m]) for p, m in zip(better, means, strict=True)
            ]
            asked = Asked(self, question, Pivots(classes, tuple(blocks)))
            found = asked.read(run(asked.statements()))
        return found.pushed()

    def kind(self, name: str) -> pa.DataType:
        if name not in self.schema.names:
            raise DecibanError(unknown_column(name, self.schema.names))
        return self.schema.field(name).type

    def reading(self, question: Question, columns: Columns, j: int) -> str:
        """How a column is read: "text", "boolean" or "number"."""
        assert columns.names is not None
        given, kind = question.kinds.get(columns.names[j], "category"), self.kind(columns.names[j])
        if columns.categories is None or isinstance(columns.categories[j], Bins):
            return "number"
        if given == "boolean" or (given == "category" and pa.types.is_boolean(kind)):
            return "boolean"
        return "number" if given in ("number", "date", "code") or is_number(kind) or is_date(kind) else "text"

    def _not_numbers(self, name: str) -> str | None:
        return unreadable(self.database, name, self.kind(name))


@dataclass(frozen=True)
class Asked:
    """A question under given pivots: its statements, and what their rows are."""

    about: PushDown
    question: Question
    pivots: Pivots

    # ------------------------------------------------------------------ what is asked

    @cached_property
    def inputs(self) -> list[tuple[int, int]]:
        """(block, column) of the columns whose numbers are summed."""
        blocks = enumerate(self.question.schema.blocks)
        return [(b, j) for b, columns in blocks if columns.categories is None for j in range(columns.size)]

    @cached_property
    def whole(self) -> list[int]:
        """The inputs that a row must have all of: otherwise it counts nowhere, and waits for EM."""
        laws = self.question.joint.blocks
        return [i for i, (b, _) in enumerate(self.inputs) if laws[b].family.whole_rows]

    @cached_property
    def parts(self) -> list[list[SumByClass]]:
        """The sums, in parts that are no wider than a result can be."""
        room = self.about.database.max_result_columns - len(HEAD) - FIRST - len(self.whole)
        sums = list(self._sums())
        return [sums[i : i + room] for i in range(0, len(sums), room)] or [[]]

    @cached_property
    def counts(self) -> list[CountByCategory]:
        """Pairs come first: where rows are counted by two columns, they are counted by the one as well."""
        blocks = enumerate(blocks_of(self.question))
        counts = [CountByCategory(b, by) for b, (_, measures) in blocks for m in measures for by in m.counted()]
        return sorted(counts, key=lambda one: -len(one.columns))

    def _sums(self) -> Iterator[SumByClass]:
        start = 0
        for b, (columns, measures) in enumerate(blocks_of(self.question)):
            if columns.categories is None:
                say = InSql(self._inputs_from(start), self.number, self.question.weight is not None)
                for m in measures:
                    for place, expression in m.in_sql(columns, say):
                        yield SumByClass(b, m.name, place, tuple(start + j for j in place), expression)
                if not any(m.degree > 1 for m in measures):  # squares tell by themselves what is infinite
                    for i in range(start, start + columns.size):
                        yield SumByClass(b, "low", (i - start,), (i,), f"MIN(x{i})")
                        yield SumByClass(b, "high", (i - start,), (i,), f"MAX(x{i})")
                start += columns.size

    def _inputs_from(self, start: int) -> Callable[[int], str]:
        """What the columns of a block are called whose first is that input."""
        return lambda j: f"x{start + j}"

    # ------------------------------------------------------------------ statements

    def statements(self) -> list[str]:
        """One; several where a database takes only so many SELECTs at once."""
        width = FIRST + max(map(len, self.parts))
        selects = [self._summed(p, part, width) for p, part in enumerate(self.parts)]
        step = MOST_SETS if self.about.database.grouping_sets else 1
        selects += [self._counted(self.counts[i : i + step], i, width) for i in range(0, len(self.counts), step)]
        most = self.about.database.max_selects
        return ["\nUNION ALL\n".join(selects[i : i + most]) for i in range(0, len(selects), most)]

    def _summed(self, part: int, sums: Sequence[SumByClass], width: int) -> str:
        """Sums of numbers, by class."""
        used = sorted({i for one in sums for i in one.inputs} | set(self.whole))
        nothing = self.empty("text")
        head = (str(part), "y", "gap" if self.whole else "0", nothing, nothing)
        weight = ("COUNT(*)", "0")
        if self.question.weight is not None:
            weight = ("SUM(w)", "SUM(CASE WHEN w IS NULL OR w < 0 THEN 1 ELSE 0 END)")
        said = ["COUNT(*)", *weight, *(one.expression for one in sums)]
        group = "y, gap" if self.whole else "y"
        return f"{self._selected(head, said, width)}\nFROM {self._rows(used, ())}\nGROUP BY {group}"

    def _counted(self, counts: Sequence[CountByCategory], first: int, width: int) -> str:
        """Rows by class and category. Of several sets of columns, GROUPING says which one a row is of."""
        ways = [" AND ".join(f"GROUPING({self._name(one.block, j)}) = 0" for j in one.columns) for one in counts]

        def which(each: Sequence[str], otherwise: str) -> str:
            if set(each) == {"NULL"}:
                return otherwise
            whens = (f"WHEN {way} THEN {said}" for way, said in zip(ways, each, strict=True))
            return f"CASE {' '.join(whens)} END" if len(each) > 1 else each[0]

        def value(place: int, text: bool) -> str:
            """The category of a column, or of its parent, where it is of that type."""
            own = [one.columns[place] if place < len(one.columns) else -1 for one in counts]
            each = [
                self._name(one.block, j) if j >= 0 and self._is_text(one.block, j) == text else "NULL"
                for one, j in zip(counts, own, strict=True)
            ]
            return which(each, self.empty("text" if text else "double"))

        part = which([str(len(self.parts) + first + i) for i in range(len(counts))], "")
        head = (part, "y", "0", value(0, True), value(1, True))
        weight = "COUNT(*)" if self.question.weight is None else "SUM(w)"
        used = sorted({(one.block, j) for one in counts for j in one.columns})
        sets = [f"(y, {', '.join(self._name(one.block, j) for j in one.columns)})" for one in counts]
        group = f"GROUPING SETS ({', '.join(sets)})" if len(sets) > 1 else sets[0][1:-1]
        kept = "y IS NOT NULL AND gap = 0" if self.whole else "y IS NOT NULL"
        rows = self._rows(self.whole, used)
        selected = self._selected(head, [weight, value(0, False), value(1, False)], width)
        return f"{selected}\nFROM {rows}\nWHERE {kept}\nGROUP BY {group}"

    def _selected(self, head: Sequence[str], said: Sequence[str], width: int) -> str:
        """A SELECT as wide as the others, all of whose columns after the first are doubles."""
        values = [self.about.database.as_double(one) for one in [*said, *["NULL"] * (width - len(said))]]
        named = [f"{one} AS {name}" for one, name in zip(head, HEAD, strict=True)]
        named += [f"{one} AS v{i}" for i, one in enumerate(values)]
        return f"SELECT {', '.join(named)}"

    def _rows(self, inputs: Sequence[int], categories: Sequence[tuple[int, int]]) -> str:
        """Rows as they are read, then numbers about their pivots, and whether one is missing that must not be."""
        database, question = self.about.database, self.question
        read = [(as_label(database, question.target, self.about.kind(question.target)), "y")]
        if question.weight is not None:
            read.append((self._number(question.weight), "w"))
        read += [(self._number(self._column(*self.inputs[i])), f"x{i}") for i in inputs]
        read += [(self._category(b, j), self._name(b, j)) for b, j in categories]
        moved = [f"{self._about_pivot(i)} AS x{i}" for i in inputs]
        moved += [self._name(b, j) for b, j in categories]
        if self.whole:
            missing = " OR ".join(f"x{i} IS NULL" for i in self.whole)
            moved.append(f"CASE WHEN {missing} THEN 1 ELSE 0 END AS gap")
        inner = ", ".join(f"{said} AS {name}" for said, name in read)
        rows = f"(SELECT {inner} FROM {self.about.source} AS {ROWS}) AS r"
        kept = ["y"] if question.weight is None else ["y", "w"]
        return f"(SELECT {', '.join([*kept, *moved])} FROM {rows}) AS s"

    def _about_pivot(self, i: int) -> str:
        b, j = self.inputs[i]
        pivots = self.pivots.blocks[b]
        if pivots is None:
            return f"x{i}"
        *each, last = (self.number(value) for value in pivots[:, j])
        if not each:
            return f"x{i} - {last}" if pivots[0, j] else f"x{i}"
        whens = " ".join(f"WHEN {self._label(c)} THEN {p}" for c, p in zip(self.pivots.classes, each, strict=True))
        return f"x{i} - CASE y {whens} ELSE {last} END"

    def _label(self, label: Any) -> str:
        value, database = plain(label), self.about.database
        if isinstance(value, str):
            return database.text(value) or "NULL"  # what cannot be written is not among the classes here
        return ("TRUE" if value else "FALSE") if isinstance(value, bool) and database.has_booleans else str(int(value))

    def _number(self, column: str) -> str:
        return as_number(self.about.database, column, self.about.kind(column))

    def _category(self, b: int, j: int) -> str:
        """A category as a text or a number, or the number of an interval; "" is one only where it is known as such."""
        known, name = (self.question.schema.blocks[b].categories or ())[j], self._column(b, j)
        if self._is_text(b, j):
            said = as_exact_text(self.about.database, name)
            return said if "" in known else f"NULLIF({said}, '')"
        x = self._number(name)
        if isinstance(known, Bins):
            whens = " ".join(f"WHEN {x} <= {self.number(cut)} THEN {i}" for i, cut in enumerate(known.cuts))
            return f"CASE WHEN {x} IS NULL THEN NULL {whens} ELSE {len(known.cuts)} END"
        return x

    def _column(self, b: int, j: int) -> str:
        return self.question.schema.blocks[b].name(j)

    def _name(self, b: int, j: int) -> str:
        return f"c{b}_{j}"

    def _is_text(self, b: int, j: int) -> bool:
        return self.about.reading(self.question, self.question.schema.blocks[b], j) == "text"

    def number(self, value: float) -> str:
        return self.about.database.constant(value)

    def empty(self, kind: str) -> str:
        """NULL of a type."""
        database = self.about.database
        return database.as_string("NULL") if kind == "text" else database.as_double("NULL")

    # ------------------------------------------------------------------ what is answered

    def read(self, rows: Iterable[Sequence[Any]]) -> Answered:
        """The rows of all statements, put where they belong."""
        blocks = enumerate(self.question.schema.blocks)
        truths = frozenset(
            (b, j)
            for b, columns in blocks
            for j in range(columns.size)
            if self.about.reading(self.question, columns, j) == "boolean"
        )
        target = self.about.kind(self.question.target)
        found = Answered(self.question, target, self.pivots.of, self.about.called, truths)
        for part, y, gap, a, b, *values in rows:
            at = int(part)
            if at < len(self.parts):
                found.add_rows(y, bool(gap), at == 0, values[:FIRST])
                if y is not None and not gap:
                    for mine, value in zip(self.parts[at], values[FIRST:], strict=False):
                        found.add_sum(y, mine.block, mine.name, mine.place, value)
                continue
            one = self.counts[at - len(self.parts)]
            each = (values[1] if a is None else a, values[2] if b is None else b)
            found.add_count(y, one.block, one.columns, each[: len(one.columns)], values[0])
        return found


def blocks_of(question: Question) -> Iterator[tuple[Columns, tuple[Measure, ...]]]:
    """Each block's columns, and T(x) over them."""
    for block, columns in zip(question.joint.blocks, question.schema.blocks, strict=True):
        yield columns, block.family.measures(columns)


def middle(columns: Columns) -> Floats | None:
    """The mean of the classes' pivots, (1, d)."""
    if columns.pivot is None:
        return None
    return columns.pivot.mean(axis=0, keepdims=True) if len(columns.pivot) else np.zeros((1, columns.size))
