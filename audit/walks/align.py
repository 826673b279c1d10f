"""A producer's turns on a partition against what its coordinator decided, each in its order, no clocks.

Cheapest    of all ways to read the two sequences side by side the one with the fewest and least faults.
            Times only choose between ways that cost the same: which of ten equal markers is missing.
            Where the log has a hole, or the coordinator's is not whole, they say more: a marker that is
            missing is no other fault there, and five markers older than their decisions are pairs that
            are one off. By how much clocks differ, ``clocks`` knows.
Nearest     where what came before is free, a marker that Kafka wrote again can pass for the next decision's,
            and all pairs before it are one off. ``by_nearness`` the way is the one whose markers are nearest
            to their decisions.
Epochs      a turn and an outcome of different epochs are never the same transaction. Clients of
            transactions V2 have one transaction for each epoch, so theirs are paired by it.
            A marker of another epoch that ends an outcome's data, by the data's epoch, is that outcome's.
Free        where the coordinator's log is not whole, turns of epochs below the first one that it tells of,
            and of that one those before its first outcome; outcomes
            whose marker may lie where the partition's log is not kept; what the coordinator has open, or is
            still ending. Data that is open is never free: the coordinator's last record of an id is kept.
Behind      the last time of a coordinator's log that was copied while it ran markers are nearly free, too: a
            decision whose own marker is not kept has none of them, if it leaves another without one.
"""

from typing import Any, Final, NamedTuple

from fencepost.audit.walks.columns import FLAG_COMPACTED, FLAG_HOLE, FLAG_OPAQUE, FLAG_UNCOMMITTED

ABORT, COMMIT, OPEN, UNDECIDED = 0, 1, 2, -1
CELLS_MAX: Final = 250_000  # of the table that is worked out; longer sequences lose their equal ends first

SAME, WRONG, UNENDED, EXCHANGED = "same", "wrong", "unended", "exchanged"
MISSING, RETRY, OPERATOR, EXTRA, BEFORE = "missing", "retry", "operator", "extra", "before"
PENDING: Final = "pending"
OTHER_EPOCH: Final = "other epoch"
CUT: Final = "cut"

_COST: Final = {SAME: 0, WRONG: 350, UNENDED: 500, EXCHANGED: 550, MISSING: 500, RETRY: 10, OPERATOR: 300,
                EXTRA: 250, BEFORE: 0, PENDING: 0, OTHER_EPOCH: 240}  # fmt: skip
_WRONG_ALONE: Final = 100  # no other transaction has its epoch; or what it ended is not kept
_SPLITS: Final = 70  # more for a marker that would end data of another transaction
_UNTIMELY: Final = 12
_UNTIMELY_WHERE_SOME_ARE_GONE: Final = 100
_BEFORE_IT: Final = 2  # of a time before its decision, by less than clocks differ; open data of one after it
_BEHIND_IT: Final = 1  # of a time after its decision, by more than that
_AT_THE_END: Final = 20  # less for what stands alone there: it is judged more mildly
_BEHIND_THE_END: Final = 15  # of a marker of a time that the coordinator's log does not reach: above all SAME
SKEW_MS: Final = 1000  # by which clocks may differ, beside what they usually do
_NEVER: Final = 10**15
_FINE: Final = 10**6  # of a cost, so many milliseconds
_NEVER_MS: Final = 2**63

Row = dict[str, Any]


class Step(NamedTuple):
    """What an outcome and a turn are to each other; one of them is None where it stands alone.

    ``at``   of EXCHANGED the second outcome and turn follow as a step of their own, SAME.
    """

    what: str
    outcome: int | None
    turn: int | None


class Sides(NamedTuple):
    """The two sequences of one producer, and what may be missing of them by right."""

    outcomes: list[Row]
    turns: list[Row]
    first_epoch: int  # the coordinator's log tells of; what came before is unknown unless ``is_whole``
    is_whole: bool
    kept_from: int  # the partition's markers are kept from this offset on
    is_stopped: bool = False  # nothing more comes to the partition's log
    by_times: bool = True  # whether times say anything
    late_ms: int = 0  # how much later than their decisions markers are by their clocks
    untimely: int = _UNTIMELY  # the cost of a marker that its time does not fit
    known_ms: int | None = None  # the coordinator's log, copied while it ran, tells of no later time
    by_nearness: bool = False  # whether milliseconds choose between ways that cost the same; retries are free


def align(sides: Sides) -> list[Step]:
    """The cheapest way to read outcomes and turns side by side, in their order."""
    if not sides.is_whole or any(turn["flags"] & FLAG_HOLE for turn in sides.turns):
        sides = sides._replace(untimely=_UNTIMELY_WHERE_SOME_ARE_GONE)
    head, tail = _equal_ends(sides)
    outcomes, turns = len(sides.outcomes), len(sides.turns)
    steps = [Step(SAME, at, at) for at in range(head)]
    steps += _cheapest(sides, head, outcomes - tail, turns - tail)
    steps += [Step(SAME, outcomes - each, turns - each) for each in range(tail, 0, -1)]
    if sides.by_times:
        steps = _before_later_data(sides, steps)
    return _last_in_time(sides, steps) if sides.is_stopped and sides.by_times else steps


