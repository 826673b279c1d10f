"""What every test shares: reproducible runs of Hypothesis, and modules of which there is one.

Order    the longest files come first (longest_first.py), so that no worker has one of them left at the end.
Memory   what lives through a full collection is not visited by the next (``gc.freeze``): modules, tests and
         their reports are a million objects. To visit them again and again took a tenth of the time.
Disk     fast tests flush to memory where there is /dev/shm: a third of their time is a disk's, and none is
         about the disk. Slow tests have the disk that ``TMPDIR`` is on.

Markers (pyproject.toml): ``row("730.1")`` ties an end-to-end test to a row of tests/rows.tsv; ``slow`` keeps
a test out of ``make check``.
"""

import gc
import importlib
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, find, settings
from hypothesis.strategies import none

from tests.examples import CHECK_EXAMPLES, EXAMPLES
from tests.longest_first import LONGEST_FIRST
from tests.modules import loaded_twice

settings.register_profile(
    "default",
    deadline=None,
    derandomize=True,
    max_examples=EXAMPLES,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("check", settings.get_profile("default"), max_examples=CHECK_EXAMPLES)
settings.register_profile("explore", deadline=None, max_examples=2_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


MEMORY = "/dev/shm"
COLLECTED = pytest.StashKey[set[str]]()
"""Every test of the files that pytest was given."""


def freeze_survivors(phase: str, collection: dict[str, int]) -> None:
    """What is garbage later on is freed all the same, unless it is in a cycle: those are few."""
    if phase == "stop" and collection["generation"] == 2:
        gc.freeze()


def pytest_collection() -> None:
    """Collecting makes most of what lives on."""
    # Hypothesis makes a Random in its first run, and looks for what refers to it: not among what is frozen.
    find(none(), lambda _: True, settings=settings(database=None))
    gc.callbacks.append(freeze_survivors)


def pytest_configure(config: pytest.Config) -> None:
    """Before the first temporary folder is made, and in the process that gives workers theirs.

    A shell that starts tests in the background has them, and what they start, ignore Ctrl-C: not here.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if config.option.markexpr == "not slow" and os.access(MEMORY, os.W_OK):
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", MEMORY)


def may_have_slow_tests(file: Path) -> bool:
    """It marks some itself, or by ``tests.examples``."""
    return any(word in file.read_bytes() for word in (b"mark.slow", b"tests.examples"))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Where only slow tests are wanted, other files are not even imported: seconds of each worker."""
    if config.option.markexpr != "slow" or not collection_path.match("test_*.py"):
        return None
    return None if may_have_slow_tests(collection_path) else True


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A file's tests stay together, in their order. All are noted, before ``-m`` and ``-k`` choose."""
    config.stash[COLLECTED] = {item.nodeid for item in items}
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    hidden = [file for file in slow if not may_have_slow_tests(file)]
    assert not hidden, f"pytest_ignore_collect does not see that these have slow tests: {hidden}"
    places = {file: place for place, file in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: places.get(item.nodeid.partition("::")[0], len(places)))


def pytest_collection_finish() -> None:
    """The product's driver alone drives voters."""
    if "fencepost.quorum.replica" in sys.modules:
        importlib.import_module("tests.one_driver").watch()
    gc.collect()


@pytest.fixture(scope="session", autouse=True)
def one_name() -> Iterator[None]:
    """Whatever tests have imported by their end, no file was loaded under two names."""
    yield
    assert loaded_twice() == {}
