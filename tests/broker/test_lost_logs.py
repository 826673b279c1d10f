"""A log that is not where it was made is lost: its partition is offline by name, and no empty log is made."""

import asyncio
import errno
import os
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fencepost.broker.hosted_logs import HOSTED_LOGS
from fencepost.broker.log import recovery
from fencepost.controller.errors import DuplicateBrokerRegistration, ErrorCode
from fencepost.wire.k03_metadata import TopicQuery
from fencepost.wire.k62_broker_registration import BROKER_REGISTRATION
from tests.broker.batches import TOPIC, batch, fetch, produce
from tests.broker.data_stage import HERE, fetched, produced, values
from tests.broker.fake_controller import FakeController, play
from tests.broker.whole_broker import Stage, config_for

STORAGE_ERROR = ErrorCode.KAFKA_STORAGE_ERROR


async def started(controller: FakeController, directory: Path) -> Stage:
    on = Stage(controller, config_for(controller, directory))
    await on.broker.start()
    await on.broker.ready()
    await on.broker._data.topics.refresh()
    return on


async def filled(controller: FakeController, directory: Path, *batches: bytes) -> None:
    """A batch in each of the topic's partitions, by a broker that ends then."""
    on = await started(controller, directory)
    await produced(on, produce(*batches))
    await on.broker.stop()


def test_a_folder_that_is_gone_is_offline_by_name_until_it_is_back(tmp_path: Path) -> None:
    home, aside = tmp_path / "data", tmp_path / "aside"

    async def story() -> None:
        controller = FakeController()
        controller.add_topic(TOPIC, HERE, HERE)
        async with controller:
            await filled(controller, home, batch(b"a"), batch(b"b"))
            (home / f"{TOPIC}-0").rename(aside)

            on = await started(controller, home)
            (offline,) = on.events("partition_offline")
            assert offline["partition"] == f"{TOPIC}-0"
            assert f"was in {home / TOPIC}-0" in offline["reason"]
            assert "bring it back and start the broker again, or delete the topic" in offline["reason"]
            rows = await produced(on, produce(batch(b"c"), batch(b"d")))
            assert [row.error_code for row in rows] == [STORAGE_ERROR, ErrorCode.NONE]
            assert (await fetched(on, fetch(0))).error_code == STORAGE_ERROR
            await on.broker.stop()
            assert not (home / f"{TOPIC}-0").exists()
            aside.rename(home / f"{TOPIC}-0")

            on = await started(controller, home)
            assert on.events("partition_offline") == []
            row = await fetched(on, fetch(0))
            assert values(row) == [(0, b"a")]
            await on.broker.stop()

    play(story)


def test_the_next_topic_of_its_name_has_a_log_of_its_own(tmp_path: Path) -> None:
    async def story() -> None:
        controller = FakeController()
        controller.add_topic(TOPIC, HERE)
        async with controller:
            await filled(controller, tmp_path, batch(b"a"))
            shutil.rmtree(tmp_path / f"{TOPIC}-0")
            controller.add_topic(TOPIC, HERE)
            for start in range(2):
                on = await started(controller, tmp_path)
                (row,) = await produced(on, produce(batch(b"b")))
                assert (row.error_code, row.base_offset) == (ErrorCode.NONE, start)
                assert len(on.events("partition_offline")) == 1 - start, "the old topic's is forgotten"
                await on.broker.stop()

    play(story)


def test_a_log_of_before_the_file_is_remembered_when_it_is_opened(tmp_path: Path) -> None:
    async def story() -> None:
        controller = FakeController()
        controller.add_topic(TOPIC, HERE)
        async with controller:
            await filled(controller, tmp_path, batch(b"a"))
            (tmp_path / HOSTED_LOGS).unlink()
            on = await started(controller, tmp_path)
            assert on.events("partition_offline") == []
            await on.broker.stop()
            shutil.rmtree(tmp_path / f"{TOPIC}-0")
            on = await started(controller, tmp_path)
            assert [each["partition"] for each in on.events("partition_offline")] == [f"{TOPIC}-0"]
            await on.broker.stop()

    play(story)


