"""What is wrong with one producer on one partition, once its turns are held against its outcomes.

Later       a difference at the end of what was copied is a finding only if the other side is known to be
            later: it was stopped; or a marker further on was decided after this transaction was completed;
            or the coordinator's log tells of times after the marker's. Else the order of copying explains it.
Double      our markers carry a version: one that was there before is a copy. Kafka's are repeated after a
            failover: without data between they are a note.
Known       what a coordinator does not tell of is a finding where its log is whole, else unknown.
"""

from collections.abc import Sequence
from typing import Final

from fencepost.audit.walks import align, clocks, marker
from fencepost.audit.walks import context as why
from fencepost.audit.walks.align import ABORT, COMMIT, Row, Sides, Step, kind_of
from fencepost.audit.walks.columns import (
    AFTER_COORDINATOR,
    FINDING,
    FLAG_OPAQUE,
    FLAG_STALE,
    FLAG_UNCOMMITTED,
    NOTE,
)
from fencepost.audit.walks.context import Context
from fencepost.audit.walks.found import Found, found, producer_name
from fencepost.audit.walks.story import CLOCK_GRACE_MS

_NAMES: Final = {0: "abort", 1: "commit", -1: "emptied"}


class Judge:
    """One producer id on one partition."""

    def __init__(
        self, context: Context, facts: list[Row], outcomes: list[Row], turns: list[Row],
        indexed: Sequence[Row] = (),
    ) -> None:  # fmt: skip
        self._context = context
        self._facts = facts
        self._outcomes = outcomes
        self._turns = turns
        self._indexed = indexed  # entries of transaction indexes
        self._where = {name: context.row[name] for name in ("topic", "partition")}

    def look(self) -> None:
        """Adds to the context what is found."""
        self._plain()
        if len({each["transactional_id"] for each in self._facts}) > 1:
            self._shared()
            return
        self._order_by_version()
        if not self._facts:
            self._unknown_producer()
            return
        self._fact = fact = self._facts[0]
        self._turns = [turn for turn in self._turns if not self._is_cleaned(turn)]
        row = self._context.row
        steps, self._clocks = clocks.read(
            Sides(self._outcomes, self._turns, fact["first_epoch"], bool(fact["is_whole"]),
                  self._context.kept_from, bool(row["stopped"]),
                  known_ms=None if fact["stopped"] else fact["log_ms"])
        )  # fmt: skip
        self._next_outcome = marker.followed_by(steps, self._outcomes)
        last_pair = max((at for at, each in enumerate(steps) if _is_pair(each)), default=-1)
        for each in steps:
            if _is_pair(each) and each.outcome is not None:
                turn = None if each.turn is None else self._turns[each.turn]
                self._context.pair(self._outcomes[each.outcome], turn)
                if turn is not None:
                    self._coordinator_epoch(self._outcomes[each.outcome], turn)
        steps = self._exchanged_apart(marker.cut_off(steps, self._outcomes, self._turns, row))
        for at, step in enumerate(steps):
            self._step(step, at > last_pair, steps[at + 1] if at + 1 < len(steps) else None)
        late = marker.overtaken(self._turns)
        if late is not None and all(row["producer_id"] != late["producer_id"] for row in self._context.found):
            row = self._finding("late", marker.said_late(late), late, None)
            place = {"offset": late["data_offset"], "end_offset": late["late_offset"]}
            self._context.found.append(row | place)

    def _is_cleaned(self, turn: Row) -> bool:
        """Whether its log is not kept where its marker was: compaction never comes to where data is open, and
        retention had yet to come in the copy that has it.
        """
        if turn["control_type"] is not None:
            return False
        return bool((turn["data_last"] or 0) < self._context.kept_from)

    def _step(self, step: Step, is_last: bool, following: Step | None) -> None:
        outcome = None if step.outcome is None else self._outcomes[step.outcome]
        turn = None if step.turn is None else self._turns[step.turn]
        if step.what == align.CUT:
            self._context.undecided("missing", why.ELECTION, min(self._context.row["cut_offsets"]))
        elif outcome is not None and turn is not None:
            self._together(step, outcome, turn, is_last)
        elif outcome is not None and step.what == align.MISSING:
            self._missing(outcome, self._turn_after(following), is_last)
        elif outcome is None and turn is not None:
            self._alone(step, turn, is_last)
        elif step.what == align.BEFORE and outcome is not None:
            self._context.undecided("missing", why.DELETED, None)

    def _together(self, step: Step, outcome: Row, turn: Row, is_last: bool) -> None:
        if step.what == align.SAME:
            self._early(step, outcome, turn)
        elif step.what == align.WRONG and not turn["flags"] & FLAG_UNCOMMITTED:
            said = (
                f"a {_NAMES[kind_of(turn)]} marker, of a transaction of {outcome['transactional_id']} whose"
                f" outcome is {_NAMES.get(outcome['outcome'], 'not known')} (offset {outcome['offset']} of"
                f" the coordinator's log, partition {outcome['coordinator_partition']})"
            )
            self._add("wrong_outcome", said, turn, outcome)
        elif step.what == align.OTHER_EPOCH and not turn["flags"] & FLAG_UNCOMMITTED:
            said = (
                f"a marker of epoch {turn['producer_epoch']}, of a transaction of"
                f" {outcome['transactional_id']} whose markers are of epoch {outcome['producer_epoch']}"
                f" (offset {outcome['offset']} of the coordinator's log, partition"
                f" {outcome['coordinator_partition']})"
            )
            self._add("epoch", said, turn, outcome)
        elif step.what == align.EXCHANGED:
            self._add_exchanged(turn, self._turns[(step.turn or 0) + 1], outcome)
        elif step.what == align.UNENDED:
            self._missing(outcome, turn, is_last)
        elif step.what == align.PENDING and turn["control_type"] is not None:
            said = f"a {_NAMES[kind_of(turn)]} marker, and the coordinator has the transaction open"
            self._if_known_later("without_transaction", said, turn, outcome, self._is_coordinator_later(turn))

    def _coordinator_epoch(self, outcome: Row, turn: Row) -> None:
        said = marker.of_another_leader(self._outcomes, outcome, turn)
        if said is not None:
            row = self._finding("coordinator", said, turn, outcome, check="epochs")
            self._context.found.append(row)

    def _add_exchanged(self, first: Row, second: Row, outcome: Row) -> None:
        said = (
            f"its {_NAMES[kind_of(first)]} marker and the {_NAMES[kind_of(second)]} marker at offset"
            f" {second['marker_offset']} ({second['path']}:{second['position']}) are exchanged: the"
            f" coordinator decided {_NAMES[outcome['outcome']]} first (offset {outcome['offset']} of its log)"
        )
        self._add("exchanged", said, first, outcome)

    def _exchanged_apart(self, steps: list[Step]) -> list[Step]:
        """Two wrong outcomes, one the other way round, are an exchange of two markers: one finding."""
        wrong: dict[int, list[int]] = {ABORT: [], COMMIT: []}
        for at, each in enumerate(steps):
            if each.what == align.WRONG and each.turn is not None:
                wrong[kind_of(self._turns[each.turn])].append(at)
        result = list(steps)
        for aborted, committed in zip(wrong[ABORT], wrong[COMMIT], strict=False):
            first, second = sorted((aborted, committed))
            turns = [steps[at].turn for at in (first, second)]
            outcome = steps[first].outcome
            if turns[0] is not None and turns[1] is not None and outcome is not None:
                self._add_exchanged(self._turns[turns[0]], self._turns[turns[1]], self._outcomes[outcome])
            for at in (first, second):
                result[at] = Step(align.SAME, steps[at].outcome, steps[at].turn)
        return result

    def _turn_after(self, following: Step | None) -> Row | None:
        return None if following is None or following.turn is None else self._turns[following.turn]

    def _missing(self, outcome: Row, turn: Row | None, is_last: bool) -> None:
        offset = None if turn is None else turn["data_offset"]
        if turn is not None and turn["flags"] & FLAG_OPAQUE:
            self._context.undecided("missing", why.OPAQUE, offset)
            return
        said = (
            f"no {_NAMES.get(outcome['outcome'], '')} marker of the transaction of"
            f" {outcome['transactional_id']}, decided at {outcome['prepared_ms']} (offset"
            f" {outcome['offset']} of the coordinator's log, partition {outcome['coordinator_partition']})"
        )
        at = (turn or outcome) | {"producer_epoch": outcome["producer_epoch"]}
        row = self._finding("missing", said, at, outcome)
        row["offset"] = offset
        row["end_offset"] = None if turn is None else turn["marker_offset"]
        if turn is None:
            row["since_offset"] = self._turns[-1]["marker_offset"] if self._turns else None
        if not is_last or self._context.row["stopped"]:
            self._context.found.append(row)
        else:
            completed = outcome["completed_offset"]
            self._context.late.append((row, outcome["coordinator_partition"], completed))

    def _alone(self, step: Step, turn: Row, is_last: bool) -> None:
        offset = turn["offset"]
        if turn["flags"] & FLAG_UNCOMMITTED:
            return
        if step.what == align.BEFORE:
            self._context.undecided("without_transaction", why.NOT_KEPT, offset)
        elif step.what == align.RETRY and turn["control_type"] == align.UNDECIDED:
            return
        elif step.what == align.RETRY:
            self._note(
                "repeated", "the same marker again, without data between: written again by Kafka", turn
            )
        elif step.what == align.OPERATOR and not is_last and not self._is_amid(step, turn):
            self._note("operator", "an abort marker that ended data no transaction has: an operator's", turn)
        elif turn["control_type"] is None:
            self._hanging(turn)
        else:
            rule, said = self._extra(step, turn)
            if is_last:
                self._if_known_later(rule, said, turn, None, self._is_coordinator_later(turn), is_last=True)
            else:
                self._add(rule, said, turn, None)

    def _is_amid(self, step: Step, turn: Row) -> bool:
        at = step.turn or 0
        before = self._turns[at - 1] if at else None
        return marker.is_amid(turn, before, self._next_outcome.get(at), self._clocks.marker_ms)

    def _extra(self, step: Step, turn: Row) -> tuple[str, str]:
        before = self._turns[step.turn - 1] if step.turn else None
        name = _NAMES[kind_of(turn)]
        is_same = before is not None and (kind_of(before), before["producer_epoch"]) == (
            kind_of(turn), turn["producer_epoch"],
        )  # fmt: skip
        if is_same and not turn["batches"]:
            return "double", f"a second {name} marker of a transaction that has one"
        return "without_transaction", f"a {name} marker, and the coordinator's log has no transaction it ends"

    def _hanging(self, turn: Row) -> None:
        previous = self._turns[-2] if len(self._turns) > 1 else None
        if previous is not None and marker.is_empty_commit(previous):
            said = f"data from offset {turn['data_offset']} on came after the marker that ends it"
            self._add("early", said, previous, None)
            return
        if turn["data_offset"] is None:
            return
        if turn["flags"] & FLAG_OPAQUE:
            self._context.undecided("orphan", why.OPAQUE, turn["data_offset"])
            return
        is_over = self._fact["last_epoch"] > (turn["data_epoch"] or 0)
        check, rule = ("fencing", "zombie") if is_over else ("hanging", "orphan")
        more = (
            f"after the coordinator left epoch {turn['data_epoch']}" if is_over
            else "and the coordinator has no transaction that would end it"
        )  # fmt: skip
        said = (
            f"transactional data from offset {turn['data_offset']} on, in {turn['batches']} batches, {more}"
        )
        row = self._finding(rule, said, turn, None, check=check) | {"cause": self._after()}
        if self._is_coordinator_later(turn):
            self._context.found.append(row)
        else:
            self._context.undecided(rule, why.ORDER, turn["data_offset"])

    def _early(self, step: Step, outcome: Row, turn: Row) -> None:
        """A commit without data, and then data that its client wrote before it was decided."""
        if step.turn is None or step.outcome is None or step.turn + 1 >= len(self._turns):
            return
        following = self._turns[step.turn + 1]
        if turn["flags"] & FLAG_STALE or (
            following["control_type"] is None and step.outcome + 1 == len(self._outcomes)
        ):
            return
        if self._context.row["compacted"]:
            return
        if marker.is_within(turn, following, self._indexed):
            said = f"data from offset {following['data_offset']} on came after the marker that ends it"
            self._add("early", said, turn, outcome)
            return
        if not marker.is_empty_commit(turn) or following["data_ms"] is None:
            return
        if (turn["since_offset"] or 0) < self._context.kept_from:  # its data is what the log no longer has
            return
        after = self._outcomes[step.outcome + 1] if step.outcome + 1 < len(self._outcomes) else None
        if all(marker.is_of(outcome, after, following["data_ms"] - ms) for ms in (0, self._clocks.data_ms)):
            said = f"data from offset {following['data_offset']} on came after the marker that ends it"
            self._add("early", said, turn, outcome)

    def _is_coordinator_later(self, turn: Row) -> bool:
        """Whether what the coordinator's log has was copied after the turn was written."""
        if self._fact["stopped"]:
            return True
        log_ms = self._fact["log_ms"]
        return (
            turn["marker_offset"] is not None
            and log_ms is not None
            and log_ms > turn["at_ms"] + CLOCK_GRACE_MS
        )

    def _plain(self) -> None:
        for turn in self._turns:
            if turn["plain_offset"] is not None and not turn["flags"] & FLAG_UNCOMMITTED:
                said = (
                    f"data at offset {turn['plain_offset']} of a transactional producer is in no transaction"
                )
                row = self._finding("not_transactional", said, turn, None)
                self._context.found.append(row | {"offset": turn["plain_offset"]})
                return

    def _shared(self) -> None:
        names = sorted({each["transactional_id"] for each in self._facts})
        producer_id = self._facts[0]["producer_id"]
        said = f"producer id {producer_id} is of {' and of '.join(names)}"
        fact = self._facts[-1]
        row = found("ids", "shared", said, subject=f"producer {producer_id}", node=fact["node"],
                    path=fact["path"], position=fact["position"], topic="__transaction_state",
                    partition=fact["coordinator_partition"], producer_id=producer_id,
                    transactional_id=names[-1])  # fmt: skip
        self._context.found.append(row | {"id": f"finding ids.shared {producer_id} {names[-1]}"})

    def _order_by_version(self) -> None:
        """Our markers: copies are taken out, exchanged ones put into their order, and both are findings."""
        seen: dict[int, Row] = {}
        kept: list[Row] = []
        # A marker of an epoch that was over is a finding already; its epoch sorts it among older ones.
        for turn in self._turns:
            version = turn["marker_version"]
            if version is not None and turn["flags"] & FLAG_STALE:
                continue
            if version is None:
                kept.append(turn)
            elif version in seen:
                said = f"the marker at offset {seen[version]['marker_offset']} again, of version {version}"
                self._add("double", said, turn, None)
            else:
                seen[version] = turn
                kept.append(turn)
        versions = [turn["marker_version"] for turn in kept if turn["marker_version"] is not None]
        ordered = sorted(versions)
        if versions != ordered:
            later = dict(seen)
            first = next(
                at for at, (is_, due) in enumerate(zip(versions, ordered, strict=True)) if is_ != due
            )
            turn, other = later[versions[first]], later[ordered[first]]
            place = f"version {ordered[first]} at offset {other['marker_offset']}"
            said = f"version {versions[first]} stands before {place}: the markers are exchanged"
            self._add("exchanged", said, turn, None)
            queue = iter(sorted(seen))
            kept = [turn if turn["marker_version"] is None else later[next(queue)] for turn in kept]
        self._turns = kept

    def _unknown_producer(self) -> None:
        """The coordinators tell nothing of it."""
        row = self._context.row
        for turn in self._turns:
            is_open = turn["control_type"] is None
            rule = "orphan" if is_open else "without_transaction"
            written_ms = turn["written_ms"] if is_open else turn["at_ms"]
            known_ms = row["coordinators_ms"]
            is_covered = row["coordinators_whole"] or (
                row["coordinators"]
                and known_ms is not None
                and (written_ms or -1) > known_ms + CLOCK_GRACE_MS
            )
            if turn["flags"] & FLAG_UNCOMMITTED:
                continue
            if not row["coordinators"]:
                self._context.undecided(rule, why.NO_COORDINATOR, turn["offset"])
            elif not is_covered:
                self._context.undecided(rule, why.NOT_KEPT, turn["offset"])
            elif not row["coordinators_stopped"]:
                self._context.undecided(rule, why.ORDER, turn["offset"])
            else:
                said = f"{len(self._turns)} turns of a producer that no coordinator's log tells of"
                check = "hanging" if is_open else "markers"
                row = self._finding(rule, said, turn, None, check=check)
                self._context.found.append(row | {"cause": AFTER_COORDINATOR})
                return

    def _after(self) -> str:
        return f"{AFTER_COORDINATOR}{self._fact['coordinator_partition']}"

    def _if_known_later(
        self, rule: str, said: str, turn: Row, outcome: Row | None, is_later: bool, *, is_last: bool = False
    ) -> None:
        if is_later:
            row = self._finding(rule, said, turn, outcome)
            self._context.found.append(row | {"cause": self._after() if is_last else None})
        else:
            self._context.undecided(rule, why.ORDER, turn["offset"])

    def _add(self, rule: str, said: str, turn: Row, outcome: Row | None) -> None:
        self._context.found.append(self._finding(rule, said, turn, outcome))

    def _note(self, rule: str, said: str, turn: Row) -> None:
        self._context.found.append(self._finding(rule, said, turn, None, kind=NOTE))

    def _finding(
        self, rule: str, said: str, at: Row, outcome: Row | None, *, check: str = "markers",
        kind: str = FINDING,
    ) -> Found:  # fmt: skip
        names = [each["transactional_id"] for each in self._facts]
        name = outcome["transactional_id"] if outcome is not None else next(iter(names), None)
        return found(
            check, rule, said, kind=kind, subject=producer_name(at["producer_id"], at["producer_epoch"]),
            node=at["node"], path=at["path"], position=at["position"], offset=at["offset"],
            since_offset=at.get("since_offset"), producer_id=at["producer_id"],
            producer_epoch=at["producer_epoch"], transactional_id=name, at_ms=at["at_ms"],
            coordinator_partition=self._facts[0]["coordinator_partition"] if self._facts else None,
            **self._where,
        )  # fmt: skip


def _is_pair(step: Step) -> bool:
    return step.outcome is not None and step.turn is not None and step.what != align.UNENDED
