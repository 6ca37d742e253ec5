"""Where examples, the log, sums and tokens are stored: an SQLite file, or a PostgreSQL database by URL."""

from __future__ import annotations

import os

from deciban.errors import DecibanError
from deciban.server.store.base import Store

POSTGRESQL = ("postgresql://", "postgres://")
SQLITE = "sqlite:///"


def open_store(url: str, *, existing: bool = False) -> Store:
    """The store at a URL; a path without a scheme is an SQLite file, which is created unless it must exist."""
    if url.startswith(POSTGRESQL):
        from deciban.server.store.postgresql import PostgresStore

        return PostgresStore(url)
    if "://" in url and not url.startswith(SQLITE):
        raise DecibanError(
            "--store {value!r}: give a path, sqlite:///PATH or postgresql://…", value=without_secret(url)
        )
    from deciban.server.store.sqlite import SqliteStore

    path = url.removeprefix(SQLITE)
    if existing and not os.path.exists(path):
        raise DecibanError("there is no store {value!r}: name the server's with --store or --config", value=path)
    return SqliteStore(path)


def without_secret(url: str) -> str:
    """A URL that is safe to display: without user, password and parameters, which may hold one too."""
    scheme, separator, rest = url.partition("://")
    if not separator:
        return url
    address = rest.partition("?")[0]
    return f"{scheme}://{address.rpartition('@')[2]}"
