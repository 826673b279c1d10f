"""``python -m tests.testing.corpus.fault_verbs``: each fault of single requests, as five libraries see it.

Each      a transaction whose EndTxn meets the fault, once; then a new producer of its id, which ends what is
          left.
Well      the fault fired; what the library said to be committed is there once, and nothing is there twice;
          what was done and not answered is there.
Before    nodes of this project, and Apache Kafka, one node that Maven fetches once (``--ours``, ``--kafka``).
Status    1 if a row is not well. What this machine cannot run is NOT RUN, with the reason.
"""

import argparse
import contextlib
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from fencepost.cluster.console import table
from fencepost.testing import Cluster
from fencepost.testing.faults import Fault, Faults
from fencepost.testing.proxies import Proxies
from tests.clients import kafka_broker
from tests.clients.players import CONFLUENT, PLAYERS, CallFailed, NotHere, Player
from tests.ports import free_port

DELAY_MS: Final = 1500
SETTINGS: Final = """\
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,CLIENTS:PLAINTEXT
"""

VERBS: Final[dict[str, Callable[[Faults, str], Fault]]] = {
    "drop_answer": lambda faults, name: faults.drop_answer("EndTxn", match=matching(name), times=1),
    "disconnect": lambda faults, name: faults.disconnect("EndTxn", match=matching(name), times=1),
    "delay": lambda faults, name: faults.delay("EndTxn", DELAY_MS, match=matching(name), times=1),
    "fail": lambda faults, name: faults.fail(
        "EndTxn", "COORDINATOR_NOT_AVAILABLE", match=matching(name), times=1
    ),
}


def matching(name: str) -> dict[str, str]:
    """The requests of a transactional id."""
    return {"transactional_id": name}


class Stage(NamedTuple):
    """A cluster behind proxies."""

    name: str
    bootstrap: str
    faults: Faults


@contextlib.contextmanager
def ours(_home: Path) -> Iterator[Stage]:
    """Three nodes."""
    with Cluster(3, faults=True) as cluster:
        yield Stage("fencepost", cluster.bootstrap, cluster.faults)


@contextlib.contextmanager
def kafka(home: Path) -> Iterator[Stage]:
    """One node. Raises NotHere."""
    kafka_broker.fetch()
    behind = free_port()
    proxies = Proxies(home.parent / "proxy", [behind], [free_port()])
    proxies.start()
    node = kafka_broker.Broker(
        home, SETTINGS, node_id=1, port=free_port(), controllers={1: free_port()},
        clients_port=behind, clients_advertised=proxies.ports[0],
    )  # fmt: skip
    try:
        node.start()
        proxies.await_ready()
        yield Stage(f"Apache Kafka {kafka_broker.VERSION}", f"127.0.0.1:{proxies.ports[0]}", proxies.faults)
    finally:
        node.kill()
        proxies.close()


def played(stage: Stage, player: Player, reader: Player, verb: str) -> tuple[bool, str]:
    """Whether it is well, and what the library said."""
    name = f"{player.name}-{verb}"
    admin = AdminClient({"bootstrap.servers": stage.bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(30)
    settings = (f"transactional.id={name}",)
    player.call("make", name, *settings)
    player.call("begin", name)
    player.call("send", name, name, "one")
    fault = VERBS[verb](stage.faults, name)
    said = "committed"
    try:
        player.call("commit", name)
    except CallFailed as error:
        said = str(error)
    fired = fault.fired
    stage.faults.clear()
    player.call("make", f"{name}-2", *settings)
    player.call("begin", f"{name}-2")
    player.call("send", f"{name}-2", name, "last")
    player.call("commit", f"{name}-2")
    seen = reader.call("read", name, "5", "read_committed")
    done = said == "committed" or verb == "drop_answer"
    well = fired == 1 and seen in ([["one", "last"]] if done else [["one", "last"], ["last"]])
    return well, f"{said[:60]}; fired {fired} times; seen {', '.join(seen)}"


def rows_of(stage: Stage, logs: Path, libraries: list[str]) -> Iterator[tuple[bool, tuple[str, ...]]]:
    """Whether it is well, and a row, for each library and fault."""
    reader = PLAYERS[CONFLUENT](stage.bootstrap, logs)
    for library in libraries:
        try:
            player = PLAYERS[library](stage.bootstrap, logs)
        except NotHere as reason:
            yield True, (stage.name, library, "", "NOT RUN", str(reason))
            continue
        for verb in VERBS:
            try:
                well, said = played(stage, player, reader, verb)
            except CallFailed as error:
                well, said = False, str(error)
            yield well, (stage.name, library, verb, "well" if well else "NOT WELL", said)
        player.end()
    reader.end()


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--ours", dest="stages", action="append_const", const=ours)
    parser.add_argument("--kafka", dest="stages", action="append_const", const=kafka)
    parser.add_argument("--client", action="append", choices=list(PLAYERS))
    chosen = parser.parse_args()
    is_well, rows = True, []
    for begin in chosen.stages or (ours, kafka):
        with tempfile.TemporaryDirectory(prefix="fencepost-verbs-") as home:
            try:
                with begin(Path(home) / "node") as stage:
                    for well, row in rows_of(stage, Path(home), chosen.client or list(PLAYERS)):
                        sys.stderr.write(f"{'  '.join(row)}\n")
                        is_well = is_well and well
                        rows.append(row)
            except NotHere as reason:
                rows.append((begin.__name__, "", "", "NOT RUN", str(reason)))
    sys.stdout.write(table(("BEFORE", "LIBRARY", "FAULT OF ENDTXN", "", "THE LIBRARY SAID"), rows) + "\n")
    return 0 if is_well else 1


if __name__ == "__main__":
    sys.exit(main())
