"""Where the upgrade from ZooKeeper stands: one row of the image, which says who may give out producer ids.

Invariant   in every phase at most one side gives out ids: ZooKeeper's conditional write
            (``THROUGH_ZOOKEEPER``), the quorum (``BY_QUORUM``), or neither.
Source      docs/design.md 7; Kafka ZkMigrationState for the states 0 to 3 that its own record has.
"""

import enum
from typing import Final

import msgspec

from fencepost.controller.errors import CoordinatorLoadInProgress
from fencepost.controller.view import Table, View, decode_int_key, encode_int_key
from fencepost.records.types import ProducerId


class Phase(enum.IntEnum):
    """The numbers are in the log: never reuse one."""

    NONE = 0  # the quorum allocates, ZooKeeper has no part in it
    WAITING = 1  # a cluster made for the upgrade: no ids are allocated until ``migrate bridge``
    BRIDGE = 2  # the active controller allocates through ZooKeeper's conditional write
    IMPORTED = 3  # as BRIDGE; the floor is in the log
    FENCING = 4  # an intent is in the log; no ids are allocated
    QUORUM = 5  # the quorum allocates, ZooKeeper is fenced or stopped; may still be rolled back
    FINALIZED = 6  # the quorum allocates, for good
    ROLLING_BACK = 7  # no ids are allocated until ZooKeeper has a block above all that was given

    @property
    def label(self) -> str:
        """As commands print it: ``rolling-back``."""
        return self.name.lower().replace("_", "-")


THROUGH_ZOOKEEPER: Final = (Phase.BRIDGE, Phase.IMPORTED)
BY_QUORUM: Final = (Phase.NONE, Phase.QUORUM, Phase.FINALIZED)

KAFKA_STATE: Final = {
    Phase.NONE: 0,
    Phase.WAITING: 1,
    Phase.BRIDGE: 1,
    Phase.IMPORTED: 1,
    Phase.FENCING: 2,
    Phase.QUORUM: 2,
    Phase.ROLLING_BACK: 2,
    Phase.FINALIZED: 3,
}
"""Kafka's ZkMigrationState: NONE, PRE_MIGRATION, MIGRATION, POST_MIGRATION."""

NEXT_COMMAND: Final = {
    Phase.NONE: "",
    Phase.WAITING: "bridge",
    Phase.BRIDGE: "import",
    Phase.IMPORTED: "fence",
    Phase.FENCING: "fence",
    Phase.QUORUM: "finalize",
    Phase.FINALIZED: "",
    Phase.ROLLING_BACK: "rollback",
}
"""What an operator types next in each phase."""


class Intent(msgspec.Struct, frozen=True, array_like=True):
    """The block and the znode version at which ZooKeeper is to be fenced."""

    block_end: int  # inclusive, as ZooKeeper keeps it; -1: there was no block yet
    zk_version: int


class Migration(msgspec.Struct, frozen=True, array_like=True):
    """The image's row of the migration: its phase and what belongs to it."""

    phase: Phase = Phase.NONE
    floor: ProducerId = ProducerId(0)  # no id below it is given out by the quorum; it only grows
    ensemble: str = ""  # which ZooKeeper, fixed by the first ``bridge``
    intent: Intent | None = None


MIGRATION: Final[Table[int, Migration]] = Table("migration", Migration, encode_int_key, decode_int_key)
NOT_MIGRATING: Final = Migration()


def current(view: View) -> Migration:
    """Where the upgrade stands; ``NOT_MIGRATING`` in a cluster that knows no ZooKeeper."""
    return view.get(MIGRATION, 0) or NOT_MIGRATING


def require_quorum_allocates(view: View) -> None:
    """Raises CoordinatorLoadInProgress while ids come from ZooKeeper, or from neither side."""
    row = view.get(MIGRATION, 0)
    if row is not None and row.phase not in BY_QUORUM:
        raise CoordinatorLoadInProgress(f"the quorum does not allocate in migration phase {row.phase.label}")
