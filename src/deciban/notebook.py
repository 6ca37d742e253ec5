"""Progress in a notebook: a bar below the cell, without widgets, scripts or packages that a kernel does not have."""

from __future__ import annotations

import html
import importlib
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

FIRST_AFTER = 0.5  # seconds; what takes less shows nothing
EVERY = 0.2  # seconds between two updates, each of which is a message to the browser


def in_notebook() -> bool:
    """Whether this is a kernel of Jupyter. IPython is not imported for the question: a kernel has done so."""
    ipython = sys.modules.get("IPython")
    return getattr(getattr(ipython, "get_ipython", lambda: None)(), "kernel", None) is not None


@contextmanager
def drawn() -> Iterator[Callable[[str, float | None], None]]:
    """A bar that appears after half a second, and disappears at the end.

    Yields a function that takes a sentence and, where it is known, which share of the work is done.
    """
    handle: Any = None
    due = time.monotonic() + FIRST_AFTER

    def draw(text: str, share: float | None) -> None:
        nonlocal handle, due
        if time.monotonic() < due:
            return
        due = time.monotonic() + EVERY
        value = "" if share is None else f" value='{min(max(share, 0.0), 1.0):.3f}'"
        page = f"<progress{value} style='width:16em;vertical-align:middle'></progress> {html.escape(text)}"
        handle = show(handle, {"text/html": page, "text/plain": text})

    try:
        yield draw
    finally:
        if handle is not None:
            show(handle, {"text/html": "", "text/plain": ""})


def show(handle: Any, bundle: dict[str, str]) -> Any:
    """Show something new, or in place of what this handle shows."""
    if handle is not None:
        handle.update(bundle, raw=True)
        return handle
    return importlib.import_module("IPython.display").display(bundle, raw=True, display_id=True)
