"""The transactions of one transactional id, from the producer's side.

Protocols   V2 where the cluster's ``transaction.version`` is 2 as a transaction begins: partitions, offsets
            add themselves, each end gives a new epoch (KIP-890). Else V1: they are added by requests, and
            an abort is followed by InitProducerId with the own pair, which gives a new epoch. After a commit
            of V1 a partition may wait for its marker, and takes batches of V2 for that one's: the next
            transaction is of V1, too, and its end, of V2, gives the new epoch.
Timed out   the coordinator aborted the transaction: InitProducerId with the own pair gets the epoch that it
            bumped to. The producer is not fenced (KIP-588).
Groups      a group-aware producer gets a pair for what its consumer was assigned, after each rebalance: no
            other producer writes for that any more (KIP-447). When another member gets one of its partitions
            it is fenced, which is no end: CommitFailed, and it is initialized with its next assignment.
Unknown     a commit without an answer is neither done nor undone: the same request is repeated until it is
            answered. ``commit`` may be called again; nothing else may.
"""

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Final

from fencepost.client.batches import ProducerIdentity
from fencepost.client.coordinators import Coordinator, cancelled
from fencepost.client.errors import (
    AbortableError,
    ClientError,
    CommitFailed,
    FatalError,
    IllegalState,
    NotReachable,
    ProducerFenced,
    RequestTimedOut,
    TransactionTimedOut,
    number_of,
    refused,
)
from fencepost.client.group_calls import GroupCalls
from fencepost.client.network import Network
from fencepost.client.phases import OneCall, Phase
from fencepost.client.sender import Sender
from fencepost.client.transaction_errors import (
    code_of_additions,
    from_commit,
    from_coordinator,
)
from fencepost.client.transaction_requests import additions, offsets_to_commit, pair_request
from fencepost.client.types import (
    GroupAssignment,
    GroupMetadata,
    OffsetAndMetadata,
    PreparedTxnState,
    TopicPartition,
)
from fencepost.records.types import ProducerId
from fencepost.wire.k10_find_coordinator import TRANSACTION
from fencepost.wire.k22_init_producer_id import INIT_PRODUCER_ID
from fencepost.wire.k24_add_partitions_to_txn import ADD_PARTITIONS_TO_TXN
from fencepost.wire.k26_end_txn import END_TXN
from fencepost.wire.requests import (
    ApiError,
    EndTxn,
    EndTxnAnswer,
    InitProducerIdAnswer,
)

_HELD: Final = (Phase.PREPARED, Phase.COMMITTING, Phase.OVER)
"""Phases in which a producer is not initialized for another assignment: it has something to end first."""


