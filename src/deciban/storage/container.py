"""Named arrays and a few strings in one file, in safetensors format: read without a copy, and nothing is believed.

A file is the size of its header in eight bytes, the header in JSON (each array's type, shape and place), and the arrays
one after the other. All of it is checked against the size of the file before anything is made of it.
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
from deciban.errors import FileError

TYPES = {"BOOL": "|b1", "I8": "|i1", "U8": "|u1"} | {
    f"{kind}{8 * size}": f"<{kind.lower()}{size}" for kind in "FIU" for size in (2, 4, 8)
}
NAMES = {np.dtype(code): name for name, code in TYPES.items()}
STRINGS = "__metadata__"  # the format's name for strings beside the arrays
ALIGNED = 8  # bytes: every array begins at a multiple of its own width


def write(file: BinaryIO, tensors: Mapping[str, Array], strings: Mapping[str, str]) -> None:
    """Write arrays and strings, the widest numbers first, so that all are aligned."""
    order = sorted(tensors, key=lambda name: (-tensors[name].itemsize, name))
    header: dict[str, Any] = {STRINGS: dict(strings)}
    at = 0
    for name in order:
        array = tensors[name]
        after = at + array.nbytes
        header[name] = {"dtype": NAMES[array.dtype], "shape": list(array.shape), "data_offsets": [at, after]}
        at = after
    said = json.dumps(header, separators=(",", ":")).encode()
    said += b" " * (-len(said) % ALIGNED)
    file.write(len(said).to_bytes(8, "little") + said)
    for name in order:
        file.write(np.ascontiguousarray(tensors[name]).reshape(-1).view(np.uint8).data)


@dataclass(frozen=True, slots=True, eq=False)
class Opened:
    """A file that is mapped into memory: its strings, and its arrays where they lie."""

    header: Mapping[str, Any]
    data: memoryview

    @property
    def strings(self) -> dict[str, str]:
        found = self.header.get(STRINGS, {})
        if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
            raise FileError("its strings are none")
        return found

    def tensors(self) -> dict[str, Array]:
        """The arrays, read-only: they fill the file, one after the other and without gaps."""
        found, at = {}, 0
        said = [(name, about) for name, about in self.header.items() if name != STRINGS]
        for name, about in sorted(said, key=lambda entry: tuple(entry[1]["data_offsets"])):
            kind, shape, (begin, end) = np.dtype(TYPES[about["dtype"]]), about["shape"], about["data_offsets"]
            if not all(type(size) is int and size >= 0 for size in (*shape, begin, end)):
                raise FileError(f"the array {name!r} has no size")
            if begin != at or end - begin != kind.itemsize * math.prod(shape):
                raise FileError(f"the array {name!r} is not where it should be")
            if end > len(self.data):
                raise FileError("it was cut short, or is still being written")
            found[name] = np.frombuffer(self.data[begin:end], dtype=kind).reshape(shape)
            at = end
        if at != len(self.data):
            raise FileError(f"it has {len(self.data) - at} bytes too many")
        return found


def open_file(path: str | os.PathLike[str]) -> Opened:
    """A file, mapped. If another program cuts it short in its place meanwhile, the system ends this one: copy soon."""
    name = os.fspath(path)
    if not os.path.exists(name):
        raise FileNotFoundError(f"there is no model file {name!r}")
    if not os.path.isfile(name):  # before opening: a pipe would wait for someone to write
        raise FileError(f"it is {'a directory' if os.path.isdir(name) else 'not a file'}")
    with open(name, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size == 0:
            raise FileError("it is empty")
        whole = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ)
    length = int.from_bytes(whole[:8], "little")
    if whole[8:9] != b"{" or length < 2:
        raise FileError("it is a file of another kind")
    if length > size - 8:
        raise FileError("it was cut short, or is a file of another kind")
    header = read_json(whole[8 : 8 + length].decode())
    return Opened(header, memoryview(whole)[8 + length :])


def read_json(text: str) -> Any:
    """JSON in which no name stands twice."""
    return json.loads(text, object_pairs_hook=once)


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise FileError("a name stands twice in its description")
    return found
