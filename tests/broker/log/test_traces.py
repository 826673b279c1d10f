"""What partition logs tell of a cluster whose quorum is lost: ids, epochs, markers, open transactions."""

from pathlib import Path
from uuid import UUID

import pytest

from fencepost.broker.log.damage import DamagedLog
from fencepost.broker.log.log_directory import LogDirectory, LogDirectoryInUse
from fencepost.broker.log.partition_log import PartitionLog
from fencepost.broker.log.traces import Traces
from fencepost.controller.restoring import Found
from fencepost.records.transaction_log import TopicPartitions
from fencepost.records.types import ProducerId, Term
from tests.broker.log.builders import NOW_MS, SMALL, UNVERIFIED, append, batch, end_transaction
from tests.broker.log.test_cleaner import CONFIG, clean, play
from tests.broker.log.test_compaction import DAY_MS
from tests.together import table


def hosted(root: Path, name: str, *, closed: bool = True) -> PartitionLog:
    """Producer 3 committed, 9 has one open since, 40 only wrote."""
    log = PartitionLog.open(root / name, UNVERIFIED, NOW_MS, UUID(int=5))
    append(log, batch(3, 0, transactional=True), batch(9, 0, epoch=6, transactional=True))
    end_transaction(log, 3, version=70, coordinator_epoch=11)
    log.append(batch(40, 0), NOW_MS, Term(2))
    log.close() if closed else log._let_go()
    return log


def found_in(root: Path) -> Found:
    traces = Traces()
    traces.read_partitions(root, NOW_MS)
    return traces.found()


@table("closed", [True, False])
def test_everything_that_a_restored_image_must_lie_behind(tmp_path: Path, closed: bool) -> None:
    hosted(tmp_path, "orders-0", closed=closed)
    hosted(tmp_path, "a-topic-2-3", closed=closed)
    found = found_in(tmp_path)
    assert found.producer_id_end == 41
    assert found.producer_epochs == {3: 0, 9: 6, 40: 0}
    assert found.opened == {9: (TopicPartitions("a-topic-2", (3,)), TopicPartitions("orders", (0,)))}
    assert (found.marker_version, found.coordinator_epoch) == (70, 11)
    assert found.leader_epochs == {("orders", 0): 2, ("a-topic-2", 3): 2}


def test_ids_of_producers_that_expired_are_found_in_the_batches(tmp_path: Path) -> None:
    log = hosted(tmp_path, "orders-0", closed=False)
    log = PartitionLog.open(log.directory, UNVERIFIED, NOW_MS)
    log.append(batch(500, 0), NOW_MS, Term(2))
    log._states.table.pop(ProducerId(500))
    log.close()
    assert found_in(tmp_path).producer_id_end == 501


def test_markers_of_producers_that_expired_are_found_in_the_batches(tmp_path: Path) -> None:
    log = PartitionLog.open(tmp_path / "orders-0", UNVERIFIED, NOW_MS, UUID(int=5))
    append(log, batch(12, 0, transactional=True))
    end_transaction(log, 12, version=90, coordinator_epoch=13)
    log._states.table.pop(ProducerId(12))
    log.close()
    found = found_in(tmp_path)
    assert (found.marker_version, found.coordinator_epoch) == (90, 13)


def test_ids_of_producers_whose_batches_are_deleted_are_found_in_the_snapshot(tmp_path: Path) -> None:
    log = PartitionLog.open(tmp_path / "orders-0", SMALL, NOW_MS, UUID(int=5))
    append(log, batch(800, 0, epoch=4))
    while len(log.scrubbable.segments()) < 3:
        append(log, batch())
    log.flush()
    log.first_kept = log.scrubbable.segments()[1].base
    assert log.retain(NOW_MS) == 1
    log.close()
    found = found_in(tmp_path)
    assert (found.producer_id_end, found.producer_epochs) == (801, {800: 4})


def test_a_compacted_log_is_read(tmp_path: Path) -> None:
    log = PartitionLog.open(tmp_path / "orders-0", CONFIG, NOW_MS, UUID(int=5))
    play(log)
    log.flush()
    clean(log, NOW_MS)
    clean(log, NOW_MS + 2 * DAY_MS)
    log.close()
    found = found_in(tmp_path)
    assert found.producer_epochs == {1: 0, 2: 0, 7: 0}
    assert found.marker_version == 60


def test_a_damaged_log_is_refused(tmp_path: Path) -> None:
    log = hosted(tmp_path, "orders-0", closed=False)
    path = log.directory / f"{0:020d}.log"
    raw = bytearray(path.read_bytes())
    raw[40] ^= 1
    path.write_bytes(raw)
    with pytest.raises(DamagedLog):
        found_in(tmp_path)


def test_a_node_that_runs_is_refused(tmp_path: Path) -> None:
    hosted(tmp_path, "orders-0")
    running = LogDirectory(tmp_path)
    with pytest.raises(LogDirectoryInUse):
        found_in(tmp_path)
    running.release()


def test_a_directory_without_partitions_is_left_alone(tmp_path: Path) -> None:
    assert found_in(tmp_path) == Found()
    assert list(tmp_path.iterdir()) == []
