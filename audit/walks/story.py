"""What a coordinator decided: the records of one partition of its log as transactions with their outcome.

Cleaned     below its unbroken part a compacted log may lack any record between two of an id, as its copies
            were cleaned apart: of such records only the id's last says something, if none follows.
Outcome     a PrepareCommit or PrepareAbort; of a CompleteX that follows none, what it implies. The record
            that is missing is a finding where the log is unbroken.
Regressed   a record whose (producer id, epoch) its id had left before, where compaction was too; or had when
            it was forgotten, as it gets another producer id then. A finding; nothing follows from it.
Misplaced   a record in another partition than the one that its id's hash names; nothing follows from it.
Shared      a producer id is of one transactional id only. The record of another is read with its id's own.
Timeouts    a coordinator aborts what is open too long within its sweep of ten seconds: judged at the last
            moment that the log itself tells of; if it was stopped, also by other logs, a minute for clocks.
"""

from typing import Any, Final, NamedTuple

from fencepost.audit.walks.columns import (
    FLAG_BEFORE_ELECTION,
    FLAG_COMPACTED,
    FLAG_UNCOMMITTED,
    NOTE,
    STORY_RESULT,
    STORY_SOURCE,
)
from fencepost.audit.walks.found import Found, batch_of, found, producer_name
from fencepost.audit.walks.walk import Batches, Walk, by_key

SWEEP_GRACE_MS: Final = 15_000
CLOCK_GRACE_MS: Final = 60_000
ABORT, COMMIT, OPEN, UNDECIDED = 0, 1, 2, -1

_PREPARED: Final = {"PrepareAbort": ABORT, "PrepareCommit": COMMIT}
_COMPLETE: Final = {"CompleteAbort": ABORT, "CompleteCommit": COMMIT}
_ONGOING: Final = "Ongoing"
_READ: Final = (
    "node", "path", "position", "offset", "leader_epoch", "transactional_id", "forgotten", "state",
    "producer_id", "producer_epoch", "timeout_ms", "updated_ms", "started_ms", "partitions", "flags",
    "unbroken_offset", "log_ms", "stopped", "now_ms", "partition_count",
)  # fmt: skip
_HASHES: Final = 2**32  # of a Java String, one for each int
_ENDED: Final = ("Empty", *_COMPLETE)


class Pair(NamedTuple):
    """A producer id of a transactional id, by the order in which it had them, and an epoch."""

    order: int
    epoch: int
    producer_id: int


class _Id:
    """One transactional id after the records so far."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.state: str | None = None
        self.pair: Pair | None = None
        self.left: Pair | None = None  # what it had when it was forgotten
        self.row: Found = {}
        self.open: Found = {}  # the record that began the transaction, or added to it
        self.begun = 0  # records of the open transaction
        self.outcome: Found | None = None  # decided, and not yet complete
        self.orders: dict[int, int] = {}
        self.producers: dict[int, Found] = {}
        self.reused: Pair | None = None
        self.shared: set[int] = set()
        self.is_cleaned = (
            False  # its record is from where compaction was: others before and after may be gone
        )


def run(batches: Batches) -> Batches:
    """STORY_RESULT of STORY_SOURCE."""
    for key, pieces in by_key(batches, STORY.keys):
        story = _Story(key)
        for piece in pieces:
            for row in piece.select(_READ).to_pylist():
                story.read(row)
            yield from batch_of(story.taken(), STORY_RESULT)
        story.end()
        yield from batch_of(story.taken(), STORY_RESULT)


def partition_of(transactional_id: str, count: int) -> int:
    """Of ``count`` partitions the one of an id's coordinator. Source: Kafka TransactionStateManager."""
    hashed = 0
    units = transactional_id.encode("utf-16-be", "surrogatepass")
    for high, low in zip(units[::2], units[1::2], strict=True):
        hashed = (31 * hashed + high * 256 + low) % _HASHES
    signed = hashed - _HASHES if hashed >= _HASHES // 2 else hashed
    return 0 if signed == -_HASHES // 2 else abs(signed) % count


