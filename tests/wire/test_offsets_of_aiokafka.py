"""aiokafka asks for committed offsets and is refused: it never takes a refusal for "nothing is committed".

It speaks OffsetFetch 3 and reads the codes of partitions alone. What it takes for "nothing" it reads again
from where ``auto_offset_reset`` says: records are lost or processed twice.
"""

import asyncio
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import GroupAuthorizationFailedError, KafkaError

from fencepost.controller.errors import (
    ApiError,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    ErrorCode,
    NotCoordinator,
    UnknownServerError,
    UnsupportedVersion,
)
from fencepost.controller.group_errors import InvalidGroupId, TopicAuthorizationFailed
from fencepost.controller.groups.offset_messages import FetchedGroup, FetchedOffset, FetchOffsetsAnswer
from fencepost.wire.dispatch import Context, Reply, Service, served
from fencepost.wire.k03_metadata import (
    METADATA,
    BrokerNode,
    MetadataAnswer,
    PartitionMetadata,
    TopicMetadata,
)
from fencepost.wire.k09_offset_fetch import OFFSET_FETCH
from fencepost.wire.k10_find_coordinator import FIND_COORDINATOR, Coordinator, FindCoordinatorAnswer
from tests.together import table
from tests.wire.stage import listening

TOPIC, GROUP = "orders", "bill"
COMMITTED = 7
SECONDS_MAX = 20.0


class GroupAuthorizationFailed(ApiError):
    """No principal may be refused a group yet: the code that there will be."""

    code = ErrorCode.GROUP_AUTHORIZATION_FAILED


def offsets(code: ErrorCode = ErrorCode.NONE) -> FetchOffsetsAnswer:
    """Both partitions' offset, or a code of each."""
    offset = COMMITTED if code is ErrorCode.NONE else -1
    rows = tuple(FetchedOffset(TOPIC, partition, offset, code=code) for partition in range(2))
    return FetchOffsetsAnswer((FetchedGroup(GROUP, rows),))


class OneBroker:
    """What a consumer needs to ask for offsets; each OffsetFetch gets the next outcome, the last for ever."""

    def __init__(self, *outcomes: FetchOffsetsAnswer | ApiError) -> None:
        self._outcomes = list(outcomes)
        self.port = 0

    def service(self) -> Service:
        return dict(
            (
                served(METADATA, self._metadata),
                served(FIND_COORDINATOR, self._find),
                served(OFFSET_FETCH, self._fetch),
            )
        )

    def _metadata(self, _request: Any, _context: Context, reply: Reply[Any]) -> None:
        partitions = tuple(PartitionMetadata(partition_index=index, leader_id=1) for index in range(2))
        topics = (TopicMetadata(name=TOPIC, partitions=partitions),)
        brokers = (BrokerNode(1, "127.0.0.1", self.port),)
        reply(MetadataAnswer(cluster_id="c", controller_id=1, brokers=brokers, topics=topics))

    def _find(self, request: Any, _context: Context, reply: Reply[Any]) -> None:
        coordinators = tuple(Coordinator(key, 1, "127.0.0.1", self.port) for key in request.keys)
        reply(FindCoordinatorAnswer(coordinators))

    def _fetch(self, _request: Any, _context: Context, reply: Reply[Any]) -> None:
        reply(self._outcomes[0] if len(self._outcomes) == 1 else self._outcomes.pop(0))


def positions(*outcomes: FetchOffsetsAnswer | ApiError) -> list[int | None]:
    """What both calls of an application give: the committed offset, and where it would read on."""
    broker = OneBroker(*outcomes)

    async def story() -> list[int | None]:
        async with listening(broker.service()) as (listener, _):
            broker.port = listener.port
            consumer = AIOKafkaConsumer(
                bootstrap_servers=f"127.0.0.1:{broker.port}",
                group_id=GROUP,
                enable_auto_commit=False,
                auto_offset_reset="none",  # "nothing is committed" is an error, not a guess
                retry_backoff_ms=10,
            )
            await consumer.start()
            try:
                partition = TopicPartition(TOPIC, 0)
                async with asyncio.timeout(SECONDS_MAX):
                    committed = await consumer.committed(partition)
                    assert committed is not None, "it took a refusal for 'nothing is committed'"
                    consumer.assign([partition])
                    consumer.pause(
                        partition
                    )  # its stop() raises CancelledError while a fetch waits to be repeated
                    return [committed, await consumer.position(partition)]
            finally:
                await consumer.stop()

    return asyncio.run(story())


PASSING = [
    pytest.param(CoordinatorLoadInProgress("it becomes the coordinator"), id="14"),
    pytest.param(NotCoordinator("elsewhere"), id="16"),
    pytest.param(CoordinatorNotAvailable("no one knows"), id="15"),
    pytest.param(offsets(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), id="14-of-pending-offsets"),
]


@pytest.mark.parametrize("refusal", PASSING)
def test_aiokafka_asks_again_after_what_passes(refusal: FetchOffsetsAnswer | ApiError) -> None:
    assert positions(refusal, refusal, offsets()) == [COMMITTED, COMMITTED]


FINAL = [
    pytest.param(GroupAuthorizationFailed("no READ"), GroupAuthorizationFailedError, id="30"),
    pytest.param(TopicAuthorizationFailed("no DESCRIBE"), KafkaError, id="29"),
    pytest.param(InvalidGroupId("too long"), KafkaError, id="24"),
    pytest.param(UnsupportedVersion("the log has no groups yet"), KafkaError, id="35"),
    pytest.param(UnknownServerError("our bug"), KafkaError, id="-1"),
]


@table(("refusal", "error"), FINAL)
def test_aiokafka_hears_of_what_does_not_pass(refusal: ApiError, error: type[KafkaError]) -> None:
    with pytest.raises(error):
        positions(refusal)