def may_be_one_off(sides: Sides, steps: list[Step]) -> bool:
    """Whether a decision has a marker that may be the one before once more, and what came first is free."""
    if all(step.what != BEFORE for step in steps):
        return False
    again = (step.turn for step in steps if step.what == SAME and step.turn is not None)
    return any(_is_again(sides, at) for at in again)


def _before_later_data(sides: Sides, steps: list[Step]) -> list[Step]:
    """What servers wrote after the last decision is of a later transaction, as is the marker that ends it.

    The equal one before it, which no transaction has, is that decision's, if it is no earlier.
    """
    result = list(steps)
    last = max((at for at, step in enumerate(steps) if step.outcome is not None), default=0)
    for at in range(last, 0, -1):
        before, own = result[at - 1], result[at]
        if (before.what, own.what) != (EXTRA, SAME) or own.outcome is None:
            break
        if before.turn is None or own.turn is None:
            break
        outcome, turn, later = sides.outcomes[own.outcome], sides.turns[before.turn], sides.turns[own.turn]
        decided_ms = outcome["prepared_ms"]
        if decided_ms is None or not _is_same(outcome, turn):
            break
        is_no_earlier = (turn["at_ms"] or 0) - sides.late_ms >= decided_ms
        if not is_no_earlier or not is_written_later(outcome, later, sides.late_ms):
            break
        what, _ = _unexplained(sides, len(sides.outcomes), own.turn)
        result[at - 1 : at + 1] = [Step(SAME, own.outcome, before.turn), Step(what, None, own.turn)]
    return result


def is_written_later(outcome: Row, turn: Row, late_ms: int) -> bool:
    """Whether data was written after a transaction was decided, by a clock that is ``late_ms`` later."""
    decided_ms, written_ms = outcome["prepared_ms"], turn["written_ms"]
    return None not in (decided_ms, written_ms) and written_ms - late_ms > decided_ms + SKEW_MS


def _last_in_time(sides: Sides, steps: list[Step]) -> list[Step]:
    """Of equal outcomes at the end, whose last marker is missing: the last turn is that of the last outcome,
    and the marker before it is missing, if the turn is no earlier than that decision; and so on.
    """
    result = list(steps)
    for at in range(len(steps) - 1, 0, -1):
        before, last = steps[at - 1], result[at]
        if (last.what, last.turn, before.what) != (MISSING, None, SAME):
            break
        if last.outcome is None or before.turn is None:
            break
        outcome, turn = sides.outcomes[last.outcome], sides.turns[before.turn]
        decided_ms = outcome["prepared_ms"]
        at_ms = (turn["at_ms"] or 0) - sides.late_ms
        if not _is_same(outcome, turn) or decided_ms is None or at_ms < decided_ms:
            break
        result[at - 1 : at + 1] = [Step(MISSING, before.outcome, None), Step(SAME, last.outcome, before.turn)]
    return result


def _equal_ends(sides: Sides) -> tuple[int, int]:
    """How many at the beginning and at the end are left out of the table, because it would be too large."""
    outcomes, turns = sides.outcomes, sides.turns
    if len(outcomes) * len(turns) <= CELLS_MAX:
        return 0, 0
    least = min(len(outcomes), len(turns))
    head = 0
    while sides.is_whole and head < least and _is_same(outcomes[head], turns[head]):
        head += 1
    tail = 0
    while tail < least - head and _is_same(outcomes[-1 - tail], turns[-1 - tail]):
        tail += 1
    return head, tail


def _is_same(outcome: Row, turn: Row) -> bool:
    return (outcome["outcome"], outcome["producer_epoch"]) == (kind_of(turn), turn["producer_epoch"])


def kind_of(turn: Row) -> int:
    """The outcome that a turn shows: OPEN if no marker ends it."""
    return OPEN if turn["control_type"] is None else int(turn["control_type"])


def _cheapest(sides: Sides, head: int, outcome_end: int, turn_end: int) -> list[Step]:
    """By a table of the costs of all beginnings; what is beyond ``CELLS_MAX`` is read one by one."""
    rows, columns = outcome_end - head, turn_end - head
    if rows * columns > CELLS_MAX:
        middle = min(rows, columns, int(CELLS_MAX**0.5))
        return _cheapest(sides, head, head + middle, head + middle) + _cheapest_rest(
            sides, head + middle, outcome_end, turn_end
        )
    costs = [[_NEVER] * (columns + 1) for _ in range(rows + 1)]
    came: list[list[Step | None]] = [[None] * (columns + 1) for _ in range(rows + 1)]
    costs[0][0] = 0
    for row in range(rows + 1):
        for column in range(columns + 1):
            here = costs[row][column]
            for cost, step, down, right in _steps(sides, head + row, head + column, outcome_end, turn_end):
                total = here + cost
                if total < costs[row + down][column + right]:
                    costs[row + down][column + right] = total
                    came[row + down][column + right] = step
    return _read_back(came, rows, columns)


