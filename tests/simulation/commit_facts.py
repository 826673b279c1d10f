"""What members of a group committed and read, and what must hold of it, whichever node coordinated.

Lost       no acknowledged commit is lost: a read finds the last one, or one that came after it.
Fenced     of two owners of a partition only the later generation commits: an older one is acknowledged
           nothing that it sends after the later one was announced, and no value of it takes effect any
           more once the later one has read a stable offset.
Pending    from its answer on the offset of a transaction is pending until it ends, and then committed: a
           reader of stable offsets finds neither an older one nor none in between.
Aborted    what owners before have pending for a partition when a group-aware InitProducerId for it is
           answered is never committed (KIP-447).
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Any, Final

from fencepost.controller.errors import ApiError, ErrorCode
from fencepost.controller.groups.identity import Identity
from fencepost.controller.groups.offset_messages import (
    AddOffsets,
    CommitOffsets,
    CommitTransactionOffsets,
    FetchedOffset,
    FetchOffsets,
    PartitionCodes,
)
from fencepost.controller.transactions.end_txn import EndTxn
from fencepost.controller.transactions.init_request import InitProducerId
from tests.simulation.group_facts import GroupFacts
from tests.simulation.invariants import require

NONE_COMMITTED: Final = -1
SURELY_OPEN: Final = 0.8  # share of its timeout for which a transaction is open by any clock


@dataclass(slots=True, eq=False)
class Commit:
    """A value that a member wanted committed. Times are counts of events, ``inf`` for never."""

    value: int
    partition: int
    generation: int
    sent: int
    may_count: bool  # it may be committed: a plain one, or the end of its transaction was requested
    accepted: float = inf  # its record is in the log
    done: float = inf  # it is committed
    ending: bool = False
    open_until_s: float = 0.0

    def is_before(self, other: "Commit") -> bool:
        """Its record is surely before the other's in the log."""
        return self.accepted < other.sent or self.generation < other.generation


