"""Many mails: mbox files, Maildir folders, folders with a mail per file. One mail is in memory at a time."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any, BinaryIO

from deciban.errors import FileError
from deciban.text.mail.message import MAX_MAIL_BYTES, Mail, read
from deciban.text.mail.mime import FIELD, is_dated

if TYPE_CHECKING:
    from pathlib import Path

LINE_BYTES = 1 << 16  # read at a time if a line is longer
QUOTED = re.compile(rb"^>(>*From )", re.MULTILINE)
NOT_MAIL = ("cmds",)  # a file in the SpamAssassin corpus that is not mail


def read_mailbox(path: str | os.PathLike[str], headers: Collection[str] | None = None) -> Iterator[Mail]:
    """The mails at a path, one by one, whatever kind of file or folder it is.

    A file that starts with "From " is an mbox, any other (and any .eml) a single mail. A folder with `cur` or `new` in
    it is a Maildir. Of any other folder all files are read, in the order of their names, and those of the folders in
    it; hidden ones are skipped. Every folder is read once, even if links lead to it again. `headers` is as for `read`.

    A file that does not look like mail is an error, unless its name ends in .eml; an empty file is an empty mbox.

    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "inbox")
    ...     _ = path.write_text("From me Sat Jan  3 01:05:34 1996\\nSubject: One\\n\\n"
    ...                         "From me Sat Jan  3 01:05:35 1996\\nSubject: Two\\n\\n>From here\\n")
    ...     [(mail.subject, mail.body) for mail in read_mailbox(path)]
    [('One', ''), ('Two', 'From here\\n')]
    """
    from pathlib import Path  # a filter of single mails does without

    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"there is no mailbox {str(path)!r}")
    if not path.is_dir() and not path.is_file():
        raise FileError("{file!r} is neither a file nor a folder", file=str(path))
    return (read(raw, headers) for file in files(path, set()) for raw in split(file))


def files(path: Path, seen: set[tuple[int, int]]) -> Iterator[Path]:
    """The files that hold mail; `seen` are the folders that have been read."""
    if path.is_file():  # not a pipe, which would block
        yield path
    if not path.is_dir():
        return
    status = path.stat()
    if (status.st_dev, status.st_ino) in seen:
        return
    seen.add((status.st_dev, status.st_ino))
    maildir = [path / name for name in ("cur", "new") if (path / name).is_dir()]
    for inner in maildir or [path]:
        for name in sorted(os.listdir(inner)):
            if not name.startswith(".") and name not in NOT_MAIL:
                yield from files(inner / name, seen)


def split(path: Path) -> Iterator[bytes]:
    """The raw mails of a file."""
    with io.FileIO(path) as raw, io.BufferedReader(raw, LINE_BYTES) as file:
        yield from split_file(file, path)


def split_file(file: io.BufferedReader[Any], path: Path) -> Iterator[bytes]:
    """The raw mails of an open file, from its beginning to its end; `path` is its name."""
    beginning = file.peek(LINE_BYTES)
    first = beginning[: beginning.find(b"\n") + 1 or None]
    one = path.suffix.lower() == ".eml" or path.parent.name in ("cur", "new")
    if not one and (not first or first.startswith(b"From ")):
        yield from split_mbox(file)
        return
    if not one and not FIELD.match(first.removeprefix(b"\xef\xbb\xbf")):
        raise FileError(
            "{file!r} does not look like mail: its first line is {value!r}, not a header field such as 'Subject: …': "
            "if it is a mail, give it the extension .eml; if not, move it out of the folder",
            file=str(path),
            value=first[:40],
        )
    yield file.read(MAX_MAIL_BYTES)


def split_mbox(file: BinaryIO) -> Iterator[bytes]:
    """The mails of an mbox without the lines "From …" at their start.

    Bodies have lines that start with "From " too, and not every program quotes them. So two of three signs are
    required: a blank line before it, a date in it, a header field after it.
    """
    mail, begun, blank, whole = bytearray(), False, True, True
    line = file.readline(LINE_BYTES)
    while line:
        following = file.readline(LINE_BYTES)
        signs = 0
        if whole and line.startswith(b"From "):
            signs = blank + is_dated(line) + (FIELD.match(following) is not None)
        if signs >= 2 or not begun:
            if begun:
                yield unquoted(bytes(mail))
            mail, begun = bytearray(), True
        elif len(mail) < MAX_MAIL_BYTES:
            mail += line
        blank, whole = not line.strip(), line.endswith(b"\n")
        line = following
    if begun:
        yield unquoted(bytes(mail))


def unquoted(mail: bytes) -> bytes:
    """Without the blank line that ends a mail in an mbox, and with quoted ">From " lines restored."""
    for blank in (b"\n\n", b"\r\n\r\n"):
        if mail.endswith(blank):
            mail = mail[: -len(blank) // 2]
    return QUOTED.sub(rb"\1", mail)
