"""A cluster's secret is changed by rolling restarts: links between nodes that have two secrets, or one."""

import pytest

from fencepost.records.types import NodeId
from tests.ports import free_port
from tests.quorum.test_links import ONE, SECRET, TWO, Node, run, running, until

NEW = b"the secret to come"
BOTH = [
    pytest.param((SECRET, NEW), (SECRET, None), True, id="the-new-one-as-second"),
    pytest.param((SECRET, NEW), (NEW, SECRET), True, id="then-as-first"),
    pytest.param((NEW, SECRET), (NEW, None), True, id="then-alone"),
    pytest.param((SECRET, None), (NEW, SECRET), False, id="a-step-left-out-at-the-begin"),
    pytest.param((SECRET, NEW), (NEW, None), False, id="a-step-left-out-at-the-end"),
]


@pytest.mark.parametrize(("first", "second", "is_linked"), BOTH)
def test_nodes_meet_at_each_step_of_a_change_and_at_no_other(
    first: tuple[bytes, bytes | None], second: tuple[bytes, bytes | None], is_linked: bool
) -> None:
    async def story() -> None:
        ports: dict[NodeId, int] = dict(zip((ONE, TWO), (free_port(), free_port()), strict=True))
        one = Node(ONE, ports, secret=first[0], second_secret=first[1])
        two = Node(TWO, ports, secret=second[0], second_secret=second[1])
        async with running(one, two):
            if is_linked:
                await until(lambda: "connected 2" in one.reported and "connected 1" in two.reported)
            else:
                await until(lambda: "does not know the cluster's secret" in one.refusals + two.refusals)
                assert one.reported == two.reported == []

    run(story)
