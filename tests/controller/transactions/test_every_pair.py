"""Every pair that may be presented, to every row that a few steps lead to, with each request: Kafka's answer.

The rules are Kafka's, written down apart (kafka_rules.py); what differs has a reason (ours.py). Rows begin
at epochs 5 and 32764 to 32766, so that both rotations (of an end, of what is kept) and 32767 are among them,
with timeouts, new instances and repeated requests in between (reachable.py). A refusal writes nothing, and
no decision changes the image that it looks at.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator
from typing import Any, Final, NamedTuple

import pytest

from fencepost.broker.verification import verdict
from fencepost.controller.decision import Decision
from fencepost.controller.errors import ApiError, ErrorCode
from fencepost.controller.groups.offset_messages import CommitTransactionOffsets, OffsetToCommit
from fencepost.controller.groups.offsets import OffsetRules
from fencepost.controller.transactions.add_partitions import (
    AddPartitions,
    decide_add_partitions,
    decide_verify,
)
from fencepost.controller.transactions.commit_offsets import decide_commit_in_transaction
from fencepost.controller.transactions.end_txn import EndTxn, decide_end_txn, needs_producer_id_at_end
from fencepost.controller.transactions.init_producer_id import decide_init_producer_id, needs_producer_id
from fencepost.controller.transactions.init_request import InitProducerId
from fencepost.controller.transactions.states import TRANSACTION_TABLES, State
from fencepost.controller.view import Table, View
from fencepost.records.transaction_log import TransactionStateRecord
from fencepost.records.types import ProducerId
from fencepost.wire.k00_produce import Produce
from tests.controller.transactions import kafka_rules, ours
from tests.controller.transactions.kafka_rules import FRESH, Known, Outcome, Pair, refused
from tests.controller.transactions.ours import Deviation
from tests.controller.transactions.reachable import EPOCHS, STEPS_MAX, Told, pairs_of, reachable, starts
from tests.controller.transactions.worlds import (
    ID,
    MAX_TIMEOUT_MS,
    NOW_MS,
    ORDERS,
    TIMEOUT_MS,
    partitions,
)

FAILURES_SHOWN: Final = 10
_FRESH: Final = ProducerId(FRESH)


class Ask(NamedTuple):
    """One request: what decides it, what Kafka says, and what is said instead."""

    decide: Callable[[View, Pair], Decision[Any]]
    kafka: Callable[[Known, Pair], Outcome]
    instead: Callable[[Known, Pair], Deviation | None]
    code: Callable[[int], int] = int


# -- the requests ------------------------------------------------------------------------------------------


def _init(*, keeps: bool = False, two_phase: bool = False) -> Ask:
    def decide(view: View, pair: Pair) -> Decision[Any]:
        timeout_ms = 0 if two_phase else TIMEOUT_MS
        asked = InitProducerId(ID, timeout_ms, ProducerId(pair[0]), pair[1], 6, "", two_phase, keeps)
        made = decide_init_producer_id(
            view, asked, now_ms=NOW_MS, fresh=_FRESH, max_timeout_ms=MAX_TIMEOUT_MS
        )
        assert needs_producer_id(view, asked, NOW_MS) == _is_fresh(made), "an id is wasted, or missing"
        return made

    return Ask(
        decide,
        lambda row, pair: kafka_rules.init_producer_id(row, pair, keeps=keeps),
        lambda row, pair: ours.init_producer_id_instead(row, pair, keeps=keeps),
    )


def _end_v1(*, committed: bool, knows_abortable: bool = True) -> Ask:
    return Ask(
        lambda view, pair: decide_end_txn(
            view, EndTxn(ID, ProducerId(pair[0]), pair[1], committed, knows_abortable), now_ms=NOW_MS
        ),
        lambda row, pair: kafka_rules.end_v1(row, pair, committed=committed),
        lambda row, pair: ours.end_v1_instead(
            row, pair, committed=committed, knows_abortable=knows_abortable
        ),
    )


def _end_v2(*, committed: bool) -> Ask:
    def decide(view: View, pair: Pair) -> Decision[Any]:
        asked = EndTxn(ID, ProducerId(pair[0]), pair[1], committed, bumps_epoch=True)
        made = decide_end_txn(view, asked, now_ms=NOW_MS, fresh=_FRESH)
        assert needs_producer_id_at_end(view, asked) == _is_fresh(made), "an id is wasted, or missing"
        return made

    return Ask(
        decide,
        lambda row, pair: kafka_rules.end_v2(row, pair, committed=committed),
        lambda row, pair: ours.end_v2_instead(row, pair, committed=committed),
    )


def _add(index: int, *, for_client: bool, code: Callable[[int], int] = int) -> Ask:
    def decide(view: View, pair: Pair) -> Decision[Any]:
        topics = (partitions(ORDERS, index),)
        asked = AddPartitions(ID, ProducerId(pair[0]), pair[1], topics, for_client=for_client)
        return decide_add_partitions(view, asked, now_ms=NOW_MS)

    return Ask(
        decide,
        lambda row, pair: kafka_rules.add_partitions(row, pair, is_in=index == 0),
        lambda row, pair: ours.add_partitions_instead(row, pair, is_in=index == 0),
        code,
    )


def _verify(view: View, pair: Pair) -> Decision[Any]:
    asked = AddPartitions(ID, ProducerId(pair[0]), pair[1], (partitions(ORDERS, 0),), verify_only=True)
    made = decide_verify(view, asked)
    ((_, ((_, code),)),) = made.response.errors
    return Decision((), ErrorCode(code)) if code else made


def _kafka_verifies(row: Known, pair: Pair) -> Outcome:
    said = kafka_rules.add_partitions(row, pair, is_in=True)
    return refused(ours.ABORTABLE) if said.written is not None else said


def _commit_offsets(view: View, pair: Pair) -> Decision[Any]:
    offsets = (OffsetToCommit(ORDERS, 0, 9),)
    asked = CommitTransactionOffsets(ID, "group", ProducerId(pair[0]), pair[1], offsets, adds_offsets=True)
    made = decide_commit_in_transaction(view, asked, OffsetRules(), now_ms=NOW_MS)
    assert all(each.code == 0 for each in made.response.rows)
    return made


def _on_produce(code: int) -> int:
    """B3: what a partition leader makes of a code for the client of a Produce of version 12."""
    return {90: 47, 13: 19, 14: 19, 15: 19, 16: 19}.get(code, code)


def _produced(ask: Ask) -> Ask:
    """The same of Produce version 12, which the partition's leader asks the coordinator for."""
    request = Produce(ID, -1, 1000, (), adds_partitions=True, knows_abortable=True, knows_timed_out=True)

    def instead(row: Known, pair: Pair) -> Deviation | None:
        said = ours.add_partitions_instead(row, pair, late=ours.ABORTABLE)
        if said is None:
            return None
        return Deviation(said.reason, said.outcome._replace(code=_on_produce(said.outcome.code)))

    def kafka(row: Known, pair: Pair) -> Outcome:
        said = ask.kafka(row, pair)
        return said._replace(code=_on_produce(said.code))

    return Ask(ask.decide, kafka, instead, lambda code: verdict(ErrorCode(code), request))


