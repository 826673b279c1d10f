"""What a call hangs for is read from the lines that librdkafka 2.16.0 writes."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.checker.evidence import Verdict
from tests.checker.library_log import CLIENT_ID, LOG_BYTES_MAX, Requests

QUIET_SINCE = 100.0
COORDINATOR = "TxnCoordinator"
BROKER = "127.0.0.1:9092/1"


def line(at: float, thread: str, words: str, client: str = CLIENT_ID) -> bytes:
    return f"%7|{at:.3f}|KIND|{client}#producer-1| [thrd:{thread}]: {thread}: {words}".encode()


def sent(at: float, api: str, number: int, thread: str = BROKER, client: str = CLIENT_ID) -> bytes:
    return line(at, thread, f"Sent {api}Request (v3, 111 bytes @ 0, CorrId {number})", client)


def received(at: float, api: str, number: int, thread: str = BROKER) -> bytes:
    return line(at, thread, f"Received {api}Response (v3, 19 bytes, CorrId {number}, rtt 40.24ms)")


ADDED = [sent(90, "AddOffsetsToTxn", 8, COORDINATOR), received(90.1, "AddOffsetsToTxn", 8, COORDINATOR)]
CASES = [
    pytest.param(ADDED, Verdict.LIBRARY, [], id="all-is-answered-and-nothing-is-sent"),
    pytest.param(
        [*ADDED, sent(91, "TxnOffsetCommit", 2)],
        Verdict.UNANSWERED,
        ["TxnOffsetCommit 2 on " + BROKER],
        id="a-request-has-no-response",
    ),
    pytest.param(
        [*ADDED, sent(91, "TxnOffsetCommit", 2), received(92, "TxnOffsetCommit", 2, COORDINATOR)],
        Verdict.UNANSWERED,
        ["TxnOffsetCommit 2 on " + BROKER],
        id="a-response-of-another-connection-with-that-number",
    ),
    pytest.param(
        [*ADDED, sent(91, "TxnOffsetCommit", 2), line(92, BROKER, "Broker changed state UP -> DOWN")],
        Verdict.LIBRARY,
        [],
        id="its-connection-was-lost",
    ),
    pytest.param(
        [*ADDED, sent(91, "TxnOffsetCommit", 2), line(92, COORDINATOR, "Broker changed state UP -> DOWN")],
        Verdict.UNANSWERED,
        ["TxnOffsetCommit 2 on " + BROKER],
        id="another-connection-was-lost",
    ),
    pytest.param(
        [*ADDED, sent(101, "FindCoordinator", 3), received(101.1, "FindCoordinator", 3)],
        Verdict.ASKING,
        [],
        id="the-coordinator-is-sought-again-and-again",
    ),
    pytest.param(
        [*ADDED, sent(101, "Metadata", 3), received(101.1, "Metadata", 3)],
        Verdict.LIBRARY,
        [],
        id="only-what-the-client-sends-by-itself",
    ),
    pytest.param(
        [*ADDED, sent(95, "Fetch", 3, client="checker-consumer")], Verdict.LIBRARY, [], id="the-consumer-s"
    ),
]


@pytest.mark.parametrize(("lines", "verdict", "waiting"), CASES)
def test_why_a_call_hangs(lines: list[bytes], verdict: Verdict, waiting: list[str]) -> None:
    requests = Requests()
    for each in [*lines, b"not of the library"]:
        requests.read(each)
    assert requests.verdict(QUIET_SINCE) is verdict
    assert requests.facts()["open"] == waiting


WRITER = """
import os, sys, threading
from pathlib import Path
from tests.checker.library_log import LibraryLog, Requests
from tests.checker.test_library_log import sent
requests = Requests()
LibraryLog(Path(sys.argv[1]), "a", requests)
os.write(2, sent(1, "EndTxn", 1) + b"\\n")
for each in range(int(sys.argv[2])):
    os.write(2, b"Handle is terminating in state INIT\\n" + b"x" * 1023 + b"\\n")
os.write(2, sent(2, "Metadata", 2) + b"\\n")
while len(requests.facts()["last"]) < 2:
    pass
print(requests.facts()["open"])
print("python's own", file=sys.stderr)
"""


def test_the_log_is_bounded_and_a_request_is_not_forgotten_with_its_line(tmp_path: Path) -> None:
    count = 3 * LOG_BYTES_MAX // 1024
    done = subprocess.run(
        [sys.executable, "-c", WRITER, tmp_path, str(count)], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"['EndTxn 1 on {BROKER}', 'Metadata 2 on {BROKER}']\n"
    assert done.stderr == "python's own\n"
    files = sorted(tmp_path.iterdir())
    assert [each.name for each in files] == ["a.library.0.log", "a.library.1.log"]
    assert all(each.stat().st_size <= LOG_BYTES_MAX for each in files)
    assert not any(b"Handle is terminating" in each.read_bytes() for each in files)
