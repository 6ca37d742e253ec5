"""Examples in a file that was sent: rows of CSV or JSON lines, mails, or one text.

The file is read as the command line reads files, from memory, and nothing is kept.
"""

from __future__ import annotations

import math
import os
from typing import Any

import pyarrow as pa

from deciban.errors import FileError
from deciban.server.model import ServedModel
from deciban.server.problems import RequestError
from deciban.show import plain
from deciban.sources.base import Source
from deciban.sources.input_file import InputFile, compression
from deciban.sources.mail import HEAD_BYTES, looks_like_mail
from deciban.sources.open import ENDINGS, detected_format, open_tables
from deciban.sources.texts import TextFile, as_text, text_source

TABLES = ("csv", "json")  # formats without compression, whose size in memory is that of the request
MAIL_ENDINGS = (".eml", ".mbox", ".mbx")
TEXT_ENDINGS = (".txt", ".text", ".md")
NAME = "the file"  # in messages
TEXT = "text"


def examples_in(data: bytes, name: str, model: ServedModel, most: int) -> dict[str, Any]:
    """The first examples of a file as requests have them, with labels if it has the column of labels."""
    if not data.strip():
        raise RequestError("the file is empty", code="empty")
    try:
        return in_format(data, os.path.splitext(name)[1].lower(), model, most)
    except pa.ArrowException as error:
        raise RequestError("the file cannot be read: {why}", why=str(error)[:200], code="bad_file") from None
    except FileError as error:
        raise RequestError("{text}", text=str(error), code="bad_file") from None


def in_format(data: bytes, ending: str, model: ServedModel, most: int) -> dict[str, Any]:
    file = InputFile.of_bytes(data, NAME)
    if ending in MAIL_ENDINGS or (ending not in (*ENDINGS, *TEXT_ENDINGS) and looks_like_mail(data[:HEAD_BYTES])):
        return of_mails(text_source(NAME, [TextFile(file, "mail")], "utf-8"), most)
    if ending in TEXT_ENDINGS or (ending not in ENDINGS and model.takes != "rows"):
        return document([{"text": as_text(data, NAME, 1).removeprefix("\ufeff")}], most)
    form = ENDINGS.get(ending) or detected_format(file)
    if form not in TABLES or compression(data[:4]) is not None:
        raise RequestError(
            "the file is neither CSV nor JSON lines nor mail nor text: convert it first, for example to CSV",
            status=415,
            code="bad_file",
        )
    strings = dict.fromkeys([*written_by(model), *origin_of(model).get("formats", {})], pa.string())
    source = open_tables(NAME, form, [file], None, "utf-8", None, strings if form == "csv" else {}, None, None, None)
    return of_table(source, model, most)


def origin_of(model: ServedModel) -> dict[str, Any]:
    return model.scorer.origin_ or {}


def written_by(model: ServedModel) -> tuple[str, ...]:
    """The columns whose strings the model itself reads as numbers or dates."""
    return tuple(model.scorer.model.reader.written) if model.kind == "Classifier" else ()


def of_mails(source: Source, most: int) -> dict[str, Any]:
    texts = source.head(most + 1)["text"].to_pylist()
    return document([{"message": text} for text in texts], most)


def of_table(source: Source, model: ServedModel, most: int) -> dict[str, Any]:
    """Rows of a table: the columns that the model has, and the column of labels."""
    table = source.head(most + 1)
    target = origin_of(model).get("target")
    labels = [None] * table.num_rows
    if target in table.column_names:
        labels = [as_label(value) for value in table[target].to_pylist()]
    if model.takes == "rows":
        known = [name for name in table.column_names if name in model._names]
        if not known:
            raise RequestError(
                "the file has none of the model's columns: it has {given}, the model {columns}",
                given=", ".join(table.column_names[:20]),
                columns=", ".join(model._names[:20]),
                code="columns",
            )
        rows: list[dict[str, Any]] = [
            {"row": {name: as_value(row[name]) for name in known}} for row in table.select(known).to_pylist()
        ]
    else:
        known = [text_column(table, model)]
        kind = "text" if model.takes == "texts" else "message"
        rows = [{kind: str(value or "")} for value in table[known[0]].to_pylist()]
    ignored = [name for name in table.column_names if name not in known and name != target]
    examples = [row if label is None else row | {"label": label} for row, label in zip(rows, labels, strict=True)]
    return document(examples, most, ignored)


def text_column(table: pa.Table, model: ServedModel) -> str:
    """The column of texts: the one that the model was trained on, `text`, or the only one of strings."""
    names, trained = table.column_names, origin_of(model).get("text")
    strings = [
        name for name in names if is_string(table.schema.field(name).type) and name != origin_of(model).get("target")
    ]
    for name in (trained, TEXT, strings[0] if len(strings) == 1 else None):
        if name in names:
            return str(name)
    raise RequestError(
        "which column of the file has the texts? Call it {wanted!r}; there are {columns}",
        wanted=trained or TEXT,
        columns=", ".join(names[:20]),
        code="columns",
    )


def is_string(kind: pa.DataType) -> bool:
    inner = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(inner))


def as_value(value: Any) -> Any:
    """A cell as JSON has it: dates are strings, and whole numbers have no fraction."""
    value = plain(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        return int(value) if value.is_integer() and abs(value) < 1 << 53 else value
    return value if isinstance(value, str | bool | int | None) else str(value)


def as_label(value: Any) -> Any:
    value = as_value(value)
    return str(value) if isinstance(value, float) else None if value == "" else value


def document(examples: list[dict[str, Any]], most: int, ignored: list[str] | None = None) -> dict[str, Any]:
    if not examples:
        raise RequestError("the file has no rows", code="empty")
    return {"examples": examples[:most], "more": len(examples) > most, "ignored": ignored or []}
