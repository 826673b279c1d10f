"""Announces open transactions to the leaders of their partitions, and changes of the cluster to all brokers.

Why         the first batch of a transaction on a partition is verified with the coordinator (KIP-890), which
            costs an entry of the log. A partition leader with an announcement need not verify it.
Safety      an announcement carries the image version at which it is true. The transaction ends with a later
            one, which its marker carries: a partition that has that marker takes no older announcement.
Order       it is written before the producer is answered, so that it is there before the producer's batch.
Together    a broker gets those of one entry in one request, and their producers are answered after it.
            To the broker of this process it is a call.
Effort      each is sent once, and not answered; one of more than ANNOUNCED_MAX partitions is not sent. What
            is lost, dropped or late costs a question, no more.
Changes     of topics and brokers are announced by a request without partitions, once for all of a
            maintenance tick: a broker sends its heartbeat at once. If it is lost, then when one is due.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

import msgspec

from fencepost.controller import cluster_version, topics
from fencepost.controller.brokers import BROKERS, Broker
from fencepost.controller.transactions.add_partitions import AddPartitionsToTxnAnswer
from fencepost.controller.view import View
from fencepost.records.types import BrokerId
from fencepost.wire.dispatch import Reply
from fencepost.wire.k20024_announce_partitions import Announcement, AnnouncePartitions

Send = Callable[[BrokerId, str, int, AnnouncePartitions], None]
"""(broker, host, port, request). Never answered."""

_Topics = tuple[tuple[str, tuple[int, ...]], ...]
ANNOUNCED_MAX: Final = 500
"""Partitions of a transaction that are announced: the leader of each is looked up while others wait."""
TOGETHER_MAX: Final = 2_000
"""Partitions that are announced before those that were collected are answered; one more addition fits."""
ANSWERS_MAX: Final = 64
"""Answers, or announcements, that are collected: they are given in one go, some 2 ms; the broker of this
process appends what waits for them, some 6 ms."""
NO_BROKER: Final = BrokerId(topics.NO_LEADER)
NO_VERSION: Final = -1

CallLater = Callable[[float, Callable[[], None]], None]


class Here(NamedTuple):
    """The broker of this process, and what takes its announcements."""

    broker_id: BrokerId
    take: Callable[[Sequence[Announcement]], None]


class _Answer(NamedTuple):
    reply: Reply[AddPartitionsToTxnAnswer]
    outcome: AddPartitionsToTxnAnswer
    throttle_ms: int


class Announcer:
    """See the module. On the node's one thread."""

    def __init__(self, image: Callable[[], View], send: Send, call_later: CallLater) -> None:
        self._image = image
        self._send = send
        self._call_later = call_later
        self._waiting: list[Announcement] = []
        self._partitions = 0  # of those that wait
        self._answers: deque[_Answer] = deque()
        self._is_due = False  # a flush is
        self._version = NO_VERSION  # of the cluster, as brokers have had it announced
        self.here: Here | None = None

    def activated(self) -> None:
        """This node coordinates from now on: what earlier leaders announced is not known."""
        self._version = NO_VERSION

    def announce_changes(self) -> None:
        """Announce to every broker, fenced ones excepted, that topics or brokers changed, if they have."""
        view = self._image()
        version = cluster_version.current(view)
        if version == self._version:
            return
        self._version = version
        for broker_id, broker in view.scan(BROKERS):
            if not broker.fenced:
                self._give(broker_id, broker, [])

    def announce_and_reply(
        self,
        announcement: Announcement,
        reply: Reply[AddPartitionsToTxnAnswer],
        outcome: AddPartitionsToTxnAnswer,
        throttle_ms: int,
    ) -> None:
        """Announce with the others that are decided meanwhile, then give the outcome to ``reply``."""
        self._answers.append(_Answer(reply, outcome, throttle_ms))
        self.announce(announcement)

    def announce(self, announcement: Announcement) -> None:
        """Announce with the others that are decided meanwhile."""
        count = sum(len(indexes) for _, indexes in announcement.topics)
        if count <= ANNOUNCED_MAX:
            self._waiting.append(announcement)
            self._partitions += count
        together = max(len(self._waiting), len(self._answers))
        if self._partitions >= TOGETHER_MAX or together >= ANSWERS_MAX:
            self._flush()
        else:
            self._flush_soon()

    def _flush_soon(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._call_later(0.0, self._flush)

    def _flush(self) -> None:
        self._is_due = False
        try:
            self._announce()
        finally:
            self._answer()

    def _announce(self) -> None:
        """Tell the leader of each partition its own part."""
        waiting, self._waiting, self._partitions = self._waiting, [], 0
        view = self._image()
        parts: dict[BrokerId, list[Announcement]] = {}
        for announcement in waiting:
            for broker_id, part in _by_leader(view, announcement.topics):
                message = announcement
                if part is not announcement.topics:
                    message = msgspec.structs.replace(announcement, topics=part)
                parts.setdefault(broker_id, []).append(message)
        for broker_id, messages in parts.items():
            broker = view.get(BROKERS, broker_id)
            if broker is not None and not broker.fenced:
                self._give(broker_id, broker, messages)

    def _give(self, broker_id: BrokerId, broker: Broker, messages: Sequence[Announcement]) -> None:
        if self.here is not None and self.here.broker_id == broker_id:
            self.here.take(messages)
        else:
            endpoint = broker.endpoints[0]
            self._send(broker_id, endpoint.host, endpoint.port, AnnouncePartitions(tuple(messages)))

    def _answer(self) -> None:
        """One that cannot be given closes its connection, and those behind it are given later."""
        while self._answers:
            answer = self._answers.popleft()
            is_given = False
            try:
                answer.reply(answer.outcome, answer.throttle_ms)
                is_given = True
            finally:
                if not is_given:
                    answer.reply.close("the answer to AddPartitionsToTxn could not be given")
                    self._flush_soon()


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
