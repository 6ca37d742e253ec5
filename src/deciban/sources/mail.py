"""Mail: mbox files, Maildir folders, and files with one message each."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from pathlib import Path

from deciban.sources.input_file import CountedFile, InputFile, Pass, read_errors
from deciban.text.mail.folders import LINE_BYTES, files, split_file

HEAD_BYTES = 1 << 14  # of a file, in which mail is detected
TRANSPORT_HEADER = re.compile(rb"^(?:Received|Return-Path|Delivered-To|X-Original-To):", re.IGNORECASE | re.MULTILINE)
MBOX_START = b"From "


def is_maildir(folder: Path) -> bool:
    return any((folder / name).is_dir() for name in ("cur", "new"))


def looks_like_mail(beginning: bytes) -> bool:
    """Whether a file is delivered mail: an mbox, or a header of mail transport. News posts are texts."""
    header = re.split(rb"\r?\n\r?\n", beginning, maxsplit=1)[0]
    return beginning.startswith(MBOX_START) or TRANSPORT_HEADER.search(header) is not None


def is_mail(path: Path) -> bool:
    """Whether a file or a folder holds mail, by its first file."""
    if path.is_dir():
        if is_maildir(path):
            return True
        first = next(mail_files(path), None)
        return first is not None and is_mail(first)
    if path.suffix.lower() in (".eml", ".mbox"):
        return True
    return path.suffix.lower() != ".txt" and looks_like_mail(InputFile(path).peek(HEAD_BYTES))


def mail_files(folder: Path) -> Iterator[Path]:
    """The files of a folder that hold mail."""
    return files(folder, set())


def mails(file: InputFile, one_pass: Pass) -> Iterator[tuple[str, str]]:
    """The raw messages of a file, and their names. Latin-1 preserves every byte, and is what mail.read takes."""
    assert file.path is not None
    with read_errors(file.name), io.BufferedReader(CountedFile(file, one_pass), LINE_BYTES) as stream:
        several = stream.peek(len(MBOX_START)).startswith(MBOX_START)
        for number, raw in enumerate(split_file(stream, file.path), 1):
            yield raw.decode("latin-1"), f"{file.name}#{number}" if several else file.name
