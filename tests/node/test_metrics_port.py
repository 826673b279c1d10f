"""The metrics port on a real loop: what Prometheus sends, and what others send."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
import uvloop

from fencepost.node.metrics import NodeMetrics
from fencepost.node.metrics_port import HEAD_BYTES_MAX, METRICS_CONNECTIONS_MAX, RENDERED_S, MetricsPort
from fencepost.records.types import Term
from fencepost.wire.admission import PACE_SWEEPS
from fencepost.wire.limits import ListenerLimits
from tests.together import table
from tests.wire.stage import capturing_log

PROMETHEUS = (
    b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:9392\r\nUser-Agent: Prometheus/2.53.0\r\n"
    b"Accept: application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.2,*/*;q=0.1\r\n"
    b"Accept-Encoding: gzip\r\nX-Prometheus-Scrape-Timeout-Seconds: 10\r\n\r\n"
)


@asynccontextmanager
async def serving(**limits: Any) -> AsyncIterator[tuple[MetricsPort, NodeMetrics, list[Any]]]:
    log, events = capturing_log()
    metrics = NodeMetrics()
    port = MetricsPort(metrics.registry, log=log, limits=ListenerLimits(**limits))
    await port.start("127.0.0.1", 0)
    try:
        yield port, metrics, events
    finally:
        await port.stop()
        for _ in range(5):
            await asyncio.sleep(0)


Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def connect(port: MetricsPort) -> Streams:
    return await asyncio.open_connection("127.0.0.1", port.port)


async def answer(streams: Streams) -> tuple[str, dict[str, str], bytes]:
    """Status line, headers and content of one answer. Fails rather than wait for ever."""
    async with asyncio.timeout(20):
        head = (await streams[0].readuntil(b"\r\n\r\n")).decode()
        status, *lines = head.strip().split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in lines)
        return status, headers, await streams[0].readexactly(int(headers["content-length"]))


async def end(streams: Streams) -> bytes:
    """What comes until the other side closes."""
    try:
        async with asyncio.timeout(20):
            return await streams[0].read()
    except ConnectionError:
        return b""
    finally:
        streams[1].close()


def on_loop(story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    uvloop.run(story())


def test_probes_are_answered_on_the_same_connection() -> None:
    async def story() -> None:
        async with serving() as (port, _, events):
            streams = await connect(port)
            for reason, ready in (("fenced", ("503", b"fenced\n")), ("", ("200", b"ok\n"))):
                port.why_not_ready = partial(str, reason)
                found = {}
                for path in ("/livez", "/readyz?verbose", "/readyz/", "/metrics"):
                    streams[1].write(f"GET {path} HTTP/1.1\r\n\r\n".encode())
                    status, _, content = await answer(streams)
                    found[path] = (status.split(" ")[1], content)
                assert (found["/livez"], found["/readyz?verbose"]) == (("200", b"ok\n"), ready)
                assert {found[each][0] for each in ("/readyz/", "/metrics")} == {"200"}
            streams[1].close()
            assert not events

    on_loop(story)


def test_a_scraper_keeps_its_connection_and_sees_new_numbers() -> None:
    async def story() -> None:
        async with serving() as (port, metrics, _):
            streams = await connect(port)
            for term in (3, 4):
                metrics.raft_epoch(Term(term))
                port._rendered.clear()
                streams[1].write(PROMETHEUS)
                status, headers, content = await answer(streams)
                assert status == "HTTP/1.1 200 OK"
                assert headers["content-type"].startswith("application/openmetrics-text")
                assert f"fencepost_raft_epoch {term}.0".encode() in content
            streams[1].close()
        assert threading.active_count() == 1

    on_loop(story)


@table(
    ("request_", "status", "stays"),
    [
        pytest.param(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", "200 OK", True, id="1.1"),
        pytest.param(b"GET / HTTP/1.0\r\n\r\n", "200 OK", False, id="1.0"),
        pytest.param(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "200 OK", True, id="1.0-kept"),
        pytest.param(b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n", "200 OK", False, id="closed"),
        pytest.param(b"POST / HTTP/1.1\r\n\r\n", "405 Method Not Allowed", False, id="post"),
        pytest.param(b"GET /\r\n\r\n", "400 Bad Request", False, id="no-version"),
        pytest.param(b"\r\n\r\n", "400 Bad Request", False, id="nothing"),
        pytest.param(b"GET / HTTP/2.0\r\n\r\n", "400 Bad Request", False, id="2.0"),
        pytest.param(b"GET / HTTP/1.1\r\nContent-Length: 5\r\n\r\n", "400 Bad Request", False, id="body"),
        pytest.param(
            b"GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", "400 Bad Request", False, id="chunked"
        ),
        pytest.param(b"G" * (HEAD_BYTES_MAX + 1), "431 Request", False, id="head-one-past-the-bound"),
        pytest.param(
            b"GET / HTTP/1.1\r\nX: ".ljust(HEAD_BYTES_MAX - 4, b"x") + b"\r\n\r\n",
            "200 OK",
            True,
            id="head-at-the-bound",
        ),
        pytest.param(PROMETHEUS * 40, "431 Request", False, id="many-at-once-past-the-bound"),
        pytest.param(bytes(range(256)) + b"\r\n\r\n", "400 Bad Request", False, id="garbage"),
    ],
)
def test_what_is_answered(request_: bytes, status: str, stays: bool) -> None:
    async def story() -> None:
        async with serving() as (port, _, events):
            streams = await connect(port)
            streams[1].write(request_)
            line, headers, _content = await answer(streams)
            assert line.startswith(f"HTTP/1.1 {status}")
            assert headers["connection"] == ("keep-alive" if stays else "close")
            if stays:
                streams[1].write(PROMETHEUS)
                assert (await answer(streams))[0] == "HTTP/1.1 200 OK"
                streams[1].close()
            else:
                assert await end(streams) == b""
            assert [each["event"] for each in events] == ["scrape_refused"] * (status[0] == "4")

    on_loop(story)


def test_a_head_has_no_content() -> None:
    async def story() -> None:
        async with serving() as (port, _, _events):
            streams = await connect(port)
            streams[1].write(b"HEAD / HTTP/1.1\r\nConnection: close\r\n\r\n")
            raw = await end(streams)
            assert raw.endswith(b"\r\n\r\n")
            assert b"Content-Length: " in raw

    on_loop(story)


def test_half_a_request_has_its_time_and_the_longest_idle_makes_room() -> None:
    async def story() -> None:
        async with serving() as (port, _, _events):
            half_sent = [await connect(port) for _ in range(METRICS_CONNECTIONS_MAX)]
            for _, writer in half_sent:
                writer.write(b"GET /metrics HTTP/1.1\r\nHost:")
            while sum(each.received_bytes() > 0 for each in port.admission.all()) < len(half_sent):
                await asyncio.sleep(0)
            streams = await connect(port)
            streams[1].write(PROMETHEUS)
            assert (await answer(streams))[0] == "HTTP/1.1 200 OK"
            assert await end(half_sent[0]) == b""
            assert len(port.admission) == METRICS_CONNECTIONS_MAX
            assert threading.active_count() == 1
            for _ in range(PACE_SWEEPS):
                port.admission.sweep()
            for each in half_sent[1:]:
                assert await end(each) == b""
            assert len(port.admission) == 1
            streams[1].close()

    on_loop(story)


def test_numbers_are_rendered_once_for_many_scrapes() -> None:
    port = MetricsPort(NodeMetrics().registry, log=capturing_log()[0])
    first = port.render("", 1.0)
    assert port.render("", 1.0 + RENDERED_S * 0.9)[1] is first[1]
    assert port.render("", 1.0 + RENDERED_S)[1] is not first[1]
