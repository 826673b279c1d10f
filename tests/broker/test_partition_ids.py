"""A bit of partition.metadata flips, or the file is another one: no log is deleted for it."""

import asyncio
from pathlib import Path

import pytest

from fencepost.broker.hosted_logs import HOSTED_LOGS
from fencepost.broker.log.checkpoints import PARTITION_FILE
from tests.broker.batches import TOPIC, batch, fetch, produce
from tests.broker.data_stage import HERE, fetched, produced, values
from tests.broker.fake_controller import FakeController, play
from tests.broker.whole_broker import Stage, config_for

ID_AT = 21  # in the file


def flipped(raw: bytes, at: int, bit: int) -> bytes:
    return raw[:at] + bytes((raw[at] ^ 1 << bit,)) + raw[at + 1 :]


async def started(controller: FakeController, home: Path) -> Stage:
    on = Stage(controller, config_for(controller, home))
    await on.broker.start()
    await on.broker.ready()
    await on.broker._data.topics.refresh()
    partitions = on.broker._data._partitions
    while partitions.find(TOPIC, 0) is None and not partitions.is_offline(TOPIC, 0):
        await asyncio.sleep(0.005)
    return on


def test_whichever_bit_of_it_flips_it_is_written_again(tmp_path: Path) -> None:
    """With another topic's id the log was deleted, as that of a topic that is no more."""

    async def story() -> None:
        controller = FakeController()
        controller.add_topic(TOPIC, HERE)
        async with controller:
            on = await started(controller, tmp_path)
            await produced(on, produce(batch(b"x")))
            await on.broker.stop()
            file = tmp_path / f"{TOPIC}-0" / PARTITION_FILE
            raw = file.read_bytes()
            for at in (9, 12, ID_AT, ID_AT + 21):
                for bit in (0, 7):
                    file.write_bytes(flipped(raw, at, bit))
                    on = await started(controller, tmp_path)
                    assert values(await fetched(on, fetch(0))) == [(0, b"x")], (at, bit)
                    assert file.read_bytes() in (raw, flipped(raw, at, bit))
                    await on.broker.stop()
                    file.write_bytes(raw)

    play(story)


@pytest.mark.parametrize("known_by", ["what is remembered", "its sums", "nothing"])
def test_another_logs_folder_is_offline_and_kept(tmp_path: Path, known_by: str) -> None:
    """Put there by hand. Where nothing says whose it is, as with an earlier version, it is gone."""
    is_known = known_by != "nothing"

    async def story() -> None:
        controller = FakeController()
        controller.add_topic(TOPIC, HERE)
        async with controller:
            on = await started(controller, tmp_path)
            await produced(on, produce(batch(b"x")))
            await on.broker.stop()
            folder = tmp_path / f"{TOPIC}-0"
            raw = (folder / PARTITION_FILE).read_bytes()
            other = raw[:ID_AT] + b"AB" + raw[ID_AT + 2 :]
            (folder / PARTITION_FILE).write_bytes(other)
            if known_by != "what is remembered":
                (tmp_path / HOSTED_LOGS).unlink()
            if known_by == "nothing":
                for sums in folder.glob("*.checksums"):
                    sums.unlink()
            on = await started(controller, tmp_path)
            partitions = on.broker._data._partitions
            assert partitions.is_offline(TOPIC, 0) is is_known
            assert ((folder / PARTITION_FILE).read_bytes() == other) is is_known
            if is_known:
                (said,) = on.events("partition_offline")
                is_remembered = known_by == "what is remembered"
                assert (PARTITION_FILE if is_remembered else "another partition's") in said["reason"]
                assert ("Put the right one back" in said["reason"]) is is_remembered
            await on.broker.stop()

    play(story)


@pytest.mark.parametrize("is_checked", [True, False], ids=["checked", "of-an-earlier-version"])
def test_a_bit_of_what_is_remembered_flips_and_no_log_is_deleted(tmp_path: Path, is_checked: bool) -> None:
    """The folder is right. What an earlier version remembered has no checksum: the log is offline then."""

    async def story() -> None:
        controller = FakeController()
        controller.add_topic(TOPIC, HERE)
        async with controller:
            on = await started(controller, tmp_path)
            await produced(on, produce(batch(b"x")))
            await on.broker.stop()
            file = tmp_path / HOSTED_LOGS
            line, *checks = file.read_bytes().splitlines(keepends=True)
            file.write_bytes(flipped(line, 10, 0) + b"".join(checks if is_checked else ()))
            on = await started(controller, tmp_path)
            partitions = on.broker._data._partitions
            assert partitions.is_offline(TOPIC, 0) is not is_checked
            assert bool(on.events("hosted_logs_damaged")) is is_checked
            if is_checked:
                assert values(await fetched(on, fetch(0))) == [(0, b"x")]
            assert (tmp_path / f"{TOPIC}-0" / PARTITION_FILE).is_file()
            await on.broker.stop()

    play(story)
