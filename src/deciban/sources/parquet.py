"""Parquet: a few thousand rows of a row group at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from deciban.sources.base import Piece, even_spans
from deciban.sources.in_order import arrow_file
from deciban.sources.input_file import InputFile, Pass
from deciban.sources.self_describing import SelfDescribing, file_errors

BUFFER_BYTES = 1 << 20  # of a column, read at a time
MIN_ROW_GROUPS = 16  # with fewer row groups, a sample is taken from within them


class Parquet(SelfDescribing):
    """Tables in Parquet files."""

    def __init__(
        self,
        name: str,
        files: Sequence[InputFile],
        missing: Sequence[str] | None,
        given: Mapping[str, pa.DataType],
    ) -> None:
        super().__init__(name, files, missing)
        self._rows: list[int] = []
        schemas = []
        for file in files:
            with file_errors(file.name, "Parquet file"), pq.ParquetFile(file.arrow()) as opened:
                self._rows.append(opened.metadata.num_rows)
                schemas.append(opened.schema_arrow)
        self.rows_expected = sum(self._rows)
        self._set_columns(schemas, given)

    def _pieces(self, rows: int, one_pass: Pass) -> Iterator[Piece]:
        before = 0
        for file, total in zip(self.files, self._rows, strict=True):
            done, size = 0, file.size or 0
            for table in self._tables(file, rows, one_pass):
                done += table.num_rows
                yield Piece(table, file.name, before + size * done // max(1, total))
            before += size

    def _tables(
        self, file: InputFile, rows: int, one_pass: Pass | None = None, groups: Sequence[int] | None = None
    ) -> Iterator[pa.Table]:
        # Dictionary-encoded strings can be read as codes.
        coded = [column for column in self.columns if pa.types.is_dictionary(self.types[column])]
        how = {"read_dictionary": coded, "buffer_size": BUFFER_BYTES, "pre_buffer": False}
        with file_errors(file.name, "Parquet file"):
            how["metadata"] = metadata = pq.read_metadata(file.arrow())  # read separately, since it is at the end
            reading = arrow_file(file, one_pass, lambda: row_group_offsets(metadata))
            with reading as content, pq.ParquetFile(content, **how) as opened:
                for batch in opened.iter_batches(batch_size=rows, row_groups=groups, columns=list(self.columns)):
                    yield self._as_table(batch, file)

    def _read_sample(self, rows: int) -> pa.Table:
        """A sample from evenly spaced row groups, if there are enough of them."""
        total = sum(self._rows)
        if total <= rows:
            return self._concatenated([piece.table for piece in self._peek()])
        with file_errors(self.name, "Parquet file"):
            counts = [
                (file, group, opened.metadata.row_group(group).num_rows)
                for file in self.files
                for opened in [pq.ParquetFile(file.arrow())]
                for group in range(opened.metadata.num_row_groups)
            ]
        if len(counts) < MIN_ROW_GROUPS:
            return self._evenly_sampled(total, rows)
        tables, before = [], 0
        spans = even_spans(total, rows)
        for file, group, count in counts:
            wanted = sum(end - start for start, end in spans if before <= start < before + count)
            before += count
            if wanted:
                tables.append(next(self._tables(file, wanted, groups=[group])))
        return self._concatenated(tables)

    def row(self, number: int) -> pa.Table:
        """One row, by its number over all files, from 0: only its row group is read."""
        before = 0
        for file, total in zip(self.files, self._rows, strict=True):
            if 0 <= number - before < total:
                remaining = number - before
                for table in self._tables(file, 1 << 16):
                    if remaining < table.num_rows:
                        return table.slice(remaining, 1)
                    remaining -= table.num_rows
            before += total
        return super().row(number)


def row_group_offsets(metadata: pq.FileMetaData) -> list[int]:
    """The offsets of row groups, and the end of the last one; empty if they are not in order."""
    places, end = [], 0
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        chunks = [group.column(i) for i in range(group.num_columns)]
        begins = [min(filter(None, (chunk.dictionary_page_offset, chunk.data_page_offset))) for chunk in chunks]
        begin = min(begins, default=end)
        if begin < end:
            return []
        places.append(begin)
        end = max((b + chunk.total_compressed_size for b, chunk in zip(begins, chunks, strict=True)), default=end)
    return [*places, end]
