"""What Metadata says of topics: described in slices of the event loop, then proved by an empty entry.

Slices     read the applied image. A topic is described in one slice: it is whole, as of one image version.
Order      all topics are described by ascending name, each slice from the last one's name on: so a topic that
           is there from the first slice to the last is described once, whatever is made or deleted meanwhile.
Proof      the entry comes after the last slice. Once it is applied in the controller epoch in which the first
           slice was read, no other node has led meanwhile: what was acknowledged before the request came
           is in the answer.
Kept       what was last said of all topics, for as long as the version of the cluster stays what it is.
"""

import uuid
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Final, TypeAlias

from fencepost.controller import cluster_version
from fencepost.controller.brokers import BROKERS
from fencepost.controller.decision import Decision
from fencepost.controller.errors import ErrorCode, InvalidTopic, NotController, UnknownServerError
from fencepost.controller.partition_reports import is_offline
from fencepost.controller.topic_creation import require_valid_name
from fencepost.controller.topics import (
    PARTITIONS,
    STARTED_AT,
    TOPICS,
    Partition,
    Topic,
    configs_digest,
    find,
    find_by_id,
)
from fencepost.controller.view import View
from fencepost.coordinator.marker_sender import CallLater
from fencepost.quorum.port import Submit
from fencepost.records.types import BrokerId
from fencepost.snapshots.store import HALTING
from fencepost.wire.dispatch import Reply
from fencepost.wire.k03_metadata import PartitionMetadata, TopicMetadata, TopicQuery

DESCRIBED_ROWS_MAX: Final = 1_000
"""Partitions described in one slice, besides those of the topic that passes it: some 2 us each."""

Described = tuple[TopicMetadata, ...]
Refused = dict[str, ErrorCode]
"""By the name of a topic that is not there: why it could not be created."""


class TopicDescriptions:
    """Describes topics to the clients of one node. ``leads``: whether it is the active controller."""

    def __init__(
        self, image: Callable[[], View], leads: Callable[[], bool], submit: Submit, call_later: CallLater
    ) -> None:
        self._image = image
        self._leads = leads
        self._submit = submit
        self._call_later = call_later
        self._kept: tuple[int, Described] | None = None  # version of the cluster, all topics
        self._waiting: list[Reply[Described]] = []  # they came while all topics were being described
        self._is_describing_all = False

    def describe(self, queries: Iterable[TopicQuery], refused: Refused, reply: Reply[Described]) -> None:
        """One answer for each topic in the request."""
        found: list[TopicMetadata] = []
        epoch = self._epoch
        if self._leads():
            slices = _queried(self._image, queries, refused, found)
            self._begin(slices, lambda: self._prove(tuple(found), epoch, reply), partial(_fail, [reply]))
        else:
            self._prove((), epoch, reply)

    def find_unknown(
        self, queries: Iterable[TopicQuery], then: Callable[[list[str]], None], reply: Reply[Described]
    ) -> None:
        """Gives ``then`` the names in the request that no topic has."""
        names: list[str] = []
        slices = _unknown_names(self._image, queries, names)
        self._begin(slices, lambda: then(names), partial(_fail, [reply]))

    def describe_all(self, reply: Reply[Described]) -> None:
        """Every topic. Requests that come while they are described share the next description."""
        kept = self._kept
        if not self._leads():
            self._prove((), self._epoch, reply)
        elif kept is not None and kept[0] == self._version:
            self._prove(kept[1], self._epoch, reply)
        else:
            self._waiting.append(reply)
            if not self._is_describing_all:
                self._describe_all()

    def _describe_all(self) -> None:
        replies, self._waiting = self._waiting, []
        self._is_describing_all = True
        found: list[TopicMetadata] = []
        epoch, version = self._epoch, self._version

        def over() -> None:
            self._is_describing_all = False
            topics = tuple(found)
            if (epoch, version) == (self._epoch, self._version):  # then it is true for those that wait, too
                self._kept = version, topics
                replies.extend(self._waiting)
                self._waiting.clear()
            for reply in replies:
                self._prove(topics, epoch, reply)
            if self._waiting:
                self._describe_all()

        def failed(error: Exception) -> None:
            self._is_describing_all = False
            waiting, self._waiting = self._waiting, []
            _fail([*replies, *waiting], error)

        self._begin(_all(self._image, found), over, failed)

    def _begin(
        self, slices: Iterator[None], over: Callable[[], None], failed: Callable[[Exception], None]
    ) -> None:
        self._call_later(0.0, partial(self._go_on, slices, over, failed))

    def _go_on(
        self, slices: Iterator[None], over: Callable[[], None], failed: Callable[[Exception], None]
    ) -> None:
        """One slice; after the last one ``over``. What the store raises halts the node."""
        try:
            is_over = next(slices, self) is self
        except HALTING:
            raise
        except Exception as error:  # re-raised: the request is answered before the loop's handler has it
            failed(error)
            raise
        if is_over:
            over()
        else:
            self._begin(slices, over, failed)

    def _prove(self, topics: Described, epoch: int, reply: Reply[Described]) -> None:
        """Answer once an entry is applied, if this node has led since ``epoch`` was read."""

        def decide(view: View, _now_ms: int) -> Decision[Described]:
            if view.header.controller_epoch != epoch:
                raise NotController("leadership moved while the topics were read")
            return Decision((), topics)

        self._submit(decide, reply, closing=reply)

    @property
    def _epoch(self) -> int:
        return self._image().header.controller_epoch

    @property
    def _version(self) -> int:
        return cluster_version.current(self._image())


