"""WriteTxnMarkers: the coordinator, or an admin, ends transactions on the partitions that are hosted here.

Appended at once, flushed off the loop, then answered: a marker and the data before it are on the disk before
anybody is told. Markers that come during a flush share the next one.
Duplicates  a marker that is not newer than its producer's last one is not appended, and answered NONE
            (DESIGN 6). It waits for a flush, too: the first copy may not be on the disk yet.
Errors      each partition has its own code: 3, 6 and 56 are retried, 47 and 52 give the marker up (spec B5).
"""

from collections.abc import Callable

from broker.absent import Absent
from broker.flushing import Flusher
from broker.partitions import Partition, Partitions
from controller.authorization import Acls, Operation
from controller.errors import ApiError, ClusterAuthorizationFailed, ErrorCode
from records.types import ImageVersion, ProducerId
from wire.dispatch import Context, Reply
from wire.k03_metadata import TopicQuery
from wire.k27_write_txn_markers import TxnMarker, WriteTxnMarkers, WriteTxnMarkersAnswer


class MarkersEndpoint:
    """API key 27."""

    def __init__(
        self,
        partitions: Partitions,
        absent: Absent,
        flusher: Flusher,
        acls: Acls,
        *,
        clock_ms: Callable[[], int],
    ) -> None:
        self._partitions = partitions
        self._absent = absent
        self._flusher = flusher
        self._acls = acls
        self._clock_ms = clock_ms

    def write(self, request: WriteTxnMarkers, context: Context, reply: Reply) -> None:
        """The endpoint. Raises ClusterAuthorizationFailed."""
        try:
            self._acls.require(context.principal, Operation.CLUSTER_ACTION)
        except ClusterAuthorizationFailed:
            self._acls.require(context.principal, Operation.ALTER)
        missing = {
            topic
            for marker in request.markers
            for topic, indexes in marker.topics
            if any(self._partitions.find(topic, index) is None for index in indexes)
        }
        if missing:
            queries = [TopicQuery(topic) for topic in sorted(missing)]
            self._absent.look_up_first(queries, lambda: self._append_all(request, reply))
        else:
            self._append_all(request, reply)

    def _append_all(self, request: WriteTxnMarkers, reply: Reply) -> None:
        written = _Written(request, reply)
        for position, marker in enumerate(request.markers):
            for topic, indexes in marker.topics:
                for index in indexes:
                    partition = self._partitions.find(topic, index)
                    code = self._append(marker, topic, index, partition)
                    written.codes[position, topic, index] = code
                    if partition is not None and code == ErrorCode.NONE:
                        written.unflushed.setdefault(partition, []).append((position, topic, index))
        for partition in tuple(written.unflushed):
            self._flusher.flush(partition, written.flushed(partition))
        written.answer_if_flushed()

    def _append(self, marker: TxnMarker, topic: str, index: int, partition: Partition | None) -> ErrorCode:
        if partition is None:
            return self._absent.code(topic, index)
        try:
            outcome = partition.log.append_marker(
                ProducerId(marker.producer_id),
                marker.producer_epoch,
                marker.committed,
                marker.coordinator_epoch,
                ImageVersion(marker.image_version),
                self._clock_ms(),
                partition.leader_epoch,
            )
        except ApiError as error:
            return error.code
        except OSError as error:
            self._partitions.fail(partition, error, doing="append")
            return ErrorCode.KAFKA_STORAGE_ERROR
        if outcome.appended:
            partition.wake()
        return ErrorCode.NONE


class _Written:
    """One request's codes, by marker position, topic and index; and what is not flushed yet."""

    __slots__ = ("_answered", "_reply", "_request", "codes", "unflushed")

    def __init__(self, request: WriteTxnMarkers, reply: Reply) -> None:
        self._request = request
        self._reply = reply
        self._answered = False
        self.codes: dict[tuple[int, str, int], ErrorCode] = {}
        self.unflushed: dict[Partition, list[tuple[int, str, int]]] = {}

    def flushed(self, partition: Partition) -> Callable[[bool], None]:
        """What to call when the partition is flushed."""

        def told(is_safe: bool) -> None:
            for key in self.unflushed.pop(partition):
                if not is_safe:
                    self.codes[key] = ErrorCode.KAFKA_STORAGE_ERROR
            self.answer_if_flushed()

        return told

    def answer_if_flushed(self) -> None:
        """Answer once nothing waits for the disk."""
        if self.unflushed or self._answered:
            return
        self._answered = True
        self._reply(
            WriteTxnMarkersAnswer(
                tuple(
                    (
                        marker.producer_id,
                        tuple(
                            (topic, tuple((index, self.codes[position, topic, index]) for index in indexes))
                            for topic, indexes in marker.topics
                        ),
                    )
                    for position, marker in enumerate(self._request.markers)
                )
            )
        )
