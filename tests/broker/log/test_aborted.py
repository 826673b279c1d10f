"""Aborted transactions of the bytes returned: found by search, narrowed, and enough for a consumer.

A consumer here is Kafka's own rule (ConsumerRecords of a read_committed fetch): from a listed first offset on
the producer's batches are dropped, until its ABORT marker.
"""

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from fencepost.broker.log import aborted, search
from fencepost.broker.log.aborted import BATCHES_MAX, UNNARROWED_MAX
from fencepost.broker.log.index_file import IndexFile
from fencepost.broker.log.partition_log import PartitionLog
from fencepost.broker.log.shapes import Aborted, LogConfig
from fencepost.records.batch import iter_batches
from fencepost.records.types import Offset, ProducerId
from tests.broker.log.builders import append, batch, end_transaction, open_log
from tests.examples import seeds

SMALL = LogConfig(verification=False, segment_bytes=4_000)


def committed(log: PartitionLog, bytes_max: int) -> tuple[list[int], int, int]:
    """The offsets of the data that a consumer delivers, the fetches it took, and the entries it was sent."""
    position, fetches, listed = log.start, 0, 0
    delivered: list[int] = []
    while position < log.last_stable_offset:
        records, found = log.read_committed(position, bytes_max)
        fetches += 1
        listed += len(found)
        assert records, "there is always one batch more"
        waiting = sorted(found, key=lambda each: each.first_offset)
        dropped: set[int] = set()
        for each in iter_batches(records):
            while waiting and waiting[0].first_offset < each.end:
                dropped.add(waiting.pop(0).producer_id)
            if each.is_control:
                if each.records[0].key == b"\0\0\0\0":
                    assert each.producer_id in dropped, (
                        "librdkafka warns of an ABORT marker that is not listed"
                    )
                    dropped.discard(each.producer_id)
            elif not (each.is_transactional and each.producer_id in dropped):
                delivered += [each.base_offset] if each.base_offset >= position else []
            position = each.end
    return delivered, fetches, listed


@pytest.mark.parametrize("seed", seeds(range(12), 3), ids="seed-{}".format)
@pytest.mark.parametrize(
    ("unnarrowed", "batches"),
    [
        pytest.param(UNNARROWED_MAX, BATCHES_MAX, id="as-it-is"),
        pytest.param(0, BATCHES_MAX, id="narrowed"),
        pytest.param(0, 2, id="narrowed-and-cut"),
    ],
)
def test_a_consumer_delivers_what_was_committed_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, unnarrowed: int, batches: int
) -> None:
    """Producers write, commit and abort in any order, over several segments, read in pieces of any size."""
    monkeypatch.setattr(search, "UNNARROWED_MAX", unnarrowed)
    monkeypatch.setattr(aborted, "BATCHES_MAX", batches)
    monkeypatch.setattr(aborted, "BLOCK_ENTRIES", 4)
    random = Random(seed)
    log = open_log(tmp_path, SMALL)
    open_since: dict[int, list[int]] = {}
    sequences: dict[int, int] = {}
    expected: list[int] = []
    for _ in range(300):
        producer = random.randrange(random.choice([2, 12]))
        if producer in open_since and random.random() < 0.4:
            outcome = random.random() < 0.4
            end_transaction(log, producer, committed=outcome)
            offsets = open_since.pop(producer)
            expected += offsets if outcome else []
        elif random.random() < 0.1:
            expected.append(log.end)
            append(log, batch())
        else:
            open_since.setdefault(producer, []).append(log.end)
            append(log, batch(producer, sequences.get(producer, 0), transactional=True))
            sequences[producer] = sequences.get(producer, 0) + 1
    for producer, offsets in open_since.items():
        end_transaction(log, producer, committed=True)
        expected += offsets
    assert len(log._segments) > 3
    for bytes_max in (1, 200, 1_000, 100_000):
        assert committed(log, bytes_max)[0] == sorted(expected)


