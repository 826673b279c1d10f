"""The loop that does not wait: timers are due in their order, and what is on its way comes first."""

import asyncio
import time

import pytest

from tests.skipping_loop import run


def test_an_hour_is_over_at_once() -> None:
    async def story() -> float:
        begun_s = asyncio.get_running_loop().time()
        await asyncio.sleep(3600)
        return asyncio.get_running_loop().time() - begun_s

    begun_s = time.monotonic()
    assert run(story()) == pytest.approx(3600, abs=1)
    assert time.monotonic() - begun_s < 60


def test_timers_are_due_in_their_order() -> None:
    seen = []

    async def sleep(seconds: float) -> None:
        await asyncio.sleep(seconds)
        seen.append(seconds)

    async def story() -> None:
        await asyncio.gather(*(sleep(each) for each in (300, 0.1, 20, 0)))

    run(story())
    assert seen == [0, 0.1, 20, 300]


def test_what_is_never_answered_times_out() -> None:
    async def story() -> None:
        async with asyncio.timeout(1000):
            await asyncio.get_running_loop().create_future()

    with pytest.raises(TimeoutError):
        run(story())


def test_an_answer_is_there_before_a_timeout() -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readline())
        await writer.drain()
        writer.close()

    async def story() -> list[bytes]:
        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        lines = []
        async with server:
            for number in range(50):
                reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
                writer.write(b"%d\n" % number)
                lines.append(await asyncio.wait_for(reader.readline(), 1))
                writer.close()
        return lines

    assert run(story()) == [b"%d\n" % number for number in range(50)]


def test_a_thread_is_waited_for() -> None:
    async def story() -> str:
        async with asyncio.timeout(60):
            return await asyncio.get_running_loop().run_in_executor(None, work)

    def work() -> str:
        time.sleep(0.05)
        return "done"

    assert run(story()) == "done"