def test_a_partition_that_was_placed_in_another_directory_is_not_made_here(tmp_path: Path) -> None:
    """The whole of what the broker had is gone: what the controller knows of its directories decides."""

    async def story() -> None:
        controller = FakeController()
        topic = controller.add_topic(TOPIC, HERE, HERE)
        lost = msgspec.structs.replace(topic.partitions[0], offline_replicas=(HERE,))
        controller.topics[TOPIC] = msgspec.structs.replace(topic, partitions=(lost, topic.partitions[1]))
        async with controller:
            on = await started(controller, tmp_path)
            rows = await produced(on, produce(batch(b"a"), batch(b"b")))
            assert [row.error_code for row in rows] == [STORAGE_ERROR, ErrorCode.NONE]
            (offline,) = on.events("partition_offline")
            assert offline["partition"] == f"{TOPIC}-0"
            assert str(tmp_path) in offline["reason"]
            assert not (tmp_path / f"{TOPIC}-0").exists()
            await on.broker.stop()

    play(story)


def test_a_log_that_is_there_is_used_whatever_the_cluster_says_of_its_directory(tmp_path: Path) -> None:
    """Older versions gave a directory another id when its store was repaired."""

    async def story() -> None:
        controller = FakeController()
        topic = controller.add_topic(TOPIC, HERE)
        async with controller:
            await filled(controller, tmp_path, batch(b"a"))
            lost = msgspec.structs.replace(topic.partitions[0], offline_replicas=(HERE,))
            controller.topics[TOPIC] = msgspec.structs.replace(topic, partitions=(lost,))
            on = await started(controller, tmp_path)
            assert values(await fetched(on, fetch(0))) == [(0, b"a")]
            assert on.events("partition_offline") == []
            await on.broker.stop()

    play(story)


def test_a_fenced_broker_makes_no_log(tmp_path: Path) -> None:
    """The controller tells what is lost only of brokers that are not fenced."""

    async def story() -> None:
        controller = FakeController()
        topic = controller.add_topic(TOPIC, HERE)
        fenced = msgspec.structs.replace(
            topic.partitions[0],
            leader_id=-1,
            offline_replicas=(HERE,),
            error_code=ErrorCode.LEADER_NOT_AVAILABLE,
        )
        controller.topics[TOPIC] = msgspec.structs.replace(topic, partitions=(fenced,))
        async with controller:
            on = await started(controller, tmp_path)
            await on.broker._data.topics.refresh()
            assert not (tmp_path / f"{TOPIC}-0").exists()
            assert on.events("partition_offline") == []
            controller.topics[TOPIC] = topic
            await on.broker._data.topics.refresh()
            (row,) = await produced(on, produce(batch(b"a")))
            assert row.error_code == ErrorCode.NONE
            await on.broker.stop()

    play(story)


def test_no_log_is_made_by_what_was_asked_before_this_process_was_registered(tmp_path: Path) -> None:
    """Until then the controller speaks of the process that had the id before, and of its directories."""

    async def story() -> None:
        controller = FakeController()
        controller.add_topic(TOPIC, HERE)
        controller.script(BROKER_REGISTRATION, *[DuplicateBrokerRegistration()] * 10_000)
        async with controller:
            on = Stage(controller, config_for(controller, tmp_path))
            await on.broker.start()
            topics = on.broker._data.topics
            while not on.broker._data._partitions.recovered:  # before that it makes none anyway
                await asyncio.sleep(0)
            await topics.refresh()
            await topics.look_up((TopicQuery(TOPIC),))
            assert not (tmp_path / f"{TOPIC}-0").exists()
            controller.scripts[BROKER_REGISTRATION.key].clear()
            await on.broker.ready()
            while not (tmp_path / f"{TOPIC}-0").exists():  # without a request for it
                await asyncio.sleep(0)
            await on.broker.stop()

    play(story)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS], ids=["full", "read-only"])
def test_a_full_directory_is_named_and_all_its_partitions_are_offline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    async def story() -> None:
        controller = FakeController()
        controller.add_topic(TOPIC, HERE, HERE)
        async with controller:
            on = await started(controller, tmp_path)
            await produced(on, produce(batch(b"a"), batch(b"b")))
            partition = on.broker._data._partitions.find(TOPIC, 0)
            assert partition is not None

            def fail(*_arguments: Any) -> None:
                raise OSError(code, "no more")

            monkeypatch.setattr(partition.log, "append", fail)
            for _ in range(2):
                rows = await produced(on, produce(batch(b"a"), batch(b"b")))
                assert [row.error_code for row in rows] == [STORAGE_ERROR, STORAGE_ERROR]
            (directory,) = on.events("log_directory_offline")
            assert directory["directory"] == str(tmp_path)
            names = {each["partition"] for each in on.events("partition_offline")}
            assert names == {f"{TOPIC}-0", f"{TOPIC}-1"}
            await on.broker.stop()

    play(story)


