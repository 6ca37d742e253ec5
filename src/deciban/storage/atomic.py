"""A file that is always there whole: written beside its place, flushed to disk, and moved there.

Whoever writes holds a lock on the file that stands there, so that writers, and those who read a model to write it back
changed, come one after the other. The lock is on the file itself: nothing stays behind.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

try:
    import fcntl
except ImportError:  # where there are no such locks, the last to write wins
    fcntl = None  # type: ignore[assignment]

LONGEST = 255  # bytes of a file's name, nearly everywhere

# What this thread holds: the place, and the open files whose locks are on what stands or stood there.
_held: dict[tuple[int, Path], list[int]] = {}


@contextmanager
def exclusively(path: str | os.PathLike[str], waiting: Callable[[], object] | None = None) -> Iterator[None]:
    """Nobody else writes the file, or is in such a block about it: for reading it and writing it back changed.

    `waiting` is called if someone else is at it, before waiting until they are done. Within a block in the same thread,
    a further one waits for nothing.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "counter")
    ...     _ = path.write_text("1")
    ...     with exclusively(path):
    ...         replace(path, lambda file: file.write(str(int(path.read_text()) + 1).encode()))
    ...     path.read_text()
    '2'
    """
    place = there(path)
    key = (threading.get_ident(), place)
    if key in _held:
        yield
        return
    found = locked(place, os.O_RDONLY, waiting)
    if found is None:
        raise FileNotFoundError(f"there is no file {str(place)!r}")
    _held[key] = [found]
    try:
        yield
    finally:
        for descriptor in _held.pop(key):
            os.close(descriptor)


def replace(path: str | os.PathLike[str], write: Callable[[BinaryIO], object]) -> None:
    """Put what `write` writes in a file's place, once it is on the disk: before that and on any error, the old stays.

    Where a link stands, what it points to is replaced. Permissions stay as they are; those of a new file are the usual.
    """
    place = there(path)
    if not place.parent.is_dir():
        raise FileNotFoundError(f"cannot write {place.name!r}: there is no folder {str(place.parent)!r}")
    if place.is_dir():
        raise IsADirectoryError(f"cannot write {str(place)!r}: it is a directory")
    if place.exists() and not place.is_file():  # a device, say
        raise OSError(f"cannot write {str(place)!r}: what stands there is not a regular file")
    with wait_for_others(place):
        temporary = beside(place)
        new = begun(temporary)
        try:
            with open(new, "wb", closefd=False) as file:
                file.truncate()
                write(file)
                file.flush()
                as_before(new, place)
                os.fsync(new)
            os.replace(temporary, place)
        except BaseException:
            with suppress(OSError):  # what went wrong is what matters
                temporary.unlink()
            os.close(new)
            raise
        # The new file is locked. Whoever holds the place goes on holding it; otherwise it is free from here on.
        holding = _held.get((threading.get_ident(), place))
        if holding is None:
            os.close(new)
        else:
            holding.append(new)
    flush_folder(place.parent)


def there(path: str | os.PathLike[str]) -> Path:
    """The place itself, where links lead."""
    return Path(os.path.realpath(os.fsdecode(path)))


def beside(place: Path) -> Path:
    """Where the new file grows: one name, so that what a killed writer left is taken by the next."""
    name = f".{place.name}.new"
    if len(os.fsencode(name)) > LONGEST:
        name = f".{hashlib.sha256(os.fsencode(place.name)).hexdigest()}.new"
    return place.with_name(name)


@contextmanager
def wait_for_others(place: Path) -> Iterator[None]:
    """Until nobody else holds what stands there, if something does and this thread does not hold it already."""
    if (threading.get_ident(), place) in _held:
        yield
        return
    found = None
    with suppress(PermissionError):  # a file that may not be read may still be replaced
        found = locked(place, os.O_RDONLY)
    try:
        yield
    finally:
        if found is not None:
            os.close(found)


def locked(path: Path, flags: int, waiting: Callable[[], object] | None = None) -> int | None:
    """The file at this path, open and locked; None if there is none."""
    flags |= getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    while True:
        try:
            descriptor = os.open(path, flags, 0o600)
        except FileNotFoundError:
            return None
        try:
            lock(descriptor, waiting)
            if same_file(descriptor, path):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # it was replaced or taken away while we waited: the lock is on what is no longer there
        waiting = None


def lock(descriptor: int, waiting: Callable[[], object] | None) -> None:
    if fcntl is None:
        return
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if waiting is not None:
                waiting()
            fcntl.flock(descriptor, fcntl.LOCK_EX)
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.EBADF, errno.EINVAL, errno.ENOSYS):
            raise  # the others say that this file system has no such locks: the last to write wins


def same_file(descriptor: int, path: Path) -> bool:
    """Whether the open file is still the one at this path."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.lstat(path))
    except FileNotFoundError:
        return False


def begun(temporary: Path) -> int:
    """The file that grows beside the place, open and locked, and ours.

    In a folder where others write too, somebody may have put a file of theirs there, or another name of one of ours.
    """
    with suppress(FileNotFoundError):
        left = os.lstat(temporary)  # by a writer that was killed, as read-only as what it was to replace
        if stat.S_ISREG(left.st_mode) and not left.st_mode & stat.S_IWUSR and left.st_uid == own_user():
            os.chmod(temporary, 0o600)
    new = locked(temporary, os.O_RDWR | os.O_CREAT)
    if new is None:
        raise FileNotFoundError(f"cannot write into {str(temporary.parent)!r}: files cannot be made there")
    status = os.fstat(new)
    if status.st_uid != own_user() or status.st_nlink != 1 or not stat.S_ISREG(status.st_mode):
        os.close(new)
        raise PermissionError(f"{str(temporary)!r} is in the way, and is not ours: remove it")
    return new


def own_user() -> int:
    return os.geteuid() if hasattr(os, "geteuid") else 0


def as_before(descriptor: int, place: Path) -> None:
    """Owner and permissions of the file that is replaced, or those of any new file."""
    if not hasattr(os, "fchmod"):
        return
    if place.exists():
        old = place.stat()
        with suppress(PermissionError):  # only root gives files away
            os.fchown(descriptor, old.st_uid, old.st_gid)
        os.fchmod(descriptor, stat.S_IMODE(old.st_mode) & 0o777)
    else:
        os.fchmod(descriptor, 0o666 & ~umask())


def umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def flush_folder(folder: Path) -> None:
    """The folder's new entry, on the disk, where folders can be opened."""
    if hasattr(os, "O_DIRECTORY"):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
