"""Parquet: a few thousand rows of a row group at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.parquet as pq

from deciban.errors import DecibanError, FileError
from deciban.show import one_line
from deciban.sources.base import Piece, spread
from deciban.sources.in_order import arrow_file
from deciban.sources.input_file import InputFile, Pass
from deciban.sources.self_describing import SelfDescribing

BUFFER = 1 << 20  # bytes of a column that are read at a time, however large the row group is
GROUPS = 16  # if a file has fewer row groups, a sample is taken from within them


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
            with whole_parquet(file.name), pq.ParquetFile(file.arrow()) as opened:
                self._rows.append(opened.metadata.num_rows)
                schemas.append(opened.schema_arrow)
        self.rows_expected = sum(self._rows)
        self._settle(schemas, given)

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
        # Names that come again and again are stored as codes, and can be read as such.
        coded = [column for column in self.columns if pa.types.is_dictionary(self.types[column])]
        how = {"read_dictionary": coded, "buffer_size": BUFFER, "pre_buffer": False}
        with whole_parquet(file.name):
            how["metadata"] = metadata = pq.read_metadata(file.arrow())  # apart, since it lies at the end
            reading = arrow_file(file, one_pass, lambda: row_groups(metadata))
            with reading as content, pq.ParquetFile(content, **how) as opened:
                for batch in opened.iter_batches(batch_size=rows, row_groups=groups, columns=list(self.columns)):
                    yield self._conformed(batch, file)

    def _found(self, rows: int) -> pa.Table:
        """From row groups spread evenly, if there are enough of them."""
        total = sum(self._rows)
        if total <= rows:
            return self._joined([piece.table for piece in self._look()])
        with whole_parquet(self.name):
            counts = [
                (file, group, opened.metadata.row_group(group).num_rows)
                for file in self.files
                for opened in [pq.ParquetFile(file.arrow())]
                for group in range(opened.metadata.num_row_groups)
            ]
        if len(counts) < GROUPS:
            return self._spread(total, rows)
        tables, before = [], 0
        spans = spread(total, rows)
        for file, group, count in counts:
            wanted = sum(end - start for start, end in spans if before <= start < before + count)
            before += count
            if wanted:
                tables.append(next(self._tables(file, wanted, groups=[group])))
        return self._joined(tables)

    def row(self, number: int) -> pa.Table:
        """One row, by its number over all files, from 0: only its row group is read."""
        before = 0
        for file, total in zip(self.files, self._rows, strict=True):
            if 0 <= number - before < total:
                left = number - before
                for table in self._tables(file, 1 << 16):
                    if left < table.num_rows:
                        return table.slice(left, 1)
                    left -= table.num_rows
            before += total
        return super().row(number)


def row_groups(metadata: pq.FileMetaData) -> list[int]:
    """Where row groups begin, and where the last one ends; nothing where they do not follow each other."""
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


@contextmanager
def whole_parquet(name: str) -> Iterator[None]:
    try:
        yield
    except DecibanError:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        raise FileError(
            "{file} is not a whole Parquet file ({problem}): write it again", file=name, problem=one_line(str(error))
        ) from None
