"""A real consumer stands still for longer than its session, and commits as soon as it wakes."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.harness.nodes import Nodes, running, wait_for

pytestmark = pytest.mark.slow

TOPIC = "late"
BY_THE_HEIR, TOO_LATE = 5, 9
SECONDS_MAX = 60.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    with running(tmp_path_factory.mktemp("late") / "cluster", count=1) as started:
        started.run("topics", "create", "--topic", TOPIC)
        yield started


@pytest.mark.row("447.1")
@pytest.mark.parametrize("library", ["confluent-kafka", "kafka-python", "aiokafka"])
def test_what_is_committed_after_the_session_is_refused(cluster: Nodes, library: str, tmp_path: Path) -> None:
    group = f"late-{library}"
    arguments = ("-m", "tests.clients.late_committer", library, cluster.bootstrap, group, TOPIC)
    said = tmp_path / "said"
    with said.open("wb") as out:
        late = subprocess.Popen(
            (sys.executable, *arguments, str(TOO_LATE)), stdin=subprocess.PIPE, stdout=out
        )
    heir: Any = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    try:
        wait_for("it joins", lambda: "joined" in said.read_text() or None, SECONDS_MAX)
        os.kill(late.pid, signal.SIGSTOP)
        heir.subscribe([TOPIC])
        wait_for("its heir has the partition", lambda: heir.poll(0.1) or heir.assignment(), SECONDS_MAX)
        heir.commit(offsets=[TopicPartition(TOPIC, 0, BY_THE_HEIR)], asynchronous=False)
        assert late.stdin is not None
        late.stdin.write(b"now\n")
        late.stdin.flush()
        os.kill(late.pid, signal.SIGCONT)
        wait_for("it commits", lambda: said.read_text().splitlines()[1:], SECONDS_MAX)
        assert said.read_text().splitlines()[1].startswith("refused")
        (committed,) = heir.committed([TopicPartition(TOPIC, 0)], timeout=SECONDS_MAX)
        assert committed.offset == BY_THE_HEIR
    finally:
        late.kill()
        late.communicate()
        heir.close()
