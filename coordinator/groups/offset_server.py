"""The group coordinator's endpoints for offsets: API keys 8, 9, 25, 28, 42 and 47.

Where       the active controller's node, as the transaction coordinator's: coordinator/transaction_server.py.
Answers     leave when an entry of their batch is applied, reads included: the offsets that a deposed leader
            knows, and whether a transaction is open, may be old.
Parts       a large request is decided in parts, so that none holds the event loop of a node for long.
51          a TxnOffsetCommit or AddOffsetsToTxn that meets the end of the transaction before is parked.
Source      Kafka KafkaApis, GroupCoordinatorService; docs/kafka-notes.md D.
"""

from __future__ import annotations  # or each request computes those of the functions made for it

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from msgspec.structs import replace

from fencepost.controller.decision import Decision
from fencepost.controller.errors import ApiError, ErrorCode
from fencepost.controller.group_errors import NonEmptyGroup
from fencepost.controller.groups import offset_deletion, offsets
from fencepost.controller.groups.offset_deletion import GroupDeleted
from fencepost.controller.groups.offset_messages import (
    AddOffsets,
    CommitOffsets,
    CommitTransactionOffsets,
    DeleteGroups,
    DeleteGroupsAnswer,
    DeleteOffsets,
    FetchOffsets,
    FetchOffsetsAnswer,
    PartitionCode,
    PartitionCodes,
)
from fencepost.controller.groups.offsets import OffsetRules
from fencepost.controller.transactions.add_partitions import decide_add_offsets
from fencepost.controller.transactions.commit_offsets import decide_commit_in_transaction
from fencepost.controller.view import View
from fencepost.coordinator.coordinator_errors import CoordinatorErrors
from fencepost.coordinator.groups.fetches import Fetch
from fencepost.coordinator.parked import PARK_S_MAX
from fencepost.coordinator.parts import Parts
from fencepost.coordinator.transaction_requests import TransactionRequests
from fencepost.quorum.port import Outcome, Submit
from fencepost.quorum.port import Reply as PortReply
from fencepost.wire.dispatch import Closing, Context, Reply, Service, Then, served
from fencepost.wire.k08_offset_commit import OFFSET_COMMIT
from fencepost.wire.k09_offset_fetch import OFFSET_FETCH
from fencepost.wire.k25_add_offsets_to_txn import ADD_OFFSETS_TO_TXN
from fencepost.wire.k28_txn_offset_commit import TXN_OFFSET_COMMIT
from fencepost.wire.k42_delete_groups import DELETE_GROUPS
from fencepost.wire.k47_offset_delete import OFFSET_DELETE

COMMITTED_MAX: Final = 400  # offsets in one decision: some 15 ms of every node's loop
DELETED_AT_ONCE_MAX: Final = 100  # groups of one request: their decisions share entries

Committed = Callable[[str, str], None]
"""(group id, member id): a member committed, so it is alive."""


