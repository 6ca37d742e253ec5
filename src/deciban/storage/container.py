"""Named arrays and a few strings in one file, in safetensors format: read without a copy, and fully checked.

A file is the size of its header in eight bytes, the header in JSON (each array's type, shape and offsets), and the
arrays in sequence. All of it is checked against the size of the file before any array is made.
"""

from __future__ import annotations

import json
import math
import mmap
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np

from deciban._typing import Array
from deciban.errors import FileError, did_you_mean_file

NUMPY_TYPES = {"BOOL": "|b1", "I8": "|i1", "U8": "|u1"} | {
    f"{kind}{8 * size}": f"<{kind.lower()}{size}" for kind in "FIU" for size in (2, 4, 8)
}
TYPE_NAMES = {np.dtype(code): name for name, code in NUMPY_TYPES.items()}
METADATA_KEY = "__metadata__"  # the format's key for strings stored with the arrays
ALIGNMENT = 8  # bytes: every array begins at a multiple of its item size


def write(file: BinaryIO, tensors: Mapping[str, Array], strings: Mapping[str, str]) -> None:
    """Write arrays and strings, the widest types first, so that all are aligned."""
    order = sorted(tensors, key=lambda name: (-tensors[name].itemsize, name))
    header: dict[str, Any] = {METADATA_KEY: dict(strings)}
    offset = 0
    for name in order:
        array = tensors[name]
        end = offset + array.nbytes
        header[name] = {"dtype": TYPE_NAMES[array.dtype], "shape": list(array.shape), "data_offsets": [offset, end]}
        offset = end
    header_bytes = json.dumps(header, separators=(",", ":")).encode()
    header_bytes += b" " * (-len(header_bytes) % ALIGNMENT)
    file.write(len(header_bytes).to_bytes(8, "little") + header_bytes)
    for name in order:
        file.write(np.ascontiguousarray(tensors[name]).reshape(-1).view(np.uint8).data)


@dataclass(frozen=True, slots=True, eq=False)
class MappedFile:
    """A memory-mapped file: its strings, and its arrays in place."""

    header: Mapping[str, Any]
    data: memoryview

    @property
    def strings(self) -> dict[str, str]:
        strings = self.header.get(METADATA_KEY, {})
        if not isinstance(strings, dict) or not all(isinstance(value, str) for value in strings.values()):
            raise FileError("its strings are not valid")
        return strings

    def tensors(self) -> dict[str, Array]:
        """The arrays, read-only. They must fill the file without gaps."""
        arrays, offset = {}, 0
        entries = [(name, description) for name, description in self.header.items() if name != METADATA_KEY]
        for name, description in sorted(entries, key=lambda entry: tuple(entry[1]["data_offsets"])):
            kind, shape, (begin, end) = (
                np.dtype(NUMPY_TYPES[description["dtype"]]),
                description["shape"],
                description["data_offsets"],
            )
            if not all(type(size) is int and size >= 0 for size in (*shape, begin, end)):
                raise FileError(f"the array {name!r} has no size")
            if begin != offset or end - begin != kind.itemsize * math.prod(shape):
                raise FileError(f"the array {name!r} is at the wrong place")
            if end > len(self.data):
                raise FileError("it was cut short, or is still being written")
            arrays[name] = np.frombuffer(self.data[begin:end], dtype=kind).reshape(shape)
            offset = end
        if offset != len(self.data):
            raise FileError(f"it has {len(self.data) - offset} bytes too many")
        return arrays


def open_file(path: str | os.PathLike[str] | BinaryIO) -> MappedFile:
    """Map a file, or read an open one. If another program truncates a mapped file, the system kills this one
    (SIGBUS): copy soon."""
    data: bytes | mmap.mmap
    if not isinstance(path, str | bytes | os.PathLike):
        data = path.read()
        if not data:
            raise FileError("it is empty")
        return parsed(data)
    name = os.fspath(path)
    if not os.path.exists(name):
        raise FileNotFoundError(f"there is no model file {name!r}: {did_you_mean_file(name, 'check its name')}")
    if not os.path.isfile(name):  # before opening: a pipe would block
        raise FileError(f"it is {'a folder' if os.path.isdir(name) else 'not a file'}")
    with open(name, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size == 0:
            raise FileError("it is empty")
        data = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ)
    return parsed(data)


def parsed(data: bytes | mmap.mmap) -> MappedFile:
    """The header of a file, and its arrays in place."""
    length = int.from_bytes(data[:8], "little")
    if data[8:9] != b"{" or length < 2:
        raise FileError("it is a file of another kind")
    if length > len(data) - 8:
        raise FileError("it was cut short, or is a file of another kind")
    header = read_json(data[8 : 8 + length].decode())
    return MappedFile(header, memoryview(data)[8 + length :])


def read_json(text: str) -> Any:
    """Parse JSON, refusing duplicate keys."""
    return json.loads(text, object_pairs_hook=without_duplicates)


def without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    unique = dict(pairs)
    if len(unique) != len(pairs):
        raise FileError("a name occurs twice in its description")
    return unique
