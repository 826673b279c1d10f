"""Brokers: registration, duplicates, what cannot apply; each refusal beside the success it guards."""

import uuid

import pytest

from fencepost.controller import brokers
from fencepost.controller.brokers import (
    BROKERS,
    BROKERS_MAX,
    ENDPOINTS_MAX,
    NAME_CHARACTERS_MAX,
    REGISTRATION_FEATURES_MAX,
    Broker,
    Endpoint,
    Feature,
    HeartbeatTracker,
    RegisterBroker,
    decide_register,
)
from fencepost.controller.errors import (
    ApiError,
    BrokerIdNotRegistered,
    DuplicateBrokerRegistration,
    ErrorCode,
    InconsistentClusterId,
    InvalidRegistration,
    StaleBrokerEpoch,
    UnsupportedVersion,
)
from fencepost.controller.replay import replay_record
from fencepost.controller.view import Overlay
from fencepost.records.invariant import InvariantViolation
from fencepost.records.schema import MetadataRecord, RegisterBrokerRecord, UnregisterBrokerRecord
from fencepost.records.types import BrokerEpoch, BrokerId
from tests.controller.worlds import (
    CLUSTER,
    ELSEWHERE,
    ENDPOINT,
    FIRST_LIFE,
    HERE,
    SECOND_LIFE,
    changed,
    image,
    level,
    registered,
    registration,
)
from tests.together import table

SESSION_MS = 9_000
NOW_MS = 1_000_000


def heartbeats(heartbeat_ms: int | None = None, *, activated_ms: int = 0) -> HeartbeatTracker:
    """Broker 1 was heard then, or never in this leadership."""
    known = HeartbeatTracker(activated_ms, SESSION_MS)
    if heartbeat_ms is not None:
        known.record_heartbeat(BrokerId(1), heartbeat_ms)
    return known


# -- registering -------------------------------------------------------------------------------------------

ALIVE = heartbeats(NOW_MS - SESSION_MS + 1)
SILENT = heartbeats(NOW_MS - SESSION_MS)
KNOWN = registered(1, 100)

REGISTER = [
    pytest.param(image(log_end=7), registration(), SILENT, 7, id="a-new-broker-gets-the-offset"),
    pytest.param(image(log_end=0), registration(), SILENT, 0, id="at-the-first-offset"),
    pytest.param(
        image(KNOWN, log_end=150), registration(), ALIVE, 150, id="a-new-life-from-the-same-directory"
    ),
    pytest.param(
        image(KNOWN, log_end=150),
        registration(directory=ELSEWHERE),
        SILENT,
        150,
        id="another-directory-after-the-session",
    ),
    pytest.param(
        image(KNOWN, log_end=150),
        registration(incarnation=FIRST_LIFE),
        ALIVE,
        100,
        id="the-same-life-again-keeps-its-epoch",
    ),
    pytest.param(
        image(KNOWN, log_end=150),
        registration(directory=ELSEWHERE),
        ALIVE,
        DuplicateBrokerRegistration,
        id="another-directory-while-the-session-lives",
    ),
    pytest.param(
        image(KNOWN, log_end=150),
        registration(directory=ELSEWHERE),
        heartbeats(activated_ms=NOW_MS - SESSION_MS + 1),
        DuplicateBrokerRegistration,
        id="a-new-leader-gives-every-broker-a-session",
    ),
    pytest.param(
        image(), registration(cluster_id="another"), SILENT, InconsistentClusterId, id="of-another-cluster"
    ),
    pytest.param(image(), registration(-1), SILENT, InvalidRegistration, id="a-negative-id"),
    pytest.param(image(), registration(endpoints=()), SILENT, InvalidRegistration, id="no-endpoint"),
    pytest.param(
        image(),
        registration(endpoints=(ENDPOINT,) * ENDPOINTS_MAX),
        SILENT,
        0,
        id="as-many-endpoints-as-may-be",
    ),
    pytest.param(
        image(),
        registration(endpoints=(ENDPOINT,) * (ENDPOINTS_MAX + 1)),
        SILENT,
        InvalidRegistration,
        id="an-endpoint-too-many",
    ),
    pytest.param(
        image(),
        registration(features=tuple(Feature(f"f{n}", 0, 1) for n in range(REGISTRATION_FEATURES_MAX))),
        SILENT,
        0,
        id="as-many-features-as-may-be",
    ),
    pytest.param(
        image(),
        registration(features=tuple(Feature(f"f{n}", 0, 1) for n in range(REGISTRATION_FEATURES_MAX + 1))),
        SILENT,
        InvalidRegistration,
        id="a-feature-too-many",
    ),
    pytest.param(
        image(), registration(rack="r" * NAME_CHARACTERS_MAX), SILENT, 0, id="a-rack-as-long-as-may-be"
    ),
    pytest.param(
        image(),
        registration(rack="r" * (NAME_CHARACTERS_MAX + 1)),
        SILENT,
        InvalidRegistration,
        id="a-long-rack",
    ),
    pytest.param(
        image(),
        registration(endpoints=(Endpoint("P", "h" * (NAME_CHARACTERS_MAX + 1), 1),)),
        SILENT,
        InvalidRegistration,
        id="a-long-host",
    ),
    pytest.param(
        image(),
        registration(features=(Feature("f" * (NAME_CHARACTERS_MAX + 1), 0, 1),)),
        SILENT,
        InvalidRegistration,
        id="a-long-feature",
    ),
    pytest.param(
        image(level("metadata.version", 25)),
        registration(features=(Feature("metadata.version", 7, 25),)),
        SILENT,
        0,
        id="supports-the-finalized-level",
    ),
    pytest.param(
        image(level("metadata.version", 25)), registration(), SILENT, 0, id="names-no-feature-at-all"
    ),
    pytest.param(
        image(level("metadata.version", 25)),
        registration(features=(Feature("metadata.version", 7, 24),)),
        SILENT,
        UnsupportedVersion,
        id="too-old-for-the-finalized-level",
    ),
    pytest.param(
        image(level("metadata.version", 25)),
        registration(features=(Feature("metadata.version", 26, 30),)),
        SILENT,
        UnsupportedVersion,
        id="too-new-for-the-finalized-level",
    ),
]


