"""The upgrade from ZooKeeper as decisions: each command in each phase, each refusal with its reason."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.controller import migration, producer_ids
from fencepost.controller.decision import Decision
from fencepost.controller.errors import ApiError, InvalidRequest
from fencepost.controller.migration_phase import MIGRATION, Intent, Migration, Phase, current
from fencepost.controller.producer_ids import ProducerIdBlock
from fencepost.controller.replay import replay_record
from fencepost.controller.view import Overlay
from fencepost.records.invariant import InvariantViolation
from fencepost.records.schema import AllocateProducerIdsRecord
from fencepost.records.types import PRODUCER_ID_MAX
from tests.controller.migration_worlds import (
    INTENT,
    LAST_ID,
    OTHER_ZK,
    REQUEST,
    ZK,
    Decide,
    block,
    bridge,
    fence,
    finalize,
    import_,
    import_from_stopped,
    replayed,
    rolled_back,
    row,
    state,
    stop,
    switch,
    theirs,
    world,
)
from tests.controller.worlds import allocated, image
from tests.together import table

# -- commands ----------------------------------------------------------------------------------------------

NEWER = Intent(block_end=5999, zk_version=8)

STEPS = [
    # the way forward
    pytest.param(world(Phase.WAITING), bridge(), row(Phase.BRIDGE), None, id="bridge"),
    pytest.param(world(Phase.BRIDGE), import_(), row(Phase.IMPORTED, 5000), 5000, id="import"),
    pytest.param(
        world(Phase.BRIDGE), import_(-1), row(Phase.IMPORTED), None, id="import-where-there-is-no-block"
    ),
    pytest.param(
        world(Phase.BRIDGE, end=9000),
        import_(),
        row(Phase.IMPORTED, 9000),
        None,
        id="import-below-what-the-log-has",
    ),
    pytest.param(
        world(Phase.BRIDGE),
        import_(at_least=7001),
        row(Phase.IMPORTED, 7001),
        7001,
        id="import-where-logs-show-higher-ids",
    ),
    pytest.param(
        world(Phase.IMPORTED, end=5000, floor=5000),
        import_(6999),
        row(Phase.IMPORTED, 7000),
        7000,
        id="import-again-later",
    ),
    pytest.param(
        world(Phase.IMPORTED, end=5000, floor=5000),
        fence(),
        row(Phase.FENCING, 5000, INTENT),
        None,
        id="fence-intent",
    ),
    pytest.param(
        world(Phase.FENCING, end=5000, floor=5000),
        fence(NEWER),
        row(Phase.FENCING, 5000, NEWER),
        None,
        id="a-new-intent-replaces-the-last",
    ),
    pytest.param(
        world(Phase.FENCING, end=4000, floor=4000),
        switch(),
        row(Phase.QUORUM, 5000, INTENT),
        5000,
        id="switch-to-block-end-plus-1",
    ),
    pytest.param(
        world(Phase.FENCING, end=9000, floor=9000),
        switch(),
        row(Phase.QUORUM, 9000, INTENT),
        None,
        id="switch-below-what-logs-show",
    ),
    pytest.param(
        world(Phase.FENCING, intent=Intent(-1, 0)),
        switch(Intent(-1, 0)),
        row(Phase.QUORUM, 0, Intent(-1, 0)),
        None,
        id="switch-where-there-was-no-block",
    ),
    pytest.param(
        world(Phase.QUORUM, end=8000, floor=5000),
        finalize(),
        row(Phase.FINALIZED, 5000, INTENT),
        None,
        id="finalize",
    ),
    pytest.param(
        world(Phase.QUORUM, end=8000, floor=5000),
        finalize(None, is_stopped=True),
        row(Phase.FINALIZED, 5000, INTENT),
        None,
        id="finalize-by-the-word-that-zookeeper-is-stopped",
    ),
    pytest.param(
        world(Phase.FENCING, end=4000, floor=4000),
        fence(Intent(3999, 9)),
        row(Phase.FENCING, 5000, Intent(3999, 9)),
        None,
        id="an-intent-below-the-last-keeps-what-the-last-one-knew",
    ),
    # from files
    pytest.param(
        world(Phase.WAITING),
        import_from_stopped(),
        row(Phase.QUORUM, 5000),
        5000,
        id="import-from-a-stopped-zookeeper",
    ),
    pytest.param(
        world(Phase.IMPORTED, end=2000, floor=2000),
        import_from_stopped(),
        row(Phase.QUORUM, 5000),
        5000,
        id="zookeeper-stopped-after-the-import",
    ),
    pytest.param(
        world(Phase.FENCING, end=2000),
        import_from_stopped(3999),
        row(Phase.QUORUM, 5000),
        5000,
        id="zookeeper-stopped-during-the-fence-counts-the-intent",
    ),
    pytest.param(
        world(Phase.ROLLING_BACK, end=7000, floor=5000),
        import_from_stopped(3999),
        row(Phase.QUORUM, 7000),
        None,
        id="zookeeper-stopped-during-the-rollback-counts-what-the-quorum-gave",
    ),
    # back
    pytest.param(
        world(Phase.IMPORTED, end=5000, floor=5000),
        stop(),
        row(Phase.BRIDGE, 5000),
        None,
        id="rollback-of-an-import",
    ),
    pytest.param(
        world(Phase.FENCING, end=5000), stop(), row(Phase.ROLLING_BACK, 0, INTENT), None, id="stop-of-a-fence"
    ),
    pytest.param(
        world(Phase.QUORUM, end=8000, floor=5000),
        stop(),
        row(Phase.ROLLING_BACK, 5000, INTENT),
        None,
        id="stop-of-the-quorum",
    ),
    pytest.param(
        world(Phase.ROLLING_BACK, end=8000, floor=5000),
        rolled_back,
        row(Phase.BRIDGE, 5000),
        None,
        id="rolled-back",
    ),
]

AGAIN = [
    pytest.param(world(Phase.BRIDGE), bridge(), id="bridge"),
    pytest.param(world(Phase.IMPORTED), bridge(), id="bridge-after-the-import"),
    pytest.param(world(Phase.IMPORTED, end=5000, floor=5000), import_(), id="import"),
    pytest.param(world(Phase.FENCING), fence(), id="fence-intent"),
    pytest.param(world(Phase.QUORUM, floor=5000), switch(), id="switch"),
    pytest.param(world(Phase.FINALIZED), finalize(), id="finalize"),
    pytest.param(world(Phase.ROLLING_BACK), stop(), id="stop"),
    pytest.param(world(Phase.BRIDGE), stop(), id="rollback-where-zookeeper-allocates"),
    pytest.param(world(Phase.BRIDGE), rolled_back, id="rolled-back"),
    pytest.param(world(Phase.QUORUM, floor=5000), import_from_stopped(), id="import-from-stopped"),
    pytest.param(
        world(Phase.FINALIZED, floor=5000), import_from_stopped(), id="import-from-stopped-after-the-end"
    ),
]

REFUSED = [
    pytest.param(world(None, end=1000), bridge(), "gives out producer ids by itself", id="no-upgrade"),
    pytest.param(world(None), fence(), "zookeeper.metadata.migration.enable", id="fence-no-upgrade"),
    pytest.param(world(Phase.QUORUM), bridge(), "next: fencepost migrate finalize", id="bridge-too-late"),
    pytest.param(world(Phase.ROLLING_BACK), bridge(), "migrate rollback", id="bridge-in-a-rollback"),
    pytest.param(world(Phase.FINALIZED), bridge(), "the upgrade is over", id="bridge-after-the-end"),
    pytest.param(world(Phase.WAITING), import_(), "next: fencepost migrate bridge", id="import-too-early"),
    pytest.param(world(Phase.FENCING), import_(), "next: fencepost migrate fence", id="import-in-a-fence"),
    pytest.param(world(Phase.QUORUM), import_(), "phase is quorum", id="import-too-late"),
    pytest.param(world(Phase.BRIDGE), fence(), "next: fencepost migrate import", id="fence-too-early"),
    pytest.param(world(Phase.WAITING), fence(), "next: fencepost migrate bridge", id="fence-at-the-start"),
    pytest.param(world(Phase.ROLLING_BACK), fence(), "migrate rollback", id="fence-in-a-rollback"),
    pytest.param(world(Phase.IMPORTED), switch(), "phase is imported", id="switch-without-intent"),
    pytest.param(world(Phase.ROLLING_BACK), switch(), "phase is rolling-back", id="switch-in-a-rollback"),
    pytest.param(world(Phase.BRIDGE), switch(), "phase is bridge", id="switch-after-a-rollback"),
    pytest.param(world(Phase.FENCING), switch(NEWER), "holds the intent", id="switch-of-another-intent"),
    pytest.param(world(Phase.IMPORTED), finalize(), "next: fencepost migrate fence", id="finalize-too-early"),
    pytest.param(world(Phase.FENCING), finalize(), "next: fencepost migrate fence", id="finalize-in-a-fence"),
    pytest.param(world(Phase.WAITING), stop(), "next: fencepost migrate bridge", id="rollback-of-nothing"),
    pytest.param(world(Phase.FINALIZED), stop(), "the upgrade is over", id="rollback-after-the-end"),
    pytest.param(world(Phase.QUORUM), rolled_back, "phase is quorum", id="rolled-back-without-stop"),
    pytest.param(world(Phase.QUORUM), finalize(None), "saw None", id="finalize-without-a-fence"),
    pytest.param(world(Phase.QUORUM), finalize(NEWER), "saw Intent", id="finalize-with-another-fence"),
    pytest.param(
        world(Phase.QUORUM, floor=5000),
        import_from_stopped(9999),
        "phase is quorum",
        id="from-stopped-higher",
    ),
    # another ensemble
    pytest.param(world(Phase.BRIDGE), bridge(OTHER_ZK), "another-zk; look at", id="bridge-elsewhere"),
    pytest.param(world(Phase.BRIDGE), import_(ensemble=OTHER_ZK), "of another-zk", id="import-elsewhere"),
    pytest.param(world(Phase.IMPORTED), fence(ensemble=OTHER_ZK), "of another-zk", id="fence-elsewhere"),
    pytest.param(world(Phase.QUORUM), stop(OTHER_ZK), "of another-zk", id="rollback-elsewhere"),
    pytest.param(
        world(Phase.IMPORTED), import_from_stopped(ensemble=OTHER_ZK), "of anoth", id="files-of-others"
    ),
    pytest.param(world(Phase.WAITING), bridge(""), "name of a ZooKeeper ensemble", id="bridge-to-no-name"),
    pytest.param(
        world(Phase.WAITING),
        bridge("z" * (migration.ENSEMBLE_CHARACTERS_MAX + 1)),
        "name of a ZooKeeper ensemble",
        id="one-character-too-many",
    ),
    # the end of the ids
    pytest.param(world(Phase.BRIDGE), import_(LAST_ID), "leaves no producer id", id="import-of-the-last-id"),
    pytest.param(
        world(Phase.BRIDGE), import_(-2), "a block that ends at -2", id="import-of-less-than-nothing"
    ),
    pytest.param(
        world(Phase.BRIDGE), import_(at_least=LAST_ID + 1), "leaves no producer id", id="a-floor-past-the-end"
    ),
    pytest.param(
        world(Phase.IMPORTED), fence(Intent(LAST_ID, 3)), "leaves no producer id", id="fence-of-the-last-id"
    ),
]


@table(("view", "decide", "expected", "end"), STEPS)
def test_a_step(view: Overlay, decide: Decide, expected: Migration, end: int | None) -> None:
    """``end``: where the ids go on if the step says so; the ids before it are recorded as theirs."""
    before, end_before = current(view), producer_ids.latest(view).end
    decided = decide(view)
    assert current(view) == before, "a decision changes nothing"
    assert decided.response == expected
    assert [r for r in decided.records if isinstance(r, AllocateProducerIdsRecord)] == (
        [] if end is None else [theirs(end)]
    )
    assert current(replayed(view, decided.records)) == expected
    assert producer_ids.latest(view).end == (end_before if end is None else end)


@table(("view", "decide"), AGAIN)
def test_a_step_taken_already_writes_nothing(view: Overlay, decide: Decide) -> None:
    assert decide(view) == Decision((), current(view))


@table(("view", "decide", "says"), REFUSED)
def test_a_step_out_of_order_is_refused_with_the_reason(view: Overlay, decide: Decide, says: str) -> None:
    with pytest.raises(InvalidRequest, match=says):
        decide(view)


def test_an_ensemble_name_at_the_limit_is_taken() -> None:
    name = "z" * migration.ENSEMBLE_CHARACTERS_MAX
    assert migration.decide_bridge(world(Phase.WAITING), name).response.ensemble == name


def test_the_last_floor_that_leaves_an_id() -> None:
    view = world(Phase.BRIDGE)
    decided = migration.decide_import(view, PRODUCER_ID_MAX - 2, ZK)
    assert decided.response.floor == PRODUCER_ID_MAX - 1
    assert migration.decide_import(view, PRODUCER_ID_MAX - 1, ZK).response.floor == PRODUCER_ID_MAX


# -- the beginning -----------------------------------------------------------------------------------------


@table(
    ("view", "migrating", "expected"),
    [
        pytest.param(image(), True, [Phase.WAITING], id="a-new-cluster-for-the-upgrade"),
        pytest.param(image(), False, [], id="a-new-cluster"),
        pytest.param(image(allocated(1000)), True, [], id="ids-were-given-out"),
        pytest.param(world(Phase.QUORUM), True, [], id="the-upgrade-is-under-way"),
        pytest.param(world(Phase.WAITING), True, [], id="it-waits-already"),
    ],
)
def test_a_cluster_made_for_the_upgrade_waits(view: Overlay, migrating: bool, expected: list[Phase]) -> None:
    records = migration.bootstrap_records(view, migrating=migrating)
    assert [record.phase for record in records] == expected


# -- replay ------------------------------------------------------------------------------------------------


@table(
    ("phase", "kafkas"),
    [(0, 0), (1, 1), (2, 1), (3, 1), (4, 2), (5, 2), (6, 3), (7, 2)],
    ids=[phase.label for phase in Phase],
)
def test_the_record_says_kafkas_state_and_comes_back(phase: int, kafkas: int) -> None:
    view = world(Phase(phase), floor=5000, intent=INTENT)
    record = migration.state_record(view)
    assert record is not None
    assert record.zk_migration_state == kafkas
    assert current(replayed(image(), [record])) == current(view)


def test_a_cluster_without_upgrade_has_no_record() -> None:
    assert migration.state_record(image()) is None


def test_a_floor_that_goes_back_is_our_bug() -> None:
    view = world(Phase.IMPORTED, floor=5000)
    with pytest.raises(InvariantViolation, match="floor went back"):
        replay_record(view, state(Phase.IMPORTED, 4999))


# -- laws --------------------------------------------------------------------------------------------------

ends = st.integers(-1, 30_000)
steps: st.SearchStrategy[Decide] = st.one_of(
    st.just(bridge()),
    st.builds(import_, ends, st.just(ZK), st.integers(0, 30_000)),
    st.builds(import_from_stopped, ends, st.just(ZK)),
    st.builds(lambda end: fence(Intent(end, 7)), ends),
    st.builds(lambda end: switch(Intent(end, 7)), ends),
    st.sampled_from([finalize(), stop(), rolled_back]),
    st.builds(
        lambda first, length: (
            lambda view: migration.decide_bridged_block(view, REQUEST, block(first, length))
        ),
        st.integers(0, 30_000),
        st.integers(1, 2000),
    ),
    st.builds(
        lambda length: lambda view: producer_ids.decide_allocate(view, REQUEST, length), st.integers(1, 2000)
    ),
)


@given(st.lists(steps, max_size=40))
def test_whatever_is_tried_ids_and_floor_only_grow(tried: list[Decide]) -> None:
    view = world(Phase.WAITING)
    for decide in tried:
        end, floor = producer_ids.latest(view).end, current(view).floor
        try:
            decided = decide(view)
        except ApiError:
            continue
        replayed(view, decided.records)
        assert current(view).floor >= floor
        assert producer_ids.latest(view).end >= max(end, current(view).floor)
        if isinstance(decided.response, ProducerIdBlock):
            assert decided.response.first >= end
        assert view.get(MIGRATION, 0) is not None