class _Story:
    def __init__(self, key: tuple[Any, ...]) -> None:
        self._where = {"topic": key[0], "partition": key[1]}
        self._ids: dict[str, _Id] = {}
        self._owners: dict[int, str] = {}
        self._misplaced: set[str] = set()
        self._rows: list[Found] = []

    def taken(self) -> list[Found]:
        rows, self._rows = self._rows, []
        return rows

    def read(self, row: Found) -> None:
        """The next record. What is not known to be committed says nothing, nor what an election cut short."""
        if row["flags"] & (FLAG_UNCOMMITTED | FLAG_BEFORE_ELECTION):
            return
        name = row["transactional_id"]
        if self._is_misplaced(name, row):
            return
        each = self._ids.get(name)
        if each is not None and each.is_cleaned and self._is_back(each, row):
            return
        if each is None or each.is_cleaned:
            each = self._ids[name] = _Id(name)
            each.is_cleaned = bool(row["flags"] & FLAG_COMPACTED) and row["offset"] < row["unbroken_offset"]
        if row["forgotten"]:
            self._forgotten(each, row)
            self._complete(each, row)
            if each.pair is not None:
                each.left = each.pair
            each.state, each.pair, each.open = None, None, {}
            return
        row = self._own(each, row)
        if self._is_of_another_epoch(each, row):
            return
        pair = self._pair(each, row)
        if each.pair is not None and pair < each.pair:
            self._regressed(each, row, each.pair)
            return
        if each.pair is None and each.left is not None and pair <= each.left:
            self._regressed(each, row, each.left)
            return
        state = row["state"]
        if not (state in _PREPARED and each.state == state and each.pair == pair):
            self._follow(each, row, pair)
        each.state, each.pair, each.row = state, pair, row

    def _is_misplaced(self, name: str, row: Found) -> bool:
        """Every coordinator reads the partitions that it leads: in another one no coordinator of it looks."""
        count = row["partition_count"] or 1
        due = partition_of(name, count)
        if due == self._where["partition"] or count == 1:
            return False
        if name not in self._misplaced:
            self._misplaced.add(name)
            said = f"{name} belongs to partition {due} of {count}"
            self._add(row, "states", "misplaced", said, subject=name)
        return True

    def _is_back(self, each: _Id, row: Found) -> bool:
        """Whether it is of an epoch that its id had left before, whatever was cleaned between."""
        pair = each.pair or each.left
        if pair is None or row["forgotten"] or row["producer_id"] != pair.producer_id:
            return False
        if row["producer_epoch"] < pair.epoch:
            self._regressed(each, row, pair)
        return bool(row["producer_epoch"] < pair.epoch)

    def _is_of_another_epoch(self, each: _Id, row: Found) -> bool:
        """Whether it ends the open transaction with an epoch that is neither that one's nor the next."""
        if each.state != _ONGOING or each.pair is None or row["state"] not in _PREPARED:
            return False
        began = each.pair.epoch
        if row["producer_id"] != each.pair.producer_id or began <= row["producer_epoch"] <= began + 1:
            return False
        if row["producer_epoch"] < began:
            return False
        said = f"{row['state']} of epoch {row['producer_epoch']}, of a transaction of epoch {began}"
        self._add(row, "states", "epoch", said, subject=each.name)
        return True

    def _forgotten(self, each: _Id, row: Found) -> None:
        """A coordinator forgets an id only after its last transaction has ended."""
        if each.state == _ONGOING or each.outcome is not None:
            last = {name: each.row[name] for name in ("producer_id", "producer_epoch", "updated_ms")}
            said = f"it is forgotten while it is {each.state} (offset {each.row['offset']})"
            self._add(row | last, "states", "forgotten", said, subject=each.name)

    def _follow(self, each: _Id, row: Found, pair: Pair) -> None:
        state, before = row["state"], each.state
        if state in _COMPLETE and before == _ONGOING:
            self._implied(each, row, _COMPLETE[state])
        elif state in _COMPLETE and each.outcome is not None:
            if each.outcome["outcome"] != _COMPLETE[state]:
                self._missing(each, row, "what came between them is missing")
        elif each.outcome is not None and self._came_to_nothing(each, row, pair):
            self._replaced(each, row)
        elif each.outcome is not None:
            self._missing(each, row, f"that its {before} was carried out is missing")
        elif self._never_began(each, row, pair):
            self._replaced(each, row)
        elif before == _ONGOING and state not in _PREPARED and (state != _ONGOING or each.pair != pair):
            self._missing(each, row, "how the transaction ended is missing")
            self._decided(each, each.row, UNDECIDED, row["producer_epoch"], each.row["producer_id"])
        elif before in _ENDED and (state == "PrepareCommit" or (state in _PREPARED and row["partitions"])):
            self._missing(each, row, "that the transaction began is missing")
        self._complete(each, row)
        if state in _PREPARED:
            self._decided(each, row, _PREPARED[state], row["producer_epoch"], row["producer_id"])
        each.open = row if state == _ONGOING else {}
        goes_on = before == _ONGOING and row["started_ms"] == each.row["started_ms"]
        each.begun = (each.begun if goes_on else 0) + 1 if state == _ONGOING else 0

    @staticmethod
    def _came_to_nothing(each: _Id, row: Found, pair: Pair) -> bool:
        """Whether Kafka appended a decision in vain. What it held to be open it aborted later, or its client
        committed it: then all that the record says of the transaction is as it was.
        """
        is_same = pair == each.pair and row["started_ms"] == each.row["started_ms"]
        is_decided = row["state"] == "PrepareAbort" or (row["state"] == "PrepareCommit" and is_same)
        return is_decided and bool(row["flags"] & FLAG_COMPACTED)

    @staticmethod
    def _never_began(each: _Id, row: Found, pair: Pair) -> bool:
        """Whether Kafka appended the one record of a transaction in vain: its producer comes back in the next
        epoch, without a fence. Had the transaction been open, it would have been aborted first. A begin that
        was tried again has a start of its own; what adds to a transaction has that of the first.
        """
        if each.state != _ONGOING or each.pair is None or not row["flags"] & FLAG_COMPACTED:
            return False
        is_next = pair.producer_id == each.pair.producer_id and pair.epoch == each.pair.epoch + 1
        return row["state"] == "Empty" and is_next and each.begun == 1

    def _own(self, each: _Id, row: Found) -> Found:
        """The record, of another id's producer as that of its own."""
        producer_id = row["producer_id"]
        owner = self._owners.setdefault(producer_id, each.name)
        if owner == each.name:
            return row
        said = f"producer id {producer_id} is of {owner} and of {each.name}"
        key = f"finding ids.shared {producer_id} {each.name}"
        if producer_id not in each.shared:
            each.shared.add(producer_id)
            self._add(row, "ids", "shared", said, subject=f"producer {producer_id}", id=key)
        if each.pair is None or producer_id in each.orders:
            return row
        is_next = each.pair.epoch <= row["producer_epoch"] <= each.pair.epoch + 1
        return {**row, "producer_id": each.pair.producer_id} if is_next else row

    def _pair(self, each: _Id, row: Found) -> Pair:
        producer_id = row["producer_id"]
        order = each.orders.setdefault(producer_id, len(each.orders))
        known = each.producers.get(producer_id)
        if known is None:
            is_first = order == 0
            broken = row["unbroken_offset"]
            begins = row["state"] == "Empty" and row["producer_epoch"] == 0
            each.producers[producer_id] = {
                "kind": "producer", **self._where, "producer_id": producer_id, "transactional_id": each.name,
                "offset": row["offset"],
                "first_epoch": row["producer_epoch"], "last_epoch": row["producer_epoch"],
                "is_whole": broken == 0 or begins or not is_first, "unbroken_offset": broken,
                "log_ms": row["log_ms"], "node": row["node"], "path": row["path"],
                "position": row["position"],
            }  # fmt: skip
        else:
            known["last_epoch"] = max(known["last_epoch"], row["producer_epoch"])
        return Pair(order, row["producer_epoch"], producer_id)

    def _decided(self, each: _Id, row: Found, outcome: int, epoch: int, producer_id: int) -> None:
        opened = each.open or row
        each.outcome = {
            "kind": "outcome", **self._where, "outcome": outcome, "producer_id": producer_id,
            "producer_epoch": epoch, "transactional_id": each.name, "offset": row["offset"],
            "data_epoch": opened["producer_epoch"], "is_v2": epoch > opened["producer_epoch"],
            "started_ms": row["started_ms"], "prepared_ms": row["updated_ms"],
            "timeout_ms": row["timeout_ms"], "first_coordinator_epoch": row["leader_epoch"],
            "partitions": row["partitions"] or opened["partitions"] or [],
            "node": row["node"], "path": row["path"], "position": row["position"],
            "unbroken_offset": row["unbroken_offset"], "log_ms": row["log_ms"],
        }  # fmt: skip

    def _implied(self, each: _Id, row: Found, outcome: int) -> None:
        """A CompleteX of a transaction that nothing decided: the decision is missing."""
        before = each.open
        is_rotated = row["producer_id"] != before["producer_id"]
        epoch = before["producer_epoch"] + 1 if is_rotated else row["producer_epoch"]
        self._missing(each, row, f"its {'PrepareCommit' if outcome else 'PrepareAbort'} is missing")
        given = {name: before[name] for name in ("partitions", "started_ms", "leader_epoch")}
        self._decided(each, row | given, outcome, epoch, before["producer_id"])

    def _missing(self, each: _Id, row: Found, why: str) -> None:
        said = f"{row['state']} follows {each.state} (offset {each.row['offset']}): {why}"
        self._add(row, "states", "missing", said, subject=each.name, since_offset=each.row["offset"])

    def _replaced(self, each: _Id, row: Found) -> None:
        """A record of Kafka's that nothing came of: it was appended, and its append failed for want of
        replicas; to the coordinator all was as before.
        """
        said = f"the {each.state} at offset {each.row['offset']} came to nothing: its append had failed"
        self._add(row, "states", "replaced", said, subject=each.name, kind=NOTE)
        began = {} if each.outcome is None else {"producer_epoch": each.outcome["data_epoch"]}
        each.open, each.outcome = each.row | began, None

    def _complete(self, each: _Id, row: Found) -> None:
        if each.outcome is not None:
            last = {"completed_offset": row["offset"], "last_coordinator_epoch": row["leader_epoch"]}
            self._rows.append({**each.outcome, **last})
            each.outcome = None

    def _regressed(self, each: _Id, row: Found, left: Pair) -> None:
        if each.reused == left:
            return
        each.reused = left
        name = producer_name(row["producer_id"], row["producer_epoch"])
        said = f"{each.name} is at {name} again, after {producer_name(left.producer_id, left.epoch)}"
        self._add(row, "epochs", "reused", said, subject=name)

    def _add(self, row: Found, check: str, rule: str, detail: str, **columns: Any) -> None:
        place = {name: row[name] for name in ("node", "path", "position", "offset", "producer_id",
                                              "producer_epoch", "transactional_id")}  # fmt: skip
        identity = columns.pop("id", None)
        made = found(check, rule, detail, at_ms=row["updated_ms"], **self._where | place | columns)
        self._rows.append(made if identity is None else {**made, "id": identity})

    def end(self) -> None:
        """The log ends: what is open, and which producers it tells of."""
        for each in self._ids.values():
            if each.outcome is not None:
                self._rows.append(each.outcome)
            elif each.state == _ONGOING:
                self._open(each)
            self._rows += each.producers.values()

    def _open(self, each: _Id) -> None:
        row = each.row
        each.open = row
        self._decided(each, row, OPEN, row["producer_epoch"], row["producer_id"])
        if each.outcome is not None:
            self._rows.append(each.outcome)
        since = row["started_ms"] + row["timeout_ms"]
        own_ms, now_ms = row["log_ms"] or 0, row["now_ms"] or 0
        if own_ms > since + SWEEP_GRACE_MS or (row["stopped"] and now_ms > since + CLOCK_GRACE_MS):
            seen_ms = max(own_ms, now_ms) if row["stopped"] else own_ms
            said = f"the transaction has been open for {seen_ms - row['started_ms']} ms, its timeout is"
            said += f" {row['timeout_ms']} ms, and it is not aborted"
            self._add(row, "hanging", "open_past_timeout", said, subject=each.name)


STORY: Final = Walk("story", ("topic", "partition"), ("offset",), STORY_SOURCE, STORY_RESULT, run)
