"""Texts and mails: a file each, a line each, or many in a mailbox; with a label, if the folder or a person says it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pyarrow as pa

from deciban.errors import DecibanError, FileError
from deciban.show import one_line
from deciban.sources.base import Kind, Piece, Source
from deciban.sources.blocks import Lines, in_blocks
from deciban.sources.csv_cells import strings
from deciban.sources.input_file import Place, Tally, hash_files, opened, readable
from deciban.text.mail.folders import files as mail_files
from deciban.text.mail.folders import split as split_mail

TEXT = 1 << 24  # characters of a batch: documents may be long
LOOK = 1 << 14  # bytes of a file by which a mail is known
TRANSPORT = re.compile(rb"^(?:Received|Return-Path|Delivered-To|X-Original-To):", re.IGNORECASE | re.MULTILINE)

How = Literal["file", "lines", "mail"]


@dataclass(frozen=True, slots=True)
class Shelf:
    """A place with documents: a file is one, or each of its lines is, or it holds mail; and their label, if any."""

    place: Place
    how: How
    label: str | None = None


class Texts(Source):
    """Documents in files."""

    def __init__(self, name: str, kind: Kind, shelves: Sequence[Shelf], encoding: str) -> None:
        super().__init__(name, kind, [shelf.place for shelf in shelves])
        self._shelves = list(shelves)
        self._encoding = encoding
        labelled = any(shelf.label is not None for shelf in shelves)
        self.columns = ("text", "label") if labelled else ("text",)
        self.types = {column: pa.string() for column in self.columns}

    def digests(self) -> list[str]:
        """The SHA-256 of all files under one label, and the label: folders have too many files to name them all."""
        labels = sorted({shelf.label or "" for shelf in self._shelves})
        if self.size is None:
            return []
        mine = [[shelf.place for shelf in self._shelves if (shelf.label or "") == label] for label in labels]
        return [f"{hash_files(places)} {label}".rstrip() for places, label in zip(mine, labels, strict=True)]

    def _pieces(self, rows: int, tally: Tally) -> Iterator[Piece]:
        batch: list[Document] = []
        size = 0
        for shelf in self._shelves:
            for document in self._documents(shelf, tally):
                batch.append(document)
                size += len(document.text)
                if len(batch) >= rows or size >= TEXT:
                    yield self._piece(batch, tally)
                    batch, size = [], 0
        if batch:
            yield self._piece(batch, tally)

    def _piece(self, batch: list[Document], tally: Tally) -> Piece:
        columns = {"text": strings([document.text for document in batch], pa.string())}
        if "label" in self.columns:
            columns["label"] = strings([document.label or "" for document in batch], pa.string())
        names = [document.name or document.file for document in batch]
        numbered = all(document.name is None for document in batch)
        return Piece(pa.table(columns), batch[0].file, tally.read, None if numbered else names)

    def _documents(self, shelf: Shelf, tally: Tally) -> Iterator[Document]:
        place, label = shelf.place, shelf.label
        if shelf.how == "lines":
            for text in self._lines(place, tally):
                yield Document(text, label, None, place.name)
        elif shelf.how == "file":
            yield Document(self._whole(place, tally), label, place.name, place.name)
        else:
            assert place.path is not None
            with readable(place.name), place.open() as file:
                while data := file.read(1 << 20):
                    tally.add(data)
            several = place.peek(5) == b"From "
            for number, raw in enumerate(split_mail(place.path), 1):
                # Latin-1 gives every byte back, and is what mail.read takes a text for.
                yield Document(
                    raw.decode("latin-1"), label, f"{place.name}#{number}" if several else place.name, place.name
                )

    def _whole(self, place: Place, tally: Tally) -> str:
        stream = opened(place, tally, self._encoding)
        data = b""
        while more := stream.read(1 << 20):
            data += more
        stream.close()
        return as_text(data, place.name, 1)

    def _lines(self, place: Place, tally: Tally) -> Iterator[str]:
        """The lines without their ends, as `deciban.text.Lines` has them."""
        stream = opened(place, tally, self._encoding)
        for block in in_blocks(stream, tally, Lines(), place.name):
            for line in as_text(block.data.removesuffix(b"\n"), place.name, block.line).split("\n"):
                yield line.removesuffix("\r")


@dataclass(frozen=True, slots=True)
class Document:
    text: str
    label: str | None
    name: str | None
    file: str


def as_text(data: bytes, name: str, line: int) -> str:
    if b"\0" in data:
        line += data[: data.find(b"\0")].count(b"\n")
        raise FileError(f"line {line} of {name} holds a NUL byte, which no text has: leave the file out")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line += data.count(b"\n", 0, error.start)
        raise FileError(
            f"line {line} of {name} is not UTF-8 (byte 0x{data[error.start]:02x}): give the encoding that it was "
            "written in, as in --encoding latin-1"
        ) from None


# ---------------------------------------------------------------------- what is in folders


def is_maildir(folder: Path) -> bool:
    return any((folder / name).is_dir() for name in ("cur", "new"))


def looks_like_mail(beginning: bytes) -> bool:
    """Whether a file was carried as mail: an mbox, or a header that says who delivered it. News are texts."""
    header = re.split(rb"\r?\n\r?\n", beginning, maxsplit=1)[0]
    return beginning.startswith(b"From ") or TRANSPORT.search(header) is not None


def is_mail(path: Path) -> bool:
    """Whether a file or a folder holds mail, by its first file."""
    if path.is_dir():
        if is_maildir(path):
            return True
        first = next(mail_files(path, set()), None)
        return first is not None and is_mail(first)
    if path.suffix.lower() in (".eml", ".mbox"):
        return True
    return path.suffix.lower() != ".txt" and looks_like_mail(Place(path).peek(LOOK))


def text_files(folder: Path) -> list[Path]:
    """All files in a folder and in those within, by name; hidden ones are passed over."""
    found = []
    for top, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        found += [Path(top, name) for name in names if not name.startswith(".")]
    return sorted(path for path in found if path.is_file())


def shelves_of(path: Path, how: How | None, label: str | None) -> list[Shelf]:
    """The documents of a file or a folder under one label."""
    mail = how == "mail" or (how is None and is_mail(path))
    if path.is_dir():
        files = list(mail_files(path, set())) if mail else text_files(path)
        if not files and not (mail and is_maildir(path)):
            raise FileError(f"there is no file to read in the folder {one_line(str(path))}")
        kind: How = "mail" if mail else how or "file"
        return [Shelf(Place(file), kind, label) for file in files]
    if mail:
        return [Shelf(Place(path), "mail", label)]
    return [Shelf(Place(path), how or ("lines" if is_lines(path) else "file"), label)]


def is_lines(path: Path) -> bool:
    """Whether a file has a document a line: those that end in .txt, compressed or not."""
    name = path.name.lower()
    return name.removesuffix(".gz").removesuffix(".bz2").removesuffix(".zst").endswith(".txt")


def text_source(name: str, shelves: Sequence[Shelf], encoding: str) -> Texts:
    """The source, if all are of a kind."""
    mails = [shelf for shelf in shelves if shelf.how == "mail"]
    others = [shelf for shelf in shelves if shelf.how != "mail"]
    if mails and others:
        raise DecibanError(
            f"{mails[0].place.name} holds mail and {others[0].place.name} does not: say which they are "
            "(--format mail or --format texts)"
        )
    unlabelled = [shelf for shelf in shelves if shelf.label is None]
    if unlabelled and len(unlabelled) < len(shelves):
        raise DecibanError(
            f"{unlabelled[0].place.name} has no label and others do: write LABEL={unlabelled[0].place.name}"
        )
    return Texts(name, "mail" if mails else "texts", shelves, encoding)
