"""One cause, one finding: what a finding explains is listed under it.

In          all findings of a run, as rows of FOUND: few, so plain dicts.
Place       of several findings at one batch the first of ``_FIRST`` is the cause.
Between     a batch that is missing, foreign, displaced or of an old epoch explains a gap in the sequence of
            the producer around it; one offset that is missing is the marker that is missing there.
Shorter     a coordinator's log that lost its end: its producers have markers, or data, after the last
            transaction that it tells of. Of two producers or more that is one finding, which names the log.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from fencepost.audit.walks import alike
from fencepost.audit.walks.columns import AFTER_COORDINATOR, FINDING
from fencepost.audit.walks.found import Found, found

STATES_TOPIC: Final = "__transaction_state"
PRODUCERS_MIN: Final = 2  # whose markers follow the end of a coordinator's log, for it to be too short

_OF_A_BATCH: Final = ("ids.outside_blocks", "ids.no_producer", "fencing.zombie", "offsets.overlap",
                      "markers.early", "markers.exchanged", "markers.not_transactional")  # fmt: skip
_OF_PAIRS: Final = ("markers", "hanging", "fencing", "sequences", "epochs")
_BESIDE: Final = ("integrity.index", "integrity.snapshot")
_OF_A_LOG: Final = (
    *("replicas", "offsets", "states", "groups", "integrity.leader_epochs", "integrity.leader_epoch"),
    *_OF_PAIRS,
    *_BESIDE,
)


def grouped(rows: Iterable[Found], logs: Sequence[Found] = ()) -> list[Found]:
    """The same rows, each once, with ``cause`` set; causes first, what they explain behind them.

    logs  rows of kind "copy" of __transaction_state, to name the file of one that is too short.
    """
    once = list({row["id"]: dict(row) for row in rows}.values())
    findings = [row for row in once if row["kind"] == FINDING]
    short = _shorter_logs(findings, logs)
    findings += short
    for row in findings:
        row["cause"] = row["cause"] if row.get("cause") in {each["id"] for each in short} else None
    alike.join(findings)
    for link in _LINKS:
        _link(findings, link)
    alike.join_files(findings)
    by_id = {row["id"]: row for row in findings}
    for row in findings:
        row["cause"] = _root(row, by_id)
    _name_producers(findings, by_id)
    others = [row for row in once if row["kind"] != FINDING]
    return [*_in_order(findings), *others]


def _name_producers(findings: list[Found], by_id: dict[str, Found]) -> None:
    """What cannot be read says not whose it is: what follows from it may, if that is of one producer."""
    followers: dict[str, list[Found]] = {}
    for row in findings:
        if row["cause"] is not None and row["producer_id"] is not None:
            followers.setdefault(row["cause"], []).append(row)
    for name, rows in followers.items():
        cause = by_id[name]
        if cause["producer_id"] is None and len({row["producer_id"] for row in rows}) == 1:
            for column in ("producer_id", "producer_epoch", "transactional_id"):
                cause[column] = cause[column] or rows[0][column]


def _shorter_logs(findings: list[Found], logs: Sequence[Found]) -> list[Found]:
    """A finding for each coordinator's log that must have been longer."""
    after: dict[int, list[Found]] = {}
    unnamed: list[Found] = []
    for row in findings:
        cause = row.get("cause") or ""
        if cause == AFTER_COORDINATOR:
            unnamed.append(row)
        elif cause.startswith(AFTER_COORDINATOR):
            after.setdefault(int(cause.removeprefix(AFTER_COORDINATOR)), []).append(row)
    made = []
    for partition, rows in sorted(after.items()):
        if len({row["producer_id"] for row in rows}) < PRODUCERS_MIN:
            continue
        known = [row for row in findings if _is_short(row, partition)]
        cause = known[0] if known else _short_log(partition, rows, logs)
        made += [] if known else [cause]
        for row in (*rows, *(unnamed if len(after) == 1 else ())):
            row["cause"] = cause["id"]
    return made


def _is_short(row: Found, partition: int) -> bool:
    return (row["check"], row["rule"], row["topic"], row["partition"]) == (
        "replicas", "short", STATES_TOPIC, partition,
    )  # fmt: skip


