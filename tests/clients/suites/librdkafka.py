"""librdkafka's own tests: those that need a broker, by its number in its tests' folder.

Source    comes with the npm package node-rdkafka, of this version; it is built in .clients (ignored by git),
          with gcc and make, once: some five minutes on one core.
Cluster   has topics of four partitions, and Kafka's default for ``group.initial.rebalance.delay.ms``
          (``fencepost up`` writes 0): 0102 expects that two members that subscribe together are in the first
          generation together.
Chosen    what is about producers, transactions, idempotence, topics that are made on demand, and groups with
          the classic protocol. The rest is NOT RUN, with the reason. Tests against librdkafka's own mock
          broker say nothing about a cluster, and are left out (-L).
"""

import os
import re
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from tests.clients.players import FETCHED, NotHere, need
from tests.clients.suites.suite import BUILD_SECONDS_MAX, FAILED, NOT_RUN, PASSED, Ran, Suite

PACKAGE: Final = "node-rdkafka@3.6.1"
VERSION: Final = "2.12.0"
KAFKA_VERSION: Final = "3.7.0"  # what the tests take the cluster for
SETTINGS: Final = ("num.partitions=4", "group.initial.rebalance.delay.ms=3000")
TEST_SECONDS_MAX: Final = 900.0

WHOLE: Final = """
0001 0002 0003 0005 0007 0008 0012 0013 0014 0015 0016 0017 0018 0019 0020 0021 0022 0026 0029 0030
0031 0033 0034 0035 0036 0039 0040 0041 0042 0045 0048 0049 0050 0051 0053 0054 0056 0057 0059
0060 0061 0063 0064 0065 0067 0068 0070 0073 0075 0076 0082 0083 0084 0085 0086 0088 0089 0090 0091
0093 0094 0098 0099 0102 0110 0114 0118 0122 0123 0125 0129 0130 0132 0137 0140 0153
"""
PARTS: Final = {
    "0103": "do_test_misuse_txn do_test_basic_producer_txn do_test_consumer_producer_txn do_test_fenced_txn "
    "do_test_empty_txn do_test_wmark_isolation_level do_test_txn_abort_control_message_leader_epoch",
    "0113": "a_assign_tests b_subscribe_with_cb_test c_subscribe_no_cb_test d_change_subscription_add_topic "
    "e_change_subscription_remove_topic f_assign_call_cooperative g_incremental_assign_call_eager "
    "h_delete_topic i_delete_topic_2 j_delete_topic_no_rb_callback l_unsubscribe m_unsubscribe_2 n_wildcard "
    "s_subscribe_when_rebalancing t_max_poll_interval_exceeded u_multiple_subscription_changes "
    "v_commit_during_rebalance x_incremental_rebalances",
}
CHOSEN: Final = sorted(
    [(number, "") for number in WHOLE.split()]
    + [(number, part) for number, parts in PARTS.items() for part in parts.split()],
    key=lambda each: each[0],
)
CREATE_PARTITIONS: Final = "needs CreatePartitions"
NOT_RUN_HERE: Final = {
    "0011 batches, 0077 compaction": "need compacted topics",
    "0028 long topic names, 0047 partial buffers": "librdkafka's own known issues",
    "0038 performance": "a benchmark",
    "0044 partition counts, 0069 added partitions": CREATE_PARTITIONS,
    "0112 unknown partition, 0113 k_add_partition": CREATE_PARTITIONS,
    "0052 timestamps, 0109 auto creation of topics": "call kafka-topics.sh",
    "0055 producer latency": "asserts milliseconds, which a busy machine does not keep",
    "0081 admin": "needs admin requests that are not served: CreatePartitions, DeleteRecords, ACLs",
    "0092 message formats": "sets message.format.version",
    "0097 0115 0119 0126 0133 0135 0142": "need TLS, SASL or ACLs",
    "0101 fetch from follower": "needs racks and replicas",
    "0103 do_test_fatal_idempo_error_without_kip360": "needs DeleteRecords",
    "0107 0111, 0045 topic_remove, non_exist": "their scenario has brokers that make no topic on demand",
    "0113 o_java_interop": "needs Kafka's Java test client",
    "0127 fetch queue backoff": "measures the client's own pauses to 30 ms",
}
RESULTS: Final = {"PASSED": PASSED, "FAILED": FAILED, "SKIPPED": NOT_RUN}
LOCAL: Final = "Filtered due to negative test flags"
COLOR: Final = re.compile(r"\x1b\[[0-9;]*m")
ROW: Final = re.compile(
    r"^\| (?P<name>\d{4}_\w+) +\| +(?P<state>[A-Z]+) \| +(?P<seconds>[\d.]+)s \|(?P<why>.*)$", re.MULTILINE
)


