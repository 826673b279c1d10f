"""Large responses are encoded and decoded in steps of the event loop, and what each takes is counted."""

import asyncio
import dataclasses
from collections.abc import Callable
from typing import Any, cast

import pytest

from fencepost.controller.acl_types import Acl, DescribeAclsAnswer
from fencepost.controller.groups.describe import ListedGroup, ListGroupsAnswer
from fencepost.controller.producer_ids import ProducerIdBlock
from fencepost.records.invariant import CorruptData
from fencepost.records.types import ProducerId
from fencepost.wire.connection import Connection, ConnectionLost
from fencepost.wire.dispatch import Api, Context, Reply
from fencepost.wire.frame import response_frame
from fencepost.wire.k03_metadata import (
    METADATA,
    ROWS_AT_ONCE_MAX,
    TOPIC_ROWS,
    Metadata,
    MetadataAnswer,
    PartitionMetadata,
    TopicMetadata,
)
from fencepost.wire.k16_list_groups import LIST_GROUPS
from fencepost.wire.k16_list_groups import ROWS_AT_ONCE_MAX as LISTED
from fencepost.wire.k29_describe_acls import DESCRIBE_ACLS
from fencepost.wire.k67_allocate_producer_ids import ALLOCATE_PRODUCER_IDS
from fencepost.wire.registry import APIS
from fencepost.wire.steps import Steps, completed
from tests.together import table
from tests.wire.stage import ASK, listening
from tests.wire.test_listener import Wire
from tests.wire.test_stalls import Clocks, stalls

VERSIONS = [0, *(pytest.param(each, marks=pytest.mark.slow) for each in (8, 9)), 13]
ROWS = ROWS_AT_ONCE_MAX


def answer_of(*counts: int) -> MetadataAnswer:
    """Every third partition has a replica too many for the short form."""
    return MetadataAnswer(
        cluster_id="the-cluster",
        topics=tuple(
            TopicMetadata(
                name=f"t{number}",
                partitions=tuple(
                    PartitionMetadata(
                        partition_index=index,
                        leader_id=1,
                        replica_nodes=(1, 2) if index % 3 == 2 else (1,),
                        isr_nodes=(1,),
                    )
                    for index in range(count)
                ),
            )
            for number, count in enumerate(counts)
        ),
    )


def pauses(steps: Steps[Any]) -> int:
    return sum(1 for _ in steps)


