"""The pool driven by real requests: what reaches the controller, and what its answers do to the pool."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

import pytest

from fencepost.broker.exit_reason import BrokerRefused, Membership
from fencepost.broker.producer_id_source import ProducerIdSource
from fencepost.broker.producer_ids import ProducerIdPool
from fencepost.broker.registration import Registration
from fencepost.controller.brokers import Endpoint, RegisterBroker
from fencepost.controller.errors import (
    ClusterAuthorizationFailed,
    CoordinatorLoadInProgress,
    ErrorCode,
    NotController,
    ProducerIdsExhausted,
    RequestTimedOut,
    StaleBrokerEpoch,
    UnknownServerError,
)
from fencepost.controller.producer_ids import AllocateProducerIds, ProducerIdBlock
from fencepost.records.types import BrokerEpoch, BrokerId, ProducerId
from fencepost.wire.client import ControllerClient
from fencepost.wire.k62_broker_registration import BROKER_REGISTRATION
from fencepost.wire.k67_allocate_producer_ids import ALLOCATE_PRODUCER_IDS
from tests.broker.fake_controller import CLUSTER_ID, SILENCE, FakeController, NoReports, captured_log, play
from tests.together import table

BROKER = BrokerId(3)


class Gauge:
    """The ids at hand, as they were last shown."""

    shown = -1

    def producer_ids_left(self, count: int) -> None:
        self.shown = count


class Stage:
    """A source that runs against a controller, on a clock that stands still unless moved."""

    def __init__(self, controller: FakeController) -> None:
        self.clients = [
            ControllerClient([controller.address], rng=Random(n), attempt_timeout_s=0.05) for n in range(2)
        ]
        self.log, self.logged = captured_log()
        self.gauge = Gauge()
        self.pool = ProducerIdPool(Random(3))
        membership = Membership("User:broker-3", CLUSTER_ID)
        self.registration = Registration(
            self.clients[0],
            RegisterBroker(
                broker_id=BROKER,
                cluster_id=CLUSTER_ID,
                incarnation_id=uuid.UUID(int=1),
                directory_id=uuid.UUID(int=2),
                endpoints=(Endpoint("PLAINTEXT", "127.0.0.1", 9092, 0),),
            ),
            membership,
            heartbeat_interval_ms=3_600_000,
            on_heartbeat=lambda: None,
            reports=NoReports(),
            rng=Random(4),
            log=self.log,
        )
        self.now_ms = 0
        self.source = ProducerIdSource(
            self.pool,
            self.clients[1],
            self.registration,
            membership,
            BROKER,
            clock_ms=self._clock_ms,
            metrics=self.gauge,
            log=self.log,
        )
        self.registering = asyncio.create_task(self.registration.run())
        self.running = asyncio.create_task(self.source.run())

    def _clock_ms(self) -> int:
        self.now_ms += 1_000  # each look at the clock finds that any backoff has passed
        return self.now_ms

    async def ids_at_hand(self, count: int = 1) -> None:
        while self.pool.ids_left() < count:
            await asyncio.sleep(0.001)

    def failures(self) -> list[str]:
        return [e["reason"] for e in self.logged.entries if e["event"] == "producer_id_block_not_granted"]


@asynccontextmanager
async def stage(controller: FakeController) -> AsyncIterator[Stage]:
    async with controller:
        staged = Stage(controller)
        try:
            yield staged
        finally:
            for task in (staged.running, staged.registering):
                task.cancel()
            await asyncio.gather(staged.running, staged.registering, return_exceptions=True)
            for client in staged.clients:
                await client.close()


def test_a_block_is_asked_for_at_once_with_the_brokers_epoch() -> None:
    async def story() -> None:
        controller = FakeController()
        async with stage(controller) as on:
            await on.ids_at_hand()
            assert controller.asked[67] == [AllocateProducerIds(BROKER, BrokerEpoch(5))]
            assert [on.source.allocate() for _ in range(10)] == list(range(10))

    play(story)


def test_the_next_block_is_fetched_before_the_current_one_ends() -> None:
    async def story() -> None:
        controller = FakeController()
        async with stage(controller) as on:
            await on.ids_at_hand()
            claimed = []
            for _ in range(50):
                await on.ids_at_hand()
                claimed.append(on.source.allocate())
                if len(claimed) % 10 == 0:  # the tenth of each block is the claim that asks
                    await on.ids_at_hand(10)
            assert claimed == list(range(50))
            assert len(controller.asked[67]) == 6
            assert on.gauge.shown == 10

    play(story)


def test_nothing_is_asked_before_the_broker_is_registered_and_claims_do_not_wait() -> None:
    async def story() -> None:
        controller = FakeController()
        controller.script(BROKER_REGISTRATION, *[SILENCE] * 10_000)
        async with stage(controller) as on:
            await controller.count(BROKER_REGISTRATION, 2)
            with pytest.raises(CoordinatorLoadInProgress) as refusal:
                on.source.allocate()
            assert refusal.value.code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            assert controller.asked[67] == []

    play(story)


TRANSIENT = [
    pytest.param(RequestTimedOut("unknown"), id="7-outcome-unknown"),
    pytest.param(UnknownServerError("a bug"), id="-1-a-bug"),
    pytest.param(ProducerIdsExhausted(producer_id_end=ProducerId(1), block_length=1), id="-1-exhausted"),
    pytest.param(NotController("moved"), id="41-the-controller-moved"),
    pytest.param(CoordinatorLoadInProgress("not active yet"), id="14"),
    pytest.param(SILENCE, id="no-answer"),
    pytest.param(ProducerIdBlock(ProducerId(-1), 10), id="insane-start"),
    pytest.param(ProducerIdBlock(ProducerId(0), 0), id="insane-length"),
]


@table("answer", TRANSIENT)
def test_any_other_failure_is_retried_and_gives_no_id(answer: object) -> None:
    """KAFKA-15845: the answer with an error holds start 0, and must not become the block that starts at 0."""

    async def story() -> None:
        controller = FakeController()
        controller.next_id = 700
        controller.script(ALLOCATE_PRODUCER_IDS, answer, answer)
        async with stage(controller) as on:
            await on.ids_at_hand()
            assert on.source.allocate() >= 700
            assert len(controller.asked[67]) >= 3
            assert len(controller.asked[62]) == 1, "the registration is not to blame"

    play(story)


def test_a_stale_epoch_makes_the_broker_register_again_and_ask_with_the_new_one() -> None:
    async def story() -> None:
        controller = FakeController()
        stale = StaleBrokerEpoch(broker_id=BROKER, sent=BrokerEpoch(5), current=None)
        controller.script(ALLOCATE_PRODUCER_IDS, stale)
        async with stage(controller) as on:
            await on.ids_at_hand()
            assert [each.broker_epoch for each in controller.asked[67]] == [5, 6]
            assert on.registration.epoch == 6

    play(story)


def test_an_authorization_refusal_ends_the_broker_with_code_4() -> None:
    async def story() -> None:
        controller = FakeController()
        denied = ClusterAuthorizationFailed(principal="User:x", operation="CLUSTER_ACTION")
        controller.script(ALLOCATE_PRODUCER_IDS, denied)
        async with stage(controller) as on:
            with pytest.raises(BrokerRefused) as refusal:
                await on.running
            assert refusal.value.reason.exit_code == 4
            assert "User:broker-3 CLUSTER_ACTION" in refusal.value.reason.message

    play(story)


def test_the_throttle_time_of_a_block_holds_the_next_request_back() -> None:
    async def story() -> None:
        controller = FakeController()
        controller.throttle_ms = 30_000
        async with stage(controller) as on:
            await on.ids_at_hand()
            granted_ms = on.now_ms
            for _ in range(10):
                on.source.allocate()
            assert on.pool.request_due_ms() == granted_ms + 30_000

    play(story)


def test_a_lost_connection_wastes_a_block_and_repeats_none() -> None:
    """Row 730.9: the controller wrote both blocks; the first answer never arrived."""

    async def story() -> None:
        controller = FakeController()

        def write_and_hang_up(request: object, context: object) -> object:
            controller.next_id += 10
            controller.hang_up()
            return SILENCE

        controller.script(ALLOCATE_PRODUCER_IDS, write_and_hang_up)
        async with stage(controller) as on:
            await on.ids_at_hand()
            assert on.source.allocate() == 10

    play(story)


def test_the_same_failure_is_logged_once() -> None:
    async def story() -> None:
        controller = FakeController()
        controller.script(ALLOCATE_PRODUCER_IDS, *[UnknownServerError("a bug")] * 3, RequestTimedOut("when"))
        async with stage(controller) as on:
            await on.ids_at_hand()
            assert len(on.failures()) == 2

    play(story)
