"""ZooKeeper stops before each call that a command of the upgrade makes; the command is typed again later."""

from itertools import pairwise

import pytest

from fencepost.controller.migration_phase import Phase
from tests.bridge.test_upgrade_ways import World, refusal
from tests.zookeeper.model import ScriptedPort

THERE_AND_BACK = (
    ("bridge", Phase.BRIDGE), ("import", Phase.IMPORTED), ("fence", Phase.QUORUM), ("rollback", Phase.BRIDGE),
    ("import", Phase.IMPORTED), ("fence", Phase.QUORUM), ("finalize", Phase.FINALIZED),
)  # fmt: skip
CALLS_MAX = 50  # of ZooKeeper by one command, with room


class StoppingPort(ScriptedPort):
    """Answers ``left`` calls, and then none until it is started again. Brokers still reach the znode."""

    left = CALLS_MAX

    @property
    def down(self) -> str:
        self.left -= self.left > 0
        return "" if self.left else "stopped"

    @down.setter
    def down(self, why: str) -> None:
        self.left = 0 if why else 2**31


@pytest.mark.row("beyond.2")
@pytest.mark.parametrize(
    "number", range(len(THERE_AND_BACK)), ids=[f"{at}-{name}" for at, (name, _) in enumerate(THERE_AND_BACK)]
)
def test_zookeeper_stops_at_each_call_of_a_command(number: int) -> None:
    """The command is refused by name, or done; status prints a way; the same command completes later."""
    command, phase = THERE_AND_BACK[number]
    for calls in range(CALLS_MAX):
        world = World("waiting")
        for each, _ in THERE_AND_BACK[:number]:
            world.bench.run(each)
            world.take()
        port = world.bench.port
        port.__class__ = StoppingPort
        assert isinstance(port, StoppingPort)
        port.left = calls + 1
        refused = refusal(world, command, dry_run=False)
        is_done = port.left > 0
        assert (world.bench.row.phase is phase) is not bool(refused)
        assert not refused or "ZooKeeper does not answer: stopped" in refused
        assert refused or calls > 0, "it was done without any answer"
        port.down = "stopped"
        status = world.bench.run("status")
        assert status.ways or world.bench.row.phase is Phase.FINALIZED
        world.take()
        port.down = ""
        if refused:
            world.bench.run(command)
        assert world.bench.row.phase is phase
        world.to_the_end()
        ordered = sorted(world.blocks)
        assert [pair for pair in pairwise(ordered) if pair[1][0] <= pair[0][1]] == []
        if is_done:
            assert calls > 0, "it never looked at ZooKeeper"
            return
    raise AssertionError(f"{command} calls ZooKeeper more than {CALLS_MAX} times")
