"""The example programs, as a user runs them: from an empty folder, one process each."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from fencepost.client import Producer
from tests.client.test_cluster import fresh, read
from tests.harness.nodes import Nodes

pytestmark = pytest.mark.slow
EXAMPLES = Path(__file__).parents[2] / "examples"
SECONDS_MAX = 90


def started(name: str, folder: Path, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, str(EXAMPLES / name), *map(str, arguments)]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)


def ended(process: subprocess.Popen[str]) -> str:
    output, _ = process.communicate(timeout=SECONDS_MAX)
    assert process.returncode == 0, output
    return output


@pytest.mark.row("588.6")
def test_a_producer_recovers_from_timeouts(bootstrap: str, tmp_path: Path) -> None:
    topic = fresh("timeouts")
    output = ended(started("recover_from_timeouts.py", tmp_path, bootstrap, topic, 1))
    assert output.splitlines() == ["0: timed out", "1: committed", "2: committed"]
    seen = asyncio.run(read(bootstrap, topic, 2))
    assert [each.value for each in seen] == [b"record 1", b"record 2"]


@pytest.mark.row("447.6")
def test_two_instances_copy_each_record_once_while_the_leader_dies(nodes: Nodes, tmp_path: Path) -> None:
    source, target, group = fresh("in"), fresh("out"), fresh("group")
    count = 500

    async def fill() -> None:
        async with Producer(nodes.bootstrap, batch_size=500) as producer:
            for number in range(count):
                await producer.send(source, b"r%d" % number, partition=number % 3)

    asyncio.run(fill())
    where = (nodes.bootstrap, source, target, group, count)
    copies = [started("read_process_write.py", tmp_path, *where) for _ in range(2)]
    leader = nodes.leader()
    nodes.kill(leader)
    nodes.start(leader)
    for copy in copies:
        ended(copy)
    seen = asyncio.run(read(nodes.bootstrap, target, count))
    assert sorted(each.value or b"" for each in seen) == sorted(b"R%d" % each for each in range(count))
