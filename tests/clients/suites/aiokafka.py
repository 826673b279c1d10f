"""aiokafka's integration tests: its sdist has none; each version that is installed is looked at."""

import tarfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Final

from tests.clients.players import FETCHED
from tests.clients.suites.kafka_python import sdist
from tests.clients.suites.suite import NOT_RUN, Ran, Suite

LIBRARY: Final = "aiokafka"
VERSION: Final = version(LIBRARY)


def run(_bootstrap: str, _folder: Path) -> Iterator[Ran]:
    """Raises NotHere."""
    folder = FETCHED / LIBRARY / VERSION
    folder.mkdir(parents=True, exist_ok=True)
    found = [*folder.glob("*.tar.gz")]
    with tarfile.open(found[0] if found else sdist(LIBRARY, VERSION, folder)) as archive:
        tests = [name for name in archive.getnames() if name.split("/")[1:2] == ["tests"]]
    reason = f"{len(tests)} files of tests, which this suite does not know how to run" if tests else ""
    yield Ran("its integration tests", NOT_RUN, reason or "the sdist has no tests")


SUITE: Final = Suite(VERSION, run)
