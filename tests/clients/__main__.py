"""``make test-clients``: what real clients make of the cluster; a table at the end.

Each client plays every story of stories.py in a process of its own, on one cluster of three nodes. kafkajs
and Kafka's Java client are fetched by their own package tools into .clients, once. What cannot run on this
machine is said as NOT RUN, with the reason. Exit status 1: something failed, or hangs.
"""

import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Final, NamedTuple

import click

from fencepost.cluster.console import table
from tests.clients import admin, dump_log, java_tools, storms
from tests.clients.players import CONFLUENT, PLAYERS, CallFailed, Hangs, NotHere, Player
from tests.clients.stories import RESTARTED, STORIES, STORIES_OF, Stage, StoryFailed
from tests.harness.nodes import NO_QUOTA, Nodes, running

PASSED: Final = "passed"
FAILED: Final = "FAILED"
NOT_RUN: Final = "NOT RUN"
SAID_MAX: Final = 100


class Row(NamedTuple):
    """One row of the table."""

    client: str
    version: str
    scenario: str
    result: str
    said: str


class Results:
    """What ended how, said as it ends."""

    def __init__(self) -> None:
        self.rows: list[Row] = []

    def tell(self, client: str, version: str, scenario: str, story: Callable[[], str]) -> None:
        """Run it to its end."""
        began = time.monotonic()
        try:
            result, said = PASSED, story()
        except NotHere as error:
            result, said = NOT_RUN, str(error)
        except (StoryFailed, CallFailed, Hangs) as error:
            result, said = FAILED, str(error)
        except (Exception, AssertionError) as error:  # noqa: BLE001  (each library has its own)
            result, said = FAILED, repr(error)
        took = time.monotonic() - began
        click.echo(f"{result:8} {client} {version}: {scenario} ({took:.1f} s): {' '.join(said.split())}")
        self.rows.append(Row(client, version, scenario, result, " ".join(said.split())[:SAID_MAX]))

    def failed(self) -> bool:
        """Something did."""
        return any(row.result == FAILED for row in self.rows)

    def summary(self) -> str:
        """The table, and how many of each."""
        counted = Counter(row.result for row in self.rows)
        columns = ("CLIENT", "VERSION", "SCENARIO", "RESULT", "SAID")
        counts = ", ".join(f"{counted[each]} {each}" for each in (PASSED, FAILED, NOT_RUN))
        return f"{table(columns, self.rows)}\n\n{counts}"


@click.command()
@click.option("--client", "clients", multiple=True, type=click.Choice([*PLAYERS]), help="Only these.")
@click.option("--scenario", default="", help="Only scenarios with this in their name.")
@click.option("--keep", is_flag=True, help="Leave the folder with the nodes' and the clients' logs.")
def main(clients: tuple[str, ...], scenario: str, keep: bool) -> None:
    """Play all stories with all clients."""
    folder = Path(tempfile.mkdtemp(prefix="fencepost-clients-"))
    results = Results()
    with running(folder / "cluster", NO_QUOTA) as cluster:
        for name in clients or PLAYERS:
            play(results, cluster, folder, name, scenario)
        for name, (client, told) in {**admin.SCENARIOS, **storms.SCENARIOS}.items():
            if scenario in name and client in (clients or PLAYERS):
                results.tell(client, version(client), name, partial(told, cluster))
        for name, told in java_tools.SCENARIOS.items():
            if scenario in name and "java" in (clients or PLAYERS):
                results.tell("java", java_tools.VERSION, name, partial(told, cluster))
        for name, (version_, dumps) in dump_log.SCENARIOS.items():
            if scenario in name and "java" in (clients or PLAYERS):
                results.tell("java", version_, name, partial(dumps, cluster))
    click.echo(f"\n{results.summary()}")
    if keep or results.failed():
        click.echo(f"Logs are in {folder}")
    else:
        shutil.rmtree(folder)
    sys.exit(1 if results.failed() else 0)


def play(results: Results, cluster: Nodes, folder: Path, name: str, scenario: str) -> None:
    """All stories with one client; after a call that hangs its player is a new one."""
    stories = {**STORIES, **STORIES_OF.get(name, {})}
    wanted = {each: story for each, story in stories.items() if scenario in each}
    players: list[Player] = []
    try:
        reader = started(CONFLUENT, cluster, folder / "reader")
        players.append(reader)
        for each, story in wanted.items():
            player = started(name, cluster, folder / each.replace(" ", "-"))
            players.append(player)
            called = f"{each} (and restarted)" if name in RESTARTED and "killed" in each else each
            results.tell(name, player.version, called, partial(story, Stage(cluster, player, reader)))
            player.end()
    except (NotHere, CallFailed, Hangs) as error:
        results.rows += [Row(name, "-", each, NOT_RUN, str(error)[:SAID_MAX]) for each in wanted]
        click.echo(f"{NOT_RUN:8} {name}: {error}")
    finally:
        for player in players:
            player.end()


def started(name: str, cluster: Nodes, logs: Path) -> Player:
    """Raises NotHere, CallFailed, Hangs."""
    logs.mkdir(exist_ok=True)
    return PLAYERS[name](cluster.bootstrap, logs)


if __name__ == "__main__":
    main()