class CommitFacts(GroupFacts):
    """See the module. Each value is committed once of a partition."""

    def __init__(
        self, holder_of: Callable[[str], str | None], now_s: Callable[[], float], timeout_s: float
    ) -> None:
        super().__init__(holder_of)
        self._now_s = now_s
        self._timeout_s = timeout_s
        self._values = 0
        self._commits: dict[int, dict[int, Commit]] = {}  # by partition and value
        self._open: dict[str, list[Commit]] = {}  # by transactional id
        self._began_s: dict[str, float] = {}
        self._reads: dict[int, tuple[int, int, int]] = {}  # partition -> (when, generation, value)

    def next_value(self) -> int:
        """One that no one has committed."""
        self._values += 1
        return self._values

    def last_value(self, partition: int) -> int:
        """The last that is known to be committed of it."""
        commits = self._commits.get(partition, {}).values()
        return max((each.value for each in commits if each.done < inf), default=NONE_COMMITTED)

    def sent(self, request: Any) -> int:
        """The time at which a request is sent."""
        now = super().sent(request)
        if isinstance(request, CommitOffsets | CommitTransactionOffsets):
            each = request.offsets[0]
            in_transaction = isinstance(request, CommitTransactionOffsets)
            commit = Commit(each.offset, each.partition, request.identity.generation, now, not in_transaction)
            self._commits.setdefault(each.partition, {})[each.offset] = commit
            if isinstance(request, CommitTransactionOffsets):
                commit.open_until_s = self._began_s[request.transactional_id] + self._timeout_s * SURELY_OPEN
                self._open.setdefault(request.transactional_id, []).append(commit)
        elif isinstance(request, AddOffsets):
            self._began_s[request.transactional_id] = self._now_s()
        elif isinstance(request, InitProducerId | EndTxn):
            commits = isinstance(request, EndTxn) and request.committed
            for commit in self._open.get(str(request.transactional_id), ()):
                commit.ending = True
                commit.may_count = commit.may_count or commits
            if isinstance(request, InitProducerId):
                self._open.pop(str(request.transactional_id), None)
                for commit in self._of_owners_before(request):
                    commit.ending = True
        return now

    def answered(self, sent: int, instance_id: str | None, request: Any, answer: Any) -> None:
        """See GroupFacts."""
        super().answered(sent, instance_id, request, answer)
        if isinstance(answer, ApiError):
            return
        if isinstance(request, CommitOffsets | CommitTransactionOffsets):
            self._committed(sent, request, answer)
        elif isinstance(request, EndTxn):
            self.counts["ends"] += 1
            for commit in self._open.pop(request.transactional_id, ()):
                if request.committed and commit.accepted < inf:
                    commit.done = min(commit.done, self._now)
        elif isinstance(request, InitProducerId) and request.member is not None:
            self.counts["group-aware"] += 1
            over = [each for each in self._of_owners_before(request) if not each.may_count]
            self.counts["fenced for a group"] += len(over)
            for name, commits in self._open.items():
                self._open[name] = [each for each in commits if each not in over]
        elif isinstance(request, FetchOffsets):
            self._fetched(sent, request, answer.groups[0].offsets)

    def _of_owners_before(self, request: InitProducerId) -> list[Commit]:
        """What may be open of earlier generations for the partitions of a group-aware request."""
        if request.member is None:
            return []
        wanted, generation = {index for _, _, index in request.member.keys}, request.member.generation
        commits = [each for of_id in self._open.values() for each in of_id]
        return [each for each in commits if each.partition in wanted and each.generation < generation]

    def _committed(
        self, sent: int, request: CommitOffsets | CommitTransactionOffsets, answer: PartitionCodes
    ) -> None:
        each, by = request.offsets[0], request.identity
        code = answer.rows[0].code
        if code != ErrorCode.NONE:
            self.counts[f"commit {code.name}"] += 1
            return
        in_transaction = isinstance(request, CommitTransactionOffsets)
        self.counts["commits in transactions" if in_transaction else "commits"] += 1
        self._owns(sent, by)
        commit = self._commits[each.partition][each.offset]
        commit.accepted = min(commit.accepted, self._now)
        if not in_transaction:
            commit.done = min(commit.done, self._now)

    def _owns(self, sent: int, by: Identity) -> None:
        self._current(sent, by.member_id, by.generation, "a commit")

    # -- reads --------------------------------------------------------------------------------------

    def _fetched(self, sent: int, request: FetchOffsets, rows: tuple[FetchedOffset, ...]) -> None:
        """What a member that wants stable offsets is answered."""
        query = request.groups[0]
        found = {row.partition: row for row in rows}
        wanted = self._commits if query.partitions is None else [index for _, index in query.partitions]
        self.counts["reads of all" if query.partitions is None else "reads"] += 1
        for partition in wanted:
            row = found.get(partition)
            if row is None:
                require(query.partitions is None, "a partition is left out", partition=partition)
            if row is None or row.code == ErrorCode.NONE:
                value = NONE_COMMITTED if row is None else row.offset
                self._judge(sent, query.member_epoch, partition, value)
            else:
                self.counts[f"read {row.code.name}"] += 1

    def _judge(self, sent: int, generation: int, partition: int, value: int) -> None:
        commits = self._commits.get(partition, {})
        read = commits.get(value)
        said = {"partition": partition, "value": value}
        if value != NONE_COMMITTED:
            possible = read is not None and read.may_count
            require(possible, "a value is read that was not committed", **said)
        for commit in commits.values():
            if commit.done < sent and commit is not read:
                lost = read is None or read.is_before(commit)
                require(not lost, "an acknowledged commit is lost", **said, lost=commit)
            if commit.accepted < sent and not commit.ending and self._now_s() < commit.open_until_s:
                require(commit.may_count, "neither pending nor committed", **said, which=commit)
        before = self._reads.get(partition)
        if before is not None and before[0] < sent:
            _, owners, known = before
            late = value != known and (read is None or read.generation < owners)
            require(not late, "an older generation committed after a later one had read", **said, read=before)
        if before is None or generation >= before[1]:
            self._reads[partition] = (self._now, generation, value)
        if read is not None:
            read.accepted, read.done = min(read.accepted, self._now), min(read.done, self._now)
