"""The process around the driver: on a real event loop, with real sockets and threads, in order."""

import asyncio
import threading
from collections import namedtuple
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, cast

import pytest
import uvloop
from structlog.testing import capture_logs

from fencepost.controller.decision import Decision
from fencepost.controller.errors import StorageFull
from fencepost.controller.view import View
from fencepost.node.active_controller import EXIT_HALTED, Controller
from fencepost.node.driver import Background, CallAfter, Driver, Halt, Obligations, Send, TickAfter, Turn
from fencepost.quorum.port import Task, Work
from fencepost.records.types import NodeId
from fencepost.settings.credentials import read_credentials
from fencepost.settings.node_identity import format_directory, id_text, random_id
from fencepost.settings.properties import parse_properties
from tests.node.stage import ONE, TWO, Replies
from tests.ports import free_port
from tests.secret_files import write_secret

WAIT_S: Final = 20.0  # far more than anything here takes
Usage = namedtuple("Usage", "free")


class Ended(BaseException):
    """In the place of the process's end."""


class Played:
    """In the driver's place: writes down each event, and obliges to what the test says."""

    def __init__(self, driver: Driver) -> None:
        self.events: list[str] = []
        self.replica = driver.replica
        self.stopped = False
        self.handed_over = False

    def _event(self, what: str) -> Obligations:
        self.events.append(what)
        return ()

    def ended(self, task: Task) -> Obligations:
        task.end()
        return self._event("ended")

    def connected(self, peer: NodeId, *, may_elect: bool = False) -> Obligations:
        return self._event(f"connected {peer}" + may_elect * ", which may elect")

    def turn(self) -> Obligations:
        return self._event("turn")

    def tick(self) -> Obligations:
        return self._event("tick")

    def maintain(self) -> Obligations:
        return self._event("maintain")

    def sweep(self, free_bytes: int) -> Obligations:
        assert free_bytes > 0
        return self._event("sweep")

    def call_later(self, seconds: float, call: Callable[[], None]) -> Obligations:
        return [CallAfter(seconds, call)]

    def resume(self, call: Callable[..., None], *outcome: Any) -> Obligations:
        call(*outcome)
        return self._event("resume")

    def completed(self, done: Callable[..., None], *outcome: Any) -> Obligations:
        done(*outcome)
        return self._event("completed")


@pytest.fixture
def controller_of(tmp_path: Path) -> Callable[[], Controller]:
    """A controller that is the only voter of its cluster; call it on the loop."""

    def make() -> Controller:
        secret = tmp_path / "secret"
        write_secret(secret, "the secret of this cluster\n")
        secret.chmod(0o600)
        listener, raft = free_port(), free_port()
        config = parse_properties(
            f"node.id=1\nprocess.roles=controller\nlisteners=CONTROLLER://127.0.0.1:{listener}\n"
            f"log.dirs={tmp_path / 'data'}\ncontroller.quorum.voters=1@127.0.0.1:{raft}\n"
            f"controller.quorum.bootstrap.servers=127.0.0.1:{listener}\nquorum.secret.file={secret}\n",
            tmp_path / "node.properties",
        )
        directory = random_id()
        identity = format_directory(
            config.directory,
            id_text(random_id()),
            ONE,
            directory_id=directory,
            initial_voters={ONE: directory},
        )
        return Controller(config, identity, read_credentials(config, identity.cluster_id))

    return make


@contextmanager
def played(controller: Controller) -> Iterator[tuple[Played, list[tuple[NodeId, bytes]]]]:
    """The controller with a played driver, and with links that write down what is sent."""
    real, sent = controller.driver, []
    player = Played(real)
    controller.driver = cast(Driver, player)
    controller._links.send = lambda peer, frame: sent.append((peer, frame))  # type: ignore[method-assign]
    try:
        yield player, sent
    finally:
        real.close()


def run(story: Callable[[], Awaitable[None]]) -> None:
    with capture_logs(), asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(story())  # type: ignore[arg-type]


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not holds():
            await asyncio.sleep(0.001)


def test_obligations_are_carried_out_in_order_and_to_the_last(
    controller_of: Callable[[], Controller],
) -> None:
    """All frames are with the links before the turn that flushes; work is done elsewhere, and comes back."""

    async def story() -> None:
        controller = controller_of()
        with played(controller) as (player, sent):
            threads: list[int] = []
            results: list[object] = []
            due: list[str] = []

            def work() -> str:
                threads.append(threading.get_ident())
                return "done"

            controller._carry_out(
                [
                    Send(TWO, b"entry"),
                    Background(Work(work, results.append)),
                    Send(TWO, b"ack"),
                    TickAfter(0.0),
                    CallAfter(0.0, lambda: due.append("soon")),
                    CallAfter(0.001, lambda: due.append("later")),
                    Send(ONE, b"vote"),
                    Turn(),
                ]
            )
            assert sent == [(TWO, b"entry"), (TWO, b"ack"), (ONE, b"vote")]
            assert player.events == []
            await until(lambda: len(player.events) == 5)
            assert sorted(player.events) == ["ended", "resume", "resume", "tick", "turn"]
            assert sorted(due) == ["later", "soon"]
            assert results == ["done"]
            assert threads != [threading.get_ident()]

    run(story)


