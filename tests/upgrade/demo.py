"""``make demo-upgrade``: from ZooKeeper to the quorum under load, then every block ever given is checked.

Real        the ZooKeeper servers, the nodes, the commands and their output. The old brokers run Kafka's own
            loop (tests/zookeeper/rival.py) behind the registration and inter-broker protocol of Kafka 2.8.
Given       see tests/upgrade/world.py.
"""

import contextlib
import json
import logging
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import click

from tests.harness.nodes import Nodes
from tests.ports import free_port
from tests.upgrade.kafka_2_8 import registered
from tests.upgrade.world import (
    OLD_BROKER_FIRST,
    Askers,
    OldBrokers,
    blocks_in_log,
    first_of_new_era,
    make_kafkas_znodes,
    nodes_own_blocks,
    outside,
    upgrading,
    znode,
)
from tests.zookeeper.rival import EXHAUSTED_STATUS, Block, overlaps, read_history
from tests.zookeeper.servers import Ensemble, ensemble

CHROOT = "/kafka"
OLD_BROKERS = 3
ASKERS = 2
BLOCKS_BETWEEN = 30  # of each side, before the story goes on
WAIT_SECONDS = 300.0  # for what takes a second: the machine may be busy with something else
SHORT_LENGTH = 200


@click.command()
@click.option("--servers", "server_count", default=3, show_default=True, help="ZooKeeper servers: 1 or 3.")
@click.option("--keep", is_flag=True, help="Leave the folder with all logs and histories.")
def main(server_count: int, keep: bool) -> None:
    """Exit status 0: no producer id was given twice, and the new era began right after the fenced block."""
    home = Path(tempfile.mkdtemp(prefix="fencepost-upgrade-"))
    began = time.monotonic()
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)  # that ZooKeeper goes down is part of the story
    try:
        with ensemble(home / "zookeeper", server_count) as servers:
            _tell(1, f"A ZooKeeper ensemble: {server_count} servers, {time.monotonic() - began:.1f} s")
            for server in servers.servers:
                click.echo(f"   {server.address}  {server.mode()}, pid {server.pid}")
            make_kafkas_znodes(servers, CHROOT)
            is_sound = _upgrade(home, servers)
    finally:
        if keep:
            click.echo(f"\nThe folder is {home}")
        else:
            shutil.rmtree(home, ignore_errors=True)
    click.echo(f"{time.monotonic() - began:.0f} s in all")
    sys.exit(0 if is_sound else 1)


def _upgrade(home: Path, servers: Ensemble) -> bool:
    connect = servers.connect_string + CHROOT
    numbers = range(OLD_BROKER_FIRST, OLD_BROKER_FIRST + OLD_BROKERS)
    with contextlib.ExitStack() as stack:
        kafka = stack.enter_context(outside(servers))
        stack.enter_context(registered(kafka, {each: (free_port(), "2.8") for each in numbers}, CHROOT))
        old = stack.enter_context(OldBrokers(connect, home / "old", OLD_BROKERS))
        _until("the old brokers take blocks", lambda: len(old.blocks()) > BLOCKS_BETWEEN)
        _tell(2, f"{OLD_BROKERS} old brokers take their blocks from ZooKeeper themselves")
        click.echo(f"   {_first_line(servers)}")

        nodes = stack.enter_context(upgrading(home / "cluster", connect))
        _tell(3, "Three nodes of ours, made for the upgrade, give out nothing yet; what is in the way?")
        _command(nodes, "migrate", "status")
        _command(nodes, "migrate", "preflight", "--watch", "1", status=1)

        _tell(4, "Bridge: old brokers and brokers that ask the controller take blocks side by side")
        _command(nodes, "migrate", "bridge")
        askers = stack.enter_context(Askers(nodes.cluster, ASKERS))
        so_far = len(old.blocks())
        _until(
            "both sides get blocks", lambda: len(askers.blocks) > BLOCKS_BETWEEN < len(old.blocks()) - so_far
        )
        click.echo(f"   old brokers: {len(old.blocks())} blocks; asking brokers: {len(askers.blocks)}")

        _tell(5, "Import, then the fence, while all of them go on")
        _command(nodes, "migrate", "import", "--timeout", f"{WAIT_SECONDS:.0f}")
        _command(nodes, "migrate", "fence", "--timeout", f"{WAIT_SECONDS:.0f}")
        fence = json.loads(nodes.run("migrate", "status", "--format", "json"))["fence"]
        in_new_era = len(askers.blocks)

        _tell(6, "The old brokers are refused, by Kafka's own rule; the others get blocks from the quorum")
        statuses = old.await_ended()
        for number, status in statuses.items():
            last = read_history(old.histories[number])[-1]
            click.echo(f"   old broker {number}: exit status {status}, last line {json.dumps(last)}")
        click.echo(f"   {_first_line(servers)}")
        _until("the quorum gives blocks", lambda: len(askers.blocks) > in_new_era + BLOCKS_BETWEEN)

        _tell(7, "Finalize: ZooKeeper is not needed any more")
        _command(nodes, "migrate", "finalize")
        servers.kill()
        without = len(askers.blocks)
        _until("blocks without ZooKeeper", lambda: len(askers.blocks) > without + BLOCKS_BETWEEN)
        click.echo(f"   ZooKeeper is down; {len(askers.blocks) - without} more blocks were given out since")
        _command(nodes, "migrate", "status")
        askers.stop()

        _tell(8, "The checker: every block that anyone was ever given")
        is_refused = all(status == EXHAUSTED_STATUS for status in statuses.values())
        return _check(fence, old.blocks(), askers.blocks, nodes) and is_refused


def _check(fence: dict[str, int], old: list[Block], asked: list[Block], nodes: Nodes) -> bool:
    end, own = fence["block_end"], nodes_own_blocks(nodes)
    at_fence = [block for block in old + asked + own if block.last == end]
    first = first_of_new_era(end, blocks_in_log(nodes), asked)
    found = overlaps([*old, *asked, *own])
    late = [block for block in old if block.last > end]
    click.echo(f"   old brokers, from ZooKeeper     {len(old):>7} blocks")
    click.echo(f"   brokers that asked us           {len(asked):>7} blocks")
    click.echo(f"   the nodes' own brokers          {len(own):>7} blocks")
    owner = f"broker {at_fence[0].broker}'s" if at_fence else "given to nobody"
    click.echo(f"   the block at fenced version {fence['zk_version']} ends at {end}, {owner}")
    click.echo(f"   old brokers' blocks above it    {len(late):>7}")
    click.echo(f"   the new era begins at {first}, block_end + 1 is {end + 1}")
    click.echo(f"   overlaps {len(found)}")
    return not found and not late and first == end + 1


def _first_line(servers: Ensemble) -> str:
    content, version = znode(servers, CHROOT)
    return f"/latest_producer_id_block at version {version}: {(content or b'').decode()[:SHORT_LENGTH]}"


def _tell(number: int, text: str) -> None:
    click.echo(f"\n{number}. {text}\n")


def _command(nodes: Nodes, *arguments: str, status: int = 0) -> None:
    """Run it as an operator does, and show it."""
    click.echo(f"   $ fencepost {' '.join(arguments)}")
    for line in nodes.run(*arguments, status=status).rstrip().splitlines():
        click.echo(f"   {line}".rstrip())
    click.echo()


def _until(what: str, holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not holds():
        if time.monotonic() > deadline:
            raise click.ClickException(f"after {WAIT_SECONDS:.0f} s still not: {what}")
        time.sleep(0.05)


if __name__ == "__main__":
    main()
