"""Lossless packing of arrays: zeros take a bit, small whole numbers a byte or two.

An array is packed as up to three. `bits` marks the cells that are not the minimum; `small` holds these as codes of one,
two or four bytes; the largest code is an escape for a value stored in `rest`, unchanged. Sums of text models are
multiples of a small unit, so codes may be scaled by a power of two; ascending integers are stored as differences.

A cell takes at least a bit, so an unpacked array is at most 64 times as large as the packed one. Zeros are not written
when it is unpacked, so that they take no memory if the system allocates zeroed pages lazily.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from deciban._typing import Array
from deciban.errors import FileError

KINDS = {"float64": np.float64, "int64": np.int64, "int32": np.int32, "uint64": np.uint64}
PIECES = ("bits", "small", "rest")
WIDTHS = (np.uint8, np.uint16, np.uint32)
MIN_BYTES = 1024  # of an array worth packing: its description takes about 300
MAX_PLACES = 60  # of a common unit: numbers with more are not multiples of one
SAMPLE_ENTRIES = 4096  # sampled to decide whether an array is worth packing
BYTES_AT_A_TIME = 1 << 17  # of bits, when they are unpacked


def pack(array: Array) -> tuple[dict[str, Any], dict[str, Array]] | None:
    """The description of a packed array, and its parts; None if packing saves nothing."""
    if array.nbytes < MIN_BYTES or array.dtype.name not in KINDS:
        return None
    values = np.ascontiguousarray(array).ravel()
    how: dict[str, Any] = {"dtype": array.dtype.name, "shape": list(array.shape)}
    if values.dtype.kind == "f":
        sample = values[:: len(values) // SAMPLE_ENTRIES + 1]
        if binary_places(sample) > MAX_PLACES and np.count_nonzero(sample) > len(sample) // 2:
            return None  # real numbers
        how["places"] = binary_places(values)
        if how["places"] > MAX_PLACES:
            how["places"] = 0
        nonzero, codes = values.view(np.uint64) != 0, integer_codes(values, how["places"])  # −0.0 counts as nonzero
    elif values.dtype.kind == "i" and values[0] >= 0 and (values[1:] >= values[:-1]).all():
        how["steps"] = True
        codes = values = np.diff(values, prepend=values.dtype.type(0))
        nonzero = codes != 0
    else:
        least = values.min()
        how["least"] = int(least)
        codes = (values - least).astype(np.uint64)  # wraps around if the range overflows: such codes are merely large
        nonzero = codes != 0
    best, best_size, n_nonzero = None, array.nbytes - MIN_BYTES // 2, int(np.count_nonzero(nonzero))
    for width in WIDTHS:
        rest = int(np.count_nonzero(codes >= np.iinfo(width).max)) * values.itemsize
        for bits in (False, True):
            size = rest + (n_nonzero if bits else len(values)) * width().itemsize + bits * len(values) // 8
            if size < best_size:
                best, best_size = (width, bits), size
    if best is None:
        return None
    width, bits = best
    packed_cells = nonzero if bits else slice(None)
    packed_codes, escape = codes[packed_cells], np.iinfo(width).max
    large = packed_codes >= escape
    parts = {"small": np.where(large, escape, packed_codes).astype(width), "rest": values[packed_cells][large]}
    return how, parts | ({"bits": np.packbits(nonzero)} if bits else {})


def binary_places(values: Array) -> int:
    """The binary places of the numbers: the smallest p ≥ 0 such that 2ᵖ times each is whole."""
    fraction, exponent = np.frexp(values[values != 0])
    if not len(fraction):
        return 0
    if not np.isfinite(fraction).all():
        return MAX_PLACES + 1
    digits = (fraction * 2.0**53).astype(np.int64)
    last = np.frexp((digits & -digits).astype(np.float64))[1] - 1  # zeros at the end
    return max(0, int((53 - exponent - last).max()))


def integer_codes(values: Array, places: int) -> Array:
    """The numbers times 2^places as codes; infinity for those that are negative or not whole."""
    with np.errstate(over="ignore"):
        codes = np.ldexp(values, places)
    exact = (codes == np.floor(codes)) & ~np.signbit(values)
    return np.where(exact, codes, np.inf)


def type_and_shape(how: Mapping[str, Any]) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """The type and the shape of a packed array, by its description."""
    shape = how["shape"]
    if not isinstance(shape, list) or not all(type(size) is int and size >= 0 for size in shape):
        raise FileError("a packed array has no shape")
    return np.dtype(KINDS[how["dtype"]]), tuple(shape)


def unpack(how: Mapping[str, Any], parts: Mapping[str, Array]) -> Array:
    """The inverse of `pack`; the parts are checked against each other first."""
    dtype, shape = type_and_shape(how)
    cells, small, rest, bits = math.prod(shape), parts["small"], parts["rest"], parts.get("bits")
    if small.dtype not in WIDTHS or rest.dtype != dtype or small.ndim != 1 or rest.ndim != 1:
        raise FileError("the parts of a packed array have the wrong types")
    if bits is not None and (bits.dtype != np.uint8 or bits.shape != ((cells + 7) // 8,)):
        raise FileError("a packed array has bits for another number of cells")
    large = small == np.iinfo(small.dtype).max
    n_stored = cells if bits is None else sum(len(at) for at in marked_cells(bits, cells))
    if len(small) != n_stored or len(rest) != large.sum():
        raise FileError("the parts of a packed array do not match its number of cells")
    values = small.astype(dtype)
    least = dtype.type(0)
    if dtype.kind == "f":
        values *= 2.0 ** -checked_number(how, "places", 0, MAX_PLACES)  # exact: codes have at most 32 digits
    else:
        least = dtype.type(
            checked_number(how, "least", -(2**63), 2**64)
        )  # a value that does not fit the type is an error
        values += least
    if len(rest):
        values[large] = rest
    if bits is not None:
        full, done = np.full(cells, least, dtype=dtype) if least else np.zeros(cells, dtype=dtype), 0
        for at in marked_cells(bits, cells):
            full[at] = values[done : done + len(at)]
            done += len(at)
        values = full
    if how.get("steps", False):
        np.cumsum(values, out=values)
    return values.reshape(shape)


def marked_cells(bits: Array, cells: int) -> Iterator[Array]:
    """The positions of ones, a few bytes at a time: for all cells they would take as much memory as the array."""
    for start in range(0, len(bits), BYTES_AT_A_TIME):
        some = bits[start : start + BYTES_AT_A_TIME]
        yield 8 * start + np.flatnonzero(np.unpackbits(some, count=min(8 * len(some), cells - 8 * start)))


def checked_number(how: Mapping[str, Any], name: str, low: int, high: int) -> int:
    value = how.get(name, 0)
    if type(value) is not int or not low <= value <= high:
        raise FileError(f"a packed array's {name} are {value!r}")
    return value
