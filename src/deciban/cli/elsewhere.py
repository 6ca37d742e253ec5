"""Training where the data are: in a database, on a cluster, or from files with a checkpoint."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from deciban.errors import DecibanError
from deciban.show import visible

ENGINES = ("stream", "duckdb", "sql", "dask", "spark")
CLUSTERS = ("duckdb", "dask", "spark")  # who reads files in their own way


@dataclass(frozen=True)
class Where:
    """What the command line says about where rows are."""

    engine: str | None = None
    table: str | None = None
    query: str | None = None
    checkpoint: str | None = None

    def asked(self, data: list[str]) -> bool:
        """Whether rows are anywhere but in files that are read here."""
        return any((self.engine, self.table, self.query, self.checkpoint)) or any("://" in path for path in data)

    def open(self, data: list[str], jobs: int | None, **how: Any) -> Any:
        """The engine, with its rows."""
        if self.engine is not None and self.engine not in ENGINES:
            raise DecibanError(f"--engine {visible(self.engine)} is not known: it is one of {', '.join(ENGINES)}")
        urls = [path for path in data if "://" in path]
        if self.engine == "sql" or (urls and self.engine not in CLUSTERS):  # which read from s3:// and the like
            return self._database(data, urls)
        if self.table is not None or self.query is not None:
            raise DecibanError("--table and --query are for databases: give a URL of one, and no --engine")
        if self.checkpoint is not None and self.engine not in (None, "stream"):
            raise DecibanError(f"--checkpoint is for --engine stream: {self.engine} tries lost partitions again itself")
        if self.engine in (None, "stream"):
            from deciban.engines.stream import stream

            return stream(data, checkpoint=self.checkpoint, n_jobs=jobs, **how)
        told = [f"--{name}" for name, value in how.items() if value not in (None, "utf-8")]
        if told:
            raise DecibanError(f"{told[0]} is for files that are read here: leave it out, or leave out --engine")
        from deciban.engines.dispatch import engine_of

        if self.engine == "dask":
            join_cluster()
        return engine_of(data, engine=self.engine)

    def _database(self, data: list[str], urls: list[str]) -> Any:
        if len(data) != 1 or not urls:
            raise DecibanError("--engine sql takes one database, as a URL such as postgresql://host/name")
        if self.engine not in (None, "sql") or self.checkpoint is not None:
            raise DecibanError("a database adds up by itself: leave out --engine and --checkpoint")
        if (self.table is None) == (self.query is None):
            raise DecibanError("which rows of the database? Give --table NAME, or --query 'SELECT …'")
        from deciban.engines.sql.engine import table

        name: Any = None if self.table is None else tuple(self.table.split("."))
        return table(data[0], name, query=self.query)


def join_cluster() -> None:
    """The cluster that DASK_SCHEDULER_ADDRESS names, if it does; otherwise threads of this process do."""
    address = os.environ.get("DASK_SCHEDULER_ADDRESS")
    if not address:
        return
    from distributed import Client

    try:
        Client(address)  # type: ignore[no-untyped-call,unused-ignore]  # from here on, all is computed there
    except (OSError, ValueError) as error:
        raise DecibanError(f"there is no Dask scheduler at {visible(address)}: {error}") from None
