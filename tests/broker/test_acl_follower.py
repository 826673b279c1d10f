"""A broker's ACLs: loaded in pages, then followed; ready once they are as new as its registration."""

import asyncio
from functools import partial
from random import Random
from typing import Any, cast

import pytest
from structlog.typing import FilteringBoundLogger

from fencepost.broker.acl_follower import PARKED_MAX, PARKED_S_MAX, AclFollower, standstill_s
from fencepost.broker.exit_reason import BrokerRefused, Membership
from fencepost.controller.acl_types import Acl
from fencepost.controller.acls import AclChange
from fencepost.controller.errors import ApiError, ClusterAuthorizationFailed, NotController
from fencepost.records.types import BrokerEpoch, BrokerId
from fencepost.wire.client import ControllerClient
from fencepost.wire.connection import ConnectionLost
from fencepost.wire.k20029_follow_acls import FollowAcls, FollowedAcls
from tests.quorum.clients import Silence


def change(name: str) -> AclChange:
    acl = Acl(2, 3, name, "User:a", "*", 3, 3)
    return AclChange(acl.acl_id, acl)


A, B, C = map(change, "abc")


class Controller:
    """Answers each request with the next of ``answers``; the last one is waited for forever."""

    def __init__(self, *answers: FollowedAcls | Exception) -> None:
        self._answers = list(answers)
        self.asked: list[FollowAcls] = []
        self.seen: list[bool] = []
        self.follower: AclFollower | None = None
        self.now_s = 100.0
        self.pauses: dict[int, float] = {}  # by the number of the request that is parked
        self.registered_anew_after = 1_000  # so many requests

    async def call(self, _api: Any, request: FollowAcls, *, timeout_s: float) -> FollowedAcls:
        assert self.follower is not None
        self.asked.append(request)
        self.seen.append(self.follower.book() is not None)
        self.now_s += self.pauses.get(len(self.asked), 0.0)
        if not self._answers:
            await asyncio.Event().wait()
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


class Registered:
    def __init__(self, controller: Controller) -> None:
        self._controller = controller

    async def registered(self) -> BrokerEpoch:
        is_anew = len(self._controller.asked) >= self._controller.registered_anew_after
        return BrokerEpoch(6 if is_anew else 5)


def made(controller: Controller, standstill_s: float = 4.0) -> AclFollower:
    return AclFollower(
        cast(ControllerClient, controller),
        cast(Any, Registered(controller)),
        Membership("User:broker", "cluster"),
        BrokerId(1),
        Random(1),
        cast(FilteringBoundLogger, Silence()),
        standstill_s=standstill_s,
        clock=lambda: controller.now_s,
    )


def run(controller: Controller, monkeypatch: pytest.MonkeyPatch) -> AclFollower:
    """Until every answer was taken."""

    async def follow() -> AclFollower:
        follower = controller.follower = made(controller)
        monkeypatch.setattr("fencepost.broker.retry.Retry.failed", lambda _self, _error: 0.0)
        running = asyncio.ensure_future(follower.run())
        while controller._answers or len(controller.asked) == 0:
            if running.done():
                running.result()
            await asyncio.sleep(0)
        for _ in range(5):
            await asyncio.sleep(0)
        if running.done():
            running.result()
        running.cancel()
        return follower

    return asyncio.run(follow())


def names(follower: AclFollower) -> list[str] | None:
    book = follower.book()
    return None if book is None else sorted(acl.name for acl in book.acls.values())


def test_one_page_is_all(monkeypatch: pytest.MonkeyPatch) -> None:
    controller = Controller(FollowedAcls(4, (A, B)))
    assert names(run(controller, monkeypatch)) == ["a", "b"]
    assert controller.asked == [FollowAcls(1, 5, -1), FollowAcls(1, 5, 4)]
    assert controller.seen == [False, True]


def test_what_changed_between_pages_is_taken_over_before_it_is_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    controller = Controller(
        FollowedAcls(4, (A,), has_more=True),
        FollowedAcls(6, (B,)),
        FollowedAcls(6, (AclChange(A.acl_id), C)),
    )
    assert names(run(controller, monkeypatch)) == ["b", "c"]
    assert controller.asked == [
        FollowAcls(1, 5, -1),
        FollowAcls(1, 5, -1, A),
        FollowAcls(1, 5, 4),
        FollowAcls(1, 5, 6),
    ]
    assert controller.seen == [False, False, False, True]


def test_it_says_what_it_decides_by_and_survives_a_lost_controller(monkeypatch: pytest.MonkeyPatch) -> None:
    controller = Controller(
        FollowedAcls(0),
        FollowedAcls(1, (A,)),
        NotController("no"),
        ConnectionLost("no"),
        FollowedAcls(2, (B,)),
    )
    assert names(run(controller, monkeypatch)) == ["a", "b"]
    assert [each.known for each in controller.asked] == [-1, 0, 1, 1, 1, 2]


def test_who_is_too_far_behind_decides_by_the_old_ones_until_all_are_here_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    controller = Controller(FollowedAcls(1, (A,)), FollowedAcls(9, is_lost=True), FollowedAcls(9, (B,)))
    assert names(run(controller, monkeypatch)) == ["b"]
    assert [each.known for each in controller.asked] == [-1, 1, -1, 9]
    assert controller.seen == [False, True, True, True]


