"""``make test-clients``: what real clients make of the cluster; a table at the end.

Each client plays every story of stories.py in a process of its own, on one cluster of three nodes. Then the
libraries' own tests (``suites``) run on other clusters, with the settings that the tests expect. kafkajs,
Kafka's Java client and the libraries' tests are fetched by their own package tools into .clients, once. What
cannot run on this machine is said as NOT RUN, with the reason. Exit status 1: something failed, or hangs.
"""

import shutil
import sys
import tempfile
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Final

import click

from tests.clients import (
    acl_tools,
    admin,
    cluster_tools,
    config_tools,
    dump_log,
    dump_offsets,
    explained,
    group_commands,
    group_errors,
    group_story,
    java_tools,
    kafka_connect,
    kafka_flink,
    kafka_streams,
    least_privilege,
    offsets_archive,
    owners,
    owners_killed,
    reauthentication,
    same_requests,
    same_rights,
    spark_streaming,
    storms,
    topic_tools,
    user_tools,
)
from tests.clients.players import CONFLUENT, PLAYERS, CallFailed, Hangs, NotHere, Player
from tests.clients.results import NOT_RUN, Results, Row, shortened
from tests.clients.stories import HOST, RESTARTED, STORIES, STORIES_OF, Stage
from tests.clients.suites import SUITES
from tests.clients.suites.suite import Suite
from tests.harness.nodes import NO_QUOTA, Nodes, running

FRAMEWORKS: Final = {
    each.NAME: (each.VERSION, each.SCENARIOS)
    for each in (kafka_streams, kafka_connect, spark_streaming, kafka_flink)
} | dict(least_privilege.SCENARIOS)
CLIENTS: Final = tuple(dict.fromkeys((*PLAYERS, *owners.SCENARIOS, *SUITES, *FRAMEWORKS)))
OF_KAFKA: Final = (
    dump_log.SCENARIOS
    | dump_offsets.SCENARIOS
    | offsets_archive.SCENARIOS
    | group_commands.SCENARIOS
    | group_errors.SCENARIOS
    | explained.SCENARIOS
    | topic_tools.SCENARIOS
    | same_requests.SCENARIOS
    | acl_tools.SCENARIOS
    | user_tools.SCENARIOS
    | reauthentication.SCENARIOS
    | same_rights.SCENARIOS
    | config_tools.SCENARIOS
    | cluster_tools.SCENARIOS
)
"""What Kafka's own programs make of a cluster, with the version of each."""
STORIES_ONLY, OWN_ONLY = "stories", "own-tests"


@click.command()
@click.option("--client", "clients", multiple=True, type=click.Choice(CLIENTS), help="Only these.")
@click.option(
    "--scenario", default="", help="Only stories with this in their name, and no library's own tests."
)
@click.option(
    "--only", type=click.Choice((STORIES_ONLY, OWN_ONLY)), help="Stories, or the libraries' own tests."
)
@click.option("--keep", is_flag=True, help="Leave the folder with the nodes' and the clients' logs.")
def main(clients: tuple[str, ...], scenario: str, only: str | None, keep: bool) -> None:
    """Play all stories with all clients, then run the libraries' own tests."""
    folder = Path(tempfile.mkdtemp(prefix="fencepost-clients-"))
    results = Results()
    clients = clients or CLIENTS
    if only != OWN_ONLY:
        with running(folder / "cluster", NO_QUOTA, follower=HOST) as cluster:
            play_all(results, cluster, folder, clients, scenario)
            frameworks(results, cluster, folder, clients, scenario)
    if only != STORIES_ONLY and not scenario:
        for name, suite in SUITES.items():
            if name in clients:
                own_tests(results, folder / f"own-tests-{name}", name, suite)
    click.echo(f"\n{results.summary()}")
    if keep or results.failed():
        click.echo(f"Logs are in {folder}")
    else:
        shutil.rmtree(folder)
    sys.exit(1 if results.failed() else 0)


def play_all(results: Results, cluster: Nodes, folder: Path, clients: tuple[str, ...], scenario: str) -> None:
    """The stories of these clients, and what is tried with single ones."""
    for name in PLAYERS:
        if name in clients:
            play(results, cluster, folder, name, scenario)
    for name, (client, trial) in {**admin.SCENARIOS, **storms.SCENARIOS}.items():
        if scenario in name and client in clients:
            results.tell(client, version(client), name, partial(trial, cluster))
    for client, owned in owners.SCENARIOS.items():
        killed = {owners_killed.SCENARIO: owners_killed.SCENARIOS[client]}
        for name, story in {**owned, **killed, **group_story.SCENARIOS.get(client, {})}.items():
            if scenario in name and client in clients:
                results.tell(client, owners.VERSIONS[client], name, partial(story, cluster, folder))
    for name, trial in java_tools.SCENARIOS.items():
        if scenario in name and "java" in clients:
            results.tell("java", java_tools.VERSION, name, partial(trial, cluster))
    for name, (version_, reads) in OF_KAFKA.items():
        if scenario in name and "java" in clients:
            results.tell("java", version_, name, partial(reads, cluster))


def frameworks(
    results: Results, cluster: Nodes, folder: Path, clients: tuple[str, ...], scenario: str
) -> None:
    """Frameworks that are built on Kafka's client; and libraries under least privilege."""
    for client, (version_, scenarios) in FRAMEWORKS.items():
        for name, story in scenarios.items():
            if scenario in name and client in clients:
                results.tell(client, version_, name, partial(story, cluster, folder))


def own_tests(results: Results, folder: Path, name: str, suite: Suite) -> None:
    """All tests of one library, on a cluster of their own."""
    folder.mkdir()
    with running(folder / "cluster", NO_QUOTA, *suite.settings, count=suite.node_count) as cluster:
        try:
            for ran in suite.run(cluster.bootstrap, folder):
                results.add(name, suite.version, f"own test {ran.name}", ran.result, ran.said, ran.seconds)
        except NotHere as error:
            results.add(name, suite.version, "own tests", NOT_RUN, str(error))


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
        results.rows += [Row(name, "-", each, NOT_RUN, shortened(str(error))) for each in wanted]
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
