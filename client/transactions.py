"""The transactions of one transactional id, from the producer's side.

Protocols   V2 where the cluster's ``transaction.version`` is 2 as a transaction begins: partitions, offsets
            add themselves, each end gives a new epoch (KIP-890). Else V1: they are added by requests, and
            an abort is followed by InitProducerId with the own pair, which gives a new epoch.
Timed out   the coordinator aborted the transaction: InitProducerId with the own pair gets the epoch that it
            bumped to. The producer is not fenced (KIP-588).
Unknown     a commit without an answer is neither done nor undone: the same request is repeated until it is
            answered. ``commit`` may be called again; nothing else may.
"""

import asyncio
from collections.abc import Mapping
from typing import Final

from fencepost.client.batches import ProducerIdentity
from fencepost.client.coordinators import Coordinator, cancelled
from fencepost.client.errors import (
    AbortableError,
    ClientError,
    FatalError,
    IllegalState,
    NotReachable,
    RequestTimedOut,
    TransactionTimedOut,
    number_of,
    refused,
)
from fencepost.client.network import Network
from fencepost.client.phases import OneCall, Phase
from fencepost.client.sender import Sender
from fencepost.client.transaction_errors import (
    code_of_additions,
    code_of_offsets,
    from_commit,
    from_coordinator,
    from_group,
)
from fencepost.client.transaction_requests import additions, offsets_to_commit
from fencepost.client.types import GroupMetadata, OffsetAndMetadata, PreparedTxnState, TopicPartition
from fencepost.records.types import ProducerId
from fencepost.wire.k10_find_coordinator import GROUP, TRANSACTION
from fencepost.wire.k22_init_producer_id import INIT_PRODUCER_ID
from fencepost.wire.k24_add_partitions_to_txn import ADD_PARTITIONS_TO_TXN
from fencepost.wire.k25_add_offsets_to_txn import ADD_OFFSETS_TO_TXN
from fencepost.wire.k26_end_txn import END_TXN
from fencepost.wire.k28_txn_offset_commit import TXN_OFFSET_COMMIT
from fencepost.wire.requests import (
    AddOffsets,
    ApiError,
    EndTxn,
    EndTxnAnswer,
    InitProducerId,
)

V2: Final = 2
GROUPS_MAX: Final = 100
"""Groups whose coordinators one producer remembers; it commits offsets for one."""


