"""Rows on their way into a table, and the records that they are made of."""

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fencepost.audit.decode.batches import Where, repeated
from fencepost.audit.decode.chunks import Chunk, chunks
from fencepost.audit.decode.columns import TABLES
from fencepost.audit.decode.files import Files
from fencepost.audit.decode.opened import CannotDecompress, Opening, open_records
from fencepost.records.batch import DecodedRecord
from fencepost.records.invariant import CorruptData

Named = Iterator[tuple[str, pa.RecordBatch]]
ReadChunk = Callable[[Where, Chunk], Named]


class Rows:
    """Rows of one table, of one file. A row is what follows ``position`` in the table's columns."""

    def __init__(self, table: str, where: Where) -> None:
        self.table = table
        self._schema = TABLES[table]
        self._where = where
        self._rows: list[tuple[Any, ...]] = []

    def add(self, position: int, *values: object) -> None:
        """One row, of the batch at ``position`` of the file."""
        self._rows.append((position, *values))

    def batches(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        """The rows with their table's name; nothing if there are none."""
        if self._rows:
            place = list(repeated(self._where, len(self._rows)).values())
            columns = zip(zip(*self._rows, strict=True), list(self._schema)[len(place) :], strict=True)
            arrays = [*place, *(pa.array(column, kind.type) for column, kind in columns)]
            yield self.table, pa.RecordBatch.from_arrays(arrays, schema=self._schema)


_SAID: Final = ("leader_epoch", "producer_id", "producer_epoch")


class Found(NamedTuple):
    """A record, with what its batch says that a record has not."""

    position: int  # of the batch in the file
    leader_epoch: int
    producer_id: int
    producer_epoch: int
    record: DecodedRecord


def records_of(chunk: Chunk, rows: npt.NDArray[np.int64], faults: Rows) -> Iterator[Found]:
    """The records of the sound batches ``rows`` of a chunk; what cannot be read becomes a fault."""
    headers = chunk.headers[rows]
    opening = map(Opening, *(headers[name].tolist() for name in Opening._fields))
    said = zip(*(headers[name].tolist() for name in _SAID), strict=True)
    for row, position, header, (leader_epoch, producer_id, producer_epoch) in zip(
        rows.tolist(), (chunk.positions[rows] + chunk.origin).tolist(), opening, said, strict=True
    ):
        try:
            records = open_records(chunk.content(row), header)
        except CorruptData as error:
            kind = "compression" if isinstance(error, CannotDecompress) else "record"
            faults.add(position, header.base_offset, kind, str(error))
            continue
        for record in records:
            yield Found(position, leader_epoch, producer_id, producer_epoch, record)


def rows_of_table(
    table: str, read: ReadChunk, path: str, where: Where, start: int, end: int | None, files: Files
) -> Iterator[pa.RecordBatch]:
    """The rows of one table of what ``read`` makes of a segment's chunks. Raises OSError."""
    for chunk in chunks(path, start, end, crc=True, files=files):
        if isinstance(chunk, Chunk):
            for name, rows in read(where, chunk):
                if name == table:
                    yield rows


def readable_rows(chunk: Chunk) -> npt.NDArray[np.int64]:
    """The rows of a chunk that are sound and no control batches."""
    return np.flatnonzero(chunk.is_sound & ~chunk.is_control)
