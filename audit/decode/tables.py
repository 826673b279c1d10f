"""Everything that one file says, in one pass: the rows of each table, in the order of the file.

    segment             record_batches; of the three logs of the control plane also what their records say
    checkpoint          producer_id_blocks, brokers, topics, partitions, voters, directories
    zookeeper-export    producer_id_blocks
    side files          offset_checkpoints, leader_epochs, aborted_transactions, producer_states, voters,
                        directories

and record_faults of each. The functions that give one table read the file for it alone.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from fencepost.audit.decode import metadata, offsets, transactions
from fencepost.audit.decode.batches import Where, rows_of
from fencepost.audit.decode.chunks import Chunk, chunks
from fencepost.audit.decode.control import UNREADABLE_TYPE
from fencepost.audit.decode.files import LOCAL, Files
from fencepost.audit.decode.plan import LogFile
from fencepost.audit.decode.rows import Named, ReadChunk, Rows, readable_rows, records_of
from fencepost.audit.decode.side_files import SIDE_READERS, decode_side_file
from fencepost.audit.decode.snapshots import decode_checkpoint
from fencepost.audit.decode.zookeeper import decode_export
from fencepost.records.batch_layout import HEADER_BYTES

READERS: Final[dict[str, ReadChunk]] = {
    metadata.TOPIC: metadata.read_chunk,
    transactions.TOPIC: transactions.read_chunk,
    offsets.TOPIC: offsets.read_chunk,
}
"""By topic, what its records become; of any other topic records are not opened."""


def where_of(file: LogFile) -> Where:
    """What a listed file is the log of."""
    return Where(file.node, file.topic, file.partition, file.path)


def decode_file(
    file: LogFile, start: int = 0, end: int | None = None, *, crc: bool = True, deep: bool = False,
    files: Files = LOCAL,
) -> Named:  # fmt: skip
    """Every table's rows of what begins in ``[start, end)``; of a kind that is not a segment, all of it.

    A hole and a directory give nothing: they are rows of ``files`` only. Raises OSError.
    """
    if file.kind == "segment":
        return decode_log(file.path, where_of(file), start, end, crc=crc, deep=deep, files=files)
    if file.kind == "checkpoint":
        return decode_checkpoint(file.path, where_of(file), files=files)
    if file.kind == "zookeeper-export":
        return decode_export(file.path, where_of(file), files=files)
    if file.kind in SIDE_READERS:
        return decode_side_file(file.kind, file.path, where_of(file), files=files)
    return iter(())


def decode_log(
    path: str, where: Where, start: int = 0, end: int | None = None, *, crc: bool = True,
    deep: bool = False, files: Files = LOCAL,
) -> Named:  # fmt: skip
    """RECORD_BATCHES of a segment, the tables of its topic, RECORD_FAULTS. Raises OSError.

    deep  the records of every topic are opened: noise is a fault though its checksum is right.
    """
    read = READERS.get(where.topic)
    for chunk in chunks(path, start, end, crc=crc, files=files):
        rows = rows_of(where, chunk)
        yield "record_batches", rows
        if isinstance(chunk, Chunk):
            yield from _control_faults(where, rows)
            if read is not None:
                yield from read(where, chunk)
            elif deep:
                yield from _opened(where, chunk)


def decode_table(
    table: str, path: str, where: Where, start: int = 0, end: int | None = None, *, files: Files = LOCAL
) -> Iterator[pa.RecordBatch]:
    """The rows of one table of a segment. Raises OSError."""
    for name, rows in decode_log(path, where, start, end, files=files):
        if name == table:
            yield rows


def _opened(where: Where, chunk: Chunk) -> Named:
    """What of a chunk's records cannot be read. No key or value goes further than this."""
    faults = Rows("record_faults", where)
    for _ in records_of(chunk, readable_rows(chunk), faults):
        pass
    yield from faults.batches()


def _control_faults(where: Where, rows: pa.RecordBatch) -> Named:
    """Control batches whose record cannot be read: their checksum is right, so their writer wrote it so.

    One without a record is what Kafka's log cleaner leaves of a marker, for its producer's sake.
    """
    kinds = rows.column("control_type")
    if kinds.null_count == len(kinds):
        return
    faults = Rows("record_faults", where)
    is_unreadable = kinds.fill_null(0).to_numpy() == UNREADABLE_TYPE
    is_emptied = rows.column("size").to_numpy() == HEADER_BYTES
    for row in np.flatnonzero(is_unreadable & ~is_emptied).tolist():
        position, offset = rows.column("position")[row].as_py(), rows.column("base_offset")[row].as_py()
        faults.add(position, offset, "record", "the record of a control batch cannot be read")
    yield from faults.batches()
