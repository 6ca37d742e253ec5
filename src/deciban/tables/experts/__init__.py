"""Experts, one file each. They are imported on first use: the one of texts imports a lot, and few tables need it."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from deciban.errors import FileError

if TYPE_CHECKING:
    from deciban.tables.experts.base import Expert

_CLASSES = {  # an expert's name, and where its class is
    "columns": ("columns", "ColumnDistributions"),
    "gaussians": ("gaussians", "Gaussians"),
    "ordered classes": ("ordered", "OrderedGaussian"),
    "Fourier features": ("fourier", "FourierFeatures"),
    "contexts": ("contexts", "ContextTrees"),
    "trees": ("forest", "Forest"),
    "boosted trees": ("boosted", "BoostedTrees"),
    "words": ("words", "Words"),
}


def expert_named(name: str) -> type[Expert]:
    """The class of an expert, by its name in model files."""
    if name not in _CLASSES:
        raise FileError(f"an expert {name!r} is unknown")
    module, class_name = _CLASSES[name]
    expert: type[Expert] = getattr(importlib.import_module(f"deciban.tables.experts.{module}"), class_name)
    return expert
