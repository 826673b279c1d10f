"""Several log directories: where logs are made, and what becomes of them when a directory cannot be used."""

import errno
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fencepost.controller.errors import ErrorCode
from fencepost.records.types import NodeId
from fencepost.settings.config import NodeConfig
from fencepost.settings.meta_properties import META_PROPERTIES
from fencepost.settings.node_identity import format_directory, id_text, random_id
from fencepost.snapshots.clean_shutdown import CLEAN_SHUTDOWN_FILE
from fencepost.wire.k01_fetch import FETCH
from tests.broker.batches import TOPIC, batch, fetch, produce
from tests.broker.data_stage import HERE, produced
from tests.broker.fake_controller import CLUSTER_ID, FakeController, play
from tests.broker.whole_broker import Stage, config_for

COUNT = 6  # partitions


def disks(root: Path, *names: str) -> tuple[Path, ...]:
    """Log directories; the first is the node's, the others are formatted."""
    paths = tuple(root / name for name in names)
    for path in paths[1:]:
        format_directory(path, CLUSTER_ID, NodeId(1), ignore_formatted=True)
    return paths


async def started(controller: FakeController, paths: tuple[Path, ...], home: Path | None = None) -> Stage:
    config: NodeConfig = config_for(controller, paths[0])
    on = Stage(controller, replace(config, log_directories=paths, metadata_directory=home))
    await on.broker.start()
    await on.broker.ready()
    await on.broker._data.topics.refresh()
    return on


async def codes(on: Stage) -> list[int]:
    """What a record for each partition is answered with."""
    rows = await produced(on, produce(*[batch(b"x") for _ in range(COUNT)]))
    return [row.error_code for row in rows]


async def ends(on: Stage) -> list[int]:
    """Where each partition ends."""
    answer = await on.call(FETCH, fetch(0, partitions=COUNT), 12)
    return [row.high_watermark for row in sorted(answer.partitions, key=lambda row: row.index)]


def where(paths: tuple[Path, ...]) -> list[list[int]]:
    """The partitions in each directory."""
    return [sorted(int(each.name.rpartition("-")[2]) for each in path.glob(f"{TOPIC}-*")) for path in paths]


def test_logs_are_made_where_the_fewest_are_and_found_again(tmp_path: Path) -> None:
    paths = disks(tmp_path, "a", "b", "c")

    async def story() -> None:
        controller = FakeController()
        controller.add_topic(TOPIC, *[HERE] * COUNT)
        async with controller:
            for start in range(2):
                on = await started(controller, paths)
                assert await codes(on) == [ErrorCode.NONE] * COUNT
                assert where(paths) == [[0, 3], [1, 4], [2, 5]]
                assert not any((path / CLEAN_SHUTDOWN_FILE).exists() for path in paths)
                await on.broker.stop()
                assert all((path / CLEAN_SHUTDOWN_FILE).exists() for path in paths)
                assert on.events("partition_offline") == [], start
            on = await started(controller, paths)
            assert await ends(on) == [2] * COUNT
            await on.broker.stop()

    play(story)


def test_metadata_log_dir_holds_no_partition(tmp_path: Path) -> None:
    home, *paths = disks(tmp_path, "home", "a", "b")

    async def story() -> None:
        controller = FakeController()
        controller.add_topic(TOPIC, *[HERE] * COUNT)
        async with controller:
            on = await started(controller, tuple(paths), home)
            assert await codes(on) == [ErrorCode.NONE] * COUNT
            assert where((home, *paths)) == [[], [0, 2, 4], [1, 3, 5]]
            await on.broker.stop()

    home.mkdir()
    play(story)


def gone(path: Path) -> None:
    shutil.rmtree(path)


def a_file(path: Path) -> None:
    shutil.rmtree(path)
    path.write_text("no directory")


def not_mounted(path: Path) -> None:
    shutil.rmtree(path)
    path.mkdir()


def of_another_node(path: Path) -> None:
    shutil.rmtree(path)
    format_directory(path, CLUSTER_ID, NodeId(2))


