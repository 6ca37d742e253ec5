"""Options for where rows are: in files, in a database, on a cluster."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deciban.cli.options import check_choice
from deciban.errors import DecibanError
from deciban.show import visible

if TYPE_CHECKING:
    from deciban.engines.base import Engine
    from deciban.engines.stream import Stream
    from deciban.reading.kinds import Conventions

ENGINES = ("stream", "duckdb", "sql", "dask", "spark")
OWN_READERS = ("duckdb", "dask", "spark")  # engines that read files themselves


@dataclass(frozen=True)
class FileOptions:
    """How files are to be read."""

    format: str | None = None
    delimiter: str | None = None
    encoding: str = "utf-8"
    missing: Sequence[str] | None = None
    header: bool | None = None
    sheet: str | None = None
    decimal: str | None = None
    thousands: str | None = None
    day_first: bool | None = None

    def keywords(self) -> dict[str, Any]:
        """Keyword arguments of `deciban.sources.open_source`."""
        own = {name: value for name, value in vars(self).items() if name not in ("thousands", "day_first")}
        return {**own, "missing": self.missing or None}

    @property
    def conventions(self) -> Conventions | None:
        """How strings write numbers and dates, as far as options define it; otherwise None."""
        given = (self.decimal, self.thousands, self.day_first)
        if given == (None, None, None):
            return None
        from deciban.reading.kinds import Conventions

        return Conventions(*given)

    @property
    def given(self) -> list[str]:
        """The options that were given, as the user writes them."""
        spelled = {"header": "no-header"} if self.header is False else {}
        spelled |= {"day_first": "month-first" if self.day_first is False else "day-first"}
        return [
            f"--{spelled.get(name, name)}"
            for name, value in vars(self).items()
            if value not in (None, []) and (name, value) != ("encoding", "utf-8")
        ]

    def open(
        self,
        paths: Sequence[str],
        jobs: int | None = None,
        checkpoint: str | None = None,
        strings: Sequence[str] = (),
        text_columns: Sequence[str] = (),
    ) -> Stream:
        """An engine over the rows of files; `strings` are columns that a model reads as strings, and `text_columns`
        those in which a model of texts looks for them."""
        from deciban.engines.stream import stream

        conventions = self.conventions
        engine = stream(
            list(paths),
            checkpoint=checkpoint,
            n_jobs=jobs,
            **self.keywords(),
            strings=tuple(strings) or None,
            text_columns=text_columns,
        )
        engine.conventions = conventions
        return engine


@dataclass(frozen=True)
class EngineOptions:
    """Which engine adds up, and which rows."""

    engine: str | None = None
    table: str | None = None
    query: str | None = None
    checkpoint: str | None = None

    def any_given(self, data: list[str]) -> bool:
        """Whether any option or URL asks for more than reading files in the default way."""
        return any((self.engine, self.table, self.query, self.checkpoint)) or any("://" in path for path in data)

    def open(self, data: list[str], jobs: int | None, files: FileOptions, strings: Sequence[str] = ()) -> Engine:
        """The engine, with its rows; `strings` are columns that a model reads as strings."""
        if self.engine is not None:
            check_choice("--engine", self.engine, ENGINES)
        urls = [path for path in data if "://" in path]
        if self.engine == "sql" or (urls and self.engine not in OWN_READERS):  # which read from s3:// and similar
            check_read_here(files)
            return self._database(data, urls)
        if self.table is not None or self.query is not None:
            raise DecibanError("--table and --query are for databases: give a database URL, and leave out --engine")
        if self.checkpoint is not None and self.engine not in (None, "stream"):
            raise DecibanError(
                f"--checkpoint is for --engine stream: leave it out, since {self.engine} runs lost partitions again"
            )
        if self.engine in (None, "stream"):
            return files.open(data, jobs, self.checkpoint, strings)
        check_read_here(files)
        from deciban.engines.dispatch import engine_of

        if self.engine == "dask":
            join_cluster()
        opened: Engine = engine_of(data, engine=self.engine)
        return opened

    def _database(self, data: list[str], urls: list[str]) -> Engine:
        if len(data) != 1 or not urls:
            raise DecibanError("--engine sql needs one database, as a URL such as postgresql://host/name")
        if self.engine not in (None, "sql") or self.checkpoint is not None:
            raise DecibanError("a database computes the sums itself: leave out --engine and --checkpoint")
        if (self.table is None) == (self.query is None):
            raise DecibanError("the database needs a table or a query: give --table NAME or --query 'SELECT …'")
        from deciban.engines.sql.engine import table

        name: Any = None if self.table is None else tuple(self.table.split("."))
        return table(data[0], name, query=self.query)


def check_read_here(files: FileOptions) -> None:
    """Refuse options for files if a database or a cluster reads the rows."""
    if files.given:
        raise DecibanError("{option} is for files read by deciban itself: leave it out", option=files.given[0])


def join_cluster() -> None:
    """Connect to the scheduler in DASK_SCHEDULER_ADDRESS, if set; otherwise Dask uses threads of this process."""
    address = os.environ.get("DASK_SCHEDULER_ADDRESS")
    if not address:
        return
    from distributed import Client

    try:
        Client(address)  # type: ignore[no-untyped-call,unused-ignore]  # becomes the default for all computations
    except (OSError, ValueError) as error:
        raise DecibanError(
            "cannot reach a Dask scheduler at {file}, the address in DASK_SCHEDULER_ADDRESS: {problem}",
            file=visible(address),
            problem=error,
        ) from None
