"""A topic's compression.type: batches are stored as it says, in order, with the same records."""

import asyncio
from pathlib import Path

import pytest

from fencepost.controller.errors import ErrorCode
from fencepost.records.batch import BatchHeader, checked_header, decode_records, encode_batch
from fencepost.records.compression import BY_NAME, NONE
from fencepost.records.filtered import opened, recompressed
from tests.broker.batches import batch, fetch, from_producer, produce
from tests.broker.data_stage import fetched, produced
from tests.broker.fake_controller import play
from tests.broker.log.builders import compressed
from tests.broker.test_log_cleaning import compacting


def stored(raw: bytes) -> tuple[list[BatchHeader], list[bytes | None]]:
    """Headers and values of some batches."""
    headers: list[BatchHeader] = []
    values: list[bytes | None] = []
    while raw:
        header = checked_header(raw)
        body = opened(raw[: header.size], header)
        headers.append(header)
        values += [each.value for each in decode_records(body, 0, header.record_count, header.base_offset, 0)]
        raw = raw[header.size :]
    return headers, values


@pytest.mark.parametrize("name", BY_NAME)
def test_what_is_stored_is_compressed_as_the_topic_says(tmp_path: Path, name: str) -> None:
    async def story() -> None:
        async with compacting(tmp_path, {"compression.type": name}) as (on, _):
            sent = [batch(b"plain", b"more"), compressed(batch(b"packed"), "gzip"), batch(b"y" * 100_000)]
            for records in (*sent, compressed(sent[2], "zstd")):
                (row,) = await produced(on, produce(records))
                assert row.error_code == ErrorCode.NONE
            answer = await fetched(on, fetch(0))
            headers, values = stored(answer.records)
            assert {header.compression for header in headers} == {BY_NAME[name]}
            assert values == [b"plain", b"more", b"packed", b"y" * 100_000, b"y" * 100_000]
            assert [header.base_offset for header in headers] == [0, 2, 3, 4]

    play(story)


def test_batches_in_flight_stay_in_order(tmp_path: Path) -> None:
    async def story() -> None:
        async with compacting(tmp_path, {"compression.type": "lz4"}) as (on, _):
            batches = [from_producer(b"%d" % n * (1 + n % 2 * 50_000), sequence=n) for n in range(5)]
            rows = await asyncio.gather(*(produced(on, produce(each)) for each in batches))
            assert [row[0].error_code for row in rows] == [ErrorCode.NONE] * 5
            assert [row[0].base_offset for row in rows] == [0, 1, 2, 3, 4]
            (again,) = await produced(on, produce(batches[4]))
            assert again.base_offset == 4, "a repetition is known as one"

    play(story)


def test_a_batch_that_becomes_too_large_is_refused(tmp_path: Path) -> None:
    settings = {"compression.type": "uncompressed", "max.message.bytes": "5000"}

    async def story() -> None:
        async with compacting(tmp_path, settings) as (on, _):
            (row,) = await produced(on, produce(compressed(batch(b"x" * 5_000), "gzip")))
            assert row.error_code == ErrorCode.MESSAGE_TOO_LARGE
            (row,) = await produced(on, produce(batch(b"x" * 100)))
            assert (row.error_code, row.base_offset) == (ErrorCode.NONE, 0)

    play(story)


def test_what_a_header_says_of_compression_is_all_that_changes() -> None:
    parts = [(b"k", b"v" * 99, ())] * 3
    raw = encode_batch(parts, timestamp_ms=5, producer_id=7, producer_epoch=2, base_sequence=9)
    header = checked_header(raw)
    for codec in BY_NAME.values():
        packed = recompressed(raw, header, codec)
        assert checked_header(packed)._replace(size=0, attributes=0) == header._replace(size=0, attributes=0)
        assert recompressed(packed, checked_header(packed), NONE) == raw


def test_a_topics_level_is_that_of_what_is_stored(tmp_path: Path) -> None:
    async def story() -> None:
        body = b"".join(b"%d," % (each * each % 9_973) for each in range(20_000))
        settings = {"compression.type": "gzip", "compression.gzip.level": "1"}
        async with compacting(tmp_path, settings) as (on, partition):
            sizes: list[int] = []
            for level in ("1", "9"):
                on.controller.settings = settings | {"compression.gzip.level": level}
                assert await on.broker._data.topics.refresh()
                (row,) = await produced(on, produce(batch(body)))
                assert row.error_code == ErrorCode.NONE
                sizes.append(partition.log.size - sum(sizes))
            assert sizes[1] < sizes[0]

    play(story)
