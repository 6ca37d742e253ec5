"""Files for Arrow's readers, which seek: read from disk once, in order, so that they can be hashed at the same time."""

from __future__ import annotations

import io
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa

from deciban.sources.input_file import InputFile, Pass, read_errors

PAGE_BYTES = 1 << 18  # read from disk at a time
MAX_GAP_BYTES = 1 << 20  # a reader that skips more is looking something up, such as the footer
MAX_KEPT_BYTES = 1 << 28  # of row groups, for columns still to be read; earlier bytes are read again


class InOrder(io.RawIOBase):
    """A seekable file whose bytes are read from disk in order.

    `groups` are the offsets of row groups, and the end of the last one. Readers alternate between the columns of a
    group, and of two groups at a boundary, so these are kept in memory. Without `groups` nothing is.
    """

    def __init__(self, file: InputFile, one_pass: Pass, groups: Sequence[int] = ()) -> None:
        assert file.path is not None
        assert file.size is not None
        self._file, self._pass, self._groups, self._size = file, one_pass, groups, file.size
        with read_errors(file.name):
            self._raw = file.path.open("rb", buffering=0)
        self._at = 0
        self._bytes_read = 0  # bytes read from disk so far
        self._pages: dict[int, bytearray] = {}  # the latest pages by number
        self._free_pages: list[bytearray] = []  # buffers to reuse, which is faster than allocating

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]  # as RawIOBase.read calls it
        begin, end = self._at, min(self._at + len(buffer), self._size)
        needed = self._needed_from(begin)
        if needed is not None:
            self._read_until(end, max(needed, end - MAX_KEPT_BYTES))
        view, at = memoryview(buffer), begin
        while at < end:
            number, offset = divmod(at, PAGE_BYTES)
            size = min(end - at, PAGE_BYTES - offset)
            if number in self._pages:
                view[at - begin : at - begin + size] = memoryview(self._pages[number])[offset : offset + size]
            else:
                size = self._read_at(at, view[at - begin : at - begin + size])
            if not size:  # the file was truncated in the meantime
                break
            at += size
        self._at = at
        return at - begin

    def _needed_from(self, at: int) -> int | None:
        """The first offset to keep after a read at this position; None for a lookup, which reads separately."""
        if not self._groups:
            return at if at <= self._bytes_read + MAX_GAP_BYTES else None
        if at >= self._groups[-1]:
            return None
        return self._groups[max(0, bisect_right(self._groups, at) - 2)]

    def _read_until(self, end: int, needed: int) -> None:
        """Read up to this offset, page by page, and drop pages that end before `needed`."""
        while self._bytes_read < end:
            page = self._free_pages.pop() if self._free_pages else bytearray(PAGE_BYTES)
            size = self._read_at(self._bytes_read, memoryview(page)[: self._size - self._bytes_read])
            if not size:
                break
            self._pass.add(self._file, memoryview(page)[:size])
            self._pages[self._bytes_read // PAGE_BYTES] = page
            self._bytes_read += size
            self._drop(needed)
        self._drop(needed)

    def _drop(self, needed: int) -> None:
        while self._pages and (first := next(iter(self._pages))) < needed // PAGE_BYTES:
            self._free_pages.append(self._pages.pop(first))

    def _read_at(self, place: int, into: memoryview) -> int:
        """Fill a buffer from an offset of the file; returns the number of bytes."""
        done = 0
        with read_errors(self._file.name):
            self._raw.seek(place)
            while done < len(into) and (size := self._raw.readinto(into[done:])):
                done += size
        return done

    def finish(self) -> None:
        """Read the rest of the file."""
        self._read_until(self._size, self._size)

    def close(self) -> None:
        self._raw.close()
        super().close()


@contextmanager
def arrow_file(
    file: InputFile, one_pass: Pass | None = None, groups: Callable[[], Sequence[int]] = tuple
) -> Iterator[pa.NativeFile]:
    """A file for Arrow's readers. On exit, all of its bytes have been added to the pass."""
    if file.keeps_content or one_pass is None or not one_pass.hashes:
        with file.arrow() as content:
            yield content
        if file.keeps_content and one_pass is not None:
            one_pass.add(file, file.content())
        return
    with InOrder(file, one_pass, groups()) as drawn, pa.PythonFile(drawn, mode="r") as content:
        yield content
        drawn.finish()
