"""The commands that end an open transaction, as they are typed: Kafka's and ours."""

import shlex
from typing import Final, NamedTuple

from fencepost.records.open_transactions import Coordinated, Holding, OpenTransaction

KAFKA, OURS = "kafka-transactions.sh", "fencepost"
SERVER_UNKNOWN: Final = "HOST:PORT"


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
        where = (
            "--topic",
            opened.topic,
            "--partition",
            opened.partition,
            "--start-offset",
            opened.start_offset,
        )
        return {KAFKA: _kafka(cluster, "abort", *where), OURS: _ours(cluster, "abort", *where)}
    if owner is None:
        return {}
    name = owner.transactional_id
    ours = _ours(cluster, "force-terminate", "--transactional-id", name)
    if holding is Holding.ENDING:
        return {OURS: ours} if is_wedged else {}
    if holding in (Holding.ONGOING, Holding.TWO_PHASE):
        return {KAFKA: _kafka(cluster, "forceTerminateTransaction", "--transactionalId", name), OURS: ours}
    return {}


def printable(text: str) -> str:
    """Without characters that move a cursor, hide text or end a line: names are a client's words."""
    return "".join(each if each.isprintable() else _escaped(each) for each in text)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def _quoted(word: str) -> str:
    """A word for a shell; one with such characters as bash reads it."""
    if word.isprintable():
        return shlex.quote(word)
    inner = "".join({"\\": "\\\\", "'": "\\'"}.get(each, printable(each)) for each in word)
    return f"$'{inner}'"


def _joined(words: list[str]) -> str:
    return " ".join(map(_quoted, words))


def _kafka(cluster: Cluster, verb: str, *words: object) -> str:
    return _joined([KAFKA, "--bootstrap-server", cluster.bootstrap, verb, *map(str, words)])


def _ours(cluster: Cluster, verb: str, *words: object) -> str:
    config = () if cluster.config is None else ("--command-config", cluster.config)
    command = [OURS, "transactions", verb, "--bootstrap-server", cluster.bootstrap, *config]
    return _joined([*command, *map(str, words)])
