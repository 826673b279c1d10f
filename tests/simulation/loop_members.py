"""Members that read, process and write: they commit what they own, plainly or in transactions, as members.

Each process has a transactional id of its own, as one producer per thread has (KIP-447). Some are
group-aware, and abort what the owner before has open; for the others nothing but the group's generation
fences it. A member reads stable offsets of what it is assigned, and waits while they are pending; then it
commits one value after the other.
"""

from collections.abc import Generator
from typing import Any, Final

from fencepost.controller.errors import ApiError, ErrorCode
from fencepost.controller.groups.identity import Identity
from fencepost.controller.groups.offset_messages import (
    AddOffsets,
    CommitOffsets,
    CommitTransactionOffsets,
    FetchOffsets,
    GroupQuery,
    OffsetToCommit,
    PartitionCodes,
)
from fencepost.controller.transactions.end_txn import EndTxn
from fencepost.controller.transactions.group_init import MemberAssignment
from fencepost.controller.transactions.init_request import InitProducerId, InitProducerIdAnswer
from fencepost.records.transaction_log import TopicPartitions
from fencepost.records.types import ProducerId
from tests.simulation.commit_facts import CommitFacts
from tests.simulation.group_facts import TOPIC
from tests.simulation.group_members import GROUP, Instance, Pause, Seat, Steps

TIMEOUT_MS: Final = 1_500
READS_ALL: Final = 0.3  # share of reads that name no partition
ABORTS: Final = 0.2
GROUP_AWARE: Final = 0.5  # share of processes whose producers are initialized for what they own (KIP-447)
NOT_A_MEMBER: Final = (
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_INSTANCE_ID,
)
LINGERS: Final = 0.5  # share of transactions that stay open for a while
LINGER_S: Final = (0.01, 0.2)


class Refused(ApiError):
    """A code of a partition, as the error that it is."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code.name)
        self.code = code


class LoopMember(Instance):
    """Every other seat commits in transactions."""

    def __init__(self, seat: Seat, number: int) -> None:
        super().__init__(seat, number)
        self._in_transactions = seat.name[-1] in "02"
        self._is_group_aware = self._rng.random() < GROUP_AWARE
        self._pair: tuple[ProducerId, int] | None = None
        self._pair_in = -1  # the generation of that pair
        self._read_in = -1  # the generation in which it has read what it owns

    def _work(self) -> Steps:
        owned = tuple(self.assignment or b"")
        if self._read_in != self.generation:
            yield from self._find_positions(owned)
        elif owned:
            commit = self._transact if self._in_transactions else self._commit
            refused = yield from commit(self._rng.choice(owned))
            if refused is not None:
                return refused
        return (yield self._heartbeat())

    def _identity(self) -> Identity:
        return Identity(self.member_id, self._seat.instance_id, self.generation)

    def _find_positions(self, owned: tuple[int, ...]) -> Steps:
        everything = self._rng.random() < READS_ALL
        named = None if everything else tuple([(TOPIC, partition) for partition in owned])
        query = GroupQuery(GROUP, named, self.member_id, self.generation)
        answer = yield FetchOffsets((query,), require_stable=True)
        if self._may_go_on(answer) or isinstance(answer, ApiError):
            return
        codes = {row.partition: row.code for row in answer.groups[0].offsets}
        if all(codes.get(partition, ErrorCode.NONE) == ErrorCode.NONE for partition in owned):
            self._read_in = self.generation

    def _commit(self, partition: int) -> Generator[Any, Any, ApiError | None]:
        offsets = (OffsetToCommit(TOPIC, partition, self._next_value()),)
        answer = yield CommitOffsets(GROUP, offsets, self._identity())
        return self._refusal(answer)

    def _transact(self, partition: int) -> Generator[Any, Any, ApiError | None]:
        """One transaction; whatever fails in it, the next begins with another epoch."""
        if self._pair is None or (self._is_group_aware and self._pair_in != self.generation):
            answer = yield InitProducerId(self._name, TIMEOUT_MS, init_version=6, member=self._member())
            if not isinstance(answer, InitProducerIdAnswer):
                went_on = self._may_go_on(answer)
                left = not went_on and isinstance(answer, ApiError) and answer.code in NOT_A_MEMBER
                return answer if left else None
            self._pair, self._pair_in = (answer.producer_id, answer.producer_epoch), self.generation
        pair, self._pair = self._pair, None
        added = yield AddOffsets(self._name, *pair, GROUP)
        if added is not None:
            self._may_go_on(added)
            return None
        offsets = (OffsetToCommit(TOPIC, partition, self._next_value()),)
        answer = yield CommitTransactionOffsets(self._name, GROUP, *pair, offsets, self._identity())
        refused = self._refusal(answer)
        if refused is not None or not isinstance(answer, PartitionCodes):
            return refused
        if self._rng.random() < LINGERS:
            yield Pause(self._rng.uniform(*LINGER_S))
        ended = yield EndTxn(self._name, *pair, self._rng.random() >= ABORTS)
        if ended is None:
            self._pair = pair
        else:
            self._may_go_on(ended)
        return None

    def _member(self) -> MemberAssignment | None:
        """Group-aware producers say what they own, and for which generation."""
        if not self._is_group_aware:
            return None
        owned = (TopicPartitions(TOPIC, tuple(self.assignment or b"")),)
        return MemberAssignment(GROUP, self.generation, owned, self.member_id, self._seat.instance_id)

    def _next_value(self) -> int:
        facts = self._world.facts
        assert isinstance(facts, CommitFacts)
        return facts.next_value()

    def _refusal(self, answer: Any) -> ApiError | None:
        """What the group has against it. Silence and errors of the coordinator say nothing of it."""
        if isinstance(answer, PartitionCodes):
            code = answer.rows[0].code
            answer = None if code == ErrorCode.NONE else Refused(code)
        if self._may_go_on(answer) or not isinstance(answer, ApiError):
            return None
        return answer
