"""Mail: mbox files, Maildir folders, files with a mail each."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from pathlib import Path

from deciban.sources.input_file import InputFile, Pass, Watched, readable
from deciban.text.mail.folders import LINE_BYTES, files, split_file

LOOK = 1 << 14  # bytes of a file by which a mail is known
TRANSPORT = re.compile(rb"^(?:Received|Return-Path|Delivered-To|X-Original-To):", re.IGNORECASE | re.MULTILINE)
MBOX = b"From "


def is_maildir(folder: Path) -> bool:
    return any((folder / name).is_dir() for name in ("cur", "new"))


def looks_like_mail(beginning: bytes) -> bool:
    """Whether a file was carried as mail: an mbox, or a header that says who delivered it. News are texts."""
    header = re.split(rb"\r?\n\r?\n", beginning, maxsplit=1)[0]
    return beginning.startswith(MBOX) or TRANSPORT.search(header) is not None


def is_mail(path: Path) -> bool:
    """Whether a file or a folder holds mail, by its first file."""
    if path.is_dir():
        if is_maildir(path):
            return True
        first = next(mail_files(path), None)
        return first is not None and is_mail(first)
    if path.suffix.lower() in (".eml", ".mbox"):
        return True
    return path.suffix.lower() != ".txt" and looks_like_mail(InputFile(path).peek(LOOK))


def mail_files(folder: Path) -> Iterator[Path]:
    """The files of a folder that hold mail."""
    return files(folder, set())


def mails(file: InputFile, one_pass: Pass) -> Iterator[tuple[str, str]]:
    """The raw mails of a file, and what to call them. Latin-1 gives every byte back, and is what mail.read takes."""
    assert file.path is not None
    with readable(file.name), io.BufferedReader(Watched(file, one_pass), LINE_BYTES) as stream:
        several = stream.peek(len(MBOX)).startswith(MBOX)
        for number, raw in enumerate(split_file(stream, file.path), 1):
            yield raw.decode("latin-1"), f"{file.name}#{number}" if several else file.name
