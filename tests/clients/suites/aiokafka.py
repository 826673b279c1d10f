"""aiokafka's own tests of groups and transactions, from its repository: its sdist has none.

Source     the tag of the version that is installed here, by git, into .clients, once. The tests are taken as
           they are; only conftest.py, which would start a broker with Docker, is ours (aiokafka_conftest.py).
Tests      every test of ``FILES`` but those in ``NOT_RUN_HERE``.
Cluster    of one node, with topics of two partitions, as the library's own broker.
"""

import shutil
import subprocess
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Final

from tests.clients.players import FETCH_SECONDS_MAX, FETCHED, NotHere, need
from tests.clients.suites.pytest_files import PytestFiles, ran
from tests.clients.suites.suite import NOT_RUN, Ran, Suite

LIBRARY: Final = "aiokafka"
VERSION: Final = version(LIBRARY)
REPOSITORY: Final = "https://github.com/aio-libs/aiokafka"
KAFKA_VERSION: Final = "2.8.1"  # what the tests take the cluster for: the newest that the library tests with
CONFTEST: Final = Path(__file__).with_name("aiokafka_conftest.py")
FILES: Final = (
    "test_coordinator",
    "test_consumer",
    "test_pep492",
    "test_transactional_consumer",
    "test_transactional_producer",
    "test_sender",
    "test_producer",
    "test_admin",
    "test_client",
)
SETTINGS: Final = ("num.partitions=2",)
TLS: Final = "its certificates are made in the container of its broker"
NO_API: Final = "not served yet: "
NOT_RUN_HERE: Final = {
    "test_consumer.py::TestConsumerIntegration::test_exclude_internal_topics": "wants __consumer_offsets in "
    "Metadata; ours is not a topic",
    "test_consumer.py::TestConsumerIntegration::test_ssl_consume": TLS,
    "test_producer.py::TestKafkaProducerIntegration::test_producer_ssl": TLS,
    "test_sender.py::TestSender::test_sender__handler_base_do": "wants a broker whose node id is 0",
    "test_admin.py::TestAdmin::test_describe_configs_broker": "wants Kafka's list of a broker's settings",
    "test_admin.py::TestAdmin::test_alter_configs": f"{NO_API}AlterConfigs",
    "test_admin.py::TestAdmin::test_create_partitions": f"{NO_API}CreatePartitions",
    "test_admin.py::TestAdmin::test_delete_records": f"{NO_API}DeleteRecords",
    "test_sasl.py": "configures users, ACLs and Kerberos by Kafka's scripts in its container",
}


def run(bootstrap: str, folder: Path) -> Iterator[Ran]:
    """Raises NotHere."""
    root = _tests()
    tests = PytestFiles(
        root,
        {"BOOTSTRAP": bootstrap, "KAFKA_VERSION": KAFKA_VERSION},
        [f"tests/{name}" for name in NOT_RUN_HERE],
    )
    for file in FILES:
        yield from ran(tests, f"tests/{file}.py", folder)
    for name, reason in NOT_RUN_HERE.items():
        yield Ran(name.rpartition("::")[2], NOT_RUN, reason)


def _tests() -> Path:
    """The folder that has the tests' folder. Raises NotHere."""
    need("git")
    folder = FETCHED / LIBRARY / VERSION
    if not (folder / "tests/_testutil.py").exists():
        _clone(folder)
    shutil.copy(CONFTEST, folder / "tests/conftest.py")
    return folder.resolve()  # else pytest's node ids begin elsewhere, and none is deselected


def _clone(folder: Path) -> None:
    whole = folder.with_name(f"{folder.name}.whole")
    shutil.rmtree(folder, ignore_errors=True)
    shutil.rmtree(whole, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    clone = ["git", "clone", "--quiet", "--depth", "1", "--branch", f"v{VERSION}", REPOSITORY, str(whole)]
    try:
        ended = subprocess.run(clone, capture_output=True, text=True, timeout=FETCH_SECONDS_MAX, check=False)
    except subprocess.TimeoutExpired:
        raise NotHere(f"git did not end in {FETCH_SECONDS_MAX:.0f} s") from None
    if ended.returncode:
        words = ended.stderr.strip().splitlines()
        raise NotHere(f"git could not fetch its tests: {words[-1] if words else ended.returncode}")
    folder.mkdir()
    (whole / "tests").rename(folder / "tests")  # the library itself is the one that is installed
    shutil.rmtree(whole)


SUITE: Final = Suite(VERSION, run, SETTINGS, node_count=1)
