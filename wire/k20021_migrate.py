"""Migrate, API key 20021, version 0: a command of the upgrade from ZooKeeper, to the active controller.

A private API; docs/api-keys.md has its documents.

Again       every command may be sent again, at any time, to any active controller: it goes on where the
            log says, or finds that it is done. So a client repeats it on NOT_CONTROLLER (41), on a lost
            connection and on REQUEST_TIMED_OUT (7: outcome unknown); on COORDINATOR_LOAD_IN_PROGRESS (14:
            ZooKeeper does not answer, or rivals were faster) after a while. Other refusals are final.
Waiting     a command is answered when it is done; a fence against many rivals may take ``FENCE_S_MAX``
            (bridge/upgrade.py). Meanwhile ``status`` says how far it is.
Allowed     to principals with ALTER on the cluster; status to those with DESCRIBE.
"""

from typing import Final

import msgspec

from fencepost.controller.errors import InvalidRequest
from fencepost.wire.dispatch import CONTROLLER
from fencepost.wire.private_api import Json, private_api

COMMANDS: Final = ("status", "bridge", "import", "fence", "finalize", "rollback")


class Stopped(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the files of a ZooKeeper say, and whether the operator says that it is stopped."""

    ensemble: str
    block_end: int  # inclusive; -1: there was no block
    is_stopped: bool = False


class Migrate(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A command of the upgrade. What is as usual is not sent, so that a controller of before can read it."""

    command: str
    dry_run: bool = False
    at_least: int = 0
    stopped: Stopped | None = None
    no_block_yet: bool = False  # the operator says that no producer id was ever given out
    zookeeper_is_stopped: bool = False  # the operator says so: finalize need not see the fence


class LoggedFence(msgspec.Struct, frozen=True):
    """The block, inclusive, and the znode version at which ZooKeeper is or was to be fenced."""

    block_end: int
    zk_version: int


class SeenZnode(msgspec.Struct, frozen=True):
    """The znode as it is now. ``block_end``: inclusive, -1 for none; behind a fence what was there before."""

    version: int
    block_end: int
    is_fenced: bool


class Migrated(msgspec.Struct, frozen=True, kw_only=True):
    """Where the upgrade stands after a command; see the module."""

    phase: str
    next_command: str
    floor: int
    producer_id_end: int
    ensemble: str = ""
    blocking: tuple[str, ...] = ()
    ways: tuple[str, ...] = ()  # what to do, the way on first
    standing_still: tuple[int, ...] = ()  # brokers that are registered at a fenced ZooKeeper
    fence: LoggedFence | None = None
    zookeeper: SeenZnode | None = None
    progress: str = ""
    dry_run: bool = False
    message: str = ""


def _require_known(request: Migrate) -> None:
    if request.command not in COMMANDS:
        raise InvalidRequest(
            f"unknown command {request.command[:100]!r}, expected one of {', '.join(COMMANDS)}"
        )


MIGRATE: Final = private_api(
    20021, "Migrate", Json(Migrate), Json(Migrated), (CONTROLLER,), require=_require_known
)