def _cheapest_rest(sides: Sides, start: int, outcome_end: int, turn_end: int) -> list[Step]:
    rest = sides._replace(
        outcomes=sides.outcomes[start:outcome_end], turns=sides.turns[start:turn_end], is_whole=True
    )
    return [
        Step(each.what, None if each.outcome is None else each.outcome + start,
             None if each.turn is None else each.turn + start)
        for each in _cheapest(rest, 0, len(rest.outcomes), len(rest.turns))
    ]  # fmt: skip


def _read_back(came: list[list[Step | None]], row: int, column: int) -> list[Step]:
    steps: list[Step] = []
    while row or column:
        step = came[row][column]
        if step is None:
            break
        if step.what == EXCHANGED and step.outcome is not None and step.turn is not None:
            steps.append(Step(SAME, step.outcome + 1, step.turn + 1))
            row, column = row - 1, column - 1
        steps.append(step)
        row -= step.outcome is not None
        column -= step.turn is not None
    return steps[::-1]


def _steps(
    sides: Sides, at: int, turn_at: int, outcome_end: int, turn_end: int
) -> list[tuple[int, Step, int, int]]:
    """What may come next: cost, step, outcomes and turns that it takes."""
    found = []
    if at < outcome_end:
        what, cost = _alone(sides, at, turn_at)
        found.append((cost, Step(what, at, None), 1, 0))
    if turn_at < turn_end:
        what, cost = _unexplained(sides, at, turn_at)
        found.append((cost, Step(what, None, turn_at), 0, 1))
    if at < outcome_end and turn_at < turn_end:
        outcome, turn = sides.outcomes[at], sides.turns[turn_at]
        what, cost = _together(sides, outcome, turn, at)
        if cost < _NEVER:
            found.append((cost, Step(what, at, turn_at), 1, 1))
        if at + 1 < outcome_end and turn_at + 1 < turn_end and _is_exchanged(sides, at, turn_at):
            found.append((_COST[EXCHANGED], Step(EXCHANGED, at, turn_at), 2, 2))
    if not sides.by_nearness:
        return found
    return [(cost * _FINE + _apart_ms(sides, step), step, down, right) for cost, step, down, right in found]


def _apart_ms(sides: Sides, step: Step) -> int:
    """How far a marker is from the decision that it is paired with, up to ``SKEW_MS``."""
    if step.what != SAME or step.outcome is None or step.turn is None:
        return 0
    decided_ms, turn = sides.outcomes[step.outcome]["prepared_ms"], sides.turns[step.turn]
    if turn["control_type"] is None or None in (decided_ms, turn["at_ms"]):
        return 0
    return int(min(abs(turn["at_ms"] - sides.late_ms - decided_ms), SKEW_MS))


def _together(sides: Sides, outcome: Row, turn: Row, at: int) -> tuple[str, int]:
    if outcome["producer_epoch"] != turn["producer_epoch"]:
        if turn["data_epoch"] != outcome["data_epoch"]:
            return WRONG, _NEVER
        if turn["control_type"] is not None:
            is_odd = outcome["is_v2"] and outcome["outcome"] == kind_of(turn)
            return (OTHER_EPOCH, _COST[OTHER_EPOCH]) if is_odd else (WRONG, _NEVER)
    decided, kind = outcome["outcome"], kind_of(turn)
    if decided == kind:
        return SAME, _untimely(sides, outcome, turn, at)
    if UNDECIDED in (decided, kind) or turn["flags"] & FLAG_UNCOMMITTED:
        return SAME, 1
    if kind == OPEN:
        if outcome["completed_offset"] is None:
            return PENDING, 0
        is_later = (turn["written_ms"] or 0) > (outcome["prepared_ms"] or _NEVER_MS)
        return UNENDED, _COST[UNENDED] + (_BEFORE_IT if is_later else 0)
    if decided == OPEN:
        return PENDING, 400
    is_alone = outcome["is_v2"] or (not turn["batches"] and (turn["since_offset"] or 0) < sides.kept_from)
    return WRONG, _WRONG_ALONE if is_alone else _COST[WRONG]


