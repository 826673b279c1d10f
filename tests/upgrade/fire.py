"""An upgrade under fire: writers and askers at full speed, leaders killed on both sides, all the way through.

Run         ``python -m tests.upgrade.fire --writers 8 --askers 8 --leader-kills 5 --zookeeper-kills 3``. The
            histories stay in ``--folder`` for whoever counts for himself: ``old-broker-*`` (lines of
            tests/zookeeper/rival.py) and ``askers`` (a JSON line per block: broker, first, last).
Kills       ours: SIGKILL to the node that leads, which is then started again; ZooKeeper's likewise. They come
            one after another, from before ``import`` until after ``fence``, while commands run.
"""

import json
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import click

from tests.harness.nodes import Nodes
from tests.upgrade.world import (
    Askers,
    OldBrokers,
    blocks_in_log,
    first_of_new_era,
    make_kafkas_znodes,
    nodes_own_blocks,
    upgrading,
)
from tests.zookeeper.rival import EXHAUSTED_STATUS, Block, overlaps
from tests.zookeeper.servers import Ensemble, ensemble, wait_until

CALM_BLOCKS = 20  # of both sides between kills
ALIVE_SECONDS = 90.0
KILL_SECONDS = 300.0  # for all of them


@dataclass(frozen=True)
class Outcome:
    """What came of it. ``given``: every block that anyone was told is his; ``logged``: those of our log."""

    block_end: int
    old: list[Block]
    asked: list[Block]
    logged: list[Block]
    own: list[Block]
    statuses: dict[int, int]
    leader_kills: int
    zookeeper_kills: int

    @property
    def given(self) -> list[Block]:
        return [*self.old, *self.asked, *self.own]

    def faults(self) -> list[str]:
        """Empty: it was survived."""
        found = [f"{first} and {second} overlap" for first, second in overlaps(self.given)]
        found += [
            f"{block} was taken from a fenced ZooKeeper" for block in self.old if block.last > self.block_end
        ]
        found += [
            f"old broker {broker} ended with {status}, not exhausted"
            for broker, status in self.statuses.items()
            if status != EXHAUSTED_STATUS
        ]
        first = first_of_new_era(self.block_end, self.logged, self.asked)
        if first != self.block_end + 1:
            found.append(f"the new era begins at {first}, the fenced block ends at {self.block_end}")
        return found


class _Killer:
    """Kills leaders in a thread of its own, while the commands run; each comes back before the next goes."""

    def __init__(self, nodes: Nodes, servers: Ensemble, ours: int, theirs: int) -> None:
        self._nodes = nodes
        self._servers = servers
        self._left = self._interleaved(ours, theirs)
        self._thread = threading.Thread(target=self._run, name="killer")
        self._failure: BaseException | None = None
        self.ours = 0
        self.theirs = 0

    def _interleaved(self, ours: int, theirs: int) -> list[Callable[[], None]]:
        kills: list[Callable[[], None]] = []
        while ours or theirs:
            if ours:
                kills.append(self._kill_ours)
                ours -= 1
            if theirs:
                kills.append(self._kill_theirs)
                theirs -= 1
        return kills

    def start(self) -> None:
        self._thread.start()

    def join(self) -> None:
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            for kill in self._left:
                kill()
        except BaseException as failure:  # noqa: BLE001 - raised by ``join``
            self._failure = failure

    def _kill_ours(self) -> None:
        leader = self._nodes.leader()
        self._nodes.kill(leader)
        self._nodes.leader()
        self._nodes.start(leader)
        self.ours += 1

    def _kill_theirs(self) -> None:
        leader = self._servers.leader()
        leader.kill()
        self._servers.leader()
        leader.start()
        leader.await_serving()
        self.theirs += 1


def upgrade_under_fire(
    folder: Path,
    *,
    writers: int,
    askers: int,
    leader_kills: int,
    zookeeper_kills: int,
    say: Callable[[str], None] = lambda _text: None,
) -> Outcome:
    """The whole path. Raises AssertionError if it comes to no end."""
    with ensemble(folder / "zookeeper", 3) as servers:
        make_kafkas_znodes(servers)
        with (
            OldBrokers(servers.connect_string, folder, writers) as old,
            upgrading(folder / "cluster", servers.connect_string) as nodes,
        ):
            nodes.run("migrate", "bridge")
            with Askers(nodes.cluster, askers) as asking:
                wait_until("both sides get blocks", lambda: asking.blocks and old.blocks(), ALIVE_SECONDS)
                killer = _Killer(nodes, servers, leader_kills, zookeeper_kills)
                killer.start()
                half = (leader_kills + zookeeper_kills) // 2
                for command in ("import", "fence"):
                    began = time.monotonic()
                    nodes.run("migrate", command, "--timeout", "85")
                    kills = f"{killer.ours}+{killer.theirs}"
                    say(f"{command}: {time.monotonic() - began:.1f} s, kills so far {kills}")
                    wait_until("some kills", lambda: killer.ours + killer.theirs >= half, KILL_SECONDS)
                killer.join()
                statuses = old.await_ended()
                before = len(asking.blocks)
                wait_until(
                    "blocks in the new era", lambda: len(asking.blocks) > before + CALM_BLOCKS, ALIVE_SECONDS
                )
                nodes.run("migrate", "finalize")
                asking.stop()
            fence = json.loads(nodes.run("migrate", "status", "--format", "json"))["fence"]
            with (folder / "askers").open("w") as stream:
                stream.writelines(
                    json.dumps({"broker": each.broker, "first": each.first, "last": each.last}) + "\n"
                    for each in asking.blocks
                )
            return Outcome(
                block_end=fence["block_end"],
                old=old.blocks(),
                asked=asking.blocks,
                logged=blocks_in_log(nodes),
                own=nodes_own_blocks(nodes),
                statuses=statuses,
                leader_kills=killer.ours,
                zookeeper_kills=killer.theirs,
            )


@click.command()
@click.option("--writers", default=8, show_default=True)
@click.option("--askers", default=8, show_default=True)
@click.option("--leader-kills", default=5, show_default=True)
@click.option("--zookeeper-kills", default=3, show_default=True)
@click.option("--folder", type=click.Path(path_type=Path), help="New or empty; kept.")
def main(writers: int, askers: int, leader_kills: int, zookeeper_kills: int, folder: Path | None) -> None:
    """Exit status 0: no block was given twice."""
    home = folder or Path(tempfile.mkdtemp(prefix="fencepost-fire-"))
    began = time.monotonic()
    outcome = upgrade_under_fire(
        home,
        writers=writers,
        askers=askers,
        leader_kills=leader_kills,
        zookeeper_kills=zookeeper_kills,
        say=click.echo,
    )
    faults = outcome.faults()
    for fault in faults[:20]:
        click.echo(fault)
    click.echo(
        f"blocks: {len(outcome.old)} from ZooKeeper, {len(outcome.asked)} asked for, {len(outcome.own)} of "
        f"the nodes' own; our leader killed {outcome.leader_kills} times, ZooKeeper's "
        f"{outcome.zookeeper_kills}; overlaps {len(overlaps(outcome.given))}, faults {len(faults)}; "
        f"{time.monotonic() - began:.0f} s; {home}"
    )
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
