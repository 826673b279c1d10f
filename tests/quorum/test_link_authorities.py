"""Links by TLS: an authority that is removed from the file ends its links, and no others."""

import asyncio
from pathlib import Path

from fencepost.records.types import NodeId
from fencepost.wire.tls import LOOK_S
from tests.ports import free_port
from tests.quorum.test_links import ONE, THREE, TWO, Node, running, until
from tests.skipping_loop import run
from tests.wire.test_tls_peers import Trust


def linked(node: Node) -> tuple[set[NodeId], set[NodeId]]:
    """The peers that it sends to, and those that it reads from."""
    return set(node.links._out), set(node.links._in)


def test_a_link_ends_with_its_authority_and_is_made_again_with_another_key(tmp_path: Path) -> None:
    """These nodes have no listener whose sweeps look at files."""
    trust = Trust(tmp_path)
    ports = {node: free_port() for node in (ONE, TWO, THREE)}
    signers = {ONE: trust.new, TWO: trust.old, THREE: trust.new}
    nodes = [Node(n, ports, tls=trust.tls(f"node-{n}", signers[n])) for n in ports]
    one = nodes[0]

    def all_are_linked() -> bool:
        return all(len(peers) == 2 for node in nodes for peers in linked(node))

    async def story() -> None:
        async with running(*nodes):
            await until(all_are_linked)
            trust.trust(trust.new)
            await asyncio.sleep(2 * LOOK_S)
            await until(
                lambda: [linked(each) for each in nodes] == [({THREE},) * 2, (set(),) * 2, ({ONE},) * 2]
            )
            assert "disconnected 3" not in one.reported, "its authority is still there"
            await until(lambda: "certificate is refused" in one.refusals)
            trust.new.sign("node-2").write(tmp_path / "node-2.pem")
            for _ in range(2):
                trust.now_s += LOOK_S
                for each in trust.made:
                    each.look()
            await until(all_are_linked)

    run(story())
