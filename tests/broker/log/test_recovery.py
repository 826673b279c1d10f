"""Opening what a crash left: torn at every byte, files missing, files damaged."""

import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from crc32c import crc32c

from fencepost.broker.log.partition_log import PartitionLog
from fencepost.broker.log.repair import inspect
from fencepost.broker.log.shapes import Aborted, LogConfig
from fencepost.records.batch import iter_batches
from fencepost.records.types import Offset, ProducerId, Term
from tests.broker.log.builders import (
    NOW_MS,
    append,
    batch,
    contents,
    crash,
    end_of,
    end_transaction,
    memory,
    open_log,
    read_all,
)
from tests.together import table

SMALL = LogConfig(verification=False, segment_bytes=1500, index_interval_bytes=200)
LARGE = LogConfig(verification=False, index_interval_bytes=200)


def transactions(log: PartitionLog, rounds: int, begin: int = 0) -> PartitionLog:
    """Per round: two producers' transactions interleaved, one aborted, and idempotent records between."""
    for number in range(begin, begin + rounds):
        append(log, batch(1, number * 2, transactional=True), batch(3, number))
        append(log, batch(2, number, transactional=True), batch(1, number * 2 + 1, transactional=True))
        end_transaction(log, 1, committed=number % 3 == 0, version=number * 2 + 1)
        append(log, batch(timestamp_ms=NOW_MS + number))
        end_transaction(log, 2, committed=number % 2 == 0, version=number * 2 + 2)
    return log


def reopen(directory: Path, config: LogConfig = SMALL) -> PartitionLog:
    return PartitionLog.open(directory / "topic-0", config, NOW_MS)


def start(directory: Path) -> PartitionLog:
    """A log with an unambiguous history: nothing in it was forgotten by hand."""
    log = open_log(directory, SMALL)
    transactions(log, 6)
    log.flush()
    transactions(log, 6, 6)
    append(log, batch(1, 24, transactional=True))
    return log


def test_killed_nothing_is_lost(tmp_path: Path) -> None:
    log = start(tmp_path / "a")
    again = reopen(crash(log, tmp_path / "b"))
    assert contents(again) == contents(log)
    assert again.repairs == ()


def test_what_was_read_again_is_not_read_once_more(tmp_path: Path) -> None:
    log = start(tmp_path / "a")
    again = reopen(crash(log, tmp_path / "b"))
    assert again._durability.durable_end < again.end
    assert again.flush_wanted
    again.flush()
    third = reopen(crash(again, tmp_path / "c"))
    assert third._durability.durable_end == third.end
    assert contents(third) == contents(log)


def test_closed_nothing_is_read_again(tmp_path: Path) -> None:
    log = start(tmp_path)
    before = contents(log)
    log.close()
    again = reopen(tmp_path)
    assert contents(again) == before
    assert again.repairs == ()
    assert again._durability.durable_end == again.end


def test_torn_at_every_byte_the_last_whole_batch_is_the_end(tmp_path: Path) -> None:
    log = open_log(tmp_path / "a", LARGE)
    transactions(log, 2)
    append(log, batch(1, 4, transactional=True), batch(3, 2))
    raw = read_all(log)
    path = log.directory / f"{0:020d}.log"
    ends = {0: 0}
    position = 0
    for one in iter_batches(raw):
        position += struct.unpack_from(">i", raw, position + 8)[0] + 12
        ends[position] = one.end
    expected = {}
    for size, end in ends.items():
        never = open_log(tmp_path / f"never-{end}", LARGE)
        _replay(never, raw[:size])
        expected[size] = contents(never)
        never.close()
    for size in range(len(raw) + 1):
        path.write_bytes(raw[:size])
        torn = reopen(tmp_path / "a", LARGE)
        whole = max(end for end in ends if end <= size)
        assert contents(torn) == expected[whole]
        assert (torn.repairs != ()) == (size != whole)
        torn._let_go()


def _replay(log: PartitionLog, raw: bytes) -> None:
    """Append again what a log holds, batch by batch, through the front door."""
    position = 0
    for one in iter_batches(raw):
        size = struct.unpack_from(">i", raw, position + 8)[0] + 12
        if one.is_control:
            record = one.records[0]
            version = int.from_bytes(record.headers[0][1] or b"")
            committed = record.key == b"\0\0\0\x01"
            end_transaction(log, one.producer_id, committed=committed, version=version)
        else:
            append(log, bytes(8) + raw[position + 8 : position + size])
        position += size


def test_a_cut_log_goes_on_where_it_ends(tmp_path: Path) -> None:
    log = start(tmp_path)
    last = max(log.directory.glob("*.log"))
    last.write_bytes(last.read_bytes()[:-1])
    torn = reopen(tmp_path)
    assert torn.repairs[0].startswith(f"{last.name}: cut at position")
    end = torn.end
    append(torn, batch(1, 24, transactional=True))
    assert torn.end == end + 1 == log.end
    torn.close()
    assert reopen(tmp_path).repairs == ()


