"""Atomic replacement: links, permissions, full disks, concurrent writers."""

from __future__ import annotations

import errno
import os
import pickle
import stat
import subprocess
import sys
import threading

import pytest

from deciban.errors import WriteError
from deciban.storage import atomic
from deciban.storage.atomic import exclusively, replace

as_others = pytest.mark.skipif(os.geteuid() == 0, reason="root may do everything")


@pytest.fixture
def place(tmp_path):
    return tmp_path / "model.deciban"


def put(place, content=b"new"):
    replace(place, lambda file: file.write(content))


def folder_entries(place):
    return sorted(p.name for p in place.parent.iterdir())


def test_permissions_stay_and_new_files_have_the_usual_ones(place):
    old = os.umask(0o027)
    try:
        put(place)
        assert stat.S_IMODE(place.stat().st_mode) == 0o640
        for mode in (0o600, 0o444, 0o664):
            place.chmod(mode)
            put(place, b"again")
            assert stat.S_IMODE(place.stat().st_mode) == mode
    finally:
        os.umask(old)
    assert folder_entries(place) == [place.name]


def test_what_a_killed_writer_left_is_taken_over(place):
    put(place, b"old")
    atomic.temporary_path(place).write_bytes(b"half of something")
    atomic.temporary_path(place).chmod(0o444)
    put(place)
    assert place.read_bytes() == b"new"
    assert folder_entries(place) == [place.name]


def test_a_link_stays_and_what_it_points_to_is_replaced(place, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    target = tmp_path / "elsewhere" / "model"
    place.symlink_to(target)
    for content in (b"one", b"two"):  # also where nothing was there yet
        put(place, content)
        assert place.is_symlink()
        assert target.read_bytes() == content
    assert folder_entries(target) == ["model"]


def test_an_error_leaves_the_old_file_and_nothing_else(place):
    put(place, b"old")

    def full(file):
        file.write(b"x" * 100_000)
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        replace(place, full)
    assert place.read_bytes() == b"old"
    assert folder_entries(place) == [place.name]
    put(place)  # no lock is left either
    assert place.read_bytes() == b"new"


FULL_DISK_SCRIPT = """
import resource, sys
from deciban.storage.atomic import replace
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
try:
    replace(sys.argv[1], lambda file: file.write(bytes(100_000)))
except OSError as error:
    print(error)
"""


def test_a_disk_that_takes_no_more(place):
    """With the system's error, in a process with a limit on file size."""
    put(place, b"old")
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK_SCRIPT, place], capture_output=True, text=True, timeout=300, check=True
    )
    assert "too large" in done.stdout
    assert place.read_bytes() == b"old"
    assert folder_entries(place) == [place.name]


def failing(call, fails, number):
    """A system call that fails where `fails(arguments)` is true."""

    def instead(*arguments):
        if fails(*arguments):
            raise OSError(number, os.strerror(number))
        return call(*arguments)

    return instead


def is_folder(descriptor):
    return stat.S_ISDIR(os.fstat(descriptor).st_mode)


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_an_error_before_the_new_file_is_in_place_says_that_nothing_was_lost(place, monkeypatch, call):
    put(place, b"old")
    monkeypatch.setattr(os, call, failing(getattr(os, call), lambda *_: True, errno.ENOSPC))
    with pytest.raises(WriteError) as raised:
        put(place)
    assert str(raised.value) == (
        f"cannot write {str(place)!r}: No space left on device; nothing was lost, and the old file is "
        "unchanged: free some space, and write it again"
    )
    assert (raised.value.written, raised.value.errno, raised.value.file) == (False, errno.ENOSPC, str(place))
    assert place.read_bytes() == b"old"
    assert folder_entries(place) == [place.name]


def test_an_error_after_the_new_file_is_in_place_says_so(place, monkeypatch):
    put(place, b"old")
    monkeypatch.setattr(os, "fsync", failing(os.fsync, is_folder, errno.EIO))
    with pytest.raises(WriteError, match="was written") as raised:
        put(place)
    assert (raised.value.written, raised.value.errno, raised.value.file) == (True, errno.EIO, str(place))
    assert isinstance(raised.value, OSError)
    again = pickle.loads(pickle.dumps(raised.value))
    assert (str(again), again.written, again.errno) == (str(raised.value), True, errno.EIO)
    assert place.read_bytes() == b"new"
    assert folder_entries(place) == [place.name]


