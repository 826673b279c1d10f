"""A coordinator of transactions, groups and offsets on one bench, and applications that misuse it."""

from dataclasses import dataclass
from typing import Any

from fencepost.controller.errors import ErrorCode
from fencepost.controller.groups.heartbeat import HeartbeatGroup
from fencepost.controller.groups.identity import NO_GENERATION, NO_MEMBER, Identity
from fencepost.controller.groups.offset_messages import (
    AddOffsets,
    CommitOffsets,
    CommitTransactionOffsets,
    GroupQuery,
    OffsetToCommit,
)
from fencepost.records.types import ProducerId
from tests.coordinator.bench import TOPIC, Bench
from tests.coordinator.coordinator_node import Answer
from tests.coordinator.group_bench import GROUP, Groups
from tests.coordinator.offset_bench import Offsets

SESSION_MS = 10_000
SETTLE_ROUNDS_MAX = 5


class Arena:
    """See the module. ``groups`` has members, ``offsets`` their commits, ``bench`` their transactions."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.offsets = Offsets(bench)
        others = bench.driver.services
        self.groups = Groups(bench.stage)
        bench.driver.services = (*others, self.groups.server)
        self.offsets.server.on_committed = self.groups.server.touch
        self.offsets.server.is_preparing = self.groups.server.operations.is_preparing
        self._activate()

    def _activate(self) -> None:
        self.bench.carry_out(self.bench.driver.resume(self.groups.server.activated, 0))
        self.bench.settle()

    def fail_over(self) -> None:
        """Another leadership begins: what the coordinator of groups has in memory is lost."""
        self.groups.depose()

    def outcome(self, answer: Answer) -> Any:
        """What was answered, once time for a shared entry has passed."""
        for _ in range(SETTLE_ROUNDS_MAX):
            self.bench.settle()
            if answer.outcomes:
                break
            self.bench.wait(0.02)
        return answer.answered()

    def fetch(self, partition: int = 0, *, stable: bool = True) -> tuple[int, ErrorCode]:
        """The committed offset of a partition, and the code beside it."""
        query = GroupQuery(GROUP, ((TOPIC, partition),))
        (group,) = self.offsets.fetch(query, require_stable=stable)
        (row,) = group.offsets
        return row.offset, row.code

    def reset(self, offset: int, partition: int = 0) -> ErrorCode:
        """What an administrator's tool commits: without a member id or a generation."""
        return self.commit(Identity(), offset, partition)

    def commit(self, by: Identity, offset: int, partition: int = 0) -> ErrorCode:
        """OffsetCommit."""
        request = CommitOffsets(GROUP, (OffsetToCommit(TOPIC, partition, offset),), by)
        answer = self.outcome(self.bench.ask(self.offsets.server.commit, request))
        return ErrorCode(answer.rows[0].code)


@dataclass
class Application:
    """A member of the group with a transactional producer, as far as it knows."""

    arena: Arena
    transactional_id: str
    member_id: str = NO_MEMBER
    generation: int = NO_GENERATION
    instance_id: str | None = None
    pair: tuple[int, int] = (-1, -1)

    @property
    def identity(self) -> Identity:
        return Identity(self.member_id, self.instance_id, self.generation)

    def init(self) -> ErrorCode:
        """InitProducerId, as a process does that starts."""
        return self.took(self.arena.outcome(self.arena.bench.init(self.transactional_id)))

    def took(self, outcome: Any) -> ErrorCode:
        """The answer to an InitProducerId."""
        if isinstance(outcome, ErrorCode):
            return outcome
        self.pair = outcome.producer_id, outcome.producer_epoch
        return ErrorCode.NONE

    def add_offsets(self) -> ErrorCode:
        """AddOffsetsToTxn: the first request of its transaction."""
        producer_id, epoch = self.pair
        request = AddOffsets(self.transactional_id, ProducerId(producer_id), epoch, GROUP)
        return self._code(self.arena.offsets.server.add_offsets, request)

    def send_offsets(self, offset: int, partition: int = 0) -> ErrorCode:
        """TxnOffsetCommit with its member id and generation."""
        producer_id, epoch = self.pair
        request = CommitTransactionOffsets(
            self.transactional_id,
            GROUP,
            ProducerId(producer_id),
            epoch,
            (OffsetToCommit(TOPIC, partition, offset),),
            self.identity,
        )
        outcome = self.arena.outcome(
            self.arena.bench.ask(self.arena.offsets.server.commit_in_transaction, request)
        )
        return outcome if isinstance(outcome, ErrorCode) else ErrorCode(outcome.rows[0].code)

    def end(self, *, committed: bool = True) -> ErrorCode:
        """EndTxn."""
        outcome = self.arena.outcome(
            self.arena.bench.end(self.transactional_id, self.pair, committed=committed)
        )
        return outcome if isinstance(outcome, ErrorCode) else ErrorCode.NONE

    def commit(self, offset: int, partition: int = 0) -> ErrorCode:
        """OffsetCommit with its member id and generation."""
        return self.arena.commit(self.identity, offset, partition)

    def heartbeat(self) -> ErrorCode:
        request = HeartbeatGroup(GROUP, self.generation, self.member_id, self.instance_id)
        return self._code(self.arena.groups.server.heartbeat, request)

    def _code(self, endpoint: Any, request: Any) -> ErrorCode:
        outcome = self.arena.outcome(self.arena.bench.ask(endpoint, request))
        return outcome if isinstance(outcome, ErrorCode) else ErrorCode.NONE