class Transactions:
    """Implements ``Rules`` of a sender for a transactional producer."""

    def __init__(
        self,
        network: Network,
        transactional_id: str | None,
        *,
        timeout_ms: int,
        max_block_s: float,
        two_phase: bool = False,
        keep_prepared: bool = False,
        group_aware: bool = False,
    ) -> None:
        self.transactional_id: str | None = transactional_id or ""
        self.adds_partitions = False
        self._is_fresh = True  # no transaction of V1 was committed with the pair
        self._bumps = False  # the end gives a new epoch
        self._id = transactional_id or ""  # "": the coordinator makes one
        self._group_aware = group_aware
        self._network = network
        self._request = partial(pair_request, timeout_ms=timeout_ms, two_phase=two_phase)
        self._max_block_s = max_block_s
        self._coordinator = Coordinator(network, TRANSACTION, self._id)
        self._groups = GroupCalls(network, max_block_s)
        self._sender: Sender | None = None
        self._identity = ProducerIdentity()
        self._two_phase = two_phase
        self._keeps = keep_prepared  # what another instance left open, once
        self._ongoing = ProducerIdentity()  # the pair of the transaction that is open
        self._phase = Phase.NEW
        self._error: ClientError | None = None  # why the transaction must abort, or the producer is over
        self._touched = False  # a record or offset was sent in the transaction
        self._opened = False  # V1: the coordinator acknowledged an addition to it
        self._added: set[TopicPartition] = set()  # V1
        self._to_add: set[TopicPartition] = set()
        self._adding: asyncio.Task[None] | None = None
        self._alone = OneCall()

    # -- the rules of a sender ------------------------------------------------------------------------------

    def may_send(self, partition: TopicPartition) -> bool:
        """Implements ``Rules.may_send``."""
        if self._phase is not Phase.OPEN:
            return False
        self._touched = True
        if self.adds_partitions or partition in self._added:
            return True
        self._to_add.add(partition)
        if self._adding is None or self._adding.done():
            self._adding = asyncio.create_task(self._add())
        return False

    def on_refused(self, error: Exception) -> None:
        """Implements ``Rules.on_refused``."""
        if isinstance(error, AbortableError | FatalError):
            self._fail(error)
        else:
            self._fail(AbortableError(str(error), getattr(error, "code", 0)))

    def on_sequence_lost(self) -> None:
        """Implements ``Rules.on_sequence_lost``: the abort gives a new epoch."""

    # -- calls of the producer ------------------------------------------------------------------------------

    @property
    def identity(self) -> ProducerIdentity:
        """The pair that the producer presents now."""
        return self._identity

    def attach(self, sender: Sender) -> None:
        """The sender of the producer's batches."""
        self._sender = sender

    def require_open(self) -> None:
        """Raises IllegalState, AbortableError, FatalError: no record may be sent now."""
        if self._phase is Phase.OPEN:
            return
        self._require(Phase.OPEN)

    @property
    def needs_assignment(self) -> bool:
        """A group-aware producer that was never initialized, or lost a partition to another member."""
        return self._group_aware and self._phase is Phase.NEW

    async def init(self) -> None:
        """Get a pair. With one already, for a transaction that timed out or must abort: the next epoch."""
        self._require(Phase.NEW, Phase.READY, Phase.DOOMED, Phase.ABORTING, Phase.RENEWING)
        if self._phase is Phase.READY:
            return
        if self.needs_assignment:
            raise IllegalState("the producer is group-aware: group=consumer.group_assignment() is missing")
        with self._alone:
            if self._phase is not Phase.NEW:
                await self._settle_batches()
                self._phase = Phase.RENEWING
            await self._new_epoch()

    async def init_for(self, group: GroupAssignment) -> None:
        """Get a pair of a new instance, for what a consumer was assigned. What is open is aborted."""
        if not self._group_aware:
            raise IllegalState("the producer was not made with group_aware=True")
        self._require(*(each for each in Phase if each not in _HELD))
        with self._alone:
            if self._phase is not Phase.NEW:
                await self._settle_batches()
            self._lose()
            request = self._request(self._id, self._identity, group, keeps=self._keeps)
            name, answer = await self._groups.init(request, group.member.group_id)
            if name != self._id:
                self._id = self.transactional_id = name
                self._coordinator = Coordinator(self._network, TRANSACTION, name)
            self._adopt(answer)

    def begin(self) -> None:
        """A transaction begins; the coordinator learns of it with its first record."""
        self._require(Phase.READY)
        self.adds_partitions = self._network.uses_transactions_v2 and self._is_fresh
        self._touched = self._opened = False
        self._added.clear()
        self._to_add.clear()
        self._ongoing = self._identity
        self._phase = Phase.OPEN

    async def send_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: GroupMetadata
    ) -> None:
        """Commit offsets of a group with the transaction. Raises AbortableError, FatalError."""
        self._require(Phase.OPEN)
        if not offsets:
            return
        self._touched = True
        request = offsets_to_commit(
            self._id, self._identity, offsets, group, adds_offsets=self.adds_partitions
        )
        with self._alone:
            try:
                if not self.adds_partitions:
                    await self._groups.add_offsets(self._coordinator, request)
                    self._opened = True
                await self._groups.commit(request)
            except ClientError as error:
                raise self._fail(error) from error

    async def prepare(self) -> PreparedTxnState:
        """Write what waits; only the end may follow. Returns what ``complete`` is to be given."""
        self._require(Phase.OPEN)
        if not self._two_phase:
            raise IllegalState("the producer was not made with two_phase=True")
        with self._alone:
            await self._required_sender().drain()
            self._require(Phase.OPEN)
            self._phase = Phase.PREPARED
        return PreparedTxnState(*self._ongoing)

    async def complete(self, state: PreparedTxnState) -> bool:
        """Commit if ``state`` is that of the prepared transaction, else abort. Returns whether it is."""
        self._require(Phase.PREPARED, Phase.COMMITTING, Phase.ABORTING, Phase.RENEWING)
        committed = tuple(state) == tuple(self._ongoing)
        await self.end(committed=committed)
        return committed

    async def end(self, *, committed: bool) -> None:
        """Commit or abort. Raises AbortableError (a commit), FatalError, RequestTimedOut (call it again)."""
        if committed:
            self._require(Phase.OPEN, Phase.PREPARED, Phase.COMMITTING)
        else:
            self._require(Phase.OPEN, Phase.PREPARED, Phase.DOOMED, Phase.ABORTING, Phase.RENEWING)
        with self._alone:
            await (self._commit() if committed else self._abort())

    async def close(self) -> None:
        """End what is under way."""
        await cancelled(self._adding)

    # -- the end of a transaction ---------------------------------------------------------------------------

    async def _commit(self) -> None:
        if self._phase is Phase.OPEN:
            await self._required_sender().drain()
            self._require(Phase.OPEN)
        if self._phase is not Phase.COMMITTING:
            if not self._touched:
                self._phase = Phase.READY
                return
            self._phase = Phase.COMMITTING
            self._bumps = self.adds_partitions or self._network.uses_transactions_v2
        try:
            answer = await self._end_txn(committed=True)
        except ApiError as error:
            self._phase = Phase.OPEN
            raise self._fail(from_commit(error, bumps=self._bumps)) from error
        self._is_fresh = self._bumps
        self._ended(answer)

    async def _abort(self) -> None:
        await self._settle_batches()
        if not self._touched:
            self._ended(None)
            return
        if self._has_to_end():
            self._phase = Phase.ABORTING
            self._bumps = self.adds_partitions
            try:
                answer = await self._end_txn(committed=False)
            except ApiError as error:
                failure = from_coordinator(error, "abort")
                if self._is_lost(failure):
                    self._lose()
                    return
                if isinstance(failure, FatalError):
                    raise self._fail(failure) from error
            else:
                if self.adds_partitions:
                    self._ended(answer)
                    return
        self._phase = Phase.RENEWING
        await self._new_epoch()

    def _has_to_end(self) -> bool:
        """Whether an abort is to say EndTxn; else InitProducerId alone aborts what may be open."""
        if self._phase is Phase.RENEWING or isinstance(self._error, TransactionTimedOut):
            return False
        return self.adds_partitions or self._opened

    async def _settle_batches(self) -> None:
        """What is queued is given up; what is in flight is answered, or its connection lost."""
        sender = self._required_sender()
        sender.discard(self._error or AbortableError("the transaction was aborted"))
        await cancelled(self._adding)
        await sender.drain()

    async def _end_txn(self, *, committed: bool) -> EndTxnAnswer | None:
        pair = ProducerId(self._identity.producer_id), self._identity.epoch
        request = EndTxn(self._id, *pair, committed, bumps_epoch=self._bumps)
        return await self._coordinator.call(END_TXN, request, timeout_s=self._max_block_s)

    def _ended(self, answer: EndTxnAnswer | InitProducerIdAnswer | None) -> None:
        if answer is not None and answer.producer_id >= 0:
            self._identity = ProducerIdentity(answer.producer_id, answer.producer_epoch)
            self._is_fresh = True
        self._required_sender().adopt(self._identity)
        self._error, self._phase = None, Phase.READY

    def _is_lost(self, error: ClientError) -> bool:
        """Another member of the group has a partition of the producer's: the next assignment is awaited."""
        return self._group_aware and isinstance(error, ProducerFenced)

    def _lose(self) -> None:
        """The pair is not the producer's any more, and nothing of it is open."""
        self._identity, self._error, self._phase = ProducerIdentity(), None, Phase.NEW

    async def _new_epoch(self) -> None:
        """InitProducerId with the own pair, if there is one. Whatever is open is aborted by it."""
        request = self._request(self._id, self._identity, keeps=self._keeps)
        try:
            answer = await self._coordinator.call(INIT_PRODUCER_ID, request, timeout_s=self._max_block_s)
        except ApiError as error:
            if self._phase is Phase.NEW:
                raise refused(number_of(error), f"InitProducerId of {self._id!r}: {error}") from error
            failure = from_coordinator(error, "InitProducerId")
            if self._is_lost(failure):
                self._lose()
                return
            raise self._fail(
                failure if isinstance(failure, FatalError) else FatalError(str(failure))
            ) from error
        self._adopt(answer)

    def _adopt(self, answer: InitProducerIdAnswer) -> None:
        self._ended(answer)
        if self._keeps:
            self._keeps = False
            self._ongoing = ProducerIdentity(answer.ongoing_producer_id, answer.ongoing_producer_epoch)
            self._touched = self._opened = answer.ongoing_producer_id >= 0
            self.adds_partitions = self._network.uses_transactions_v2
            self._phase = Phase.PREPARED

    # -- what is added to a transaction ---------------------------------------------------------------------

    async def _add(self) -> None:
        """V1: add what is written to, all that has come meanwhile in one request."""
        while self._to_add and self._phase is Phase.OPEN:
            adding = sorted(self._to_add)
            request = additions(self._id, self._identity, adding)
            try:
                await self._coordinator.call(
                    ADD_PARTITIONS_TO_TXN, request, timeout_s=self._max_block_s, code_of=code_of_additions
                )
            except ApiError as error:
                self._fail(from_coordinator(error, "AddPartitionsToTxn"))
                return
            except (RequestTimedOut, NotReachable) as error:
                self._fail(AbortableError(str(error), error.code))
                return
            self._opened = True
            self._to_add.difference_update(adding)
            self._added.update(adding)
            self._required_sender().wake()

    # -- states ---------------------------------------------------------------------------------------------

    def _fail(self, error: ClientError) -> ClientError:
        """The transaction must abort, or the producer is over. Returns the error, to be raised."""
        if self._phase is Phase.OVER:
            return error
        if self._is_lost(error):
            error = CommitFailed(str(error), error.code)
        if isinstance(error, FatalError):
            self._error, self._phase = error, Phase.OVER
            self._required_sender().end(error)
        elif self._phase is Phase.OPEN:
            self._error, self._phase = error, Phase.DOOMED
            self._required_sender().discard(error)
        return error

    def _require(self, *phases: Phase) -> None:
        if self._phase in phases:
            return
        if self._error is not None:
            raise self._error
        hint = ": call commit_transaction again" if self._phase is Phase.COMMITTING else ""
        raise IllegalState(f"transactional id {self._id!r} is {self._phase.value}{hint}")

    def _required_sender(self) -> Sender:
        if self._sender is None:
            raise IllegalState("the producer is not started")
        return self._sender
