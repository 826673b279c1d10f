"""The producer that applications import: idempotent, and transactional with a transactional id.

Written     a record's future has its place, or the reason why it has none. Each record is written once, in
            the order of ``send`` in its partition (KIP-98), until the producer ends with a FatalError.
Waits       ``send`` waits for the topic's metadata and for room in ``buffer_memory``, ``max_block_ms`` at
            most; it does not wait for the record to be written.
Loop        a producer belongs to the event loop that it was started in, and is not for other threads.
"""

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from types import TracebackType
from typing import Final, Self

from fencepost.client.errors import (
    FatalError,
    IllegalState,
    InvalidSetting,
    NotReachable,
    RequestTimedOut,
    UnknownTopic,
    refused,
)
from fencepost.client.idempotence import Idempotence
from fencepost.client.metadata import ClusterMetadata, Topic
from fencepost.client.network import Network, NetworkSettings, Sasl, addresses
from fencepost.client.partitioning import StickyPartitions, partition_of
from fencepost.client.sender import Sender
from fencepost.client.sender_rules import SenderSettings
from fencepost.client.transactions import Transactions
from fencepost.client.types import (
    GroupAssignment,
    GroupMetadata,
    OffsetAndMetadata,
    PreparedTxnState,
    RecordMetadata,
    TopicPartition,
)
from fencepost.records import compression
from fencepost.records.batch import Header
from fencepost.records.batch_builder import size_max
from fencepost.wire.requests import ErrorCode
from fencepost.wire.tls import Tls

CODECS: Final = {
    "none": compression.NONE,
    "gzip": compression.GZIP,
    "snappy": compression.SNAPPY,
    "lz4": compression.LZ4,
    "zstd": compression.ZSTD,
}
BATCH_BYTES: Final = 128 * 1024
REQUEST_BYTES: Final = 1024 * 1024  # Kafka's default of message.max.bytes, and of max.request.size
BUFFER_BYTES: Final = 32 * 1024 * 1024
CLOSE_S_MAX: Final = 30.0


