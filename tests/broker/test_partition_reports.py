"""What heartbeats say of partitions: when, in which order, and again after one that was not answered."""

import asyncio
import uuid
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import fencepost.broker.partition_reports
from fencepost.broker.partition_reports import INTERVAL_MS, PartitionReports
from fencepost.records.partition_report import OFFLINE, PartitionReport
from fencepost.records.types import BrokerEpoch
from tests.broker.batches import TOPIC, batch, produce
from tests.broker.data_stage import HERE, produced
from tests.broker.fake_controller import FakeController, play
from tests.broker.test_lost_logs import filled, started

FIRST, SECOND = BrokerEpoch(5), BrokerEpoch(6)
TOPIC_ID = uuid.UUID(int=7)


class Logs:
    """Partitions 0 to ``count`` - 1 of one topic; each ends at 10 times its number."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.gone: set[int] = set()
        self.now_ms = 0
        self.reports = PartitionReports(self, clock_ms=lambda: self.now_ms)  # type: ignore[arg-type]

    def __iter__(self) -> Any:
        return (found for index in range(self.count) if (found := self.find_by_id(TOPIC_ID, index)))

    def find_by_id(self, topic_id: uuid.UUID, index: int) -> Any:
        if index in self.gone or index >= self.count:
            return None
        return SimpleNamespace(topic_id=topic_id, index=index, log=SimpleNamespace(end=10 * index))

    def offline(self) -> set[tuple[uuid.UUID, int]]:
        return {(TOPIC_ID, index) for index in self.gone}

    def heartbeat(
        self, epoch: BrokerEpoch = FIRST, *, answered: bool = True, leaving: bool = False
    ) -> dict[int, int]:
        """What a heartbeat says: ends by partition."""
        said = self.reports.next(epoch, leaving=leaving)
        if answered:
            self.reports.answered()
        return {each.partition: each.end for each in said}


def test_ends_are_reported_once_a_minute_for_each_registration_and_by_one_who_leaves() -> None:
    logs = Logs(2)
    ends = {0: 0, 1: 10}
    assert [logs.heartbeat(), logs.heartbeat()] == [ends, {}]
    logs.now_ms += INTERVAL_MS
    assert [logs.heartbeat(answered=False), logs.heartbeat(), logs.heartbeat()] == [ends, ends, {}]
    assert [logs.heartbeat(SECOND), logs.heartbeat(SECOND)] == [ends, {}]
    assert logs.heartbeat(SECOND, leaving=True) == ends


def test_more_ends_than_fit_are_reported_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fencepost.broker.partition_reports, "ENDS_MAX", 2)
    logs = Logs(5)
    said = []
    for _ in range(5):
        said.append(set(logs.heartbeat()))
        logs.now_ms += INTERVAL_MS
    assert said == [{0, 1}, {2, 3}, {4}, {0, 1}, {2, 3}]
    logs.count = 0
    assert logs.heartbeat() == {}


def test_offline_is_reported_at_once_until_it_was_answered_and_again_each_minute() -> None:
    logs = Logs(2)
    logs.heartbeat()
    logs.gone = {1}
    assert [logs.heartbeat(answered=False), logs.heartbeat(), logs.heartbeat()] == [
        {1: OFFLINE},
        {1: OFFLINE},
        {},
    ]
    logs.now_ms += INTERVAL_MS
    assert [logs.heartbeat(), logs.heartbeat()] == [{0: 0, 1: OFFLINE}, {}]
    logs.gone = set()
    assert [logs.heartbeat(answered=False), logs.heartbeat(), logs.heartbeat()] == [{1: 10}, {1: 10}, {}]


def test_what_came_back_when_ends_were_due_is_not_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fencepost.broker.partition_reports, "ENDS_MAX", 1)
    logs = Logs(3)
    logs.gone = {2}
    logs.heartbeat()
    logs.gone, logs.now_ms = set(), INTERVAL_MS
    assert logs.heartbeat() == {1: 10, 2: 20}


def test_a_new_registration_knows_of_none_and_a_topic_that_is_gone_is_reported_no_more() -> None:
    logs = Logs(2)
    logs.gone = {1}
    assert logs.heartbeat() == {0: 0, 1: OFFLINE}
    assert logs.heartbeat(SECOND) == {0: 0, 1: OFFLINE}
    logs.gone, logs.count = set(), 1
    assert [logs.heartbeat(SECOND), logs.heartbeat(SECOND)] == [{}, {}]
    assert logs.reports._offline == set()


def test_many_that_are_offline_take_several_heartbeats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fencepost.broker.partition_reports, "OFFLINE_MAX", 2)
    logs = Logs(6)
    logs.heartbeat()
    logs.gone = {1, 2, 3, 4, 5}
    assert [set(logs.heartbeat()) for _ in range(4)] == [{1, 2}, {3, 4}, {5}, set()]


def test_a_broker_reports_its_ends_and_a_log_that_could_not_be_opened(tmp_path: Path) -> None:
    async def story() -> None:
        controller = FakeController()
        topic_id = controller.add_topic(TOPIC, HERE, HERE).topic_id
        assert topic_id is not None
        async with controller:
            await filled(controller, tmp_path, batch(b"a"), batch(b"b"))
            (tmp_path / f"{TOPIC}-0" / f"{0:020d}.log").write_bytes(b"no batch")
            on = await started(controller, tmp_path)
            await produced(on, produce(batch(b"c"), batch(b"d")))
            assert on.broker._data.reports.next(BrokerEpoch(1_000)) == (
                PartitionReport(topic_id, 0, OFFLINE),
                PartitionReport(topic_id, 1, 2),
            )
            while not any(each.reports for each in controller.asked[63]):
                await asyncio.sleep(0.001)
            await on.broker.stop()

    play(story)
