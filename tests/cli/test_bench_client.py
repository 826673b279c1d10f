"""A client of the bench against controllers that grant, refuse, hang up, keep silent, and lie."""

import asyncio
import random
import struct
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from itertools import pairwise

import pytest

from fencepost.bench import load_client
from fencepost.bench.load_client import PAUSE_S_MAX, Client, Course
from fencepost.controller.producer_ids import AllocateProducerIds
from fencepost.records.types import BrokerEpoch, BrokerId
from fencepost.wire.frame import parse_request_header, response_frame
from fencepost.wire.k67_allocate_producer_ids import ALLOCATE_PRODUCER_IDS
from tests import skipping_loop

ASKER = AllocateProducerIds(BrokerId(1_000_000_007), BrokerEpoch(42))
PATIENCE_S = 20.0
PAUSE_S = (0.001, 0.003)  # a fifth of what it is: they double up to a second
BODY = struct.Struct(">ihqiB")

Play = Callable[[int, int], bytes | None]
"""(which request since the start, its correlation id) -> what to send; None: hang up; b"": keep silent."""


def answer(correlation_id: int, code: int = 0, start: int = 0, length: int = 10) -> bytes:
    body = BODY.pack(0, code, start if code == 0 else 0, length if code == 0 else 0, 0)
    return response_frame(correlation_id, body, tagged=True)


class LoopTime:
    """What the client asks for the time: the clock of its loop."""

    @staticmethod
    def monotonic() -> float:
        return asyncio.get_running_loop().time()

    @staticmethod
    def monotonic_ns() -> int:
        return int(LoopTime.monotonic() * 1e9)


@pytest.fixture(autouse=True)
def loop_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load_client, "time", LoopTime)


