"""Findings that are one: at one batch, of one decision, of copies cut together, of one entry or record.

Place       of several findings at one batch the first of ``_FIRST`` is the cause.
Others      of findings of one kind that one fault makes, the first is the cause of the others.
"""

import itertools
from collections.abc import Callable
from typing import Any, Final

from fencepost.audit.walks.found import Found

STRETCHES_MIN: Final = 3  # in which a copy differs, for it to be another log's

_FIRST: Final = (
    "integrity.crc", "integrity.unreadable", "markers.control_bit", "markers.control_type",
    "replicas.diverged", "integrity.record", "integrity.count",
    "ids.outside_blocks", "ids.no_producer", "epochs.none", "ids.shared", "epochs.ahead", "markers.exchanged",
    "markers.early", "fencing.zombie", "epochs.regressed", "epochs.reused", "markers.double",
    "markers.wrong_outcome", "markers.epoch", "markers.without_transaction", "markers.not_transactional",
    "markers.transactional_bit", "epochs.coordinator",
    "markers.missing",
    "sequences.gap", "sequences.duplicate", "integrity.leader_epoch", "offsets.overlap", "offsets.hole",
)  # fmt: skip

_UNREAD: Final = ("integrity.crc", "integrity.unreadable")

Link = Callable[[Found, Found], bool]


def join(findings: list[Found]) -> None:
    """Set the cause of those that are another's."""
    _by_place(findings)
    _by_offset(findings)
    _by_decision(findings)
    _by_coordinator_epoch(findings)
    _by_state(findings)
    _by_repetition(findings)
    _by_block(findings)
    _by_producer(findings)
    _by_transaction(findings)
    _by_index(findings)
    _by_end(findings)
    _by_directory(findings)
    _by_log_dirs(findings)
    _by_epochs(findings)


def join_files(findings: list[Found]) -> None:
    """What is left of a snapshot, or of the transaction indexes of a log's copy, once all else was looked at:
    a file that says several things which its log does not is another's, and one finding.
    """
    first: dict[str, Found] = {}
    for row in sorted(findings, key=lambda row: (row["path"] or "", row["position"] is None)):
        if row["cause"] is None and name_of(row) in ("integrity.index", "integrity.snapshot"):
            path = str(row["path"])
            key = path if row["rule"] == "snapshot" else path.rpartition("/")[0]
            cause = first.setdefault(key, row)
            row["cause"] = None if cause is row else cause["id"]


def name_of(row: Found) -> str:
    """Check and rule."""
    return f"{row['check']}.{row['rule']}"


def same(*names: str) -> Link:
    """Whether two findings agree in these columns, none of them null."""

    def where(cause: Found, row: Found) -> bool:
        return all(cause.get(name) is not None and cause.get(name) == row.get(name) for name in names)

    return where


def is_between(cause: Found, row: Found) -> bool:
    """Its batch, or what is missing, lies between the row's last batch and the row's."""
    if not same("topic", "partition")(cause, row) or cause["offset"] is None:
        return False
    since, offset = row.get("since_offset"), row.get("offset")
    return (since is None or cause["offset"] > since) and (offset is None or cause["offset"] <= offset)


def _by_place(findings: list[Found]) -> None:
    at: dict[tuple[str, int], list[Found]] = {}
    for row in findings:
        if row.get("path") is not None and row.get("position") is not None and row["cause"] is None:
            at.setdefault((row["path"], row["position"]), []).append(row)
    for rows in at.values():
        ranked = [row for row in rows if name_of(row) in _FIRST]
        if len(ranked) > 1:
            first = min(ranked, key=lambda row: _FIRST.index(name_of(row)))
            for row in ranked:
                if row is not first:
                    row["cause"] = first["id"]


def _by_offset(findings: list[Found]) -> None:
    """What cannot be read at one offset in several copies of a log is one finding."""
    first: dict[tuple[Any, ...], Found] = {}
    for row in findings:
        if name_of(row) in _UNREAD and row["cause"] is None and row["offset"] is not None:
            cause = first.setdefault((row["topic"], row["partition"], row["offset"]), row)
            row["cause"] = None if cause is row else cause["id"]


def _by_decision(findings: list[Found]) -> None:
    """A decision that the markers of several partitions contradict is one finding."""
    first: dict[tuple[str, str], Found] = {}
    for row in findings:
        if name_of(row) == "markers.wrong_outcome" and row["cause"] is None:
            cause = first.setdefault((row["transactional_id"], row["detail"]), row)
            row["cause"] = None if cause is row else cause["id"]


def _by_end(findings: list[Found]) -> None:
    """Copies that lost their ends together are one finding, wherever they end."""
    first: dict[tuple[Any, ...], Found] = {}
    for row in findings:
        if name_of(row) == "replicas.short" and row["cause"] is None:
            cause = first.setdefault((row["topic"], row["partition"]), row)
            row["cause"] = None if cause is row else cause["id"]


def _by_directory(findings: list[Found]) -> None:
    """Directories of one node that have each other's name, or whose logs are others', are one finding."""
    stretches: dict[tuple[Any, ...], list[Found]] = {}
    named: dict[int, list[Found]] = {}
    for row in findings:
        if row["cause"] is None and name_of(row) == "integrity.topic_id":
            named.setdefault(row["node"], []).append(row)
        elif row["cause"] is None and name_of(row) == "replicas.diverged":
            stretches.setdefault((row["node"], row["topic"], row["partition"]), []).append(row)
    whole = [rows for rows in stretches.values() if len(rows) >= STRETCHES_MIN]
    for rows in whole:
        named.setdefault(rows[0]["node"], []).extend(rows)
    for first, *others in named.values():
        for row in others:
            row["cause"] = first["id"]


