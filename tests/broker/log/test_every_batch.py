"""Every batch to a partition in every state that it may have of its producer: Kafka's answer, or why not.

Kafka's rules (docs/kafka-notes.md C1, C2) are written down here; what differs is named. Epochs are 5 and the
last ones: a marker of transactions V2 has an epoch further than its batches, up to 32767, and after it the
next one begins with sequence 0. A refusal changes nothing.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import product
from typing import Final, NamedTuple

from fencepost.broker.log.producer_state import ProducerStates
from fencepost.broker.log.shapes import VerificationGuard
from fencepost.controller.errors import ApiError
from fencepost.records.batch import BatchHeader, batch_header
from fencepost.records.end_marker import EndMarker
from fencepost.records.types import ImageVersion, Offset, ProducerId
from tests.broker.log.builders import NOW_MS, batch
from tests.together import Together

P = ProducerId(7)
EPOCHS: Final = (5, 32764, 32765, 32766)
STALE: Final = VerificationGuard(-7)
APPENDED: Final = 0
DUPLICATE: Final = 1
INVALID_EPOCH: Final = 47
WRONG_STATE: Final = 48
OUT_OF_ORDER: Final = 45


class Knows(NamedTuple):
    """What a partition knows of its producer. ``epoch`` -1: nothing; ``last`` -1: no batch of that epoch."""

    epoch: int = -1
    last: int = -1
    is_open: bool = False
    was_transactional: bool = False


class Sent(NamedTuple):
    """A batch of one record. ``guard``: "none", "right" of a verification, or "stale"."""

    epoch: int
    sequence: int
    is_transactional: bool
    guard: str
    is_v2: bool = False


def is_repeat(knows: Knows, sent: Sent) -> bool:
    return sent.epoch == knows.epoch and 0 <= sent.sequence <= knows.last


def kafka(knows: Knows, sent: Sent, *, repeats: bool = True) -> int:
    """C1 in its order."""
    if repeats and is_repeat(knows, sent):
        return DUPLICATE
    if sent.is_transactional and not knows.is_open and sent.guard != "right":
        return WRONG_STATE
    if sent.epoch < knows.epoch:
        return INVALID_EPOCH
    if knows.epoch == -1:
        is_late = sent.guard == "right" and sent.is_v2 and sent.sequence != 0
        return OUT_OF_ORDER if is_late else APPENDED
    expected = 0 if sent.epoch != knows.epoch else knows.last + 1
    if sent.sequence != expected:
        return OUT_OF_ORDER
    return WRONG_STATE if knows.is_open and not sent.is_transactional else APPENDED


def instead(knows: Knows, sent: Sent) -> tuple[str, int] | None:
    """What fencepost answers otherwise, and why."""
    if is_repeat(knows, sent) and sent.is_transactional != knows.was_transactional:
        # Another client's plain batch with this producer's epoch repeats none of its transaction's.
        return "another kind", kafka(knows, sent, repeats=False)
    if sent.is_transactional and knows.is_open and sent.epoch > knows.epoch and sent.guard != "right":
        # Kafka lets an epoch that was not verified into the transaction of the one before it.
        return "a newer epoch in an open transaction", WRONG_STATE
    return None


def states_of(knows: Knows) -> ProducerStates:
    """A partition that got there by batches and markers."""
    states = ProducerStates()
    if knows.epoch == -1:
        return states
    if knows.last == -1:
        took(states, knows.epoch - 1, 0, is_transactional=True)
        states.take_marker(marker(knows.epoch), Offset(1), NOW_MS, NOW_MS)
        return states
    for sequence in range(knows.last + 1):
        took(states, knows.epoch, sequence, is_transactional=knows.was_transactional)
    if knows.was_transactional and not knows.is_open:
        states.take_marker(marker(knows.epoch, bumps_epoch=False), Offset(9), NOW_MS, NOW_MS)
    return states


def took(states: ProducerStates, epoch: int, sequence: int, *, is_transactional: bool) -> None:
    states.take(header_of(Sent(epoch, sequence, is_transactional, "none")), Offset(sequence), NOW_MS)


def marker(epoch: int, *, bumps_epoch: bool = True) -> EndMarker:
    return EndMarker(
        producer_id=P, producer_epoch=epoch, committed=True, coordinator_epoch=1,
        version=ImageVersion(3), bumps_epoch=bumps_epoch,
    )  # fmt: skip


def header_of(sent: Sent) -> BatchHeader:
    return batch_header(batch(P, sent.sequence, epoch=sent.epoch, transactional=sent.is_transactional))


def answered(states: ProducerStates, sent: Sent) -> int:
    """As Produce goes about it. A refusal changes nothing."""
    header = header_of(sent)
    guard: VerificationGuard | None = STALE if sent.guard == "stale" else None
    if sent.guard == "right":
        guard = states.verification_guard(P, sent.epoch, sent.sequence, NOW_MS, adds=sent.is_v2)
    if states.duplicate(header) is not None:
        return DUPLICATE
    table = dict(states.table)
    try:
        states.check(header, guard, verification=True)
    except ApiError as refusal:
        assert states.table == table, "a refusal changed something"
        return int(refusal.code)
    return APPENDED


def partitions_at(epoch: int) -> Iterator[Knows]:
    yield Knows()
    yield Knows(epoch + 1)  # by a marker of V2 alone
    for last in (0, 1):
        yield Knows(epoch, last)
        yield Knows(epoch, last, is_open=True, was_transactional=True)
        yield Knows(epoch, last, was_transactional=True)


def batches_at(epoch: int) -> Iterator[Sent]:
    epochs = sorted({each for each in range(epoch - 2, epoch + 3) if each <= 32767} | {0, 32767})
    for sent in product(epochs, range(4)):
        yield Sent(*sent, is_transactional=False, guard="none")
        for guard, is_v2 in product(("none", "right", "stale"), (False, True)):
            yield Sent(*sent, is_transactional=True, guard=guard, is_v2=is_v2)


def test_every_batch_in_every_state() -> None:
    seen: Counter[str] = Counter()
    with Together() as cases:
        for epoch in EPOCHS:
            for knows, sent in product(partitions_at(epoch), batches_at(epoch)):
                expected, other = kafka(knows, sent), instead(knows, sent)
                if other is not None and other[1] != expected:
                    seen[other[0]] += 1
                    expected = other[1]
                seen["cases"] += 1
                with cases.case(f"{knows} {sent}"):
                    assert answered(states_of(knows), sent) == expected
    assert seen.pop("cases") > 5_000
    assert set(seen) == {"another kind", "a newer epoch in an open transaction"}
