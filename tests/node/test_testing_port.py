"""What a test may do to a node from inside, and that nothing of it is there unless it is asked for."""

import asyncio
import json
import stat
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from fencepost.controller.clocks import Reading
from fencepost.node.testing_port import FaultPort
from fencepost.settings.config import ConfigError
from fencepost.settings.short_path import short_path
from fencepost.wire.cuttable_loop import CuttableLoop
from fencepost.wire.tls import Tls, TlsSettings
from tests.certificates import Authority
from tests.settings.test_config import read

STORY_S_MAX = 20.0
NOW = Reading("boot", 1_000, 50_000)


def test_a_node_that_is_not_asked_to_loads_nothing_of_it() -> None:
    program = (
        "import sys, fencepost.node.main\n"
        "kit = {'fencepost.node.testing_port', 'fencepost.wire.cuttable_loop'}\n"
        "assert not kit & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-P", "-c", program], check=True, timeout=60)


def test_beside_a_listener_that_others_reach_it_is_refused() -> None:
    assert read(**{"fencepost.testing": "true"}).testing
    with pytest.raises(ConfigError, match=r"fencepost\.testing=true: a node whose clock and links"):
        read(
            **{
                "fencepost.testing": "true",
                "listeners": "PLAINTEXT://0.0.0.0:9092,CONTROLLER://127.0.0.1:9192",
                "advertised.listeners": "PLAINTEXT://127.0.0.1:9092",
                "fencepost.allow.insecure.listeners": "true",
            }
        )


def own_tls() -> Tls:
    """Both ends of a connection: a key of an authority, which is trusted."""
    authority = Authority()
    signed = authority.sign("node-1")
    return Tls(TlsSettings(key=signed.key, chain=signed.certificate, trusted=authority.certificate))


@pytest.mark.parametrize("tls", [None, own_tls()], ids=["clear", "tls"])
def test_connections_to_where_it_is_cut_from_end_and_none_is_made(tmp_path: Path, tls: Tls | None) -> None:
    deep = tmp_path / ("deep" * 20) / ("er" * 30)  # past what the name of a socket may have
    deep.mkdir(parents=True)

    async def story(loop: CuttableLoop) -> None:
        port = FaultPort(deep, loop, lambda: NOW)
        moved: list[int] = []
        port.moved = [moved.append]
        closed = asyncio.Event()

        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read()
            writer.close()
            closed.set()

        shown = None if tls is None else tls.server("none")
        server = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=shown)
        here = server.sockets[0].getsockname()
        dial = partial(asyncio.open_connection, *here, ssl=None if tls is None else tls.client())
        async with port.listening():
            assert stat.S_IMODE((deep / "testing.sock").stat().st_mode) == 0o600
            reader, _ = await dial()
            (deep / "testing.json").write_text(json.dumps({"cut": [here], "advanced_ms": 7}))
            assert await told(deep) == {"cut": [list(here)], "advanced_ms": 7}
            assert await reader.read() == b""
            await closed.wait()
            with pytest.raises(ConnectionRefusedError, match="cut off from 127"):
                await dial()
            (deep / "testing.json").write_text(json.dumps({"advanced_ms": 9}))
            await told(deep)
            _, writer = await dial()
            writer.transport.abort()
        assert port.clocks() == Reading("boot", 1_009, 50_009)
        assert moved == [7, 2]
        assert not (deep / "testing.sock").exists()
        server.close()
        assert FaultPort(deep, loop, lambda: NOW).clocks().wall_ms == 50_009, "after a restart, too"

    with asyncio.Runner(loop_factory=CuttableLoop) as runner:
        loop = runner.get_loop()
        assert isinstance(loop, CuttableLoop)
        runner.run(asyncio.wait_for(story(loop), STORY_S_MAX))


async def told(directory: Path) -> object:
    with short_path(directory / "testing.sock") as name:
        reader, writer = await asyncio.open_unix_connection(name)
    writer.write(b"reload\n")
    answer = json.loads(await reader.readline())
    writer.close()
    return answer
