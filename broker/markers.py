"""WriteTxnMarkers: the coordinator, or an admin, ends transactions on the partitions that are hosted here.

Appended at once, flushed off the loop, then answered: a marker and the data before it are on the disk before
it is acknowledged. Markers that come during a flush share the next one.
Believed    our tags (the image version, forced) count on a connection that proved the cluster's secret, and
            within what a coordinator can have; a version that none can have is refused (42).
Foreign     any other marker is Kafka's: first the partition's own rules, then the coordinator verifies it
            (broker/foreign_markers.py). 48 where it has a transaction of that producer id open there; 6,
            which every client retries, where it does not say in time or the producer wrote there meanwhile.
Duplicates  a marker that is not newer than its producer's last one is not appended, and answered NONE. It
            waits for a flush, too: the first copy may not be on the disk yet.
Errors      each partition has its own code: 3, 6 and 56 are retried, 47 is a wedge (docs/kafka-notes.md B5).
"""

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from fencepost.broker.flushing import Flusher
from fencepost.broker.foreign_markers import ForeignMarkers, Verdict
from fencepost.broker.partition import Partition
from fencepost.broker.partitions import Partitions
from fencepost.broker.unknown_partitions import UnknownPartitions
from fencepost.controller.authorization import Acls, Operation
from fencepost.controller.errors import ApiError, ClusterAuthorizationFailed, ErrorCode
from fencepost.controller.transactions.states import TRANSACTIONS_V2
from fencepost.records.end_marker import IMAGE_VERSION_MAX, NO_VERSION, EndMarker
from fencepost.records.types import ImageVersion, ProducerId
from fencepost.wire.dispatch import Context, Reply
from fencepost.wire.k03_metadata import TopicQuery
from fencepost.wire.k27_write_txn_markers import TxnMarker, WriteTxnMarkers, WriteTxnMarkersAnswer
from fencepost.wire.slices import Slices
from fencepost.wire.stalls import Stalls

SLICE_MAX: Final = 20
"""Markers appended between two turns of the loop: 0.4 ms, or 12 where each is its log's first bytes."""


class _Key(NamedTuple):
    """One partition of one marker: where its code stands in the answer."""

    position: int
    topic: str
    partition: int


