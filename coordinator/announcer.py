"""Announces open transactions to the leaders of their partitions, as soon as they are decided.

Why         the first batch of a transaction on a partition is verified with the coordinator (KIP-890), which
            costs an entry of the log. A partition leader with an announcement need not verify it.
Safety      an announcement carries the image version at which it is true. The transaction ends with a later
            one, which its marker carries: a partition that has that marker takes no older announcement.
Order       it is written before the producer is answered, so that it is there before the producer's batch.
Effort      each is sent once, and not answered; one of more than ANNOUNCED_MAX partitions is not sent. What
            is lost, dropped or late costs a question, no more.
"""

from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from fencepost.controller import topics
from fencepost.controller.brokers import BROKERS
from fencepost.controller.view import View
from fencepost.records.types import BrokerId
from fencepost.wire.k20024_announce_partitions import Announcement, AnnouncePartitions

Send = Callable[[BrokerId, str, int, AnnouncePartitions], None]
"""(broker, host, port, request). Never answered."""

_Topics = tuple[tuple[str, tuple[int, ...]], ...]
ANNOUNCED_MAX: Final = 500
"""Partitions of a transaction that are announced: the leader of each is looked up while others wait."""
NO_BROKER: Final = BrokerId(topics.NO_LEADER)


class Announcer:
    """See the module. On the node's one thread."""

    def __init__(self, image: Callable[[], View], send: Send) -> None:
        self._image = image
        self._send = send

    def announce(self, announcement: Announcement) -> None:
        """Tell the leader of each partition its own part, now."""
        if sum(len(indexes) for _, indexes in announcement.topics) > ANNOUNCED_MAX:
            return
        view = self._image()
        for broker_id, part in _by_leader(view, announcement.topics):
            broker = view.get(BROKERS, broker_id)
            if broker is None or broker.fenced:
                continue
            message = announcement
            if part is not announcement.topics:
                message = msgspec.structs.replace(announcement, topics=part)
            endpoint = broker.endpoints[0]
            self._send(broker_id, endpoint.host, endpoint.port, AnnouncePartitions((message,)))


def _by_leader(view: View, wanted: _Topics) -> Iterable[tuple[BrokerId, _Topics]]:
    if len(wanted) == 1 and len(wanted[0][1]) == 1:  # as of most transactions
        topic, (index,) = wanted[0]
        found = topics.partition(view, topic, index)
        if found is not None and found.leader != NO_BROKER:
            yield BrokerId(found.leader), wanted
        return
    parts: dict[BrokerId, dict[str, list[int]]] = {}
    for topic, indexes in wanted:
        for index in indexes:
            found = topics.partition(view, topic, index)
            if found is not None and found.leader != NO_BROKER:
                parts.setdefault(BrokerId(found.leader), {}).setdefault(topic, []).append(index)
    for broker_id, by_topic in parts.items():
        yield broker_id, tuple((topic, tuple(indexes)) for topic, indexes in by_topic.items())
