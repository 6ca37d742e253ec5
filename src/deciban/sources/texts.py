"""Texts: one per file or one per line, and mail; labelled by folder or by LABEL=PATH."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from deciban.errors import DecibanError, FileError
from deciban.reading.arrow import strings
from deciban.show import one_line
from deciban.sources.base import EMPTY_DIGEST, Kind, Piece, Source
from deciban.sources.blocks import LineCutter, in_blocks
from deciban.sources.input_file import InputFile, Pass, open_text

MAX_BATCH_CHARACTERS = 1 << 24  # documents may be long

How = Literal["file", "lines", "mail"]


@dataclass(frozen=True, slots=True)
class TextFile:
    """A file of documents: one in all, one per line, or mail; and their label, if any."""

    file: InputFile
    how: How
    label: str | None = None


class TextSource(Source):
    """Documents in files."""

    def __init__(self, name: str, kind: Kind, text_files: Sequence[TextFile], encoding: str) -> None:
        super().__init__(name, kind, [text_file.file for text_file in text_files])
        self._text_files = list(text_files)
        self._labels = {text_file.file: text_file.label or "" for text_file in text_files}
        self._encoding = encoding
        labelled = any(text_file.label is not None for text_file in text_files)
        self.columns = ("text", "label") if labelled else ("text",)
        self.types = {column: pa.string() for column in self.columns}

    def _group(self, file: InputFile) -> str:
        """Files with the same label are hashed together: folders have too many files for a digest each."""
        return self._labels[file]

    def _named_digests(self, digests: dict[Any, str]) -> list[str]:
        """The joint digest of all files of each label, and the label."""
        return [f"{digests.get(label, EMPTY_DIGEST)} {label}".rstrip() for label in sorted(set(self._labels.values()))]

    def _pieces(self, rows: int, one_pass: Pass) -> Iterator[Piece]:
        batch: list[Document] = []
        size = 0
        for text_file in self._text_files:
            for document in self._documents(text_file, one_pass):
                batch.append(document)
                size += len(document.text)
                if len(batch) >= rows or size >= MAX_BATCH_CHARACTERS:
                    yield self._piece(batch, one_pass)
                    batch, size = [], 0
        if batch:
            yield self._piece(batch, one_pass)

    def _piece(self, batch: list[Document], one_pass: Pass) -> Piece:
        columns = {"text": strings([document.text for document in batch], pa.string())}
        if "label" in self.columns:
            columns["label"] = strings([document.label or "" for document in batch], pa.string())
        names = [document.name or document.file for document in batch]
        numbered = all(document.name is None for document in batch)
        return Piece(pa.table(columns), batch[0].file, one_pass.read, None if numbered else names)

    def _documents(self, text_file: TextFile, one_pass: Pass) -> Iterator[Document]:
        file, label = text_file.file, text_file.label
        if text_file.how == "lines":
            for text in self._lines(file, one_pass):
                yield Document(text, label, None, file.name)
        elif text_file.how == "file":
            yield Document(self._whole(file, one_pass), label, file.name, file.name)
        else:
            from deciban.sources.mail import mails

            for text, name in mails(file, one_pass):
                yield Document(text, label, name, file.name)

    def _whole(self, file: InputFile, one_pass: Pass) -> str:
        stream = open_text(file, one_pass, self._encoding)
        data = b""
        while more := stream.read(1 << 20):
            data += more
        stream.close()
        return as_text(data, file.name, 1)

    def _lines(self, file: InputFile, one_pass: Pass) -> Iterator[str]:
        """The lines without their ends, as in `deciban.text.Lines`."""
        stream = open_text(file, one_pass, self._encoding)
        for block in in_blocks(stream, one_pass, LineCutter(), file.name):
            for line in as_text(block.data.removesuffix(b"\n"), file.name, block.line).split("\n"):
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
        raise FileError(
            "line {line} of {file} holds a NUL byte, which text never contains: leave the file out",
            line=line,
            file=name,
        )
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line += data.count(b"\n", 0, error.start)
        raise FileError(
            "line {line} of {file} is not UTF-8 (byte 0x{byte}): give its encoding, as in --encoding latin-1",
            line=line,
            file=name,
            byte=f"{data[error.start]:02x}",
        ) from None


# ---------------------------------------------------------------------- folders


def files_within(folder: Path) -> list[Path]:
    """All files in a folder and its subfolders, sorted, without hidden ones."""
    paths = []
    for top, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        paths += [Path(top, name) for name in names if not name.startswith(".")]
    return sorted(path for path in paths if path.is_file())


def text_files_of(path: Path, how: How | None, label: str | None) -> list[TextFile]:
    """The documents of a file or a folder under one label."""
    from deciban.sources import mail

    holds_mail = how == "mail" or (how is None and mail.is_mail(path))
    if path.is_dir():
        files = list(mail.mail_files(path)) if holds_mail else files_within(path)
        if not files and not (holds_mail and mail.is_maildir(path)):
            raise FileError("the folder {file} contains no file to read", file=one_line(str(path)))
        kind: How = "mail" if holds_mail else how or "file"
        return [TextFile(InputFile(file), kind, label) for file in files]
    if holds_mail:
        return [TextFile(InputFile(path), "mail", label)]
    return [TextFile(InputFile(path), how or ("lines" if is_lines(path) else "file"), label)]


def is_lines(path: Path) -> bool:
    """Whether a file has one document per line: those that end in .txt, compressed or not."""
    name = path.name.lower()
    return name.removesuffix(".gz").removesuffix(".bz2").removesuffix(".zst").endswith(".txt")


def text_source(name: str, text_files: Sequence[TextFile], encoding: str) -> TextSource:
    """The source, if all files are of one kind."""
    mails = [text_file for text_file in text_files if text_file.how == "mail"]
    others = [text_file for text_file in text_files if text_file.how != "mail"]
    if mails and others:
        raise DecibanError(
            "{file} holds mail and {other} does not: give --format mail or --format texts",
            file=mails[0].file.name,
            other=others[0].file.name,
        )
    unlabelled = [text_file for text_file in text_files if text_file.label is None]
    if unlabelled and len(unlabelled) < len(text_files):
        raise DecibanError("{file} has no label, but others do: write LABEL={file}", file=unlabelled[0].file.name)
    return TextSource(name, "mail" if mails else "texts", text_files, encoding)
