"""Producer ids: every success, every refusal, the boundary, and that no id is ever handed out twice."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.controller import producer_ids
from fencepost.controller.errors import ApiError, ErrorCode, ProducerIdsExhausted, StaleBrokerEpoch
from fencepost.controller.producer_ids import (
    BLOCK_LENGTH_DEFAULT,
    NOTHING_ALLOCATED,
    AllocateProducerIds,
    ProducerIdBlock,
    ProducerIds,
    decide_allocate,
    latest,
)
from fencepost.controller.view import Overlay
from fencepost.records.invariant import InvariantViolation
from fencepost.records.schema import AllocateProducerIdsRecord
from fencepost.records.types import PRODUCER_ID_MAX, BrokerEpoch, BrokerId, ProducerId
from tests.controller.worlds import allocated, image, registered
from tests.together import table


def ids(end: int = 0) -> Overlay:
    """Broker 1 is registered with epoch 100; every id below ``end`` is handed out."""
    return image(registered(1, 100), *([allocated(end)] if end else []))


def ask(broker_id: int = 1, broker_epoch: int = 100) -> AllocateProducerIds:
    return AllocateProducerIds(BrokerId(broker_id), BrokerEpoch(broker_epoch))


def block(first: int, length: int = 1000) -> ProducerIdBlock:
    return ProducerIdBlock(ProducerId(first), length)


LAST = PRODUCER_ID_MAX - 1000  # the first id of the last whole block

CASES = [
    pytest.param(ids(), ask(), 1000, block(0), id="the-first-block"),
    pytest.param(ids(1000), ask(), 1000, block(1000), id="the-next-block"),
    pytest.param(ids(1234), ask(), 1000, block(1234), id="a-block-after-an-odd-end"),
    pytest.param(ids(1000), ask(), 1, block(1000, 1), id="a-block-of-one"),
    pytest.param(ids(LAST), ask(), 1000, block(LAST), id="the-last-whole-block"),
    pytest.param(ids(PRODUCER_ID_MAX - 1), ask(), 1, block(PRODUCER_ID_MAX - 1, 1), id="the-last-id-alone"),
    pytest.param(
        image(registered(1, 100, fenced=True)), ask(), 1000, block(0), id="a-fenced-broker-may-allocate"
    ),
    pytest.param(ids(LAST + 1), ask(), 1000, ProducerIdsExhausted, id="one-id-short-of-a-block"),
    pytest.param(ids(PRODUCER_ID_MAX), ask(), 1, ProducerIdsExhausted, id="nothing-left"),
    pytest.param(ids(), ask(broker_epoch=99), 1000, StaleBrokerEpoch, id="an-older-epoch"),
    pytest.param(ids(), ask(broker_epoch=101), 1000, StaleBrokerEpoch, id="an-epoch-of-the-future"),
    pytest.param(ids(), ask(broker_epoch=-1), 1000, StaleBrokerEpoch, id="no-epoch"),
    pytest.param(ids(), ask(broker_id=2), 1000, StaleBrokerEpoch, id="an-unknown-broker"),
    pytest.param(ids(), ask(broker_id=-1), 1000, StaleBrokerEpoch, id="a-negative-broker"),
    pytest.param(image(), ask(), 1000, StaleBrokerEpoch, id="no-broker-at-all"),
]


@table(("view", "request_", "length", "expected"), CASES)
def test_allocate(
    view: Overlay,
    request_: AllocateProducerIds,
    length: int,
    expected: ProducerIdBlock | type[ApiError],
) -> None:
    before = latest(view)
    if isinstance(expected, type):
        with pytest.raises(expected):
            decide_allocate(view, request_, length)
    else:
        decision = decide_allocate(view, request_, length)
        assert decision.response == expected
        assert decision.records == (
            AllocateProducerIdsRecord(
                broker_id=request_.broker_id,
                broker_epoch=request_.broker_epoch,
                producer_id_end=ProducerId(expected.first + length),
            ),
        )
    assert latest(view) == before, "a decision changes nothing"


def test_an_exhausted_space_is_an_unknown_server_error_and_a_stale_epoch_is_77() -> None:
    """Row 730.4."""
    assert ProducerIdsExhausted.code is ErrorCode(-1)
    assert StaleBrokerEpoch.code is ErrorCode(77)


def test_the_last_block_ends_exactly_at_the_largest_id() -> None:
    """Kafka: first == MAX - length is allowed, the end becomes MAX; nothing can be had after it."""
    view = ids(LAST)
    (record,) = decide_allocate(view, ask(), 1000).records
    assert isinstance(record, AllocateProducerIdsRecord)
    assert record.producer_id_end == PRODUCER_ID_MAX
    producer_ids.replay(view, record)
    with pytest.raises(ProducerIdsExhausted, match=str(PRODUCER_ID_MAX)):
        decide_allocate(view, ask(), 1)


def test_the_default_length_is_kafkas() -> None:
    assert BLOCK_LENGTH_DEFAULT == 1000


# -- replay ------------------------------------------------------------------------------------------------


def test_the_image_keeps_the_latest_block_with_who_got_it() -> None:
    """Row 730.6; Kafka forgets the broker."""
    view = image(allocated(1000, broker_id=1, epoch=100), allocated(3000, broker_id=2, epoch=200))
    assert latest(view) == ProducerIds(BrokerId(2), BrokerEpoch(200), ProducerId(1000), ProducerId(3000))
    assert list(view.items(producer_ids.PRODUCER_IDS)) == [(0, latest(view))]


def test_before_the_first_block_there_is_none() -> None:
    assert latest(image()) == NOTHING_ALLOCATED
    assert NOTHING_ALLOCATED.end == 0


@pytest.mark.parametrize(
    ("end", "holds"),
    [
        pytest.param(43, True, id="one-more"),
        pytest.param(50, True, id="a-gap"),
        pytest.param(42, False, id="the-same-end"),
        pytest.param(40, False, id="a-lower-end"),
    ],
)
def test_replay_goes_forward_only(end: int, holds: bool) -> None:
    """Upstream's cases (ProducerIdControlManagerTest): gaps are fine, equal or lower is a fault."""
    view = image(allocated(42))
    if holds:
        producer_ids.replay(view, allocated(end))
        assert latest(view).end == end
    else:
        with pytest.raises(InvariantViolation, match="producer ids went back"):
            producer_ids.replay(view, allocated(end))


# -- laws --------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 100_000)), min_size=1, max_size=50))
def test_blocks_follow_one_another_without_overlap(asked: list[tuple[int, int]]) -> None:
    """Row 730.9: a repeated request wastes a block and never repeats one."""
    view = image(*(registered(broker, broker * 100) for broker in range(1, 5)))
    end = 0
    for broker, length in asked:
        decision = decide_allocate(view, ask(broker, broker * 100), length)
        assert decision.response == block(end, length)
        for record in decision.records:
            assert isinstance(record, AllocateProducerIdsRecord)
            producer_ids.replay(view, record)
        end += length
        assert latest(view).end == end


@given(st.integers(PRODUCER_ID_MAX - 5000, PRODUCER_ID_MAX), st.integers(1, 5000))
def test_near_the_end_a_block_fits_or_nothing_is_written(end: int, length: int) -> None:
    view = ids(end)
    if end + length <= PRODUCER_ID_MAX:
        assert decide_allocate(view, ask(), length).response == block(end, length)
    else:
        with pytest.raises(ProducerIdsExhausted):
            decide_allocate(view, ask(), length)
