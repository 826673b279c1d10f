"""What a test has of a cluster that is none: what it leaves behind, and what its marker may say."""

import contextlib
from typing import Any

import pytest

from fencepost.testing.cluster_failed import ClusterFailed
from fencepost.testing.faults import Faults
from fencepost.testing.lease import RunningTest, leased
from fencepost.testing.proxy_process import Process
from fencepost.testing.waiting import NOTICE_S
from tests.testing.here import asked_here

TEST = RunningTest(name="test_it", within_s=None, report="/dev/null")


class Stub:
    """A cluster with faults, and without nodes."""

    def __init__(self) -> None:
        self.faults = Faults(asked_here(Process()))
        self.proxies: Stub | None = self
        self.watches: list[tuple[object, ...]] = []

    def watched(self, *words: object, ends: bool) -> contextlib.AbstractContextManager[None]:
        self.watches.append((*words, ends))
        return contextlib.nullcontext()

    def __getattr__(self, name: str) -> Any:
        return lambda: None


def test_a_fault_that_is_left_armed_fails_the_test() -> None:
    stub: Any = Stub()
    with (
        pytest.raises(ClusterFailed, match="left armed"),
        leased({}, lambda: stub, TEST) as lease,
    ):
        lease.faults.disconnect("Produce")
    with leased({}, lambda: stub, TEST) as lease, lease.faults.disconnect("Produce"):
        pass
    with leased({}, lambda: stub, TEST) as lease:
        lease.faults.disconnect("Produce")
        lease.has_failed = True
    assert stub.faults.clear() == []


def test_how_long_a_test_may_take() -> None:
    stub: Any = Stub()
    bounded = RunningTest(name="test_it", within_s=30.0, report="/dev/null")
    for wanted, test in (({}, TEST), ({}, bounded), ({"within": 5}, bounded)):
        with leased(wanted, lambda: stub, test):
            pass
    assert stub.watches == [
        ("test_it", "/dev/null", NOTICE_S, False),
        ("test_it", "/dev/null", 30.0, True),
        ("test_it", "/dev/null", 5, True),
    ]
    stub.proxies = None
    with (
        pytest.raises(ClusterFailed, match="needs proxies"),
        leased({"within": 5}, lambda: stub, TEST),
    ):
        pass
