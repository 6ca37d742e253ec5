"""The arrays of one part of a file, each checked when it is read; and a check of settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from deciban._typing import Array
from deciban.errors import FileError
from deciban.storage.files import checked


class CheckedArrays:
    """The arrays of a file whose names begin with a prefix, by the rest of their names."""

    def __init__(self, tensors: Mapping[str, Array], prefix: str) -> None:
        self.tensors, self.prefix = tensors, prefix

    def floats(self, name: str, *shapes: tuple[int, ...]) -> Array:
        """Finite numbers of a shape."""
        return checked(self.tensors, self.prefix + name, *shapes)

    def row(self, name: str) -> Array:
        """Finite numbers in one dimension, of any length."""
        return self.floats(name, (len(self.tensors[self.prefix + name]),))

    def whole(self, name: str, dtype: Any, *shape: int | None) -> Array:
        """Integers of a dtype; None in a shape is any size."""
        array = self.tensors[self.prefix + name]
        if array.dtype != dtype or array.ndim != len(shape):
            raise FileError(f"{self.prefix + name} is {array.dtype}{array.shape}, expected {np.dtype(dtype)}")
        if any(expected is not None and expected != size for expected, size in zip(shape, array.shape, strict=True)):
            raise FileError(f"{self.prefix + name} has shape {array.shape}, expected {shape}")
        return np.ascontiguousarray(array)

    def counts(self, name: str, *shape: int) -> Array:
        array = self.floats(name, shape)
        if (array < 0).any():
            raise FileError(f"{self.prefix + name} has a negative count")
        return array

    def all(self) -> dict[str, Array]:
        """Every array of the part, unchecked."""
        start = len(self.prefix)
        return {name[start:]: array for name, array in self.tensors.items() if name.startswith(self.prefix)}


def positive(value: Any, largest: float = np.finfo(np.float64).max) -> float:
    """A setting that is a number above zero."""
    if not 0.0 < float(value) <= largest:
        raise FileError(f"a setting is {value}: it should be a number above 0")
    return float(value)
