"""What one marker says beside its outcome: who led its coordinator, and whether it cut data in two.

Leader      a marker carries the leader epoch of its coordinator. It was written between the decision and the
            record that followed it, so its epoch is between those of the leaders that wrote these. Clients of
            transactions V1 may have several transactions of one epoch, any of which may be the marker's:
            theirs are held against the first and the last one that the coordinator tells of.
"""

from collections.abc import Sequence

from fencepost.audit.walks.align import ABORT, COMMIT, CUT, MISSING, SAME, SKEW_MS, UNENDED, Row, Step
from fencepost.audit.walks.columns import FLAG_UNCOMMITTED
from fencepost.audit.walks.story import CLOCK_GRACE_MS


def of_another_leader(outcomes: Sequence[Row], outcome: Row, turn: Row) -> str | None:
    """What is wrong with the coordinator epoch of a marker that ``outcome`` explains; None: nothing."""
    if turn["control_type"] not in (ABORT, COMMIT) or turn["flags"] & FLAG_UNCOMMITTED:
        return None
    first = (outcome if outcome["is_v2"] else outcomes[0])["first_coordinator_epoch"]
    last = (outcome if outcome["is_v2"] else outcomes[-1])["last_coordinator_epoch"]
    epoch = turn["coordinator_epoch"]
    if first is not None and epoch < first:
        return f"a marker of coordinator epoch {epoch}, below {first}, of the leader that decided it"
    if last is not None and epoch > last:
        return f"a marker of coordinator epoch {epoch}, above {last}, of the leader that saw it carried out"
    return None


def is_amid(turn: Row, before: Row | None, following: Row | None, late_ms: int) -> bool:
    """Whether an abort without a transaction is a copy of the marker before, or ended data while the
    coordinator had the ``following`` transaction open. An operator's comes when nothing else is going on.

    late_ms   how much later its leader's clock is than the coordinator's.
    """
    if before is not None and turn["at_ms"] <= before["at_ms"]:
        return True
    if following is None or following["prepared_ms"] is None:
        return False
    at_ms = turn["at_ms"] - late_ms
    return bool(0 <= following["started_ms"] <= at_ms < following["prepared_ms"])


def followed_by(steps: Sequence[Step], outcomes: Sequence[Row]) -> dict[int, Row]:
    """Of each turn without an outcome the one that comes next."""
    found: dict[int, Row] = {}
    following: Row | None = None
    for step in reversed(steps):
        if step.outcome is not None:
            following = outcomes[step.outcome]
        elif step.turn is not None and following is not None:
            found[step.turn] = following
    return found


def cut_off(
    steps: Sequence[Step], outcomes: Sequence[Row], turns: Sequence[Row], log: Row
) -> list[Step]:  # fmt: skip
    """The steps; those whose marker an unclean election may have cut off the log are CUT.

    Not what was decided later. Nor where a marker of a later transaction stands before the cut, or one of an
    earlier transaction behind it: of another epoch, as those of one epoch are alike.
    """
    cuts = [*zip(log["cut_offsets"] or (), log["cut_times"] or (), strict=True)]
    if not cuts:
        return list(steps)
    result = list(steps)
    for at, step in enumerate(steps):
        if step.what not in (MISSING, UNENDED) or step.outcome is None:
            continue
        outcome = outcomes[step.outcome]
        later = _nearest(steps[at + 1 :], outcomes, turns, outcome)
        earlier = _nearest(steps[:at][::-1], outcomes, turns, outcome)
        decided_ms = (outcome["prepared_ms"] or 0) - CLOCK_GRACE_MS
        for offset, by_ms in cuts:
            is_there = (earlier or -1) < offset and (later is None or later >= offset)
            if is_there and decided_ms <= by_ms:
                result[at] = step._replace(what=CUT)
    return result


def _nearest(
    steps: Sequence[Step], outcomes: Sequence[Row], turns: Sequence[Row], outcome: Row
) -> int | None:  # fmt: skip
    """Where the next marker of another epoch is that ends its transaction."""
    for step in steps:
        if step.what != SAME or step.outcome is None or step.turn is None:
            continue
        if outcomes[step.outcome]["producer_epoch"] != outcome["producer_epoch"]:
            at = turns[step.turn]["marker_offset"]
            return None if at is None else int(at)
    return None


def is_empty_commit(turn: Row) -> bool:
    """Whether it is a COMMIT marker that ends no data."""
    return turn["control_type"] == COMMIT and not turn["batches"]


def is_within(turn: Row, following: Row, indexed: Sequence[Row]) -> bool:
    """Whether an abort without data stands within what an index says was aborted by a later marker."""
    at = turn["marker_offset"]
    if turn["control_type"] != ABORT or turn["batches"] or following["data_offset"] is None:
        return False
    named = {entry["offset"] for entry in indexed}
    ranges = ((entry["first_offset"], entry["offset"]) for entry in indexed)
    return at not in named and any(first <= at <= following["data_offset"] <= last for first, last in ranges)


def is_of(outcome: Row, after: Row | None, data_ms: int) -> bool:
    """Whether data of that time was written while this transaction was open, and before the next one was."""
    is_within = outcome["started_ms"] - SKEW_MS <= data_ms <= outcome["prepared_ms"]
    return is_within and (after is None or data_ms < after["started_ms"])


def overtaken(turns: Sequence[Row]) -> Row | None:
    """The first turn with data of two epochs: a marker should stand between them."""
    return next((turn for turn in turns if turn.get("late_offset") is not None), None)


def said_late(turn: Row) -> str:
    """What is wrong with that turn."""
    return (
        f"data from offset {turn['data_offset']} on, of epoch {turn['data_epoch']}, has no marker before data"
        f" of a later epoch, at offset {turn['late_offset']}"
    )
