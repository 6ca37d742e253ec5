"""Parquet: a few thousand rows of a row group at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.parquet as pq

from deciban.errors import DecibanError, FileError
from deciban.show import one_line
from deciban.sources.base import Piece, spread
from deciban.sources.input_file import Place, Tally
from deciban.sources.self_describing import Typed

BUFFER = 1 << 20  # bytes of a column that are read at a time, however large the row group is
GROUPS = 16  # if a file has fewer row groups, a sample is taken from within them


class Parquet(Typed):
    """Tables in Parquet files."""

    def __init__(
        self,
        name: str,
        places: Sequence[Place],
        missing: Sequence[str] | None,
        given: Mapping[str, pa.DataType],
    ) -> None:
        super().__init__(name, places, missing)
        self._rows: list[int] = []
        schemas = []
        for place in places:
            with whole_parquet(place.name), pq.ParquetFile(str(place.path)) as file:
                self._rows.append(file.metadata.num_rows)
                schemas.append(file.schema_arrow)
        self._settle(schemas, given)

    def _open(self, place: Place) -> pq.ParquetFile:
        # Names that come again and again are stored as codes, and can be read as such.
        coded = [column for column in self.columns if pa.types.is_dictionary(self.types[column])]
        return pq.ParquetFile(str(place.path), read_dictionary=coded, buffer_size=BUFFER, pre_buffer=False)

    def _pieces(self, rows: int, tally: Tally) -> Iterator[Piece]:
        del tally  # bytes are not read in their order
        before = 0
        for place, total in zip(self.places, self._rows, strict=True):
            done, size = 0, place.size or 0
            for table in self._tables(place, rows):
                done += table.num_rows
                yield Piece(table, place.name, before + size * done // max(1, total))
            before += size

    def _tables(self, place: Place, rows: int, groups: Sequence[int] | None = None) -> Iterator[pa.Table]:
        with whole_parquet(place.name), self._open(place) as file:
            for batch in file.iter_batches(batch_size=rows, row_groups=groups, columns=list(self.columns)):
                yield self._conformed(batch, place)

    def _found(self, rows: int) -> pa.Table:
        """From row groups spread evenly, if there are enough of them."""
        total = sum(self._rows)
        if total <= rows:
            return self._joined([piece.table for piece in self._look()])
        with whole_parquet(self.name):
            counts = [
                (place, group, file.metadata.row_group(group).num_rows)
                for place in self.places
                for file in [pq.ParquetFile(str(place.path))]
                for group in range(file.metadata.num_row_groups)
            ]
        if len(counts) < GROUPS:
            return self._spread(total, rows)
        found, before = [], 0
        spans = spread(total, rows)
        for place, group, count in counts:
            wanted = sum(end - start for start, end in spans if before <= start < before + count)
            before += count
            if wanted:
                found.append(next(self._tables(place, wanted, [group])))
        return self._joined(found)

    def row(self, number: int) -> pa.Table:
        """One row, by its number over all files, from 0: only its row group is read."""
        before = 0
        for place, total in zip(self.places, self._rows, strict=True):
            if 0 <= number - before < total:
                left = number - before
                for table in self._tables(place, 1 << 16):
                    if left < table.num_rows:
                        return table.slice(left, 1)
                    left -= table.num_rows
            before += total
        return super().row(number)


@contextmanager
def whole_parquet(name: str) -> Iterator[None]:
    try:
        yield
    except DecibanError:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        raise FileError(f"{name} is not a whole Parquet file ({one_line(str(error))}): write it again") from None
