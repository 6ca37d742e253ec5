"""Experts: one file each, imported when first asked for: most tables have no texts, and much comes with those."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from deciban.errors import FileError

if TYPE_CHECKING:
    from deciban.tables.experts.base import Expert

_CLASSES = {  # an expert's name, and where its class is
    "columns": ("columns", "ColumnLaws"),
    "gaussians": ("gaussians", "Gaussians"),
    "contexts": ("contexts", "ContextTrees"),
    "trees": ("forest", "Forest"),
    "words": ("words", "Words"),
}


def expert_named(name: str) -> type[Expert]:
    """The class of an expert, by the name that files have for it."""
    if name not in _CLASSES:
        raise FileError(f"an expert {name!r} is not known")
    module, called = _CLASSES[name]
    found: type[Expert] = getattr(importlib.import_module(f"deciban.tables.experts.{module}"), called)
    return found
