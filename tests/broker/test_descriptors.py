"""A broker whose partition logs find no file descriptor: requests are refused, partitions stay online."""

import errno
from pathlib import Path
from typing import Any

import pytest

from fencepost.broker.log.partition_log import PartitionLog
from fencepost.controller.errors import ErrorCode
from tests.broker.batches import batch, fetch, produce
from tests.broker.data_stage import HERE, fetched, hosting, produced, values
from tests.broker.fake_controller import play


def without_descriptors(number: int) -> Any:
    def refuse(*arguments: Any, **more: Any) -> Any:
        raise OSError(number, "no descriptor")

    return refuse


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_a_produce_and_a_fetch_are_refused_and_the_next_ones_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE) as on:
            await produced(on, produce(batch(b"a")))
            with monkeypatch.context() as patched:
                patched.setattr(PartitionLog, "append", without_descriptors(number))
                patched.setattr(PartitionLog, "read", without_descriptors(number))
                (row,) = await produced(on, produce(batch(b"b")))
                assert row.error_code == ErrorCode.KAFKA_STORAGE_ERROR
                assert (await fetched(on, fetch(0))).error_code == ErrorCode.KAFKA_STORAGE_ERROR
            (row,) = await produced(on, produce(batch(b"c")))
            assert row.error_code == ErrorCode.NONE
            assert values(await fetched(on, fetch(0))) == [(0, b"a"), (1, b"c")]
            events = [each["event"] for each in on.logged.entries]
            assert "partition_offline" not in events
            assert events.count("descriptors_exhausted") == 2

    play(story)


def test_another_error_takes_the_partition_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with hosting(tmp_path, HERE) as on:
            with monkeypatch.context() as patched:
                patched.setattr(PartitionLog, "append", without_descriptors(errno.EIO))
                await produced(on, produce(batch(b"b")))
            (row,) = await produced(on, produce(batch(b"c")))
            assert row.error_code == ErrorCode.KAFKA_STORAGE_ERROR
            assert "partition_offline" in [each["event"] for each in on.logged.entries]

    play(story)
