"""Decisions for the tests of the proposer: records that are written as they are given."""

from collections.abc import Callable
from typing import Any

from fencepost.controller.decision import Decision
from fencepost.controller.view import View
from fencepost.records.transaction_log import TopicPartitions, TransactionStateRecord
from fencepost.records.types import ProducerId
from tests.quorum.rig import Rig


def transaction(transactional_id: str, topics: int = 0, name_characters: int = 8) -> TransactionStateRecord:
    """A new transactional id's first record, or one that opens a transaction in so many topics."""
    names = (f"{index:0{name_characters}}" for index in range(topics))
    return TransactionStateRecord(
        transactional_id=transactional_id,
        producer_id=ProducerId(1),
        producer_epoch=0,
        transaction_timeout_ms=60_000,
        status=1 if topics else 0,
        partitions=tuple(TopicPartitions(name, (0,)) for name in names) or None,
        updated_ms=1,
        started_ms=1 if topics else -1,
    )


def writes(
    *records: Any, response: Any = "done", extra_cost: int = 0
) -> Callable[[View, int], Decision[Any]]:
    return lambda _view, _now_ms: Decision(tuple(records), response, extra_cost=extra_cost)


def three_requests(rig: Rig, middle: Callable[[View, int], Decision[Any]]) -> list[list[str]]:
    """The answers to an allocation, to the request in the middle, and to another allocation."""
    answers = [rig.allocate(1), rig.ask(1, middle), rig.allocate(1)]
    rig.turn(1)
    rig.flow()
    return [each.codes for each in answers]
