"""A peer's frames are taken for so long at a time: the rest of the node has its turn between them."""

import asyncio
from types import SimpleNamespace
from typing import cast

import pytest

import fencepost.quorum.links
from fencepost.quorum.links import TURN_S, Links, _Framed
from tests.ports import free_port
from tests.quorum.test_links import ONE, TWO, Node, running
from tests.wire.test_listener import Wire

FRAMES = 7


def framed(number: int) -> bytes:
    return (1).to_bytes(4, "big") + bytes((number,))


class Slow(_Framed):
    """Each of its frames takes 0.6 TURN_S."""

    now_s = 0.0

    def __init__(self) -> None:
        super().__init__(cast(Links, SimpleNamespace(open=set())))
        self.taken: list[int] = []

    def frame_received(self, frame: bytes) -> None:
        Slow.now_s += 0.6 * TURN_S
        self.taken.append(frame[0])


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fencepost.quorum.links, "monotonic", lambda: Slow.now_s)


def test_other_work_comes_between_the_frames_of_a_peer() -> None:
    async def story() -> None:
        slow, wire = Slow(), Wire()
        slow.connection_made(cast(asyncio.Transport, wire))
        slow.data_received(b"".join(map(framed, range(FRAMES))) + framed(FRAMES)[:3])
        counts = [len(slow.taken)]
        paused = not wire.reading
        slow.data_received(framed(FRAMES)[3:])  # what was on its way already
        while not wire.reading:
            await asyncio.sleep(0)
            counts.append(len(slow.taken))
        assert paused
        assert slow.taken == list(range(FRAMES + 1))
        assert counts[:3] == [2, 4, 6]

    asyncio.run(asyncio.wait_for(story(), 10))


def test_a_connection_that_is_lost_takes_no_more_frames() -> None:
    async def story() -> None:
        slow, wire = Slow(), Wire()
        slow.connection_made(cast(asyncio.Transport, wire))
        slow.data_received(b"".join(map(framed, range(FRAMES))))
        slow.connection_lost(None)
        for _ in range(FRAMES):
            await asyncio.sleep(0)
        assert slow.taken == [0, 1]

    asyncio.run(asyncio.wait_for(story(), 10))


def test_a_peer_that_was_seen_is_dialled_once_without_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be gone again by then: further attempts wait as before."""
    seen: list[bool] = []

    async def story() -> None:
        one = Node(ONE, {ONE: free_port(), TWO: free_port()})

        async def refused(*_: object) -> None:
            seen.append(one.links._seen[TWO].is_set())
            one.links._seen[TWO].set()
            await asyncio.sleep(0)
            raise ConnectionRefusedError

        monkeypatch.setattr(fencepost.quorum.links, "dial", refused)
        async with running(one):
            while len(seen) < 3:
                await asyncio.sleep(0)

    asyncio.run(asyncio.wait_for(story(), 10))
    assert seen == [False, False, False]


def test_a_peer_that_is_not_there_is_dialled_again_after_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    dialled: list[None] = []

    async def refused(*_: object) -> None:
        dialled.append(None)
        await asyncio.sleep(0)
        raise ConnectionRefusedError

    async def story() -> None:
        async with running(Node(ONE, {ONE: free_port(), TWO: free_port()})):
            for _ in range(100):
                await asyncio.sleep(0)

    monkeypatch.setattr(fencepost.quorum.links, "dial", refused)
    monkeypatch.setattr(fencepost.quorum.links, "RETRY_S", (600.0, 600.0))
    asyncio.run(asyncio.wait_for(story(), 10))
    assert len(dialled) == 1
