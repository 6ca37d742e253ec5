"""Atomic replacement of a file: written to a temporary file, flushed to disk, and renamed.

Writers lock the file that they replace, so that writers, and those who read a model to write it back changed, take
turns. The lock is on the file itself: no lock file is left behind.
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

from deciban.errors import WriteError, did_you_mean_file

try:
    import fcntl
except ImportError:  # no such locks on this system: the last writer wins
    fcntl = None  # type: ignore[assignment]

MAX_NAME_BYTES = 255  # the limit on nearly all file systems

# Held locks: (thread, path) → descriptors of the files that are or were at this path.
_held: dict[tuple[int, Path], list[int]] = {}


@contextmanager
def exclusively(path: str | os.PathLike[str], waiting: Callable[[], object] | None = None) -> Iterator[None]:
    """Exclusive access to a file, for reading it and writing it back changed.

    `waiting` is called if another process or thread holds the file, before waiting for it. Reentrant within a thread.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "counter")
    ...     _ = path.write_text("1")
    ...     with exclusively(path):
    ...         replace(path, lambda file: file.write(str(int(path.read_text()) + 1).encode()))
    ...     path.read_text()
    '2'
    """
    place = resolved(path)
    key = (threading.get_ident(), place)
    if key in _held:
        yield
        return
    opened = open_locked(place, os.O_RDONLY, waiting)
    if opened is None:
        name = os.fsdecode(path)
        raise FileNotFoundError(f"there is no file {name!r}: {did_you_mean_file(name, 'check its name')}")
    _held[key] = [opened]
    try:
        yield
    finally:
        for descriptor in _held.pop(key):
            os.close(descriptor)


def replace(path: str | os.PathLike[str], write: Callable[[BinaryIO], object]) -> None:
    """Replace a file with what `write` writes, once it is on disk; until then, and on any error, the old file stays.

    A WriteError states which: even then the new file may be in place, with its name not yet safely on disk. A symbolic
    link is followed, and its target replaced. Permissions are kept; a new file gets the default ones.
    """
    place = resolved(path)
    if not place.parent.is_dir():
        raise FileNotFoundError(f"cannot write {place.name!r}: there is no folder {str(place.parent)!r}")
    if place.is_dir():
        raise IsADirectoryError(f"cannot write {str(place)!r}: it is a directory")
    if place.exists() and not place.is_file():  # such as a device
        raise OSError(f"cannot write {str(place)!r}: it is not a regular file")
    with write_errors(place), locked_against_others(place):
        temporary = temporary_path(place)
        new = open_temporary(temporary)
        try:
            with open(new, "wb", closefd=False) as file:
                file.truncate()
                write(file)
                file.flush()
                copy_permissions(new, place)
                os.fsync(new)
            os.replace(temporary, place)
        except BaseException:
            with suppress(OSError):  # keep the original error
                temporary.unlink()
            os.close(new)
            raise
        # The new file is locked. If this thread holds the path, it keeps the lock; otherwise it is released here.
        holding = _held.get((threading.get_ident(), place))
        if holding is None:
            os.close(new)
        else:
            holding.append(new)
    flush_folder(place)


@contextmanager
def write_errors(place: Path) -> Iterator[None]:
    """Turn disk errors into a WriteError; those about permissions and names are clear enough."""
    try:
        yield
    except (PermissionError, FileNotFoundError, IsADirectoryError):
        raise
    except OSError as error:
        if error.errno is None:  # our own
            raise
        advice = "free some space" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "check the disk"
        raise WriteError(
            "cannot write {file!r}: {problem}; nothing was lost, and the old file is unchanged: {advice}, and write "
            "it again",
            file=str(place),
            problem=error.strerror,
            advice=advice,
            errno=error.errno,
        ) from error


def resolved(path: str | os.PathLike[str]) -> Path:
    """The path with symbolic links resolved."""
    return Path(os.path.realpath(os.fsdecode(path)))


def temporary_path(place: Path) -> Path:
    """The path of the temporary file: always the same, so that a killed writer's leftover is reused by the next."""
    name = f".{place.name}.new"
    if len(os.fsencode(name)) > MAX_NAME_BYTES:
        name = f".{hashlib.sha256(os.fsencode(place.name)).hexdigest()}.new"
    return place.with_name(name)


@contextmanager
def locked_against_others(place: Path) -> Iterator[None]:
    """Hold the lock of an existing file while it is replaced, unless this thread already has it."""
    if (threading.get_ident(), place) in _held:
        yield
        return
    descriptor = None
    with suppress(PermissionError):  # an unreadable file may still be replaced
        descriptor = open_locked(place, os.O_RDONLY)
    try:
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)


def open_locked(path: Path, flags: int, waiting: Callable[[], object] | None = None) -> int | None:
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
        os.close(descriptor)  # replaced or removed while we waited: this lock is on the old file
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
            raise  # otherwise this file system has no such locks: the last writer wins


def same_file(descriptor: int, path: Path) -> bool:
    """Whether the open file is still the one at this path."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.lstat(path))
    except FileNotFoundError:
        return False


def open_temporary(temporary: Path) -> int:
    """The temporary file, open and locked, and checked to be ours.

    In a shared folder, others may have put a file of their own there, or a hard link to one of ours.
    """
    with suppress(FileNotFoundError):
        leftover = os.lstat(temporary)  # by a killed writer, read-only like the file it should replace
        if (
            stat.S_ISREG(leftover.st_mode)
            and not leftover.st_mode & stat.S_IWUSR
            and leftover.st_uid == effective_user()
        ):
            os.chmod(temporary, 0o600)
    new = open_locked(temporary, os.O_RDWR | os.O_CREAT)
    if new is None:
        raise FileNotFoundError(f"cannot write into {str(temporary.parent)!r}: no files can be created there")
    status = os.fstat(new)
    if status.st_uid != effective_user() or status.st_nlink != 1 or not stat.S_ISREG(status.st_mode):
        os.close(new)
        raise PermissionError(f"{str(temporary)!r} exists and was not created by deciban: remove it")
    return new


def effective_user() -> int:
    return os.geteuid() if hasattr(os, "geteuid") else 0


def copy_permissions(descriptor: int, place: Path) -> None:
    """Copy owner and permissions from the replaced file, or apply the umask to a new one."""
    if not hasattr(os, "fchmod"):
        return
    if place.exists():
        old = place.stat()
        with suppress(PermissionError):  # only root may change owners
            os.fchown(descriptor, old.st_uid, old.st_gid)
        os.fchmod(descriptor, stat.S_IMODE(old.st_mode) & 0o777)
    else:
        os.fchmod(descriptor, 0o666 & ~umask())


def umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def flush_folder(place: Path) -> None:
    """Flush the folder's new entry for a file to disk, if folders can be opened and flushed."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    try:
        descriptor = os.open(place.parent, os.O_RDONLY | os.O_DIRECTORY)
    except PermissionError:  # a folder may be writable but not readable
        return
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.ENOTSUP, errno.ENOSYS, errno.EBADF):
            return  # this file system cannot flush folders
        raise WriteError(
            "{file!r} was written, but its folder cannot be flushed to disk ({problem}), so a power cut may bring "
            "back the old file: check the disk, and do not repeat the command",
            file=str(place),
            problem=error.strerror,
            errno=error.errno,
            written=True,
        ) from error
    finally:
        os.close(descriptor)
