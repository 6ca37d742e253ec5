"""Files for Arrow's readers, which go to and fro: read from disk once, in order, and so hashed in passing."""

from __future__ import annotations

import io
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa

from deciban.sources.input_file import InputFile, Pass, readable

PAGE = 1 << 18  # bytes that are drawn at a time
NEAR = 1 << 20  # bytes: a reader that skips more than this looks something up, such as the footer
MAX_KEPT = 1 << 28  # bytes of row groups that are kept for columns still to be read; further back, they are read again


class InOrder(io.RawIOBase):
    """A file that can be read at any place, while its bytes are drawn from the disk in their order.

    `groups` are the places where row groups begin, and where the last one ends. Columns of a group are read a little
    of each at a time, and of two groups where one ends, so that much is kept. Without `groups` nothing is.
    """

    def __init__(self, file: InputFile, one_pass: Pass, groups: Sequence[int] = ()) -> None:
        assert file.path is not None
        assert file.size is not None
        self._file, self._pass, self._groups, self._size = file, one_pass, groups, file.size
        with readable(file.name):
            self._raw = file.path.open("rb", buffering=0)
        self._at = 0
        self._drawn = 0  # how far the disk was read
        self._kept: dict[int, bytearray] = {}  # pages by their number, the last ones that were drawn
        self._spare: list[bytearray] = []  # pages to be filled again, which is quicker than new ones

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
            self._draw(end, max(needed, end - MAX_KEPT))
        view, at = memoryview(buffer), begin
        while at < end:
            number, offset = divmod(at, PAGE)
            size = min(end - at, PAGE - offset)
            if number in self._kept:
                view[at - begin : at - begin + size] = memoryview(self._kept[number])[offset : offset + size]
            else:
                size = self._read_at(at, view[at - begin : at - begin + size])
            if not size:  # it has become shorter meanwhile
                break
            at += size
        self._at = at
        return at - begin

    def _needed_from(self, at: int) -> int | None:
        """Where what is kept may begin once there is a read at this place; None where that is looked up apart."""
        if not self._groups:
            return at if at <= self._drawn + NEAR else None
        if at >= self._groups[-1]:
            return None
        return self._groups[max(0, bisect_right(self._groups, at) - 2)]

    def _draw(self, end: int, needed: int) -> None:
        """Read on to this place, page by page, and drop pages that end before `needed`."""
        while self._drawn < end:
            page = self._spare.pop() if self._spare else bytearray(PAGE)
            size = self._read_at(self._drawn, memoryview(page)[: self._size - self._drawn])
            if not size:
                break
            self._pass.add(self._file, memoryview(page)[:size])
            self._kept[self._drawn // PAGE] = page
            self._drawn += size
            self._drop(needed)
        self._drop(needed)

    def _drop(self, needed: int) -> None:
        while self._kept and (first := next(iter(self._kept))) < needed // PAGE:
            self._spare.append(self._kept.pop(first))

    def _read_at(self, place: int, into: memoryview) -> int:
        """Fill this from a place in the file; how much there was."""
        done = 0
        with readable(self._file.name):
            self._raw.seek(place)
            while done < len(into) and (size := self._raw.readinto(into[done:])):
                done += size
        return done

    def finish(self) -> None:
        """Draw what nobody has asked for."""
        self._draw(self._size, self._size)

    def close(self) -> None:
        self._raw.close()
        super().close()


@contextmanager
def arrow_file(
    file: InputFile, one_pass: Pass | None = None, groups: Callable[[], Sequence[int]] = tuple
) -> Iterator[pa.NativeFile]:
    """A file for Arrow's readers. Once they have read it to the end, all of its bytes are in the pass."""
    if file.keeps or one_pass is None or not one_pass.hashes:
        with file.arrow() as content:
            yield content
        if file.keeps and one_pass is not None:
            one_pass.add(file, file.content())
        return
    with InOrder(file, one_pass, groups()) as drawn, pa.PythonFile(drawn, mode="r") as content:
        yield content
        drawn.finish()
