"""``consume --group`` against librdkafka's mock cluster: what was printed is committed."""

import io
import sys
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from fencepost.cli import consume
from fencepost.cluster.console import Failed
from tests.harness.command import Result, here

Run = Callable[..., Result]


@pytest.fixture
def run(mock_cluster: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command against the mock cluster, with this on its stdin."""

    def command(*words: object, stdin: bytes = b"") -> Result:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        return here(capsys, *words, "--bootstrap-server", mock_cluster)

    return command


def test_what_was_printed_is_committed_and_no_more(
    run: Run, mock_cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the four records that librdkafka hands out at once, two are printed."""
    run("produce", "--topic", "printed", "--partition", 0, stdin=b"1\n2\n3\n4\n")
    write = consume._write
    printed: list[Any] = []

    def breaks(stdout: Any, message: Any, *how: Any) -> None:
        if len(printed) == 2:
            raise Failed("no more")
        printed.append(message.value())
        write(stdout, message, *how)

    monkeypatch.setattr(consume, "_write", breaks)
    said = run("consume", "--topic", "printed", "--group", "readers", "--from-beginning", "--max-messages", 4)
    assert (said.status, said.stdout) == (1, "1\n2\n")
    looker = Consumer({"bootstrap.servers": mock_cluster, "group.id": "readers"})
    (committed,) = looker.committed([TopicPartition("printed", 0)], timeout=10)
    looker.close()
    assert committed.offset == 2


@pytest.mark.parametrize("words", [("--partition", 0), ("--partition", 0, "--offset", 1)], ids=str)
def test_a_group_chooses_its_partitions(run: Run, words: tuple[object, ...]) -> None:
    said = run("consume", "--topic", "grouped", "--group", "g", *words)
    assert (said.status, "--group goes without --partition" in said.stderr) == (2, True)
