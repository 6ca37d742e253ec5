"""Output of commands: results on standard output, everything else on standard error."""

from __future__ import annotations

import json
import math
import os
import shutil
import sys
import textwrap
from typing import Any

from deciban.show import one_line, plain

COLOURS = {"error": "\x1b[31m", "note": "\x1b[33m"}


def note(kind: str, text: str) -> None:
    """One line on standard error, coloured on a terminal unless NO_COLOR is set."""
    head = f"deciban: {kind}: "
    if sys.stderr.isatty() and not os.environ.get("NO_COLOR"):
        head = f"{COLOURS[kind]}{head}\x1b[0m"
    print(head + one_line(text), file=sys.stderr)  # noqa: T201 - the command line prints here


def print_line(text: str = "") -> None:
    """A line on standard output, wrapped between words on a terminal."""
    line = one_line(text)
    if sys.stdout.isatty():
        line = textwrap.fill(line, shutil.get_terminal_size().columns, break_on_hyphens=False)
    print(line)  # noqa: T201 - likewise


def show(result: Any) -> None:
    """A result as it renders itself: in colour on a terminal, plain in a pipe."""
    if sys.stdout.isatty():
        from rich.console import Console

        # With NO_COLOR rich drops colours but still sends codes for bold.
        Console(color_system=None if os.environ.get("NO_COLOR") else "auto").print(result)
    else:
        print(result)  # noqa: T201 - likewise


def show_json(value: Any) -> None:
    """One JSON document on standard output."""
    print(json.dumps(as_json(value), ensure_ascii=False, allow_nan=False))  # noqa: T201 - likewise


def as_json(value: Any) -> Any:
    """A value for JSON: NaN and infinity become null."""
    value = plain(value)
    if isinstance(value, dict):
        return {str(key): as_json(inner) for key, inner in value.items()}
    if hasattr(value, "tolist"):
        return as_json(value.tolist())
    if isinstance(value, list | tuple):
        return [as_json(inner) for inner in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int | str):
        return value
    return str(value)


def pluralize(n: float, noun: str) -> str:
    """A count with its noun: 1 row, 2,000 rows."""
    number = f"{round(n):,}" if float(n).is_integer() else f"{n:,.1f}"
    return f"{number} {noun}" if n == 1 else f"{number} {noun}es" if noun.endswith("s") else f"{number} {noun}s"


def int_if_whole(rows: float) -> float | int:
    """A number of rows as an int, unless decayed weights make it fractional."""
    return int(rows) if float(rows).is_integer() else float(rows)


def format_bytes(size: int) -> str:
    for unit in ("bytes", "kB", "MB"):
        if size < 1000:
            return f"{size:.3g} {unit}" if unit != "bytes" else f"{size} bytes"
        size /= 1000  # type: ignore[assignment]  # a float from here on
    return f"{size:.3g} GB"
