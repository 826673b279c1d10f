"""The broker's picture of the cluster: where it comes from, and when it is doubted."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from random import Random

import pytest

from fencepost.broker.exit_reason import BrokerRefused, Membership
from fencepost.broker.metadata_cache import MetadataCache, Picture
from fencepost.controller.errors import ClusterAuthorizationFailed, RequestTimedOut
from fencepost.wire.client import ControllerClient
from fencepost.wire.k60_describe_cluster import BROKERS, DESCRIBE_CLUSTER, ClusterNode, DescribeCluster
from tests.broker.fake_controller import CLUSTER_ID, SILENCE, FakeController, captured_log, play
from tests.together import table

ITSELF = ClusterNode(1, "127.0.0.1", 9092)
SECOND = ClusterNode(2, "127.0.0.1", 9093)
FENCED = ClusterNode(3, "127.0.0.1", 9094, is_fenced=True)

COORDINATORS = [
    pytest.param(Picture((ITSELF, SECOND), 2), SECOND, id="the-active-controllers-broker"),
    pytest.param(Picture((ITSELF, SECOND)), None, id="nobody-leads-for-certain"),
    pytest.param(Picture((ITSELF, FENCED), 3), None, id="its-broker-is-fenced"),
    pytest.param(Picture((ITSELF,), 7), None, id="the-active-controller-is-no-broker"),
]


@table(("picture", "coordinator"), COORDINATORS)
def test_the_coordinator_is_the_active_controllers_broker_if_clients_can_see_it(
    picture: Picture, coordinator: ClusterNode | None
) -> None:
    assert picture.coordinator == coordinator


class Stage:
    """A cache that refreshes from a controller, on a clock that only a test moves."""

    def __init__(self, controller: FakeController) -> None:
        self.client = ControllerClient([controller.address], rng=Random(1), attempt_timeout_s=0.05)
        self.now_ms = 0
        log, self.logged = captured_log()
        self.cache = MetadataCache(
            self.client,
            {"PLAINTEXT": ITSELF},
            Membership("User:broker-1", CLUSTER_ID),
            clock_ms=lambda: self.now_ms,
            rng=Random(2),
            log=log,
        )
        self.running = asyncio.create_task(self.cache.run())

    async def sees(self, holds: Callable[[Picture], bool]) -> Picture:
        while not holds(self.cache.picture("PLAINTEXT")):
            await asyncio.sleep(0.001)
        return self.cache.picture("PLAINTEXT")

    async def settle(self, controller: FakeController) -> None:
        """Go to where nothing is asked unasked: the last change is long ago, and a refresh has seen that."""
        self.now_ms += 3_600_000
        refreshed = len(controller.asked[60])
        self.cache.refresh()
        await controller.count(DESCRIBE_CLUSTER, refreshed + 1)
        answered = self.cache._source
        self.cache._source = None
        while self.cache._source != answered:
            await asyncio.sleep(0.001)


@asynccontextmanager
async def stage(controller: FakeController) -> AsyncIterator[Stage]:
    async with controller:
        staged = Stage(controller)
        try:
            yield staged
        finally:
            staged.running.cancel()
            await asyncio.gather(staged.running, return_exceptions=True)
            await staged.client.close()


def asked_for_brokers(controller: FakeController) -> list[DescribeCluster]:
    return [each for each in controller.asked[60] if each.endpoint_type == BROKERS]


def test_before_the_first_answer_the_broker_shows_itself_and_no_controller() -> None:
    async def story() -> None:
        controller = FakeController()
        controller.script(DESCRIBE_CLUSTER, *[SILENCE] * 10_000)
        async with stage(controller) as on:
            assert on.cache.picture("PLAINTEXT") == Picture((ITSELF,))
            await controller.count(DESCRIBE_CLUSTER, 1)
            assert on.cache.picture("PLAINTEXT") == Picture((ITSELF,))

    play(story)


def test_the_picture_is_the_active_controllers_with_brokers_in_order() -> None:
    async def story() -> None:
        controller = FakeController(node_id=2)
        controller.brokers = (FENCED, SECOND, ITSELF)
        async with stage(controller) as on:
            picture = await on.sees(lambda picture: picture.controller_id == 2)
            assert picture.brokers == (ITSELF, SECOND, FENCED)
            assert picture.visible == (ITSELF, SECOND)
            assert picture.coordinator == SECOND
            assert asked_for_brokers(controller)[0].include_fenced_brokers

    play(story)


def test_a_cluster_without_brokers_is_shown_as_this_broker_alone() -> None:
    async def story() -> None:
        controller = FakeController()
        async with stage(controller) as on:
            picture = await on.sees(lambda picture: picture.controller_id == 1)
            assert picture.brokers == (ITSELF,)

    play(story)


def test_while_something_changed_lately_more_changes_are_looked_for_unasked() -> None:
    async def story() -> None:
        controller = FakeController()
        controller.brokers = (ITSELF,)
        async with stage(controller) as on:
            await on.sees(lambda picture: picture.controller_id == 1)
            controller.brokers = (ITSELF, SECOND)
            while (
                on.cache._pictures["PLAINTEXT"].brokers != controller.brokers
            ):  # without asking: that is the point
                await asyncio.sleep(0.001)

    play(story)


def test_a_settled_picture_is_refreshed_when_it_is_asked_for() -> None:
    async def story() -> None:
        controller = FakeController()
        controller.brokers = (ITSELF,)
        async with stage(controller) as on:
            await on.sees(lambda picture: picture.controller_id == 1)
            await on.settle(controller)
            controller.brokers = (ITSELF, SECOND)
            on.cache.refresh()
            await on.sees(lambda picture: picture.brokers == (ITSELF, SECOND))

    play(story)


def test_a_lost_connection_casts_doubt_at_once_and_keeps_the_brokers() -> None:
    async def story() -> None:
        controller = FakeController()
        controller.brokers = (ITSELF, SECOND)
        async with stage(controller) as on:
            await on.sees(lambda picture: picture.controller_id == 1)
            await on.settle(controller)  # no refresh finds it out: the loss itself does
            await controller.stop()
            doubted = await on.sees(lambda picture: picture.controller_id != 1)
            assert doubted == Picture((ITSELF, SECOND))
            await controller.start(controller.port)
            await on.sees(lambda picture: picture.controller_id == 1)

    play(story)


@pytest.mark.parametrize("answer", [RequestTimedOut("unknown"), SILENCE], ids=["refused", "silent"])
def test_a_failed_refresh_casts_doubt_until_one_succeeds(answer: object) -> None:
    async def story() -> None:
        controller = FakeController()
        controller.brokers = (ITSELF,)
        async with stage(controller) as on:
            await on.sees(lambda picture: picture.controller_id == 1)
            controller.script(DESCRIBE_CLUSTER, *[answer] * 60)
            await on.sees(lambda picture: picture.controller_id == -1)
            controller.scripts[DESCRIBE_CLUSTER.key].clear()
            await on.sees(lambda picture: picture.controller_id == 1)

    play(story)


def test_a_broker_that_may_not_even_look_is_refused_for_good() -> None:
    async def story() -> None:
        controller = FakeController()

        def deny(request: DescribeCluster, context: object) -> object:
            return ClusterAuthorizationFailed(principal="User:x", operation="CLUSTER_ACTION")

        async with stage(controller) as on:
            await on.sees(lambda picture: picture.controller_id == 1)
            controller.script(DESCRIBE_CLUSTER, deny)
            on.cache.refresh()
            with pytest.raises(BrokerRefused):
                await on.running

    play(story)
