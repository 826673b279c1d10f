"""kafka-python's integration tests, from its sdist, of the version that is installed here.

Source     the sdist, by pip, into .clients, once. Its tests and their conftest.py are taken as they are; only
           fixtures.py, which would download and start a broker, is ours (kafka_python_fixtures.py).
Tests      all that the sdist has in test/integration, but for those in ``NOT_RUN_HERE``.
Cluster    has ``group.min.session.timeout.ms=1000``, as test_group asks for sessions of 3 s, and topics of
           four partitions, as the library's own fixture: it commits an offset of partition 1.
"""

import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Final

from tests.clients.players import FETCH_SECONDS_MAX, FETCHED, NotHere
from tests.clients.suites.pytest_files import PytestFiles, ran
from tests.clients.suites.suite import NOT_RUN, Ran, Suite

LIBRARY: Final = "kafka-python"
VERSION: Final = version(LIBRARY)
KAFKA_VERSION: Final = "4.2.0"  # what the tests take the cluster for
FIXTURES: Final = Path(__file__).with_name("kafka_python_fixtures.py")
FILES: Final = ("test_consumer_integration", "test_producer_integration", "test_admin_integration")
SETTINGS: Final = ("group.min.session.timeout.ms=1000", "num.partitions=4")
NO_API: Final = "not served yet: "
NOT_RUN_HERE: Final = {
    "test_create_describe_delete_acls": f"{NO_API}ACLs",
    "test_delete_records": f"{NO_API}DeleteRecords",
    "test_delete_records_with_errors": f"{NO_API}DeleteRecords",
    "test_create_partitions": f"{NO_API}CreatePartitions",
    "test_elect_leaders": f"{NO_API}ElectLeaders",
    "test_describe_log_dirs": f"{NO_API}DescribeLogDirs",
    "test_alter_replica_log_dirs": f"{NO_API}AlterReplicaLogDirs",
    "test_alter_partition_reassignments": f"{NO_API}AlterPartitionReassignments",
    "test_list_partition_reassignments": f"{NO_API}ListPartitionReassignments",
    "test_describe_topic_partitions": f"{NO_API}DescribeTopicPartitions",
    "test_describe_topic_partitions_pagination": f"{NO_API}DescribeTopicPartitions",
    "test_list_config_resources": f"{NO_API}ListConfigResources",
    "test_describe_configs_broker_resource_returns_configs": "wants Kafka's list of a broker's settings",
    "test_describe_configs_topic_resource_returns_configs": "wants the type of each setting",
    "test_describe_configs_mixed_resources_returns_configs": "wants the type of each setting",
    "test_sasl_integration.py, test_ssl_integration.py": "they configure and start a broker of their own",
}


def run(bootstrap: str, folder: Path) -> Iterator[Ran]:
    """Raises NotHere."""
    environment = {"BOOTSTRAP": bootstrap, "KAFKA_VERSION": KAFKA_VERSION}
    left_out = [f"test/integration/{file}.py::{name}" for file in FILES for name in NOT_RUN_HERE]
    tests = PytestFiles(_tests(), environment, left_out)
    for file in FILES:
        yield from ran(tests, f"test/integration/{file}.py", folder)
    for name, reason in NOT_RUN_HERE.items():
        yield Ran(name, NOT_RUN, reason)


def _tests() -> Path:
    """The folder that has the tests' folder. Raises NotHere."""
    folder = FETCHED / LIBRARY / VERSION
    if not (folder / "test/__init__.py").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        with tarfile.open(sdist(LIBRARY, VERSION, folder)) as archive:
            inside = f"{LIBRARY.replace('-', '_')}-{VERSION}/"
            for member in archive.getmembers():
                if member.name.startswith((f"{inside}test/integration/", f"{inside}test/testutil.py")):
                    member.name = member.name.removeprefix(inside)
                    archive.extract(member, folder, filter="data")
        if not (folder / "test/integration/conftest.py").exists():
            raise NotHere("the sdist has no integration tests")
        (folder / "test/__init__.py").touch()
    shutil.copy(FIXTURES, folder / "test/integration/fixtures.py")
    return folder.resolve()  # else pytest's node ids begin elsewhere, and none is deselected


def sdist(library: str, wanted: str, folder: Path) -> Path:
    """The library's source archive, fetched by pip. Raises NotHere."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", library]
    try:
        ended = subprocess.run(
            [*command, f"{library}=={wanted}"],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=FETCH_SECONDS_MAX,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise NotHere(f"pip did not end in {FETCH_SECONDS_MAX:.0f} s") from None
    archives = [*folder.glob("*.tar.gz")]
    if ended.returncode or not archives:
        words = ended.stderr.strip().splitlines()
        raise NotHere(f"pip could not fetch its source: {words[-1] if words else ended.returncode}")
    return archives[0]


SUITE: Final = Suite(VERSION, run, SETTINGS)
