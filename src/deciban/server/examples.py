"""Examples in requests: checked, and converted to what a model reads.

An example is {"text": …}, {"row": {column: value}} or {"message": raw mail}, with an id; to be learned, it needs a
label. A request has one example, or a list of them under "examples".
"""

from __future__ import annotations

import base64
import binascii
import math
import secrets
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from deciban.server.problems import RequestError
from deciban.text import mail

MAX_ID_CHARACTERS = 200
KINDS = ("text", "row", "message", "message_base64")
FIELDS = {"id", "label", "new_class", *KINDS}
VALUES = (str, bool, int, float, type(None))
MAX_INTEGER = 1 << 63


@dataclass(frozen=True, slots=True)
class Example:
    """One example: its id (given or generated), its content (None: only the id was given), and its label, if any."""

    id: str
    content: dict[str, Any] | None
    label: Any = None
    new_class: bool = False
    given_id: bool = True
    recent: dict[str, Any] | None = None  # content recently classified under this id


def examples_of(body: Any, most: int, *, label: str = "never", content: str = "always") -> list[Example]:
    """The examples of a request; `label` and `content` are present "always", "maybe" or "never"."""
    if not isinstance(body, dict):
        raise RequestError('the request must be a JSON object: one example, or {"examples": […]}')
    if "examples" not in body:
        return [example_of(body, 0, label, content)]
    if beside := sorted(set(body) - OPTIONS - {"examples"}):
        raise RequestError(
            '{value!r} cannot be next to "examples": give it in each example that it is for', value=beside[0]
        )
    given = body["examples"]
    if not isinstance(given, list):
        raise RequestError('"examples" must be a list')
    if not given:
        raise RequestError('"examples" is empty: send at least one', code="empty")
    if len(given) > most:
        raise RequestError(
            "the request has {given:,} examples; the limit is {most:,}: send several requests",
            status=413,
            code="too_many",
            given=len(given),
            most=most,
        )
    examples = [example_of(one, row, label, content) for row, one in enumerate(given)]
    seen: set[str] = set()
    for row, example in enumerate(examples):
        if example.id in seen:
            raise RequestError(
                "example {row} has the same id {value!r} as another in the request", row=row, value=example.id
            )
        seen.add(example.id)
    return examples


def example_of(given: Any, row: int, label: str, content: str) -> Example:
    if not isinstance(given, dict):
        raise RequestError("example {row} must be a JSON object", row=row)
    unknown = sorted(set(given) - FIELDS - OPTIONS)
    if unknown:
        near = get_close_matches(unknown[0], [*FIELDS, *OPTIONS], 1)
        hint = f": did you mean {near[0]!r}?" if near else ""
        raise RequestError("example {row} has an unknown field {value!r}{hint}", row=row, value=unknown[0], hint=hint)
    if label == "always" and given.get("label") is None:
        raise RequestError("example {row} has no label", row=row, code="no_label")
    if label == "never" and "label" in given:
        raise RequestError("example {row} has a label, which is not used here: leave it out", row=row)
    wanted = given.get("label")
    if not isinstance(wanted, str | bool | int | None):
        raise RequestError("the label of example {row} must be a string, a whole number or a boolean", row=row)
    if isinstance(wanted, str) and not wanted:
        raise RequestError("the label of example {row} is empty", row=row)
    if isinstance(wanted, int) and abs(wanted) >= MAX_INTEGER:
        raise RequestError("the label of example {row} is too large", row=row)
    new_class = given.get("new_class", False)
    if not isinstance(new_class, bool):
        raise RequestError('"new_class" of example {row} must be true or false', row=row)
    id_, what = id_of(given, row), content_of(given, row)
    if what is None and (content == "always" or id_ is None):
        needed = "a text, a row or a message" + ("" if content == "always" else ", or an id")
        raise RequestError("example {row} needs {needed}", row=row, needed=needed, code="no_content")
    return Example(id_ or secrets.token_hex(16), what, wanted, new_class, id_ is not None)


OPTIONS = {"target", "against", "by", "most"}  # fields of the request as a whole, besides those of an example


def id_of(given: dict[str, Any], row: int) -> str | None:
    id_ = given.get("id")
    if id_ is None:
        return None
    if not isinstance(id_, str) or not 0 < len(id_) <= MAX_ID_CHARACTERS or not id_.isprintable():
        raise RequestError(
            "the id of example {row} must be a string of 1 to {most} printable characters",
            row=row,
            most=MAX_ID_CHARACTERS,
            code="bad_id",
        )
    return id_


def content_of(given: dict[str, Any], row: int) -> dict[str, Any] | None:
    """The content as it is stored: {"text": …}, {"row": …} or {"message": …}."""
    kinds = [kind for kind in KINDS if given.get(kind) is not None]
    if not kinds:
        return None
    if len(kinds) > 1:
        raise RequestError(
            "example {row} has both {one} and {other}: send only one", row=row, one=kinds[0], other=kinds[1]
        )
    kind, value = kinds[0], given[kinds[0]]
    if kind == "row":
        return {"row": checked_row(value, row)}
    if not isinstance(value, str):
        raise RequestError('"{kind}" of example {row} must be a string', row=row, kind=kind)
    if kind == "message_base64":
        try:
            return {"message": base64.b64decode(value, validate=True).decode("latin-1")}  # preserves every byte
        except binascii.Error:
            raise RequestError('"message_base64" of example {row} is not base64', row=row) from None
    try:
        value.encode()
    except UnicodeEncodeError:
        raise RequestError(
            "example {row} contains half of a surrogate pair, which is not a character", row=row
        ) from None
    return {kind: value}


def checked_row(value: Any, row: int) -> dict[str, Any] | list[Any]:
    """A row of a table: named values, or values in the order of the columns."""
    if not isinstance(value, dict | list):
        raise RequestError('"row" of example {row} must be an object {"column": value, …}, or a list', row=row)
    if not value:
        raise RequestError('"row" of example {row} is empty: send {"column": value, …}, or a list of values', row=row)
    for column, entry in value.items() if isinstance(value, dict) else enumerate(value):
        if not isinstance(entry, VALUES) or (isinstance(entry, int) and abs(entry) >= MAX_INTEGER):
            raise RequestError(
                "column {column!r} of example {row} must be a string, a number, a boolean or null",
                row=row,
                column=column,
                value=str(type(entry).__name__),
            )
        if isinstance(entry, float) and not math.isfinite(entry):
            raise RequestError(
                "column {column!r} of example {row} is too large for a number: send null for a missing value",
                row=row,
                column=column,
            )
    return value


def of_message(raw: bytes, label: str | None, id_: str | None) -> dict[str, Any]:
    """A request with a raw message as its body, converted to JSON.

    Without an id it gets one that is made from the message, so that the same message is always the same example. Fields
    that a filter has added are left out.
    """
    given: dict[str, Any] = {"message": mail.canonical(raw).decode("latin-1"), "id": id_ or mail.identity(raw)}
    return given | ({} if label is None else {"label": label})