REQUESTS: Final[dict[str, dict[str, Ask]]] = {
    "InitProducerId v6": {
        "plain": _init(),
        "two phases": _init(two_phase=True),
        "keep": _init(keeps=True),
        "keep with two phases": _init(keeps=True, two_phase=True),
    },
    "EndTxn v5": {"commit": _end_v2(committed=True), "abort": _end_v2(committed=False)},
    "EndTxn v0 to v4": {
        "commit": _end_v1(committed=True),
        "abort v4": _end_v1(committed=False),
        "abort v3": _end_v1(committed=False, knows_abortable=False),
    },
    "AddPartitionsToTxn v5": {
        "of another partition": _add(3, for_client=True),
        "of one that is in": _add(0, for_client=True),
        "by the client": _add(3, for_client=False),
        "verify": Ask(_verify, _kafka_verifies, ours.add_partitions_instead),
    },
    "Produce v12": {
        "to another partition": _produced(_add(3, for_client=True)),
        "to one that is in": _produced(_add(0, for_client=True)),
    },
    "TxnOffsetCommit v5": {
        "commit": Ask(
            _commit_offsets,
            lambda row, pair: kafka_rules.add_partitions(row, pair, is_in=False),
            lambda row, pair: ours.add_partitions_instead(row, pair, late=ours.ABORTABLE),
        )
    },
}


