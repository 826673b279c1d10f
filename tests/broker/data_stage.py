"""A whole broker that hosts a topic, and what is asked of it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fencepost.controller.errors import ErrorCode
from fencepost.records.batch import decode_batch
from fencepost.wire.k00_produce import PRODUCE, PartitionProduced, Produce
from fencepost.wire.k01_fetch import FETCH, Fetch, FetchedPartition
from fencepost.wire.k27_write_txn_markers import WRITE_TXN_MARKERS, WriteTxnMarkers
from tests.broker.batches import TOPIC, from_producer, produce
from tests.broker.fake_controller import FakeController
from tests.broker.whole_broker import Stage, stage

HERE = 1
ELSEWHERE = 2
TXN = "payments"


@asynccontextmanager
async def hosting(directory: Path, *leaders: int, **settings: Any) -> AsyncIterator[Stage]:
    """A broker in a cluster with one topic."""
    controller = FakeController()
    if leaders:
        controller.add_topic(TOPIC, *leaders)
    async with stage(controller, directory, **settings) as on:
        await on.broker.ready()
        yield on


async def produced(on: Stage, request: Produce, version: int = 9) -> list[PartitionProduced]:
    answer = await on.call(PRODUCE, request, version)
    return list(answer.partitions)


async def fetched(on: Stage, request: Fetch, version: int | None = None) -> FetchedPartition:
    """By the newest version that can name the topic so, unless one is given."""
    by_id = any(each.topic_id is not None for each in request.partitions)
    newest = FETCH.versions[-1] if by_id else 12
    answer = await on.call(FETCH, request, newest if version is None else version)
    row: FetchedPartition = answer.partitions[0]
    return row


def values(row: FetchedPartition) -> list[tuple[int, bytes | None]]:
    found, position = [], 0
    while position < len(row.records):
        read, size = decode_batch(row.records, position)
        position += size
        found += [(read.base_offset + place, record.value) for place, record in enumerate(read.records)]
    return found


async def open_transaction(on: Stage, *texts: bytes, sequence: int = 0, epoch: int = 0) -> PartitionProduced:
    records = from_producer(*texts, sequence=sequence, epoch=epoch, transactional=True)
    (row,) = await produced(on, produce(records, transactional_id=TXN))
    return row


async def ended(on: Stage, request: WriteTxnMarkers, *, proved: bool = True) -> ErrorCode:
    """The answer to one marker of one partition; ``proved``: it is the coordinator's."""
    answer = await on.call(WRITE_TXN_MARKERS, request, proved=proved)
    ((_, ((_, ((_, code),)),)),) = answer.markers
    return ErrorCode(code)
