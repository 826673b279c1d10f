"""Each kind of fault in a history made by hand is found once, under its name; a sound history has none."""

import json
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from tests.checker import findings
from tests.checker.evidence import events_of, evidence_of
from tests.checker.findings import find

Events = list[dict[str, Any]]
Plant = Callable[[Events], None]

SOURCES = [["in", 0, 0, 0], ["in", 0, 1, 1], ["in", 0, 2, 2], ["in", 0, 4, 3]]  # 3 is a control record's


def output(
    partition: int, offset: int, txn: int, index: int, count: int, generation: int, source: int
) -> Any:
    """As ``outputs_read`` lists it; transaction 3 is b's, the others are a's."""
    value = {
        "application": "b" if txn == 3 else "a",
        "transaction": txn,
        "index": index,
        "size": count,
        "generation": generation,
        "source": SOURCES[source],
    }
    return [partition, offset, value]


def began(at: float, application: str, number: int, generation: int, *sources: int) -> dict[str, Any]:
    named = {"application": application, "number": number, "generation": generation}
    return {"at": at, "event": "transaction_began", **named, "sources": [SOURCES[each] for each in sources]}


def ended(at: float, application: str, number: int, outcome: str) -> dict[str, Any]:
    named = {"application": application, "number": number, "outcome": outcome}
    return {"at": at, "event": "transaction_ended", **named}


def fetched(began_at: float, at: float, offset: int) -> dict[str, Any]:
    return {"at": at, "event": "offsets_fetched", "began_at": began_at, "offsets": [["in", 0, offset]]}


def seen(at: float, partition: int, *records: list[Any]) -> dict[str, Any]:
    return {
        "at": at,
        "event": "outputs_seen",
        "reader": "r",
        "partition": partition,
        "records": list(records),
    }


def hung(verdict: str, *waiting: str) -> dict[str, Any]:
    named = {"application": "a", "number": 5, "call": "send_offsets_to_transaction"}
    return {"at": 8.0, "event": "call_hung", **named, "seconds": 30.0, "verdict": verdict, "open": [*waiting]}


SOUND: Events = [
    {"at": 1.0, "event": "inputs_acknowledged", "inputs": SOURCES[:3]},
    fetched(1.0, 1.1, -1),
    # 1 commits outputs on two partitions, 2 is aborted, 3 is another process's, 4 was in doubt, 5 is fenced.
    began(2.0, "a", 1, 1, 0, 1),
    fetched(2.1, 2.6, 2),  # may be ahead of the acknowledgement
    ended(2.5, "a", 1, "committed"),
    fetched(2.7, 2.8, 2),
    began(3.0, "a", 2, 1, 2),
    ended(3.5, "a", 2, "aborted"),
    began(4.0, "b", 3, 2, 2),
    ended(4.5, "b", 3, "committed"),
    fetched(4.6, 4.7, 3),
    began(5.0, "a", 4, 3, 3),
    {"at": 5.1, "event": "transaction_committing", "application": "a", "number": 4},
    began(5.5, "a", 5, 2, 3),
    ended(5.9, "a", 5, "refused"),
    seen(6.0, 0, [0, "a", 1, 0], [4, "b", 3, 0]),
    seen(6.0, 1, [0, "a", 1, 1]),
    {"at": 9.0, "event": "inputs_read", "inputs": SOURCES},
    {
        "at": 9.0,
        "event": "outputs_read",
        "outputs": [
            output(0, 0, 1, 0, 2, 1, 0),
            output(0, 4, 3, 0, 1, 2, 2),
            output(1, 0, 1, 1, 2, 1, 1),
            output(1, 5, 4, 0, 1, 3, 3),
        ],
    },
    {"at": 9.0, "event": "offsets_at_end", "offsets": [["in", 0, 5], ["in", 1, 0]]},
]
BY_NAME = {each["event"]: each for each in SOUND if each["at"] == 9.0}


def last(events: Events, name: str) -> dict[str, Any]:
    return [each for each in events if each["event"] == name][-1]


def outputs(*more: Any, without: int | None = None) -> Plant:
    """These are in the log as well; the one of this place is not."""

    def plant(events: Events) -> None:
        there = last(events, "outputs_read")["outputs"]
        if without is not None:
            del there[without]
        there += more

    return plant


def offset_at_end(offset: int) -> Plant:
    def plant(events: Events) -> None:
        last(events, "offsets_at_end")["offsets"] = [["in", 0, offset]]

    return plant


def added(*more: dict[str, Any]) -> Plant:
    def plant(events: Events) -> None:
        events += more

    return plant


def both(*plants: Plant) -> Plant:
    def plant(events: Events) -> None:
        for each in plants:
            each(events)

    return plant


def acknowledged_late(at: float) -> Plant:
    """When the input of transaction 4 was."""
    return added({"at": at, "event": "inputs_acknowledged", "inputs": SOURCES[3:]})


def lost_input(events: Events) -> None:
    last(events, "inputs_acknowledged")["inputs"].append(["in", 0, 9, 9])


def twice_in(events: Events) -> None:
    last(events, "inputs_read")["inputs"].append(["in", 0, 7, 3])
    last(events, "outputs_read")["outputs"].append(
        [1, 9, output(1, 9, 9, 0, 1, 3, 3)[2] | {"source": ["in", 0, 7, 3]}]
    )
    offset_at_end(8)(events)


def another_source(events: Events) -> None:
    last(events, "outputs_read")["outputs"][3][2]["source"] = ["in", 0, 3, 77]
    last(events, "inputs_read")["inputs"].pop()
    offset_at_end(4)(events)


def unread(events: Events) -> None:
    """No reader and no fetch of offsets was there while the applications worked."""
    events[:] = [each for each in events if each["event"] not in {"outputs_seen", "offsets_fetched"}]


