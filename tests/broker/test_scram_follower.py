"""A broker whose node is no voter takes over users' credentials, whole."""

import asyncio
from random import Random
from typing import Any, cast

from fencepost.broker import scram_follower
from fencepost.broker.scram_follower import ScramFollower
from fencepost.controller.scram_types import Mechanism, StoredCredential
from fencepost.wire.client import ControllerClient, RequestTimeout
from fencepost.wire.k20051_follow_scram_users import FollowedScramUsers, FollowedUser, FollowScramUsers
from tests.broker.fake_controller import captured_log

S256 = Mechanism.SCRAM_SHA_256


def user(name: str, iterations: int = 4096) -> FollowedUser:
    return FollowedUser(name, S256, iterations, b"s", b"k", b"v")


class Script:
    """Answers one request after the other; then the follower is cancelled."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.requests: list[FollowScramUsers] = []
        self.over = asyncio.Event()

    async def call(self, _api: Any, request: FollowScramUsers, *, timeout_s: float) -> Any:
        self.requests.append(request)
        if not self.answers:
            self.over.set()
            await asyncio.Event().wait()
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def follow(*answers: Any) -> tuple[ScramFollower, Script]:
    async def run() -> tuple[ScramFollower, Script]:
        script = Script(*answers)
        follower = ScramFollower(cast(ControllerClient, script), Random(1), captured_log()[0])
        task = asyncio.create_task(follower.run())
        await script.over.wait()
        task.cancel()
        return follower, script

    poll_s, scram_follower.POLL_S = scram_follower.POLL_S, 0.0  # type: ignore[misc]
    try:
        return asyncio.run(run())
    finally:
        scram_follower.POLL_S = poll_s  # type: ignore[misc]


def names(follower: ScramFollower) -> set[str]:
    return {name for name in ("a", "b", "c") if follower.find(name, S256) is not None}


def test_pages_are_one_whole_and_what_is_gone_is_gone() -> None:
    follower, script = follow(
        FollowedScramUsers(3, (user("a"), user("b")), has_more=True),
        FollowedScramUsers(3, (user("c"),)),
        FollowedScramUsers(3),
        FollowedScramUsers(5, (user("b", 8192),)),
    )
    assert names(follower) == {"b"}
    assert follower.find("b", S256) == StoredCredential(b"s", 8192, b"k", b"v")
    assert follower.find("b", Mechanism.SCRAM_SHA_512) is None
    wanted = [(-1, ""), (-1, "b"), (3, ""), (3, ""), (5, "")]
    assert [(each.known, each.after_user) for each in script.requests] == wanted


def test_pages_of_different_changes_are_no_whole() -> None:
    follower, script = follow(
        FollowedScramUsers(3, (user("a"),), has_more=True),
        FollowedScramUsers(4, (user("c"),)),
        FollowedScramUsers(4, (user("b"), user("c"))),
    )
    assert names(follower) == {"b", "c"}
    assert [each.known for each in script.requests] == [-1, -1, -1, 4]


def test_cut_off_it_goes_on_with_what_it_has() -> None:
    follower, _ = follow(FollowedScramUsers(1, (user("a"),)), RequestTimeout("no"), RequestTimeout("no"))
    assert names(follower) == {"a"}
