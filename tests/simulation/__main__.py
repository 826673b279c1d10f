"""``make simulate``: many storms, one line each; a failure says how to replay it.

``make simulate SEEDS=1000 FROM=0``, or ``python -m tests.simulation --seeds 1000 --from 0``; with
``--upgrade`` the clusters upgrade from ZooKeeper meanwhile, with ``--transactions`` producers and brokers
are around them (``--mixed``: of transactions V1 and V2, which keep what others left open, at the last epochs
in every second seed), with ``--groups`` members of a group, whose coordinator fails at every step of what
they request (``--seconds`` bounds that).
Exit status: 0 every invariant held and every storm was survived, 1 not.
"""

import sys
import time

import click

from tests.simulation.group_loops import GroupLoops
from tests.simulation.simulation import Failed, Simulation
from tests.simulation.storms import (
    FAILOVERS_S_MAX,
    STORM_S,
    Storm,
    weather_the_changes,
    weather_the_failovers,
    weather_the_flips,
    weather_the_storm,
    weather_the_transactions,
    weather_the_upgrade,
)
from tests.simulation.transactions import TransactionSimulation
from tests.simulation.upgrade import UpgradeSimulation


@click.command()
@click.option("--seeds", default=100, envvar="SEEDS", show_default=True, help="How many.")
@click.option("--from", "first", default=0, envvar="FROM", show_default=True, help="The first seed.")
@click.option("--seconds", type=float, help="Virtual seconds of storm.  [default: 10, --groups: 300]")
@click.option("--upgrade", is_flag=True, help="Clusters that upgrade from ZooKeeper.")
@click.option("--transactions", is_flag=True, help="Clusters with transactional producers.")
@click.option("--mixed", is_flag=True, help="With --transactions: V1, V2 and two-phase commit.")
@click.option("--groups", is_flag=True, help="Clusters with a group whose coordinator fails.")
@click.option("--flips", is_flag=True, help="Stores are damaged while their process is down.")
@click.option("--changes", is_flag=True, help="Rows of images change while their process runs.")
@click.option("--quiet", is_flag=True, help="Only failures and the summary.")
def main(
    seeds: int,
    first: int,
    seconds: float | None,
    upgrade: bool,
    transactions: bool,
    mixed: bool,
    groups: bool,
    flips: bool,
    changes: bool,
    quiet: bool,
) -> None:
    """Run seeded storms against the real Raft core under virtual time."""
    failed: list[int] = []
    began = time.monotonic()
    for seed in range(first, first + seeds):
        try:
            if groups:
                sim: Simulation = weather_the_failovers(seed, seconds or FAILOVERS_S_MAX)
            elif changes:
                sim = weather_the_changes(seed, seconds or STORM_S)
            elif flips:
                sim = weather_the_flips(seed, seconds or STORM_S)
            else:
                sim = _weather(seed, seconds or STORM_S, upgrade, transactions, mixed)
        except Failed as failure:
            failed.append(seed)
            click.echo(f"seed {seed} {Storm.of(seed).name} FAILED\n{failure}\n")
            continue
        if not quiet:
            click.echo(f"seed {seed} {Storm.of(seed).name}, {_summary(sim)}")
    took_s = time.monotonic() - began
    click.echo(
        f"{seeds} seeds from {first} in {took_s:.0f} s, {len(failed)} failed{': ' if failed else ''}",
        nl=False,
    )
    click.echo(" ".join(map(str, failed)))
    sys.exit(1 if failed else 0)


def _weather(seed: int, seconds: float, upgrade: bool, transactions: bool, mixed: bool) -> Simulation:
    if transactions and mixed:
        return weather_the_transactions(
            seed,
            seconds,
            transactions_v2=0.5,
            keeps=0.5,
            at_overflow=seed % 2 == 1,
            loses_answers=seed % 4 >= 2,
        )
    if transactions:
        return weather_the_transactions(seed, seconds)
    return weather_the_upgrade(seed, seconds) if upgrade else weather_the_storm(seed, seconds)[1]


def _summary(sim: Simulation) -> str:
    """What happened, in one line."""
    counts = sim.ledger.counts
    said = (
        f"{len(sim.processes)} voters: {len(sim.ledger.entries)} entries, {len(sim.ledger.granted)} blocks, "
        f"{max(sim.ledger.leaders, default=0)} terms, {counts.get('kills', 0)} kills, "
        f"{counts.get('wipes', 0)} wipes, {counts.get('snapshots installed', 0)} installs, "
    )
    if isinstance(sim, UpgradeSimulation):
        said += (
            f"{counts.get('direct done', 0)} blocks taken directly, "
            f"{counts.get('fence:switch-applied', 0)} fences, "
            f"{counts.get('rollback:phase-applied', 0)} rollbacks, "
            f"{counts.get('crashes at points', 0)} crashes at points, "
        )
    if isinstance(sim, TransactionSimulation):
        said += (
            f"{counts.get('ended', 0)} transactions ended, {counts.get('recoveries', 0)} recoveries, "
            f"{counts.get('producers died', 0)} producers died, {counts.get('marked', 0)} markers, "
            f"{len(sim.ledger.transactions.owners)} producer ids, "
        )
    if isinstance(sim, GroupLoops):
        said += (
            f"{sum(sim.failovers.counts.values())} failovers at steps, {len(sim.failovers.missing)} missing, "
            f"{sim.facts.counts['joins']} joins, {sim.facts.counts['commits']} commits, "
            f"{sim.facts.counts['ends']} transactions of offsets, "
        )
    return f"{said}digest {sim.digest[:12]}"


if __name__ == "__main__":
    main()
