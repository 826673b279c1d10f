"""``python -m tests.hostile --frames 1000000``: hostile frames against three real nodes, then transactions.

Exit status 0: no node stopped, no traceback, bounded logs, and the transactions after it are whole.
"""

import tempfile
from pathlib import Path

import click

from tests.harness.nodes import running
from tests.hostile.campaign import NODE_SETTINGS, assert_clean, campaign, transactions_run


@click.command()
@click.option("--frames", type=click.IntRange(1), default=100_000, show_default=True)
@click.option("--seed", type=int, default=1, show_default=True)
def main(frames: int, seed: int) -> None:
    """Send FRAMES hostile frames, made from SEED."""
    with (
        tempfile.TemporaryDirectory(prefix="fencepost-hostile-") as home,
        running(Path(home) / "cluster", *NODE_SETTINGS) as nodes,
    ):
        campaign(nodes, frames, seed, click.echo)
        transactions_run(nodes, click.echo)
        assert_clean(nodes)
    click.echo("held")


if __name__ == "__main__":
    main()
