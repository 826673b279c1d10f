"""Every request key has a byte limit, looked at when the key is here and before anything is decoded."""

import asyncio
import struct
from collections.abc import Callable
from typing import Any

import pytest

from fencepost.controller.errors import InvalidRequest
from fencepost.controller.topics import NewTopic
from fencepost.controller.transactions.add_partitions import AddPartitions, AddPartitionsToTxn
from fencepost.controller.transactions.describe import DescribeTransactions
from fencepost.records.invariant import CorruptData
from fencepost.records.transaction_log import TopicPartitions
from fencepost.records.types import ProducerId
from fencepost.wire.dispatch import Api, Context, Endpoint, Reply, Service
from fencepost.wire.frame import FRAME_BYTES_MAX, KEYLESS_BYTES_MAX, Splitter
from fencepost.wire.k00_produce import PartitionData
from fencepost.wire.k02_list_offsets import OffsetQuery
from fencepost.wire.k03_metadata import TopicQuery
from fencepost.wire.k23_offset_for_leader_epoch import EpochQuery
from fencepost.wire.k24_add_partitions_to_txn import ADD_PARTITIONS_TO_TXN
from fencepost.wire.k32_describe_configs import ConfigResource, DescribeConfigs
from fencepost.wire.k67_allocate_producer_ids import ALLOCATE_PRODUCER_IDS
from fencepost.wire.k20037_prove_secret import PROVE_SECRET
from fencepost.wire.listener import OWN_KEYS, Listener
from fencepost.wire.registry import APIS
from fencepost.wire.request_limits import TOPIC_LISTS, TRANSACTION_LISTS
from fencepost.wire.schema import ELEMENTS_MAX, LOOKED_UP_ELEMENTS_MAX
from tests.hostile.largest_request import changed
from tests.together import table
from tests.wire.every_api import EVERY_API, SERVICE_APIS
from tests.wire.sample_messages import SAMPLES
from tests.wire.stage import RawClient, blocks_service, capturing_log, listening

LIMITS = {api.key: api.request_bytes_max for api in EVERY_API}
LIMITED = [pytest.param(key, most, id=str(key)) for key, most in LIMITS.items() if most < FRAME_BYTES_MAX]


def head(size: int, key: int) -> bytes:
    return struct.pack(">ih", size, key)


def test_only_produce_is_limited_by_the_frame_alone() -> None:
    assert [key for key, most in LIMITS.items() if most == FRAME_BYTES_MAX] == [0]
    assert all(KEYLESS_BYTES_MAX <= most <= TRANSACTION_LISTS for key, most in LIMITS.items() if key != 0)


@table(("key", "most"), LIMITED)
def test_a_request_at_its_limit_is_taken_and_one_byte_more_is_not(key: int, most: int) -> None:
    taken = Splitter(key_limits=LIMITS)
    taken.feed(head(most, key))
    assert taken.next_frame() is None
    taken.feed(bytes(most - 2))
    frame = taken.next_frame()
    assert frame is not None
    assert len(frame) == most
    refused = Splitter(key_limits=LIMITS)
    refused.feed(head(most + 1, key))
    with pytest.raises(CorruptData, match=f"API key {key} claims {most + 1} bytes, expected at most {most}"):
        refused.next_frame()


@table("key", [-1, 4, 34, 30_000, -32768])
def test_a_key_that_is_not_served_has_the_smallest_limit(key: int) -> None:
    for size, refused in ((KEYLESS_BYTES_MAX, False), (KEYLESS_BYTES_MAX + 1, True), (FRAME_BYTES_MAX, True)):
        splitter = Splitter(key_limits=LIMITS)
        splitter.feed(head(size, key))
        if refused:
            with pytest.raises(CorruptData, match=f"API key {key}"):
                splitter.next_frame()
        else:
            assert splitter.next_frame() is None


def test_the_limit_is_looked_at_however_the_bytes_come() -> None:
    """Byte by byte; behind a whole request; and a frame that is here as a whole."""
    whole = head(TOPIC_LISTS + 1, 19) + bytes(TOPIC_LISTS - 1)
    for pieces in ([whole[n : n + 1] for n in range(6)], [head(2, 18), whole[:6]], [head(2, 18) + whole]):
        splitter = Splitter(key_limits=LIMITS)
        *before, last = pieces
        for piece in before:
            splitter.feed(piece)
            while splitter.next_frame() is not None:
                pass
        splitter.feed(last)
        with pytest.raises(CorruptData, match="API key 19"):
            [splitter.next_frame() for _ in range(2)]


def test_answers_have_no_keys() -> None:
    splitter = Splitter()
    splitter.feed(head(TRANSACTION_LISTS + 1, 18))
    assert splitter.next_frame() is None


def _refuse(request: Any, context: Context, reply: Reply[Any]) -> None:
    reply(InvalidRequest("no"))


