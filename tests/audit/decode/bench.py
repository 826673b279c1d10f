"""How fast one process decodes: ``python -m tests.audit.decode.bench [megabytes]``. Prints, asserts nothing.

data      batches of ten records of 100 bytes, one marker in twenty
metadata  batches of one ProducerIdsRecord, 92 bytes: the most batches that a byte can hold
states    transaction states, as one producer after another goes through a transaction
"""

import resource
import shutil
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

from fencepost.audit.decode.batches import Where, decode_segment, stop_of
from fencepost.audit.decode.tables import decode_log
from fencepost.records.batch import encode_batch, stamp
from fencepost.records.end_marker import EndMarker, encode_end_marker
from fencepost.records.frame import encode_frame
from fencepost.records.schema import AllocateProducerIdsRecord
from fencepost.records.transaction_log import TopicPartitions, TransactionStateRecord, encode_transaction
from fencepost.records.types import BrokerEpoch, BrokerId, ImageVersion, Offset, ProducerId, Term

NOW_MS = 1_760_000_000_000
SEGMENT_BYTES = 256 * 1024 * 1024


def data_batches() -> Iterator[tuple[bytes, int]]:
    """Batches, each with the number of its offsets."""
    records = [(None, struct.pack(">q", each) * 12 + b"abcd", ()) for each in range(10)]
    plain = [
        encode_batch(
            records,
            timestamp_ms=NOW_MS,
            producer_id=pid,
            base_sequence=0,
            producer_epoch=0,
            transactional=True,
        )
        for pid in range(19)
    ]
    end = EndMarker(
        producer_id=ProducerId(7),
        producer_epoch=0,
        committed=True,
        coordinator_epoch=3,
        version=ImageVersion(9),
    )
    marker = encode_end_marker(end, base_offset=Offset(0), leader_epoch=Term(0), now_ms=NOW_MS)
    while True:
        yield from ((batch, 10) for batch in plain)
        yield marker, 1


def metadata_batches() -> Iterator[tuple[bytes, int]]:
    """Blocks, one after another."""
    end = 0
    while True:
        end += 1000
        record = AllocateProducerIdsRecord(
            broker_id=BrokerId(end // 1000 % 3), broker_epoch=BrokerEpoch(5), producer_id_end=ProducerId(end)
        )
        yield encode_batch([(None, encode_frame(record), ())], timestamp_ms=NOW_MS + end // 50), 1


def state_batches() -> Iterator[tuple[bytes, int]]:
    """The steps of transactions of many ids."""
    number = 0
    while True:
        for status in (1, 2, 4):
            record = TransactionStateRecord(
                transactional_id=f"payments-{number % 1000}",
                producer_id=ProducerId(number % 1000),
                producer_epoch=3,
                transaction_timeout_ms=60_000,
                status=status,
                partitions=(TopicPartitions("payments", (0, 1, 2)),) if status != 4 else (),
                updated_ms=NOW_MS + number,
                started_ms=NOW_MS + number,
                last_producer_epoch=2,
            )
            yield encode_batch([(*encode_transaction(record), ())], timestamp_ms=NOW_MS + number), 1
        number += 1


def write(directory: Path, batches: Iterator[tuple[bytes, int]], total: int) -> list[Path]:
    """Segments of at most ``SEGMENT_BYTES``, ``total`` bytes in all; one stretch of bytes over and over."""
    directory.mkdir(parents=True)
    offset, paths = 0, []
    made = list(islice(batches, 20_000))
    while total > 0:
        path = directory / f"{offset:020d}.log"
        with path.open("wb", buffering=1 << 20) as stream:
            while stream.tell() < SEGMENT_BYTES and total > 0:
                for batch, count in made:
                    stream.write(stamp(batch, Offset(offset), Term(1)))
                    offset += count
                    total -= len(batch)
        paths.append(path)
    return paths


def measure(title: str, paths: list[Path], read: Callable[[Path], int]) -> None:
    """Print what reading all of ``paths`` takes."""
    began, cpu = time.perf_counter(), time.process_time()
    rows = sum(read(path) for path in paths)
    seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - cpu
    size = sum(path.stat().st_size for path in paths)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(  # noqa: T201
        f"{title:28} {size / 1e6:7.0f} MB {rows:9} rows {seconds:6.2f} s wall {cpu_seconds:6.2f} s cpu"
        f" {size / 1e6 / seconds:7.0f} MB/s {rows / seconds / 1e6:6.2f} M rows/s, peak {peak} MB"
    )


def main() -> None:
    """Make the files, read them in each way."""
    megabytes = int(sys.argv[1]) if len(sys.argv) > 1 else 256
    root = Path(tempfile.mkdtemp(prefix="bench-decode-"))

    def batches(topic: str, crc: bool) -> Callable[[Path], int]:
        return lambda path: sum(
            rows.num_rows for rows in decode_segment(str(path), Where(1, topic, 0, str(path)), crc=crc)
        )

    def everything(topic: str) -> Callable[[Path], int]:
        return lambda path: sum(
            rows.num_rows for _, rows in decode_log(str(path), Where(1, topic, 0, str(path)))
        )

    def stop(path: Path) -> int:
        return stop_of(str(path)).valid_end

    try:
        data = write(root / "data-0", data_batches(), megabytes * 1_000_000)
        metadata = write(root / "__cluster_metadata-0", metadata_batches(), megabytes * 500_000)
        states = write(root / "__transaction_state-0", state_batches(), megabytes * 50_000)
        for title, paths, topic in (("data", data, "data"), ("metadata", metadata, "__cluster_metadata")):
            measure(f"{title}, first look", paths, batches(topic, True))
            measure(f"{title}, batches", paths, batches(topic, True))
            measure(f"{title}, batches, no CRC", paths, batches(topic, False))
            measure(f"{title}, where it ends", paths, stop)
        measure("metadata, all tables", metadata, everything("__cluster_metadata"))
        measure("states, all tables", states, everything("__transaction_state"))
    finally:
        shutil.rmtree(root)


if __name__ == "__main__":
    main()
