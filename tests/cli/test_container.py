"""A cluster whose nodes are made of variables alone, as containers are, and the examples for containers."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fencepost.settings.environment import SETTINGS, read_environment, setting_of
from fencepost.settings.node_identity import id_text, random_id
from tests.harness.command import in_process
from tests.harness.nodes import wait_for
from tests.ports import cluster_port
from tests.together import table

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "containers"
CLUSTER = "5L6g3nShT-eMCtK--X86sw"
_VARIABLE = re.compile(r"\bKAFKA_[A-Z_]+")


class Container:
    """What a container has of its own: variables and a folder. ``run`` starts it, anew each time."""

    def __init__(self, home: Path, node_id: int, port: int, **more: str) -> None:
        self.home, self._port, self.node_id = home / str(node_id), port, node_id
        self.home.mkdir(exist_ok=True)
        numbers = (1, 2, 3)
        self.environment = {name: text for name, text in os.environ.items() if name == "PATH"} | {
            "KAFKA_NODE_ID": str(node_id),
            "KAFKA_PROCESS_ROLES": "broker,controller",
            "KAFKA_LOG_DIRS": str(self.home / "data"),
            "KAFKA_QUORUM_SECRET_FILE": str(self.home / "quorum.secret"),
            "KAFKA_LISTENERS": f"PLAINTEXT://{self.address},CONTROLLER://127.0.0.1:{port + 100 + node_id}",
            "KAFKA_CONTROLLER_QUORUM_VOTERS": ",".join(f"{n}@127.0.0.1:{port + 200 + n}" for n in numbers),
            "KAFKA_CONTROLLER_QUORUM_BOOTSTRAP_SERVERS": ",".join(
                f"127.0.0.1:{port + 100 + n}" for n in numbers
            ),
            "KAFKA_METRICS_PORT": str(port + 300 + node_id),
            "KAFKA_FENCEPOST_ALLOW_UNREPLICATED": "true",
            **more,
        }

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._port + self.node_id}"

    def command(self, *words: object, **more: str) -> list[str]:
        return [sys.executable, "-m", "fencepost.cli.main", "container", *map(str, words)]

    def ended(self, *words: object, **more: str) -> subprocess.CompletedProcess[str]:
        file = ("--file", str(self.home / "node.properties"))
        return subprocess.run(
            [*self.command(*words), *file],
            env=self.environment | more, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip

    def started(self) -> "subprocess.Popen[bytes]":
        log = (self.home / "log.txt").open("ab")
        with log:
            return subprocess.Popen(
                [*self.command("run"), "--file", str(self.home / "node.properties")],
                env=self.environment, cwd=ROOT, stdout=log, stderr=log,
            )  # fmt: skip

    def is_(self, what: str) -> bool:
        return self.ended("probe", what).returncode == 0


@pytest.fixture
def three(tmp_path: Path) -> Iterator[tuple[list[Container], dict[int, "subprocess.Popen[bytes]"]]]:
    port = cluster_port()
    more = {"CLUSTER_ID": id_text(random_id()), "QUORUM_SECRET": "of the three containers"}
    containers = [Container(tmp_path, node_id, port, **more) for node_id in (1, 2, 3)]
    running: dict[int, subprocess.Popen[bytes]] = {}
    with ExitStack() as stack:
        stack.callback(_kill, running)
        yield containers, running


def _kill(running: dict[int, "subprocess.Popen[bytes]"]) -> None:
    for each in running.values():
        each.kill()
        each.wait()


def is_ready(container: Container) -> bool | None:
    return container.is_("ready") or None


@pytest.mark.slow
def test_three_containers_are_a_cluster_that_outlives_a_lost_disk_and_a_lost_quorum(three: Any) -> None:
    containers, running = three
    first, second, third = containers
    for each in containers:
        running[each.node_id] = each.started()
    for each in containers:
        wait_for(f"node {each.node_id} is ready", partial(is_ready, each))
    file = first.home / "node.properties"
    assert file.stat().st_mode & 0o777 == 0o600
    environ = Path(f"/proc/{running[1].pid}/environ").read_bytes()
    assert b"KAFKA_" not in environ
    assert b"of the three containers" not in environ

    running[3].terminate()
    assert running[3].wait(30) == 0, "SIGTERM ends it cleanly: the node is the container's process"
    assert not third.is_("live")
    for path in sorted(third.home.glob("data/**/*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    (third.home / "data").rmdir()
    running[3] = third.started()
    wait_for("a voter without its disk is readmitted", partial(is_ready, third))

    for each in (second, third):
        running[each.node_id].send_signal(signal.SIGKILL)
        running[each.node_id].wait()
    assert first.is_("live"), "a lost quorum is no reason to restart a node"
    assert first.is_("ready")
    refused = first.ended("run", CLUSTER_ID=id_text(random_id()))
    assert refused.returncode == 1
    assert "is of cluster" in refused.stderr


@table(
    ("words", "more", "status", "said"),
    [
        (("run",), {}, 2, "CLUSTER_ID is not set"),
        (("run",), {"CLUSTER_ID": "x"}, 2, "CLUSTER_ID: expected an id"),
        (("run",), {"CLUSTER_ID": CLUSTER}, 2, "QUORUM_SECRET is not set"),
        (("run",), {"CLUSTER_ID": CLUSTER, "QUORUM_SECRET": "short"}, 2, "the shortest of 5 bytes"),
        (("run",), {"KAFKA_NODE": "1"}, 2, "KAFKA_NODE: unknown key node"),
        (("run",), {"KAFKA_SUPER_USERS": "User:a\nlog.level=debug"}, 2, "line break"),
        (("probe", "live"), {}, 1, "does not answer"),
    ],
)
def test_what_a_container_lacks_is_named(
    tmp_path: Path, words: tuple[str, ...], more: dict[str, str], status: int, said: str
) -> None:
    alone = Container(tmp_path, 1, cluster_port())
    file = alone.home / "node.properties"
    if words == ("probe", "live"):
        file.write_text(read_environment(alone.environment).render())
    with pytest.MonkeyPatch.context() as patched:
        for name, text in (alone.environment | more).items():
            patched.setenv(name, text)
        ended = in_process("container", *words, "--file", file)
    assert (ended.status, said in ended.stderr) == (status, True), ended


@pytest.mark.parametrize("name", ["Containerfile", "compose.yaml"])
def test_the_examples_name_settings_that_there_are(name: str) -> None:
    found = set(_VARIABLE.findall((EXAMPLES / name).read_text("utf-8")))
    assert found
    assert {setting_of(each) for each in found} <= SETTINGS
