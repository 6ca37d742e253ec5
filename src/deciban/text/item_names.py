"""Names of items, for display. Imports nothing that takes time, as one mail is answered without most of the package."""

from __future__ import annotations

from collections.abc import Callable

ITEM_FORMATS: dict[str, Callable[..., str]] = {
    "words": lambda a: a,
    "pairs": lambda a, b: between(a, b).join((a or "⟨start⟩", b or "⟨end⟩")),
    "headers": lambda a, b: f"{a}:{b}",
    "gaps": lambda a, b: f"{a} … {b}",
    "characters": lambda a: a.replace(" ", "␣"),
    "repeats": lambda a, times: f"{a} ×{times}",
}


def between(a: str, b: str) -> str:
    """The separator between two displayed neighbours: none in scripts without spaces, "不好"."""
    from deciban._kernel import filter_index as kernel

    alone = [kernel.stands_alone(token) for token in (a, b)]
    tight = any(alone) and all(own or not token[:1].isalnum() for own, token in zip(alone, (a, b), strict=True))
    return "" if tight and a and b else " "


def item_name(block: str, parts: tuple[str, ...]) -> str:
    """The name of an item with these parts, for display."""
    return ITEM_FORMATS[block](*parts)
