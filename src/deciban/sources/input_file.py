"""Files, and streams that can be read only once: decompressed, decoded to UTF-8, counted and hashed while read."""

from __future__ import annotations

import codecs
import errno
import hashlib
import io
import shutil
import stat
import sys
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from deciban.errors import DecibanError, FileError
from deciban.show import one_line

CHUNK_BYTES = 1 << 20
MAGIC = {b"\x1f\x8b": "gzip", b"BZh": "bz2", b"\x28\xb5\x2f\xfd": "zstd"}
UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class Pass:
    """One pass over files: the bytes read so far, and their hash per `group` of files."""

    def __init__(self, group: Callable[[InputFile], Any] | None = None) -> None:
        self.read = 0
        self._group = group  # None: no hashing
        self._hashes: dict[Any, Any] = {}

    def add(self, file: InputFile, data: bytes | memoryview) -> None:
        self.read += len(data)
        if self._group is not None:
            group = self._group(file)
            if group not in self._hashes:
                self._hashes[group] = hashlib.sha256()
            self._hashes[group].update(data)

    @property
    def hashes(self) -> bool:
        """Whether bytes are hashed."""
        return self._group is not None

    def digests(self) -> dict[Any, str]:
        """The SHA-256 of each group's bytes, in the order they were read."""
        return {group: hashed.hexdigest() for group, hashed in self._hashes.items()}


class Peeked(io.RawIOBase):
    """A stream whose first bytes can be peeked at."""

    def __init__(self, raw: Any, borrowed: bool = False) -> None:
        self._raw = raw
        self._borrowed = borrowed  # not ours to close
        self._ahead = b""

    def peek(self, size: int) -> bytes:
        while len(self._ahead) < size:
            more = self._raw.read(size - len(self._ahead))
            if not more:
                break
            self._ahead += more
        return self._ahead[:size]

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._ahead:
            return self._raw.readinto(buffer) or 0
        some = self._ahead[: len(buffer)]
        buffer[: len(some)] = some
        self._ahead = self._ahead[len(some) :]
        return len(some)

    def close(self) -> None:
        if not self._borrowed:
            self._raw.close()
            super().close()


class CountedFile(io.RawIOBase):
    """A file whose bytes are counted and hashed while they are read."""

    def __init__(self, file: InputFile, one_pass: Pass) -> None:
        self._raw, self._file, self._pass = file.open(), file, one_pass

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        size = self._raw.readinto(buffer) or 0
        self._pass.add(self._file, memoryview(buffer)[:size])
        return size

    def close(self) -> None:
        self._raw.close()
        super().close()


class InputFile:
    """A file by its path, or a stream (standard input, a pipe) that can be read once. `name` is for messages."""

    def __init__(self, path: Path | None, name: str | None = None) -> None:
        self.path = path
        self.name = one_line(name or str(path))
        self.size: int | None = None
        self.keeps_content = False  # in memory once read
        self._content: bytes | None = None
        self._live: Peeked | None = None
        if path is None:
            stream: Any = sys.stdin.buffer
            # Unbuffered: a buffer has a lock, which a waiting thread could hold when Python exits.
            self._live = Peeked(getattr(stream, "raw", stream), borrowed=True)
            return
        with read_errors(self.name):
            status = path.stat()
            if stat.S_ISREG(status.st_mode):
                self.size = status.st_size
            elif stat.S_ISDIR(status.st_mode):
                raise IsADirectoryError(errno.EISDIR, "", str(path))
            else:
                self._live = Peeked(path.open("rb", buffering=0))

    @classmethod
    def of_bytes(cls, content: bytes, name: str) -> InputFile:
        """A file whose bytes were received, and are nowhere on disk."""
        file = cls.__new__(cls)
        file.path, file.name, file.size = Path(name), one_line(name), len(content)
        file.keeps_content, file._content, file._live = True, content, None
        return file

    @property
    def rereadable(self) -> bool:
        """Whether it can be read more than once."""
        return self.size is not None

    def open(self) -> Peeked:
        if self._live is not None:
            return self._live
        assert self.path is not None
        with read_errors(self.name):
            if not self.keeps_content:
                return Peeked(self.path.open("rb", buffering=0))
            return Peeked(io.BytesIO(self.content()))

    def content(self) -> bytes:
        """All of its bytes, read only once if it keeps them."""
        assert self.path is not None
        if self._content is not None:
            return self._content
        with read_errors(self.name):
            content = self.path.read_bytes()
        if self.keeps_content:
            self._content = content
        return content

    def between(self, begin: int, end: int) -> bytes:
        """The bytes between two offsets."""
        if self.keeps_content:
            return self.content()[begin:end]
        assert self.path is not None
        with read_errors(self.name), self.path.open("rb") as file:
            file.seek(begin)
            return file.read(end - begin)

    def arrow(self) -> pa.NativeFile:
        """A file object for Arrow's readers, which seek."""
        with read_errors(self.name):
            return pa.BufferReader(self.content()) if self.keeps_content else pa.OSFile(str(self.path))

    def peek(self, size: int) -> bytes:
        """Its first bytes, without consuming them."""
        with read_errors(self.name):
            if self._live is not None:
                return self._live.peek(size)
            if self.keeps_content:
                return self.content()[:size]
            with self.open() as file:
                return file.peek(size)

    def spooled(self) -> InputFile:
        """The same bytes as a file, for formats that are not read sequentially."""
        if self.rereadable:
            return self
        spool = tempfile.NamedTemporaryFile(prefix="deciban-")  # noqa: SIM115 - it lives as long as the copy
        with read_errors(self.name):
            shutil.copyfileobj(self.open(), spool, CHUNK_BYTES)
            spool.flush()
        copy = InputFile(Path(spool.name), self.name)
        weakref.finalize(copy, spool.close)
        return copy


