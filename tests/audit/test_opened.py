"""``explain --logs``: what log directories leave open, row by row, without Spark."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from fencepost.audit.jobs.opened import Directories, _home
from fencepost.cli.explain_logs import LogExplainer
from fencepost.client.explain import Explained
from fencepost.client.types import TopicPartition
from fencepost.records.open_transactions import NO_TIMEOUT_MS, Holding
from fencepost.records.transaction_log import TopicPartitions
from tests.audit.built_logs import BILLING, NOW_MS, Built
from tests.audit.conftest import Recorded
from tests.audit.corpus import recording
from tests.harness.command import here
from tests.together import table

WHERE = TopicPartition("orders", 0)
STATES = "__transaction_state"
NONE = TopicPartitions("orders", (1,))


def coordinators(root: Path, name: str = "billing", state: str = "Ongoing", **columns: Any) -> None:
    """One of ours: its only partition."""
    Built(root / "archive", STATES).state(name, state, **columns)


def look(root: Path) -> Explained:
    return asyncio.run(LogExplainer([str(root)]).partition(WHERE))


def holdings(explained: Explained) -> list[Holding]:
    return [each.judged.holding for partition in explained.partitions for each in partition.held]


def orders(root: Path) -> Built:
    return Built(root, "orders")


def committed(root: Path) -> None:
    orders(root).data().marker()


def opened(root: Path) -> None:
    orders(root).data(transactional=False).data()


def ended_late(root: Path) -> None:
    """Data behind the marker that ended its transaction, as KIP-890 prevents."""
    orders(root).data().marker().data(sequence=1)


def later_epoch(root: Path) -> None:
    orders(root).data().marker(epoch=1)


def in_the_second_segment(root: Path) -> None:
    orders(root).data(producer_id=7).roll().marker(producer_id=7).data()


def plain(root: Path) -> None:
    orders(root).data(producer_id=-1, transactional=False, sequence=-1)


@table(
    ("lay", "stable", "end"),
    [
        pytest.param(committed, 2, 2, id="a-marker"),
        pytest.param(opened, 1, 2, id="open"),
        pytest.param(ended_late, 2, 3, id="data-after-the-marker"),
        pytest.param(later_epoch, 2, 2, id="a-marker-of-transactions-v2"),
        pytest.param(in_the_second_segment, 2, 3, id="two-segments"),
        pytest.param(plain, 1, 1, id="no-transactions"),
    ],
)
def test_where_readers_stop(tmp_path: Path, lay: object, stable: int, end: int) -> None:
    assert callable(lay)
    lay(tmp_path)
    (partition,) = look(tmp_path).partitions
    assert (partition.last_stable_offset, partition.high_watermark) == (stable, end)
    assert bool(partition.held) == (stable < end)


@table(
    ("state", "columns", "expected"),
    [
        pytest.param("Ongoing", {}, Holding.ONGOING, id="under-way"),
        pytest.param("Ongoing", {"timeout_ms": NO_TIMEOUT_MS}, Holding.TWO_PHASE, id="two-phase"),
        pytest.param("PrepareCommit", {}, Holding.ENDING, id="ending"),
        pytest.param("Ongoing", {"partitions": (NONE,)}, Holding.HANGING, id="of-another-partition"),
        pytest.param("CompleteCommit", {}, Holding.HANGING, id="ended"),
        pytest.param("Ongoing", {"producer_id": 9}, Holding.HANGING, id="of-no-id"),
    ],
)
def test_what_the_coordinator_has(
    tmp_path: Path, state: str, columns: dict[str, Any], expected: Holding
) -> None:
    opened(tmp_path)
    coordinators(tmp_path, state=state, **columns)
    explained = look(tmp_path)
    assert (holdings(explained), explained.unanswered) == ([expected], ())


def test_without_the_coordinators_log_nothing_hangs(tmp_path: Path) -> None:
    opened(tmp_path)
    explained = look(tmp_path)
    assert holdings(explained) == [Holding.UNKNOWN]
    assert [each.of for each in explained.unanswered] == ["the coordinator"]


def test_the_last_record_of_an_id_counts_and_a_tombstone_ends_it(tmp_path: Path) -> None:
    opened(tmp_path)
    log = Built(tmp_path / "archive", STATES).state("billing", "Ongoing").state("billing", "PrepareAbort")
    assert holdings(look(tmp_path)) == [Holding.ENDING]
    log.forgotten("billing")
    assert holdings(look(tmp_path)) == [Holding.HANGING]


def homes(count: int) -> list[str]:
    """An id of each of so many partitions of Kafka's topic."""
    found: dict[int, str] = {}
    number = 0
    while len(found) < count:
        found.setdefault(_home(f"id-{number}", count), f"id-{number}")
        number += 1
    return [found[each] for each in range(count)]


