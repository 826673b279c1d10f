"""librdkafka's own tests on a running cluster: ``python -m tests.clients.librdkafka HOST:PORT[,..]``.

Source    comes with the npm package node-rdkafka, of this version; it is built in .clients (ignored by git),
          with gcc and make, once: some five minutes on one core.
Cluster   any, with ``num.partitions=4``, as those tests expect:
          ``fencepost up --override num.partitions=4 --detach``
Chosen    what is about producers, transactions, idempotence and topics that are made on demand. Those that
          need consumer groups, or requests that there are not yet, are NOT RUN, with the reason.
Exit status 1: a test failed.
"""

import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Final

import click

from fencepost.cluster.console import table
from tests.clients.players import FETCHED, NotHere, need

PACKAGE: Final = "node-rdkafka@3.6.1"  # librdkafka 2.12.0
KAFKA_VERSION: Final = "3.7.0"  # what the tests take the cluster for
BUILD_SECONDS_MAX: Final = 1800.0
TEST_SECONDS_MAX: Final = 200.0
SKIPPED: Final = "SKIPPED"

MISUSE, WATERMARK = "do_test_misuse_txn", "do_test_wmark_isolation_level"
WHOLE: Final = (
    "0001 0003 0004 0005 0007 0008 0013 0017 0031 0036 0048 0054 0055 0057 0068 0070 0075 0086 0088 0121 0123"
)
CHOSEN: Final = (
    *((number, "") for number in WHOLE.split()),
    ("0103", MISUSE),
    ("0103", WATERMARK),
)
GROUPS: Final = "its consumer joins a group"
NOT_RUN: Final = {
    "0090 idempotence": "its consumer asks for a group's offsets, and crashes where none are served",
    "0067 empty topics": "as 0090",
    "0076 retries of a producer": GROUPS,
    "0094 idempotence, message timeout": GROUPS,
    "0103 transactions, the others": f"{GROUPS}; one needs DeleteRecords",
    "0109 auto creation of topics": f"{GROUPS}; what a producer makes on demand is 0007",
    "0129 aborted messages": GROUPS,
    "0011 batches": "needs IncrementalAlterConfigs and compacted topics",
    "0044 partition counts": "needs CreatePartitions",
}


@click.command()
@click.argument("bootstrap")
def main(bootstrap: str) -> None:
    """Build librdkafka's tests if need be, and run those that a cluster without groups can pass."""
    try:
        tests = built()
    except NotHere as error:
        click.echo(f"NOT RUN  {error}")
        return
    rows = [(number, part, run(tests, bootstrap, number, part)) for number, part in CHOSEN]
    rows += [(name, "", f"NOT RUN  {reason}") for name, reason in NOT_RUN.items()]
    click.echo(f"\n{table(('TEST', 'PART', 'RESULT'), rows)}")
    sys.exit(1 if any(result.startswith("FAILED") for _, _, result in rows) else 0)


def built() -> Path:
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


def run(tests: Path, bootstrap: str, number: str, part: str) -> str:
    """One test: ``passed``, ``SKIPPED`` by itself, or ``FAILED`` and why."""
    settings = tests / "fencepost.conf"
    settings.write_text(f"bootstrap.servers={bootstrap}\n")
    environment = {
        **os.environ,
        "LD_LIBRARY_PATH": "../src:../src-cpp",
        "RDKAFKA_TEST_CONF": str(settings),
        "TEST_KAFKA_VERSION": KAFKA_VERSION,
        "TESTS": number,
        **({"SUBTESTS": part} if part else {}),
    }
    try:
        ended = subprocess.run(
            ["./test-runner", "-p1"],
            cwd=tests,
            env=environment,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TEST_SECONDS_MAX,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"FAILED: did not end in {TEST_SECONDS_MAX:.0f} s"
    said = ended.stdout + ended.stderr
    if ended.returncode:
        failed = [line for line in said.splitlines() if "failed at" in line]
        return f"FAILED: {failed[0] if failed else ended.returncode}"
    result = SKIPPED if SKIPPED in said else "passed"
    click.echo(f"{result:8} {number} {part}")
    return result


if __name__ == "__main__":
    main()
