"""Small archives of allocations to break: four batches of one record in a segment."""

from pathlib import Path

from fencepost.records.batch import BatchRecord, encode_batch, stamp
from fencepost.records.frame import encode_frame
from fencepost.records.schema import AllocateProducerIdsRecord
from fencepost.records.types import BrokerEpoch, BrokerId, Log, Offset, ProducerId, Term
from fencepost.snapshots.archive import Archive

BATCH_BYTES = 92  # one allocation
CLUSTER = "one"
ALL = Offset(2**62)  # the newest snapshot has everything


def batch(offset: int, records: int = 1, epoch: int = 1) -> bytes:
    """A committed batch of allocations, stamped. The block of offset n ends at id 1000 * (n + 1)."""
    allocations = [
        AllocateProducerIdsRecord(
            broker_id=BrokerId(1),
            broker_epoch=BrokerEpoch(7),
            producer_id_end=ProducerId(1000 * (offset + number + 1)),
        )
        for number in range(records)
    ]
    encoded = encode_batch([BatchRecord(None, encode_frame(each)) for each in allocations], timestamp_ms=5)
    return stamp(encoded, Offset(offset), Term(epoch))


OPENED: list[Archive] = []
"""Archives of the test that runs; see conftest.py."""


def opened(root: Path, *, per_segment: int = 4, cluster: str = CLUSTER) -> Archive:
    archive = Archive.open(root, Log.METADATA, cluster, segment_bytes=per_segment * BATCH_BYTES)
    OPENED.append(archive)
    return archive


def filled(root: Path, count: int, *, per_segment: int = 4, cluster: str = CLUSTER) -> Archive:
    """An archive with ``count`` batches of one record, written and flushed."""
    archive = opened(root, per_segment=per_segment, cluster=cluster)
    for offset in range(archive.end, archive.end + count):
        archive.append(batch(offset))
    archive.write()
    archive.sync()
    return archive


def offsets(root: Path, first: int = 0) -> list[int]:
    reader = Archive.read_only(root, Log.METADATA)
    read = list(reader.read(Offset(first)))
    for stored in read:
        assert stored.content == batch(stored.header.base_offset, stored.header.record_count)
    return [stored.header.base_offset for stored in read]


def files(root: Path) -> list[str]:
    """Without those of sums."""
    found = (root / Log.METADATA.directory).iterdir()
    return sorted(path.name for path in found if path.suffix != ".checksums")


def segment(root: Path, base: int) -> Path:
    return root / Log.METADATA.directory / f"{base:020d}.log"


def flip(path: Path, position: int) -> None:
    """Change one byte; a disk asks for no permission."""
    mode = path.stat().st_mode
    path.chmod(0o644)
    content = bytearray(path.read_bytes())
    content[position] ^= 0x40
    path.write_bytes(content)
    path.chmod(mode)
