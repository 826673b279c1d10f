"""A log directory that cannot be read, or not written any more, or is gone, while its broker runs.

Of two, the other one goes on: it takes records, is scrubbed, and gets the logs of new topics. What was
acknowledged is there once the directory is well again and the broker was started.
"""

import builtins
import errno
import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from fencepost.broker.hosted_logs import HOSTED_LOGS
from fencepost.broker.log.log_starts import LOG_STARTS
from fencepost.controller.errors import ErrorCode
from fencepost.records.types import Offset
from tests.broker.batches import TOPIC
from tests.broker.data_stage import HERE
from tests.broker.fake_controller import FakeController, play
from tests.broker.test_log_directories import COUNT, codes, disks, ends, started, where
from tests.broker.whole_broker import Stage

READING: Final = frozenset({"open", "pread", "listdir", "scandir"})
CHANGING: Final = frozenset(
    {"write", "pwrite", "replace", "rename", "unlink", "mkdir", "fsync", "ftruncate", "open to write"}
)
BAD: Final = ErrorCode.KAFKA_STORAGE_ERROR
OF_B: Final = [0, BAD, 0, BAD, 0, BAD]
FAULTS: Final = ("partition_offline", "log_directory_offline", "log_directory_not_scrubbed", "sums_not_read")


@contextmanager
def failing(part: str, calls: frozenset[str], error: int) -> Iterator[None]:
    """Until then these calls fail on each path with ``part`` in it, or on a descriptor of one."""
    real = [(os, name, getattr(os, name)) for name in (READING | CHANGING) - {"open to write"}]
    real += [(builtins, "open", builtins.open), (io, "open", io.open)]
    link = os.readlink

    def replacement(module: Any, name: str, call: Any) -> Any:
        def calling(path: Any = ".", *more: Any, **named: Any) -> Any:
            made = name
            if name == "open":
                how = more[0] if more else named.get("mode", "r")
                writes = how & (os.O_WRONLY | os.O_RDWR) if module is os else set(how) & set("wax+")
                made = "open to write" if writes else "open"
            text = link(f"/proc/self/fd/{path}") if isinstance(path, int) else str(path)
            if made in calls and part in text:
                raise OSError(error, os.strerror(error), text)
            return call(path, *more, **named)

        return calling

    for module, name, call in real:
        setattr(module, name, replacement(module, name, call))
    try:
        yield
    finally:
        for module, name, call in real:
            setattr(module, name, call)


def offline(on: Stage) -> set[str]:
    return {each["partition"] for each in on.events("partition_offline")}


def named(on: Stage) -> list[str]:
    """What is said of the faults."""
    return [str(each) for name in FAULTS for each in on.events(name)]


async def with_two(controller: FakeController, paths: tuple[Path, ...]) -> Stage:
    """Each directory has three partitions of one record, summed."""
    controller.add_topic(TOPIC, *[HERE] * COUNT)
    on = await started(controller, paths)
    assert await codes(on) == [0] * COUNT
    for partition in on.broker._data._partitions:
        partition.log._request_snapshot()
        partition.log.flush()
        partition.log.release_files()
    return on


SCRUBBED = [  # what cannot be read, the partitions that are offline, and what is said
    pytest.param(f"/b/{TOPIC}-3/", {f"{TOPIC}-3"}, "orders-3", id="a-partition"),
    pytest.param("/b/", {f"{TOPIC}-{n}" for n in (1, 3, 5)}, "/b/", id="a-directory"),
    pytest.param(f"/a/{LOG_STARTS}", set(), LOG_STARTS, id="log-starts"),
    pytest.param(HOSTED_LOGS, set(), HOSTED_LOGS, id="hosted-logs"),
    pytest.param(f"/a/{TOPIC}-2/00000000000000000000.checksums", set(), ".checksums", id="sums"),
]


@pytest.mark.parametrize(("part", "lost", "said"), SCRUBBED)
def test_what_the_scrub_cannot_read_is_named_and_the_rest_is_scrubbed(
    tmp_path: Path, part: str, lost: set[str], said: str
) -> None:
    paths = disks(tmp_path, "a", "b")

    async def story() -> None:
        async with FakeController() as controller:
            on = await with_two(controller, paths)
            scrub = on.broker._data._scrub
            (paths[1] / LOG_STARTS).write_bytes(b"0\n1\nno line\n")
            with failing(part, READING, errno.EIO):
                await scrub.scrub_once()
            assert offline(on) == lost
            assert any(said in each and os.strerror(errno.EIO) in each for each in named(on))
            assert {each["log_level"] for name in FAULTS for each in on.events(name)} == {"error"}
            assert on.events("logs_scrubbed")[-1]["segments"] == COUNT - len(lost)
            assert bool(on.events("log_starts_damaged")) == (part != "/b/"), (
                "the other one's file is looked at"
            )
            await scrub.scrub_once()
            assert offline(on) == lost
            await on.broker.stop()
            on = await started(controller, paths)
            assert await ends(on) == [1] * COUNT
            await on.broker.stop()

    play(story)


