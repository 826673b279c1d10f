"""``make simulate``: many storms, one line each; a failure says how to replay it.

``make simulate SEEDS=1000 FROM=0``, or ``python -m tests.simulation --seeds 1000 --from 0``.
Exit status: 0 every invariant held and every storm was survived, 1 not.
"""

import sys
import time

import click

from tests.simulation.simulation import Failed
from tests.simulation.storms import STORM_S, Storm, weather_the_storm


@click.command()
@click.option("--seeds", default=100, envvar="SEEDS", show_default=True, help="How many.")
@click.option("--from", "first", default=0, envvar="FROM", show_default=True, help="The first seed.")
@click.option("--seconds", default=STORM_S, show_default=True, help="Virtual seconds of storm.")
@click.option("--quiet", is_flag=True, help="Only failures and the summary.")
def main(seeds: int, first: int, seconds: float, quiet: bool) -> None:
    """Run seeded storms against the real Raft core under virtual time."""
    failed: list[int] = []
    began = time.monotonic()
    for seed in range(first, first + seeds):
        try:
            storm, sim = weather_the_storm(seed, seconds)
        except Failed as failure:
            failed.append(seed)
            click.echo(f"seed {seed} {Storm.of(seed).name} FAILED\n{failure}\n")
            continue
        if not quiet:
            counts = sim.ledger.counts
            click.echo(
                f"seed {seed} {storm.name}, {storm.node_count} voters: {len(sim.ledger.entries)} entries, "
                f"{len(sim.ledger.granted)} blocks, {max(sim.ledger.leaders, default=0)} terms, "
                f"{counts.get('kills', 0)} kills, {counts.get('wipes', 0)} wipes, "
                f"{counts.get('snapshots installed', 0)} installs, digest {sim.digest[:12]}"
            )
    took_s = time.monotonic() - began
    click.echo(
        f"{seeds} seeds from {first} in {took_s:.0f} s, {len(failed)} failed{': ' if failed else ''}",
        nl=False,
    )
    click.echo(" ".join(map(str, failed)))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