@table(("view", "request_", "known", "expected"), REGISTER)
def test_register(
    view: Overlay, request_: RegisterBroker, known: HeartbeatTracker, expected: int | type[ApiError]
) -> None:
    if isinstance(expected, type):
        with pytest.raises(expected):
            decide_register(view, request_, cluster_id=CLUSTER, heartbeats=known, now_ms=NOW_MS)
        return
    decision = decide_register(view, request_, cluster_id=CLUSTER, heartbeats=known, now_ms=NOW_MS)
    assert decision.response == expected
    assert bool(decision.records) == (request_.incarnation_id != FIRST_LIFE), "a retry writes nothing"
    for record in decision.records:
        assert isinstance(record, RegisterBrokerRecord)
        assert (record.broker_epoch, record.fenced) == (expected, True)


def test_a_registration_is_in_the_image_as_it_was_asked_for() -> None:
    view = image(log_end=12)
    request = registration(
        3, endpoints=(ENDPOINT, Endpoint("SASL", "::1", 65535, 2)), features=(Feature("f", 1, 2),), rack="r"
    )
    decision = decide_register(view, request, cluster_id=CLUSTER, heartbeats=SILENT, now_ms=NOW_MS)
    for record in decision.records:
        replay_record(view, record)
    assert view.get(BROKERS, BrokerId(3)) == Broker(
        broker_id=BrokerId(3),
        epoch=BrokerEpoch(12),
        incarnation_id=SECOND_LIFE,
        directory_id=HERE,
        endpoints=request.endpoints,
        features=request.features,
        rack="r",
        fenced=True,
        in_controlled_shutdown=False,
    )


def test_a_registration_replaces_the_one_before_and_its_epoch_is_stale_from_then_on() -> None:
    view = image(KNOWN, log_end=150)
    decision = decide_register(view, registration(), cluster_id=CLUSTER, heartbeats=ALIVE, now_ms=NOW_MS)
    for record in decision.records:
        replay_record(view, record)
    assert brokers.require_epoch(view, BrokerId(1), BrokerEpoch(150)).incarnation_id == SECOND_LIFE
    with pytest.raises(StaleBrokerEpoch, match="its current epoch is 150"):
        brokers.require_epoch(view, BrokerId(1), BrokerEpoch(100))


def test_one_broker_too_many_is_refused_but_those_there_may_register_again() -> None:
    view = image(*(registered(n, n) for n in range(BROKERS_MAX)), log_end=5000)
    with pytest.raises(InvalidRegistration, match="unregister one first"):
        decide_register(view, registration(BROKERS_MAX), cluster_id=CLUSTER, heartbeats=SILENT, now_ms=NOW_MS)
    again = decide_register(view, registration(1), cluster_id=CLUSTER, heartbeats=SILENT, now_ms=NOW_MS)
    assert again.response == 5000


def test_the_codes_are_kafkas() -> None:
    codes = {
        DuplicateBrokerRegistration: ErrorCode.DUPLICATE_BROKER_REGISTRATION,
        InconsistentClusterId: ErrorCode.INCONSISTENT_CLUSTER_ID,
        InvalidRegistration: ErrorCode.INVALID_REGISTRATION,
        UnsupportedVersion: ErrorCode.UNSUPPORTED_VERSION,
        BrokerIdNotRegistered: ErrorCode.BROKER_ID_NOT_REGISTERED,
    }
    assert [error.code for error in codes] == list(codes.values()) == [101, 104, 119, 35, 102]


# -- replay ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "record",
    [
        pytest.param(changed(1, 99, fenced=1), id="change-of-an-old-epoch"),
        pytest.param(changed(2, 100, fenced=1), id="change-of-an-unknown-broker"),
        pytest.param(
            UnregisterBrokerRecord(broker_id=BrokerId(1), broker_epoch=BrokerEpoch(99)),
            id="unregistration-of-an-old-epoch",
        ),
        pytest.param(
            UnregisterBrokerRecord(broker_id=BrokerId(2), broker_epoch=BrokerEpoch(100)),
            id="unregistration-of-an-unknown-broker",
        ),
    ],
)
def test_a_record_that_cannot_apply_is_our_bug(record: MetadataRecord) -> None:
    with pytest.raises(InvariantViolation):
        replay_record(image(KNOWN), record)


def test_a_record_without_directories_is_of_no_directory() -> None:
    """A real Kafka before 3.7 writes none."""
    record = RegisterBrokerRecord(
        broker_id=BrokerId(1),
        incarnation_id=FIRST_LIFE,
        broker_epoch=BrokerEpoch(1),
        end_points=(),
        features=(),
    )
    broker = image(record).get(BROKERS, BrokerId(1))
    assert broker is not None
    assert broker.directory_id == uuid.UUID(int=0)
