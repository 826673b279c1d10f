"""Storm: ten thousand mutated files. Nothing crashes, and nothing that was changed reads as clean.

Method   segments of every kind of log, and checkpoints, with one to three mutations each: bits, bytes,
         stretches cut out, doubled, moved, zeroed, cut off or appended; then every table is read.
Clean    of each row without a fault the test computes the checksum itself; a checkpoint without a fault has
         one right batch after another up to its footer. So no byte under a checksum was changed unseen.
Cover    rows and the stop leave out no byte, whatever was done to the file.
Replay   a failure names its seed and file number: ``mutations(seed, number)``.
"""

import struct
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Final
from uuid import UUID

import pytest
from crc32c import crc32c

from fencepost.audit.decode.batches import Where
from fencepost.audit.decode.plan import list_files
from fencepost.audit.decode.snapshots import decode_checkpoint
from fencepost.audit.decode.tables import decode_log
from fencepost.records.batch import encode_batch
from fencepost.records.control import LeaderChange, SnapshotFooter, SnapshotHeader, encode_control
from fencepost.records.end_marker import EndMarker, encode_end_marker
from fencepost.records.frame import encode_frame
from fencepost.records.schema import AllocateProducerIdsRecord, RegisterBrokerRecord, TopicRecord
from fencepost.records.transaction_log import (
    TopicPartitions,
    TransactionForgotten,
    TransactionStateRecord,
    encode_transaction,
)
from fencepost.records.types import BrokerEpoch, BrokerId, ImageVersion, NodeId, Offset, ProducerId, Term
from tests.audit.decode.corpus import NOW_MS, laid, read
from tests.broker.log.builders import compressed, resealed
from tests.examples import share

FILES_PER_SEED: Final = 500
EXTREMES: Final = (2**63 - 1, -(2**63), 0, -1)


def batch(*records: tuple[bytes | None, bytes | None], **fields: int | bool) -> bytes:
    return encode_batch([(*each, ()) for each in records], timestamp_ms=NOW_MS, **fields)  # type: ignore[arg-type]


def marker(version: int) -> bytes:
    end = EndMarker(
        producer_id=ProducerId(7),
        producer_epoch=1,
        committed=True,
        coordinator_epoch=3,
        version=ImageVersion(version),
    )
    return encode_end_marker(end, base_offset=Offset(0), leader_epoch=Term(0), now_ms=NOW_MS)


def state(status: int) -> tuple[bytes | None, bytes | None]:
    return encode_transaction(
        TransactionStateRecord(
            transactional_id="payments-1",
            producer_id=ProducerId(7),
            producer_epoch=1,
            transaction_timeout_ms=60_000,
            status=status,
            partitions=(TopicPartitions("payments", (0, 1)),) if status else None,
            updated_ms=NOW_MS,
            started_ms=NOW_MS,
        )
    )


def commit(group: bytes, offset: int) -> tuple[bytes, bytes]:
    key = (
        struct.pack(">hh", 1, len(group)) + group + struct.pack(">h", 8) + b"payments" + struct.pack(">i", 2)
    )
    return key, struct.pack(">hqihq", 3, offset, 1, 0, NOW_MS)


BLOCK: Final = encode_frame(
    AllocateProducerIdsRecord(
        broker_id=BrokerId(1), broker_epoch=BrokerEpoch(4), producer_id_end=ProducerId(1000)
    )
)
TOPIC: Final = encode_frame(TopicRecord(name="payments", topic_id=UUID(int=7)))
BROKER: Final = encode_frame(
    RegisterBrokerRecord(
        broker_id=BrokerId(1),
        incarnation_id=UUID(int=9),
        broker_epoch=BrokerEpoch(4),
        end_points=(),
        features=(),
    )
)
LEADER: Final = batch(encode_control(LeaderChange(leader_id=NodeId(1))), control=True)

PRODUCER: Final = {"producer_id": 7, "producer_epoch": 1}