def _short_log(partition: int, rows: list[Found], logs: Sequence[Found]) -> Found:
    copies = [
        each for each in logs if (each["topic"], each["partition"]) == (STATES_TOPIC, partition)
    ]  # fmt: skip
    longest = max(copies, key=lambda each: int(each["end_offset"]), default=None)
    place: dict[str, Any] = {"topic": STATES_TOPIC, "partition": partition}
    end = ""
    if longest is not None:
        place |= {"node": longest["node"], "path": longest["path"], "offset": longest["end_offset"]}
        end = f" ends at {longest['end_offset']} and"
    producers = len({row["producer_id"] for row in rows})
    said = f"the coordinator's log{end} is too short: {producers} producers have ended or written more since"
    return found("coordinator", "short", said, subject=f"{STATES_TOPIC}-{partition}", **place)


def _link(findings: list[Found], link: "_Rule") -> None:
    causes = [row for row in findings if alike.name_of(row) in link.causes]
    if not causes:
        return
    for row in findings:
        if row["cause"] is None and link.explains(alike.name_of(row)):
            for cause in causes:
                if cause is not row and cause["cause"] != row["id"] and link.where(cause, row):
                    row["cause"] = cause["id"]
                    break


class _Rule:
    """Which findings explain which, where ``where`` holds of both."""

    def __init__(self, causes: Sequence[str], effects: Sequence[str], where: alike.Link) -> None:
        self.causes = frozenset(causes)
        self.effects = effects
        self.where = where

    def explains(self, name: str) -> bool:
        """Whether it may explain a finding of that name; a check's name alone stands for all its rules."""
        return name not in self.causes and (name in self.effects or name.partition(".")[0] in self.effects)


def _overtaken(cause: Found, row: Found) -> bool:
    """A marker of a higher epoch that no transaction has made all that follows look old."""
    return _PARTITION_AND_PRODUCER(cause, row) and bool(row.get("since_offset") == cause["offset"])


def _ends_it(cause: Found, row: Found) -> bool:
    """The marker that is missing is there with the id of another producer, or on another partition."""
    if cause["producer_id"] == row["producer_id"]:
        return alike.same("producer_epoch")(cause, row) and not alike.same("topic", "partition")(cause, row)
    data, since, end = row["offset"], row["since_offset"], row["end_offset"]
    first = data if data is not None and data < cause["offset"] else since  # its data is there, or gone, too
    is_behind = first is None or first < cause["offset"]
    return (
        is_behind and alike.same("topic", "partition")(cause, row) and (end is None or cause["offset"] < end)
    )


def _is_ended_by(cause: Found, row: Found) -> bool:
    """The marker that is missing is there as another producer's, whose coordinator had another epoch."""
    return bool(cause["producer_id"] != row["producer_id"]) and _ends_it(row, cause)


def _elsewhere(cause: Found, row: Found) -> bool:
    """A marker that is in another partition has its index entry there."""
    return alike.same("producer_id")(cause, row) and not alike.same("topic", "partition")(cause, row)


def _again(cause: Found, row: Found) -> bool:
    """What a batch that is there already was followed by is there again, too."""
    return _PARTITION_AND_PRODUCER(cause, row) and alike.is_between(cause, row)


def _behind(cause: Found, row: Found) -> bool:
    """A batch that repeats the numbers of one that is not its producer's."""
    return _PARTITION_AND_PRODUCER(cause, row) and (row["since_offset"] or -1) >= cause["offset"]


def _begins_later(cause: Found, row: Found) -> bool:
    """A later epoch whose first batch says that it is of the one before it does not begin at 0."""
    return _PARTITION_AND_PRODUCER(cause, row) and bool(row["offset"] == cause["end_offset"])


def _near(cause: Found, row: Found) -> bool:
    """It concerns the offsets of a batch that says too many or too few, or those behind them."""
    places = (row.get("offset"), row.get("since_offset"))
    near = any(each is not None and cause["offset"] <= each <= cause["end_offset"] for each in places)
    return near and alike.same("topic", "partition")(cause, row)


def _is_the_hole(cause: Found, row: Found) -> bool:
    """One offset is missing where a marker is."""
    if not alike.same("topic", "partition")(cause, row) or row["end_offset"] != row["offset"] + 1:
        return False
    return bool(row["offset"] > (cause.get("since_offset") or -1))


def _is_anothers_file(cause: Found, row: Found) -> bool:
    """Two files have each other's name: the later name has what is missing where the earlier one begins."""
    is_whole = cause["position"] == 0 and row["position"] == 0
    return is_whole and alike.same("topic", "partition")(cause, row) and row["end_offset"] <= cause["offset"]


def _behind_hole(cause: Found, row: Found) -> bool:
    """A batch whose offset is too high is where its leader epoch is not said to begin."""
    return alike.same("topic", "partition")(cause, row) and bool(row["offset"] == cause["end_offset"])


def _in_hole(cause: Found, row: Found) -> bool:
    since = row.get("since_offset")
    return alike.same("topic", "partition")(cause, row) and (since is None or cause["offset"] > since)


