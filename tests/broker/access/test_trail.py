"""The audit trail: what is denied is counted, what changes the cluster has a line before it is done."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fencepost.broker.access.audited import ADMINISTRATIVE
from fencepost.broker.access.needs import ROWS
from fencepost.broker.access.trail import LINES_MAX, Act, AppendedFile, Trail
from fencepost.controller.acl_types import AclFilter, DeleteAcls, Operation, ResourceType
from fencepost.controller.groups.describe import ListedGroup, ListGroups, ListGroupsAnswer
from fencepost.controller.topics import CreateTopics, CreateTopicsAnswer, DeleteTopics, NewTopic
from fencepost.controller.transactions.init_request import InitProducerId
from fencepost.wire.dispatch import CONTROLLER
from fencepost.wire.k01_fetch import Fetch, FetchPartition
from fencepost.wire.k03_metadata import Metadata
from fencepost.wire.registry import APIS
from tests.broker.access.doors import ALICE, HOST, ROOT, Asked, allow
from tests.broker.fake_controller import captured_log

OP, T, C = Operation, ResourceType.TOPIC, ResourceType.CLUSTER


class Written:
    """A sink, and the clock of a trail."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []
        self.due: list[Callable[[], None]] = []
        self.trail = Trail(self, lambda _delay_s, call: self.due.append(call))

    def write(self, fields: dict[str, Any]) -> None:
        self.lines.append(fields)

    def a_second_later(self) -> None:
        due, self.due = self.due, []
        for each in due:
            each()

    @property
    def said(self) -> list[tuple[Any, ...]]:
        """What distinguishes the lines: decision, operation, resource, count."""
        return [(each["decision"], each["operation"], each["resource"], each["count"]) for each in self.lines]


def asked(written: Written, key: int, request: Any, *acls: Any, **how: Any) -> Asked:
    return Asked(acls, APIS[key], request, trail=written.trail, **how)


def fetch(*topics: str) -> Fetch:
    parts = tuple(FetchPartition(each, None, 0, -1, 0, -1, -1, 1 << 20) for each in topics)
    return Fetch(-1, 0, 1, 1 << 20, 0, 0, -1, parts)


def test_equal_denials_are_a_line_with_their_number() -> None:
    written = Written()
    for _ in range(3):
        asked(written, 1, fetch("orders", "bills"), allow(OP.READ, T, "bills"))
    asked(written, 1, fetch("orders"), principal="User:bob")
    assert written.lines == []
    assert len(written.due) == 1, "one timer for all of them"
    written.a_second_later()
    assert written.said == [("denied", "READ", "orders", 3), ("denied", "READ", "orders", 1)]
    assert written.lines[0] == {
        "decision": "denied", "principal": ALICE, "host": HOST, "request": "Fetch", "operation": "READ",
        "resource_type": "TOPIC", "resource": "orders", "count": 3,
    }  # fmt: skip
    asked(written, 1, fetch("orders"))
    written.a_second_later()
    assert len(written.lines) == 3


def test_so_many_denials_have_a_line_each_and_the_others_are_counted() -> None:
    written = Written()
    asked(written, 1, fetch(*(f"t{n}" for n in range(LINES_MAX + 7))))
    asked(written, 19, CreateTopics((NewTopic("made", 1, 1),)), principal=ROOT)
    assert [each["decision"] for each in written.lines] == ["allowed"], "whatever is denied beside it"
    written.a_second_later()
    assert len(written.lines) == 1 + LINES_MAX + 1
    assert written.lines[-1] == {"decision": "denied", "others": 7}


@pytest.mark.parametrize("principal", [ALICE, ROOT])
def test_what_changes_the_cluster_is_written_before_it_is_done(principal: str) -> None:
    written = Written()
    seen: list[int] = []

    def answer(_request: Any) -> Any:
        seen.append(len(written.lines))
        return CreateTopicsAnswer(())

    request = CreateTopics((NewTopic("orders", 1, 1), NewTopic("bills", 1, 1)))
    rights = (allow(OP.CREATE, T, "orders"),)
    asked(written, 19, request, *rights, response=answer, principal=principal)
    allowed = ["orders"] if principal == ALICE else ["kafka-cluster"]
    assert [each["resource"] for each in written.lines] == allowed
    assert seen == [1]
    written.a_second_later()
    denied = [("denied", "CREATE", "bills", 1)] if principal == ALICE else []
    assert written.said[1:] == denied