def _by_epochs(findings: list[Found]) -> None:
    """A batch that does not belong there is not in the file of leader epochs."""
    beside = ("integrity", "replicas", "offsets", "groups")
    others = [row for row in findings if row["offset"] is not None and row["check"] not in beside]
    for row in findings:
        if name_of(row) == "integrity.leader_epochs" and row["cause"] is None:
            cause = next((each for each in others if is_between(row, each)), None)
            row["cause"] = None if cause is None or cause["cause"] == row["id"] else cause["id"]


def _by_log_dirs(findings: list[Found]) -> None:
    """Partitions that a node has in the same two entries of its log.dirs are one finding."""
    first: dict[tuple[Any, ...], Found] = {}
    for row in findings:
        if name_of(row) == "replicas.twice" and row["cause"] is None:
            cause = first.setdefault((row["node"], str(row["path"]).rpartition("/")[0]), row)
            row["cause"] = None if cause is row else cause["id"]


def _by_coordinator_epoch(findings: list[Found]) -> None:
    """A marker whose coordinator epoch is not its transaction's makes those beside it look odd."""
    known: dict[tuple[Any, ...], Found] = {}
    odd = [row for row in findings if name_of(row) == "epochs.coordinator"]
    for row in odd:
        if row["transactional_id"] is not None:
            known.setdefault((row["topic"], row["partition"], row["producer_id"]), row)
    for row in odd:
        cause = known.get((row["topic"], row["partition"], row["producer_id"]))
        if cause is not None and row["transactional_id"] is None:
            row["cause"], cause["cause"] = cause["id"], None


def _by_state(findings: list[Found]) -> None:
    """Records of one transactional id that do not follow each other, one after the other: the first."""
    chain: dict[tuple[Any, ...], Found] = {}
    rows = [row for row in findings if name_of(row) == "states.missing"]
    for row in sorted(rows, key=lambda row: int(row["offset"])):
        key = (row["topic"], row["partition"], row["transactional_id"])
        before = chain.get(key)
        if before is not None and row["cause"] is None and row["since_offset"] == before["offset"]:
            row["cause"] = before["id"]
        chain[key] = row


def _by_repetition(findings: list[Found]) -> None:
    """Batches of a producer that are there already, one after the other: the first."""
    last: dict[tuple[Any, ...], Found] = {}
    rows = [row for row in findings if name_of(row) == "sequences.duplicate"]
    for row in sorted(rows, key=lambda row: int(row["offset"])):
        key = (row["topic"], row["partition"], row["producer_id"])
        before = last.get(key)
        if before is not None and row["cause"] is None and row["since_offset"] == before["end_offset"] - 1:
            row["cause"] = before["id"]
        last[key] = row


def _by_block(findings: list[Found]) -> None:
    """Blocks that all end below one that was given out before them are one finding: that one is too high."""
    first: dict[int, Found] = {}
    rows = [row for row in findings if name_of(row) == "blocks.end_not_growing" and row["cause"] is None]
    for row in sorted(rows, key=lambda row: int(row["offset"])):
        cause = first.setdefault(row["since_offset"], row)
        row["cause"] = None if cause is row or row["since_offset"] is None else cause["id"]


def _by_producer(findings: list[Found]) -> None:
    """A batch that another producer's id was given is wrong there, and lacks where it was."""
    gaps = [row for row in findings if name_of(row) == "sequences.gap" and row["cause"] is None]
    names = ("sequences.gap", "sequences.duplicate", "hanging.orphan", "markers.late")
    odd = [row for row in findings if name_of(row) in names and row["cause"] is None]
    for row in gaps:
        for other in odd:
            is_anothers = other["producer_id"] != row["producer_id"] and other["cause"] is None
            begins = {**other, "offset": other["since_offset"]}  # the batch before, which may be the one
            if is_anothers and (is_between(other, row) or is_between(begins, row)):
                row["cause"] = other["id"]
                break


def _by_transaction(findings: list[Found]) -> None:
    """A transaction that another producer's id was given lacks its data, and a marker in that partition: of
    transactions of one epoch it is the last one that seems to lack it."""
    ends = [row for row in findings if name_of(row) in ("markers.without_transaction", "markers.double")]
    gaps = [row for row in findings if name_of(row) == "sequences.gap" and row["cause"] is None]
    for row in findings:
        if name_of(row) != "markers.missing" or row["cause"] is not None:
            continue
        own = [gap for gap in gaps if same("topic", "partition", "producer_id", "producer_epoch")(gap, row)]
        for gap, end in itertools.product(own, ends):
            if end["producer_id"] != row["producer_id"] and end["cause"] is None and is_between(end, gap):
                row["cause"] = gap["cause"] = end["id"]
                break


def _by_index(findings: list[Found]) -> None:
    """An entry of a transaction index that names another abort than there was leaves one unnamed."""
    odd = [row for row in findings if name_of(row) == "integrity.index"]
    for names in (
        ("path", "producer_id"),
        ("path", "offset"),
        ("topic", "partition", "producer_id", "offset"),
    ):
        first: dict[tuple[Any, ...], Found] = {}
        for row in sorted(odd, key=lambda row: row["position"] is None):
            if row["cause"] is None:
                cause = first.setdefault(tuple(row[name] for name in names), row)
                row["cause"] = None if cause is row else cause["id"]