class Reads:
    """Counts the entries that are read from indexes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.entries = 0
        between, get = IndexFile.between, IndexFile.__getitem__

        def counted_between(index: IndexFile, first: int, end: int) -> Iterator[Any]:
            for entry in between(index, first, end):
                self.entries += 1
                yield entry

        def counted_get(index: IndexFile, number: int) -> Any:
            self.entries += 1
            return get(index, number)

        monkeypatch.setattr(IndexFile, "between", counted_between)
        monkeypatch.setattr(IndexFile, "__getitem__", counted_get)


COUNT = 1_000
BLOCK_ENTRIES = 64  # several blocks in one segment


def one_after_the_other(log: PartitionLog) -> None:
    for producer in range(COUNT):
        append(log, batch(producer, 0, transactional=True))
        end_transaction(log, producer, committed=False)


def under_an_old_one(log: PartitionLog) -> None:
    append(log, batch(COUNT, 0, transactional=True))
    one_after_the_other(log)
    end_transaction(log, COUNT, committed=False)


def all_open_at_once(log: PartitionLog) -> None:
    for producer in range(COUNT):
        append(log, batch(producer, 0, transactional=True))
    for producer in range(COUNT):
        end_transaction(log, producer, committed=False)


def of_one_producer(log: PartitionLog) -> None:
    for number in range(COUNT):
        append(log, batch(1, number, transactional=True))
        end_transaction(log, 1, committed=False)


@pytest.mark.parametrize(
    ("write", "entries_max"),
    [
        pytest.param(one_after_the_other, 60, id="one after the other"),
        pytest.param(under_an_old_one, 2 * BLOCK_ENTRIES, id="while an old one is open"),
        pytest.param(of_one_producer, 60, id="of one producer"),
    ],
)
@pytest.mark.parametrize("segment_bytes", [1 << 30, 50_000], ids=["one segment", "segments"])
def test_a_reader_that_catches_up_costs_as_much_as_it_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Any, entries_max: int, segment_bytes: int
) -> None:
    monkeypatch.setattr(aborted, "BLOCK_ENTRIES", BLOCK_ENTRIES)
    log = open_log(tmp_path, LogConfig(verification=False, segment_bytes=segment_bytes))
    write(log)
    reads = Reads(monkeypatch)
    delivered, fetches, listed = committed(log, 1)
    assert delivered == []
    assert fetches == log.end, "a batch, or a marker, each"
    assert listed <= 2 * fetches
    assert reads.entries <= entries_max * fetches


@pytest.mark.parametrize("count", [UNNARROWED_MAX // 2, 3 * UNNARROWED_MAX])
def test_a_list_is_of_the_bytes_returned(tmp_path: Path, count: int) -> None:
    log = open_log(tmp_path)
    for producer in range(count):
        append(log, batch(producer, 0, transactional=True))
        end_transaction(log, producer, committed=False)
    for offset in (0, 1, 20):
        records, found = log.read_committed(Offset(offset), 1)
        assert len(list(iter_batches(records))) == 1
        assert found == (Aborted(ProducerId(offset // 2), Offset(offset // 2 * 2)),)


def test_a_list_is_no_longer_than_what_it_is_for(tmp_path: Path) -> None:
    """All are open at once: each overlaps every batch, but a batch is of one producer."""
    log = open_log(tmp_path)
    all_open_at_once(log)
    assert len(log.aborted(Offset(COUNT - 1), Offset(COUNT))) == COUNT
    _, found = log.read_committed(Offset(COUNT - 1), 1)
    assert [each.producer_id for each in found] == [COUNT - 1]
    delivered, _, listed = committed(log, 10_000)
    assert (delivered, listed) == ([], 2 * COUNT)


@pytest.mark.parametrize("extra", [0, 1])
def test_a_list_is_narrowed_from_one_entry_past_the_bound_on(tmp_path: Path, extra: int) -> None:
    log = open_log(tmp_path)
    for producer in range(UNNARROWED_MAX + extra):
        append(log, batch(producer, 0, transactional=True))
    for producer in range(UNNARROWED_MAX + extra):
        end_transaction(log, producer, committed=False)
    _, found = log.read_committed(Offset(log.end - 1), 1)
    assert len(found) == 1
    _, found = log.read_committed(Offset(UNNARROWED_MAX + extra - 1), 1)
    assert len(found) == (1 if extra else UNNARROWED_MAX)


@pytest.mark.parametrize("extra", [0, 1])
def test_the_batches_that_are_looked_at_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, extra: int
) -> None:
    monkeypatch.setattr(aborted, "BATCHES_MAX", 100)
    log = open_log(tmp_path)
    for producer in range(100 + extra):
        append(log, batch(producer, 0, transactional=True))
    end = log.end
    for producer in range(100 + extra):
        end_transaction(log, producer, committed=False)
    size = len(log.read(Offset(0), 1 << 20, Offset(end)))
    records, found = log.read_committed(Offset(0), size)
    assert len(list(iter_batches(records))) == len(found) == 100


def test_the_blocks_follow_a_cut(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    all_open_at_once(log)
    log.truncate_to(Offset(COUNT + 700), 0)
    assert log.aborted(Offset(0), log.end) == tuple(Aborted(producer, producer) for producer in range(700))  # type: ignore[arg-type]
