"""Who holds the last stable offset of a partition, by what a running cluster says.

Keys        Kafka's public ones alone: Metadata (3), ListOffsets (2), FindCoordinator (10), DescribeProducers
            (61), DescribeTransactions (65), ListTransactions (66). A coordinator of ours is also asked why it
            could not write a marker (20065).
Twice       a transaction is hanging if two looks, CONFIRM_S apart, say so of the same first offset: between
            the answers of partitions and coordinators transactions end, and coordinators move.
"""

import asyncio
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from fencepost.client.coordinators import Coordinator
from fencepost.client.errors import ClientError, UnknownTopic, number_of, refused
from fencepost.client.inquiry import READ_COMMITTED, READ_UNCOMMITTED, Inquiry, Place, Unanswered
from fencepost.client.network import Network
from fencepost.client.types import TopicPartition
from fencepost.records.open_transactions import Coordinated, Holding, Judged, OpenTransaction, judge
from fencepost.wire.k10_find_coordinator import TRANSACTION
from fencepost.wire.k61_describe_producers import ActiveProducer
from fencepost.wire.k20065_explain_transaction import (
    EXPLAIN_TRANSACTION,
    ExplainTransaction,
    Explanation,
    FenceExplained,
)
from fencepost.wire.requests import ApiError, ErrorCode

CONFIRM_S: Final = 1.0
READING_S: Final = 5.0  # to find out what a name is
EXPLAINED_MAX: Final = 10  # transactional ids whose fences are looked at; all that are ending are
LOOKS_MAX: Final = 3  # until the answers of one partition fit together
WEDGED: Final = "wedged"

_NO_TOPIC: Final = frozenset((ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION))
_UNEXPLAINED: Final = frozenset(
    (
        ErrorCode.UNSUPPORTED_VERSION,  # of Apache Kafka
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    )
)


class Held(NamedTuple):
    """An open transaction, what it waits for, and the transactional id that has its producer, if any has."""

    opened: OpenTransaction
    judged: Judged
    owner: Coordinated | None = None


