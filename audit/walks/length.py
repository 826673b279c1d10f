"""How far a log is known to be committed, and copies that are shorter than their own word.

Checkpoint  of high watermarks: written every few seconds and at a clean end, so a lower bound.
"""

from collections.abc import Iterator
from typing import Any

from fencepost.audit.walks.columns import NOTE, UNKNOWN
from fencepost.audit.walks.facts import METADATA, CopyFacts, LogFacts
from fencepost.audit.walks.found import Found, found


def known_end(topic: str, log: LogFacts) -> int:
    """The end of what is known to be committed."""
    copies = list(log.copies.values())
    longest = max((copy.end for copy in copies), default=0)
    if topic == METADATA:
        ends = sorted((copy.end for copy in copies if copy.node in log.voters), reverse=True)
        majority = len(log.voters) // 2 + 1
        return ends[majority - 1] if log.voters and len(ends) >= majority else longest
    checkpoints = [copy.high_watermark for copy in copies if copy.high_watermark is not None]
    if not checkpoints or len(log.replicas) == 1:
        return longest
    known = min(max(checkpoints), longest)
    given = {copy.node for copy in copies}
    if log.replicas and log.replicas <= given:
        known = max(known, min(copy.end for copy in copies if copy.node in log.replicas))
    return known


def _beyond(where: dict[str, Any], copy: CopyFacts, name: str) -> Iterator[Found]:
    """What the files beside a copy say begins beyond its end. A crash may have left the log shorter."""
    if not copy.is_stopped:
        return  # they were copied after the log
    kind = "finding" if copy.is_clean else UNKNOWN
    why = "" if copy.is_clean else ", and its broker did not end cleanly"
    at = {"node": copy.node, "position": 0, **where}
    if len(copy.epoch_starts) and copy.epoch_starts[-1] > copy.end:
        start = int(copy.epoch_starts[-1])
        said = f"leader epoch {copy.epochs[-1]} begins at {start}, the copy ends at {copy.end}{why}"
        yield found("integrity", "leader_epochs", said, kind=kind, subject=f"offset {start}", offset=start,
                    path=copy.epoch_path, **at)  # fmt: skip
    if copy.is_beyond_itself:
        said = f"the copy begins at {copy.log_start} by its checkpoint, and ends at {copy.read_end}{why}"
        yield found("replicas", "start", said, kind=kind, subject=f"offset {copy.log_start}",
                    offset=copy.log_start, path=name, **at)  # fmt: skip


def findings_of_copies(where: dict[str, Any], log: LogFacts, known: int) -> list[Found]:
    """Each copy; those that end below their own checkpoint; torn segments; the part that is not known."""
    rows: list[Found] = []
    for name, copy in log.copies.items():
        span = {"offset": copy.first, "end_offset": copy.end, "stopped": copy.is_stopped}
        rows.append({"kind": "copy", "node": copy.node, "path": name, **span, **where})
        place = {
            "node": copy.node,
            "path": name,
            "offset": copy.end,
            "end_offset": copy.high_watermark,
            **where,
        }
        if copy.high_watermark is not None and copy.end < copy.high_watermark and not log.is_tiered:
            said = f"the copy ends at {copy.end}, its broker had committed it up to {copy.high_watermark}"
            was_cut = bool(log.unclean) or log.is_unseen_between(0, log.unseen)
            is_cut = was_cut and not copy.is_clean  # its checkpoint may be of before the election
            kind = "finding" if copy.is_stopped and not is_cut else UNKNOWN
            why = "" if copy.is_stopped else ", and it was copied from a broker that ran or crashed"
            why = ", and an unclean election may have cut it" if copy.is_stopped and is_cut else why
            subject = f"{copy.high_watermark - copy.end} offsets"
            at = {**place, "path": copy.last_path or place["path"]}
            rows.append(found("replicas", "short", said + why, kind=kind, subject=subject, **at))
        rows += _beyond(where, copy, name)
        for path, (valid_end, is_last) in copy.torn.items():
            said = f"the segment ends inside a batch that begins at {valid_end}"
            at = {"node": copy.node, "path": path, "position": valid_end, **where}
            more = (
                ": a write in progress, or cut off by a crash" if is_last else ", and a later segment goes on"
            )
            kind = NOTE if is_last else "finding"
            rows.append(found("integrity", "torn", said + more, kind=kind, subject="torn", **at))
    longest = max((copy.end for copy in log.copies.values()), default=0)
    if longest > known:
        said = f"whether offsets {known} to {longest - 1} are committed: no checkpoint given reaches them"
        rows.append(
            found("replicas", "uncommitted", said, kind=UNKNOWN, subject=f"{longest - known} offsets",
                  offset=known, end_offset=longest, **where)
        )  # fmt: skip
    return rows
