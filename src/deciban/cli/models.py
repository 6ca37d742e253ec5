"""Model files for commands: loaded to predict with, or to learn more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from deciban.cli.engines import FileOptions
from deciban.cli.rows import LABEL, TEXT, ModelRows, split_columns
from deciban.cli.terminal import int_if_whole, note
from deciban.errors import DecibanError, did_you_mean
from deciban.show import plain

if TYPE_CHECKING:
    from deciban.reading.convert import Format

TEXT_MODELS = ("TextClassifier", "SpamFilter")


def open_model(path: str) -> Any:
    """A model to predict with, loaded without importing scikit-learn."""
    from deciban import scorer

    return scorer.read(path)


def kind_of(model: Any) -> str:
    """The name of the estimator that a model is, or was saved from."""
    return str(getattr(model, "name", None) or type(model).__name__)


def origin_of(model: Any) -> dict[str, Any]:
    return dict(model.origin_ or {})


def rows_learned(model: Any) -> float | int:
    """How many rows a model has learned: a whole number, unless some count in part."""
    return int_if_whole(model.class_count_.sum())


def rows_for(
    model: Any, paths: list[str], files: FileOptions, target: str | None = None, labelled: bool = True
) -> ModelRows:
    """The columns of files that a model uses; labels come from its training target unless another is named."""
    origin = origin_of(model)
    of_texts, text = kind_of(model) in TEXT_MODELS, None
    text_columns = (origin.get("text") or TEXT, TEXT) if of_texts and not labelled else ()
    strings = [*written_columns(model), *origin.get("formats", {})]
    engine = files.open(paths, strings=strings, text_columns=text_columns)
    columns, kind = engine.schema.names, engine.source.kind
    if of_texts:
        text = origin.get("text") or TEXT
        if text not in columns and TEXT in columns and kind != "table":
            text = TEXT
        if text not in columns and len(columns) == 1:
            text = columns[0]
        if text not in columns:
            raise DecibanError(
                "{file} has no column {column!r}, in which the model looks for texts, but {columns}: rename one, or "
                "give --format lines if each line is a text",
                file=engine.rows_named,
                column=text,
                columns=", ".join(map(repr, columns[:10])) + (", …" if len(columns) > 10 else ""),
            )
    if not labelled:
        target_column = target or origin.get("target")
        target_column = target_column if target_column in columns else None
        return split_columns(engine, target_column, text, labelled=False, formats=origin.get("formats"))
    target = target or (LABEL if kind != "table" else None) or origin.get("target")
    if target is None:
        raise DecibanError("give the column of {rows} that holds the classes with --target", rows=engine.rows_named)
    return split_columns(engine, target, text, model.classes_, formats=origin.get("formats"))


def written_columns(model: Any) -> tuple[str, ...]:
    """The columns whose strings the model itself reads as numbers or dates."""
    reader = getattr(getattr(model, "model", None) or getattr(model, "model_", None), "reader", None)
    return () if reader is None else reader.written


def formats_of(model: Any) -> dict[str, Format]:
    """How columns write numbers and dates, if they are not plain: from the model itself, or from its origin."""
    from deciban.reading.convert import format_from_dict

    table: Any = getattr(model, "model", None) or getattr(model, "model_", None)
    own = {kind.name: kind.format for kind in table.reader.used if kind.format} if hasattr(table, "reader") else {}
    return own | {name: format_from_dict(about) for name, about in origin_of(model).get("formats", {}).items()}


def learned_before(model: Any, rows: ModelRows) -> bool:
    """Whether the model has learned these files, by their digests; False for a pipe.

    Files too large for memory are read once more for this, before any row is evaluated. A model that lists no learned
    file needs no such pass.
    """
    origin = origin_of(model)
    if rows.engine.once or not (origin.get("learned") or origin.get("partly")):
        return False
    digests = set(rows.digests())
    if caution := forgotten_in_part(model, rows):
        note("note", caution)
    known = digests & set(origin.get("learned", []))
    if known and known != digests:
        raise DecibanError(
            f"the model has learned {len(known)} of these {len(digests)} files but not the others: give them one by "
            "one, or add --leave-one-out or --as-new"
        )
    return bool(known)


def forgotten_in_part(model: Any, rows: ModelRows) -> str:
    """A note on files that the model has learned and partly forgotten; empty for others."""
    partly = set(origin_of(model).get("partly", []))
    if rows.engine.once or not partly or not partly & set(rows.digests()):
        return ""
    return (
        f"the model has learned {rows.name} and forgotten some of its rows since, so all rows are treated as new and "
        "the figures are too optimistic: evaluate on other rows, or train again"
    )


def class_of(model: Any, label: str) -> Any:
    """A class by how it is spelled."""
    for known in map(plain, model.classes_):
        if str(known) == label or (isinstance(known, bool) and str(known).lower() == label.lower()):
            return known
    classes = [str(plain(known)) for known in model.classes_]
    listed = ", ".join(classes[:20]) + (f" and {len(classes) - 20} more" if len(classes) > 20 else "")
    raise DecibanError(
        "there is no class {value!r}: {hint}",
        value=label,
        hint=did_you_mean(label, classes, f"the classes are {listed}"),
    )


def columns_of(model: Any) -> dict[str, str | None]:
    """The columns that a model of a table uses, and their kinds; None if the model has no kinds."""
    table: Any = getattr(model, "model", None) or getattr(model, "model_", None)
    if hasattr(table, "reader"):
        return {kind.name: kind.kind for kind in table.reader.used}
    reader: Any = getattr(model, "reader", None)
    if hasattr(reader, "features"):
        return dict(reader.features)
    names: Any = getattr(model, "names", None) or getattr(model, "feature_names_in_", ())
    return dict.fromkeys(map(str, names))


def categories_of(model: Any) -> dict[str, list[str]]:
    """The categories that a `Classifier` has learned, by column."""
    encoding: Any = getattr(model.model, "encoding", None)
    if encoding is None:
        return {}
    coded = zip(encoding.names, encoding.columns, strict=True)
    return {name: list(map(str, column.levels)) for name, column in coded if hasattr(column, "levels")}