def _within(cause: Found, row: Found) -> bool:
    if not alike.same("topic", "partition", "node")(cause, row) or row.get("offset") is None:
        return False
    return bool(
        cause["offset"] <= row["offset"] and row["offset"] < (cause["end_offset"] or cause["offset"] + 1)
    )


def _holds_back(cause: Found, row: Found) -> bool:
    """What is open before an abort holds the last stable offset back that the abort's entry says."""
    if not alike.same("topic", "partition")(cause, row):
        return False
    is_behind = (row["offset"] or -1) > cause["offset"]
    return is_behind or bool(row["end_offset"] == cause["offset"])  # the next that was open is not the log's


def _of_its_end(cause: Found, row: Found) -> bool:
    """What is gone from a partition without a hole makes it end below what was committed of it."""
    return str(row["subject"]).endswith(f", {cause['topic']}-{cause['partition']}")


def _follows(cause: Found, row: Found) -> bool:
    """Two batches that have changed places: one is too far, the next one was there already."""
    return _PARTITION_AND_PRODUCER(cause, row) and bool(row["since_offset"] == cause["end_offset"] - 1)


def _of_state(cause: Found, row: Found) -> bool:
    return alike.same("transactional_id")(cause, row) and alike.is_between(cause, row)


def _of_id(cause: Found, row: Found) -> bool:
    return alike.same("transactional_id")(cause, row) or alike.same("producer_id")(cause, row)