def test_what_is_refused_whole_is_denied() -> None:
    written = Written()
    asked(written, 31, DeleteAcls((AclFilter(),)))
    asked(written, 20, DeleteTopics(("orders",), (), 5_000), allow(OP.DESCRIBE, T, "orders"))
    written.a_second_later()
    assert ("denied", "ALTER", "kafka-cluster", 1) in written.said
    assert ("denied", "DELETE", "orders", 1) in written.said


def test_a_request_with_alternatives_that_is_refused_is_denied() -> None:
    """IDEMPOTENT_WRITE, or WRITE on any topic: with either nothing was denied."""
    written = Written()
    asked(written, 22, InitProducerId(None, 1_000), allow(OP.WRITE, T, "orders"))
    written.a_second_later()
    assert written.lines == []
    asked(written, 22, InitProducerId(None, 1_000))
    written.a_second_later()
    assert written.said == [("denied", "IDEMPOTENT_WRITE", "kafka-cluster", 1)]


def test_what_a_list_leaves_out_is_not_denied() -> None:
    written = Written()
    asked(
        written, 16, ListGroups(), response=ListGroupsAnswer((ListedGroup("hidden", "consumer", "Stable"),))
    )
    asked(written, 3, Metadata(None))
    written.a_second_later()
    assert written.lines == []


def test_a_broker_that_forwards_is_named_as_itself() -> None:
    written = Written()
    request = CreateTopics((NewTopic("orders", 1, 1),))
    asked(written, 19, request, allow(OP.CLUSTER_ACTION, C), kind=CONTROLLER)
    assert written.said == [("allowed", "CLUSTER_ACTION", "kafka-cluster", 1)]


def test_every_request_that_needs_more_than_to_describe_the_cluster_is_administrative() -> None:
    changing = {
        key
        for key, row in ROWS.items()
        if {(OP.ALTER, C), (OP.ALTER_CONFIGS, T), (OP.ALTER, T), (OP.DELETE, T), (OP.CREATE, T)}
        & {(each.operation, each.of) for each in row.needs}
    }
    assert changing - ADMINISTRATIVE == {3, 27}, (
        "a Metadata may create a topic; 27 is for brokers, and aborts"
    )


def test_a_file_has_a_line_for_each_and_is_made_anew_when_it_was_moved(tmp_path: Path) -> None:
    log, logged = captured_log()
    file = tmp_path / "authorizer.log"
    sink = AppendedFile(file, 4, log)
    trail = Trail(sink, lambda _delay_s, _call: None)
    act = Act(ALICE, HOST, "CreateTopics", OP.CREATE, T, 'a "topic"\nof two lines')
    trail.administered(act)
    moved = file.rename(tmp_path / "authorizer.log.1")
    trail.administered(act)
    for each in (moved, file):
        (line,) = each.read_text().splitlines()
        found = json.loads(line)
        assert (found["node_id"], found["resource"], found["decision"]) == (4, act.resource, "allowed")
        assert each.stat().st_mode & 0o777 == 0o600
    assert logged.entries == []


def test_where_the_file_cannot_be_written_administration_is_in_the_nodes_log(tmp_path: Path) -> None:
    log, logged = captured_log()
    trail = Trail(AppendedFile(tmp_path / "gone" / "log", 1, log), lambda _delay_s, _call: None)
    act = Act(ALICE, HOST, "CreateTopics", OP.CREATE, T, "orders")
    for _ in range(2):
        trail.administered(act)
    trail.denied(act)
    trail.flush()
    assert [each["event"] for each in logged.entries] == ["authorizer_log_failed", "authorizer", "authorizer"]
    assert logged.entries[-1]["resource"] == "orders"