class OffsetServer:
    """See the module. It keeps nothing: all that it knows is in the image."""

    def __init__(
        self,
        rules: OffsetRules,
        submit: Submit,
        errors: CoordinatorErrors,
        requests: TransactionRequests,
        is_preparing: Callable[[str], bool],
    ) -> None:
        """``is_preparing``: members of the group of that id join now."""
        self._rules = rules
        self._submit = submit
        self._errors = errors
        self._requests = requests
        self.on_committed: Committed = _nothing
        self.is_preparing = is_preparing
        self.commits = 0  # offsets that were committed, plain and transactional, for metrics

    @property
    def service(self) -> Service:
        """API key to (codec, endpoint)."""
        return dict(
            (
                served(OFFSET_COMMIT, self.commit),
                served(OFFSET_FETCH, self.fetch),
                served(ADD_OFFSETS_TO_TXN, self.add_offsets),
                served(TXN_OFFSET_COMMIT, self.commit_in_transaction),
                served(DELETE_GROUPS, self.delete_groups),
                served(OFFSET_DELETE, self.delete_offsets),
            )
        )

    # -- commits ------------------------------------------------------------------------------------

    def commit(self, request: CommitOffsets, context: Context, reply: Reply[PartitionCodes]) -> None:
        """API key 8."""

        def committed(outcome: Outcome[PartitionCodes], throttle_ms: int) -> None:
            if isinstance(outcome, PartitionCodes):
                if self._count(outcome) and request.identity.member_id:
                    self.on_committed(request.group_id, request.identity.member_id)
                reply(outcome, throttle_ms)
            else:
                reply(self._errors.translate(outcome), throttle_ms)

        if len(request.offsets) <= COMMITTED_MAX:
            self._submit(partial(self._decide_commit, request), committed, closing=reply)
        else:
            self._commit_in_parts(request, committed, reply)

    def _commit_in_parts(
        self, request: CommitOffsets, committed: PortReply[PartitionCodes], closing: Closing
    ) -> None:
        starts = range(0, len(request.offsets), COMMITTED_MAX)
        several = [
            replace(request, offsets=request.offsets[first : first + COMMITTED_MAX]) for first in starts
        ]
        parts: Parts[PartitionCodes] = Parts(len(several), committed, partial(_joined, several))
        for position, some in enumerate(several):
            self._submit(partial(self._decide_commit, some), self._part(parts, position), closing=closing)

    def _decide_commit(self, request: CommitOffsets, view: View, now_ms: int) -> Decision[PartitionCodes]:
        return offsets.decide_commit(view, request, self._rules, now_ms=now_ms)

    def commit_in_transaction(
        self, request: CommitTransactionOffsets, context: Context, reply: Reply[PartitionCodes]
    ) -> None:
        """API key 28. One decision: a transaction has at most TXN_OFFSETS_MAX offsets."""

        def committed(outcome: Outcome[PartitionCodes], throttle_ms: int) -> None:
            if isinstance(outcome, PartitionCodes):
                self._count(outcome)
            reply(outcome, throttle_ms)

        decide = partial(self._decide_in_transaction, request)
        self._requests.begin(request.transactional_id, decide, Then(committed, reply), PARK_S_MAX)

    def _decide_in_transaction(
        self, request: CommitTransactionOffsets, view: View, now_ms: int
    ) -> Decision[PartitionCodes]:
        return decide_commit_in_transaction(view, request, self._rules, now_ms=now_ms)

    def add_offsets(self, request: AddOffsets, context: Context, reply: Reply[None]) -> None:
        """API key 25."""

        def decide(view: View, now_ms: int) -> Decision[None]:
            return decide_add_offsets(view, request, now_ms=now_ms)

        self._requests.begin(request.transactional_id, decide, reply, PARK_S_MAX)

    def _part(
        self, parts: Parts[PartitionCodes], position: int
    ) -> Callable[[Outcome[PartitionCodes], int], None]:
        """Takes the outcome of a part, as a client of the coordinator understands it."""

        def take(outcome: Outcome[PartitionCodes], throttle_ms: int) -> None:
            parts.take(position, self._errors.translate(outcome), throttle_ms)

        return take

    def _count(self, codes: PartitionCodes) -> int:
        """How many of the offsets were committed."""
        committed = sum([each.code == ErrorCode.NONE for each in codes.rows])
        self.commits += committed
        return committed

    # -- fetches ------------------------------------------------------------------------------------

    def fetch(self, request: FetchOffsets, context: Context, reply: Reply[FetchOffsetsAnswer]) -> None:
        """API key 9."""
        Fetch(request, self._rules, self._submit, self._errors.before(reply), closing=reply).begin()

    # -- deletions ----------------------------------------------------------------------------------

    def delete_groups(
        self, request: DeleteGroups, context: Context, reply: Reply[DeleteGroupsAnswer]
    ) -> None:
        """API key 42: DELETED_AT_ONCE_MAX groups at a time, each in as many decisions as its offsets take.

        Where this node refuses all, it does so at once: as deep a recursion as there are hundreds of groups.
        A group whose first members join is refused, as by Kafka: they are about to read its offsets.
        """
        results = dict.fromkeys(request.group_ids, ErrorCode.NONE)
        waiting = list(results)
        deciding: set[str] = set()

        begun: set[str] = set()  # some of its offsets are gone: it is not refused halfway

        def decide(group_id: str, view: View, now_ms: int) -> Decision[GroupDeleted]:
            if group_id not in begun and self.is_preparing(group_id):
                raise NonEmptyGroup(f"group {group_id!r} has members that join: stop them, then delete it")
            return offset_deletion.decide_delete_group(view, group_id)

        def submit(group_id: str) -> None:
            self._submit(partial(decide, group_id), partial(decided, group_id), closing=reply)

        def submit_next() -> None:
            if not waiting:
                reply(DeleteGroupsAnswer(tuple(results.items())))
                return
            some = waiting[:DELETED_AT_ONCE_MAX]
            del waiting[:DELETED_AT_ONCE_MAX]
            deciding.update(some)
            for group_id in some:
                submit(group_id)

        def decided(group_id: str, outcome: Outcome[GroupDeleted], throttle_ms: int) -> None:
            translated = self._errors.translate(outcome)
            if not isinstance(translated, ApiError) and translated.more:
                begun.add(group_id)
                submit(group_id)
                return
            if isinstance(translated, ApiError):
                results[group_id] = translated.code
            deciding.remove(group_id)
            if not deciding:
                submit_next()

        submit_next()

    def delete_offsets(self, request: DeleteOffsets, context: Context, reply: Reply[PartitionCodes]) -> None:
        """API key 47."""
        starts = range(0, len(request.partitions), COMMITTED_MAX) or (0,)
        several = [
            replace(request, partitions=request.partitions[first : first + COMMITTED_MAX]) for first in starts
        ]

        def decide(some: DeleteOffsets, view: View, now_ms: int) -> Decision[PartitionCodes]:
            return offset_deletion.decide_delete_offsets(view, some)

        def join(outcomes: Sequence[PartitionCodes | ApiError]) -> PartitionCodes:
            rows: list[PartitionCode] = []
            for some, outcome in zip(several, outcomes, strict=True):
                if isinstance(outcome, ApiError):  # a part before may have forgotten all that made the group
                    found = any(each.code == ErrorCode.NONE for each in rows)
                    gone = found and outcome.code == ErrorCode.GROUP_ID_NOT_FOUND
                    code = ErrorCode.NONE if gone else outcome.code
                    rows += [PartitionCode(topic, index, code) for topic, index in some.partitions]
                else:
                    rows += outcome.rows
            return PartitionCodes(tuple(rows))

        parts = Parts(len(several), self._errors.before(reply), join)
        for position, some in enumerate(several):
            self._submit(partial(decide, some), self._part(parts, position), closing=reply)


def _joined(
    requested: Sequence[CommitOffsets], outcomes: Sequence[PartitionCodes | ApiError]
) -> PartitionCodes:
    """The rows of all parts; of one that failed, its code for each of its partitions."""
    rows: list[PartitionCode] = []
    for some, outcome in zip(requested, outcomes, strict=True):
        if isinstance(outcome, ApiError):
            rows += [PartitionCode(each.topic, each.partition, outcome.code) for each in some.offsets]
        else:
            rows += outcome.rows
    return PartitionCodes(tuple(rows))


def _nothing(_group_id: str, _member_id: str) -> None:
    """Until sessions of members are kept."""