_PARTITION_AND_PRODUCER: Final = alike.same("topic", "partition", "producer_id")
_LINKS: Final = (
    _Rule(("integrity.topic_id",), _OF_A_LOG, alike.same("topic", "partition")),
    _Rule(("integrity.node",), ("replicas.twice",), alike.same("node")),
    _Rule(("replicas.twice",), _OF_A_LOG, alike.same("topic", "partition")),
    _Rule(("replicas.diverged",), ("replicas.short", *_BESIDE), alike.same("topic", "partition", "node")),
    _Rule(("ids.outside_blocks",), (*_OF_PAIRS, *_BESIDE), alike.same("producer_id")),
    _Rule(("epochs.ahead",), (*_OF_PAIRS, *_BESIDE), _PARTITION_AND_PRODUCER),
    _Rule(("ids.shared",), (*_OF_PAIRS, "states", *_BESIDE), _of_id),
    _Rule(("epochs.reused",), ("states",), alike.same("transactional_id")),
    _Rule(("replicas.diverged",),
          ("integrity.leader_epochs", "integrity.leader_epoch", "integrity.record", "integrity.version"),
          _within),
    _Rule(_OF_A_BATCH, ("sequences",), alike.is_between),
    _Rule(("sequences.duplicate", "fencing.zombie"),
          ("markers.without_transaction", "markers.double", "hanging.orphan"),
          _again),
    _Rule(("markers.without_transaction", "markers.double"), ("markers.missing",), _ends_it),
    _Rule(("markers.missing",), ("epochs.coordinator",), _is_ended_by),
    _Rule(("markers.control_type", "markers.control_bit"), ("markers", "sequences"), _PARTITION_AND_PRODUCER),
    _Rule(("sequences.none",), ("sequences.gap",), alike.is_between),
    _Rule(("markers.early", "markers.exchanged"), ("sequences", "fencing", "epochs"),
          _PARTITION_AND_PRODUCER),
    _Rule(("markers.wrong_outcome",), ("groups.aborted",), alike.same("producer_id", "producer_epoch")),
    _Rule(("markers.missing",), ("sequences", "fencing.zombie"), _PARTITION_AND_PRODUCER),
    _Rule(("integrity.count",), ("offsets", "sequences"), _near),
    _Rule(("integrity.torn",), ("offsets", "sequences", "markers", *_BESIDE),
          alike.same("topic", "partition")),
    _Rule(("markers.without_transaction", "markers.epoch"), ("fencing", "epochs", "markers", "sequences"),
          _overtaken),
    _Rule(("epochs.regressed",), ("markers",), _PARTITION_AND_PRODUCER),
    _Rule(("markers.missing",), ("offsets.hole",), _is_the_hole),
    _Rule(("offsets.hole",), ("states", "markers.missing", "sequences"), _in_hole),
    _Rule(("integrity.record", "integrity.version"), ("states",), alike.is_between),
    _Rule(("integrity.side_file",), ("integrity.leader_epochs", *_BESIDE), alike.same("path")),
    _Rule(("offsets.hole", "replicas.short"), ("markers", "hanging", "fencing", "epochs.ahead"),
          lambda cause, row: cause["topic"] == STATES_TOPIC
          and cause["partition"] == row.get("coordinator_partition")),
    _Rule(("replicas.short",), ("markers.missing",), alike.same("topic", "partition")),
    _Rule(("integrity.unreadable",), ("replicas.short",), alike.same("path")),
    _Rule(("integrity.unreadable",), ("offsets.hole",), _is_anothers_file),
    _Rule(("states.missing", "states.forgotten"), ("markers", "hanging", "fencing"),
          alike.same("transactional_id")),
    _Rule(("markers.early", "markers.exchanged", "markers.wrong_outcome", "markers.missing", "markers.double",
           "markers.without_transaction", "markers.not_transactional", "markers.control_type",
           "markers.control_bit", "markers.epoch", "fencing.zombie", "epochs.regressed",
           "epochs.none", "sequences.duplicate", "sequences.gap", "sequences.none"),
          (*_BESIDE, "hanging", "epochs.coordinator"), _PARTITION_AND_PRODUCER),
    _Rule(("epochs.ahead", "epochs.regressed", "fencing.zombie", "ids.outside_blocks", "markers.control_bit",
           "markers.control_type"), ("markers.late",), _PARTITION_AND_PRODUCER),
    _Rule(("offsets.hole", "integrity.crc", "integrity.unreadable", "integrity.torn", "replicas.short"),
          ("markers.late",), alike.same("topic", "partition")),
    _Rule(("ids.shared",), ("markers.late",), _of_id),
    _Rule(("sequences.duplicate", "sequences.gap"), ("markers.late",), _again),
    _Rule(("markers.late",), ("sequences.duplicate",), _behind),
    _Rule(("markers.late",), ("sequences.gap",), _begins_later),
    _Rule(("hanging.orphan", "markers.late"), _BESIDE, _PARTITION_AND_PRODUCER),
    _Rule(("markers.late",), _BESIDE, alike.same("topic", "partition")),
    _Rule(("hanging.orphan", "markers.not_transactional"), ("integrity.index",), _holds_back),
    _Rule(("offsets.hole",), ("integrity.leader_epochs",), _behind_hole),
    _Rule(("replicas.start",), (*_OF_PAIRS, "replicas", "offsets", "integrity.leader_epochs", *_BESIDE),
          alike.same("topic", "partition")),
    _Rule(("epochs.coordinator",), _BESIDE, _PARTITION_AND_PRODUCER),
    _Rule(("markers.missing", "markers.without_transaction", "sequences.gap"), ("groups.beyond_end",),
          _of_its_end),
    _Rule(("markers.exchanged",), ("markers.missing", "markers.late"), _PARTITION_AND_PRODUCER),
    _Rule(("sequences.gap",), ("sequences.duplicate",), _follows),
    _Rule(("markers.missing", "coordinator.short"), ("integrity.leader_epochs",),
          alike.same("topic", "partition")),
    _Rule(("replicas.diverged", "replicas.short"), ("integrity.leader_epochs",),
          alike.same("topic", "partition", "node")),
    _Rule(("states.epoch",), ("states.missing",), _of_state),
    _Rule(("offsets.hole", "offsets.overlap", "ids.outside_blocks", "ids.no_producer", "integrity.crc",
           "integrity.unreadable", "integrity.count", "sequences.gap", "sequences.duplicate",
           "markers.double", "markers.early", "markers.missing", "markers.without_transaction",
           "markers.epoch", "epochs.regressed", "fencing.zombie"),
          _BESIDE, alike.same("topic", "partition")),
    _Rule(("markers.missing",), ("integrity.index",), _elsewhere),
)  # fmt: skip
"""In this order; a finding that has a cause keeps it."""


def _root(row: Found, by_id: dict[str, Found]) -> str | None:
    cause, seen = row["cause"], {row["id"]}
    while cause is not None and cause not in seen:
        seen.add(cause)
        above = by_id[cause]["cause"]
        if above is None or above in seen:
            return cause if cause != row["id"] else None
        cause = above
    return None if cause == row["id"] else cause


def _in_order(findings: list[Found]) -> list[Found]:
    effects: dict[str, list[Found]] = {}
    for row in findings:
        if row["cause"] is not None:
            effects.setdefault(row["cause"], []).append(row)
    roots = sorted((row for row in findings if row["cause"] is None), key=lambda row: str(row["id"]))
    return [each for row in roots for each in (row, *sorted(effects.get(row["id"], []), key=_id_of))]


def _id_of(row: Found) -> str:
    return str(row["id"])
