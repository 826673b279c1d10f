"""What tests of snapshots do to voters: let entries be applied, and a transfer begin, arrive or end."""

from pathlib import Path

from fencepost.quorum.messages import SnapshotChunk
from fencepost.quorum.replica import Replica
from fencepost.records.types import NodeId
from tests.quorum.rig import Rig

INTERVAL = 5  # entries between two snapshots


def advance(rig: Rig, node: int, entries: int) -> None:
    """So many blocks are handed out."""
    for _ in range(entries):
        rig.allocate(node)
        rig.turn(node)
        rig.flow()


def catch_up(rig: Rig, rounds: int = 40) -> None:
    for _ in range(rounds):
        rig.heartbeat()
        rig.flow()
        rig.maintenance_tick(3)
        rig.flow()
        if rig[3].applied == rig[1].applied:
            return
    raise AssertionError("node 3 does not catch up")


def begun(rig: Rig) -> None:
    """The transfer to node 3 has begun; its first chunk is on the wire."""
    rig.heartbeat(1)
    for _ in range(4):
        rig.deliver(1, 3)
        rig.deliver(3, 1)
        rig.heartbeat(1)
        if any(isinstance(m, SnapshotChunk) for m in rig.frames[NodeId(1), NodeId(3)]):
            return
    raise AssertionError("no chunk on the wire")


def installing(rig: Rig) -> None:
    """Node 3 has the whole snapshot, verified and published; none of its rows is installed."""
    for _ in range(60):
        rig.heartbeat()
        rig.flow()
        if rig[3].snapshotter._receiver.installing:
            return
    raise AssertionError("nothing to install")


def snapshots_of(replica: Replica) -> list[Path]:
    return sorted((replica.config.directory / "snapshots").iterdir())
