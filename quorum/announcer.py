"""Announces open transactions to the leaders of their partitions, as soon as they are decided.

Why         the first batch of a transaction on a partition is verified with the coordinator (KIP-890), which
            costs an entry of the log. Told in advance, the partition leader need not ask.
Safety      an announcement carries the image version at which it is true. The transaction ends with a later
            one, which its marker carries: a partition that has that marker takes no older announcement.
Effort      each is sent once. What is lost, dropped or late costs a question, no more.
Group       one request per broker is under way; what comes meanwhile goes with the next one.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from controller import topics
from controller.brokers import BROKERS
from controller.view import View
from records.types import BrokerId
from wire.k20024_announce_partitions import PARTITIONS_MAX, Announcement, AnnouncePartitions

WAITING_MAX: Final = 5_000  # announcements to one broker; one more is dropped

Send = Callable[[BrokerId, str, int, AnnouncePartitions, Callable[[Any], None]], None]
"""(broker, host, port, request, what to do when it is answered or lost)."""


@dataclass(slots=True)
class Lane:
    """What goes to one broker."""

    waiting: deque[Announcement] = field(default_factory=deque)
    busy: bool = False


class Announcer:
    """See the module. On the node's one thread."""

    def __init__(self, image: Callable[[], View], send: Send) -> None:
        self._image = image
        self._send = send
        self._lanes: dict[BrokerId, Lane] = {}

    def announce(self, announcement: Announcement) -> None:
        """Tell the leader of each partition its own part, soon."""
        for broker_id, part in self._by_leader(announcement).items():
            lane = self._lanes.setdefault(broker_id, Lane())
            if len(lane.waiting) < WAITING_MAX:
                lane.waiting.append(part)
                self._flush(broker_id, lane)

    def _by_leader(self, announcement: Announcement) -> dict[BrokerId, Announcement]:
        view = self._image()
        parts: dict[BrokerId, dict[str, list[int]]] = {}
        for topic, indexes in announcement.topics:
            for index in indexes:
                found = topics.partition(view, topic, index)
                if found is not None:
                    parts.setdefault(BrokerId(found.leader), {}).setdefault(topic, []).append(index)
        return {
            broker_id: Announcement(
                announcement.producer_id,
                announcement.producer_epoch,
                announcement.image_version,
                tuple((topic, tuple(indexes)) for topic, indexes in by_topic.items()),
            )
            for broker_id, by_topic in parts.items()
        }

    def _flush(self, broker_id: BrokerId, lane: Lane) -> None:
        broker = self._image().get(BROKERS, broker_id)
        if lane.busy or not lane.waiting:
            return
        if broker is None or broker.fenced:
            lane.waiting.clear()
            return
        taken: list[Announcement] = []
        partitions = 0
        while lane.waiting and partitions < PARTITIONS_MAX:
            size = sum(len(indexes) for _, indexes in lane.waiting[0].topics)
            if taken and partitions + size > PARTITIONS_MAX:
                break
            partitions += size
            taken.append(lane.waiting.popleft())
        lane.busy = True
        endpoint = broker.endpoints[0]
        request = AnnouncePartitions(tuple(taken))
        self._send(broker_id, endpoint.host, endpoint.port, request, partial(self._sent, broker_id, lane))

    def _sent(self, broker_id: BrokerId, lane: Lane, outcome: Any) -> None:
        lane.busy = False
        if outcome is not None:  # the broker is not there: what waits is of no use, either
            lane.waiting.clear()
        self._flush(broker_id, lane)
