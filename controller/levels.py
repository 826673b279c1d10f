"""The log level in force: which formats leaders write (records/levels.py says what each level changes).

Row         the feature ``fencepost.log.level``; no row is level 0: such an image is what it always was.
            Its record is Kafka's FeatureLevelRecord: Kafka's readers take any feature name.
Invariant   the level in force only grows, and was never above what a bound voter had said that it reads.
In force    for every entry that is proposed after the record is applied: its decision ends its entry. So a
            node reads the level before the first entry that is written at it, in the log or in a snapshot.
New         a cluster is born at the level at which its directories were formatted. It counts from the first
            record on, also before its own record: until that one, ``metadata.version`` is missing.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from fencepost.controller import voters
from fencepost.controller.decision import Decision
from fencepost.controller.errors import InvalidRequest, UnsupportedVersion
from fencepost.controller.features import (
    FEATURES,
    METADATA_VERSION,
    TRANSACTION_VERSION,
    TRANSACTION_VERSION_MAX,
)
from fencepost.controller.view import View
from fencepost.records.levels import (
    ACLS,
    CHANGED_TOPICS,
    GROUP_AWARE_INIT,
    GROUP_LOG,
    PARTITION_RECOVERY,
    PARTITION_REPORTS,
    SCRAM_USERS,
    SETTINGS_OF_BROKERS,
    TRANSACTIONS_V2,
    TWO_PHASE_COMMIT,
)
from fencepost.records.schema import FeatureLevelRecord
from fencepost.records.types import NodeId

LOG_LEVEL: Final = "fencepost.log.level"


class VoterLevel(msgspec.Struct, frozen=True):
    """The highest level that a bound voter reads; None: it is not connected, so it has not said it."""

    node_id: int
    log_level_max: int | None


class LogLevels(msgspec.Struct, frozen=True, kw_only=True):
    """The level in force, and how far it could be raised."""

    log_level: int
    log_level_max: int  # what the active controller reads
    voters: tuple[VoterLevel, ...]


def in_force(view: View) -> int:
    """The level at which entries are written."""
    row = view.get(FEATURES, LOG_LEVEL)
    return 0 if row is None else row.level


def is_new(view: View) -> bool:
    """The cluster is being born: its first leader has not written its features yet."""
    return view.get(FEATURES, METADATA_VERSION) is None


def of_leader(view: View, formatted: int) -> int:
    """The level of a leader's first records, in a directory that was formatted at level ``formatted``."""
    return max(in_force(view), formatted) if is_new(view) else in_force(view)


def bootstrap_records(view: View, formatted: int) -> tuple[FeatureLevelRecord, ...]:
    """What a new cluster's first leader writes, after ``metadata.version``; nothing once that is there."""
    if not formatted or not is_new(view):
        return ()
    level = FeatureLevelRecord(name=LOG_LEVEL, feature_level=formatted)
    if formatted < TRANSACTIONS_V2:
        return (level,)
    return level, FeatureLevelRecord(name=TRANSACTION_VERSION, feature_level=TRANSACTION_VERSION_MAX)


def _require(view: View, level: int, what: str) -> None:
    """Raises UnsupportedVersion below ``level``; ``what`` says who needs it."""
    current = in_force(view)
    if current < level:
        raise UnsupportedVersion(
            f"{what} needs log level {level}, the cluster has {current}: upgrade every node, then run "
            f"`fencepost features upgrade --log-level {level}`"
        )


def require_group_log(view: View) -> None:
    """Raises UnsupportedVersion while ``__consumer_offsets`` cannot be written: the log level is too low."""
    _require(view, GROUP_LOG, "a consumer group")


def require_two_phase(view: View) -> None:
    """Raises UnsupportedVersion while a leader may be elected that knows nothing of two-phase commit."""
    _require(view, TWO_PHASE_COMMIT, "two-phase commit")


def knows_group_aware_init(view: View) -> bool:
    """What a group-aware InitProducerId needs may be written."""
    return in_force(view) >= GROUP_AWARE_INIT


def require_group_aware_init(view: View) -> None:
    """Raises UnsupportedVersion while a voter may be there that keeps no assignments of groups."""
    _require(view, GROUP_AWARE_INIT, "group-aware InitProducerId")


def require_partition_recovery(view: View) -> None:
    """Raises UnsupportedVersion while a voter may be there that keeps no starts of partitions."""
    _require(view, PARTITION_RECOVERY, "starting a lost partition again")


def keeps_partition_reports(view: View) -> bool:
    """What brokers report of their partitions may be written."""
    return in_force(view) >= PARTITION_REPORTS


def require_changed_topics(view: View) -> None:
    """Raises UnsupportedVersion while a broker may be there that takes changed settings at its next start."""
    _require(view, CHANGED_TOPICS, "changing a topic")


def require_broker_configs(view: View) -> None:
    """Raises UnsupportedVersion while a voter may be there that keeps no settings of brokers."""
    _require(view, SETTINGS_OF_BROKERS, "changing the settings of brokers")


def keeps_broker_configs(view: View) -> bool:
    """Every voter keeps settings of brokers, every broker obeys them."""
    return in_force(view) >= SETTINGS_OF_BROKERS


def require_acls(view: View) -> None:
    """Raises UnsupportedVersion while a voter may be there that keeps no ACLs."""
    _require(view, ACLS, "an ACL in the metadata log")


def require_scram_users(view: View) -> None:
    """Raises UnsupportedVersion while a voter may be there that keeps no SCRAM credentials."""
    _require(view, SCRAM_USERS, "a SCRAM credential in the metadata log")


def decide_describe(view: View, own: NodeId, highest: Mapping[NodeId, int]) -> Decision[LogLevels]:
    """``highest``: what each node reads, of those that are connected, and of this node."""
    return Decision((), _described(view, own, highest, in_force(view)))


def decide_upgrade(view: View, level: int, own: NodeId, highest: Mapping[NodeId, int]) -> Decision[LogLevels]:
    """Raise the level in force to ``level``; nothing is written if it is that already.

    Raises InvalidRequest if it would go down, or if a bound voter does not read it or has not said so.
    """
    current = in_force(view)
    if level < current:
        raise InvalidRequest(f"the log level is {current}: it is never lowered, so not to {level}")
    if level > highest[own]:
        raise InvalidRequest(f"the active controller reads log levels up to {highest[own]}, not {level}")
    behind = [
        f"node {node} reads levels up to {highest[node]}: upgrade it"
        if node in highest
        else f"node {node} is not connected to the active controller: start it"
        for node in sorted(voters.bindings(view))
        if highest.get(node, -1) < level
    ]
    if behind and level > current:
        raise InvalidRequest(f"log level {level} needs every voter; {'; '.join(behind)}")
    records = () if level == current else (FeatureLevelRecord(name=LOG_LEVEL, feature_level=level),)
    return Decision(records, _described(view, own, highest, level), ends_entry=True)


def _described(view: View, own: NodeId, highest: Mapping[NodeId, int], level: int) -> LogLevels:
    return LogLevels(
        log_level=level,
        log_level_max=highest[own],
        voters=tuple(VoterLevel(node, highest.get(node)) for node in sorted(voters.bindings(view))),
    )
