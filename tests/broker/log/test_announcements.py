"""An announced transaction needs no question, unless the partition knows what came later."""

from pathlib import Path

import pytest

from fencepost.broker.log import producer_state
from fencepost.broker.log.partition_log import PartitionLog
from fencepost.broker.log.shapes import LogConfig
from fencepost.controller.errors import InvalidTxnState
from fencepost.records.types import ImageVersion, ProducerId
from tests.broker.log.builders import EPOCH, NOW_MS, batch, end_transaction

PRODUCER = ProducerId(7)


@pytest.fixture
def log(tmp_path: Path) -> PartitionLog:
    return PartitionLog.open(tmp_path / "orders-0", LogConfig(), NOW_MS)


def write(log: PartitionLog, sequence: int, *, epoch: int = 0) -> None:
    guard = log.verification_guard(PRODUCER, epoch, sequence, NOW_MS)
    log.append(batch(PRODUCER, sequence, epoch=epoch, transactional=True), NOW_MS, EPOCH, guard)


def end(log: PartitionLog, version: int, *, epoch: int = 0) -> None:
    end_transaction(log, PRODUCER, epoch=epoch, version=version)


def test_the_first_batch_needs_no_question(log: PartitionLog) -> None:
    assert not log.is_announced(PRODUCER, 0)
    log.announce(PRODUCER, 0, ImageVersion(10))
    assert log.is_announced(PRODUCER, 0)
    write(log, 0)
    assert not log.is_announced(PRODUCER, 0), "it is of one transaction only"


@pytest.mark.parametrize(("version", "taken"), [(19, False), (20, False), (21, True)])
def test_only_what_is_newer_than_the_last_marker_counts(log: PartitionLog, version: int, taken: bool) -> None:
    log.announce(PRODUCER, 0, ImageVersion(10))
    write(log, 0)
    end(log, 20)
    log.announce(PRODUCER, 0, ImageVersion(version))
    assert log.is_announced(PRODUCER, 0) is taken


def test_a_marker_ends_what_was_announced_and_never_written(log: PartitionLog) -> None:
    log.announce(PRODUCER, 0, ImageVersion(10))
    end(log, 20)
    assert not log.is_announced(PRODUCER, 0)
    log.announce(PRODUCER, 0, ImageVersion(10))  # late, or twice
    assert not log.is_announced(PRODUCER, 0)


def test_another_epoch_is_asked_about(log: PartitionLog) -> None:
    log.announce(PRODUCER, 1, ImageVersion(10))
    assert not log.is_announced(PRODUCER, 0)
    assert not log.is_announced(PRODUCER, 2)
    write(log, 0, epoch=1)
    end(log, 20, epoch=2)
    log.announce(PRODUCER, 1, ImageVersion(30))
    assert not log.is_announced(PRODUCER, 1), "the partition knows a newer epoch"


def test_the_last_marker_is_known_after_a_restart(log: PartitionLog, tmp_path: Path) -> None:
    end(log, 20)
    log.close()
    reopened = PartitionLog.open(tmp_path / "orders-0", LogConfig(), NOW_MS)
    reopened.announce(PRODUCER, 0, ImageVersion(20))
    assert not reopened.is_announced(PRODUCER, 0)
    with pytest.raises(InvalidTxnState):
        reopened.append(batch(PRODUCER, 0, epoch=0, transactional=True), NOW_MS, EPOCH, None)
    reopened.close()


def test_announcements_are_bounded_and_the_oldest_is_forgotten(
    log: PartitionLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producer_state, "VERIFICATIONS_MAX", 2)
    for producer_id in (1, 2, 3):
        log.announce(ProducerId(producer_id), 0, ImageVersion(10))
    assert [log.is_announced(ProducerId(each), 0) for each in (1, 2, 3)] == [False, True, True]
