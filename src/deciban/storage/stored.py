"""The arrays of a file, each copied or unpacked on access, so that only those that a model needs are made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from deciban._typing import Array
from deciban.storage.packing import PIECES, type_and_shape, unpack


class StoredArrays(Mapping[str, Array]):
    """Arrays by name. Arrays that are not packed are copied: the file may change afterwards.

    Types and shapes are known before an array is made, so that a wrong one can be refused first.
    """

    def __init__(self, stored: Mapping[str, Array], packed: Mapping[str, Any], prefix: str = "") -> None:
        self._stored, self._packed, self._prefix = stored, packed, prefix
        names = [*(name for name in stored if "/" not in name), *packed]
        self._names = {name.removeprefix(prefix): name for name in names if name.startswith(prefix)}

    def __getitem__(self, name: str) -> Array:
        full_name = self._names[name]
        if full_name not in self._packed:
            return self._stored[full_name].copy()
        pieces = {piece: f"{full_name}/{piece}" for piece in PIECES}
        parts = {piece: self._stored[stored] for piece, stored in pieces.items() if stored in self._stored}
        return unpack(self._packed[full_name], parts)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def described(self, name: str) -> tuple[np.dtype[Any], tuple[int, ...]]:
        """The type and the shape of an array, without making it."""
        full_name = self._names[name]
        if full_name in self._packed:
            return type_and_shape(self._packed[full_name])
        return self._stored[full_name].dtype, self._stored[full_name].shape

    def part(self, prefix: str) -> StoredArrays:
        """The arrays whose names have a prefix, by the rest of their names."""
        return StoredArrays(self._stored, self._packed, self._prefix + prefix)


def described(arrays: Mapping[str, Array], name: str) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """The type and the shape of an array, of a file or in memory."""
    return arrays.described(name) if isinstance(arrays, StoredArrays) else (arrays[name].dtype, arrays[name].shape)


def part(arrays: Mapping[str, Array], prefix: str) -> Mapping[str, Array]:
    """The arrays whose names have a prefix, by the rest of their names."""
    if isinstance(arrays, StoredArrays):
        return arrays.part(prefix)
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
