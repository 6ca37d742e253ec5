"""What a person sees: results on standard output, everything else on standard error."""

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
    """One line on standard error, coloured on a terminal that wants it."""
    head = f"deciban: {kind}: "
    if sys.stderr.isatty() and not os.environ.get("NO_COLOR"):
        head = f"{COLOURS[kind]}{head}\x1b[0m"
    print(head + one_line(text), file=sys.stderr)  # noqa: T201 - this is where the command line speaks


def say(text: str = "") -> None:
    """A line on standard output; on a terminal as many as it takes, broken between words."""
    shown = one_line(text)
    if sys.stdout.isatty():
        shown = textwrap.fill(shown, shutil.get_terminal_size().columns, break_on_hyphens=False)
    print(shown)  # noqa: T201 - likewise


def show(result: Any) -> None:
    """A result as it renders itself: in colour on a terminal, plain in a pipe."""
    if sys.stdout.isatty():
        from rich.console import Console

        # By itself rich leaves out colours where they are not wanted, and goes on sending codes for bold.
        Console(color_system=None if os.environ.get("NO_COLOR") else "auto").print(result)
    else:
        print(result)  # noqa: T201 - likewise


def show_json(value: Any) -> None:
    """One JSON document on standard output."""
    print(json.dumps(as_json(value), ensure_ascii=False, allow_nan=False))  # noqa: T201 - likewise


def as_json(value: Any) -> Any:
    """A value as JSON has it: what is not a finite number is null."""
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


def several(n: float, what: str) -> str:
    """A number of things, in words: 1 row, 2,000 rows."""
    number = f"{round(n):,}" if float(n).is_integer() else f"{n:,.1f}"
    return f"{number} {what}" if n == 1 else f"{number} {what}es" if what.endswith("s") else f"{number} {what}s"


def counted(weight: float) -> float | int:
    """A number of rows: whole, unless some have faded."""
    return int(weight) if float(weight).is_integer() else float(weight)


def bytes_in_words(size: int) -> str:
    for unit in ("bytes", "kB", "MB"):
        if size < 1000:
            return f"{size:.3g} {unit}" if unit != "bytes" else f"{size} bytes"
        size /= 1000  # type: ignore[assignment]  # from here on it is a fraction
    return f"{size:.3g} GB"
