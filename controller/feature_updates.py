"""UpdateFeatures: an administrator raises or lowers a finalized feature.

All or none  one update that is refused refuses the request.
Needed       of a level that every registered broker says that it supports, and, of ``transaction.version``
             above 0, the log level from which on every voter serves transactions V2.
Downgrade    of ``transaction.version`` is safe at any time: open transactions end as their clients say.
Source       KIP-584, KIP-778; Kafka FeatureControlManager.updateFeatures.
"""

import enum
from typing import Final

import msgspec

from fencepost.controller import levels
from fencepost.controller.brokers import BROKERS, Feature
from fencepost.controller.decision import Decision
from fencepost.controller.errors import ApiError, ErrorCode, InvalidRequest
from fencepost.controller.features import FEATURES, SUPPORTED, TRANSACTION_VERSION
from fencepost.controller.view import View
from fencepost.records.levels import TRANSACTIONS_V2
from fencepost.records.schema import FeatureLevelRecord

UPDATES_MAX: Final = 100  # in one request


class InvalidUpdateVersion(ApiError):
    """A level that a feature cannot have now. Nothing was done."""

    code = ErrorCode.INVALID_UPDATE_VERSION


class Direction(enum.IntEnum):
    """Where an update may lead (Kafka FeatureUpdate.UpgradeType)."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class FeatureUpdate(msgspec.Struct, frozen=True):
    """The level that a feature is to have; 0: it is not finalized any more."""

    name: str
    level: int
    direction: Direction = Direction.UPGRADE


class UpdateFeatures(msgspec.Struct, frozen=True):
    """API key 57. ``validate_only``: say whether it could be done."""

    updates: tuple[FeatureUpdate, ...]
    validate_only: bool = False


class UpdateFeaturesAnswer(msgspec.Struct, frozen=True):
    """The features of the request. Each has the level that was wanted, or could have it."""

    names: tuple[str, ...]


def decide_update_features(view: View, request: UpdateFeatures) -> Decision[UpdateFeaturesAnswer]:
    """Finalize other levels. What is at its level already is not written again.

    Raises InvalidRequest, InvalidUpdateVersion. Of the latter the text says what is in the way.
    """
    names = tuple([each.name for each in request.updates])
    if not names or len(names) > UPDATES_MAX or len(set(names)) < len(names):
        raise InvalidRequest(f"{len(names)} updates; expected 1 to {UPDATES_MAX}, of each feature one")
    records = []
    for each in request.updates:
        row = view.get(FEATURES, each.name) if each.name in SUPPORTED else None
        current = 0 if row is None else row.level
        _require_possible(view, each, current)
        if each.level != current:
            records.append(FeatureLevelRecord(name=each.name, feature_level=each.level))
    return Decision(() if request.validate_only else tuple(records), UpdateFeaturesAnswer(names))


def _require_possible(view: View, update: FeatureUpdate, current: int) -> None:
    name, level = update.name, update.level
    if name not in SUPPORTED:
        known = ", ".join(sorted(SUPPORTED))
        raise InvalidUpdateVersion(f"there is no feature {name!r}; the controller has {known}")
    low, high = SUPPORTED[name]
    if not low <= level <= high:
        raise InvalidUpdateVersion(f"{name} {level}: the controller supports levels {low} to {high}")
    if level > current and update.direction != Direction.UPGRADE:
        raise InvalidUpdateVersion(f"{name} is at {current}: to {level} would be an upgrade, not a downgrade")
    if level < current and update.direction == Direction.UPGRADE:
        raise InvalidUpdateVersion(f"{name} is at {current}: to {level} would be a downgrade; ask for one")
    behind = [
        f"broker {broker_id} ({_range(supported)})"
        for broker_id, broker in view.items(BROKERS)
        if not (supported := _supported(broker.features, name))[0] <= level <= supported[1]
    ]
    if behind:
        raise InvalidUpdateVersion(f"{name} {level} is not supported by {', '.join(behind)}: upgrade it")
    if name == TRANSACTION_VERSION and level > current and levels.in_force(view) < TRANSACTIONS_V2:
        raise InvalidUpdateVersion(
            f"{name} {level} needs log level {TRANSACTIONS_V2}, the cluster has {levels.in_force(view)}: run "
            f"`fencepost features upgrade --log-level {TRANSACTIONS_V2}` first"
        )


def _supported(features: tuple[Feature, ...], name: str) -> tuple[int, int]:
    """The levels that a broker says that it supports; one that says nothing of the feature has level 0."""
    for each in features:
        if each.name == name:
            return each.min_supported_version, each.max_supported_version
    return (0, 0) if name == TRANSACTION_VERSION else SUPPORTED[name]


def _range(supported: tuple[int, int]) -> str:
    return f"levels {supported[0]} to {supported[1]}"
