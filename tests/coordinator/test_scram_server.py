"""Users' SCRAM credentials on the active controller: who may, and what a broker alone follows."""

from typing import Any

import pytest

from fencepost.controller import levels, scram
from fencepost.controller.acl_errors import ClusterOperationDenied
from fencepost.controller.authorization import Acls
from fencepost.controller.errors import ApiError, ClusterAuthorizationFailed
from fencepost.controller.features import FEATURES, FeatureLevel
from fencepost.controller.replay import replay_record
from fencepost.controller.scram_types import AlterScram, DescribeScram, Mechanism, ScramUpsertion
from fencepost.controller.view import Overlay
from fencepost.coordinator import scram_server
from fencepost.coordinator.scram_server import ScramServer
from fencepost.records.levels import SCRAM_USERS
from fencepost.wire.dispatch import Context, Proof
from fencepost.wire.k20051_follow_scram_users import FollowedScramUsers, FollowScramUsers
from tests.controller.worlds import image

PROVED = Proof(proved=True)


class Stage:
    """A controller whose decisions are applied at once."""

    def __init__(self, acls: Acls = Acls()) -> None:  # noqa: B008 - it is frozen
        self.image: Overlay = image()
        self.image.put(FEATURES, levels.LOG_LEVEL, FeatureLevel(SCRAM_USERS))
        self.server = ScramServer(self._submit, acls)

    def _submit(self, decide: Any, reply: Any, **_how: Any) -> None:
        try:
            decision = decide(Overlay(self.image), 0)
        except ApiError as refusal:
            reply(refusal, 0)
            return
        for record in decision.records:
            replay_record(self.image, record)
        reply(decision.response, 0)

    def send(self, endpoint: Any, request: Any, principal: str = "User:a", proof: Proof = PROVED) -> Any:
        answers: list[Any] = []
        context = Context(principal, "CONTROLLER", None, "127.0.0.1:1", proof)
        endpoint(request, context, lambda outcome, _ms=0: answers.append(outcome))
        return answers[0]

    def set(self, *names: str) -> None:
        upsertions = tuple(ScramUpsertion(each, 1, 4096, b"salt", b"p" * 32) for each in names)
        self.send(self.server.alter, AlterScram((), upsertions))

    def follow(
        self, known: int, after: tuple[str, int] = ("", 0), proof: Proof = PROVED
    ) -> FollowedScramUsers:
        found: FollowedScramUsers = self.send(
            self.server.follow, FollowScramUsers(known, *after), proof=proof
        )
        return found


def test_a_broker_follows_page_after_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scram_server, "PAGE_ROWS", 2)
    stage = Stage()
    assert stage.follow(-1) == FollowedScramUsers(0, ())
    assert stage.follow(0) == FollowedScramUsers(0)
    stage.set("a", "b", "c")
    first = stage.follow(0)
    assert first.users is not None
    assert ([each.user for each in first.users], first.has_more, first.changes) == (["a", "b"], True, 3)
    second = stage.follow(0, ("b", 1))
    assert second.users is not None
    assert ([each.user for each in second.users], second.has_more) == (["c"], False)
    assert second.users[0].stored_key == scram.find(stage.image, "c", Mechanism(1)).stored_key  # type: ignore[union-attr]
    assert stage.follow(3) == FollowedScramUsers(3)


def test_credentials_go_to_connections_alone_that_proved_the_secret() -> None:
    stage = Stage()
    with pytest.raises(ClusterOperationDenied):
        stage.follow(-1, proof=Proof())


def test_an_acl_file_says_who_may() -> None:
    acls = Acls.parse("User:op ALTER\nUser:looker DESCRIBE\nUser:broker CLUSTER_ACTION\n")
    stage = Stage(acls)
    for principal, may_look, may_alter in (
        ("User:op", True, True),
        ("User:looker", True, False),
        ("User:broker", True, True),
        ("User:mallory", False, False),
    ):
        for endpoint, request, may in (
            (stage.server.describe, DescribeScram(), may_look),
            (stage.server.alter, AlterScram(), may_alter),
            (stage.server.follow, FollowScramUsers(-1), principal == "User:broker"),
        ):
            if may:
                stage.send(endpoint, request, principal)
            else:
                with pytest.raises(ClusterAuthorizationFailed):
                    stage.send(endpoint, request, principal)