class Transactions:
    """Implements ``Rules`` of a sender for a transactional producer."""

    def __init__(
        self,
        network: Network,
        transactional_id: str,
        *,
        timeout_ms: int,
        max_block_s: float,
        two_phase: bool = False,
        keep_prepared: bool = False,
    ) -> None:
        self.transactional_id: str | None = transactional_id
        self.adds_partitions = False
        self._id = transactional_id
        self._network = network
        self._timeout_ms = timeout_ms
        self._max_block_s = max_block_s
        self._coordinator = Coordinator(network, TRANSACTION, transactional_id)
        self._groups: dict[str, Coordinator] = {}
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

    async def init(self) -> None:
        """Get a pair. With one already, for a transaction that timed out or must abort: the next epoch."""
        self._require(Phase.NEW, Phase.READY, Phase.DOOMED, Phase.ABORTING, Phase.RENEWING)
        if self._phase is Phase.READY:
            return
        with self._alone:
            if self._phase is not Phase.NEW:
                await self._settle_batches()
                self._phase = Phase.RENEWING
            await self._new_epoch()

    def begin(self) -> None:
        """A transaction begins; the coordinator learns of it with its first record."""
        self._require(Phase.READY)
        self.adds_partitions = self._network.transaction_version >= V2
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
        with self._alone:
            try:
                if not self.adds_partitions:
                    add = AddOffsets(
                        self._id, ProducerId(self._identity.producer_id), self._identity.epoch, group.group_id
                    )
                    await self._coordinator.call(ADD_OFFSETS_TO_TXN, add, timeout_s=self._max_block_s)
                    self._opened = True
            except ApiError as error:
                raise self._fail(from_coordinator(error, "AddOffsetsToTxn")) from error
            except (RequestTimedOut, NotReachable) as error:
                raise self._fail(AbortableError(str(error), error.code)) from error
            await self._commit_offsets(offsets, group)

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
        try:
            answer = await self._end_txn(committed=True)
        except ApiError as error:
            self._phase = Phase.OPEN
            raise self._fail(from_commit(error, bumps=self.adds_partitions)) from error
        self._ended(answer)

    async def _abort(self) -> None:
        await self._settle_batches()
        if not self._touched:
            self._ended(None)
            return
        if self._has_to_end():
            self._phase = Phase.ABORTING
            try:
                answer = await self._end_txn(committed=False)
            except ApiError as error:
                failure = from_coordinator(error, "abort")
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
        request = EndTxn(
            self._id,
            ProducerId(self._identity.producer_id),
            self._identity.epoch,
            committed,
            bumps_epoch=self.adds_partitions,
        )
        return await self._coordinator.call(END_TXN, request, timeout_s=self._max_block_s)

    def _ended(self, answer: EndTxnAnswer | None) -> None:
        if answer is not None and answer.producer_id >= 0:
            self._identity = ProducerIdentity(answer.producer_id, answer.producer_epoch)
        self._begin_anew()

    async def _new_epoch(self) -> None:
        """InitProducerId with the own pair, if there is one. Whatever is open is aborted by it."""
        request = InitProducerId(
            self._id,
            self._timeout_ms,
            ProducerId(self._identity.producer_id),
            self._identity.epoch,
            enables_two_phase=self._two_phase,
            keeps_prepared=self._keeps,
        )
        try:
            answer = await self._coordinator.call(INIT_PRODUCER_ID, request, timeout_s=self._max_block_s)
        except ApiError as error:
            if self._phase is Phase.NEW:
                raise refused(number_of(error), f"InitProducerId of {self._id!r}: {error}") from error
            failure = from_coordinator(error, "InitProducerId")
            raise self._fail(
                failure if isinstance(failure, FatalError) else FatalError(str(failure))
            ) from error
        self._identity = ProducerIdentity(answer.producer_id, answer.producer_epoch)
        self._begin_anew()
        if self._keeps:
            self._keeps = False
            self._ongoing = ProducerIdentity(answer.ongoing_producer_id, answer.ongoing_producer_epoch)
            self._touched = self._opened = answer.ongoing_producer_id >= 0
            self.adds_partitions = self._network.transaction_version >= V2
            self._phase = Phase.PREPARED

    def _begin_anew(self) -> None:
        self._required_sender().adopt(self._identity)
        self._error = None
        self._phase = Phase.READY

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

    async def _commit_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: GroupMetadata
    ) -> None:
        request = offsets_to_commit(
            self._id, self._identity, offsets, group, adds_offsets=self.adds_partitions
        )
        try:
            await self._group(group.group_id).call(
                TXN_OFFSET_COMMIT, request, timeout_s=self._max_block_s, code_of=code_of_offsets
            )
        except ApiError as error:
            raise self._fail(from_group(number_of(error), f"offsets of group {group.group_id!r}")) from error
        except (RequestTimedOut, NotReachable) as error:
            raise self._fail(AbortableError(str(error), error.code)) from error

    def _group(self, group_id: str) -> Coordinator:
        if group_id not in self._groups and len(self._groups) >= GROUPS_MAX:
            self._groups.clear()
        return self._groups.setdefault(group_id, Coordinator(self._network, GROUP, group_id))

    # -- states ---------------------------------------------------------------------------------------------

    def _fail(self, error: ClientError) -> ClientError:
        """The transaction must abort, or the producer is over. Returns the error, to be raised."""
        if self._phase is Phase.OVER:
            return error
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