SIZES = [
    pytest.param((), 0, id="none"),
    pytest.param((ROWS - TOPIC_ROWS - 1, 1), 0, id="a-row-less-before-the-last"),
    pytest.param((ROWS - TOPIC_ROWS, 1), 1, id="so-many-before-the-last"),
    pytest.param((10 * ROWS,), 0, id="one-topic"),
    pytest.param((1,) * (3 * ROWS // (TOPIC_ROWS + 1) + 1), 2, id="many-topics"),
]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("counts", "expected"), SIZES)
def test_steps_pause_after_so_many_rows_and_make_the_same(
    version: int, counts: tuple[int, ...], expected: int
) -> None:
    answer = answer_of(*counts)
    encode, decode = METADATA.encode_steps, METADATA.decode_steps
    assert encode is not None
    assert decode is not None
    body = METADATA.encode_response(version, answer, 0)
    assert b"".join(completed(encode(version, answer, 0))) == body
    assert completed(decode(version, body)) == METADATA.decode_response(version, body)
    assert (pauses(encode(version, answer, 0)), pauses(decode(version, body))) == (expected, expected)


@table("version", [0, 2, 3, 5])
@table(
    ("count", "expected"),
    [
        pytest.param(0, 0, id="none"),
        pytest.param(LISTED, 0, id="one-step"),
        pytest.param(LISTED + 1, 1, id="one-more"),
        pytest.param(3 * LISTED, 2, id="many"),
    ],
)
def test_a_list_of_groups_is_written_in_steps(version: int, count: int, expected: int) -> None:
    answer = ListGroupsAnswer(tuple(ListedGroup(f"g{each}", "consumer", "Stable") for each in range(count)))
    encode = LIST_GROUPS.encode_steps
    assert encode is not None
    body = LIST_GROUPS.encode_response(version, answer, 0)
    assert b"".join(completed(encode(version, answer, 0))) == body
    assert pauses(encode(version, answer, 0)) == expected
    listed = LIST_GROUPS.decode_response(version, body).groups
    assert [each.group_id for each in listed] == [each.group_id for each in answer.groups]


def test_what_is_written_in_steps_and_what_is_read_in_steps() -> None:
    """No node reads a list of groups."""
    acls = DescribeAclsAnswer(tuple(Acl(2, 3, f"t{n // 10}", f"User:{n}", "*", 3, 3) for n in range(5_000)))
    pieces = DESCRIBE_ACLS.encode_steps
    assert pieces is not None
    assert sum(1 for _ in pieces(3, acls, 0)) >= 4
    assert DESCRIBE_ACLS.decode_response(3, DESCRIBE_ACLS.encode_response(3, acls, 0)) == acls
    assert {api.name for api in APIS.values() if api.decode_steps is not None} == {"Metadata"}
    assert {api.name for api in APIS.values() if api.encode_steps is not None} == {
        "DescribeAcls",
        "ListGroups",
        "Metadata",
    }


LARGE = answer_of(*[ROWS] * 5)


def test_the_loop_is_free_between_the_steps_of_a_reply_and_of_its_reader() -> None:
    async def story() -> None:
        turns = 0

        def count() -> None:
            nonlocal turns
            turns += 1
            loop.call_soon(count)

        def serve(_request: Metadata, _context: Context, reply: Reply[MetadataAnswer]) -> None:
            reply(LARGE)

        loop = asyncio.get_running_loop()
        async with listening({3: (METADATA, serve)}) as (listener, _):
            connection = await Connection.open("127.0.0.1", listener.port)
            answers = [asyncio.ensure_future(connection.call(METADATA, Metadata(None))) for _ in range(3)]
            count()
            assert await asyncio.gather(*answers) == [LARGE] * 3
            assert turns > 3 * 2 * 4
            connection.close()

    asyncio.run(asyncio.wait_for(story(), 20))


class Asked:
    """A connection of ours with calls in flight, its loop and its socket driven by hand."""

    def __init__(self) -> None:
        self.connection = Connection("test")
        self.connection.connection_made(cast(asyncio.Transport, Wire()))
        self.connection.versions = {3: METADATA.versions, 67: ALLOCATE_PRODUCER_IDS.versions}
        self.outcomes: list[Any] = []

    def ask(self) -> None:
        self.connection.ask(METADATA, Metadata(None), self.outcomes.append, timeout_s=60)

    def answered(self, correlation_id: int, answer: MetadataAnswer | bytes) -> bytes:
        body = answer if isinstance(answer, bytes) else METADATA.encode_response(13, answer, 0)
        return response_frame(correlation_id, body, tagged=True)


def played(story: Callable[[Asked], Any]) -> Asked:
    async def play() -> Asked:
        asked = Asked()
        for _ in range(3):
            asked.ask()
        await story(asked)
        asked.connection.abandon()
        return asked

    return asyncio.run(asyncio.wait_for(play(), 20))


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


SMALL = answer_of(1)
BLOCK = ProducerIdBlock(ProducerId(0), 10)


def test_what_comes_behind_a_large_response_waits_for_it() -> None:
    async def story(asked: Asked) -> None:
        frames = asked.answered(0, LARGE) + asked.answered(1, SMALL) + asked.answered(2, LARGE)
        asked.connection.data_received(frames)
        asked.connection.data_received(b"")
        assert asked.outcomes == []
        while len(asked.outcomes) < 3:
            await turns(1)

    assert played(story).outcomes == [LARGE, SMALL, LARGE]


def test_a_connection_that_ends_meanwhile_fails_each_of_its_calls_once() -> None:
    async def story(asked: Asked) -> None:
        asked.connection.data_received(asked.answered(0, LARGE))
        await turns(1)
        asked.connection.connection_lost(None)
        await turns(10)

    assert [type(each) for each in played(story).outcomes] == [ConnectionLost] * 3


def test_a_connection_that_is_retired_closes_after_the_last_step() -> None:
    async def story(asked: Asked) -> None:
        frames = b"".join(asked.answered(number, LARGE) for number in range(3))
        asked.connection.data_received(frames)
        asked.connection.retire()
        await turns(40)

    assert played(story).outcomes == [LARGE] * 3


def test_a_response_that_is_corrupt_in_a_later_step_ends_the_connection() -> None:
    async def story(asked: Asked) -> None:
        raw = METADATA.encode_response(13, LARGE, 0)
        asked.connection.data_received(asked.answered(0, raw[:-50]))
        assert asked.outcomes == []
        await turns(10)
        assert not asked.connection.is_open

    first, *_ = played(story).outcomes
    assert isinstance(first, ConnectionLost)
    assert "unreadable answer: Metadata answer v13" in str(first)
    with pytest.raises(CorruptData):
        METADATA.decode_response(13, METADATA.encode_response(13, LARGE, 0)[:-50])


def counted_for(api: Api[Any, Any], request: Any, body: bytes) -> dict[str, float]:
    """What a connection counts whose clocks ``api`` moves."""

    async def story() -> None:
        connection = Connection("test", COUNTED)
        connection.connection_made(cast(asyncio.Transport, Wire()))
        outcomes: list[Any] = []
        connection.versions = {api.key: api.versions}
        connection.ask(api, request, outcomes.append, timeout_s=60)
        connection.data_received(response_frame(0, body, tagged=True))
        while not outcomes:
            await turns(1)
        connection.close()

    asyncio.run(asyncio.wait_for(story(), 20))
    return COUNTED.longest_s


CLOCKS = Clocks()
COUNTED = stalls(CLOCKS)


def test_each_step_of_a_response_is_counted() -> None:
    def slow(_version: int, _body: Any) -> Steps[MetadataAnswer]:
        CLOCKS.work(0.02)
        yield
        CLOCKS.work(0.03)
        yield
        CLOCKS.work(0.01)
        return SMALL

    api = dataclasses.replace(METADATA, decode_steps=slow)
    assert counted_for(api, Metadata(None), b"")["Metadata response"] == pytest.approx(0.03)


def test_a_response_without_steps_is_counted() -> None:
    def slow(_version: int, _body: Any) -> Any:
        CLOCKS.work(0.04)
        return BLOCK

    api = dataclasses.replace(ALLOCATE_PRODUCER_IDS, decode_response=slow)
    assert counted_for(api, ASK, b"")["AllocateProducerIds response"] == pytest.approx(0.04)
