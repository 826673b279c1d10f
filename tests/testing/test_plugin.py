"""The pytest plugin, as an application's tests use it: pytest runs in a process of its own."""

import gc
import re
import signal
import subprocess
import sys
import weakref
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fencepost.testing import plugin
from tests.harness import shell_pages
from tests.harness.command import TIMEOUT_S
from tests.testing.pages import PAGES, ROOT, RUN_BY, blocks, how_tos, on_a_cluster

WITH_PYTEST, WITHOUT, TLS, _ = blocks("testing.md")

RIGHT = """
def test_a_commit_whose_answer_is_lost_is_done(fencepost):
    topic = fencepost.topic("orders")
    name = fencepost.name("app")
    producer = Producer({"bootstrap.servers": fencepost.bootstrap, "transactional.id": name})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"order")
    lost = fencepost.faults.drop_answer("EndTxn", match={"transactional_id": name}, times=1)
    producer.commit_transaction(30)
    lost.wait_fired()
    fencepost.assert_exactly_once([b"order"], topic)

def test_names_are_fresh_and_the_cluster_is_whole(fencepost, fencepost_cluster):
    assert fencepost.cluster is fencepost_cluster
    assert {fencepost_cluster.status(each) for each in fencepost_cluster.node_ids} == {"running"}
    assert fencepost.read(fencepost.topic("orders")) == []
    assert len(fencepost.cluster.node_ids) == 2

def test_a_topic_is_matched_in_requests_that_have_its_id(fencepost):
    from confluent_kafka import Consumer, TopicPartition
    topic, other = fencepost.topic("orders"), fencepost.topic("bills")
    lost = fencepost.faults.disconnect("Fetch", match={"topic": topic}, times=1)
    with fencepost.faults.disconnect("Fetch", match={"topic": other}) as never:
        consumer = Consumer({"bootstrap.servers": fencepost.bootstrap, "group.id": topic})
        consumer.assign([TopicPartition(topic, 0, 0)])
        consumer.poll(0)
        lost.wait_fired()
        consumer.close()
        assert never.fired == 0

@pytest.mark.fencepost(nodes=1, config={"num.partitions": 5})
def test_a_cluster_of_its_own(fencepost):
    assert fencepost.cluster.node_ids == [1]
"""

WRONG = """
from confluent_kafka import Producer
import pytest

def test_forgets_to_commit(fencepost):
    topic = fencepost.topic("orders")
    producer = Producer({"bootstrap.servers": fencepost.bootstrap, "transactional.id": "forgetful"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"order")
    producer.flush(30)
    seen = fencepost.cluster.read(topic, isolation="read_uncommitted")
    assert [] == seen

def test_leaves_a_fault_behind(fencepost):
    fencepost.faults.disconnect("Produce")

@pytest.mark.fencepost(killl="leader")
def test_misspells(fencepost):
    pass

def test_reads_what_is_not_there(fencepost):
    fencepost.read("not-there")

def test_finds_one_that_is_lost(fencepost):
    fencepost.assert_exactly_once([b"order"], fencepost.topic("orders"))
"""

STUCK = """
import ctypes, threading
from confluent_kafka import Producer
import pytest

@pytest.mark.fencepost(within=4)
def test_waits_in_a_library_that_keeps_the_lock(fencepost):
    topic, name = fencepost.topic("orders"), fencepost.name("app")
    settings = {"bootstrap.servers": fencepost.bootstrap, "client.id": "shop"}
    producer = Producer({**settings, "transactional.id": name})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"order")
    late = fencepost.faults.delay("EndTxn", 600_000, match={"transactional_id": name})
    threading.Thread(target=producer.commit_transaction, daemon=True).start()
    late.wait_fired()
    ctypes.PyDLL(None).pause()
"""