@contextmanager
def read_errors(name: str) -> Iterator[None]:
    """Turn errors of the operating system into a FileError with advice."""
    try:
        yield
    except DecibanError:
        raise
    except FileNotFoundError:
        raise FileError("there is no file {file}: check its name and folder", file=name) from None
    except IsADirectoryError:
        raise FileError("{file} is a folder, not a file: give the files in it, as in {file}/*", file=name) from None
    except PermissionError:
        raise FileError("no permission to read {file}: change its permissions (chmod u+r)", file=name) from None
    except OSError as error:
        raise FileError(
            "{file} cannot be read: {problem}", file=name, problem=one_line(error.strerror or str(error))
        ) from None


def read_through(files: Iterable[InputFile], one_pass: Pass) -> None:
    """Read files only to hash them."""
    for file in files:
        with read_errors(file.name), CountedFile(file, one_pass) as stream:
            while stream.read(CHUNK_BYTES):
                pass


# ---------------------------------------------------------------------- compression and encodings


class ByteStream(Protocol):
    """A source of UTF-8; `read` returns fewer bytes than requested only at the end."""

    def read(self, size: int) -> bytes: ...
    def close(self) -> None: ...


def open_text(file: InputFile, one_pass: Pass, encoding: str) -> ByteStream:
    """The text of a file as UTF-8 without a byte order mark, decompressed if needed."""
    raw = Peeked(CountedFile(file, one_pass))
    codec = compression(raw.peek(4))
    plain: Any = raw
    if codec is not None:
        plain = Peeked(Decompressed(pa.CompressedInputStream(pa.PythonFile(raw, mode="r"), codec), file.name, codec))
    beginning = plain.peek(3)
    if beginning.startswith(UTF_16):
        encoding = "utf-16"
    if is_utf_8(encoding):
        if beginning == codecs.BOM_UTF8:
            plain.read(3)
        return Filled(plain, file.name)
    return Recoded(plain, file.name, encoding)


def compression(beginning: bytes) -> str | None:
    return next((codec for magic, codec in MAGIC.items() if beginning.startswith(magic)), None)


def is_utf_8(encoding: str) -> bool:
    """Whether an encoding needs no conversion to UTF-8."""
    return codecs.lookup(encoding).name in ("utf-8", "utf-8-sig", "ascii")


class Decompressed(io.RawIOBase):
    """The decompressed bytes of a stream."""

    def __init__(self, stream: Any, name: str, codec: str) -> None:
        self._stream, self._name, self._codec = stream, name, codec

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            data = self._stream.read(len(buffer))
        except (OSError, pa.ArrowException) as error:
            raise FileError(
                "{file} is damaged: it starts like {codec} but cannot be unpacked ({problem}), so copy it again",
                file=self._name,
                codec=self._codec,
                problem=one_line(str(error).rstrip(".")),
            ) from None
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._stream.close()
        super().close()


class Filled:
    """Reads until it has as many bytes as requested: pipes return what they have."""

    def __init__(self, raw: io.RawIOBase, name: str) -> None:
        self._raw, self._name = raw, name

    def read(self, size: int) -> bytes:
        parts = []
        with read_errors(self._name):
            while size > 0 and (some := self._raw.read(size)):
                parts.append(some)
                size -= len(some)
        return b"".join(parts)

    def close(self) -> None:
        self._raw.close()


class Recoded(Filled):
    """Text of another encoding, converted to UTF-8."""

    def __init__(self, raw: io.RawIOBase, name: str, encoding: str) -> None:
        super().__init__(raw, name)
        self._encoding = encoding
        self._decoder = codecs.getincrementaldecoder(encoding)()
        self._pending = b""

    def read(self, size: int) -> bytes:
        at_end = False
        while len(self._pending) < size and not at_end:
            data = super().read(size)
            at_end = not data
            try:
                self._pending += self._decoder.decode(data, at_end).encode()
            except UnicodeError as error:
                raise DecibanError(
                    "{file} is not {encoding} ({kind}: {problem}): give its encoding (--encoding)",
                    file=self._name,
                    encoding=self._encoding,
                    kind=error.__class__.__name__,
                    problem=one_line(str(error)),
                ) from None
        out, self._pending = self._pending[:size], self._pending[size:]
        return out
