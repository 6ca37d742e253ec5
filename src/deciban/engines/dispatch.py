"""Which engine rows belong to, judged by what they are; nothing is imported to find out."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from functools import partial
from types import FunctionType, MethodType
from typing import Any

from deciban.errors import DecibanError

ENGINES = ("local", "stream", "duckdb", "sql", "dask", "spark")
MODULES = {"stream": "stream", "duckdb": "sql.duckdb", "dask": "dask.engine", "spark": "spark.engine"}
FRAMES = {  # packages whose tables they are
    "dask": "dask",
    "dask_expr": "dask",
    "duckdb": "duckdb",
    "_duckdb": "duckdb",
    "pyspark": "spark",
}
READERS = ("RecordBatchReader", "RecordBatchFileReader", "RecordBatchStreamReader", "Scanner")


def engine_of(X: Any, y: Any = None, engine: str | None = None, texts: bool = False) -> Any:
    """The engine for these rows; None where they are in memory, as arrays and frames are.

    Strings are paths where nothing else makes sense of them: for a model of `texts`, they may be texts.
    """
    if engine is not None and engine not in ENGINES:
        raise DecibanError(f"engine is {engine!r}: it must be one of {', '.join(map(repr, ENGINES))}")
    if is_engine(X):
        if engine not in (None, X.name):
            raise DecibanError(f"these rows are of the engine {X.name!r}, not {engine!r}: leave out engine=")
        return X
    found = engine or named(X, y, texts)
    if found in (None, "local"):
        return None
    if found == "sql":
        raise DecibanError("which table of the database? Give deciban.table(connection, name), or a URL in its place")
    module = importlib.import_module(f"deciban.engines.{MODULES[found]}")
    if found == "stream":
        return module.stream(X)
    if is_paths(X):
        return module.from_paths([os.fspath(path) for path in ([X] if isinstance(X, str | os.PathLike) else X)])
    if found == "dask":
        return module.Dask(X, None if isinstance(y, str) else y)
    return module.DuckDB(X) if found == "duckdb" else module.Spark(X)


def is_engine(X: Any) -> bool:
    """Whether these rows have said already where they are."""
    if not type(X).__module__.startswith("deciban.engines."):
        return False
    from deciban.engines.base import Engine

    return isinstance(X, Engine)


def named(X: Any, y: Any, texts: bool) -> str | None:
    """The engine that X is for by its type."""
    module, name = type(X).__module__, type(X).__name__
    package = module.partition(".")[0]
    if package in FRAMES:
        return FRAMES[package]
    if isinstance(X, os.PathLike) or module.startswith("deciban.sources."):
        return "stream"
    labels_elsewhere = isinstance(y, str) or (y is None and not texts)
    if labels_elsewhere and (isinstance(X, Iterator) or is_paths(X)):
        return "stream"
    if isinstance(X, FunctionType | MethodType | partial):
        return "stream"
    if package == "pyarrow":
        return "stream" if name in READERS or (hasattr(X, "to_batches") and hasattr(X, "scanner")) else None
    return None


def is_paths(X: Any) -> bool:
    if isinstance(X, str | os.PathLike):
        return True
    return isinstance(X, list | tuple) and bool(X) and all(isinstance(one, str | os.PathLike) for one in X)