class Wedged(NamedTuple):
    """A partition that refuses the marker of a decided transaction, as a coordinator of ours says."""

    transactional_id: str
    partition: str
    reason: str
    since_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionHeld:
    """A partition and what is open on it, the oldest first. None: the leader does not say.

    ``leader``   its node id; -1: it has none.
    """

    topic: str
    partition: int
    leader: int = -1
    last_stable_offset: int | None = None
    high_watermark: int | None = None
    held: tuple[Held, ...] = ()

    @property
    def behind(self) -> int | None:
        """How many offsets read_committed consumers do not get."""
        if self.last_stable_offset is None or self.high_watermark is None:
            return None
        return max(0, self.high_watermark - self.last_stable_offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """What is known of a partition, a transactional id or a producer id.

    ``missing``       partitions of the transaction on which nothing of it is open.
    ``remembered``    how many partitions know the producer; None: it was not counted.
    ``fences``        by transactional id, the oldest first; of a cluster of ours.
    ``unanswered``    what the cluster did not say: the rest is not the whole.
    """

    partitions: tuple[PartitionHeld, ...] = ()
    owner: Coordinated | None = None
    missing: tuple[Place, ...] = ()
    remembered: int | None = None
    wedged: tuple[Wedged, ...] = ()
    fences: Mapping[str, tuple[FenceExplained, ...]] = field(default_factory=dict)
    unanswered: tuple[Unanswered, ...] = ()


class Explainer:
    """Looks at a running cluster. Each call raises ClientError if no broker can be reached, or refuses it."""

    def __init__(self, network: Network, timeout_s: float) -> None:
        self._network = network
        self._timeout_s = timeout_s

    async def partition(self, where: TopicPartition) -> Explained:
        """Who holds the partition's last stable offset. Raises UnknownTopic."""
        first = await self._look(where)
        if not _hanging(first):
            return first
        await asyncio.sleep(CONFIRM_S)
        return _confirmed(await self._look(where), _hanging(first))

    async def transactional_id(self, name: str) -> Explained | None:
        """The id's transaction, and every partition on which its producer has one open. None: no such id."""
        inquiry = self._inquiry()
        await inquiry.topics(())
        owner = await inquiry.transaction(name)
        if owner is None:
            return None
        return await self._producer(owner.producer_id, owner.transactional_id)

    async def producer_id(self, producer_id: int) -> Explained:
        """Where the producer has a transaction open, and which transactional id has it."""
        return await self._producer(producer_id, None)

    async def is_partition(self, where: TopicPartition) -> bool:
        """Whether the cluster has it. Raises ClientError if it does not say."""
        topic = (await self._inquiry(READING_S).topics((where.topic,))).get(where.topic)
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if topic is None else topic.error_code
        if topic is None or code in _NO_TOPIC:
            return False
        if code != ErrorCode.NONE:
            raise refused(code, f"topic {where.topic!r}")
        return where.partition in {each.partition_index for each in topic.partitions}

    async def is_transactional_id(self, name: str) -> bool:
        """Whether a coordinator knows it. Raises ClientError if it does not say."""
        inquiry = self._inquiry(READING_S)
        await inquiry.topics(())
        return await inquiry.transaction(name) is not None

    # -- one look -------------------------------------------------------------------------------------------

    def _inquiry(self, timeout_s: float = math.inf) -> Inquiry:
        return Inquiry(self._network, min(timeout_s, self._timeout_s))

    async def _look(self, where: TopicPartition) -> Explained:
        for look in range(1, LOOKS_MAX + 1):
            inquiry = self._inquiry()
            topic = (await inquiry.topics((where.topic,))).get(where.topic)
            if topic is None or topic.error_code in _NO_TOPIC:
                raise UnknownTopic(f"there is no topic {where.topic!r}", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            if topic.error_code != ErrorCode.NONE:
                raise refused(topic.error_code, f"topic {where.topic!r}")
            if where.partition not in {each.partition_index for each in topic.partitions}:
                raise UnknownTopic(
                    f"topic {where.topic!r} has {len(topic.partitions)} partitions, no {where.partition}",
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                )
            leaders = inquiry.leaders((topic,), where.partition)
            found = await inquiry.producers(leaders)
            opened = [_opened(place, each) for place, row in found.items() for each in row.producers]
            partitions = await self._judged(
                inquiry, leaders, [each for each in opened if each.start_offset >= 0]
            )
            (held,) = partitions or (PartitionHeld(topic=where.topic, partition=where.partition),)
            if look == LOOKS_MAX or _fits(held):
                break
        return replace(await self._explained(inquiry, (held,)), unanswered=tuple(inquiry.unanswered.values()))

    async def _producer(self, producer_id: int, transactional_id: str | None) -> Explained:
        first = await self._look_for(producer_id, transactional_id)
        if not _hanging(first):
            return first
        await asyncio.sleep(CONFIRM_S)
        return _confirmed(await self._look_for(producer_id, transactional_id), _hanging(first))

    async def _look_for(self, producer_id: int, transactional_id: str | None) -> Explained:
        inquiry = self._inquiry()
        leaders = inquiry.leaders((await inquiry.topics(None)).values())
        found = await inquiry.producers(leaders)
        opened = [
            _opened(place, each)
            for place, row in found.items()
            for each in row.producers
            if each.producer_id == producer_id
        ]
        is_open = [each for each in opened if each.start_offset >= 0]
        places = {(each.topic, each.partition) for each in is_open}
        owners, _ = await inquiry.owners((producer_id,))
        owner = owners.get(producer_id)
        if transactional_id is not None:
            owner = await inquiry.transaction(transactional_id) or owner
        listed = frozenset() if owner is None else owner.partitions
        missing = tuple(sorted((listed - places) & found.keys()))
        wanted = {place: leaders[place] for place in sorted(places)}
        partitions = await self._judged(inquiry, wanted, is_open)
        explained = await self._explained(inquiry, partitions, owner)
        return replace(
            explained,
            owner=owner,
            missing=missing,
            remembered=len(opened),
            unanswered=tuple(inquiry.unanswered.values()),
        )

    async def _judged(
        self, inquiry: Inquiry, leaders: dict[Place, int], opened: Sequence[OpenTransaction]
    ) -> tuple[PartitionHeld, ...]:
        """The partitions of ``leaders``, by name, each with what is open on it."""
        places = sorted(leaders)
        calls = [inquiry.offset(each, leaders[each], READ_COMMITTED) for each in places]
        calls += [inquiry.offset(each, leaders[each], READ_UNCOMMITTED) for each in places]
        offsets = await asyncio.gather(*calls)
        owners, is_whole = await inquiry.owners({each.producer_id for each in opened})
        held: dict[Place, list[Held]] = defaultdict(list)
        for each in sorted(opened, key=lambda each: each.start_offset):
            owner = owners.get(each.producer_id)
            judged = judge(each, owner, is_whole=is_whole)
            held[each.topic, each.partition].append(Held(each, judged, owner))
        return tuple(
            PartitionHeld(
                topic=place[0],
                partition=place[1],
                leader=leaders[place],
                last_stable_offset=stable,
                high_watermark=end,
                held=tuple(held[place]),
            )
            for place, stable, end in zip(places, offsets[: len(places)], offsets[len(places) :], strict=True)
        )

    async def _explained(
        self, inquiry: Inquiry, partitions: tuple[PartitionHeld, ...], owner: Coordinated | None = None
    ) -> Explained:
        """With what coordinators of ours say of markers that partitions refuse, and of fences."""
        held = [each for partition in partitions for each in partition.held]
        ending = {each.owner for each in held if each.judged.holding is Holding.ENDING}
        if owner is not None and owner.state.startswith("Prepare"):
            ending.add(owner)
        names = sorted({each.transactional_id for each in ending if each is not None})
        others = {owner, *(each.owner for each in held)} - ending
        names += sorted({each.transactional_id for each in others if each is not None} - {*names})
        wedged: list[Wedged] = []
        fences: dict[str, tuple[FenceExplained, ...]] = {}
        for name in names[: max(EXPLAINED_MAX, len(ending))]:
            explanation = await self._explanation(inquiry, name)
            if explanation is not None:
                wedged += _wedged(name, explanation)
                fences[name] = explanation.fences
        return Explained(partitions=partitions, wedged=tuple(wedged), fences=fences)

    async def _explanation(self, inquiry: Inquiry, name: str) -> Explanation | None:
        """What the id's coordinator says; None: it is Apache Kafka's, or does not say, which is noted."""
        if not await inquiry.has(EXPLAIN_TRANSACTION):
            return None
        coordinator = Coordinator(self._network, TRANSACTION, name)
        try:
            return await coordinator.call(
                EXPLAIN_TRANSACTION, ExplainTransaction(name), timeout_s=self._timeout_s
            )
        except ApiError as error:
            if number_of(error) not in _UNEXPLAINED:
                inquiry.note(f"transactional id {name!r}", str(error), number_of(error))
        except ClientError as error:
            inquiry.note(f"transactional id {name!r}", str(error), error.code)
        return None


def _wedged(name: str, explanation: Explanation) -> list[Wedged]:
    return [
        Wedged(name, each.partition, each.reason, each.since_ms)
        for each in explanation.set_aside
        if each.kind == WEDGED
    ]


def _opened(place: Place, row: ActiveProducer) -> OpenTransaction:
    return OpenTransaction(
        *place,
        row.producer_id,
        row.producer_epoch,
        row.current_txn_start_offset,
        row.last_timestamp,
        row.coordinator_epoch,
    )


def _fits(partition: PartitionHeld) -> bool:
    """The last stable offset is that of what is open: the answers are of one moment."""
    if not partition.behind:
        return True
    return any(each.opened.start_offset == partition.last_stable_offset for each in partition.held)


def _hanging(explained: Explained) -> frozenset[OpenTransaction]:
    return frozenset(
        _identity(each)
        for partition in explained.partitions
        for each in partition.held
        if each.judged.holding is Holding.HANGING
    )


def _identity(held: Held) -> OpenTransaction:
    """The transaction without what later writes change."""
    return held.opened._replace(last_ms=-1, coordinator_epoch=-1)


def _confirmed(explained: Explained, before: frozenset[OpenTransaction]) -> Explained:
    """What hangs now and did not in the look before is unknown."""
    unsure = Judged(Holding.UNKNOWN, "it began between two looks, and coordinators may be moving: look again")
    partitions = tuple(
        replace(
            partition,
            held=tuple(
                each._replace(judged=unsure)
                if each.judged.holding is Holding.HANGING and _identity(each) not in before
                else each
                for each in partition.held
            ),
        )
        for partition in explained.partitions
    )
    return replace(explained, partitions=partitions)