LOGS: Final[dict[str, list[bytes]]] = {
    "payments": [
        batch((b"k", b"v" * 50), (None, b"w"), **PRODUCER, base_sequence=0, transactional=True),
        marker(5),
        compressed(batch((None, b"x" * 400)), "lz4"),
        marker(0),
        batch((None, b"y" * 3)),
    ],
    "__cluster_metadata": [
        LEADER,
        batch((None, BROKER)),
        batch((None, BLOCK)),
        batch((None, TOPIC), (None, BLOCK)),
    ],
    "__transaction_state": [
        batch(state(0)),
        batch(state(1), state(2)),
        compressed(batch(state(4)), "zstd"),
        batch(encode_transaction(TransactionForgotten("payments-1"))),
    ],
    "__consumer_offsets": [
        batch(commit(b"copier", 5), **PRODUCER, transactional=True),
        compressed(batch(commit(b"copier", 9)), "gzip"),
        marker(0),
    ],
}  # fmt: skip
CHECKPOINT: Final = [
    batch(encode_control(SnapshotHeader(last_contained_log_timestamp=NOW_MS)), control=True),
    batch((None, BROKER), (None, BLOCK), (None, TOPIC)),
    batch(encode_control(SnapshotFooter()), control=True),
]


def flip_bit(content: bytearray, random: Random) -> None:
    content[random.randrange(len(content))] ^= 1 << random.randrange(8)


def set_byte(content: bytearray, random: Random) -> None:
    content[random.randrange(len(content))] = random.choice([0, 1, 2, 0x7F, 0x80, 0xFF])


def scramble(content: bytearray, random: Random) -> None:
    start, size = stretch(content, random)
    content[start : start + size] = random.randbytes(size)


def zero(content: bytearray, random: Random) -> None:
    start, size = stretch(content, random)
    content[start : start + size] = bytes(size)


def cut_out(content: bytearray, random: Random) -> None:
    start, size = stretch(content, random)
    del content[start : start + size]


def double(content: bytearray, random: Random) -> None:
    start, size = stretch(content, random)
    content[start:start] = content[start : start + size]


def move(content: bytearray, random: Random) -> None:
    start, size = stretch(content, random)
    moved = content[start : start + size]
    del content[start : start + size]
    at = random.randrange(len(content) + 1)
    content[at:at] = moved


def cut_off(content: bytearray, random: Random) -> None:
    del content[random.randrange(len(content)) :]


def append_zeros(content: bytearray, random: Random) -> None:
    content += bytes(random.randrange(1, 300))


def append_noise(content: bytearray, random: Random) -> None:
    content += random.randbytes(random.randrange(1, 300))


MUTATIONS: Final[tuple[Callable[[bytearray, Random], None], ...]] = (
    flip_bit, set_byte, scramble, zero, cut_out, double, move, cut_off, append_zeros, append_noise,
)  # fmt: skip


def stretch(content: bytearray, random: Random) -> tuple[int, int]:
    """Where it begins, and its size."""
    start = random.randrange(len(content))
    return start, random.randrange(1, min(400, len(content) - start) + 1)


def mutated(batches: list[bytes], random: Random) -> bytes:
    """A file of some of the batches with one to three mutations."""
    content = bytearray(laid(random.choices(batches, k=random.randrange(1, 8))).content)
    for _ in range(random.choice([1, 1, 1, 2, 3])):
        if content:
            random.choice(MUTATIONS)(content, random)
    return bytes(content)


def storm(directory: Path, seed: int) -> None:
    """``FILES_PER_SEED`` files; in `make check` a share of them."""
    for number in range(share(FILES_PER_SEED)):
        random = Random(seed * 1_000_000 + number)
        topic = random.choice([*LOGS, "checkpoint"])
        content = mutated(CHECKPOINT if topic == "checkpoint" else LOGS[topic], random)
        try:
            if topic == "checkpoint":
                assert_whole_or_faulty(content, read_checkpoint(directory, content))
            else:
                read_log(directory, topic, content)
        except BaseException as error:
            error.add_note(f"seed {seed}, file {number}, of {topic}")
            raise


