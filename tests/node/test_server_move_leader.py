"""MoveLeader on the active controller: who may, what is refused, and when it begins."""

from types import SimpleNamespace
from typing import Any

import pytest

from fencepost.controller.errors import ClusterAuthorizationFailed, InvalidRequest, NotController
from fencepost.controller.migration_phase import Phase
from fencepost.records.types import NodeId
from fencepost.wire.k20055_move_leader import MOVE_LEADER, MoveLeader, MovesLeader
from tests.node.bare_server import BareServer
from tests.together import table


class Led(BareServer):
    """Node 1 leads in epoch 5; ``moves``: to whom it was to hand over."""

    def __init__(self, peers: tuple[int, ...], ready: tuple[int, ...]) -> None:
        super().__init__(Phase.NONE)
        self.moves: list[int | None] = []
        self.replica.config = SimpleNamespace(node_id=NodeId(1))
        self.replica.raft.term = 5
        self.replica.peers = list(peers)
        self.replica.succession = SimpleNamespace(successors=list(ready), move=self.moves.append)

    def request(self, to: int | None) -> tuple[Any, Any]:
        """What was submitted, and its reply."""
        self.ask(self.server.quorum.move_leader, MoveLeader(to), "User:operator")
        decide, reply = self.submitted.pop()
        return decide(self.image, 0).response, reply


@table("principal", ["User:looker", "User:broker", "User:x"])
def test_it_needs_alter(principal: str) -> None:
    stage = Led((2, 3), (2, 3))
    with pytest.raises(ClusterAuthorizationFailed):
        stage.ask(stage.server.quorum.move_leader, MoveLeader(2), principal)
    assert (stage.submitted, stage.moves) == ([], [])


@table(("to", "moves"), [(2, [2]), (None, [None]), (1, [])])
def test_it_begins_when_it_is_answered(to: int | None, moves: list[int | None]) -> None:
    stage = Led((2, 3), (2,))
    answer, reply = stage.request(to)
    assert answer == MovesLeader(1, 5, to)
    assert stage.moves == [], "the answer rides on an entry, so a node that leads no more moves nothing"
    reply(answer, 0)
    assert stage.moves == moves


def test_a_refusal_moves_nothing() -> None:
    stage = Led((2, 3), (2,))
    _, reply = stage.request(2)
    reply(NotController("it was deposed"), 0)
    assert stage.moves == []


@table(
    ("peers", "ready", "to", "why"),
    [
        ((2, 3), (2, 3), 7, "node 7 is no voter; the voters are 1, 2, 3"),
        ((2, 3), (2, 3), -1, "node -1 is no voter; the voters are 1, 2, 3"),
        ((2, 3), (2,), 3, "node 3 is not connected with its own store: it could not lead"),
        ((2, 3), (), None, "no other voter is connected with its own store: it could not lead"),
        ((), (), None, "node 1 is the only voter"),
    ],
)
def test_what_cannot_be_is_refused_with_the_reason(
    peers: tuple[int, ...], ready: tuple[int, ...], to: int | None, why: str
) -> None:
    stage = Led(peers, ready)
    with pytest.raises(InvalidRequest) as refused:
        stage.request(to)
    assert str(refused.value) == why
    assert stage.moves == []


def test_the_api_is_served() -> None:
    assert MOVE_LEADER.key in Led((2, 3), ()).server.service
