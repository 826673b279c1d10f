"""Finalized features: the cluster-wide levels that brokers must support.

Invariant   ``metadata.version`` is the first record of a new cluster's metadata log.
V2          at ``transaction.version`` 2 clients learn that they may use transactions V2 (KIP-890). What a
            request means follows from its own version: at any level clients of both are served.
Source      KIP-584, KIP-1022; Kafka FeatureControlManager, TransactionVersion.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from fencepost.controller.errors import UnsupportedVersion
from fencepost.controller.view import MutableView, Table, View
from fencepost.records.schema import FeatureLevelRecord

METADATA_VERSION: Final = "metadata.version"
METADATA_VERSION_LEVEL: Final = 25  # 4.0-IV3
TRANSACTION_VERSION: Final = "transaction.version"
TRANSACTION_VERSION_MAX: Final = 2

SUPPORTED: Final[Mapping[str, tuple[int, int]]] = {
    METADATA_VERSION: (METADATA_VERSION_LEVEL, METADATA_VERSION_LEVEL),
    TRANSACTION_VERSION: (0, TRANSACTION_VERSION_MAX),
}
"""Kafka's features that this version has: the lowest and the highest level of each."""


class FeatureLevel(msgspec.Struct, frozen=True, array_like=True):
    """The finalized level of one feature."""

    level: int


FEATURES: Final[Table[str, FeatureLevel]] = Table(
    "features", FeatureLevel, lambda name: name.encode(), lambda key: key.decode()
)


def bootstrap_records(view: View) -> tuple[FeatureLevelRecord, ...]:
    """What a new cluster's first leader writes; nothing once it is there."""
    if view.get(FEATURES, METADATA_VERSION) is not None:
        return ()
    return (FeatureLevelRecord(name=METADATA_VERSION, feature_level=METADATA_VERSION_LEVEL),)


def finalized(view: View) -> tuple[tuple[str, int], ...]:
    """(name, level) of each of Kafka's features that is not at level 0, by name."""
    return tuple([(name, row.level) for name, row in view.items(FEATURES) if name in SUPPORTED])


def require_supported(view: View, supported: Mapping[str, tuple[int, int]]) -> None:
    """Raises UnsupportedVersion if a finalized feature that the broker names is out of its range.

    A feature that the broker does not name is taken as supported: our own brokers name none.
    """
    for name, row in view.items(FEATURES):
        low, high = supported.get(name, (row.level, row.level))
        if not low <= row.level <= high:
            raise UnsupportedVersion(
                f"feature {name} is at level {row.level}, the broker supports {low} to {high}"
            )


def replay(view: MutableView, record: FeatureLevelRecord) -> None:
    """Total. Level 0 removes the feature."""
    if record.feature_level == 0:
        view.delete(FEATURES, record.name)
    else:
        view.put(FEATURES, record.name, FeatureLevel(record.feature_level))
