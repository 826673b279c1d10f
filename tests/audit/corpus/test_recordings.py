"""What the recordings hold: else an audit without findings of them would prove little."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from fencepost.audit.decode import local
from tests.audit.conftest import Recorded
from tests.audit.corpus import recording

KAFKA = [name for name in recording.names() if name.startswith("kafka-")]
STOPPED = [name for name in KAFKA if name.endswith("-stopped")]
STATES = "__transaction_state"


class Opened(NamedTuple):
    """A recording, and the rows that it decodes to."""

    name: str
    root: Path
    tables: dict[str, pa.Table]


@pytest.fixture(scope="module", params=KAFKA)
def opened(request: pytest.FixtureRequest, recorded: Recorded) -> Opened:
    """Each recording of Apache Kafka, once."""
    root = recorded(request.param)
    return Opened(request.param, root, local.tables([str(root)]))


def test_the_recordings_are_there() -> None:
    assert len(KAFKA) >= 3
    assert len(STOPPED) >= 2


def test_every_batch_is_sound(opened: Opened) -> None:
    """What is torn is the end of a file that was copied while it was written."""
    assert set(opened.tables["record_batches"]["fault"].to_pylist()) <= {None}
    assert not opened.tables["record_faults"].num_rows
    stops = set(opened.tables["files"]["stop"].to_pylist())
    allowed = {"end", "preallocated"} if opened.name in STOPPED else {"end", "preallocated", "torn"}
    assert stops <= allowed


def test_three_nodes_have_written_to_two_directories_each(opened: Opened) -> None:
    assert {each.name for each in opened.root.iterdir()} == {"1", "2", "3"}
    for node in opened.root.iterdir():
        assert {each.parent.name for each in node.glob("*/meta.properties")} == {"a", "b"}


def test_transactions_are_of_each_protocol_that_the_version_has(opened: Opened) -> None:
    states = opened.tables["transaction_states"]
    versions = set(states["client_transaction_version"].drop_null().to_pylist())
    assert (2 in versions) == ("kafka-4" in opened.name)
    ended = {"CompleteCommit", "CompleteAbort"}
    assert ended <= set(states["state"].drop_null().to_pylist())


def test_logs_are_compacted_and_begin_late(opened: Opened) -> None:
    batches = opened.tables["record_batches"]
    holes = {log for log, spans in _logs(batches) if any(end != begin for end, begin in _joints(spans))}
    assert STATES in {topic for _, topic, _ in holes}
    assert "compacted" in {topic for _, topic, _ in holes}
    late = {topic for (_, topic, _), spans in _logs(batches) if spans[0][0] > 0}
    assert {"short", "trimmed"} <= late


def test_leaders_have_changed_and_ends_are_unlike(opened: Opened) -> None:
    batches = opened.tables["record_batches"]
    orders = batches.filter(pc.equal(batches["topic"], "orders"))
    assert pc.max(orders["leader_epoch"]).as_py() >= 1
    ends = {
        partition: {
            node: spans[-1][1]
            for (node, topic, one), spans in _logs(batches)
            if (topic, one) == ("orders", partition)
        }
        for partition in range(3)
    }
    assert any(len(set(each.values())) > 1 for each in ends.values())


@pytest.mark.parametrize("name", STOPPED)
def test_partitions_on_their_way_out_are_there(name: str, recorded: Recorded) -> None:
    kinds = {each.name.rpartition("-")[2] for each in recorded(name).rglob("*.*") if each.is_dir()}
    assert {"stray", "delete"} & kinds


def _logs(batches: pa.Table) -> Iterator[tuple[tuple[int, str, int], list[tuple[int, int]]]]:
    """Each copy's (first offset, end) of each batch, in order."""
    found: dict[tuple[int, str, int], list[tuple[int, int]]] = {}
    for row in batches.select(["node", "topic", "partition", "base_offset", "last_offset"]).to_pylist():
        key = (row["node"], row["topic"], row["partition"])
        found.setdefault(key, []).append((row["base_offset"], row["last_offset"] + 1))
    for key, spans in found.items():
        yield key, sorted(spans)


def _joints(spans: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Where one batch ends and the next begins."""
    for (_, end), (begin, _) in pairwise(spans):
        yield end, begin
