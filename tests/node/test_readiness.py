"""When a node says that clients are well sent to it."""

from types import SimpleNamespace
from typing import Any

from fencepost.node.readiness import Readiness


def test_a_node_is_ready_from_when_its_broker_is_let_in_until_it_ends() -> None:
    readiness, broker = Readiness(), SimpleNamespace(is_fenced=True)
    assert "starting" in readiness.reason()
    readiness.is_started = True
    assert readiness.reason() == "", "a controller alone"
    as_broker: Any = broker
    readiness.broker = as_broker
    assert "fenced" in readiness.reason()
    broker.is_fenced = False
    assert readiness.reason() == ""
    readiness.is_leaving = True
    assert "ending" in readiness.reason()