def run_pytest(directory: Path, text: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    (directory / "test_app.py").write_text(text)
    return subprocess.run(
        [
            sys.executable,
            "-P",
            "-m",
            "pytest",
            "-q",
            "--strict-markers",
            "-p",
            "no:cacheprovider",
            *arguments,
        ],
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )


def test_each_block_of_python_on_a_page_is_run_or_it_is_said_why_not() -> None:
    assert {(page.name, number) for page in PAGES for number in range(len(blocks(page.name)))} == set(RUN_BY)


def test_each_block_of_a_shell_on_a_page_is_run_or_it_is_said_why_not() -> None:
    found = {
        (page.name, number) for page in PAGES for number in range(len(shell_pages.shell_blocks(page.name)))
    }
    assert found == set(shell_pages.RUN_BY)
    for (page, _), test in shell_pages.RUN_BY.items():
        if not test.startswith("nothing: "):
            assert Path(page).stem in (ROOT / test).read_text("utf-8"), f"{test} has nothing of {page}"


def test_the_page_of_the_outbox_has_the_example() -> None:
    shop, _test = blocks("how-to-outbox.md")
    assert shop == (ROOT / "examples/outbox/shop.py").read_text("utf-8")


@pytest.mark.row("beyond.9")
@pytest.mark.slow
def test_right_applications_pass_while_leaders_die_and_failing_tests_are_explained(tmp_path: Path) -> None:
    (tmp_path / "test_wrong.py").write_text(WRONG)
    (tmp_path / "test_pages.py").write_text(on_a_cluster())
    for number, text in enumerate(how_tos()):
        (tmp_path / f"test_how_to_{number}.py").write_text(text)
    for name, text in zip(("shop", "test_shop"), blocks("how-to-outbox.md"), strict=True):
        (tmp_path / f"{name}.py").write_text(text)
    done = run_pytest(tmp_path, WITH_PYTEST + RIGHT, "--fencepost-nodes", "2")
    assert re.search("\n3 failed, 16 passed,.* 2 errors", done.stdout), done.stdout + done.stderr
    assert "ClusterFailed: topic 'not-there': UNKNOWN_TOPIC_OR_PARTITION" in done.stdout
    assert "NotExactlyOnce: not exactly once: 1 went in, 0 came out" in done.stdout
    inside = re.findall(r"^\S*(?:testing|client)/\w+\.py:\d+: ", done.stdout, re.MULTILINE)
    assert not inside, "a failing test is shown at its own line"
    assert {"test_wrong.py"} == set(re.findall(r"^(?:FAILED|ERROR) ([\w.]+)::", done.stdout, re.MULTILINE))
    assert "fencepost: transactions" in done.stdout
    assert re.search(r"forgetful \(Ongoing\): .*", done.stdout)
    assert "'forgetful' still has an open transaction: producer" in done.stdout
    assert "fencepost: node 1, running" in done.stdout
    assert "left armed by the test: disconnect(Produce), fired 0 times" in done.stdout
    assert "the marker fencepost has no killl; it has nodes, config, tls, kill, every, within" in done.stdout


def test_what_a_failing_test_left_is_collected_before_it_is_shown() -> None:
    """An aiokafka producer whose error was not looked at ended the run, by an internal error of pytest's."""

    class Left:
        pass

    item: Any = SimpleNamespace(stash={plugin.HELD: object()})
    with pytest.raises(ZeroDivisionError) as raised:
        1 / 0  # noqa: B018
    left: Any = Left()
    left.itself, seen = left, weakref.ref(left)
    del left
    gc.disable()
    try:
        for excinfo, is_left in ((None, True), (raised, False)):
            call: Any = SimpleNamespace(excinfo=excinfo)
            next(plugin.pytest_runtest_makereport(item, call))
            assert (seen() is not None) == is_left
    finally:
        gc.enable()


@pytest.mark.slow
def test_a_test_that_does_not_end_ends_the_run_and_names_who_waits(tmp_path: Path) -> None:
    done = run_pytest(tmp_path, STUCK, "--fencepost-nodes", "1")
    assert done.returncode == -signal.SIGABRT, done.stdout + done.stderr
    assert "test_app.py::test_waits_in_a_library_that_keeps_the_lock has not ended after 4 s" in done.stderr
    assert re.search(r"client 'shop' waits for node 1: EndTxn, for \d", done.stderr), done.stderr
    assert re.search(r"armed: delay\(EndTxn, 600000 ms, .*fired 1 times", done.stderr), done.stderr
    assert re.search(r"Fatal Python error: Aborted(.|\n)*test_app.py.*line 17", done.stderr), done.stderr


@pytest.mark.slow
def test_a_cluster_that_does_not_start_is_a_sentence(tmp_path: Path) -> None:
    done = run_pytest(tmp_path, "def test_it(fencepost):\n    pass\n", "--fencepost-nodes", "0")
    assert "fencepost: expected 1 to 15 nodes, got 0" in done.stdout
    assert "Traceback" not in done.stdout
    assert len(done.stdout.splitlines()) < 10, done.stdout


@pytest.mark.slow
def test_the_examples_without_pytest_run(tmp_path: Path) -> None:
    tls = TLS.replace("Cluster(tls", "Cluster(1, tls")
    assert tls != TLS
    command = [sys.executable, "-P", "-c", WITHOUT + tls + "print(settings)"]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=TIMEOUT_S
    )
    assert (done.returncode, done.stdout.count("127.0.0.1:")) == (0, 4), done.stderr


@pytest.mark.slow
def test_a_run_that_does_not_use_it_loads_nothing_of_it(tmp_path: Path) -> None:
    text = """
import sys
def test_it():
    loaded = sorted(name for name in sys.modules if name.startswith("fencepost"))
    assert loaded == ["fencepost", "fencepost.testing", "fencepost.testing.plugin"]
"""
    done = run_pytest(tmp_path, text)
    assert "1 passed" in done.stdout, done.stdout + done.stderr