@table(
    ("given", "of", "is_whole"),
    [
        pytest.param(range(3), 3, True, id="all-three"),
        pytest.param(range(2), 3, False, id="one-is-missing"),
        pytest.param(range(1), 3, False, id="one-of-three"),
        pytest.param((0, 2), 3, False, id="a-gap"),
        pytest.param(range(50), 50, True, id="all-of-the-default"),
    ],
)
def test_whether_all_coordinators_are_there(tmp_path: Path, given: range, of: int, is_whole: bool) -> None:
    opened(tmp_path)
    names = homes(of)
    for each in given:
        Built(tmp_path, STATES, each).state(names[each], "Empty", producer_id=1000 + each)
    explained = look(tmp_path)
    assert holdings(explained) == [Holding.HANGING if is_whole else Holding.UNKNOWN]
    assert [each.of for each in explained.unanswered] == ([] if is_whole else ["other coordinators"])


def test_the_hash_is_javas() -> None:
    names = ("billing", "", "polygenelubricants", "ü", "\U0001f600")
    assert [_home(each, 50) for each in names] == [9, 0, 0, 2, 49]


def missing(root: Path) -> None:
    orders(root).data().skip(1).data(producer_id=8, transactional=False)


def unreadable(root: Path) -> None:
    orders(root).data().garbage().data(producer_id=8, transactional=False)


def missing_before(root: Path) -> None:
    orders(root).data(producer_id=8, transactional=False).skip(1).data()


@table(
    ("lay", "expected"),
    [
        pytest.param(missing, Holding.UNKNOWN, id="offsets-are-missing-behind-it"),
        pytest.param(unreadable, Holding.UNKNOWN, id="bytes-behind-it-are-no-batch"),
        pytest.param(missing_before, Holding.HANGING, id="what-is-missing-lies-before-it"),
    ],
)
def test_what_is_missing_may_be_the_marker(tmp_path: Path, lay: object, expected: Holding) -> None:
    assert callable(lay)
    lay(tmp_path)
    coordinators(tmp_path, producer_id=9)
    assert holdings(look(tmp_path)) == [expected]


@table(
    ("is_stopped", "later_ms", "expected"),
    [
        pytest.param(False, 1, Holding.UNKNOWN, id="the-marker-may-have-come-after-the-copy"),
        pytest.param(False, 0, Holding.HANGING, id="the-log-was-written-later"),
        pytest.param(True, 1, Holding.HANGING, id="nothing-came-after-a-clean-end"),
    ],
)
def test_a_coordinator_that_went_on(
    tmp_path: Path, is_stopped: bool, later_ms: int, expected: Holding
) -> None:
    log = orders(tmp_path).data(transactional=False).data()
    if is_stopped:
        log.stopped()
    coordinators(tmp_path, state="CompleteCommit", updated_ms=NOW_MS + later_ms)
    assert holdings(look(tmp_path)) == [expected]


def test_what_is_not_known_to_be_replicated_does_not_hang(tmp_path: Path) -> None:
    orders(tmp_path).data(transactional=False).data().checkpoint("replication-offset-checkpoint", 1)
    coordinators(tmp_path, producer_id=9)
    assert holdings(look(tmp_path)) == [Holding.UNKNOWN]


def test_the_copy_that_reaches_furthest_is_read_up_to_the_highest_checkpoint(tmp_path: Path) -> None:
    short, long = tmp_path / "1", tmp_path / "2"
    Built(short, "orders").data().checkpoint("replication-offset-checkpoint", 2)
    Built(long, "orders").data().marker().data(sequence=1).checkpoint("replication-offset-checkpoint", 1)
    (partition,) = look(tmp_path).partitions
    assert (partition.last_stable_offset, partition.high_watermark) == (2, 2)
    assert [each.opened.start_offset for each in partition.held] == [2]


