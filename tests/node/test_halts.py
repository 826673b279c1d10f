"""Exceptions that reach the event loop: which of them end the node."""

import os

import lmdb
import pytest
import structlog

from fencepost.node.main import _not_caught
from fencepost.records.invariant import InvariantViolation
from fencepost.snapshots.row_ranges import RowsChanged


class Ended(Exception):
    """In the process's stead."""


@pytest.mark.parametrize(
    "error", [InvariantViolation("a bug"), lmdb.DiskError("EIO"), RowsChanged("a table")]
)
def test_a_node_whose_rows_changed_ends_wherever_that_is_seen(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def end(status: int) -> None:
        raise Ended(status)

    monkeypatch.setattr(os, "_exit", end)
    with structlog.testing.capture_logs() as events, pytest.raises(Ended):
        _not_caught("task", error, structlog.get_logger())
    assert [event["event"] for event in events] == ["node_halted"]


@pytest.mark.parametrize("error", [None, ValueError("of a task"), ConnectionResetError()])
def test_other_errors_end_what_they_came_from(error: Exception | None) -> None:
    with structlog.testing.capture_logs() as events:
        _not_caught("task", error, structlog.get_logger())
    assert [event["event"] for event in events] == ["exception_not_caught"]