# -- the tables --------------------------------------------------------------------------------------------


def _is_fresh(made: Decision[Any]) -> bool:
    return any(
        isinstance(each, TransactionStateRecord) and FRESH in (each.producer_id, each.next_producer_id)
        for each in made.records
    )


def _decided(ask: Ask, view: View, pair: Pair) -> Outcome:
    try:
        made = ask.decide(view, pair)
    except ApiError as refusal:
        return refused(ask.code(int(refusal.code)))
    written = None
    for each in made.records:
        if isinstance(each, TransactionStateRecord):
            own = (each.producer_id, each.producer_epoch)
            other = (each.next_producer_id, each.next_producer_epoch)
            written = (State(each.status), own, own if each.next_producer_epoch == -1 else other)
    said = made.response
    if isinstance(said, ApiError | ErrorCode):
        code = said.code if isinstance(said, ApiError) else said
        return Outcome(ask.code(int(code)), None, written)
    pairs = [
        (getattr(said, f"{of}producer_id"), getattr(said, f"{of}producer_epoch"))
        for of in ("", "ongoing_")
        if getattr(said, f"{of}producer_id", -1) != -1
    ]
    return Outcome(0, tuple(each for pair in pairs for each in pair) or None, written)


def _image(view: View) -> list[object]:
    tables: tuple[Table[Any, Any], ...] = TRANSACTION_TABLES
    return [list(view.items(table)) for table in tables]


def _differences(
    name: str, ask: Ask, world: Told, known: Known, pairs: Collection[Pair], seen: Counter[str]
) -> Iterator[str]:
    for pair in pairs:
        kafka = ask.kafka(known, pair)
        deviation = ask.instead(known, pair)
        expected = kafka if deviation is None else deviation.outcome
        if deviation is not None and expected != kafka:
            seen[deviation.reason] += 1
        seen["cases"] += 1
        came = _decided(ask, world.view, pair)
        if came != expected:
            why = "Kafka's" if deviation is None else deviation.reason
            yield f"{name} {pair}: {came}, expected {expected} ({why}), Kafka: {kafka}"


def compared(apis: Collection[str], epoch: int, steps_max: int) -> dict[str, Counter[str]]:
    """API -> how often each deviation shows. Raises AssertionError with what differs from every rule."""
    seen: dict[str, Counter[str]] = {api: Counter() for api in apis}
    failures: list[str] = []
    for start, row in starts(epoch).items():
        for path, world in reachable(row, steps_max):
            known, image = world.known(), _image(world.view)
            pairs = pairs_of(known)
            for api in apis:
                for name, ask in REQUESTS[api].items():
                    found = _differences(name, ask, world, known, pairs, seen[api])
                    failures += [f"{api}, {start} at {epoch}, {path}: {each}" for each in found]
                assert _image(world.view) == image, f"a decision on {api} changed the image"
            assert len(failures) < FAILURES_SHOWN, "\n".join(failures)
    assert not failures, "\n".join(failures)
    return seen


PRESENTED: Final = {"given-out", "late", "remembered"}
DEVIATIONS: Final = {
    "InitProducerId v6": {"given-out", "late", "same", "own", "retry", "reserved"},
    "EndTxn v5": {*PRESENTED, "own", "same", "unnamed"},
    "EndTxn v0 to v4": PRESENTED,
    "AddPartitionsToTxn v5": {*PRESENTED, "kept"},
    "Produce v12": {*PRESENTED, "kept"},
    "TxnOffsetCommit v5": {*PRESENTED, "kept"},
}
"""Keys of ``ours.REASONS``."""


@pytest.mark.row("360.2", "588.4", "939.10")
@pytest.mark.parametrize("api", REQUESTS)
def test_every_pair_in_every_row(api: str) -> None:
    (seen,) = compared([api], 32766, 3).values()
    assert seen.pop("cases") > 10_000
    assert set(seen) == DEVIATIONS[api]
    assert set(seen) <= set(ours.REASONS)


@pytest.mark.slow
@pytest.mark.parametrize("epoch", EPOCHS)
def test_every_pair_in_every_row_of_more_steps(epoch: int) -> None:
    for api, seen in compared(REQUESTS, epoch, STEPS_MAX).items():
        assert set(seen) <= {"cases", *DEVIATIONS[api]}