def _fail(replies: Iterable[Reply[Described]], error: Exception) -> None:
    for reply in replies:
        reply(UnknownServerError(f"the topics could not be described: {error!r}"))


def _all(image: Callable[[], View], found: list[TopicMetadata]) -> Iterator[None]:
    """Describes every topic. Yields where something else may run, and begins anew from the last name."""
    last: str | None = None
    while True:
        view, rows = image(), 0
        live = _live(view)
        for name, topic in view.scan(TOPICS, last):
            found.append(_described(view, topic, live))
            rows += found[-1].rows
            if rows >= DESCRIBED_ROWS_MAX:
                last = name
                break
        else:
            return
        yield


def _queried(
    image: Callable[[], View], queries: Iterable[TopicQuery], refused: Refused, found: list[TopicMetadata]
) -> Iterator[None]:
    """Describes the topics in the request. Yields likewise."""
    view, rows = image(), 0
    live = _live(view)
    for query in queries:
        if rows >= DESCRIBED_ROWS_MAX:
            yield
            view, rows = image(), 0
            live = _live(view)
        topic = find_by_id(view, query.topic_id) if query.topic_id is not None else None
        if query.name is not None:
            topic = find(view, query.name)
        found.append(_unknown(query, refused) if topic is None else _described(view, topic, live))
        rows += found[-1].rows


def _unknown_names(
    image: Callable[[], View], queries: Iterable[TopicQuery], names: list[str]
) -> Iterator[None]:
    for count, query in enumerate(queries, 1):
        if query.name and find(image(), query.name) is None:
            names.append(query.name)
        if count % DESCRIBED_ROWS_MAX == 0:
            yield


def _unknown(query: TopicQuery, refused: Refused) -> TopicMetadata:
    if query.name is None:
        return TopicMetadata(name=None, topic_id=query.topic_id, error_code=ErrorCode.UNKNOWN_TOPIC_ID)
    code = refused.get(query.name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if code in _COMES:
        code = ErrorCode.LEADER_NOT_AVAILABLE
    try:
        require_valid_name(query.name)
    except InvalidTopic as error:
        code = error.code
    return TopicMetadata(name=query.name, topic_id=query.topic_id, error_code=code)


_Live: TypeAlias = dict[BrokerId, uuid.UUID]
"""The directory ids of the brokers that are not fenced."""

_UNKNOWN: Final = uuid.UUID(int=0)
"""The directory of a broker whose registration names none."""

_COMES: Final = frozenset({ErrorCode.INVALID_REPLICATION_FACTOR})
"""No broker is there yet to keep a replica: the client retries, as for a leader that is not elected."""


def _live(view: View) -> _Live:
    return {broker_id: broker.directory_id for broker_id, broker in view.items(BROKERS) if not broker.fenced}


def _is_led(view: View, key: tuple[uuid.UUID, int], kept: Partition, live: _Live) -> bool:
    return kept.leader in live and not is_offline(view, key, kept)


def _described(view: View, topic: Topic, live: _Live) -> TopicMetadata:
    topic_id = topic.topic_id
    partitions = tuple([_partition(view, topic_id, index, live) for index in range(topic.partition_count)])
    return TopicMetadata(
        name=topic.name,
        topic_id=topic_id,
        partitions=partitions,
        configs_digest=configs_digest(topic.configs),
    )


def _partition(view: View, topic_id: uuid.UUID, index: int, live: _Live) -> PartitionMetadata:
    key = (topic_id, index)
    kept = view.get(PARTITIONS, key)
    if kept is None:  # it is there, or its topic is not: see controller.topics
        return PartitionMetadata(partition_index=index, error_code=ErrorCode.LEADER_NOT_AVAILABLE)
    led = _is_led(view, key, kept, live)
    offline = tuple([each for each in kept.replicas if each not in live])
    here = live.get(BrokerId(kept.leader), _UNKNOWN)
    if kept.directories and here not in (kept.directories[0], _UNKNOWN):
        offline = kept.replicas  # the broker has the log, or its directory is lost: it knows
    return PartitionMetadata(
        partition_index=index,
        error_code=ErrorCode.NONE if led else ErrorCode.LEADER_NOT_AVAILABLE,
        leader_id=kept.leader if led else -1,
        leader_epoch=kept.leader_epoch,
        replica_nodes=kept.replicas,
        isr_nodes=kept.replicas,
        offline_replicas=offline,
        start_offset=-1 if kept.leader_epoch <= 0 else _start_offset(view, key, kept),
    )


def _start_offset(view: View, key: tuple[uuid.UUID, int], kept: Partition) -> int:
    """Where the partition was started again in its leader epoch; -1: the epoch has another reason."""
    offset, leader_epoch = view.get(STARTED_AT, key) or (-1, -1)
    return offset if leader_epoch == kept.leader_epoch else -1
