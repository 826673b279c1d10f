"""franz-go's tests of groups and transactions, TestGroupETL and TestTxnEtl, from the Go module's own archive.

Source     the archive of the module holds pkg/kgo with its tests; they are compiled in .clients, once (a
           minute of one core).
Both       make a chain of three consumer groups, whose members come, go and stop without a commit; what one
           group reads it writes to the topic of the next, TestTxnEtl in transactions. Every record is seen
           once, in order, at the end of the chain; by the range and the cooperative-sticky assignor, and by
           static members.
Records    ``RECORDS`` through each chain, of the 500,000 that they have by default. TestTxnEtl's first
           producer commits after each 10,000.
Others     every other test of pkg/kgo that consumes, as a member of a group or by itself.
Chaos      the two run a second time with the tests' own KGO_TEST_CHAOS: each connection of TestGroupETL's
           producer and consumers breaks after half a second to one and a half.
"""

import json
import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from tests.clients.players import FETCHED, NotHere, need
from tests.clients.suites.suite import BUILD_SECONDS_MAX, FAILED, NOT_RUN, PASSED, Ran, Suite

VERSION: Final = "1.22.2"
MODULE: Final = f"github.com/twmb/franz-go@v{VERSION}"
TEST2JSON: Final = ("go", "tool", "test2json", "-t")
CHAINS: Final = ("TestGroupETL", "TestTxnEtl")
OTHERS: Final = """
TestGroupSimple TestUnknownGroupOffsetFetchPinned TestAddRemovePartitions TestConsumeTopicRetrieval
TestDirectPartitionPurge TestPauseIssue489 TestPauseIssueOct2023 TestPooling TestIssue325
TestIssue337 TestIssue434 TestIssue523 TestIssue648 TestIssue810 TestIssue865 TestIssue1034
"""
NOT_RUN_HERE: Final = {
    "TestConsumeRegex": "wants __consumer_offsets in Metadata; ours is not a topic of the brokers",
    "TestShareGroup, TestShareGroupETL, TestShareGroupAckOnClose, TestShareGroupOffsetsAdmin": "share groups",
    "Test848RegexBrokerResolves, TestConsumeRegexShareSkipsInternal": "KIP-848, share groups",
}
RECORDS: Final = 25_000
RUN_SECONDS_MAX: Final = 600
RESULTS: Final = {"pass": PASSED, "fail": FAILED, "skip": NOT_RUN}

SAID = re.compile(r"^\s+\w+_test\.go:\d+: (?!deleting |FAILED TESTING|\S+ completed in )(.*)")
"""What a test logs, but for what each says at its end."""


def run(bootstrap: str, folder: Path) -> Iterator[Ran]:
    """Raises NotHere."""
    program = _built()
    environment = {
        **os.environ,
        "KGO_SEEDS": bootstrap,
        "KGO_TEST_RF": "1",
        "KGO_TEST_RECORDS": str(RECORDS),
    }
    yield from ran(program, (*CHAINS, *OTHERS.split()), environment, folder / "franz-go.log")
    chaos = {**environment, "KGO_TEST_CHAOS": "1"}
    for each in ran(program, CHAINS, chaos, folder / "franz-go-chaos.log"):
        yield each._replace(name=f"{each.name}, connections break")
    for name, reason in NOT_RUN_HERE.items():
        yield Ran(name, NOT_RUN, reason)


def ran(program: Path, tests: Sequence[str], environment: dict[str, str], log: Path) -> Iterator[Ran]:
    """Each subtest as it ends, then each test."""
    command = [*TEST2JSON, str(program), "-test.v=test2json"]
    command += [f"-test.run=^({'|'.join(tests)})$", f"-test.timeout={RUN_SECONDS_MAX}s"]
    said: dict[str, list[str]] = {}
    with (
        log.open("wb") as errors,
        subprocess.Popen(
            command, cwd=log.parent, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True
        ) as process,
    ):
        assert process.stdout is not None
        ended = set()
        for line in process.stdout:
            event = json.loads(line)
            test = event.get("Test", "")
            if event["Action"] == "output" and (found := SAID.match(event["Output"])):
                said.setdefault(test, []).append(found[1])
            elif event["Action"] in RESULTS and test:
                ended.add(test)
                reason = (said.get(test) or [""])[0]
                yield Ran(test, RESULTS[event["Action"]], reason, event.get("Elapsed"))
    for test in tests:
        if test not in ended:
            yield Ran(test, FAILED, f"it did not end: status {process.returncode}, see {log}")


def _built() -> Path:
    """The program of pkg/kgo's tests. Raises NotHere."""
    need("go")
    folder = FETCHED / "franz-go"
    program = folder / f"kgo-{VERSION}.test"
    if not program.exists():
        folder.mkdir(parents=True, exist_ok=True)
        got = json.loads(go("mod", "download", "-json", MODULE, cwd=folder))
        go("test", "-c", "-o", str(program), "./pkg/kgo", cwd=Path(got["Dir"]))
    return program


def go(*arguments: str, cwd: Path) -> str:
    """What a command of Go's prints. Raises NotHere."""
    try:
        ended = subprocess.run(
            ("go", *arguments),
            cwd=cwd,
            capture_output=True,
            text=True,
            timeout=BUILD_SECONDS_MAX,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise NotHere(f"go {arguments[0]} did not end in {BUILD_SECONDS_MAX:.0f} s") from None
    if ended.returncode:
        words = (ended.stderr or ended.stdout).strip().splitlines()
        raise NotHere(f"go {arguments[0]} failed: {words[-1] if words else ended.returncode}")
    return ended.stdout


SUITE: Final = Suite(VERSION, run)
