"""Log levels: who may raise them, to what, and what a new cluster begins with."""

import uuid

import pytest

from fencepost.controller import features, levels
from fencepost.controller.errors import InvalidRequest
from fencepost.controller.levels import LOG_LEVEL, LogLevels, VoterLevel
from fencepost.controller.replay import replay_record
from fencepost.controller.view import Overlay
from fencepost.controller.voters import decide_leader_change, voters_record
from fencepost.records.control import LeaderChange
from fencepost.records.levels import LEADER_CHANGE_0, TRANSACTIONS_V2
from fencepost.records.types import NodeId
from tests.controller.worlds import image, level
from tests.together import table

ONE, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)
BOUND = {node: uuid.UUID(int=0xD0 + node) for node in (ONE, TWO, THREE)}


def at(current: int) -> Overlay:
    """A cluster of three voters at a level."""
    view = image(level(features.METADATA_VERSION, 25), *([level(LOG_LEVEL, current)] if current else []))
    replay_record(view, voters_record(BOUND))
    return view


ALL_1 = {ONE: 1, TWO: 1, THREE: 1}
RAISED = [
    pytest.param(0, 1, ALL_1, [level(LOG_LEVEL, 1)], id="raised"),
    pytest.param(0, 2, {ONE: 2, TWO: 3, THREE: 9}, [level(LOG_LEVEL, 2)], id="by-two-and-some-read-more"),
    pytest.param(1, 1, ALL_1, [], id="is-so-already"),
    pytest.param(1, 1, {ONE: 1}, [], id="is-so-already-whoever-is-away"),
    pytest.param(0, 0, {ONE: 1}, [], id="zero-is-zero"),
    pytest.param(0, 1, ALL_1 | {NodeId(4): 0}, [level(LOG_LEVEL, 1)], id="who-does-not-vote-does-not-count"),
]
REFUSED = [
    pytest.param(0, 1, {ONE: 1, TWO: 1, THREE: 0}, "node 3 reads levels up to 0: upgrade", id="one-old"),
    pytest.param(0, 1, {ONE: 1, TWO: 1}, "node 3 is not connected", id="one-is-away"),
    pytest.param(0, 1, {ONE: 1}, "node 2 is not connected.*node 3 is not connected", id="all-others-away"),
    pytest.param(0, 2, {ONE: 2, TWO: 1, THREE: 2}, "node 2 reads levels up to 1", id="one-reads-less"),
    pytest.param(0, 2, ALL_1, "the active controller reads log levels up to 1", id="nor-this-node"),
    pytest.param(0, 2**15, ALL_1, "the active controller reads", id="more-than-a-record-holds"),
    pytest.param(1, 0, ALL_1, "never lowered", id="down"),
    pytest.param(2, 1, {ONE: 2, TWO: 2, THREE: 2}, "never lowered", id="down-by-one"),
    pytest.param(0, -1, ALL_1, "never lowered", id="below-zero"),
]


@table(("current", "wanted", "highest", "records"), RAISED)
def test_upgrade(current: int, wanted: int, highest: dict[NodeId, int], records: list[object]) -> None:
    view = at(current)
    decision = levels.decide_upgrade(view, wanted, ONE, highest)
    assert list(decision.records) == records
    assert decision.response.log_level == wanted
    for record in decision.records:
        replay_record(view, record)
    assert levels.in_force(view) == wanted
    assert levels.decide_describe(view, ONE, highest).response == decision.response


@table(("current", "wanted", "highest", "says"), REFUSED)
def test_upgrade_is_refused(current: int, wanted: int, highest: dict[NodeId, int], says: str) -> None:
    view = at(current)
    with pytest.raises(InvalidRequest, match=says):
        levels.decide_upgrade(view, wanted, ONE, highest)
    assert levels.in_force(view) == current


def test_describe_names_every_voter() -> None:
    said = levels.decide_describe(at(1), ONE, {ONE: 2, THREE: 1, NodeId(9): 5}).response
    voters = (VoterLevel(1, 2), VoterLevel(2, None), VoterLevel(3, 1))
    assert said == LogLevels(log_level=1, log_level_max=2, voters=voters)


def test_a_new_cluster_gets_the_level_it_was_formatted_at_once() -> None:
    new = image()
    assert levels.bootstrap_records(new, 1) == (level(LOG_LEVEL, 1),)
    assert levels.bootstrap_records(new, 0) == ()
    both = (level(LOG_LEVEL, TRANSACTIONS_V2), level("transaction.version", 2))
    assert levels.bootstrap_records(new, TRANSACTIONS_V2) == both
    assert levels.bootstrap_records(new, TRANSACTIONS_V2 - 1) == (level(LOG_LEVEL, TRANSACTIONS_V2 - 1),)
    assert levels.bootstrap_records(at(0), 1) == (), "an existing cluster is raised by its operator alone"


WRITTEN = [
    pytest.param(image, 0, 1, id="new-formatted-by-an-older-version"),
    pytest.param(image, LEADER_CHANGE_0, 0, id="new"),
    pytest.param(lambda: at(0), LEADER_CHANGE_0, 1, id="before-the-raise"),
    pytest.param(lambda: at(LEADER_CHANGE_0), 0, 0, id="raised"),
    pytest.param(lambda: at(LEADER_CHANGE_0 + 1), 0, 0, id="raised-further"),
]


@table(("view_of", "formatted", "version"), WRITTEN)
def test_the_version_of_a_leader_change_follows_the_level(
    view_of: object, formatted: int, version: int
) -> None:
    view = view_of()  # type: ignore[operator]
    change, *_ = decide_leader_change(view, TWO, BOUND, levels.of_leader(view, formatted))
    assert isinstance(change, LeaderChange)
    assert (change.version, change.leader_id) == (version, TWO)
    assert [voter.voter_id for voter in change.voters] == [1, 2, 3]
    directories = [voter.voter_directory_id for voter in change.voters]
    assert directories == ([*BOUND.values()] if version else [None] * 3)