def of_another_cluster(path: Path) -> None:
    shutil.rmtree(path)
    format_directory(path, id_text(random_id()), NodeId(1))


def a_copy(path: Path) -> None:
    shutil.copy(path.parent / "c" / META_PROPERTIES, path / META_PROPERTIES)


def formatted_again(path: Path) -> None:
    shutil.rmtree(path)
    format_directory(path, CLUSTER_ID, NodeId(1))


@pytest.mark.parametrize(
    ("happens", "said"),
    [
        pytest.param(gone, "is no directory: is its disk mounted?", id="gone"),
        pytest.param(a_file, "is no directory", id="a-file"),
        pytest.param(not_mounted, "is not formatted: is its disk mounted?", id="not-mounted"),
        pytest.param(of_another_node, "belongs to node 2", id="of-another-node"),
        pytest.param(of_another_cluster, "belongs to cluster", id="of-another-cluster"),
        pytest.param(a_copy, "it is a copy", id="a-copy"),
    ],
)
def test_a_directory_that_cannot_be_used_is_named_and_the_others_go_on(
    tmp_path: Path, happens: Callable[[Path], None], said: str
) -> None:
    paths = disks(tmp_path, "a", "c", "b")

    async def story() -> None:
        controller = FakeController()
        controller.add_topic(TOPIC, *[HERE] * COUNT)
        async with controller:
            on = await started(controller, paths)
            assert await codes(on) == [ErrorCode.NONE] * COUNT
            await on.broker.stop()
            shutil.copytree(tmp_path / "b", tmp_path / "kept")
            happens(tmp_path / "b")

            on = await started(controller, paths)
            (directory,) = on.events("log_directory_offline")
            assert directory["directory"] == str(tmp_path / "b")
            assert said in directory["reason"]
            lost = {each["partition"]: each["reason"] for each in on.events("partition_offline")}
            assert set(lost) == {f"{TOPIC}-2", f"{TOPIC}-5"}
            assert all(said in reason for reason in lost.values())
            bad = ErrorCode.KAFKA_STORAGE_ERROR
            assert await codes(on) == [0, 0, bad, 0, 0, bad]
            controller.add_topic("other", HERE)
            await on.broker._data.topics.refresh()
            assert (tmp_path / "a" / "other-0").exists(), "new logs go to what can be used"
            await on.broker.stop()
            assert (tmp_path / "a" / CLEAN_SHUTDOWN_FILE).exists()

            if (tmp_path / "b").is_dir():
                shutil.rmtree(tmp_path / "b")
            (tmp_path / "b").unlink(missing_ok=True)
            (tmp_path / "kept").rename(tmp_path / "b")
            on = await started(controller, paths)
            assert await codes(on) == [ErrorCode.NONE] * COUNT
            assert await ends(on) == [3, 3, 2, 3, 3, 2], "nothing is lost"
            await on.broker.stop()

    play(story)


def test_a_directory_that_was_formatted_again_has_its_partitions_offline(tmp_path: Path) -> None:
    paths = disks(tmp_path, "a", "c", "b")

    async def story() -> None:
        controller = FakeController()
        controller.add_topic(TOPIC, *[HERE] * COUNT)
        async with controller:
            on = await started(controller, paths)
            assert await codes(on) == [ErrorCode.NONE] * COUNT
            await on.broker.stop()
            formatted_again(tmp_path / "b")
            on = await started(controller, paths)
            assert on.events("log_directory_offline") == []
            lost = {each["partition"]: each["reason"] for each in on.events("partition_offline")}
            assert set(lost) == {f"{TOPIC}-2", f"{TOPIC}-5"}
            assert all("which is none of" in reason for reason in lost.values())
            assert where(paths)[2] == []
            await on.broker.stop()

    play(story)


