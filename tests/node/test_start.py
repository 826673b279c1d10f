"""What a node has done before it serves."""

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import cast

import pytest

from fencepost.broker.exit_reason import ExitReason
from fencepost.node import main
from fencepost.node.readiness import Readiness
from fencepost.wire.garbage import LongLived
from fencepost.wire.registry import messages
from fencepost.wire.stalls import Stalls
from tests.wire.stage import capturing_log
from tests.wire.test_stalls import Clocks, stalls

IMPORTED_LATER = """
import sys
from fencepost.wire.registry import APIS, load_newest
from tests.wire.sample_messages import SAMPLES
load_newest()
before = set(sys.modules)
for key, api in APIS.items():
    request, response = SAMPLES[key][:2]
    newest = api.versions[-1]
    api.decode_request(newest, memoryview(api.encode_request(newest, request)))
    if response is not None:
        api.decode_response(newest, memoryview(api.encode_response(newest, response, 0)))
print(sorted(set(sys.modules) - before))
"""


def test_no_message_of_a_newest_version_imports_anything() -> None:
    script = [sys.executable, "-c", IMPORTED_LATER]
    ended = subprocess.run(script, capture_output=True, text=True, timeout=60, check=True)
    assert ended.stdout.strip() == "[]"


NODE_IMPORTED = """
import gc, sys
collections = []
gc.callbacks.append(lambda phase, collection: collections.append(phase))
from fencepost.cli.main import main
before = len(collections)
try:
    main(["node", "--config", sys.argv[1]])
except SystemExit:
    print([each for each in ("rich", "hypothesis") if sys.modules.get(each)])
    print(len(collections) - before, gc.isenabled(), gc.get_freeze_count() > 10_000)
"""


def test_a_node_imports_no_more_than_it_runs_and_collects_no_garbage_meanwhile(tmp_path: Path) -> None:
    script = [sys.executable, "-c", NODE_IMPORTED, str(tmp_path / "none.properties")]
    ended = subprocess.run(script, capture_output=True, text=True, timeout=60, check=True)
    loaded, collected = ended.stdout.splitlines()
    assert loaded == "[]"
    count, enabled, frozen = collected.split()
    assert int(count) < 10  # of what the command itself makes; an import of 500 modules has hundreds
    assert (enabled, frozen) == ("True", "True")


class Part:
    """A role that notes what is loaded when it starts."""

    def __init__(self) -> None:
        self.loaded: list[bool] = []

    @property
    def fatal(self) -> "asyncio.Future[ExitReason]":
        return asyncio.get_running_loop().create_future()

    async def start(self) -> None:
        self.loaded = [message.is_loaded(api.versions[-1]) for api, message in messages()]

    async def stop(self) -> None:
        """It has nothing to stop."""


def test_messages_are_loaded_before_a_part_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(main, "LongLived", Spared)
    for _, message in messages():
        monkeypatch.setattr(message, "_layouts", {})
    part = Part()
    asyncio.run(main._start([part], capturing_log()[0], Stalls(), Readiness()))
    assert len(part.loaded) > 30
    assert all(part.loaded)


class Spared:
    """Garbage that takes long to collect."""

    def __init__(self) -> None:
        self.looks = 0

    def collect_if_due(self) -> None:
        self.looks += 1
        CLOCKS.work(0.3)


CLOCKS = Clocks()


def test_garbage_is_collected_by_a_timer_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(main, "GARBAGE_SECONDS", 0.001)
    spared, counted = Spared(), stalls(CLOCKS)

    async def story() -> None:
        main._collect_garbage(cast(LongLived, spared), counted.watch("garbage collection"))
        while spared.looks < 3:
            await asyncio.sleep(0)

    asyncio.run(asyncio.wait_for(story(), 20))
    assert counted.longest_s == {"garbage collection": pytest.approx(0.3)}
