"""A coordinator on a bench that keeps offsets of groups, and its clients."""

from typing import Any, cast

from structlog.typing import FilteringBoundLogger

from fencepost.controller.decision import Decision
from fencepost.controller.groups import offset_tables
from fencepost.controller.groups.offset_messages import (
    AddOffsets,
    CommitOffsets,
    CommitTransactionOffsets,
    FetchOffsets,
    GroupQuery,
    OffsetToCommit,
)
from fencepost.controller.groups.offsets import OffsetRules
from fencepost.controller.levels import LOG_LEVEL
from fencepost.coordinator.coordinator_errors import CoordinatorErrors
from fencepost.coordinator.groups.offset_server import OffsetServer
from fencepost.coordinator.groups.offset_timers import OffsetTimers, OffsetTimes
from fencepost.records.schema import FeatureLevelRecord
from fencepost.records.types import ProducerId
from tests.coordinator.bench import TOPIC, Bench
from tests.quorum.clients import Silence

GROUP = "readers"
MINUTE_MS = 60_000


class Offsets:
    """The server of offsets on a bench, and its clients."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        replica = bench.replica
        bench.decide(
            lambda view, now_ms: Decision((FeatureLevelRecord(name=LOG_LEVEL, feature_level=2),), None)
        )
        self.server = OffsetServer(
            OffsetRules(),
            bench.submit,
            CoordinatorErrors(replica),
            bench.server.requests,
            lambda _group_id: False,
        )
        self.timers = OffsetTimers(
            OffsetTimes(retention_ms=10 * MINUTE_MS, check_interval_ms=MINUTE_MS),
            lambda: replica.image,
            bench.submit,
            bench.call_later,
            quarantine=replica.quarantine,
            clock=lambda: bench.stage.now,
            now_ms=replica.proposer.now_ms,
            slowest_ms=replica.slowest_ms,
            log=cast(FilteringBoundLogger, Silence()),
        )
        bench.driver.services = (*bench.driver.services, self.timers)
        self.timers.activated(replica.proposer.now_ms())

    def ask(self, endpoint: Any, request: Any) -> Any:
        answer = self.bench.ask(endpoint, request)
        assert answer.answered() is ..., "answered before its entry is applied"
        self.bench.settle()
        return answer.answered()

    def commit(self, *partitions: int, topic: str = TOPIC, group_id: str = GROUP) -> list[int]:
        request = CommitOffsets(group_id, tuple(OffsetToCommit(topic, n, n + 1) for n in partitions))
        return [each.code for each in self.ask(self.server.commit, request).rows]

    def fetch(self, *queries: GroupQuery, **said: Any) -> Any:
        return self.ask(self.server.fetch, FetchOffsets(queries, **said)).groups

    def begin(self, of: str) -> tuple[int, int]:
        pair = self.bench.begun(of, 0)
        assert self.ask(self.server.add_offsets, AddOffsets(of, ProducerId(pair[0]), pair[1], GROUP)) is None
        return pair

    def in_transaction(self, of: str, pair: tuple[int, int], *partitions: int) -> CommitTransactionOffsets:
        offsets = tuple(OffsetToCommit(TOPIC, each, 7) for each in partitions)
        return CommitTransactionOffsets(of, GROUP, ProducerId(pair[0]), pair[1], offsets)

    def kept(self) -> int:
        return len(list(self.bench.replica.image.items(offset_tables.OFFSETS)))
