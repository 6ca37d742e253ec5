"""Which engine rows belong to, by their type; no optional package is imported to find out."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator, Sequence
from functools import partial
from types import FunctionType, MethodType
from typing import Any

from deciban.errors import DecibanError, did_you_mean

ENGINES = ("local", "stream", "duckdb", "sql", "dask", "spark")
ENGINE_MODULES = {"stream": "stream", "duckdb": "sql.duckdb", "dask": "dask.engine", "spark": "spark.engine"}
ENGINE_OF_PACKAGE = {  # by the package of their tables
    "dask": "dask",
    "dask_expr": "dask",
    "duckdb": "duckdb",
    "_duckdb": "duckdb",
    "pyspark": "spark",
}
IN_MEMORY = ("numpy", "scipy", "pandas")  # packages whose tables never need an engine
ARROW_READERS = ("RecordBatchReader", "RecordBatchFileReader", "RecordBatchStreamReader", "Scanner")


def engine_of(
    X: Any, y: Any = None, engine: str | None = None, texts: bool = False, strings: Sequence[str] = ()
) -> Any:
    """The engine for these rows; None if they are in memory, as arrays and frames are.

    Strings are paths unless they may be something else: for a model of `texts`, they may be texts. `strings` are the
    columns of files that are to be read as strings, since the model knows how they write numbers.
    """
    if engine is None and type(X).__module__.partition(".")[0] in IN_MEMORY and not isinstance(X, str):
        return None
    if engine is not None and engine not in ENGINES:
        known = f"it must be one of {', '.join(map(repr, ENGINES))}"
        raise DecibanError("engine is {value!r}: {hint}", value=engine, hint=did_you_mean(engine, ENGINES, known))
    if is_engine(X):
        if engine not in (None, X.name):
            raise DecibanError(f"the rows belong to the engine {X.name!r}, not {engine!r}: leave out engine=")
        return X
    name = engine or engine_name(X, y, texts)
    if name in (None, "local"):
        return None
    if name == "sql":
        raise DecibanError("a database connection needs a table: pass deciban.table(connection, name)")
    module = importlib.import_module(f"deciban.engines.{ENGINE_MODULES[name]}")
    if name == "stream":
        return module.stream(X, **({"strings": tuple(strings)} if strings and is_paths(X) else {}))
    if is_paths(X):
        return module.from_paths([os.fspath(path) for path in ([X] if isinstance(X, str | os.PathLike) else X)])
    if name == "dask":
        return module.Dask(X, None if isinstance(y, str) else y)
    return module.DuckDB(X) if name == "duckdb" else module.Spark(X)


def is_engine(X: Any) -> bool:
    """Whether these rows already are an engine."""
    if not type(X).__module__.startswith("deciban.engines."):
        return False
    from deciban.engines.base import Engine

    return isinstance(X, Engine)


def engine_name(X: Any, y: Any, texts: bool) -> str | None:
    """The name of the engine for the type of X."""
    module, name = type(X).__module__, type(X).__name__
    package = module.partition(".")[0]
    if package in ENGINE_OF_PACKAGE:
        return ENGINE_OF_PACKAGE[package]
    if isinstance(X, os.PathLike) or module.startswith("deciban.sources."):
        return "stream"
    labels_in_rows = isinstance(y, str) or (y is None and not texts)
    if labels_in_rows and (isinstance(X, Iterator) or is_paths(X)):
        return "stream"
    if isinstance(X, FunctionType | MethodType | partial):
        return "stream"
    if package == "pyarrow":
        return "stream" if name in ARROW_READERS or (hasattr(X, "to_batches") and hasattr(X, "scanner")) else None
    return None


def is_paths(X: Any) -> bool:
    if isinstance(X, str | os.PathLike):
        return True
    return isinstance(X, list | tuple) and bool(X) and all(isinstance(one, str | os.PathLike) for one in X)
