"""How many producers a partition knows, and who is forgotten for another one."""

from pathlib import Path
from random import Random

import pytest

from fencepost.broker.log import producer_state
from fencepost.broker.log.partition_log import PartitionLog
from fencepost.controller.errors import PolicyViolation
from fencepost.records.types import ProducerId
from tests.broker.log.builders import NOW_MS, UNVERIFIED, append, batch, end_transaction


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer_state, "PRODUCERS_MAX", 10)
    monkeypatch.setattr(producer_state, "PRODUCERS_FORGOTTEN", 3)


def open_log(folder: Path) -> PartitionLog:
    return PartitionLog.open(folder / "t-0", UNVERIFIED, NOW_MS)


def test_the_one_that_wrote_longest_ago_is_forgotten(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for producer in range(10):
        append(log, batch(producer, 0))
    append(log, batch(0, 1))  # now 1 to 3 are the oldest
    assert len(log.producer_ids()) == 10  # at the limit
    append(log, batch(10, 0))
    assert log.producer_ids() == (0, 4, 5, 6, 7, 8, 9, 10)
    append(log, batch(1, 1))  # whose state is gone goes on, as after producer.id.expiration.ms
    log.close()
    assert open_log(tmp_path).producer_ids() == (0, 1, 4, 5, 6, 7, 8, 9, 10)


def test_one_with_an_open_transaction_is_never_forgotten(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for producer in range(3):
        append(log, batch(producer, 0, transactional=True))
    for producer in range(3, 40):
        append(log, batch(producer, 0))
        assert {0, 1, 2} <= set(log.producer_ids())
        assert len(log.producer_ids()) <= 10
    assert log.last_stable_offset == 0
    for producer in range(3):
        end_transaction(log, producer, version=7)
    assert log.last_stable_offset == log.end


def test_where_all_have_transactions_open_another_is_refused(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for producer in range(10):
        append(log, batch(producer, 0, transactional=True))
    for transactional in (True, False):
        with pytest.raises(PolicyViolation, match="10 producers have transactions open"):
            append(log, batch(10, 0, transactional=transactional))
    append(log, batch(9, 1, transactional=True))
    end_transaction(log, 4, committed=False, version=7)
    append(log, batch(10, 0))
    assert log.producer(ProducerId(4)) is None


@pytest.mark.parametrize("seed", range(10))
def test_a_walk_forgets_only_what_may_be_and_reads_the_same_again(tmp_path: Path, seed: int) -> None:
    rng, log = Random(seed), open_log(tmp_path)
    following: dict[int, int] = {}
    opened: set[int] = set()
    for version in range(1, 200):
        producer = rng.randrange(30)
        if producer in opened and rng.random() < 0.5:
            end_transaction(log, producer, committed=rng.random() < 0.5, version=version)
            opened.discard(producer)
            continue
        if log.producer(ProducerId(producer)) is None:
            following[producer] = 0
        transactional = producer in opened or (len(opened) < 9 and rng.random() < 0.3)
        append(log, batch(producer, following[producer], transactional=transactional))
        following[producer] += 1
        opened |= {producer} if transactional else set()
        assert opened <= set(log.producer_ids())
        assert len(log.producer_ids()) <= 10
    rows = log.producers()
    log.close()
    assert open_log(tmp_path).producers() == rows
