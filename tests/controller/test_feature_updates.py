"""UpdateFeatures: what may be finalized, by level, direction, brokers and log level."""

import uuid

import msgspec
import pytest

from fencepost.controller.brokers import BROKERS, Broker, Feature
from fencepost.controller.errors import ErrorCode, InvalidRequest
from fencepost.controller.feature_updates import (
    UPDATES_MAX,
    Direction,
    FeatureUpdate,
    InvalidUpdateVersion,
    UpdateFeatures,
    UpdateFeaturesAnswer,
    decide_update_features,
)
from fencepost.controller.features import (
    FEATURES,
    METADATA_VERSION,
    METADATA_VERSION_LEVEL,
    TRANSACTION_VERSION,
    FeatureLevel,
    finalized,
)
from fencepost.controller.levels import LOG_LEVEL
from fencepost.controller.view import EmptyView, Overlay
from fencepost.records.levels import TRANSACTIONS_V2
from fencepost.records.schema import FeatureLevelRecord
from fencepost.records.types import BrokerEpoch, BrokerId
from tests.together import table

UP, SAFE, UNSAFE = Direction
KNOWS = (Feature(TRANSACTION_VERSION, 0, 2),)
KNOWS_1 = (Feature(TRANSACTION_VERSION, 0, 1),)
BROKER = Broker(
    BrokerId(1), BrokerEpoch(5), uuid.UUID(int=1), uuid.UUID(int=2), (), KNOWS, None, False, False
)


def image(
    *, transaction_version: int = 0, log_level: int = TRANSACTIONS_V2, broker: Broker = BROKER
) -> Overlay:
    view = Overlay(EmptyView())
    view.put(FEATURES, METADATA_VERSION, FeatureLevel(METADATA_VERSION_LEVEL))
    for name, level in ((LOG_LEVEL, log_level), (TRANSACTION_VERSION, transaction_version)):
        if level:
            view.put(FEATURES, name, FeatureLevel(level))
    view.put(BROKERS, broker.broker_id, broker)
    return view


def update(level: int, direction: Direction = UP, name: str = TRANSACTION_VERSION) -> UpdateFeatures:
    return UpdateFeatures((FeatureUpdate(name, level, direction),))


@table(
    ("current", "request_", "written"),
    [
        pytest.param(0, update(2), 2, id="up"),
        pytest.param(0, update(1), 1, id="up-to-1"),
        pytest.param(2, update(2), None, id="it-is-there"),
        pytest.param(2, update(2, SAFE), None, id="it-is-there-downgrade"),
        pytest.param(2, update(0, SAFE), 0, id="down"),
        pytest.param(2, update(0, UNSAFE), 0, id="down-unsafe"),
        pytest.param(0, update(METADATA_VERSION_LEVEL, name=METADATA_VERSION), None, id="metadata-is-there"),
    ],
)
def test_what_is_written(current: int, request_: UpdateFeatures, written: int | None) -> None:
    view = image(transaction_version=current)
    decided = decide_update_features(view, request_)
    expected: tuple[FeatureLevelRecord, ...] = ()
    if written is not None:
        expected = (FeatureLevelRecord(name=TRANSACTION_VERSION, feature_level=written),)
    assert (decided.records, decided.response) == (
        expected,
        UpdateFeaturesAnswer((request_.updates[0].name,)),
    )
    tried = decide_update_features(view, msgspec.structs.replace(request_, validate_only=True))
    assert (tried.records, tried.response) == ((), decided.response)


@table(
    ("request_", "words"),
    [
        pytest.param(update(3), "supports levels 0 to 2", id="above"),
        pytest.param(update(-1, SAFE), "supports levels 0 to 2", id="below"),
        pytest.param(update(0), "ask for one", id="down-as-up"),
        pytest.param(update(2, SAFE), "would be an upgrade", id="up-as-down"),
        pytest.param(update(24, UNSAFE, METADATA_VERSION), "levels 25 to 25", id="metadata-version"),
        pytest.param(update(1, UP, "kraft.version"), "no feature 'kraft.version'", id="unknown"),
        pytest.param(update(3, UP, LOG_LEVEL), "no feature", id="the-log-level-has-its-own-way"),
    ],
)
def test_what_is_refused(request_: UpdateFeatures, words: str) -> None:
    with pytest.raises(InvalidUpdateVersion, match=words) as raised:
        decide_update_features(image(transaction_version=1), request_)
    assert raised.value.code == ErrorCode.INVALID_UPDATE_VERSION


@pytest.mark.parametrize(
    ("view", "words"),
    [
        pytest.param(image(log_level=2), "needs log level 3, the cluster has 2", id="log-level"),
        pytest.param(
            image(broker=msgspec.structs.replace(BROKER, features=())),
            r"broker 1 \(levels 0 to 0\): upgrade it",
            id="a-broker-says-nothing-of-it",
        ),
        pytest.param(
            image(broker=msgspec.structs.replace(BROKER, features=KNOWS_1, fenced=True)),
            r"broker 1 \(levels 0 to 1\)",
            id="a-fenced-broker-comes-back",
        ),
    ],
)
def test_nothing_is_finalized_that_a_node_does_not_have(view: Overlay, words: str) -> None:
    with pytest.raises(InvalidUpdateVersion, match=words):
        decide_update_features(view, update(2))


@pytest.mark.parametrize(
    "updates",
    [
        (),
        (FeatureUpdate(TRANSACTION_VERSION, 2), FeatureUpdate(TRANSACTION_VERSION, 1)),
        tuple(FeatureUpdate(f"f{number}", 1) for number in range(UPDATES_MAX + 1)),
    ],
    ids=["none", "twice", "many"],
)
def test_a_request_has_each_feature_once(updates: tuple[FeatureUpdate, ...]) -> None:
    with pytest.raises(InvalidRequest):
        decide_update_features(image(), UpdateFeatures(updates))


def test_one_refusal_refuses_all() -> None:
    with pytest.raises(InvalidUpdateVersion):
        decide_update_features(
            image(), UpdateFeatures((FeatureUpdate(TRANSACTION_VERSION, 2), FeatureUpdate("other", 1)))
        )


def test_kafkas_features_are_said_and_no_others() -> None:
    assert finalized(image(transaction_version=2)) == (
        (METADATA_VERSION, METADATA_VERSION_LEVEL),
        (TRANSACTION_VERSION, 2),
    )
