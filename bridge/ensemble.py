"""The tree of a stopped ensemble out of its servers' files: the highest transaction of a majority wins.

Majority    what was acknowledged is in the files of a majority, so of the servers of any majority one has all
            of it: the one that ZooKeeper itself would elect, by (epoch followed, last transaction).
Short of it a tree can still be looked at; ``reasons`` then say why it must not decide where ids go on.

Source      ZAB (Junqueira 2011); ZooKeeper FastLeaderElection.totalOrderPredicate; docs/design.md 7.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from fencepost.bridge.data_tree import Znodes
from fencepost.bridge.files import ServerFiles, ServerTree, read_server
from fencepost.records.invariant import CorruptData

CONFIG_PATH: Final = "/zookeeper/config"
_MEMBER: Final = re.compile(r"^server\.(\d+)=(.*)$", re.MULTILINE)
_WEIGHTED: Final = re.compile(r"^(group|weight)\.", re.MULTILINE)


class Unreadable(NamedTuple):
    """A server whose files count for nothing, and why."""

    files: ServerFiles
    error: Exception


class EnsembleTree(NamedTuple):
    """``chosen`` is the server whose tree holds. Usable for more than a look iff ``reasons`` is empty."""

    chosen: ServerTree
    others: tuple[ServerTree, ...]
    unreadable: tuple[Unreadable, ...]
    size: int | None  # voting servers of the ensemble, if known
    reasons: tuple[str, ...]  # why this is for a dry run only


def read_ensemble(servers: Sequence[ServerFiles], size: int | None = None) -> EnsembleTree:
    """Read the files of some servers of one ensemble.

    In       ``size``: how many voting servers the ensemble has. Since ZooKeeper 3.5 the tree says so itself.
    Raises   what ``read_server`` raised, if no server's files can be read.
    """
    readable: list[ServerTree] = []
    unreadable: list[Unreadable] = []
    for files in servers:
        try:
            readable.append(read_server(files))
        except (CorruptData, OSError) as error:
            unreadable.append(Unreadable(files, error))
    if not readable:
        if unreadable:
            raise unreadable[0].error
        raise CorruptData("no server's files are given")
    chosen = max(readable, key=lambda server: (server.epoch, server.zxid))
    others = tuple(server for server in readable if server is not chosen)
    known_size, reasons = _size(chosen, size)
    if known_size is not None:
        reasons += _short_of_majority(chosen, readable, unreadable, known_size)
    reasons += [f"{_name(chosen)}: {doubt}" for doubt in chosen.doubts]
    reasons += [
        f"{_name(chosen)} and {_name(other)} differ at transaction {chosen.zxid:#x}: of one ensemble?"
        for other in others
        if other.zxid == chosen.zxid and _kafkas(other.znodes) != _kafkas(chosen.znodes)
    ]
    return EnsembleTree(chosen, others, tuple(unreadable), known_size, tuple(reasons))


def members(znodes: Znodes) -> dict[int, str] | None:
    """The voting servers by number, as the tree names them; None if it does not."""
    config = _config(znodes)
    found = {
        int(number): address
        for number, address in _MEMBER.findall(config)
        if ":observer" not in address.lower()
    }
    return found or None


def _size(chosen: ServerTree, given: int | None) -> tuple[int | None, list[str]]:
    """The ensemble's size, and what is wrong with it."""
    named = members(chosen.znodes)
    if _WEIGHTED.search(_config(chosen.znodes)):
        return given, [f"the ensemble votes with groups or weights ({CONFIG_PATH}): a count is no majority"]
    if named is not None:
        if given is not None and given != len(named):
            numbers = ", ".join(str(number) for number in sorted(named))
            return len(named), [f"{given} servers were said, {CONFIG_PATH} names {len(named)}: {numbers}"]
        return len(named), []
    if chosen.epoch == 0:  # no leader was ever elected: it always stood alone
        return 1, [] if given in (None, 1) else [
            f"{given} servers were said, the files are of one that stands alone"
        ]
    if given is None:
        return None, [f"{CONFIG_PATH} names no servers (ZooKeeper 3.4?): say how many the ensemble has"]
    return given, []


def _short_of_majority(
    chosen: ServerTree, readable: Sequence[ServerTree], unreadable: Sequence[Unreadable], size: int
) -> list[str]:
    """Why these are not the whole files of a majority of ``size`` different servers."""
    if size == 1 and len(readable) == 1:
        return []
    named = members(chosen.znodes)
    reasons = []
    counted: set[int] = set()
    for server in readable:
        if server.number is None:
            reasons.append(f"{_name(server)} has no myid file: which server is it?")
        elif server.number in counted:
            reasons.append(f"server {server.number} is given twice")
        elif named is not None and server.number not in named:
            reasons.append(f"{_name(server)} is no voting member: {', '.join(map(str, sorted(named)))} are")
        elif not server.doubts:
            counted.add(server.number)
    needed = size // 2 + 1
    if len(counted) < needed:
        reasons.append(
            f"whole files of {len(counted)} of {size} servers, {needed} are needed: "
            "the others may hold later transactions"
        )
        reasons += [
            f"{_name(each)}: {doubt}" for each in readable if each is not chosen for doubt in each.doubts
        ]
        reasons += [f"{each.files.data}: {each.error}" for each in unreadable]
    return reasons


def _config(znodes: Znodes) -> str:
    config = znodes.get(CONFIG_PATH)
    return (config.data or b"").decode("utf-8", "replace") if config else ""


def _kafkas(znodes: Znodes) -> Znodes:
    """Without what a server keeps for itself: quotas, configuration."""
    return {path: znode for path, znode in znodes.items() if not path.startswith("/zookeeper/")}


def _name(server: ServerTree) -> str:
    place: Path = server.files.data
    return f"{place}" if server.number is None else f"server {server.number} ({place})"