class Producer:
    """Writes records to topics. ``async with Producer("localhost:9092") as producer: ...``

    ``bootstrap_servers``   ``host:port`` of some brokers, as a sequence or divided by commas.
    ``linger_ms``           how long a batch waits for more records, if it is not full.
    ``batch_size``          bytes of one batch, uncompressed; a larger record has a batch of its own.
    ``compression``         none, gzip, snappy, lz4 or zstd.
    ``max_request_size``    bytes of one request and of one record.
    ``buffer_memory``       bytes of records that wait to be written; ``send`` waits for room.
    ``delivery_timeout_ms`` how long a record may wait for its outcome.
    ``max_block_ms``        how long a call may wait for metadata, room, or a coordinator.
    ``transactional_id``    who the producer is over restarts: records are then sent in transactions alone.
    ``transaction_timeout_ms``  how long a transaction may be open before the coordinator aborts it.
    ``two_phase``           transactions may be prepared, and never time out (KIP-939).
    ``group_aware``         for what a consumer is assigned (``init_transactions``) this one alone writes;
                            ``transactional_id`` may be left out (KIP-447).
    ``keep_prepared``       what another instance left open is kept: ``complete_transaction`` must follow.
    ``sasl``, ``tls``       user, password (and SCRAM-SHA-256 or -512); keys and authorities (``client.Tls``).
    """

    _sender: Sender | None = None
    _transactions: Transactions | None = None

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str],
        *,
        transactional_id: str | None = None,
        transaction_timeout_ms: int = 60_000,
        two_phase: bool = False,
        keep_prepared: bool = False,
        group_aware: bool = False,
        client_id: str = "fencepost-producer",
        sasl: Sasl | None = None,
        tls: Tls | None = None,
        linger_ms: float = 0.0,
        batch_size: int = BATCH_BYTES,
        compression: str = "none",
        max_request_size: int = REQUEST_BYTES,
        buffer_memory: int = BUFFER_BYTES,
        request_timeout_ms: int = 30_000,
        delivery_timeout_ms: int = 120_000,
        max_block_ms: int = 60_000,
        creates_topics: bool = True,
    ) -> None:
        if compression not in CODECS:
            raise InvalidSetting(f"compression {compression!r}; expected one of {', '.join(CODECS)}")
        if batch_size < 1 or max_request_size < 1 or buffer_memory < 1:
            raise InvalidSetting("batch_size, max_request_size and buffer_memory are at least 1")
        self._rng = random.Random()
        servers, request_s = addresses(bootstrap_servers), request_timeout_ms / 1000
        settings = NetworkSettings(
            bootstrap=servers, client_id=client_id, sasl=sasl, tls=tls, request_timeout_s=request_s
        )
        self._network = Network(settings, self._rng)
        self._metadata = ClusterMetadata(self._network, creates_topics=creates_topics)
        self._sender_settings = SenderSettings(
            linger_s=linger_ms / 1000,
            batch_bytes=min(batch_size, max_request_size),
            request_bytes_max=max_request_size,
            buffer_bytes=buffer_memory,
            request_timeout_s=request_timeout_ms / 1000,
            delivery_timeout_s=delivery_timeout_ms / 1000,
            codec=CODECS[compression],
        )
        self._max_block_s = max_block_ms / 1000
        self._record_bytes_max = max_request_size
        self._sticky = StickyPartitions(self._rng)
        if transactional_id is not None or group_aware:
            self._transactions = Transactions(
                self._network,
                transactional_id,
                timeout_ms=transaction_timeout_ms,
                max_block_s=self._max_block_s,
                two_phase=two_phase,
                keep_prepared=keep_prepared,
                group_aware=group_aware,
            )
        self._rules = self._transactions or Idempotence(self._network, self._max_block_s)
        self._closed = False

    async def __aenter__(self) -> Self:
        """Start. Raises as ``start``."""
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close, after what was sent is written; at once if the block raised."""
        await self.close(timeout_s=CLOSE_S_MAX if error is None else 0.0)

    async def start(self) -> None:
        """Reach the cluster and get a producer id, or the transactions' pair (``init_transactions``).

        A new producer of a transactional id fences the one before, and its open transaction is aborted.
        Raises NotReachable, Refused, RequestTimedOut.
        """
        if self._sender is not None or self._closed:
            raise IllegalState("the producer was started before")
        sender = Sender(self._network, self._metadata, self._sender_settings, self._rules)
        self._rules.attach(sender)
        try:
            if isinstance(self._rules, Idempotence):
                sender.adopt(await self._rules.new_identity(self._max_block_s))
            elif not self._rules.needs_assignment:
                await self._rules.init()
        except BaseException:
            await self._network.close()
            raise
        self._sender = sender

    async def close(self, *, timeout_s: float = CLOSE_S_MAX) -> None:
        """Write what waits, for ``timeout_s`` at most, and close all connections. May be called again.

        Cancelled: all is closed at once.
        """
        if self._closed:
            return
        self._closed = True
        async with contextlib.AsyncExitStack() as ending:  # each of these, in the order from the last
            ending.push_async_callback(self._network.close)
            ending.push_async_callback(self._metadata.close)
            ending.push_async_callback(self._rules.close)
            if self._sender is not None:
                unwritten = IllegalState("the producer was closed before the record was written")
                ending.callback(self._sender.end, unwritten)
                if timeout_s > 0:
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(timeout_s):
                            await self._sender.drain()

    async def send(
        self,
        topic: str,
        value: bytes | None = None,
        *,
        key: bytes | None = None,
        partition: int | None = None,
        headers: Sequence[Header] = (),
        timestamp_ms: int | None = None,
    ) -> "asyncio.Future[RecordMetadata]":
        """Queue a record. The future has its place in the log, or raises why it was not written.

        ``headers``    (name, content or None); a name is bytes, in UTF-8 by convention.
        Raises         UnknownTopic, Refused (the record is too large), DeliveryTimedOut (no room in time),
                       IllegalState, FatalError.
        """
        sender = self._require_sendable()
        size = size_max(key, value, headers)
        if size > self._record_bytes_max:
            raise refused(
                ErrorCode.MESSAGE_TOO_LARGE, f"a record of {size} bytes; at most {self._record_bytes_max}"
            )
        if sender.buffer.is_full:
            await sender.buffer.reserve(self._max_block_s)
        known = self._metadata.topic(topic)
        if known is None:
            known = await self._metadata.await_topic(topic, self._max_block_s)
        self._require_sendable()
        chosen = self._choose(known, key, partition)
        at_ms = time.time_ns() // 1_000_000 if timestamp_ms is None else timestamp_ms
        future, was_full = sender.append(TopicPartition(topic, chosen), key, value, headers, at_ms, size)
        if was_full and key is None and partition is None:
            self._sticky.advance(topic, _led(known))
        return future

    async def send_and_wait(
        self,
        topic: str,
        value: bytes | None = None,
        *,
        key: bytes | None = None,
        partition: int | None = None,
        headers: Sequence[Header] = (),
        timestamp_ms: int | None = None,
    ) -> RecordMetadata:
        """As ``send``, and wait until the record is written. Raises what the future raises, too."""
        return await (
            await self.send(
                topic, value, key=key, partition=partition, headers=headers, timestamp_ms=timestamp_ms
            )
        )

    async def flush(self) -> None:
        """Return when every record that was sent before has its outcome; the futures have the errors."""
        await self._require_started().flush()

    # -- transactions ---------------------------------------------------------------------------------------

    @property
    def needs_assignment(self) -> bool:
        """Group-aware, and not initialized yet, or fenced by another member since: no transaction begins."""
        return self._transactions is not None and self._transactions.needs_assignment

    async def init_transactions(self, *, group: GroupAssignment | None = None) -> None:
        """Get the next epoch after TransactionTimedOut or another AbortableError; else nothing is done.

        ``group``   ``Consumer.group_assignment()``, after every rebalance of a group-aware producer: a new
                    epoch in any case. Others that write for its partitions are fenced, and what they had open
                    is aborted, before this returns (KIP-447). CommitFailed: the group has rebalanced again.
        What is open is aborted. ``start`` does it for a producer that is not group-aware.
        Raises      ProducerFenced, RequestTimedOut; with a group CommitFailed, Refused.
        """
        self._require_started()
        transactions = self._require_transactions()
        await (transactions.init() if group is None else transactions.init_for(group))

    def begin_transaction(self) -> None:
        """Begin a transaction: what is sent from now on is part of it. Raises IllegalState, FatalError."""
        self._require_started()
        self._require_transactions().begin()

    async def send_offsets_to_transaction(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int], group: GroupMetadata
    ) -> None:
        """Commit offsets of a consumer's group with the transaction (KIP-447).

        ``offsets``    the next offset to read of each partition.
        ``group``      ``Consumer.group_metadata()``; a stale one is refused: CommitFailed.
        Raises         AbortableError, FatalError, IllegalState.
        """
        self._require_started()
        rows = {
            partition: OffsetAndMetadata(offset) if isinstance(offset, int) else offset
            for partition, offset in offsets.items()
        }
        await self._require_transactions().send_offsets(rows, group)

    async def commit_transaction(self) -> None:
        """Write what waits, and commit. All of the transaction is visible to read_committed, or nothing.

        Raises    AbortableError (abort it; TransactionTimedOut is one), FatalError, IllegalState.
                  RequestTimedOut, NotReachable: the outcome is not known; call it again to learn it.
        """
        self._require_started()
        await self._require_transactions().end(committed=True)

    async def abort_transaction(self) -> None:
        """Abort. Safe after any AbortableError; the next transaction can begin then.

        Raises FatalError, IllegalState; RequestTimedOut, NotReachable: call it again.
        """
        self._require_started()
        await self._require_transactions().end(committed=False)

    async def prepare_transaction(self) -> PreparedTxnState:
        """Write what waits; after that the transaction can only be ended. Needs ``two_phase``.

        The state is to be kept in one database transaction with what belongs to this one (KIP-939).
        Raises AbortableError, FatalError, IllegalState.
        """
        self._require_started()
        return await self._require_transactions().prepare()

    async def complete_transaction(self, state: PreparedTxnState) -> bool:
        """Commit if ``state`` is that of the prepared transaction, else abort; nothing, if none is open.

        Returns whether the states are the same. Raises IllegalState: nothing was prepared; else as
        ``commit_transaction`` and ``abort_transaction``.
        """
        self._require_started()
        return await self._require_transactions().complete(state)

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """A transaction that commits at the end of the block, and aborts if the block or the commit raises.

        The block's exception goes on. A commit whose outcome is not known is not aborted.
        """
        self.begin_transaction()
        try:
            yield
            await self.commit_transaction()
        except (FatalError, RequestTimedOut, NotReachable):
            raise
        except BaseException:
            await self.abort_transaction()
            raise

    async def partitions_for(self, topic: str) -> list[int]:
        """The topic's partitions, in ascending order. Raises UnknownTopic, NotReachable."""
        self._require_started()
        return sorted((await self._metadata.await_topic(topic, self._max_block_s)).leaders)

    def _require_started(self) -> Sender:
        if self._sender is None or self._closed:
            raise IllegalState("the producer is closed" if self._closed else "the producer is not started")
        return self._sender

    def _require_sendable(self) -> Sender:
        sender = self._require_started()
        if self._transactions is not None:
            self._transactions.require_open()
        return sender

    def _require_transactions(self) -> Transactions:
        if self._transactions is None:
            raise IllegalState("the producer has no transactional_id")
        return self._transactions

    def _choose(self, topic: Topic, key: bytes | None, partition: int | None) -> int:
        if partition is not None:
            if partition not in topic.leaders:
                raise UnknownTopic(f"{topic.name} has no partition {partition}")
            return partition
        if key is not None:
            return partition_of(key, len(topic.leaders))
        return self._sticky.choose(topic.name, _led(topic))


def _led(topic: Topic) -> list[int]:
    """The partitions that have a leader; all of them if none has."""
    led = [partition for partition, leader in topic.leaders.items() if leader.node_id >= 0]
    return led or list(topic.leaders)
