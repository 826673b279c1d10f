"""What the coordinator announces need not be asked; an announcement that comes too late is of no use."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from fencepost.controller.errors import ErrorCode
from fencepost.wire.connection import SOFTWARE
from fencepost.wire.k18_api_versions import API_VERSIONS
from fencepost.wire.k24_add_partitions_to_txn import ADD_PARTITIONS_TO_TXN
from fencepost.wire.k63_broker_heartbeat import BROKER_HEARTBEAT
from fencepost.wire.k20024_announce_partitions import ANNOUNCE_PARTITIONS, Announcement, AnnouncePartitions
from tests.broker.batches import TOPIC, batch, fetch, from_producer, marker, produce
from tests.broker.data_stage import HERE, TXN, ended, fetched, hosting, open_transaction, produced
from tests.broker.fake_controller import SILENCE, play
from tests.broker.whole_broker import Stage
from tests.together import table


async def announce(
    on: Stage, *, version: int, epoch: int = 0, topic: str = TOPIC, index: int = 0, proved: bool = True
) -> None:
    row = Announcement(7, epoch, version, ((topic, (index,)),))
    client = await (on.coordinator() if proved else on.client())
    try:
        assert client.send_nowait(ANNOUNCE_PARTITIONS, AnnouncePartitions((row,)))
        await client.call(API_VERSIONS, SOFTWARE)  # one after the other: it was heard
    finally:
        client.close()


def questions(on: Stage) -> int:
    return len(on.controller.asked[ADD_PARTITIONS_TO_TXN.key])


async def host(on: Stage) -> None:
    """The partition is opened when it is first asked for."""
    await produced(on, produce(batch(b"first")))


def test_an_announced_transaction_is_not_asked_about(tmp_path: Path) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE) as on:
            await host(on)
            await announce(on, version=5)
            assert (await open_transaction(on, b"a")).error_code == ErrorCode.NONE
            assert questions(on) == 0
            assert await ended(on, marker(committed=True, version=6)) == ErrorCode.NONE
            assert (await open_transaction(on, b"b", sequence=1)).error_code == ErrorCode.NONE
            assert questions(on) == 1, "the next transaction was not announced"

    play(story)


USELESS = [
    pytest.param({"version": 6}, id="as-old-as-the-marker"),
    pytest.param({"version": 5}, id="older-than-the-marker"),
    pytest.param({"version": 7, "epoch": 3}, id="of-another-epoch"),
    pytest.param({"version": 7, "index": 9}, id="of-another-partition"),
    pytest.param({"version": 7, "topic": "nowhere"}, id="of-another-topic"),
    pytest.param({"version": 7, "proved": False}, id="without-a-proof-of-the-secret"),
    pytest.param({"version": 2**63 - 1, "proved": False}, id="without-a-proof-and-newer-than-all"),
]


@table("row", USELESS)
def test_an_announcement_of_no_use_leaves_the_question(tmp_path: Path, row: dict[str, Any]) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE) as on:
            assert (await open_transaction(on, b"a")).error_code == ErrorCode.NONE
            assert await ended(on, marker(committed=True, version=6)) == ErrorCode.NONE
            await announce(on, **row)
            on.controller.verdict = ErrorCode.TRANSACTION_ABORTABLE
            late = await open_transaction(on, b"late", sequence=1)
            assert late.error_code == ErrorCode.INVALID_TXN_STATE
            assert (await fetched(on, fetch(0))).last_stable_offset == 2

    play(story)


@pytest.mark.parametrize("proved", [True, False])
def test_an_announcement_is_the_answer_to_an_addition(tmp_path: Path, proved: bool) -> None:
    """If it is the coordinator's."""

    async def story() -> None:
        async with hosting(tmp_path, HERE) as on:
            await host(on)
            on.controller.script(ADD_PARTITIONS_TO_TXN, SILENCE)
            records = from_producer(b"a", sequence=0, transactional=True)
            request = replace(produce(records, transactional_id=TXN), adds_partitions=True)
            writing = asyncio.ensure_future(produced(on, request, 12))
            await on.controller.count(ADD_PARTITIONS_TO_TXN, 1)
            await announce(on, version=5, proved=proved)
            if proved:
                ((row,), asked) = await writing, questions(on)
                assert (row.error_code, asked) == (ErrorCode.NONE, 1)
            else:
                assert not writing.done()
                on.controller.hang_up()
                await writing

    play(story)


def test_without_verification_nothing_is_asked(tmp_path: Path) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE, partition_verification=False) as on:
            assert (await open_transaction(on, b"a")).error_code == ErrorCode.NONE
            assert questions(on) == 0

    play(story)


HOURLY: dict[str, Any] = {
    "broker_heartbeat_interval_ms": 3_600_000,
    "broker_session_timeout_ms": 7_200_000,
}


@pytest.mark.parametrize("proved", [True, False])
def test_an_announced_change_is_a_heartbeat_at_once_and_what_it_shows_is_asked_for(
    tmp_path: Path, proved: bool
) -> None:
    """If the coordinator announces it: here no other heartbeat comes for an hour."""

    async def story() -> None:
        async with hosting(tmp_path, HERE, **HOURLY) as on:
            await produced(on, produce(batch(b"first")))
            beats = len(on.controller.asked[BROKER_HEARTBEAT.key])
            on.controller.topics.clear()  # deleted
            client = await (on.coordinator() if proved else on.client())
            try:
                assert client.send_nowait(ANNOUNCE_PARTITIONS, AnnouncePartitions(()))
                await client.call(API_VERSIONS, SOFTWARE)  # one after the other: it was heard
                if proved:
                    await on.controller.count(BROKER_HEARTBEAT, beats + 1)
                    while (await produced(on, produce(batch(b"gone"))))[0].error_code == ErrorCode.NONE:
                        await asyncio.sleep(0)
                else:
                    for _ in range(20):
                        await client.call(API_VERSIONS, SOFTWARE)
                    assert len(on.controller.asked[BROKER_HEARTBEAT.key]) == beats
            finally:
                client.close()

    play(story)