@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOTSUP])
def test_a_file_system_that_flushes_no_folders(place, monkeypatch, number):
    monkeypatch.setattr(os, "fsync", failing(os.fsync, is_folder, number))
    put(place)
    assert place.read_bytes() == b"new"


def test_a_folder_that_may_be_written_and_not_read(place, monkeypatch):
    def open_file(path, flags, *mode):
        if flags & os.O_DIRECTORY:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return original(path, flags, *mode)

    original = os.open
    monkeypatch.setattr(os, "open", open_file)
    put(place)
    assert place.read_bytes() == b"new"


@as_others
def test_a_folder_that_is_read_only(place):
    put(place, b"old")
    place.parent.chmod(0o555)
    try:
        with pytest.raises(PermissionError):
            put(place)
    finally:
        place.parent.chmod(0o755)
    assert place.read_bytes() == b"old"


def test_places_that_cannot_be_written(place, tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        put(tmp_path / "nowhere" / "model")
    with pytest.raises(IsADirectoryError, match="directory"):
        put(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="not a regular file"):
        put(tmp_path / "pipe")
    with pytest.raises(FileNotFoundError), exclusively(place):
        pass
    put(tmp_path / ("x" * 255))  # a name that is too long to be extended
    assert folder_entries(place) == ["pipe", "x" * 255]


def test_what_others_put_in_the_way_is_left_alone(place, tmp_path):
    """In a shared folder: neither a symbolic nor a hard link to one of our files."""
    precious = tmp_path / "precious"
    precious.write_bytes(b"precious")
    atomic.temporary_path(place).symlink_to(precious)
    with pytest.raises(OSError, match=r"model\.deciban"):
        put(place)
    atomic.temporary_path(place).unlink()
    os.link(precious, atomic.temporary_path(place))
    with pytest.raises(PermissionError, match="not created by deciban"):
        put(place)
    assert precious.read_bytes() == b"precious"
    assert not place.exists()


def test_a_block_waits_for_another_and_for_writers(place):
    put(place, b"0")
    order, inside, may_leave = [], threading.Event(), threading.Event()

    def first():
        with exclusively(place), exclusively(place):  # reentrant within a thread
            inside.set()
            may_leave.wait(60)
            put(place, b"1")
            put(place, b"2")  # the new file is locked too
            order.append("first")

    def second():
        with exclusively(place, lambda: order.append("waited")):
            order.append(place.read_bytes().decode())

    def third():
        put(place, b"3")
        order.append("third")

    threads = [threading.Thread(target=work) for work in (first, second, third)]
    threads[0].start()
    assert inside.wait(60)
    threads[1].start()
    while "waited" not in order:
        pass
    threads[2].start()
    assert place.read_bytes() == b"0"
    may_leave.set()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "a deadlock"
    assert order[:2] == ["waited", "first"]
    assert sorted(order[2:]) in (["2", "third"], ["3", "third"])  # never the old state, or one in between
    assert folder_entries(place) == [place.name]


ADD_SCRIPT = """
import sys
from pathlib import Path
from deciban.storage.atomic import exclusively, replace
place = Path(sys.argv[1])
for _ in range(50):
    with exclusively(place):
        number = int(place.read_text())
        replace(place, lambda file: file.write(str(number + 1).encode()))
"""


def test_processes_that_change_one_file_at_once_lose_nothing(place):
    place.write_text("0")
    processes = [subprocess.Popen([sys.executable, "-c", ADD_SCRIPT, place]) for _ in range(3)]
    assert [process.wait(300) for process in processes] == [0, 0, 0]
    assert place.read_text() == "150"
    assert folder_entries(place) == [place.name]


def test_without_locks_files_are_still_whole(place, monkeypatch):
    monkeypatch.setattr(atomic, "fcntl", None)
    put(place, b"old")
    with exclusively(place):
        put(place)
    assert place.read_bytes() == b"new"
