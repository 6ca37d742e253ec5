"""Text: documents as people have them, the terms in them, and counts of terms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from deciban.text.corpus import background
    from deciban.text.documents import Lines

__all__ = ["Lines", "background"]


def __getattr__(name: str) -> Any:
    """Loaded when first used: to read a mail, NumPy is not needed."""
    if name == "Lines":
        from deciban.text.documents import Lines

        return Lines
    if name == "background":
        from deciban.text.corpus import background

        return background
    raise AttributeError(f"module 'deciban.text' has no attribute {name!r}")
