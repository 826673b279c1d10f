"""``python -m tests.dual_write --database postgres --kills 100``: see kills.py. Says how long it took."""

import random
import sys
import tempfile
import time
from pathlib import Path

import click

from fencepost.cluster.console import progress
from tests.dual_write.databases import KINDS, database
from tests.dual_write.kills import VICTIMS, Killer
from tests.dual_write.player import STEPS
from tests.harness.nodes import NO_QUOTA, running

TWO_PHASE = "transaction.two.phase.commit.enable=true"


@click.command()
@click.option("--database", "kind", type=click.Choice([*KINDS]), default="sqlite", show_default=True)
@click.option("--kills", default=len(STEPS) * len(VICTIMS), show_default=True, help="One in each run.")
@click.option("--victim", "victims", type=click.Choice(VICTIMS), multiple=True, help="[default: all]")
@click.option("--seed", default=0, show_default=True)
def main(kind: str, kills: int, victims: tuple[str, ...], seed: int) -> None:
    """Kill the dual write at every step, and hold the database against the topic."""
    chosen = victims or tuple(each for each in VICTIMS if kind != "sqlite" or each != "database")
    with tempfile.TemporaryDirectory(prefix="fencepost-dual-write-") as name:
        folder = Path(name)
        with running(folder / "cluster", TWO_PHASE, NO_QUOTA) as nodes, database(kind, folder) as store:
            began = time.monotonic()
            killer = Killer(nodes, store, "orders", random.Random(seed))
            with progress() as show:
                killer.run(kills, chosen, show)
            found = killer.differences()
            took_s = time.monotonic() - began
    for victim in chosen:
        click.echo(f"{victim:<12} killed {sum(killer.killed[victim, step] for step in STEPS)} times")
    click.echo(f"{kind}: {kills} kills, {len(found)} rows or records alone, {took_s:.0f} s")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