def test_a_full_directory_leaves_the_others_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = disks(tmp_path, "a", "b")

    async def story() -> None:
        controller = FakeController()
        controller.add_topic(TOPIC, *[HERE] * COUNT)
        async with controller:
            on = await started(controller, paths)
            assert await codes(on) == [ErrorCode.NONE] * COUNT
            partition = on.broker._data._partitions.find(TOPIC, 3)
            assert partition is not None

            def fail(*_arguments: Any) -> None:
                raise OSError(errno.ENOSPC, "No space left on device")

            monkeypatch.setattr(partition.log, "append", fail)
            await codes(on)
            bad = ErrorCode.KAFKA_STORAGE_ERROR
            assert await codes(on) == [0, bad, 0, bad, 0, bad]
            (directory,) = on.events("log_directory_offline")
            assert directory["directory"] == str(tmp_path / "b")
            controller.add_topic("other", HERE)
            await on.broker._data.topics.refresh()
            assert (tmp_path / "a" / "other-0").exists()
            await on.broker.stop()
            assert [(path / CLEAN_SHUTDOWN_FILE).exists() for path in paths] == [True, False]

    play(story)


@pytest.mark.parametrize("is_remembered", [True, False], ids=["remembered", "unknown"])
def test_a_log_in_two_directories_is_the_remembered_one_or_none(tmp_path: Path, is_remembered: bool) -> None:
    paths = disks(tmp_path, "a", "b")

    async def story() -> None:
        controller = FakeController()
        controller.add_topic(TOPIC, *[HERE] * COUNT)
        async with controller:
            on = await started(controller, paths)
            await codes(on)
            await on.broker.stop()
            shutil.copytree(tmp_path / "a" / f"{TOPIC}-0", tmp_path / "b" / f"{TOPIC}-0")
            if not is_remembered:
                (tmp_path / "a" / "hosted-logs").unlink()
            on = await started(controller, paths)
            first = ErrorCode.NONE if is_remembered else ErrorCode.KAFKA_STORAGE_ERROR
            assert await codes(on) == [first, *[ErrorCode.NONE] * (COUNT - 1)]
            event = "log_in_two_directories" if is_remembered else "partition_offline"
            assert len(on.events(event)) == 1
            await on.broker.stop()

    play(story)


def test_two_processes_share_no_directory(tmp_path: Path) -> None:
    paths = disks(tmp_path, "a", "b")

    async def story() -> None:
        async with FakeController() as controller:
            first = await started(controller, paths)
            second = Stage(
                controller,
                replace(config_for(controller, tmp_path / "c"), log_directories=(tmp_path / "c", *paths[1:])),
            )
            with pytest.raises(OSError, match="open in another process"):
                await second.broker.start()
            await second.broker.stop()
            await first.broker.stop()

    play(story)


def test_what_cannot_be_used_is_tried_once_in_a_start(tmp_path: Path) -> None:
    async def story() -> None:
        async with FakeController() as controller:
            on = await started(controller, (tmp_path / "a", tmp_path / "missing"))
            assert len(on.events("log_directory_offline")) == 1
            assert not (tmp_path / "missing").exists(), "nothing is made where a disk is not mounted"
            await on.broker.stop()

    play(story)


def test_a_changed_identity_of_a_directory_is_that_of_its_copy(tmp_path: Path) -> None:
    """Its logs would be in a directory of another id, or it would be another node's."""
    paths = disks(tmp_path, "a", "b")

    async def story() -> None:
        controller = FakeController()
        controller.add_topic(TOPIC, *[HERE] * COUNT)
        async with controller:
            on = await started(controller, paths)
            assert await codes(on) == [ErrorCode.NONE] * COUNT
            await on.broker.stop()
            raw = (paths[1] / META_PROPERTIES).read_bytes()
            (paths[1] / META_PROPERTIES).write_bytes(raw.replace(b"node.id=1", b"node.id=3"))
            on = await started(controller, paths)
            assert await codes(on) == [ErrorCode.NONE] * COUNT
            (said,) = on.events("meta_properties_damaged")
            assert said["directory"] == str(paths[1])
            assert (paths[1] / META_PROPERTIES).read_bytes() == raw
            await on.broker.stop()

    play(story)