def _everything() -> Service:
    service: dict[int, tuple[Api[Any, Any], Endpoint[Any, Any]]] = {
        api.key: (api, _refuse) for api in SERVICE_APIS
    }
    return {**service, **blocks_service()}


def test_past_its_limit_a_connection_is_closed_before_the_rest_is_sent() -> None:
    """100 MB of a heartbeat are neither stored nor decoded; lines in the log are limited."""

    async def story() -> None:
        async with listening(_everything()) as (listener, events):
            for key, most in LIMITS.items():
                if most >= FRAME_BYTES_MAX:
                    continue
                client = await RawClient.open(listener.port)
                client.send(head(most + 1, key))
                assert await client.frame() is None, key
                await client.close()
            closed = [event for event in events if event["event"] == "connection_closed"]
            assert 0 < len(closed) <= 10
            assert all("expected at most" in event["reason"] for event in closed)

    asyncio.run(story())


def test_a_listener_limits_only_what_it_serves() -> None:
    """The controllers' listener serves no Produce: a large one is refused at once."""
    listener = Listener(blocks_service(), name="CONTROLLER", log=capturing_log()[0])
    assert set(listener.key_limits) == {ALLOCATE_PRODUCER_IDS.key} | OWN_KEYS - {PROVE_SECRET.key}
    assert 0 not in listener.key_limits


LEGAL = [
    pytest.param(19, 2_500 * (2 + 249 + 4 + 2 + 1 + 1 + 1), id="CreateTopics-2500-topics"),
    pytest.param(65, 5_000 * (2 + 400), id="DescribeTransactions-5000-ids"),
    pytest.param(27, 5_000 * (8 + 2 + 1 + 4 + 1 + 2 + 249 + 1 + 4 + 1), id="WriteTxnMarkers-5000-partitions"),
    pytest.param(
        24,
        ELEMENTS_MAX // 3 * (2 + 400 + 8 + 2 + 1 + 1 + 2 + 249 + 1 + 4 + 1 + 1),
        id="AddPartitionsToTxn-v4-of-a-broker",
    ),
    pytest.param(3, ELEMENTS_MAX * (16 + 2 + 249 + 1), id="Metadata"),
    pytest.param(20024, 5_000 * (8 + 2 + 8 + 1 + 2 + 249 + 1 + 4 + 1), id="AnnouncePartitions"),
]


@table(("key", "size"), LEGAL)
def test_what_its_other_limits_allow_fits(key: int, size: int) -> None:
    assert size + 32 * 1024 <= LIMITS[key]


def added(topics: tuple[TopicPartitions, ...]) -> AddPartitionsToTxn:
    return AddPartitionsToTxn((AddPartitions("t", ProducerId(1), 0, topics),), batched=False)


@table("key", [0, 2, 3, 10, 19, 20, 23, 24, 32, 61, 65])
@table("past", [0, 1], ids=["at-the-bound", "one-past"])
def test_requests_that_look_each_element_up_have_fewer(key: int, past: int) -> None:
    api = APIS[key]
    most = {0: 10_000, 19: 2_500, 20: 2_500, 24: 2_500, 65: 10_000}.get(key, LOOKED_UP_ELEMENTS_MAX)
    count = most + past
    version = 3 if key == ADD_PARTITIONS_TO_TXN.key else api.versions[-1]
    sample = SAMPLES[key][0]
    requests: dict[int, Callable[[], Any]] = {
        0: lambda: changed(sample, partitions=tuple(PartitionData("t", n, b"") for n in range(count - 1))),
        2: lambda: changed(sample, partitions=tuple(OffsetQuery("t", n, -1) for n in range(count - 1))),
        3: lambda: changed(sample, topics=tuple(TopicQuery(f"t{n}", None) for n in range(count))),
        10: lambda: changed(sample, key_type=1, keys=tuple(f"k{n}" for n in range(count))),
        19: lambda: changed(sample, topics=tuple(NewTopic(f"t{n}") for n in range(count))),
        20: lambda: changed(sample, names=tuple(f"t{n}" for n in range(count)), ids=()),
        23: lambda: changed(sample, partitions=tuple(EpochQuery("t", n, 0, -1) for n in range(count - 1))),
        24: lambda: added(tuple(TopicPartitions(f"t{n}", (0,)) for n in range(count))),
        32: lambda: DescribeConfigs(tuple(ConfigResource(2, f"t{n}") for n in range(count))),
        65: lambda: DescribeTransactions(tuple(f"t{n}" for n in range(count))),
        61: lambda: changed(sample, topics=(("orders", tuple(range(count - 1))),)),
    }
    body = memoryview(api.encode_request(version, requests[key]()))
    if past:
        with pytest.raises(CorruptData, match=f"more than {most}"):
            api.decode_request(version, body)
    else:
        api.decode_request(version, body)
