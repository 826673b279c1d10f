"""``explain --logs``: the same answers out of log directories, as the live part gives them.

Files are of one moment, or of several: a transaction that hangs in them is to be confirmed by the cluster.
"""

from collections.abc import Iterable
from functools import cached_property

from fencepost.audit.jobs.opened import COORDINATOR_TOPIC, Coordinators, Directories, Log, OpenLog
from fencepost.cli.output import when
from fencepost.client.explain import Explained, Held, PartitionHeld
from fencepost.client.inquiry import Unanswered
from fencepost.client.types import TopicPartition
from fencepost.cluster.console import Unreadable
from fencepost.records.open_transactions import Coordinated, Holding, Judged, OpenTransaction, judge

NO_COORDINATOR = (
    f"no log of {COORDINATOR_TOPIC}, where coordinators keep transactions, is among the directories"
)


class LogExplainer:
    """Looks at directories. Each call raises Unreadable if what it is of is not there."""

    def __init__(self, roots: Iterable[str]) -> None:
        self._directories = Directories([*roots])

    @cached_property
    def _coordinators(self) -> Coordinators:
        """Read when something is open, or an id is looked for: their logs may be large."""
        return self._directories.coordinators()

    @cached_property
    def _owners(self) -> dict[int, Coordinated]:
        return self._coordinators.by_producer()

    async def partition(self, where: TopicPartition) -> Explained:
        """Who holds the partition's last stable offset."""
        log = (where.topic, where.partition)
        if not self._directories.has(log):
            raise Unreadable(f"no log of {where} is among the directories")
        found = self._directories.opened(log)
        return self._explained([self._held(found, found.opened)])

    async def transactional_id(self, name: str) -> Explained | None:
        """The id's transaction, and every log in which its producer has one open. None: no such id."""
        owner = self._coordinators.by_id.get(name)
        return None if owner is None else self._producer(owner.producer_id, owner)

    async def producer_id(self, producer_id: int) -> Explained:
        """Where the producer has a transaction open, and which transactional id has it."""
        return self._producer(producer_id, self._owners.get(producer_id))

    async def is_partition(self, where: TopicPartition) -> bool:
        """Whether a log of it is there."""
        return self._directories.has((where.topic, where.partition))

    async def is_transactional_id(self, name: str) -> bool:
        """Whether the coordinators' logs that are there have it."""
        return name in self._coordinators.by_id

    def _producer(self, producer_id: int, owner: Coordinated | None) -> Explained:
        partitions, opened = [], set()
        for log in self._directories.data_logs:
            found = self._directories.opened(log)
            of_it = [each for each in found.opened if each.producer_id == producer_id]
            if of_it:
                partitions.append(self._held(found, of_it))
                opened.add(log)
        listed = frozenset() if owner is None else owner.partitions
        return self._explained(partitions, owner, sorted(listed - opened))

    def _held(self, found: OpenLog, opened: Iterable[OpenTransaction]) -> PartitionHeld:
        first = min((each.start_offset for each in found.opened), default=found.end)
        held = []
        for each in opened:
            owner = self._owners.get(each.producer_id)
            held.append(Held(each, judged(each, owner, self._coordinators, found), owner))
        return PartitionHeld(
            topic=found.topic,
            partition=found.partition,
            last_stable_offset=min(first, found.end),
            high_watermark=found.end,
            held=tuple(held),
        )

    def _explained(
        self, partitions: list[PartitionHeld], owner: Coordinated | None = None, without: Iterable[Log] = ()
    ) -> Explained:
        unanswered = [Unanswered(each.of, each.reason) for each in self._directories.problems]
        places = [*without]
        unanswered += [
            Unanswered(f"{topic}-{index}", "its log is not among the directories")
            for topic, index in places
            if not self._directories.has((topic, index))
        ]
        unsure = [each for row in partitions for each in row.held if each.judged.holding is Holding.UNKNOWN]
        if any(each.owner is None for each in unsure):
            unanswered += self._missing_coordinators()
        return Explained(
            partitions=tuple(partitions),
            owner=owner,
            missing=tuple(each for each in places if self._directories.has(each)),
            unanswered=tuple(unanswered),
        )

    def _missing_coordinators(self) -> list[Unanswered]:
        there = len(self._coordinators.partitions)
        if self._coordinators.is_whole:
            return []
        if not there:
            return [Unanswered("the coordinator", NO_COORDINATOR)]
        said = f"{there} partitions of {COORDINATOR_TOPIC} are among the directories, and not known to be all"
        return [Unanswered("other coordinators", said)]


def judged(
    opened: OpenTransaction, owner: Coordinated | None, coordinators: Coordinators, log: OpenLog
) -> Judged:
    """As ``judge``, by logs: what they lack may be the marker, and they may end too early."""
    if opened.producer_id in log.unsure:
        said = f"behind its data something cannot be read in {log.directory}: its marker may be there"
        return Judged(Holding.UNKNOWN, said)
    if owner is None and not coordinators.partitions:
        return Judged(Holding.UNKNOWN, "the coordinator's log is not among the directories")
    found = judge(opened, owner, is_whole=coordinators.is_whole)
    if found.holding is not Holding.HANGING:
        return found
    if opened.start_offset >= log.end:
        said = f"it begins where what is known to be replicated ends, at offset {log.end}: the log may go on"
        return Judged(Holding.UNKNOWN, said)
    if owner is not None and not log.is_stopped:
        updated_ms = coordinators.updated_ms[owner.transactional_id]
        if updated_ms > log.last_ms:
            said = (
                f"its coordinator wrote after the last record here, {when(updated_ms)}: so may the marker be"
            )
            return Judged(Holding.UNKNOWN, f"{found.reason}; {said}")
    if coordinators.last_ms < opened.first_ms:
        earlier = f"the coordinators' logs were last written before, {when(coordinators.last_ms)}"
        return found._replace(reason=f"{found.reason}; {earlier}")
    return found
