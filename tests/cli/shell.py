"""The command line in a subprocess, on a terminal, and in this process, which is quicker."""

from __future__ import annotations

import contextlib
import fcntl
import io
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

import pytest

from deciban.cli.run import run

TIMEOUT_SECONDS = 120  # seconds: a command that takes longer hangs
ANSI_CODE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
# Environment variables about colours and the size of the terminal.
TERMINAL_VARIABLES = (
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
class CommandResult:
    """The result of a command."""

    code: int
    out: str
    err: str

    def json(self):
        return json.loads(self.out)


def environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in (*TERMINAL_VARIABLES, "DECIBAN_TRACEBACK")}
    return {**kept, "OPENBLAS_NUM_THREADS": "1", "TERM": "xterm-256color", **more}


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "deciban", *map(str, arguments)]


def deciban(*arguments: object, cwd: Path, given: str | bytes = b"", **variables: str) -> CommandResult:
    """A command in a process of its own, with `given` on standard input."""
    data = given.encode() if isinstance(given, str) else given
    done = subprocess.run(
        command(*arguments),
        cwd=cwd,
        env=environment(**variables),
        input=data,
        capture_output=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    return CommandResult(done.returncode, done.stdout.decode(), done.stderr.decode())


def succeeded(result: CommandResult) -> CommandResult:
    """Check that a command succeeded without warnings."""
    assert result.code == 0, result.err
    assert "Traceback" not in result.err
    return result


class InProcess:
    """Commands in this process, one folder being the current one."""

    def __init__(self, capsys, folder: Path) -> None:
        self.capsys, self.folder = capsys, folder

    def __call__(self, *arguments: object, given: str | bytes | None = None) -> CommandResult:
        """The result, with `given` on standard input."""
        self.capsys.readouterr()
        with contextlib.chdir(self.folder), pytest.MonkeyPatch.context() as patch:
            if given is not None:
                data = given.encode() if isinstance(given, str) else given
                patch.setattr("sys.stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(data))))
            code = run([str(argument) for argument in arguments])
        return CommandResult(code, *self.capsys.readouterr())


def on_a_terminal(*arguments: object, cwd: Path, width: int, **variables: str) -> tuple[int, str]:
    """A command on a terminal so many characters wide: its exit code, and what was sent to the screen."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
    child = subprocess.Popen(
        command(*arguments), cwd=cwd, env=environment(**variables), stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    output, end = b"", time.monotonic() + TIMEOUT_SECONDS
    try:
        while time.monotonic() < end:
            if select.select([ours], [], [], 0.1)[0]:
                try:
                    more = os.read(ours, 65536)
                except OSError:  # the other side was closed: end of file on Linux
                    break
                if not more:
                    break
                output += more
        code = child.wait(timeout=TIMEOUT_SECONDS)
    finally:
        child.kill()
        child.wait()
        os.close(ours)
    return code, output.decode()


def visible_lines(screen: str) -> list[str]:
    """The visible text: without colours, and with overwritten progress lines dropped."""
    return [line.rsplit("\r", 1)[-1] for line in ANSI_CODE.sub("", screen).replace("\r\n", "\n").splitlines()]


def folder_contents(folder: Path) -> dict[str, bytes | None]:
    """The content of a folder and of all below it."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


def copied_to(path: Path, folder: Path) -> Path:
    return Path(shutil.copy(path, folder))
