"""Arrays in fewer bytes, and back bit for bit: cells that are nothing cost a bit, small whole numbers a byte or two.

An array is packed as up to three. `bits` marks the cells that are not the least value; `small` holds these in one, two
or four bytes each; where it holds the largest number that it can, the value stands in `rest`, as it was. What texts
add to sums is a whole number of small units, so a power of two may stand before the codes; numbers that only rise are
kept as the steps between them.

A bit is the least that a cell costs: what is unpacked is at most 64 times as large as what was read.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from deciban._typing import Array
from deciban.errors import FileError

KINDS = {"float64": np.float64, "int64": np.int64, "int32": np.int32, "uint64": np.uint64}
PIECES = ("bits", "small", "rest")
WIDTHS = (np.uint8, np.uint16, np.uint32)
LEAST = 1024  # bytes of an array that it is worth describing: its description takes some 300
FINEST = 60  # binary places of a unit: finer ones are those of numbers that are not whole in any unit
LOOK = 4096  # entries that tell whether an array is worth trying


def pack(array: Array) -> tuple[dict[str, Any], dict[str, Array]] | None:
    """How an array is packed, and its parts; None where that would save nothing."""
    if array.nbytes < LEAST or array.dtype.name not in KINDS:
        return None
    values = np.ascontiguousarray(array).ravel()
    how: dict[str, Any] = {"dtype": array.dtype.name, "shape": list(array.shape)}
    if values.dtype.kind == "f":
        look = values[:: len(values) // LOOK + 1]
        if places(look) > FINEST and np.count_nonzero(look) > len(look) // 2:
            return None  # real numbers
        how["places"] = places(values)
        if how["places"] > FINEST:
            how["places"] = 0
        something, codes = values.view(np.uint64) != 0, whole(values, how["places"])  # −0.0 is something
    elif values.dtype.kind == "i" and values[0] >= 0 and (values[1:] >= values[:-1]).all():
        how["steps"] = True
        codes = values = np.diff(values, prepend=values.dtype.type(0))
        something = codes != 0
    else:
        least = values.min()
        how["least"] = int(least)
        codes = (values - least).astype(np.uint64)  # wraps where the span does: such codes are merely large
        something = codes != 0
    best, used, filled = None, array.nbytes - LEAST // 2, int(np.count_nonzero(something))
    for width in WIDTHS:
        rest = int(np.count_nonzero(codes >= np.iinfo(width).max)) * values.itemsize
        for bits in (False, True):
            size = rest + (filled if bits else len(values)) * width().itemsize + bits * len(values) // 8
            if size < used:
                best, used = (width, bits), size
    if best is None:
        return None
    width, bits = best
    chosen = something if bits else slice(None)
    mine, escape = codes[chosen], np.iinfo(width).max
    large = mine >= escape
    parts = {"small": np.where(large, escape, mine).astype(width), "rest": values[chosen][large]}
    return how, parts | ({"bits": np.packbits(something)} if bits else {})


def places(values: Array) -> int:
    """How many binary places the numbers have at most: times 2 to this, all are whole."""
    fraction, exponent = np.frexp(values[values != 0])
    if not len(fraction):
        return 0
    if not np.isfinite(fraction).all():
        return FINEST + 1
    digits = (fraction * 2.0**53).astype(np.int64)
    last = np.frexp((digits & -digits).astype(np.float64))[1] - 1  # zeros at the end
    return max(0, int((53 - exponent - last).max()))


def whole(values: Array, places: int) -> Array:
    """The numbers as codes; those that are no codes, negative ones and large ones and fractions, are infinite."""
    with np.errstate(over="ignore"):
        codes = np.ldexp(values, places)
    plain = (codes == np.floor(codes)) & ~np.signbit(values)
    return np.where(plain, codes, np.inf)


def unpack(how: Mapping[str, Any], parts: Mapping[str, Array]) -> Array:
    """The array that was packed, its parts checked against each other before anything is made of them."""
    dtype, shape = np.dtype(KINDS[how["dtype"]]), how["shape"]
    if not all(type(size) is int and size >= 0 for size in shape):
        raise FileError("a packed array has no shape")
    cells, small, rest, bits = math.prod(shape), parts["small"], parts["rest"], parts.get("bits")
    if small.dtype not in WIDTHS or rest.dtype != dtype or small.ndim != 1 or rest.ndim != 1:
        raise FileError("the parts of a packed array are not of their kinds")
    if bits is not None and (bits.dtype != np.uint8 or bits.shape != ((cells + 7) // 8,)):
        raise FileError("a packed array has bits for another number of cells")
    something = None if bits is None else np.unpackbits(bits, count=cells).view(np.bool_)
    large = small == np.iinfo(small.dtype).max
    if len(small) != (cells if something is None else np.count_nonzero(something)) or len(rest) != large.sum():
        raise FileError("the parts of a packed array are not as many as its cells")
    values = small.astype(dtype)
    least = dtype.type(0)
    if dtype.kind == "f":
        values *= 2.0 ** -number(how, "places", 0, FINEST)  # exact: codes have at most 32 digits
    else:
        least = dtype.type(number(how, "least", -(2**63), 2**64))  # what does not fit the type is an error here
        values += least
    if len(rest):
        values[large] = rest
    if something is not None:
        every = np.full(cells, least, dtype=dtype)
        every[something] = values
        values = every
    if how.get("steps", False):
        np.cumsum(values, out=values)
    return values.reshape(shape)


def number(how: Mapping[str, Any], name: str, low: int, high: int) -> int:
    value = how.get(name, 0)
    if type(value) is not int or not low <= value <= high:
        raise FileError(f"a packed array's {name} are {value!r}")
    return value