@pytest.mark.parametrize("error", [errno.EROFS, errno.EACCES, errno.EIO], ids=errno.errorcode.get)
@pytest.mark.parametrize("first", ["scrub", "records", "topics"])
def test_of_a_directory_that_turns_read_only_partitions_are_offline_and_the_other_goes_on(
    tmp_path: Path, error: int, first: str
) -> None:
    paths = disks(tmp_path, "a", "b")

    async def story() -> None:
        async with FakeController() as controller:
            on = await with_two(controller, paths)
            controller.add_topic("doomed", HERE, HERE)
            await on.broker._data.topics.refresh()
            with failing("/b/", CHANGING, error):
                if first == "scrub":
                    await on.broker._data._scrub.scrub_once()
                if first == "topics":
                    controller.add_topic("other", HERE, HERE)
                    await on.broker._data.topics.refresh()
                for _ in range(2):
                    assert await codes(on) == OF_B
                del controller.topics["doomed"]
                controller.add_topic("another", HERE, HERE)
                await on.broker._data.topics.refresh()
                assert {f"another-{n}" for n in (0, 1)} <= {each.name for each in paths[0].iterdir()}
                assert {each for each in offline(on) if "other" in each} == set()
                (said,) = on.events("log_directory_offline")
                assert os.strerror(error) in said["reason"]
                assert said["directory"] == str(paths[1])
                await on.broker._data._scrub.scrub_once()
                assert await codes(on) == OF_B
                await on.broker.stop()
            on = await started(controller, paths)
            assert await ends(on) == [4, 1, 4, 1, 4, 1]
            assert await codes(on) == [0] * COUNT
            assert offline(on) == set()
            await on.broker.stop()

    play(story)


@pytest.mark.parametrize("leaves", ["nothing", "a mount point"])
@pytest.mark.parametrize("first", ["scrub", "records", "topics"])
def test_of_a_directory_that_is_gone_partitions_are_offline_and_nothing_is_made_in_its_place(
    tmp_path: Path, leaves: str, first: str
) -> None:
    paths = disks(tmp_path, "a", "b")

    async def story() -> None:
        async with FakeController() as controller:
            on = await with_two(controller, paths)
            on.broker._data._partitions._directories.record_starts({paths[1] / "gone-0": Offset(1)})
            paths[1].rename(tmp_path / "unplugged")
            if leaves == "a mount point":
                paths[1].mkdir()
            if first == "scrub":
                await on.broker._data._scrub.scrub_once()
                assert offline(on) == {f"{TOPIC}-{n}" for n in (1, 3, 5)}
            if first == "topics":
                controller.add_topic("other", HERE, HERE)
                await on.broker._data.topics.refresh()
            for _ in range(2):
                assert await codes(on) == OF_B
            controller.add_topic("another", HERE, HERE)
            await on.broker._data.topics.refresh()
            assert {f"another-{n}" for n in (0, 1)} <= {each.name for each in paths[0].iterdir()}
            assert where(paths)[1] == []
            assert leaves == "nothing" or list(paths[1].iterdir()) == []
            (said,) = on.events("log_directory_offline")
            assert said["directory"] == str(paths[1])
            await on.broker._data._scrub.scrub_once()
            assert len(on.events("partition_offline")) == COUNT // 2
            await on.broker.stop()
            if leaves == "a mount point":
                paths[1].rmdir()
            (tmp_path / "unplugged").rename(paths[1])
            on = await started(controller, paths)
            assert await ends(on) == [3, 1, 3, 1, 3, 1]
            assert await codes(on) == [0] * COUNT
            assert offline(on) == set()
            await on.broker.stop()

    play(story)


@pytest.mark.parametrize("fault", ["read-only", "gone"])
def test_a_directory_that_fails_is_offline_at_once_and_until_the_next_start(
    tmp_path: Path, fault: str
) -> None:
    """By the records alone: no new topic has to find it."""
    paths = disks(tmp_path, "a", "b")

    async def story() -> None:
        async with FakeController() as controller:
            on = await with_two(controller, paths)
            is_gone = fault == "gone"
            with failing("/b/", frozenset() if is_gone else CHANGING, errno.EROFS):
                if is_gone:
                    paths[1].rename(tmp_path / "unplugged")
                assert await codes(on) == OF_B
            (said,) = on.events("log_directory_offline")
            assert said["directory"] == str(paths[1])
            assert offline(on) == {f"{TOPIC}-{n}" for n in (1, 3, 5)}
            if is_gone:
                (tmp_path / "unplugged").rename(paths[1])
            assert await codes(on) == OF_B
            await on.broker.stop()
            on = await started(controller, paths)
            assert await ends(on) == [3, 1, 3, 1, 3, 1]
            assert await codes(on) == [0] * COUNT
            await on.broker.stop()

    play(story)
