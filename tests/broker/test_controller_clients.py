"""A broker's calls to the controller: a heartbeat waits for none of another purpose."""

from fencepost.wire.k63_broker_heartbeat import BROKER_HEARTBEAT
from fencepost.wire.k67_allocate_producer_ids import ALLOCATE_PRODUCER_IDS
from tests.broker.fake_controller import FakeController, play_at_once
from tests.broker.whole_broker import stage

HEARTBEATS = 20


def test_a_mute_for_producer_ids_holds_up_no_heartbeat() -> None:
    async def story() -> None:
        controller = FakeController()
        controller.throttle_ms = 30_000
        async with stage(controller):
            await controller.count(ALLOCATE_PRODUCER_IDS, 1)
            so_far = len(controller.asked[BROKER_HEARTBEAT.key])
            await controller.count(BROKER_HEARTBEAT, so_far + HEARTBEATS)
            (heartbeats,) = peers(controller, BROKER_HEARTBEAT.key)  # another one: it timed out meanwhile
            assert heartbeats not in peers(controller, ALLOCATE_PRODUCER_IDS.key)

    play_at_once(story)


def peers(controller: FakeController, key: int) -> set[str]:
    """The connections on which requests of a key came."""
    return {context.peer for context in controller.contexts[key]}
