"""A voter that moves under its host name: the name is looked up at each dial, so it is found again."""

import asyncio
import socket
from dataclasses import replace
from typing import Any

import pytest

from fencepost.records.types import NodeId
from tests.ports import free_port
from tests.quorum.test_links import ONE, TWO, Node, running, until
from tests.skipping_loop import run

NAME = "node-2.test"


def test_a_voter_that_moved_under_its_name_is_dialled_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    is_at = {NAME: "127.0.0.2"}
    looked_up = socket.getaddrinfo

    def look_up(host: Any, *others: Any, **named: Any) -> Any:
        return looked_up(is_at.get(host, host), *others, **named)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    ports = {ONE: free_port(), TWO: free_port()}
    addresses = {ONE: ("127.0.0.1", ports[ONE]), TWO: (NAME, ports[TWO])}

    def node(node_id: NodeId) -> Node:
        made = Node(node_id, ports)
        made.links.config = replace(made.links.config, addresses=addresses)
        return made

    async def story() -> None:
        one = node(ONE)
        async with running(one):
            for where in ("127.0.0.2", "127.0.0.3"):
                is_at[NAME] = where
                async with running(node(TWO)):
                    await until(one.has("connected 2"))
                    transport = one.links._out[TWO].transport
                    assert transport is not None
                    assert transport.get_extra_info("peername")[0] == where
                await until(one.has("disconnected 2"))
                one.reported.clear()

    run(asyncio.wait_for(story(), 60))
