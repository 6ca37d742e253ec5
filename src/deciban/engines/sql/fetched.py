"""Rows fetched from a database: table by table; threads work on them while the next are fetched."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Generator, Iterator, Sequence
from typing import Any

import pyarrow as pa

from deciban.engines.base import Answer, Engine, PushedSums, Question, Sum, Watch, Work, sum_of_parts
from deciban.engines.sql.push_down import PushDown
from deciban.engines.stream import Place, Worker, error_at
from deciban.errors import DecibanError
from deciban.results.answers import PREDICTION, proba_column
from deciban.show import one_line

TABLE_ROWS = 1 << 16  # rows of a table
OVERSAMPLING = 8  # rows are sampled in runs: this many times as many are drawn and then thinned, to spread them


class Fetched(Engine):
    """A table or a SELECT of a database."""

    workers = 1  # threads that sum
    unit = "rows"

    @abstractmethod
    def tables(self) -> Generator[pa.Table, None, None]:
        """All rows, each table with exactly the schema."""

    @abstractmethod
    def _run(self, statements: Sequence[str]) -> list[tuple[Any, ...]]:
        """The rows of several statements, which must see the same data."""

    @abstractmethod
    def _push_down(self) -> PushDown: ...

    def collect(self, work: Work[Sum], watch: Watch | None = None) -> Sum | None:
        workers, done, reading = [Worker(work) for _ in range(self.workers)], 0, self.tables()
        try:
            for number, table in enumerate(reading):
                workers[number % len(workers)].give(table, Place(self.rows_named))
                done += table.num_rows
                if watch is not None:
                    watch(done)
            return sum_of_parts(worker.end() for worker in workers)
        finally:
            reading.close()
            for worker in workers:
                worker.stop()

    def pushed(self, question: Question) -> PushedSums | None:
        push_down = self._push_down()
        return None if push_down.expressible(question) else push_down.answer(question, self._run)

    def _kept(self, by: Any, keep: Sequence[str] | None) -> list[str]:
        """The rows' columns to return with a model's answers: those given, or all; names must not clash."""
        kept = list(self.schema.names if keep is None else keep)
        answers = {PREDICTION, *(proba_column(label).lower() for label in by.classes_)}
        taken = [name for name in kept if name.lower() in answers]
        if taken:
            raise DecibanError(
                f"{self.rows_named} has a column {one_line(taken[0])!r}, and so does the result: choose the columns "
                f"to return with keep=, or rename it in a query"
            )
        return kept

    def batches(self) -> Iterator[pa.Table]:
        """All rows, a table at a time."""
        return self.tables()

    def to_arrow(self) -> pa.Table:
        """All rows at once."""
        return pa.concat_tables([self.schema.empty_table(), *self.tables()])

    def _beside(self, answer: Answer, fields: pa.Schema) -> Generator[pa.Table, None, None]:
        """Tables of rows with their answers."""
        reading = self.tables()
        try:
            for table in reading:
                try:
                    answers = answer(table)
                except Exception as error:
                    raise error_at(error, Place(self.rows_named)) from None
                for field in fields:
                    table = table.append_column(field, answers[field.name].cast(field.type))
                yield table
        finally:
            reading.close()

    def _with_answers(self, fields: pa.Schema) -> pa.Schema:
        """The columns of rows and answers; names must not clash."""
        for name in fields.names:
            if name in self.schema.names:
                raise DecibanError(
                    f"{self.rows_named} has a column {one_line(name)!r} already, and so does the result: leave the "
                    f"column out, or rename it"
                )
        return pa.schema([*self.schema, *fields])

    def __reduce__(self) -> Any:
        raise TypeError(f"{self!r} holds a connection to a database, which cannot be sent to another process")
