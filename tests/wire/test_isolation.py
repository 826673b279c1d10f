"""A request that fails costs its own reply or connection; the other connections go on, and the node does."""

from typing import Any

import pytest

from fencepost.controller.errors import ErrorCode
from fencepost.records.invariant import CorruptData, InvariantViolation
from fencepost.wire.dispatch import Reply, Then
from tests.together import table
from tests.wire.stage import allocate
from tests.wire.test_listener import BLOCK, Later, Stage

FAILURES = [InvariantViolation("our bug"), KeyError("x"), OSError(5, "EIO"), CorruptData("what it read")]


class Halts(Exception):
    """What a store raises."""


class Counted:
    def __init__(self) -> None:
        self.names: list[str] = []

    def __call__(self, request: str) -> None:
        self.names.append(request)


def by_name(error: Any) -> str:
    return type(error).__name__


def error_code(raw: bytes) -> int:
    """Of a reply of AllocateProducerIds: frame length, correlation id, tags, throttle, error."""
    return int.from_bytes(raw[13:15], "big", signed=True)


@table("error", FAILURES, ids=by_name)
def test_an_endpoint_that_fails_is_answered_for_and_the_connection_goes_on(error: Exception) -> None:
    failing = [True]

    def endpoint(_request: Any, _context: Any, reply: Reply[Any]) -> None:
        if failing.pop():
            failing.append(False)
            raise error
        reply(BLOCK)

    counted = Counted()
    stage = Stage(endpoint, count_failed=counted)
    stage.receive(allocate(1), allocate(2))
    assert stage.wire.correlation_ids == [1, 2]
    assert error_code(stage.wire.written[0]) == ErrorCode.UNKNOWN_SERVER_ERROR
    assert (counted.names, stage.wire.closed) == (["AllocateProducerIds"], False)
    assert [event["event"] for event in stage.events] == ["request_failed"]


@table("error", FAILURES, ids=by_name)
def test_an_endpoint_that_fails_after_it_replied_costs_its_connection(error: Exception) -> None:
    def endpoint(_request: Any, _context: Any, reply: Reply[Any]) -> None:
        reply(BLOCK)
        raise error

    stage = Stage(endpoint)
    stage.receive(allocate(1))
    assert (stage.wire.correlation_ids, stage.wire.closed) == ([1], True)


@pytest.mark.parametrize("later", [False, True], ids=["at-once", "later"])
def test_a_reply_that_cannot_be_encoded_closes_its_connection_and_no_other(later: bool) -> None:
    counted = Counted()
    endpoint = Later()
    stage = Stage(endpoint, count_failed=counted)
    _, other = stage.connect()
    stage.receive(allocate(1))
    endpoint.waiting[0]("not a block" if later else None, 0)
    assert (stage.wire.written, stage.wire.closed, other.closed) == ([], True, False)
    assert counted.names == ["AllocateProducerIds"]


def test_a_failure_of_the_store_goes_on_to_what_ends_the_process() -> None:
    def endpoint(_request: Any, _context: Any, _reply: Reply[Any]) -> None:
        raise Halts

    stage = Stage(endpoint, halting=(Halts,))
    with pytest.raises(Halts):
        stage.receive(allocate(1))


def test_failures_are_logged_at_a_bounded_rate() -> None:
    def endpoint(_request: Any, _context: Any, _reply: Reply[Any]) -> None:
        raise KeyError

    stage = Stage(endpoint)
    stage.receive(*(allocate(number) for number in range(100)))
    assert len(stage.wire.written) == 100
    assert len(stage.events) == 10


def test_a_reply_that_leads_to_another_closes_where_that_goes() -> None:
    endpoint = Later()
    stage = Stage(endpoint)
    stage.receive(allocate(1))
    outcomes: list[Any] = []
    reply: Then[Any] = Then(lambda outcome, _throttle_ms: outcomes.append(outcome), endpoint.waiting[0])
    reply(BLOCK)
    reply.close("it cannot be given")
    assert (outcomes, stage.wire.closed) == ([BLOCK], True)
