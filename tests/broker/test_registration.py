"""Registration and heartbeats against a scripted controller: what each answer makes the broker do."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest

from fencepost.broker.exit_reason import BrokerRefused, Membership
from fencepost.broker.registration import Registration
from fencepost.broker.retry import PAUSE_MS_FIRST, PAUSE_MS_MAX, Retry
from fencepost.controller.brokers import Endpoint, HeartbeatStatus, RegisterBroker
from fencepost.controller.errors import (
    ClusterAuthorizationFailed,
    CoordinatorLoadInProgress,
    DuplicateBrokerRegistration,
    InconsistentClusterId,
    InvalidRegistration,
    NotController,
    RequestTimedOut,
    StaleBrokerEpoch,
    UnknownServerError,
    UnsupportedVersion,
)
from fencepost.records.partition_report import PartitionReport
from fencepost.records.types import BrokerEpoch, BrokerId
from fencepost.wire.client import ControllerClient
from fencepost.wire.dispatch import Api
from fencepost.wire.k62_broker_registration import BROKER_REGISTRATION
from fencepost.wire.k63_broker_heartbeat import BROKER_HEARTBEAT
from tests.broker.fake_controller import (
    CLUSTER_ID,
    SILENCE,
    TIMEOUT_S,
    UNFENCED,
    FakeController,
    captured_log,
    play_at_once,
)
from tests.together import table

REQUEST = RegisterBroker(
    broker_id=BrokerId(3),
    cluster_id=CLUSTER_ID,
    incarnation_id=uuid.UUID(int=1000),
    directory_id=uuid.UUID(int=2000),
    endpoints=(Endpoint("PLAINTEXT", "127.0.0.1", 9092, 0),),
)
STALE = StaleBrokerEpoch(broker_id=BrokerId(3), sent=BrokerEpoch(5), current=BrokerEpoch(6))
DENIED = ClusterAuthorizationFailed(principal="User:secret-of-the-controller", operation="CLUSTER_ACTION")
FENCED = HeartbeatStatus(is_caught_up=True, is_fenced=True, should_shut_down=False)


REPORT = PartitionReport(uuid.UUID(int=7), 0, 5)


class Counted:
    """What is reported, and how many heartbeats with it were answered."""

    def __init__(self) -> None:
        self.leaving: list[bool] = []
        self.answers = 0

    def next(self, _epoch: BrokerEpoch, *, leaving: bool = False) -> tuple[PartitionReport, ...]:
        self.leaving.append(leaving)
        return (REPORT,)

    def answered(self) -> None:
        self.answers += 1


class Stage:
    """A controller, a registration that runs against it, and how often a heartbeat was answered."""

    def __init__(self, controller: FakeController, *, heartbeat_interval_ms: int) -> None:
        self.controller = controller
        self.client = ControllerClient(
            [controller.address], rng=Random(1), clock=asyncio.get_running_loop().time, attempt_timeout_s=0.2
        )
        self.log, self.logged = captured_log()
        self.beats = 0
        self.reports = Counted()
        self.registration = Registration(
            self.client,
            REQUEST,
            Membership("User:broker-3", CLUSTER_ID),
            heartbeat_interval_ms=heartbeat_interval_ms,
            on_heartbeat=self._beat,
            reports=self.reports,
            rng=Random(2),
            log=self.log,
        )
        self.running = asyncio.create_task(self.registration.run())

    def _beat(self) -> None:
        self.beats += 1

    def events(self) -> list[str]:
        return [entry["event"] for entry in self.logged.entries]

    async def stop_running(self) -> None:
        self.running.cancel()
        await asyncio.gather(self.running, return_exceptions=True)


@asynccontextmanager
async def stage(controller: FakeController, heartbeat_interval_ms: int = 50) -> AsyncIterator[Stage]:
    async with controller:
        staged = Stage(controller, heartbeat_interval_ms=heartbeat_interval_ms)
        try:
            yield staged
        finally:
            await staged.stop_running()
            await staged.client.close()


def test_a_broker_registers_then_sends_heartbeats_and_is_unfenced() -> None:
    async def story() -> None:
        controller = FakeController()
        async with stage(controller) as on:
            before = (on.registration.epoch, on.registration.is_fenced)
            epoch = await on.registration.registered()
            await on.registration.unfenced()
            after = (on.registration.epoch, on.registration.is_fenced)
            assert (before, after) == ((None, True), (5, False))
            assert controller.asked[62] == [REQUEST]
            heartbeat = (await controller.count(BROKER_HEARTBEAT, 3))[0]
            assert (heartbeat.broker_id, heartbeat.broker_epoch) == (3, epoch)
            assert heartbeat.current_metadata_offset >= epoch, "it has seen its own registration"
            assert on.beats >= 2

    play_at_once(story)


def test_a_fenced_broker_asks_again_soon_whatever_the_heartbeat_interval() -> None:
    async def story() -> None:
        controller = FakeController()
        controller.script(BROKER_HEARTBEAT, FENCED, FENCED)
        async with stage(controller, heartbeat_interval_ms=3_600_000) as on:
            await on.registration.unfenced()
            assert len(controller.asked[63]) == 3

    play_at_once(story)


RETRIED = [
    pytest.param(DuplicateBrokerRegistration(), id="101-another-process-holds-the-id"),
    pytest.param(NotController(), id="41-the-controller-moved"),
    pytest.param(RequestTimedOut(), id="7-outcome-unknown"),
    pytest.param(UnknownServerError(), id="-1-somebody-else's-bug"),
    pytest.param(CoordinatorLoadInProgress(), id="14-not-active-yet"),
    pytest.param(InvalidRegistration(), id="119-until-the-operator-acts"),
    pytest.param(UnsupportedVersion(), id="35-until-the-operator-acts"),
    pytest.param(SILENCE, id="no-answer"),
]


@table("refusal", RETRIED)
def test_a_refused_registration_is_tried_again(refusal: object) -> None:
    async def story() -> None:
        controller = FakeController()
        controller.script(BROKER_REGISTRATION, refusal, refusal)
        async with stage(controller) as on:
            assert await on.registration.registered() == 5
            assert controller.asked[62] == [REQUEST] * 3, "the same incarnation each time"

    play_at_once(story)


@table("refusal", RETRIED)
def test_a_refused_heartbeat_is_tried_again_and_the_registration_kept(refusal: object) -> None:
    async def story() -> None:
        controller = FakeController()
        controller.script(BROKER_HEARTBEAT, refusal, refusal)
        async with stage(controller) as on:
            await on.registration.unfenced()
            assert len(controller.asked[62]) == 1
            assert on.registration.epoch == 5

    play_at_once(story)


def test_a_reason_is_logged_once_however_often_it_comes() -> None:
    async def story() -> None:
        controller = FakeController()
        controller.script(BROKER_REGISTRATION, *[DuplicateBrokerRegistration()] * 4, InvalidRegistration())
        async with stage(controller) as on:
            await on.registration.registered()
            assert on.events() == [
                "attempt_failed",
                "attempt_failed",
                "attempt_succeeded",
                "broker_registered",
            ]

    play_at_once(story)


def test_a_stale_heartbeat_makes_the_broker_register_again_with_its_last_epoch() -> None:
    async def story() -> None:
        controller = FakeController()
        async with stage(controller) as on:
            await on.registration.unfenced()
            controller.script(BROKER_HEARTBEAT, STALE)
            first, second = (await controller.count(BROKER_REGISTRATION, 2))[:2]
            assert (first.previous_epoch, second.previous_epoch) == (-1, 5)
            assert first.incarnation_id == second.incarnation_id
            while on.registration.epoch != 6:
                await asyncio.sleep(0)
            await on.registration.unfenced()
            assert "registration_lost" in on.events()

    play_at_once(story)


def test_whoever_learns_of_a_stale_epoch_wakes_a_sleeping_registration() -> None:
    async def story() -> None:
        controller = FakeController()
        async with stage(controller, heartbeat_interval_ms=3_600_000) as on:
            await on.registration.unfenced()
            on.registration.went_stale(BrokerEpoch(5))
            assert on.registration.epoch is None
            assert await on.registration.registered() == 6
            on.registration.went_stale(BrokerEpoch(5))  # a late answer to the old epoch
            assert on.registration.epoch == 6

    play_at_once(story)


def test_a_heartbeat_that_is_wanted_during_another_follows_it_however_many_want_it() -> None:
    async def story() -> None:
        controller = FakeController()
        async with stage(controller, heartbeat_interval_ms=3_600_000) as on:
            await on.registration.unfenced()
            heard = len(controller.asked[63])

            def meanwhile(*_: object) -> HeartbeatStatus:
                for _again in range(3):
                    on.registration.heartbeat_soon()
                return UNFENCED

            controller.script(BROKER_HEARTBEAT, meanwhile)
            on.registration.heartbeat_soon()
            await controller.count(BROKER_HEARTBEAT, heard + 2)
            await asyncio.sleep(10)
            assert len(controller.asked[63]) == heard + 2
            assert controller.asked[62] == [REQUEST]

    play_at_once(story)


def test_a_controller_that_restarts_is_found_again() -> None:
    async def story() -> None:
        controller = FakeController()
        async with stage(controller) as on:
            await on.registration.unfenced()
            await controller.stop()
            heard = len(controller.asked[63])
            await controller.start(controller.port)
            await controller.count(BROKER_HEARTBEAT, heard + 3)
            assert on.registration.epoch == 5

    play_at_once(story)


FATAL = [
    pytest.param(BROKER_REGISTRATION, "register this broker", id="registration"),
    pytest.param(BROKER_HEARTBEAT, "take this broker's heartbeat", id="heartbeat"),
]


@pytest.mark.parametrize(("api", "attempt"), FATAL)
def test_an_authorization_refusal_ends_the_broker_and_says_what_to_configure(
    api: Api[Any, Any], attempt: str
) -> None:
    async def story() -> None:
        controller = FakeController()
        controller.script(api, DENIED)
        async with stage(controller) as on:
            with pytest.raises(BrokerRefused) as refusal:
                await on.running
            reason = refusal.value.reason
            assert reason.exit_code == 4
            said = ("User:broker-3", "CLUSTER_ACTION", "authorizer.acls.file", "super.users")
            assert [word for word in (attempt, *said) if word not in reason.message] == []

    play_at_once(story)


def test_a_broker_of_another_cluster_ends_with_code_1() -> None:
    async def story() -> None:
        controller = FakeController()
        controller.script(BROKER_REGISTRATION, InconsistentClusterId())
        async with stage(controller) as on:
            with pytest.raises(BrokerRefused) as refusal:
                await on.running
            assert refusal.value.reason.exit_code == 1
            assert CLUSTER_ID in refusal.value.reason.message
            assert "log.dirs" in refusal.value.reason.message

    play_at_once(story)


def test_leaving_asks_to_be_let_go_until_the_controller_agrees() -> None:
    async def story() -> None:
        controller = FakeController()
        async with stage(controller) as on:
            await on.registration.unfenced()
            await on.stop_running()
            controller.script(BROKER_HEARTBEAT, RequestTimedOut())
            assert await on.registration.leave(TIMEOUT_S)
            assert [beat.want_shut_down for beat in controller.asked[63][-2:]] == [True, True]
            assert on.reports.leaving[-2:] == [True, True]
            assert controller.asked[63][-1].reports == (REPORT,)
            assert on.reports.answers == len(on.reports.leaving) - 1, "one was not answered"

    play_at_once(story)


def test_leaving_is_over_when_the_registration_is_gone_or_never_was() -> None:
    async def story() -> None:
        controller = FakeController()
        async with stage(controller) as on:
            await on.registration.unfenced()
            await on.stop_running()
            controller.script(BROKER_HEARTBEAT, STALE)
            assert await on.registration.leave(TIMEOUT_S)
            heard = len(controller.asked[63])
            assert await on.registration.leave(TIMEOUT_S)
            assert len(controller.asked[63]) == heard

    play_at_once(story)


def test_leaving_gives_up_in_time_when_nobody_answers() -> None:
    async def story() -> None:
        controller = FakeController()
        async with stage(controller) as on:
            await on.registration.unfenced()
            await on.stop_running()
            controller.script(BROKER_HEARTBEAT, *[SILENCE] * 1000)
            assert not await on.registration.leave(0.05)

    play_at_once(story)


def test_pauses_double_up_to_the_bound_with_full_jitter_and_start_over_after_a_success() -> None:
    log, _ = captured_log()
    retry = Retry("test", rng=Random(7), log=log)
    for _ in range(2):
        pauses = [retry.failed(NotController()) * 1000 for _ in range(200)]
        bounds = [min(PAUSE_MS_FIRST << n, PAUSE_MS_MAX) for n in range(200)]
        assert all(0 <= pause < bound for pause, bound in zip(pauses, bounds, strict=True))
        assert min(pauses[10:]) < PAUSE_MS_MAX / 10
        assert max(pauses[10:]) > PAUSE_MS_MAX * 9 / 10
        retry.succeeded()