def test_a_broker_without_cluster_action_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    refusal: ApiError = ClusterAuthorizationFailed(principal="User:broker", operation="CLUSTER_ACTION")
    with pytest.raises(BrokerRefused, match="ClusterAction"):
        run(Controller(refusal), monkeypatch)


def test_an_answer_from_before_a_standstill_does_not_end_the_doubt(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process is stopped while its request is parked; the old answer is what it finds first."""
    answers = FollowedAcls(1, (A,)), FollowedAcls(1), FollowedAcls(2, (AclChange(A.acl_id),))
    for pause_s, seen in ((4.1, [False, True, False, True]), (3.9, [False, True, True, True])):
        controller = Controller(*answers)
        controller.pauses = {2: pause_s}
        follower = run(controller, monkeypatch)
        assert controller.seen == seen
        assert names(follower) == []


def test_one_that_registered_anew_is_in_doubt_until_it_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was fenced meanwhile: changes may have been answered without it."""
    controller = Controller(FollowedAcls(1, (A,)), FollowedAcls(1), FollowedAcls(2, (AclChange(A.acl_id),)))
    controller.registered_anew_after = 2
    assert names(run(controller, monkeypatch)) == []
    assert [int(each.broker_epoch) for each in controller.asked] == [5, 5, 6, 6]
    assert controller.seen == [False, True, False, True]


def test_one_that_is_cut_off_after_a_standstill_goes_on_with_what_it_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    controller = Controller(FollowedAcls(1, (A,)), ConnectionLost("no"), NotController("no"))
    controller.pauses = {2: 100.0}
    assert names(run(controller, monkeypatch)) == ["a"]
    assert controller.seen == [False, True, False, True]


def test_a_request_right_after_a_standstill_is_in_doubt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before any loop of this broker ran again."""
    controller = Controller(FollowedAcls(1, (A,)))
    follower = run(controller, monkeypatch)
    assert names(follower) == ["a"]
    controller.now_s += 4.1
    assert follower.book() is None
    assert follower.book() is None, "it stays so until the controller is reached, or is not"


class Parking(Controller):
    """Two callers are parked with the request of this number."""

    def __init__(self, at: int, *answers: FollowedAcls | Exception) -> None:
        super().__init__(*answers)
        self._at = at
        self.found: list[Any] = []

    async def call(self, _api: Any, request: FollowAcls, *, timeout_s: float) -> FollowedAcls:
        follower = self.follower
        assert follower is not None
        if len(self.asked) == self._at:
            for name in "xy":
                assert follower.park(partial(self._goes_on, name, follower))
        return await super().call(_api, request, timeout_s=timeout_s)

    def _goes_on(self, name: str, follower: AclFollower) -> None:
        self.found.append((name, names(follower)))


def test_what_was_parked_goes_on_in_order_when_the_acls_are_here(monkeypatch: pytest.MonkeyPatch) -> None:
    controller = Parking(0, FollowedAcls(4, (A,), has_more=True), FollowedAcls(4, (B,)))
    run(controller, monkeypatch)
    assert controller.found == [("x", ["a", "b"]), ("y", ["a", "b"])]


@pytest.mark.parametrize("answer", [FollowedAcls(2, (B,)), ConnectionLost("no")])
def test_what_was_parked_in_doubt_goes_on_when_it_ends(
    monkeypatch: pytest.MonkeyPatch, answer: FollowedAcls | Exception
) -> None:
    controller = Parking(2, FollowedAcls(1, (A,)), FollowedAcls(1), answer)
    controller.pauses = {2: 4.1}
    run(controller, monkeypatch)
    known = ["a"] if isinstance(answer, Exception) else ["a", "b"]
    assert controller.found == [("x", known), ("y", known)]


def test_what_is_parked_waits_for_a_bounded_time() -> None:
    controller = Controller()
    found: list[Any] = []

    async def wait() -> None:
        follower = made(controller, standstill_s=0.004)  # so often it is looked at
        watching = asyncio.ensure_future(follower.watch())
        assert follower.park(lambda: found.append(names(follower)))
        controller.now_s += PARKED_S_MAX - 0.1
        await asyncio.sleep(0.02)
        assert found == []
        controller.now_s += 0.1
        while not found:
            await asyncio.sleep(0.001)
        watching.cancel()

    asyncio.run(wait())
    assert found == [None]


def test_so_many_are_parked() -> None:
    follower = made(Controller())
    assert all(follower.park(lambda: None) for _ in range(PARKED_MAX))
    assert not follower.park(lambda: None)


@pytest.mark.parametrize(
    ("session_ms", "heartbeat_ms", "expected_s"),
    [(9_000, 2_000, 3.5), (60_000, 2_000, 4.0), (9_000, 8_900, 0.05)],
)
def test_a_standstill_is_noticed_before_its_broker_is_fenced(
    session_ms: int, heartbeat_ms: int, expected_s: float
) -> None:
    assert standstill_s(session_ms, heartbeat_ms) == expected_s
