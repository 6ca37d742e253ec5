"""Choose a model for the data, and make an unfitted estimator of it."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from deciban.errors import DecibanError, did_you_mean

if TYPE_CHECKING:
    from deciban._typing import Array
    from deciban.reading.kinds import ColumnKind, Conventions

SIMPLE_MODELS = ("naive-bayes", "tree")  # which read strings as categories
MODELS = ("auto", "classifier", "naive-bayes", "tree", "text", "spam")


def read_schema(given: list[str] | None, columns: tuple[str, ...]) -> dict[str, str]:
    """COLUMN=KIND as a mapping."""
    if not given:
        return {}
    from deciban.reading.frames import unknown_column
    from deciban.reading.kinds import Kind

    schema, kinds = {}, get_args(Kind)
    for item in given:
        column, equals, kind = item.rpartition("=")
        if not equals:
            raise DecibanError("--schema {value!r}: write COLUMN=KIND, as in --schema age=number", value=item)
        if column not in columns:
            problem = unknown_column(column, columns)
            raise DecibanError("--schema {value!r}: {problem}", value=item, column=column, problem=problem)
        if kind not in kinds:
            hint = did_you_mean(kind, kinds, f"choose one of {', '.join(kinds)}")
            raise DecibanError(
                "--schema {value!r}: there is no kind {kind!r}: {hint}", value=item, column=column, kind=kind, hint=hint
            )
        schema[column] = kind
    return schema


def choose_model(kind: str, X: Any, y: Array, schema: list[str] | None, conventions: Conventions | None = None) -> str:
    """The name of the model for these data: "spam", "text" or "classifier"."""
    if kind == "mail" and set(np.unique(y).tolist()) <= {"ham", "spam"}:
        return "spam"
    if kind != "table":
        return "text"
    kinds: list[str] = []
    for name in X.column_names:  # one by one, since most often the first two decide
        own_schema = [one for one in schema or [] if one.rpartition("=")[0] == name]
        kinds += [own.kind for own in used_kinds(X.select([name]), own_schema, conventions)]
        if len(kinds) > 1:
            break
    return "text" if kinds == ["text"] else "classifier"


def used_kinds(X: Any, schema: list[str] | None, conventions: Conventions | None = None) -> tuple[ColumnKind, ...]:
    """The columns that a model of the table would use, and the kind of each."""
    from deciban.reading.frames import read_frame
    from deciban.reading.kinds import UNKNOWN
    from deciban.reading.table import TableColumns

    return TableColumns.of(read_frame(X), read_schema(schema, tuple(X.column_names)), conventions or UNKNOWN).used


def only_text_column(X: Any, schema: list[str] | None) -> str:
    texts = [own.name for own in used_kinds(X, schema) if own.kind == "text"]
    if len(texts) != 1:
        found = f"{len(texts)} columns hold texts" if texts else "no column was detected as text"
        raise DecibanError(f"{found}: give the one to use with --text")
    return texts[0]


def new_estimator(
    model: str,
    schema: dict[str, str],
    jobs: int | None,
    conventions: Conventions | None = None,
    max_features: int | None = None,
) -> Any:
    """An unfitted estimator; `max_features` is for models of texts, None being their default."""
    if max_features is not None and model not in ("text", "spam"):
        raise DecibanError("--max-features is for models of texts: leave it out, or give --model text")
    limit: dict[str, Any] = {} if max_features is None else {"max_features": max_features}
    if schema and model in ("text", "spam"):
        raise DecibanError("--schema is for tables: leave it out, or give --model classifier")
    if conventions is not None and model in ("text", "spam"):
        raise DecibanError(
            "--decimal, --thousands, --day-first and --month-first are for tables: leave them out, or give --model "
            "classifier"
        )
    if model == "classifier":
        from deciban.estimators.tables import Classifier

        how = {} if conventions is None else asdict(conventions)
        return Classifier(schema=schema or None, n_jobs=jobs, **how)
    if model == "naive-bayes":
        from deciban.estimators.naive_bayes.mixed import NaiveBayes

        distributions = {"number": "gaussian", "count": "poisson", "category": "categorical", "boolean": "categorical"}
        unsupported = [kind for kind in schema.values() if kind not in (*distributions, "skip")]
        if unsupported:
            raise DecibanError(
                "--model naive-bayes has no distribution for the kind {value!r}: give {kinds} or skip",
                value=unsupported[0],
                kinds=", ".join(distributions),
            )
        return NaiveBayes({name: distributions.get(kind, "drop") for name, kind in schema.items()}, n_jobs=jobs)
    if model == "tree":
        if schema:
            raise DecibanError(
                "--model tree can only leave out columns of files (--schema COLUMN=skip): for other kinds, give "
                "--model classifier"
            )
        from deciban.estimators.naive_bayes.tree_augmented import TreeAugmentedNB

        return TreeAugmentedNB(n_jobs=jobs)
    if model == "spam":
        from deciban.estimators.spam import SpamFilter

        return SpamFilter(n_jobs=jobs, **limit)
    from deciban.estimators.text import TextClassifier

    return TextClassifier(n_jobs=jobs, **limit)