def test_what_another_thread_raises_is_its_result(controller_of: Callable[[], Controller]) -> None:
    async def story() -> None:
        controller = controller_of()
        failure = OSError(28, "No space left on device")

        def work() -> None:
            raise failure

        with played(controller) as (_, _sent):
            results: list[object] = []
            controller._carry_out([Background(Work(work, results.append))])
            await until(lambda: results)
            assert results == [failure]

    run(story)


def test_without_a_thread_the_work_has_failed(controller_of: Callable[[], Controller]) -> None:
    async def story() -> None:
        controller = controller_of()
        failure = RuntimeError("can't start new thread")

        class NoThreads(ThreadPoolExecutor):
            def submit(self, *_: Any, **__: Any) -> Any:
                raise failure

        asyncio.get_running_loop().set_default_executor(NoThreads())
        with played(controller) as (player, _):
            results: list[object] = []
            controller._carry_out([Background(Work(lambda: None, results.append)), Turn()])
            await until(lambda: len(player.events) == 2)
            assert results == [failure]

    run(story)


def test_an_obligation_that_cannot_be_carried_out_halts(
    controller_of: Callable[[], Controller], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or what is behind it, the turn, would never come."""
    statuses: list[int] = []
    monkeypatch.setattr("fencepost.node.active_controller.os._exit", statuses.append)

    async def story() -> None:
        controller = controller_of()
        with played(controller):

            def fails(_peer: NodeId, _frame: bytes) -> None:
                raise ValueError("ours")

            controller._links.send = fails  # type: ignore[assignment, method-assign]
            controller._carry_out([Send(TWO, b"entry"), Turn()])
        assert statuses == [EXIT_HALTED]

    run(story)


def test_a_halt_ends_the_process_and_nothing_comes_after_it(
    controller_of: Callable[[], Controller], monkeypatch: pytest.MonkeyPatch
) -> None:
    statuses: list[int] = []

    def end(status: int) -> None:
        statuses.append(status)
        raise Ended

    monkeypatch.setattr("fencepost.node.active_controller.os._exit", end)

    async def story() -> None:
        controller = controller_of()
        with played(controller) as (_, sent), pytest.raises(Ended):
            controller._carry_out([Halt("turn", OSError(5, "I/O")), Send(TWO, b"late")])
        assert (statuses, sent) == ([EXIT_HALTED], [])

    run(story)


def test_a_voter_that_is_connected_may_elect(controller_of: Callable[[], Controller]) -> None:
    async def story() -> None:
        controller = controller_of()
        with played(controller) as (player, _):
            controller._links.events.connected(TWO)
            assert player.events == ["connected 2, which may elect"]

    run(story)


def test_timers_are_events(controller_of: Callable[[], Controller]) -> None:
    async def story() -> None:
        controller = controller_of()
        with played(controller) as (player, _):
            await controller.start()
            try:
                assert player.events[0] == "sweep", "the disk is looked at before a request is served"
                count = player.events.count
                await until(lambda: all(count(each) > 2 for each in ("tick", "maintain", "sweep")))
                assert count("tick") > count("maintain") > count("sweep")
            finally:
                for timer in controller._timers.values():
                    timer.cancel()
                await controller._listeners.stop()
                await controller._links.stop()

    run(story)


def test_one_life_of_a_controller(
    controller_of: Callable[[], Controller], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It leads, decides, refuses while its disk is full, goes on, and after a stop replies to no one."""
    free = [10**12]
    monkeypatch.setattr("fencepost.node.active_controller.shutil.disk_usage", lambda _path: Usage(free[0]))
    monkeypatch.setattr("fencepost.node.active_controller.SWEEP_S", 0.05)

    async def story() -> None:
        controller = controller_of()

        def submit(response: str) -> Replies:
            replies = Replies()

            def decide(_view: View, _now_ms: int) -> Decision[str]:
                return Decision((), response)

            controller.submit(decide, replies)
            return replies

        await controller.start()
        await until(lambda: controller.replica.proposer.active)
        first = submit("first")
        await until(lambda: first.all)
        free[0] = 0
        await until(lambda: controller.driver.disk_full)
        assert submit("no room").all == [StorageFull]
        free[0] = 10**12
        await until(lambda: not controller.driver.disk_full)
        again = submit("again")
        await until(lambda: again.all)
        assert (first.all, again.all) == (["first"], ["again"])
        last = submit("last")
        await controller.stop()
        replied = list(last.all)
        assert submit("after").all == []
        for _ in range(10):
            await asyncio.sleep(0)
        assert last.all == replied

    run(story)
