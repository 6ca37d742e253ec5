"""The arrays of one part of a file, each checked when it is read; and a check of settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from deciban._typing import Array
from deciban.errors import FileError
from deciban.storage.files import checked
from deciban.storage.stored import described, part


class CheckedArrays:
    """The arrays of a file whose names begin with a prefix, by the rest of their names."""

    def __init__(self, tensors: Mapping[str, Array], prefix: str) -> None:
        self.tensors, self.prefix = tensors, prefix

    def floats(self, name: str, *shapes: tuple[int, ...]) -> Array:
        """Finite numbers of a shape."""
        return checked(self.tensors, self.prefix + name, *shapes)

    def row(self, name: str) -> Array:
        """Finite numbers in one dimension, of any length."""
        _, shape = described(self.tensors, self.prefix + name)
        return self.floats(name, shape[:1])

    def whole(self, name: str, dtype: Any, *shape: int | None) -> Array:
        """Integers of a dtype; None in a shape is any size."""
        own_type, own_shape = described(self.tensors, self.prefix + name)
        if own_type != dtype or len(own_shape) != len(shape):
            raise FileError(f"{self.prefix + name} is {own_type}{own_shape}, expected {np.dtype(dtype)}")
        if any(expected is not None and expected != size for expected, size in zip(shape, own_shape, strict=True)):
            raise FileError(f"{self.prefix + name} has shape {own_shape}, expected {shape}")
        return np.ascontiguousarray(self.tensors[self.prefix + name])

    def counts(self, name: str, *shape: int) -> Array:
        array = self.floats(name, shape)
        if (array < 0).any():
            raise FileError(f"{self.prefix + name} has a negative count")
        return array

    def all(self) -> Mapping[str, Array]:
        """Every array of the part, unchecked."""
        return part(self.tensors, self.prefix)


def positive(value: Any, largest: float = np.finfo(np.float64).max) -> float:
    """A setting that is a number above zero."""
    if not 0.0 < float(value) <= largest:
        raise FileError(f"a setting is {value}: it should be a number above 0")
    return float(value)