def test_an_id_by_its_partitions(tmp_path: Path) -> None:
    opened(tmp_path)
    Built(tmp_path, "orders", 1).data().marker()
    Built(tmp_path, "other", 0).data()
    coordinators(tmp_path, partitions=(TopicPartitions("orders", (0, 1, 2)),))
    explained = asyncio.run(LogExplainer([str(tmp_path)]).transactional_id("billing"))
    assert explained is not None
    assert [(each.topic, each.partition) for each in explained.partitions] == [("orders", 0), ("other", 0)]
    assert holdings(explained) == [Holding.ONGOING, Holding.HANGING]
    assert explained.missing == (("orders", 1),)
    assert [each.of for each in explained.unanswered] == ["orders-2"]


@pytest.mark.slow
@pytest.mark.row("beyond.7")
@pytest.mark.parametrize("name", [each for each in recording.names() if "kafka-3" not in each])
def test_nothing_hangs_in_clusters_that_lived(recorded: Recorded, name: str) -> None:
    """Of the stopped ones, one transaction was left open; what was copied meanwhile may have more."""
    root = str(recorded(name))
    explainer = LogExplainer([root])
    held = [
        (each, partition.topic, partition.partition)
        for log in Directories([root]).data_logs
        for partition in asyncio.run(explainer.partition(TopicPartition(*log))).partitions
        for each in partition.held
    ]
    assert Holding.HANGING not in {each.judged.holding for each, _, _ in held}
    if name.endswith("-stopped"):
        assert [place for _, *place in held] == [["payments", 0], ["payments", 1]]
        assert {each.owner.transactional_id for each, _, _ in held if each.owner} == {"left-open"}
        assert {each.judged.holding for each, _, _ in held} == {Holding.ONGOING}


# -- the command --------------------------------------------------------------------------------------------


def test_the_command_reads_directories(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    opened(tmp_path)
    coordinators(tmp_path, name="orders-0", producer_id=9)
    both = here(capsys, "explain", "orders-0", "--logs", tmp_path)
    assert (both.status, "--topic-partition orders-0 or --transactional-id" in both.stderr) == (2, True)
    said = here(capsys, "explain", "--topic-partition", "orders-0", "--logs", tmp_path)
    assert said.status == 1
    assert "abort --bootstrap-server HOST:PORT --topic orders --partition 0 --start-offset 1" in said.stdout
    assert "let the cluster confirm it: fencepost explain --topic-partition orders-0" in said.stdout
    found = here(capsys, "explain", BILLING, "--logs", tmp_path, "--format", "json")
    document = json.loads(found.stdout)
    assert (found.status, document["directories"], document["is_open"]) == (1, [str(tmp_path)], True)
    assert document["partitions"][0]["open"][0]["first_write_ms"] == NOW_MS
    of_id = here(capsys, "explain", "--producer-id", 9, "--logs", tmp_path)
    assert (of_id.status, "__transaction_state-0 has it with producer 9" in of_id.stdout) == (1, True)


@table(
    ("words", "status", "said"),
    [
        pytest.param(("orders-7",), 3, "is no partition", id="no-such-partition"),
        pytest.param(("--topic-partition", "orders-7"), 3, "no log of orders-7", id="no-log-of-it"),
        pytest.param(("--transactional-id", "x"), 3, "no coordinator knows", id="no-such-id"),
        pytest.param(("orders-0", "--bootstrap-server", "h:1"), 2, "expected --logs, or", id="both"),
        pytest.param(("orders-0", "--dir", "d"), 2, "expected --logs, or", id="with-a-local-cluster"),
    ],
)
def test_what_the_command_refuses(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], status: int, said: str
) -> None:
    committed(tmp_path)
    ended = here(capsys, "explain", *words, "--logs", tmp_path)
    assert (ended.status, said in ended.stderr) == (status, True), ended


def test_without_the_extra(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    committed(tmp_path)
    for name in ("fencepost.cli.explain_logs", "fencepost.audit.jobs.opened"):
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    ended = here(capsys, "explain", "orders-0", "--logs", tmp_path)
    assert (ended.status, "pip install 'fencepost[audit]'" in ended.stderr) == (2, True)


def test_a_directory_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    committed(tmp_path)
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")
    assert [each.of for each in Directories([str(tmp_path)]).problems] == [str(tmp_path / "gone")]