def resealed_batches(batches: list[bytes], random: Random) -> bytes:
    """Batches that were mutated before their checksum was made: their records lie, not their bytes."""
    changed = []
    for raw in random.choices(batches, k=3):
        content = bytearray(raw)
        for _ in range(random.choice([1, 1, 2, 4])):
            if random.random() < 0.2:
                struct.pack_into(">q", content, random.choice([27, 35]), random.choice(EXTREMES))
            at = random.randrange(21, len(content))
            content[at] = random.choice(
                [0, 1, 0x7F, 0x80, 0xFE, 0xFF, random.randrange(256), content[at] ^ 1]
            )
        if random.random() < 0.2:
            del content[random.randrange(61, len(content)) :]
        changed.append(resealed(bytes(content)))
    return (
        laid(changed).content
        if all(int.from_bytes(raw[23:27]) < 2**31 for raw in changed)
        else b"".join(changed)
    )


def storm_of_lies(directory: Path, seed: int) -> None:
    """As many files whose checksums are right."""
    for number in range(share(FILES_PER_SEED)):
        random = Random(seed * 1_000_000 + 500_000 + number)
        topic = random.choice([*LOGS, "checkpoint"])
        content = resealed_batches(CHECKPOINT if topic == "checkpoint" else LOGS[topic], random)
        try:
            if topic == "checkpoint":
                read_checkpoint(directory, content)
            else:
                read_log(directory, topic, content)
        except BaseException as error:
            error.add_note(f"seed {seed}, file {number}, of {topic}, its checksums right")
            raise


def read_log(directory: Path, topic: str, content: bytes) -> None:
    folder = directory / f"{topic}-0"
    folder.mkdir(exist_ok=True)
    path = folder / f"{0:020d}.log"
    path.write_bytes(content)
    found, stop = read(str(path))
    for row in found:
        position, end = row["position"], row["position"] + row["size"]
        if row["fault"] is None:
            assert_sound(content, position, end)
        elif row["fault"] == "crc":
            assert not is_sound(content, position, end)
    if all(row["fault"] is None for row in found) and stop.stop == "end":
        assert stop.valid_end == len(content)
    tables: dict[str, int] = {}
    for name, rows in decode_log(str(path), Where(1, topic, 0, str(path))):
        rows.validate(full=True)
        tables[name] = tables.get(name, 0) + rows.num_rows
    assert tables.get("record_batches", 0) == len(found)
    (file,) = list_files([str(folder)])
    assert (file.topic, file.size) == (topic, len(content))


def read_checkpoint(directory: Path, content: bytes) -> dict[str, int]:
    path = directory / f"{9:020d}-{1:010d}.checkpoint"
    path.write_bytes(content)
    tables: dict[str, int] = {}
    for name, rows in decode_checkpoint(str(path), Where(1, "__cluster_metadata", 0, str(path))):
        rows.validate(full=True)
        tables[name] = tables.get(name, 0) + rows.num_rows
    return tables


def assert_whole_or_faulty(content: bytes, tables: dict[str, int]) -> None:
    position, whole = 0, content.endswith(CHECKPOINT[-1][21:])
    while whole and position < len(content):
        end = position + 12 + int.from_bytes(content[position + 8 : position + 12])
        whole = is_sound(content, position, end)
        position = end
    assert whole or tables.get("record_faults"), "a checkpoint that is not whole has no fault"


def is_sound(content: bytes, position: int, end: int) -> bool:
    written = int.from_bytes(content[position + 17 : position + 21])
    return end <= len(content) and written == crc32c(content[position + 21 : end])


def assert_sound(content: bytes, position: int, end: int) -> None:
    assert content[position + 16] == 2
    assert int.from_bytes(content[position + 8 : position + 12]) == end - position - 12
    assert is_sound(content, position, end)


def test_mutated_files(tmp_path: Path) -> None:
    storm(tmp_path, 0)


def test_files_that_lie_under_right_checksums(tmp_path: Path) -> None:
    storm_of_lies(tmp_path, 0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 20), ids="seed-{}".format)
def test_ten_thousand_mutated_files(tmp_path: Path, seed: int) -> None:
    """Five hundred of each seed, with those above; and as many that lie."""
    storm(tmp_path, seed)
    storm_of_lies(tmp_path, seed)
