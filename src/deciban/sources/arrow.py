"""Arrow IPC files and streams, and Feather 2, which is an IPC file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import pyarrow as pa

from deciban.errors import FileError
from deciban.sources.base import Piece
from deciban.sources.in_order import arrow_file
from deciban.sources.input_file import InputFile, Pass
from deciban.sources.self_describing import SelfDescribing, file_errors

FILE_MAGIC = b"ARROW1"
FEATHER_1_MAGIC = b"FEA1"


class Arrow(SelfDescribing):
    """Tables in Arrow IPC files and streams."""

    def __init__(
        self,
        name: str,
        files: Sequence[InputFile],
        missing: Sequence[str] | None,
        given: Mapping[str, pa.DataType],
    ) -> None:
        super().__init__(name, files, missing)
        schemas = []
        for file in files:
            with file_errors(file.name, "Arrow file"), record_batches(file) as (schema, _):
                schemas.append(schema)
        self._set_columns(schemas, given)

    def _pieces(self, rows: int, one_pass: Pass) -> Iterator[Piece]:
        del rows  # batches have the sizes they were written with
        before = 0
        for file in self.files:
            with file_errors(file.name, "Arrow file"), record_batches(file, one_pass) as (_, batches):
                for batch, read in batches:
                    # A damaged or malicious file must not lead to reads outside of its buffers.
                    batch.validate(full=True)
                    yield Piece(self._as_table(batch, file), file.name, before + read)
            before += file.size or 0


@contextmanager
def record_batches(
    file: InputFile, one_pass: Pass | None = None
) -> Iterator[tuple[pa.Schema, Iterator[tuple[pa.RecordBatch, int]]]]:
    """The schema of a file and its batches, each with the bytes read so far."""
    with arrow_file(file, one_pass) as content:
        beginning = content.read(6)
        content.seek(0)
        if not beginning:
            raise FileError(
                "{file} is empty: even an Arrow file without rows lists its columns, so write it again", file=file.name
            )
        if beginning.startswith(FEATHER_1_MAGIC):
            raise FileError(
                "{file} is in version 1 of the Feather format: write it again as Feather 2 or Parquet", file=file.name
            )
        if beginning == FILE_MAGIC:
            reader = pa.ipc.open_file(content)
            n_batches = reader.num_record_batches
            batches = ((reader.get_batch(i), (file.size or 0) * (i + 1) // n_batches) for i in range(n_batches))
            yield reader.schema, batches
        else:
            stream = pa.ipc.open_stream(content)
            yield stream.schema, ((batch, content.tell()) for batch in stream)
