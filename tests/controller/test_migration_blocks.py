"""Who hands out producer ids in each phase of the upgrade, and which blocks."""

from collections.abc import Callable
from typing import Any

import pytest

from fencepost.controller import migration, producer_ids
from fencepost.controller.decision import Decision
from fencepost.controller.errors import ApiError, CoordinatorLoadInProgress, ProducerIdsExhausted
from fencepost.controller.errors import StaleBrokerEpoch as Stale
from fencepost.controller.migration_phase import BY_QUORUM, Intent, Phase
from fencepost.controller.producer_ids import AllocateProducerIds, ProducerIdBlock
from fencepost.controller.view import Overlay
from fencepost.records.logged import StateRecord
from fencepost.records.types import PRODUCER_ID_MAX, BrokerEpoch, BrokerId, ProducerId
from tests.controller.migration_worlds import INTENT, LAST_ID, REQUEST, block, replayed, theirs, world
from tests.controller.worlds import allocated
from tests.together import table


@table("phase", [None, *Phase], ids=lambda phase: "no-upgrade" if phase is None else phase.label)
def test_in_every_phase_at_most_one_side_allocates(phase: Phase | None) -> None:
    view = world(phase, end=5000, floor=5000)
    by_quorum = phase is None or phase in BY_QUORUM
    through_zookeeper = phase in (Phase.BRIDGE, Phase.IMPORTED)
    assert allocates(lambda: producer_ids.decide_allocate(view, REQUEST, 1000)) == by_quorum
    assert allocates(lambda: migration.decide_bridged_block(view, REQUEST, block(5000))) == through_zookeeper


def allocates(decide: Callable[[], Decision[ProducerIdBlock]]) -> bool:
    try:
        return decide().response == block(5000)
    except CoordinatorLoadInProgress:
        return False


BRIDGED: list[Any] = [
    pytest.param(world(Phase.BRIDGE), REQUEST, block(0), [allocated(1000)], id="the-first"),
    pytest.param(world(Phase.BRIDGE, end=3000), REQUEST, block(3000), [allocated(4000)], id="the-next"),
    pytest.param(
        world(Phase.IMPORTED, end=3000), REQUEST, block(3000, 7), [allocated(3007)], id="after-the-import"
    ),
    pytest.param(
        world(Phase.BRIDGE, end=3000),
        REQUEST,
        block(9000),
        [theirs(9000), allocated(10000)],
        id="after-blocks-of-direct-writers",
    ),
    pytest.param(
        world(Phase.BRIDGE, end=3000), REQUEST, block(2999), CoordinatorLoadInProgress, id="one-id-below"
    ),
    pytest.param(
        world(Phase.FENCING, end=3000),
        REQUEST,
        block(3000),
        CoordinatorLoadInProgress,
        id="the-bridge-was-left",
    ),
    pytest.param(
        world(Phase.BRIDGE),
        AllocateProducerIds(BrokerId(1), BrokerEpoch(99)),
        block(0),
        Stale,
        id="stale-broker",
    ),
]


@table(("view", "request_", "given_", "expected"), BRIDGED)
def test_a_block_from_zookeeper(
    view: Overlay,
    request_: AllocateProducerIds,
    given_: ProducerIdBlock,
    expected: list[StateRecord] | type[ApiError],
) -> None:
    if isinstance(expected, type):
        with pytest.raises(expected):
            migration.decide_bridged_block(view, request_, given_)
        return
    decided = migration.decide_bridged_block(view, request_, given_)
    assert decided == Decision(tuple(expected), given_)
    replayed(view, decided.records)
    latest = producer_ids.latest(view)
    assert (latest.broker_id, latest.first, latest.end) == (1, given_.first, given_.first + given_.length)


RANGES: list[Any] = [
    pytest.param(0, -1, (1000,), [block(0)], id="nothing-yet"),
    pytest.param(0, 999, (1000,), [block(1000)], id="after-the-znodes-block"),
    pytest.param(5000, 999, (1000,), [block(5000)], id="the-log-is-ahead"),
    pytest.param(0, 999, (1000, 10, 5), [block(1000), block(2000, 10), block(2010, 5)], id="several"),
    pytest.param(0, LAST_ID - 11, (10, 1), [block(LAST_ID - 10, 10)], id="as-many-as-fit"),
    pytest.param(0, LAST_ID - 11, (11,), ProducerIdsExhausted, id="one-id-short"),
    pytest.param(0, LAST_ID, (1,), ProducerIdsExhausted, id="the-last-id-is-given-out"),
]


@table(("end", "block_end", "lengths", "expected"), RANGES)
def test_the_next_range(
    end: int, block_end: int, lengths: tuple[int, ...], expected: list[ProducerIdBlock] | type[ApiError]
) -> None:
    if isinstance(expected, type):
        with pytest.raises(expected):
            migration.next_range(ProducerId(end), block_end, lengths)
    else:
        assert migration.next_range(ProducerId(end), block_end, lengths) == tuple(expected)


@table(
    ("end", "intent", "block_end", "last"),
    [
        pytest.param(8000, INTENT, 4999, 7999, id="the-quorum-gave-out-more"),
        pytest.param(2000, INTENT, -1, 4999, id="behind-the-fence-were-direct-writers"),
        pytest.param(2000, INTENT, 6999, 6999, id="the-fence-is-not-in-and-they-went-on"),
        pytest.param(0, Intent(-1, 0), -1, 999, id="nobody-ever-had-an-id"),
        pytest.param(PRODUCER_ID_MAX, INTENT, 4999, PRODUCER_ID_MAX - 1, id="everything-is-given-out"),
    ],
)
def test_the_block_that_is_handed_back(end: int, intent: Intent, block_end: int, last: int) -> None:
    given_back = migration.block_to_hand_back(world(Phase.ROLLING_BACK, end=end, intent=intent), block_end)
    assert given_back == block(last - 999)