def swapped(events: Events) -> None:
    """Transactions 1 and 3 write to one partition, the later input first."""
    there = last(events, "outputs_read")["outputs"]
    there[1] = output(0, 4, 1, 0, 2, 2, 0)
    there[0] = output(0, 0, 3, 0, 1, 2, 2)
    unread(events)


FAULTS: list[Any] = [
    pytest.param(lost_input, "input-lost", "number 9", id="acknowledged-and-not-there"),
    pytest.param(twice_in, "input-duplicate", "offset 7", id="an-input-is-twice-in-the-log"),
    pytest.param(outputs(output(1, 9, 2, 0, 1, 3, 2)), "aborted-seen", "transaction 2", id="visible"),
    pytest.param(
        added(seen(6.5, 0, [5, "a", 2, 0])),
        "aborted-seen",
        "transaction 2",
        id="a-reader-saw-it",
    ),
    pytest.param(outputs(output(1, 9, 5, 0, 1, 2, 3)), "zombie", "refused", id="refused-and-visible"),
    pytest.param(
        outputs(output(0, 9, 9, 0, 1, 1, 3)),
        "zombie",
        "generation 1",
        id="behind-a-later-generation",
    ),
    pytest.param(
        lambda events: events.remove(last(events, "transaction_committing")),
        "aborted-seen",
        "abandoned",
        id="visible-though-its-process-died-before-it-was-to-commit",
    ),
    pytest.param(outputs(without=0), "torn", "1 of 2", id="a-transaction-is-half-visible"),
    pytest.param(another_source, "no-input", "number 77", id="of-no-visible-input"),
    pytest.param(outputs(output(1, 9, 9, 0, 1, 3, 3)), "duplicate", "number 3", id="of-one-input"),
    pytest.param(swapped, "reorder", "number 0", id="the-later-input-first"),
    pytest.param(
        both(outputs(without=1), unread),
        "loss",
        "number 2",
        id="an-input-without-an-output",
    ),
    pytest.param(both(outputs(without=3)), "offset-ahead", "end at 3", id="at-the-end-past-the-outputs"),
    pytest.param(offset_at_end(4), "offset-behind", "offset 4", id="at-the-end-before-the-outputs"),
    pytest.param(offset_at_end(-1), "offset-behind", "offset -1", id="at-the-end-forgotten"),
    pytest.param(added(fetched(3.6, 3.9, 3)), "offset-ahead", "3.900", id="before-its-transaction-began"),
    pytest.param(added(fetched(8.0, 8.1, 2)), "backwards", "had 3 before", id="lower-than-once-fetched"),
    pytest.param(added(fetched(8.0, 8.1, -1)), "backwards", "had 3 before", id="forgotten-on-the-way"),
    pytest.param(
        lambda events: last(events, "offsets_fetched").update(offsets=[["in", 0, 2]]),
        "offset-behind",
        "transaction 3",
        id="a-commit-was-acknowledged-before",
    ),
    pytest.param(
        added(seen(6.5, 1, [9, "a", 4, 0])), "unstable-read", "offset 9", id="a-reader-saw-another-offset"
    ),
    pytest.param(
        added(seen(6.5, 0, [4, "b", 3, 0])), "unstable-read", "4 after 4", id="a-reader-saw-a-record-twice"
    ),
    pytest.param(
        lambda events: last(events, "outputs_seen").update(records=[[5, "a", 4, 0]]),
        "missed-read",
        "never [0]",
        id="a-reader-passed-over-a-record",
    ),
    pytest.param(
        added(hung("unanswered", "EndTxn 7 on broker 1")), "hung", "EndTxn 7", id="a-call-has-no-response"
    ),
    pytest.param(added(hung("asking")), "hung", "asking", id="a-call-is-refused-for-ever"),
    pytest.param(
        both(acknowledged_late(1.0), added(ended(64.6, "a", 4, "committed"))),
        "stall",
        "60.1 s to 64.600",
        id="no-commit-for-a-minute",
    ),
]


def test_a_sound_history_has_no_finding() -> None:
    assert find(evidence_of(SOUND)) == []


def test_a_call_that_no_node_can_end_is_no_finding() -> None:
    assert find(evidence_of([*SOUND, hung("library")])) == []


@pytest.mark.parametrize(("plant", "name", "fact"), FAULTS)
def test_a_fault_is_found_once_under_its_name(plant: Plant, name: str, fact: str) -> None:
    events = deepcopy(SOUND)
    plant(events)
    found = find(evidence_of(events))
    assert [each.name for each in found] == [name], found
    assert fact in found[0].facts


@pytest.mark.parametrize(("acknowledged_at", "committed_at"), [(1.0, 64.4), (5.0, 64.9)])
def test_no_stall_is_found_where_nothing_waited_for_a_minute(
    acknowledged_at: float, committed_at: float
) -> None:
    events = deepcopy(SOUND)
    acknowledged_late(acknowledged_at)(events)
    events.append(ended(committed_at, "a", 4, "committed"))
    assert find(evidence_of(events)) == []


def test_every_fault_of_the_list_has_a_case() -> None:
    listed = (findings.__doc__ or "").partition("\n\n")[2].partition("\n\n")[0]
    names = {line.split()[0] for line in listed.splitlines() if not line.startswith(" ")}
    assert names == {case.values[1] for case in FAULTS}


def test_what_a_killed_process_left_unfinished_is_no_event(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(json.dumps({"at": 2.0, "event": "b"}) + '\n{"at": 3.0, "ev')
    (tmp_path / "b.jsonl").write_text(json.dumps({"at": 1.0, "event": "a"}) + "\n")
    assert [each["event"] for each in events_of(tmp_path)] == ["a", "b"]
