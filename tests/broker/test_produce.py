"""Produce on a whole broker, against a scripted controller."""

from pathlib import Path

from fencepost.controller.errors import ErrorCode
from fencepost.wire.k00_produce import PRODUCE, Produce
from fencepost.wire.k03_metadata import METADATA
from tests.broker.batches import TOPIC, batch, fetch, from_producer, produce
from tests.broker.data_stage import ELSEWHERE, HERE, fetched, hosting, produced, values
from tests.broker.fake_controller import play
from tests.together import table


def test_what_is_produced_is_fetched(tmp_path: Path) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE) as on:
            (first,) = await produced(on, produce(batch(b"a", b"b")))
            (second,) = await produced(on, produce(batch(b"c")))
            assert (first.error_code, first.base_offset, second.base_offset) == (0, 0, 2)
            row = await fetched(on, fetch(0))
            assert values(row) == [(0, b"a"), (1, b"b"), (2, b"c")]
            assert (row.high_watermark, row.last_stable_offset, row.log_start_offset) == (3, 3, 0)
            assert row.aborted is None
            assert values(await fetched(on, fetch(2))) == [(2, b"c")]

    play(story)


@table("version", PRODUCE.versions[3:], ids="v{}".format)
def test_every_version_of_produce_is_served(tmp_path: Path, version: int) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE) as on:
            (row,) = await produced(on, produce(batch(b"a")), version)
            assert (row.error_code, row.base_offset) == (0, 0)

    play(story)


def test_partitions_of_a_request_fare_each_for_itself(tmp_path: Path) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE, ELSEWHERE, HERE, HERE) as on:
            broken = bytearray(batch(b"x"))
            broken[-1] ^= 1
            rows = await produced(on, produce(batch(b"a"), batch(b"b"), bytes(broken), None, batch(b"c")))
            assert [row.error_code for row in rows] == [
                ErrorCode.NONE,
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                ErrorCode.CORRUPT_MESSAGE,
                ErrorCode.CORRUPT_MESSAGE,
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ]

    play(story)


def test_unknown_acks_are_refused(tmp_path: Path) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE) as on:
            odd = Produce(None, 2, 1_000, produce(batch(b"a")).partitions)
            (row,) = await produced(on, odd)
            assert row.error_code == ErrorCode.INVALID_REQUIRED_ACKS

    play(story)


def test_a_topic_made_a_moment_ago_is_looked_up_once(tmp_path: Path) -> None:
    async def story() -> None:
        async with hosting(tmp_path) as on:
            (missing,) = await produced(on, produce(batch(b"a")))
            assert missing.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            on.controller.add_topic(TOPIC, HERE)
            (row,) = await produced(on, produce(batch(b"a")))
            assert row.error_code == ErrorCode.NONE
            asked = [each for each in on.controller.asked[METADATA.key] if each.topics is not None]
            assert [each.allow_auto_topic_creation for each in asked] == [False, False]

    play(story)


def test_a_retried_batch_is_answered_with_its_first_offset(tmp_path: Path) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE) as on:
            for sequence in range(3):
                await produced(on, produce(from_producer(b"x", sequence=sequence)))
            (again,) = await produced(on, produce(from_producer(b"x", sequence=1)))
            assert (again.error_code, again.base_offset) == (ErrorCode.NONE, 1)
            (gap,) = await produced(on, produce(from_producer(b"x", sequence=9)))
            assert gap.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            assert (await fetched(on, fetch(0))).high_watermark == 3

    play(story)
