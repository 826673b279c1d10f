"""The commands that end an open transaction, as they are typed: Kafka's and ours."""

import shlex
from collections.abc import Mapping
from typing import Final, NamedTuple

from fencepost.records.open_transactions import Coordinated, Holding, OpenTransaction
from fencepost.records.printable import printable

KAFKA, OURS = "kafka-transactions.sh", "fencepost"
SERVER_UNKNOWN: Final = "HOST:PORT"
Options = Mapping[str, object]
"""Values by the names of options, in the order in which they are typed."""


class Cluster(NamedTuple):
    """How the commands reach it. ``config``: of our commands; Kafka's tools need a file of their own."""

    bootstrap: str = SERVER_UNKNOWN
    config: str | None = None


def commands_for(
    opened: OpenTransaction,
    holding: Holding,
    owner: Coordinated | None,
    cluster: Cluster,
    *,
    is_wedged: bool,
) -> dict[str, str]:
    """By the tool. Empty: no command may end it. A decided one is never aborted: it has its outcome."""
    if holding is Holding.HANGING:
        where = {
            "--topic": opened.topic,
            "--partition": opened.partition,
            "--start-offset": opened.start_offset,
        }
        return {KAFKA: _kafka(cluster, "abort", where), OURS: _ours(cluster, "abort", where)}
    if owner is None:
        return {}
    name = owner.transactional_id
    ours = _ours(cluster, "force-terminate", {"--transactional-id": name})
    if holding is Holding.ENDING:
        return {OURS: ours} if is_wedged else {}
    if holding in (Holding.ONGOING, Holding.TWO_PHASE):
        kafka = _kafka(cluster, "forceTerminateTransaction", {"--transactionalId": name})
        return {KAFKA: kafka, OURS: ours}
    return {}


def _quoted(word: str) -> str:
    """A word for a shell; one with such characters as bash reads it."""
    if word.isprintable():
        return shlex.quote(word)
    inner = "".join({"\\": "\\\\", "'": "\\'"}.get(each, printable(each)) for each in word)
    return f"$'{inner}'"


def option(name: str, value: object) -> str:
    """An option and its value, for a shell.

    Kafka's tools take a value that has a dash first behind ``=`` alone: "expected one argument" else.
    """
    text = str(value)
    return _quoted(f"{name}={text}") if text.startswith("-") else f"{name} {_quoted(text)}"


def _kafka(cluster: Cluster, verb: str, options: Options) -> str:
    return " ".join([KAFKA, option("--bootstrap-server", cluster.bootstrap), verb, *_options(options)])


def _ours(cluster: Cluster, verb: str, options: Options) -> str:
    reached = {"--bootstrap-server": cluster.bootstrap}
    if cluster.config is not None:
        reached["--command-config"] = cluster.config
    return " ".join([OURS, "transactions", verb, *_options(reached), *_options(options)])


def _options(options: Options) -> list[str]:
    return [option(name, value) for name, value in options.items()]
