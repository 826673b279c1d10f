"""``fencepost bench transactions`` with each client on one cluster, and the protocol that each uses."""

import contextlib
import os
import signal
from pathlib import Path

import pytest

from fencepost.bench.process import child
from fencepost.bench.transaction_records import Load
from fencepost.bench.transactions import LOAD_MODULE
from tests.clients.players import FETCHED, HERE, NotHere, copied, need
from tests.harness.command import in_process, in_process_json
from tests.harness.nodes import Nodes, running, wait_for

pytestmark = pytest.mark.slow

LOAD = ("--producers", 2, "--messages", 3, "--seconds", 1, "--warm-up", 0.2)


@pytest.fixture(scope="module")
def jars() -> str:
    try:
        need("java", "mvn")
        return f"{copied(HERE / 'java/pom.xml', FETCHED / 'java')}/*"
    except NotHere as error:
        pytest.skip(str(error))


def newest_epoch(nodes: Nodes, client: str) -> int:
    """Of the bench's producers of a client."""
    ids = [each["transactional_id"] for each in nodes.read("transactions", "list")]
    described = ("transactions", "describe", "--transactional-id")
    epochs: list[int] = [
        nodes.read(*described, each)["producer_epoch"] for each in ids if f"-{client}-" in each
    ]
    return max(epochs)


def test_each_client_is_measured_and_uses_the_protocol_that_its_row_names(tmp_path: Path, jars: str) -> None:
    clients = ("java", "fencepost", "aiokafka", "confluent")
    with running(tmp_path / "cluster") as nodes:
        words = [word for each in clients for word in ("--client", each)]
        document = in_process_json(
            "bench",
            "transactions",
            "--bootstrap-server",
            nodes.bootstrap,
            "--java-classpath",
            jars,
            *LOAD,
            *words,
        )
        rows = {each["client"]: each for each in document["rows"]}
        assert tuple(rows) == clients
        assert all(each["verified"] and each["txn_per_s"] > 0 for each in rows.values())
        assert all(each["cpu_ms"]["client"] > 0 for each in rows.values())
        # With V2 each transaction has an epoch of its own (KIP-890).
        assert {each: newest_epoch(nodes, each) > 1 for each in clients} == {
            each: rows[each]["protocol"] == "v2" for each in clients
        }
        assert rows["java"]["protocol"] == "v2"
        assert nodes.complaints() == []


def java_of(process: int) -> list[int]:
    """The Java processes that a process started."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            name, _, rest = stat.read_text("ascii", "replace").rpartition(")")
            if name.endswith("(java") and int(rest.split()[1]) == process:
                found.append(int(stat.parent.name))
    return found


def test_java_does_not_outlive_a_load_that_is_killed_in_its_window(tmp_path: Path, jars: str) -> None:
    with running(tmp_path / "cluster", count=1) as nodes, child("load", LOAD_MODULE) as load:
        load.send(
            Load(
                client="java", bootstrap=nodes.bootstrap, topic="t", producers=1, messages=1,
                message_bytes=100, warm_up_s=0.0, seconds=600.0, hides_aborted=True, java_classpath=jars,
            )
        )  # fmt: skip
        wait_for("a transaction", lambda: nodes.read("transactions", "list"))
        (java,) = java_of(load.pid)
        os.kill(load.pid, signal.SIGKILL)
        wait_for("the end of Java", lambda: not Path(f"/proc/{java}").exists(), seconds=20)


def test_what_the_java_client_says_is_printed(jars: str) -> None:
    without_jars = ("--client", "java", "--java-classpath", Path(jars).parent)
    said = in_process("bench", "transactions", *without_jars, "--nodes", 1, *LOAD)
    assert said.status == 1
    assert "package org.apache.kafka.clients.producer does not exist" in said.stderr