def recovered(controller: FakeController, epoch: int, start: int) -> None:
    """As the controller describes the partition once an operator gave its log up."""
    topic = controller.topics[TOPIC]
    first = msgspec.structs.replace(
        topic.partitions[0], leader_epoch=epoch, start_offset=start, offline_replicas=()
    )
    controller.topics[TOPIC] = msgspec.structs.replace(topic, partitions=(first, *topic.partitions[1:]))


def test_a_log_that_was_given_up_begins_anew_in_its_leader_epoch_and_only_once(tmp_path: Path) -> None:
    folder = tmp_path / f"{TOPIC}-0"

    async def story() -> None:
        controller = FakeController()
        controller.add_topic(TOPIC, HERE)
        async with controller:
            await filled(controller, tmp_path, batch(b"a"))
            shutil.rmtree(folder)
            on = await started(controller, tmp_path)
            recovered(controller, 1, 500)
            await on.broker._data.topics.refresh()
            (row,) = await produced(on, produce(batch(b"b")))
            assert (row.error_code, row.base_offset) == (ErrorCode.NONE, 500)
            assert (await fetched(on, fetch(0))).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
            await on.broker.stop()

            on = await started(controller, tmp_path)
            assert values(await fetched(on, fetch(500))) == [(500, b"b")]
            await on.broker.stop()
            shutil.rmtree(folder)
            on = await started(controller, tmp_path)
            (row,) = await produced(on, produce(batch(b"c")))
            assert row.error_code == STORAGE_ERROR, "the same word counts for one loss"
            recovered(controller, 2, 501)
            await on.broker._data.topics.refresh()
            (row,) = await produced(on, produce(batch(b"c")))
            assert (row.error_code, row.base_offset) == (ErrorCode.NONE, 501)
            await on.broker.stop()

    play(story)


def test_on_a_full_disk_a_log_that_was_given_up_begins_once_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is tried with each look at the topics; what is half made is no log to be put aside."""

    def fails(folder: Path, _topic_id: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))

    async def story() -> None:
        controller = FakeController()
        controller.add_topic(TOPIC, HERE)
        async with controller:
            await filled(controller, tmp_path, batch(b"a"))
            on = await started(controller, tmp_path)
            await on.broker.stop()
            shutil.rmtree(tmp_path / f"{TOPIC}-0")
            on = await started(controller, tmp_path)
            recovered(controller, 1, 500)
            with monkeypatch.context() as patch:
                patch.setattr(recovery, "save_topic_id", fails)
                for _ in range(3):
                    await on.broker._data.topics.refresh()
            assert "No space left" in on.events("partition_offline")[-1]["reason"]
            assert not list(tmp_path.glob("*.lost"))
            await on.broker._data.topics.refresh()
            (row,) = await produced(on, produce(batch(b"b")))
            assert (row.error_code, row.base_offset) == (ErrorCode.NONE, 500)
            await on.broker.stop()

    play(story)


def test_a_log_that_is_there_is_not_given_up_and_its_next_loss_is_one(tmp_path: Path) -> None:
    async def story() -> None:
        controller = FakeController()
        controller.add_topic(TOPIC, HERE)
        async with controller:
            on = await started(controller, tmp_path)
            await produced(on, produce(batch(b"a")))
            recovered(controller, 1, 500)
            await on.broker._data.topics.refresh()
            assert values(await fetched(on, fetch(0))) == [(0, b"a")]
            await on.broker.stop()
            shutil.rmtree(tmp_path / f"{TOPIC}-0")
            on = await started(controller, tmp_path)
            (row,) = await produced(on, produce(batch(b"c")))
            assert row.error_code == STORAGE_ERROR
            await on.broker.stop()

    play(story)


def test_what_is_left_of_a_damaged_log_is_kept_when_it_is_given_up(tmp_path: Path) -> None:
    folder = tmp_path / f"{TOPIC}-0"

    async def story() -> None:
        controller = FakeController()
        controller.add_topic(TOPIC, HERE)
        async with controller:
            await filled(controller, tmp_path, batch(b"a"))
            segment = folder / f"{0:020d}.log"
            written = segment.read_bytes()[:-1] + b"?"
            segment.write_bytes(written)
            for restart in range(2):
                on = await started(controller, tmp_path)
                if not restart:
                    assert len(on.events("partition_offline")) == 1
                    recovered(controller, 1, 7)
                    await on.broker._data.topics.refresh()
                (row,) = await produced(on, produce(batch(b"b")))
                assert (row.error_code, row.base_offset) == (ErrorCode.NONE, 7 + restart)
                (aside,) = tmp_path.glob("*.lost")
                assert (aside / segment.name).read_bytes() == written
                await on.broker.stop()

    play(story)
