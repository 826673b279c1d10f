"""``fencepost demo``, and ``demo late-endtxn``."""

import asyncio
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import click

from fencepost.bench import demo as whole
from fencepost.bench.late_end import PROTOCOLS, V1, Story, lines, tell
from fencepost.cli.output import JSON, echo_json, format_option
from fencepost.cluster.lifecycle import bring_up, stop_nodes
from fencepost.cluster.local_cluster import create_cluster, free_port

NODES: Final = 3


@click.group(invoke_without_command=True)
@click.option("--keep", is_flag=True, help="Leave the cluster's folder, for a look at its logs.")
@click.pass_context
def demo(ctx: click.Context, keep: bool) -> int:
    """Show a quorum hand out producer ids, run transactions and lose its leader.

    Exit status 0: no id twice; every committed transaction is seen whole and once, no aborted one at all.
    """
    return 0 if ctx.invoked_subcommand is not None else whole.play(keep=keep)


@demo.command("late-endtxn")
@click.option(
    "--protocol",
    "protocols",
    multiple=True,
    type=click.Choice(PROTOCOLS),
    help="Of transactions; may be repeated.  [default: both]",
)
@click.option(
    "--bootstrap-server", help="HOST:PORT[,..]: this cluster instead of a new one; Apache Kafka will do."
)
@format_option
def late_endtxn(protocols: tuple[str, ...], bootstrap_server: str | None, output_format: str) -> int:
    """Show a delayed EndTxn end the next transaction with V1 clients, and not with V2.

    A commit is delayed on its way, sent again, and answered; the next transaction is open when the delayed
    one arrives. Then its application aborts it, and a read_committed consumer reads the topic.

    Exit status 0: with V1 the aborted transaction is seen, with V2 it is not. 1: anything else.
    """
    with _cluster(bootstrap_server) as bootstrap:
        stories = [_played(bootstrap, each, quiet=output_format == JSON) for each in protocols or PROTOCOLS]
    if output_format == JSON:
        echo_json({"stories": [story.document() for story in stories]})
    else:
        click.echo(lines(stories))
    return 0 if all(story.has_hole is (story.protocol == V1) for story in stories) else 1


def _played(bootstrap: str, protocol: str, *, quiet: bool) -> Story:
    def show(line: str) -> None:
        if not quiet:
            click.echo(f"  {line}")

    show(f"\n{protocol}")
    story = asyncio.run(tell(bootstrap, protocol, show))
    show("")
    return story


@contextmanager
def _cluster(bootstrap: str | None) -> Iterator[str]:
    if bootstrap is not None:
        yield bootstrap
        return
    home = Path(tempfile.mkdtemp(prefix="fencepost-late-"))
    cluster = create_cluster(home / "cluster", NODES, free_port(NODES), ())
    try:
        bring_up(cluster)
        yield cluster.bootstrap
    finally:
        stop_nodes(cluster.nodes)
        shutil.rmtree(home, ignore_errors=True)
