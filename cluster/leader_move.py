"""Another node is to lead, without a death: the request, and its end (Raft thesis 3.10)."""

import asyncio
import time
from typing import Final

from fencepost.cluster.console import Failed, Unreadable
from fencepost.cluster.controllers import run
from fencepost.cluster.target import TIMEOUT_SECONDS, Target
from fencepost.wire.client import ControllerClient
from fencepost.wire.k55_describe_quorum import DESCRIBE_QUORUM, DescribeQuorum, QuorumPartition
from fencepost.wire.k20055_move_leader import MOVE_LEADER, MoveLeader, MovesLeader

MOVE_SECONDS_MAX: Final = 5.0  # a leader tries for a second; an election may follow
LOOK_SECONDS: Final = 0.02


def move_leader(target: Target, node: int | None) -> tuple[MovesLeader, QuorumPartition]:
    """How it was, and the quorum once ``node`` leads; None: any other voter.

    Raises Failed: it could not lead, did not take over in time, or another one won the election.
    """

    async def hold(client: ControllerClient) -> tuple[MovesLeader, QuorumPartition]:
        before = await client.call(MOVE_LEADER, MoveLeader(node), timeout_s=TIMEOUT_SECONDS)
        deadline_s = time.monotonic() + MOVE_SECONDS_MAX
        while True:
            after = await _partition(client)
            if after.leader_epoch != before.leader_epoch or node == before.leader_id:
                break
            if time.monotonic() > deadline_s:
                raise Failed(
                    f"node {before.leader_id} leads on, in epoch {before.leader_epoch}: "
                    f"{'no other voter' if node is None else f'node {node}'} took over; "
                    "'fencepost quorum describe --replication' says how far each has come"
                )
            await asyncio.sleep(LOOK_SECONDS)
        if after.leader_id not in (node, before.leader_id) and node is not None:
            raise Failed(f"node {after.leader_id} won the election, in epoch {after.leader_epoch}: try again")
        if after.leader_id == before.leader_id != node:
            raise Failed(f"node {after.leader_id} leads again, in epoch {after.leader_epoch}: try again")
        return before, after

    return run(target, hold)


async def _partition(client: ControllerClient) -> QuorumPartition:
    answer = await client.call(DESCRIBE_QUORUM, DescribeQuorum(), timeout_s=TIMEOUT_SECONDS)
    if answer.partition is None:
        raise Unreadable("the answer does not hold the metadata partition")
    return answer.partition