def _untimely(sides: Sides, outcome: Row, turn: Row, at: int) -> int:
    """More for a marker of a time before its decision, or after the next one; and for open data that its
    client wrote before its transaction began.
    """
    if turn["control_type"] is None:
        began = outcome["started_ms"] if outcome["outcome"] == OPEN else None
        is_older = began is not None and (turn["data_ms"] or began) + SKEW_MS < began
        return _BEFORE_IT if is_older else 0
    if outcome["prepared_ms"] is None or turn["at_ms"] is None or not sides.by_times:
        return 0
    at_ms = turn["at_ms"] - sides.late_ms
    early = at_ms + SKEW_MS < outcome["prepared_ms"]
    following = sides.outcomes[at + 1]["prepared_ms"] if at + 1 < len(sides.outcomes) else None
    late = following is not None and at_ms > following + SKEW_MS
    if early or late:
        return sides.untimely
    if at_ms < outcome["prepared_ms"]:
        return _BEFORE_IT
    return _BEHIND_IT if at_ms > outcome["prepared_ms"] + SKEW_MS else 0


def _is_exchanged(sides: Sides, at: int, turn_at: int) -> bool:
    first, second = sides.outcomes[at], sides.outcomes[at + 1]
    turns = sides.turns[turn_at], sides.turns[turn_at + 1]
    kinds = (first["outcome"], second["outcome"])
    if sorted(kinds) != [ABORT, COMMIT] or (kind_of(turns[1]), kind_of(turns[0])) != kinds:
        return False
    return all(
        outcome["producer_epoch"] == turn["producer_epoch"]
        for outcome, turn in zip((first, second), turns, strict=True)
    )


def _alone(sides: Sides, at: int, turn_at: int) -> tuple[str, int]:
    """An outcome without a turn."""
    outcome = sides.outcomes[at]
    before = sides.turns[turn_at - 1] if turn_at else None
    reached = 0 if before is None else (before["marker_offset"] or before["data_last"] or 0)
    if outcome["outcome"] in (OPEN, UNDECIDED) or outcome["completed_offset"] is None:
        return PENDING, 0
    if reached < sides.kept_from:
        return BEFORE, 0
    if turn_at == len(sides.turns):
        return MISSING, _COST[MISSING] - _AT_THE_END
    flags = sides.turns[turn_at]["flags"]
    return MISSING, _COST[MISSING] - (100 if flags & FLAG_OPAQUE else 50 if flags & FLAG_HOLE else 0)


def _is_before(sides: Sides, at: int, turn: Row) -> bool:
    """Whether its outcome may lie where the coordinator's log is not kept."""
    epoch = turn["producer_epoch"]
    if at or epoch < sides.first_epoch:
        return bool(epoch < sides.first_epoch)
    if turn["flags"] & FLAG_COMPACTED:  # markers of outcomes that the log has may be gone
        return True
    first = sides.outcomes[0] if sides.outcomes else None
    is_known = first is not None and first["is_v2"] and first["producer_epoch"] == epoch
    return bool(epoch == sides.first_epoch) and not is_known


def _unexplained(sides: Sides, at: int, turn_at: int) -> tuple[str, int]:
    """A turn without an outcome."""
    turn = sides.turns[turn_at]
    if not sides.is_whole and turn["control_type"] is not None and _is_before(sides, at, turn):
        return BEFORE, 0
    if turn["control_type"] == UNDECIDED:
        return RETRY, 0
    if turn["flags"] & FLAG_UNCOMMITTED:
        return EXTRA, 0
    if turn["control_type"] is None:
        return EXTRA, _COST[UNENDED]
    if at == len(sides.outcomes) and _is_behind_the_end(sides, turn):
        return EXTRA, _BEHIND_THE_END
    is_empty = not turn["batches"]
    if turn["marker_version"] is None:
        if _is_again(sides, turn_at):
            return RETRY, 0 if sides.by_nearness else _COST[RETRY]
        if not is_empty and turn["control_type"] == ABORT and turn["producer_epoch"] == turn["data_epoch"]:
            return OPERATOR, _COST[OPERATOR]
    cost = _COST[EXTRA] + (0 if is_empty else _SPLITS)
    return EXTRA, cost - (_AT_THE_END if at == len(sides.outcomes) else 0)


def _is_behind_the_end(sides: Sides, turn: Row) -> bool:
    """Whether its outcome may have come after the coordinator's log was copied."""
    known_ms, at_ms = sides.known_ms, turn["at_ms"]
    return known_ms is not None and at_ms is not None and bool(at_ms - sides.late_ms > known_ms)


def _is_again(sides: Sides, turn_at: int) -> bool:
    """Whether it is a marker of Kafka's, without data, like the one before it."""
    turn, before = sides.turns[turn_at], sides.turns[turn_at - 1] if turn_at else None
    if before is None or turn["batches"] or turn["marker_version"] is not None:
        return False
    kinds = [(each["control_type"], each["producer_epoch"]) for each in (before, turn)]
    return turn["control_type"] is not None and kinds[0] == kinds[1]
