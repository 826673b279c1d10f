"""LogLevels on the active controller: who may ask, and what the decision is made of."""

from typing import Any

import pytest

from fencepost.controller.errors import ClusterAuthorizationFailed, InvalidRequest
from fencepost.controller.levels import LogLevels
from fencepost.controller.migration_phase import Phase
from fencepost.controller.replay import replay_record
from fencepost.controller.voters import voters_record
from fencepost.records.types import NodeId
from fencepost.wire.k20057_log_levels import LOG_LEVELS, AskLogLevels
from tests.controller.test_levels import BOUND
from tests.node.bare_server import BareServer
from tests.together import table

MAY = [
    pytest.param("User:operator", {None, 1}, id="alter"),
    pytest.param("User:looker", {None}, id="describe"),
    pytest.param("User:broker", {None}, id="cluster-action"),
    pytest.param("User:x", set(), id="nothing"),
]


class Levelled(BareServer):
    """A replica with three bound voters that read these levels."""

    def __init__(self, highest: dict[NodeId, int]) -> None:
        super().__init__(Phase.NONE)
        self.replica.highest_levels = highest
        replay_record(self.image, voters_record(BOUND))

    def decided(self, request: AskLogLevels) -> Any:
        self.ask(self.server.features.log_levels, request, "User:operator")
        decide, _ = self.submitted.pop()
        return decide(self.image, 0)


@table("level", [None, 1])
@table(("principal", "may"), MAY)
def test_raising_needs_alter(level: int | None, principal: str, may: set[int | None]) -> None:
    stage = Levelled(dict.fromkeys(BOUND, 1))
    if level in may:
        stage.ask(stage.server.features.log_levels, AskLogLevels(level), principal)
        assert stage.submitted
    else:
        with pytest.raises(ClusterAuthorizationFailed):
            stage.ask(stage.server.features.log_levels, AskLogLevels(level), principal)
        assert not stage.submitted


def test_who_is_connected_counts_when_it_is_decided() -> None:
    stage = Levelled(dict.fromkeys(BOUND, 1))
    stage.ask(stage.server.features.log_levels, AskLogLevels(1), "User:operator")
    stage.replica.highest_levels = {NodeId(1): 1, NodeId(2): 1}  # it went while the request waited
    decide, _ = stage.submitted.pop()
    with pytest.raises(InvalidRequest, match="node 3 is not connected"):
        decide(stage.image, 0)
    assert isinstance(stage.decided(AskLogLevels()).response, LogLevels)


def test_the_api_is_served() -> None:
    assert LOG_LEVELS.key in Levelled({NodeId(1): 1}).server.service
