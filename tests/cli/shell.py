"""The command line as people meet it: in a process of its own, on a terminal; and in this process, which is quicker."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import re
import select
import shutil
import struct
import subprocess
import sys
import termios
import time
from dataclasses import dataclass
from pathlib import Path

from deciban.cli.run import run

PATIENCE = 120  # seconds: what takes longer on the busiest of machines hangs
COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
# What programs read to find out whether there is somebody to show colours to, and how much room there is.
ABOUT_TERMINALS = (
    "NO_COLOR",
    "FORCE_COLOR",
    "PY_COLORS",
    "GITHUB_ACTIONS",
    "COLUMNS",
    "LINES",
    "TERM",
    "TTY_COMPATIBLE",
)


@dataclass(frozen=True)
class Done:
    """What came of a command."""

    code: int
    out: str
    err: str

    def json(self):
        return json.loads(self.out)


def environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in (*ABOUT_TERMINALS, "DECIBAN_TRACEBACK")}
    return {**kept, "OPENBLAS_NUM_THREADS": "1", "TERM": "xterm-256color", **more}


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "deciban", *map(str, arguments)]


def deciban(*arguments: object, cwd: Path, given: str | bytes = b"", **variables: str) -> Done:
    """A command in a process of its own, with `given` on standard input."""
    data = given.encode() if isinstance(given, str) else given
    done = subprocess.run(
        command(*arguments),
        cwd=cwd,
        env=environment(**variables),
        input=data,
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )
    return Done(done.returncode, done.stdout.decode(), done.stderr.decode())


def well(done: Done) -> Done:
    """Done, and without complaints."""
    assert done.code == 0, done.err
    assert "Traceback" not in done.err
    return done


class Inside:
    """Commands in this process, one folder being the current one."""

    def __init__(self, capsys, folder: Path) -> None:
        self.capsys, self.folder = capsys, folder

    def __call__(self, *arguments: object) -> Done:
        self.capsys.readouterr()
        with contextlib.chdir(self.folder):
            code = run([str(argument) for argument in arguments])
        return Done(code, *self.capsys.readouterr())


def on_a_terminal(*arguments: object, cwd: Path, width: int, **variables: str) -> tuple[int, str]:
    """A command on a terminal so many characters wide: its exit code, and what was sent to the screen."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
    child = subprocess.Popen(
        command(*arguments), cwd=cwd, env=environment(**variables), stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    said, end = b"", time.monotonic() + PATIENCE
    try:
        while time.monotonic() < end:
            if select.select([ours], [], [], 0.1)[0]:
                try:
                    more = os.read(ours, 65536)
                except OSError:  # the other side was closed: how Linux says that this is the end
                    break
                if not more:
                    break
                said += more
        code = child.wait(timeout=PATIENCE)
    finally:
        child.kill()
        child.wait()
        os.close(ours)
    return code, said.decode()


def lines_of(screen: str) -> list[str]:
    """What is left to read: without colours, and of lines that were drawn over (progress) the last."""
    return [line.rsplit("\r", 1)[-1] for line in COLOUR.sub("", screen).replace("\r\n", "\n").splitlines()]


def everything_in(folder: Path) -> dict[str, bytes | None]:
    """The content of a folder and of all below it."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


def copy(path: Path, folder: Path) -> Path:
    return Path(shutil.copy(path, folder))