def run(bootstrap: str, folder: Path) -> Iterator[Ran]:
    """Raises NotHere."""
    tests = _built()
    settings = folder / "librdkafka.conf"
    settings.write_text(f"bootstrap.servers={bootstrap}\n")
    for number, part in CHOSEN:
        yield from _ran(tests, settings, number, part)
    for name, reason in NOT_RUN_HERE.items():
        yield Ran(name, NOT_RUN, reason)


def _built() -> Path:
    """The folder of the test runner. Raises NotHere."""
    need("npm", "gcc", "g++", "make")
    folder = FETCHED / "librdkafka"
    tests = folder / "package/deps/librdkafka/tests"
    if (tests / "test-runner").exists():
        return tests
    folder.mkdir(parents=True, exist_ok=True)
    click.echo("librdkafka is fetched and built, once: some minutes")
    _step(["npm", "pack", "--silent", PACKAGE], folder)
    (packed,) = folder.glob("*.tgz")
    with tarfile.open(packed) as archive:
        archive.extractall(folder, filter="data")
    configure = ["./configure", "--disable-ssl", "--disable-gssapi", "--disable-curl"]
    for command, where in (
        (configure, tests.parent),
        (["make", "libs"], tests.parent),
        (["make", "build"], tests),
    ):
        _step(command, where)
    return tests


def _step(command: list[str], folder: Path) -> None:
    with (FETCHED / "librdkafka/build.txt").open("ab") as log:
        ended = subprocess.run(
            command, cwd=folder, stdout=log, stderr=log, timeout=BUILD_SECONDS_MAX, check=False
        )
    if ended.returncode:
        raise NotHere(f"'{' '.join(command)}' failed, see .clients/librdkafka/build.txt")


def _ran(tests: Path, settings: Path, number: str, part: str) -> Iterator[Ran]:
    """The tests with one number, or one part of them."""
    log = settings.with_name(f"librdkafka-{number}{part}.log")
    environment = {
        **os.environ,
        "LD_LIBRARY_PATH": "../src:../src-cpp",
        "RDKAFKA_TEST_CONF": str(settings),
        "TEST_KAFKA_VERSION": KAFKA_VERSION,
        "TESTS": number,
        **({"SUBTESTS": part} if part else {}),
    }
    with log.open("wb") as output:
        try:
            subprocess.run(
                ["./test-runner", "-p1", "-L"],
                cwd=tests,
                env=environment,
                stdout=output,
                stderr=output,
                timeout=TEST_SECONDS_MAX,
                check=False,
            )
        except subprocess.TimeoutExpired:
            yield Ran(f"{number} {part}", FAILED, f"did not end in {TEST_SECONDS_MAX:.0f} s, see {log}")
            return
    yield from summary(number, part, log.read_text(errors="replace"))


def summary(number: str, part: str, said: str) -> Iterator[Ran]:
    """How the tests with one number ended, from what the runner wrote.

    A part that did not run is a failure: the runner passes a test none of whose parts have the name.
    """
    plain = COLOR.sub("", said)
    rows = [found for found in ROW.finditer(plain) if found["name"].startswith(number)]
    for row in rows:
        if row["why"].strip() == LOCAL:
            continue
        result = RESULTS[row["state"]]
        if part and result == PASSED and not re.search(rf"\[ {part}:.*: PASS \(", plain):
            yield Ran(f"{number} {part}", FAILED, "no part of this name ran")
        else:
            yield Ran(f"{row['name']} {part}".strip(), result, row["why"].strip(), float(row["seconds"]))
    if not rows:  # a failure may end the process before it writes its summary
        failures = [line for line in plain.splitlines() if "failed at" in line]
        why = failures[0] if failures else "the process ended without a summary"
        yield Ran(f"{number} {part}".strip(), FAILED, why)


SUITE: Final = Suite(VERSION, run, SETTINGS)