def every_snapshot(directory: Path, change: Callable[[Path], object]) -> None:
    paths = sorted(directory.glob("*.snapshot"))
    assert paths
    for path in paths:
        change(path)


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def flip(path: Path) -> None:
    raw = path.read_bytes()
    path.write_bytes(raw[: len(raw) // 2] + bytes((raw[len(raw) // 2] ^ 1,)) + raw[len(raw) // 2 + 1 :])


def empty(path: Path) -> None:
    path.write_bytes(b"")


DAMAGE = [
    pytest.param(Path.unlink, id="deleted"),
    pytest.param(cut_short, id="cut short"),
    pytest.param(flip, id="a bit flipped"),
    pytest.param(empty, id="empty"),
]


@table("change", DAMAGE)
@table("is_closed", [True, False], ids=["closed", "killed"])
def test_producers_without_a_snapshot_are_what_the_log_says(
    tmp_path: Path, change: Callable[[Path], object], is_closed: bool
) -> None:
    log = start(tmp_path)
    before = contents(log)
    if is_closed:
        log.close()
    every_snapshot(log.directory, change)
    again = reopen(tmp_path)
    assert contents(again) == before
    assert bool(again.repairs) == (change is not Path.unlink)
    assert all("snapshot: removed, " in repair for repair in again.repairs)


@table("change", DAMAGE)
def test_the_newest_snapshot_gives_way_to_the_one_before(
    tmp_path: Path, change: Callable[[Path], object]
) -> None:
    log = start(tmp_path)
    log.close()
    change(max(log.directory.glob("*.snapshot")))
    assert contents(reopen(tmp_path)) == contents(log)


@table("suffix", [".index", ".timeindex", ".txnindex"])
@table("change", [*DAMAGE[:2], pytest.param(None, id="entries that go back")])
@table("number", [0, 1, -1])
@table("is_closed", [True, False], ids=["closed", "killed"])
def test_an_index_is_made_again(
    tmp_path: Path, suffix: str, change: Callable[[Path], object] | None, number: int, is_closed: bool
) -> None:
    log = start(tmp_path)
    before = contents(log)
    indexed = [log.offset_for_time(NOW_MS + number) for number in range(14)]
    if is_closed:
        log.close()
    paths = sorted(log.directory.glob(f"*{suffix}"))
    original = {path: path.read_bytes() for path in paths if path != paths[-1]}
    if change is None:
        entry = {".index": 8, ".timeindex": 12, ".txnindex": 34}[suffix]
        raw = paths[number].read_bytes()
        paths[number].write_bytes(raw[entry:] + raw[:entry] if len(raw) > entry else raw + bytes(entry))
    elif paths[number].stat().st_size or change is Path.unlink:
        change(paths[number])
    again = reopen(tmp_path)
    assert contents(again) == before
    assert [again.offset_for_time(NOW_MS + number) for number in range(14)] == indexed
    assert {path: path.read_bytes() for path in original} == original
    again.close()
    assert reopen(tmp_path).repairs == ()


@table("flushed", range(0, 60, 7))
def test_a_full_segments_index_has_its_greatest_time_again(tmp_path: Path, flushed: int) -> None:
    """Each batch has a greater one: the last one's is entered by rolling alone, or by reading it again."""
    config = LogConfig(verification=False, segment_bytes=1000, index_interval_bytes=350)
    log = open_log(tmp_path / f"{flushed}", config)
    for number in range(60):
        append(log, batch(timestamp_ms=NOW_MS + number))
        if number == flushed:
            log._request_snapshot()
            log.flush()
    before = {path.name: path.read_bytes() for path in log.directory.glob("*.timeindex")}
    left = crash(log, tmp_path / f"{flushed}-killed")
    for name in before:
        (left / "topic-0" / name).unlink()
    again = reopen(left, config)
    assert {path.name: path.read_bytes() for path in again.directory.glob("*.timeindex")} == before


def test_an_index_is_made_again_for_a_log_whose_start_is_gone(tmp_path: Path) -> None:
    log = open_log(tmp_path, SMALL)
    transactions(log, 4)
    append(log, batch(9, 0))
    transactions(log, 8, 4)
    log.flush()
    log.config = LogConfig(
        verification=False, segment_bytes=1500, index_interval_bytes=200, retention_bytes=3000
    )
    assert log.retain(NOW_MS) == 2
    before = contents(log)
    log.close()
    min(log.directory.glob("*.txnindex")).unlink()
    again = reopen(tmp_path)
    assert contents(again) == before, "producer 9, whose record is gone, is in the newest snapshot only"


def test_what_was_open_where_the_log_begins_is_in_an_index_that_is_made_again(tmp_path: Path) -> None:
    """Of its producer no record is left but the marker: the snapshot there says that it had a transaction."""
    log = open_log(tmp_path, SMALL)
    append(log, batch(8, 0, transactional=True))
    while len(log.scrubbable.segments()) == 1:
        append(log, batch())
    base = log.scrubbable.segments()[1].base
    end_transaction(log, 8, committed=False)
    log.flush()
    while len(log.scrubbable.segments()) < 4:
        append(log, batch())
    log.flush()
    log.first_kept = base
    assert log.retain(NOW_MS) == 1
    before = contents(log)
    assert log.aborted(base, log.end) == (Aborted(ProducerId(8), Offset(0)),)
    log.close()
    min(log.directory.glob("*.txnindex")).unlink()
    assert contents(reopen(tmp_path)) == before


@table("content", [None, b"", b"0\n5\n1 2\n", b"1\n0\n", b"0\n2\n3 5\n2 9\n", b"\xff"])
def test_leader_epochs_are_made_again(tmp_path: Path, content: bytes | None) -> None:
    log = open_log(tmp_path, SMALL)
    for number in range(40):
        log.append(batch(), NOW_MS, Term(number // 7))
    ends = [log.offset_for_epoch(Term(epoch)) for epoch in range(7)]
    log.close()
    path = log.directory / "leader-epoch-checkpoint"
    assert path.read_text() == "0\n6\n0 0\n1 7\n2 14\n3 21\n4 28\n5 35\n"
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    again = reopen(tmp_path)
    assert [again.offset_for_epoch(Term(epoch)) for epoch in range(7)] == ends
    assert again.repairs == ("leader-epoch-checkpoint: made again from the batches",)
    assert path.read_text().startswith("0\n6\n")


def test_what_a_killed_process_left_is_tidied(tmp_path: Path) -> None:
    log = start(tmp_path)
    log.close()
    for name in ("leader-epoch-checkpoint.tmp", f"{5:020d}.snapshot.tmp", f"{999:020d}.index"):
        (log.directory / name).write_bytes(b"half")
    (log.directory / "notes.snapshot").write_bytes(b"somebody's")
    again = reopen(tmp_path)
    assert contents(again) == contents(log)
    left = {path.name for path in log.directory.iterdir()}
    assert not [name for name in left if name.endswith(".tmp") or name.startswith(f"{999:020d}")]
    assert "notes.snapshot" in left


def test_a_directory_of_kafka_without_our_bytes_is_read(tmp_path: Path) -> None:
    """Kafka's producer snapshot ends before our memory of batches and markers."""
    log = start(tmp_path)
    log.close()
    path = max(log.directory.glob("*.snapshot"))
    raw = path.read_bytes()
    (count,) = struct.unpack_from(">i", raw, 6)
    body = raw[6 : 10 + 46 * count]
    for sums in log.directory.glob("*.checksums"):
        sums.unlink()
    path.write_bytes(struct.pack(">hI", 1, crc32c(body)) + body)
    again = reopen(tmp_path)
    assert again.repairs == ()
    assert again.producers() == log.producers()
    assert again.last_stable_offset == log.last_stable_offset
    assert {len(state.batches) for state in memory(again).values()} == {1}


def test_a_late_duplicate_marker_is_known_with_and_without_the_snapshot(tmp_path: Path) -> None:
    log = open_log(tmp_path / "a")
    append(log, batch(7, 0, transactional=True))
    end_transaction(log, 7, version=600)
    append(log, batch(7, 1, transactional=True))  # the next transaction
    killed = reopen(crash(log, tmp_path / "b"))
    log.close()
    shutil.copytree(tmp_path / "a", tmp_path / "c")
    every_snapshot(tmp_path / "c" / "topic-0", Path.unlink)
    for directory, opened in ((None, killed), ("a", None), ("c", None)):
        again = opened or reopen(tmp_path / str(directory))
        assert again.last_stable_offset == 2
        assert end_transaction(again, 7, version=600).appended is False
        assert end_transaction(again, 7, version=599).appended is False
        assert again.last_stable_offset == 2, "the open transaction was ended by another one's marker"
        assert end_transaction(again, 7, version=601).appended
        assert again.last_stable_offset == again.end


def test_a_hole_in_the_middle_is_read_over(tmp_path: Path) -> None:
    """Half of a deletion may be undone by a power cut: a consumer goes on after the hole, which is named."""
    log = start(tmp_path)
    log.close()
    bases = [int(path.stem) for path in sorted(log.directory.glob("*.log"))]
    for suffix in (".log", ".index", ".timeindex", ".txnindex"):
        (log.directory / f"{bases[1]:020d}{suffix}").unlink()
    again = reopen(tmp_path)
    assert (again.start, again.end, memory(again)) == (log.start, log.end, memory(log))
    said = f"no segment has offsets {bases[1]} to {bases[2] - 1}"
    assert said in again.repairs[-1]
    assert said in str(inspect(log.directory, machine_went_down=False).changed)
    found = []
    offset = again.start
    while offset < again.end:
        piece = again.read(offset, 1, again.end)
        found.append(next(iter_batches(piece)).base_offset)
        offset = end_of(piece)
    assert found[0] == 0
    assert found[-1] == again.end - 1
    assert not [offset for offset in found if bases[1] <= offset < bases[2]]
