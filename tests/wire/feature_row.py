"""The row of UpdateFeatures."""

from typing import Any

import msgspec

from fencepost.controller.feature_updates import (
    Direction,
    FeatureUpdate,
    UpdateFeatures,
    UpdateFeaturesAnswer,
)
from fencepost.wire import k57_update_features as k57
from tests.wire.row import Row


def _direction(version: int, update: Any) -> Direction:
    if version >= 1:
        return Direction(update.upgrade_type)
    return Direction.UNSAFE_DOWNGRADE if update.allow_downgrade else Direction.UPGRADE


UPDATE = UpdateFeatures(
    (
        FeatureUpdate("transaction.version", 2),
        FeatureUpdate("metadata.version", 25, Direction.UNSAFE_DOWNGRADE),
    ),
    validate_only=True,
)
FEATURE_ROW = Row(
    k57.UPDATE_FEATURES,
    UPDATE,
    UpdateFeaturesAnswer(("transaction.version", "metadata.version")),
    lambda version, said: msgspec.structs.replace(said, validate_only=version >= 1),
    lambda version, said: said if version < 2 else UpdateFeaturesAnswer(()),
    lambda version, entity: UpdateFeatures(
        tuple(
            FeatureUpdate(each.feature, each.max_version_level, _direction(version, each))
            for each in entity.feature_updates
        ),
        getattr(entity, "validate_only", False),
    ),
    lambda version, entity: UpdateFeaturesAnswer(
        tuple(each.feature for each in getattr(entity, "results", ()))
    ),
)
