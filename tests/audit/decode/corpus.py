"""Segments for the decoder's tests: any that Kafka could write, and how to read them back plainly."""

import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pyarrow as pa

from fencepost.audit.decode.batches import Where, decode_segment, stop_of
from fencepost.audit.decode.columns import RECORD_BATCHES, TABLES
from fencepost.audit.decode.tables import decode_log
from fencepost.audit.decode.walk import Stop
from fencepost.records.batch import BatchRecord, encode_batch, stamp
from fencepost.records.control import ControlRecord, KRaftVersion, LeaderChange, Voter, encode_control
from fencepost.records.end_marker import EndMarker, encode_end_marker
from fencepost.records.types import ImageVersion, NodeId, Offset, ProducerId, Term
from tests.broker.log.builders import CODECS, compressed

NOW_MS = 1_763_600_000_000
Record = tuple[bytes | None, bytes | None]
PLACE = ("node", "topic", "partition", "path")
WHERE = Where(3, "payments", 0, "")

PRODUCERS = (-1, 0, 7, 2**31, 2**63 - 1)
VOTERS = (Voter(voter_id=NodeId(1)), Voter(voter_id=NodeId(2)))
CONTROL_RECORDS: tuple[ControlRecord, ...] = (
    LeaderChange(leader_id=NodeId(1), voters=VOTERS),
    LeaderChange(version=0, leader_id=NodeId(1), voters=VOTERS),
    KRaftVersion(k_raft_version=1),
)


def _short(rng: Random) -> bytes:
    return rng.randbytes(rng.choice((0, 0, 1, 3, 40)))


def _record(rng: Random) -> BatchRecord:
    return BatchRecord(
        rng.choice((None, _short(rng))),
        rng.choice((None, _short(rng), b"v" * 300)),
        tuple((_short(rng), rng.choice((None, _short(rng)))) for _ in range(rng.randint(0, 3))),
    )


def plain_batch(rng: Random) -> bytes:
    return encode_batch(
        [_record(rng) for _ in range(rng.randint(1, 6))],
        timestamp_ms=NOW_MS,
        producer_id=rng.choice(PRODUCERS),
        producer_epoch=rng.choice((-1, 0, 3, 2**15 - 1)),
        base_sequence=rng.choice((-1, 0, 5, 2**31 - 1)),
        transactional=rng.random() < 0.5,
    )


def _marker(rng: Random) -> bytes:
    end = EndMarker(
        producer_id=ProducerId(rng.choice(PRODUCERS)),
        producer_epoch=rng.choice((0, 5)),
        committed=rng.random() < 0.5,
        coordinator_epoch=rng.choice((0, 1, 2**31 - 1)),
        version=ImageVersion(rng.choice((0, 1, 2**40))),
    )
    return encode_end_marker(end, base_offset=Offset(0), leader_epoch=Term(0), now_ms=NOW_MS)


def _control_batch(rng: Random) -> bytes:
    record = rng.choice(CONTROL_RECORDS)
    return encode_batch([(*encode_control(record), ())], timestamp_ms=NOW_MS, control=True)


def _compressed_batch(rng: Random) -> bytes:
    return compressed(plain_batch(rng), rng.choice(CODECS))


def any_batch(rng: Random) -> bytes:
    return rng.choice((plain_batch, _marker, _control_batch, _compressed_batch))(rng)


class Segment(NamedTuple):
    """The bytes of a segment and where its batches begin."""

    content: bytes
    positions: tuple[int, ...]
    base: int = 0

    def sizes(self) -> Iterator[tuple[int, int]]:
        """Position and size of each batch."""
        ends = (*self.positions[1:], len(self.content))
        return zip(
            self.positions,
            (end - start for start, end in zip(self.positions, ends, strict=True)),
            strict=True,
        )


def laid(batches: Sequence[bytes], *, base: int = 0, gaps: Sequence[int] = ()) -> Segment:
    """Batches one after another, with offsets that go on; ``gaps`` are left before them."""
    offset, content, positions = base, b"", []
    for number, batch in enumerate(batches):
        offset += gaps[number] if number < len(gaps) else 0
        positions.append(len(content))
        content += stamp(batch, Offset(offset), Term(number // 3))
        offset += struct.unpack_from(">i", batch, 23)[0] + 1
    return Segment(content, tuple(positions), base)


def any_segment(rng: Random, batches_min: int = 0) -> Segment:
    return laid(
        [any_batch(rng) for _ in range(rng.randint(batches_min, 12))],
        base=rng.choice((0, 1000, 2**40)),
        gaps=[rng.choice((0, 0, 1, 500)) for _ in range(rng.randint(0, 4))],
    )


def written(directory: Path, content: bytes, base: int = 0) -> str:
    """The segment's file in ``directory``."""
    path = directory / f"{base:020d}.log"
    path.write_bytes(content)
    return str(path)


def rows(path: str, start: int = 0, end: int | None = None, **options: Any) -> list[dict[str, Any]]:
    """RECORD_BATCHES of a file."""
    made = decode_segment(path, WHERE._replace(path=path), start, end, **options)
    found: list[dict[str, Any]] = pa.Table.from_batches(made, schema=RECORD_BATCHES).to_pylist()
    return found


def read(path: str) -> tuple[list[dict[str, Any]], Stop]:
    """The rows of a file, and where it ends; demands that together they leave out no byte."""
    stop = stop_of(path)
    found = rows(path)
    reached = 0
    for row in found:
        assert row["position"] == reached, f"{reached} to {row['position']} is no row"
        reached += row["size"]
    assert reached == stop.valid_end, f"rows end at {reached}, the walk at {stop}"
    assert stop.stop != "end" or reached == Path(path).stat().st_size
    return found, stop


def batch_of(*records: Record, **fields: Any) -> bytes:
    return encode_batch([(*each, ()) for each in records], timestamp_ms=NOW_MS, **fields)


def tables_of(directory: Path, topic: str, batches: Sequence[bytes]) -> dict[str, list[dict[str, Any]]]:
    """Every table of a log of these batches, without the place of each row but its position."""
    path = written(directory, laid(batches).content)
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in TABLES}
    for name, rows in decode_log(path, Where(1, topic, 0, path)):
        rows.validate(full=True)
        assert rows.schema == TABLES[name]
        found[name] += rows.to_pylist()
    for rows in found.values():
        for row in rows:
            assert [row.pop(each) for each in PLACE] == [1, topic, 0, path]
    return found
