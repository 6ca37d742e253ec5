"""Arrow's own files: IPC files and streams, and Feather, which is the former."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import pyarrow as pa

from deciban.errors import DecibanError, FileError
from deciban.show import one_line
from deciban.sources.base import Piece
from deciban.sources.input_file import Place, Tally
from deciban.sources.self_describing import Typed

FILE = b"ARROW1"
FEATHER_1 = b"FEA1"


class Arrow(Typed):
    """Tables in Arrow IPC files and streams."""

    def __init__(
        self,
        name: str,
        places: Sequence[Place],
        missing: Sequence[str] | None,
        given: Mapping[str, pa.DataType],
    ) -> None:
        super().__init__(name, places, missing)
        schemas = []
        for place in places:
            with whole_arrow(place), record_batches(place) as (schema, _):
                schemas.append(schema)
        self._settle(schemas, given)

    def _pieces(self, rows: int, tally: Tally) -> Iterator[Piece]:
        del rows, tally  # batches are as they were written, and read by Arrow
        before = 0
        for place in self.places:
            with whole_arrow(place), record_batches(place) as (_, found):
                for batch, read in found:
                    # What is damaged, or made to do harm, must not be followed beyond the end of memory.
                    batch.validate(full=True)
                    yield Piece(self._conformed(batch, place), place.name, before + read)
            before += place.size or 0


@contextmanager
def record_batches(place: Place) -> Iterator[tuple[pa.Schema, Iterator[tuple[pa.RecordBatch, int]]]]:
    """The schema of a file and its batches, each with the bytes read so far."""
    with pa.OSFile(str(place.path)) as file:
        beginning = file.read(6)
        file.seek(0)
        if not beginning:
            raise FileError(f"{place.name} is empty: an Arrow file says at least what its columns are")
        if beginning.startswith(FEATHER_1):
            raise FileError(f"{place.name} is of the first version of Feather: write it again as Feather 2 or Parquet")
        if beginning == FILE:
            reader = pa.ipc.open_file(file)
            many = reader.num_record_batches
            batches = ((reader.get_batch(i), (place.size or 0) * (i + 1) // many) for i in range(many))
            yield reader.schema, batches
        else:
            stream = pa.ipc.open_stream(file)
            yield stream.schema, ((batch, file.tell()) for batch in stream)


@contextmanager
def whole_arrow(place: Place) -> Iterator[None]:
    try:
        yield
    except DecibanError:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        raise FileError(f"{place.name} is not a whole Arrow file ({one_line(str(error))}): write it again") from None