class MarkersEndpoint:
    """The endpoint of WriteTxnMarkers (API key 27)."""

    def __init__(
        self,
        partitions: Partitions,
        unknown: UnknownPartitions,
        flusher: Flusher,
        foreign: ForeignMarkers,
        acls: Acls,
        *,
        stalls: Stalls,
        clock_ms: Callable[[], int],
    ) -> None:
        self._partitions = partitions
        self._stalls = stalls
        self._unknown = unknown
        self._flusher = flusher
        self._foreign = foreign
        self._acls = acls
        self._clock_ms = clock_ms

    def write(self, request: WriteTxnMarkers, context: Context, reply: Reply[WriteTxnMarkersAnswer]) -> None:
        """Serve WriteTxnMarkers. Raises ClusterAuthorizationFailed."""
        try:
            self._acls.require(context.principal, Operation.CLUSTER_ACTION)
        except ClusterAuthorizationFailed:
            self._acls.require(context.principal, Operation.ALTER)
        proved = context.proved or self._foreign.coordinator_cannot_prove
        missing = {
            topic
            for marker in request.markers
            for topic, indexes in marker.topics
            if any(self._partitions.find(topic, index) is None for index in indexes)
        }
        if missing:
            queries = [TopicQuery(topic) for topic in sorted(missing)]
            self._unknown.look_up_first(queries, lambda: self._append_all(request, proved, reply))
        else:
            self._append_all(request, proved, reply)

    def _append_all(
        self, request: WriteTxnMarkers, proved: bool, reply: Reply[WriteTxnMarkersAnswer]
    ) -> None:
        written = _Written(request, reply)
        Slices("WriteTxnMarkers", self._steps(request, proved, written), reply, self._stalls).start()

    def _steps(self, request: WriteTxnMarkers, proved: bool, written: "_Written") -> Iterator[None]:
        """Yields after each SLICE_MAX markers. The answer waits until all are appended."""
        written.asking += 1
        done = 0
        for position, marker in enumerate(request.markers):
            is_sound = 0 <= marker.image_version <= IMAGE_VERSION_MAX
            is_ours = proved and marker.image_version != NO_VERSION
            for topic, indexes in marker.topics:
                for index in indexes:
                    if done == SLICE_MAX:
                        yield
                        done = 0
                    done += 1
                    key = _Key(position, topic, index)
                    partition = self._partitions.find(topic, index)
                    if not is_sound:
                        written.codes[key] = ErrorCode.INVALID_REQUEST
                    elif partition is None:
                        written.codes[key] = self._unknown.code(topic, index)
                    elif is_ours:
                        code = written.codes[key] = self._append(marker, partition)
                        if code == ErrorCode.NONE:
                            written.unflushed.setdefault(partition, []).append(key)
                    else:
                        self._ask_first(written, key, marker, partition)
        for partition in tuple(written.unflushed):
            self._flusher.flush(partition, written.flushed(partition))
        written.asking -= 1
        written.answer_if_complete()

    def _append(self, marker: TxnMarker, partition: Partition) -> ErrorCode:
        try:
            outcome = partition.log.append_marker(
                end_marker_of(marker), self._clock_ms(), partition.leader_epoch, forced=marker.forced
            )
        except ApiError as error:
            return error.code
        except OSError as error:
            self._partitions.fail(partition, error, doing="append")
            return ErrorCode.KAFKA_STORAGE_ERROR
        if outcome.appended:
            partition.wake()
        return ErrorCode.NONE

    def _ask_first(self, written: "_Written", key: _Key, marker: TxnMarker, partition: Partition) -> None:
        """Append a foreign marker if the coordinator has nothing open there and nothing changes meanwhile."""
        producer_id = ProducerId(marker.producer_id)
        plain = TxnMarker(
            marker.producer_id,
            marker.producer_epoch,
            marker.committed,
            marker.topics,
            marker.coordinator_epoch,
            marker.transaction_version,
        )
        try:
            partition.log.check_marker(end_marker_of(plain))
        except ApiError as error:
            written.codes[key] = error.code
            return
        before = partition.log.state_of(producer_id)
        written.asking += 1

        def on_verdict(verdict: Verdict) -> None:
            if verdict is Verdict.OPEN:
                written.settle(key, ErrorCode.INVALID_TXN_STATE)
                return
            if self._partitions.find(key.topic, key.partition) is not partition:
                written.settle(key, self._unknown.code(key.topic, key.partition))
                return
            if verdict is Verdict.UNKNOWN or partition.log.state_of(producer_id) is not before:
                written.settle(key, ErrorCode.NOT_LEADER_OR_FOLLOWER)  # what every client tries again
                return
            code = self._append(plain, partition)
            if code != ErrorCode.NONE:
                written.settle(key, code)
                return
            self._flusher.flush(
                partition,
                lambda is_safe: written.settle(
                    key, ErrorCode.NONE if is_safe else ErrorCode.KAFKA_STORAGE_ERROR
                ),
            )

        self._foreign.ask(producer_id, key.topic, key.partition, on_verdict)


def end_marker_of(marker: TxnMarker) -> EndMarker:
    """What is to be appended. Without ``image_version`` it is not the coordinator's (an admin's abort)."""
    return EndMarker(
        producer_id=ProducerId(marker.producer_id),
        producer_epoch=marker.producer_epoch,
        committed=marker.committed,
        coordinator_epoch=marker.coordinator_epoch,
        version=ImageVersion(marker.image_version),
        bumps_epoch=marker.transaction_version >= TRANSACTIONS_V2,
    )


class _Written:
    """One request's codes, what is not flushed yet, and how many verifications are under way."""

    __slots__ = ("_answered", "_reply", "_request", "asking", "codes", "unflushed")

    def __init__(self, request: WriteTxnMarkers, reply: Reply[WriteTxnMarkersAnswer]) -> None:
        self._request = request
        self._reply = reply
        self._answered = False
        self.asking = 0
        self.codes: dict[_Key, ErrorCode] = {}
        self.unflushed: dict[Partition, list[_Key]] = {}

    def flushed(self, partition: Partition) -> Callable[[bool], None]:
        """What to call when the partition is flushed."""

        def on_verdict(is_safe: bool) -> None:
            for key in self.unflushed.pop(partition):
                if not is_safe:
                    self.codes[key] = ErrorCode.KAFKA_STORAGE_ERROR
            self.answer_if_complete()

        return on_verdict

    def settle(self, key: _Key, code: ErrorCode) -> None:
        """Note the code of a marker that the coordinator has verified."""
        self.asking -= 1
        self.codes[key] = code
        self.answer_if_complete()

    def answer_if_complete(self) -> None:
        """Answer once nothing waits for the disk or for the coordinator."""
        if self.unflushed or self.asking or self._answered:
            return
        self._answered = True
        self._reply(
            WriteTxnMarkersAnswer(
                tuple(
                    (
                        marker.producer_id,
                        tuple(
                            (
                                topic,
                                tuple((index, self.codes[_Key(position, topic, index)]) for index in indexes),
                            )
                            for topic, indexes in marker.topics
                        ),
                    )
                    for position, marker in enumerate(self._request.markers)
                )
            )
        )
