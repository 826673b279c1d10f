"""A node that is cut off from the rest and goes on naming itself: the client asks another one."""

from fencepost.client import Producer
from fencepost.wire.errors import error_for
from fencepost.wire.k10_find_coordinator import (
    FIND_COORDINATOR,
    Coordinator,
    FindCoordinator,
    FindCoordinatorAnswer,
)
from fencepost.wire.k22_init_producer_id import INIT_PRODUCER_ID
from fencepost.wire.requests import ApiError, InitProducerId, InitProducerIdAnswer
from tests import skipping_loop
from tests.client.scripted import ScriptedCluster

NOT_COORDINATOR = 16
PRODUCERS = 8  # each picks the node that it asks first


class CutInTwo(ScriptedCluster):
    """Node 0 coordinated once, names itself, and refuses; node 1 coordinates."""

    def __init__(self) -> None:
        super().__init__(node_count=2)
        self.rules[FIND_COORDINATOR] = self._itself
        self.rules[INIT_PRODUCER_ID] = self._refused_by_the_first

    def _itself(self, request: FindCoordinator, node_id: int) -> FindCoordinatorAnswer:
        port = self._listeners[node_id].port
        return FindCoordinatorAnswer(
            tuple(Coordinator(key, node_id, "127.0.0.1", port) for key in request.keys)
        )

    def _refused_by_the_first(self, request: InitProducerId, node_id: int) -> InitProducerIdAnswer | ApiError:
        return error_for(NOT_COORDINATOR) if node_id == 0 else self._init_producer_id(request, node_id)


def test_every_producer_finds_the_coordinator() -> None:
    async def story() -> None:
        cluster = CutInTwo()
        async with cluster.serving() as bootstrap:
            for number in range(PRODUCERS):
                async with Producer(bootstrap, transactional_id=f"p{number}") as producer:
                    await producer.init_transactions()
        assert len(cluster.seen[FIND_COORDINATOR.key]) > PRODUCERS, "some asked the first"

    skipping_loop.run(story())