class Controller:
    """One node: plays its part on every request, and checks that it is a request."""

    def __init__(self, play: Play, *, pieces: int = 1) -> None:
        self._play = play
        self._pieces = pieces
        self.asked = 0
        self.address = ("", 0)

    async def serve(self, stack: AsyncExitStack) -> None:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        stack.callback(server.close)
        self.address = server.sockets[0].getsockname()[:2]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                frame = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
                header, end = parse_request_header(frame, flexible=True)
                assert (header.api_key, header.api_version) == (ALLOCATE_PRODUCER_IDS.key, 0)
                assert ALLOCATE_PRODUCER_IDS.decode_request(0, frame[end:]) == ASKER
                reply = self._play(self.asked, header.correlation_id)
                self.asked += 1
                if reply is None:
                    return
                for position in range(0, len(reply), max(1, len(reply) // self._pieces)):
                    writer.write(reply[position : position + max(1, len(reply) // self._pieces)])
                    await writer.drain()
                    await asyncio.sleep(0)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


def granting() -> Play:
    return lambda number, correlation_id: answer(correlation_id, start=number * 10)


def refusing(code: int) -> Play:
    return lambda number, correlation_id: answer(correlation_id, code)


def run(
    controllers: list[Controller], until: Callable[[Course], bool], timeout_s: float = PATIENCE_S
) -> Course:
    """One client, asking node 1 first, until ``until`` or a failure; then it comes to rest."""

    async def play() -> Course:
        async with AsyncExitStack() as stack, asyncio.timeout(PATIENCE_S):
            for controller in controllers:
                await controller.serve(stack)
            nodes = {number: controller.address for number, controller in enumerate(controllers, 1)}
            course = Course(nodes, timeout_s, random.Random(1))
            client = Client(course, 5, ASKER)
            client.start(1)
            while not until(course) and course.failure is None:
                client.expire(LoopTime.monotonic_ns())
                await asyncio.sleep(0.005)
            course.stopping = True
            while not client.idle and course.failure is None:
                await asyncio.sleep(0.005)
            client.close()
            return course

    return skipping_loop.run(play())


def outcomes(course: Course) -> Iterator[tuple[int, str]]:
    return ((attempt.node, attempt.outcome) for attempt in course.attempts)


@pytest.mark.parametrize("pieces", [1, 2, 28])
def test_each_answer_is_followed_by_the_next_request(pieces: int) -> None:
    controller = Controller(granting(), pieces=pieces)
    course = run([controller], lambda course: len(course.attempts) >= 5)
    assert course.failure is None
    assert [attempt.start for attempt in course.attempts] == [10 * n for n in range(len(course.attempts))]
    assert {(a.client, a.node, a.outcome, a.length) for a in course.attempts} == {(5, 1, "ok", 10)}
    assert controller.asked == len(course.attempts)
    spans = [(attempt.sent_ns, attempt.received_ns) for attempt in course.attempts]
    assert all(sent <= received for sent, received in spans)
    assert all(before[1] <= after[0] for before, after in pairwise(spans))


MOVES = [
    pytest.param(refusing(41), "refused:41", id="not-the-controller"),
    pytest.param(refusing(77), "refused:77", id="another-refusal"),
    pytest.param(refusing(7), "unknown", id="nobody-knows"),
    pytest.param(lambda number, correlation_id: None, "unknown", id="hung-up"),
]


@pytest.mark.parametrize(("play", "expected"), MOVES)
def test_a_client_moves_on_to_who_grants(play: Play, expected: str) -> None:
    course = run([Controller(play), Controller(granting())], lambda course: len(course.attempts) >= 4)
    assert list(outcomes(course))[:3] == [(1, expected), (2, "ok"), (2, "ok")]


def test_silence_is_an_unknown_outcome() -> None:
    silent = Controller(lambda number, correlation_id: b"")
    course = run([silent, Controller(granting())], lambda course: len(course.attempts) >= 3, timeout_s=0.05)
    first, second, *_ = course.attempts
    assert (first.node, first.outcome, first.start) == (1, "unknown", None)
    assert first.received_ns - first.sent_ns >= 50_000_000
    assert (second.node, second.outcome) == (2, "ok")
    assert silent.asked == 1


def test_a_dead_node_is_passed_over_and_no_attempt() -> None:
    alive = Controller(granting())
    dead = Controller(granting())

    async def close_at_once(stack: AsyncExitStack) -> None:
        server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
        dead.address = server.sockets[0].getsockname()[:2]
        server.close()

    dead.serve = close_at_once  # type: ignore[method-assign]
    course = run([dead, alive], lambda course: len(course.attempts) >= 3)
    assert set(outcomes(course)) == {(2, "ok")}


@pytest.mark.parametrize(("play", "expected"), MOVES)
def test_where_no_node_grants_the_pauses_double(
    play: Play, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or clients without a leader ask thousands of times a second, and fill the memory with attempts."""
    monkeypatch.setattr(load_client, "PAUSE_S", PAUSE_S)
    course = run([Controller(play), Controller(play)], lambda course: len(course.attempts) >= 9)
    assert {outcome for _, outcome in outcomes(course)} == {expected}
    pauses_s = [(after.sent_ns - before.received_ns) / 1e9 for before, after in pairwise(course.attempts)]
    at_once = 1 if expected == "unknown" and not play(0, 0) else 0
    for number, pause_s in enumerate(pauses_s[at_once:], at_once):
        assert pause_s >= min(PAUSE_S[0] * 2**number, PAUSE_S_MAX / 2) * 0.99, pauses_s


def test_a_grant_ends_the_pauses() -> None:
    def play(number: int, correlation_id: int) -> bytes:
        return answer(correlation_id, start=10 * number, code=0 if number % 5 == 4 else 41)

    course = run([Controller(play)], lambda course: len(course.attempts) >= 16)
    after_a_grant = [
        (after.sent_ns - refused.received_ns) / 1e9
        for granted, refused, after in zip(
            course.attempts, course.attempts[1:], course.attempts[2:], strict=False
        )
        if granted.outcome == "ok"
    ]
    longest = [
        (after.sent_ns - before.received_ns) / 1e9
        for before, after in pairwise(course.attempts)
        if after.outcome == "ok"
    ]
    assert len(after_a_grant) >= 2
    assert min(after_a_grant) < min(longest)  # 5 to 15 ms against 40 and more


LIES = [
    pytest.param(lambda number, cid: answer(cid + 1), "correlation id", id="to-another-request"),
    pytest.param(lambda number, cid: answer(cid) * 2, "expected one answer", id="two-answers"),
    pytest.param(lambda number, cid: answer(cid, start=-1), "a block that is none", id="negative-start"),
    pytest.param(lambda number, cid: answer(cid, length=0), "a block that is none", id="empty-block"),
    pytest.param(
        lambda number, cid: answer(cid, start=2**63 - 5), "a block that is none", id="past-the-last-id"
    ),
    pytest.param(lambda number, cid: b"\xff" * 28, "correlation id", id="garbage"),
]


@pytest.mark.parametrize(("play", "words"), LIES)
def test_a_wrong_answer_ends_the_load(play: Play, words: str) -> None:
    course = run([Controller(play)], lambda course: False)
    assert course.failure is not None
    assert words in course.failure
    assert course.stopping
    assert course.attempts == []
