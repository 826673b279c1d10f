"""Heartbeats of brokers, those that leave and those that fall silent."""

from typing import Any

import pytest

from fencepost.controller import cluster_version
from fencepost.controller.brokers import (
    BROKERS,
    Heartbeat,
    HeartbeatStatus,
    HeartbeatTracker,
    UnregisterBroker,
    decide_expire,
    decide_heartbeat,
    decide_unregister,
)
from fencepost.controller.errors import BrokerIdNotRegistered, StaleBrokerEpoch
from fencepost.controller.replay import replay_record
from fencepost.records.schema import MetadataRecord, RegisterBrokerRecord, UnregisterBrokerRecord
from fencepost.records.types import BrokerEpoch, BrokerId
from tests.controller.test_brokers import ALIVE, KNOWN, NOW_MS, SESSION_MS, SILENT, heartbeats
from tests.controller.worlds import changed, image, registered
from tests.together import table

FENCED, UNFENCED = registered(1, 100, fenced=True), registered(1, 100, fenced=False)
LEAVING = changed(fenced=1, leaving=1)
FENCE, UNFENCE, LEAVE = changed(fenced=1), changed(fenced=-1), changed(fenced=1, leaving=1)


def beat(epoch: int = 100, offset: int = 100, *, fence: bool = False, shut_down: bool = False) -> Heartbeat:
    return Heartbeat(BrokerId(1), BrokerEpoch(epoch), offset, want_fence=fence, want_shut_down=shut_down)


def status(*, caught_up: bool = True, fenced: bool = False, shut_down: bool = False) -> HeartbeatStatus:
    return HeartbeatStatus(caught_up, fenced, shut_down)


HEARTBEATS = [
    pytest.param([FENCED], beat(), [UNFENCE], status(), id="caught-up-is-unfenced"),
    pytest.param([UNFENCED], beat(), [], status(), id="unfenced-stays-unfenced"),
    pytest.param(
        [FENCED], beat(offset=99), [], status(caught_up=False, fenced=True), id="not-caught-up-stays-fenced"
    ),
    pytest.param([UNFENCED], beat(offset=99), [], status(caught_up=False), id="not-caught-up-does-not-fence"),
    pytest.param([UNFENCED], beat(fence=True), [FENCE], status(fenced=True), id="wants-to-be-fenced"),
    pytest.param([FENCED], beat(fence=True), [], status(fenced=True), id="wants-to-stay-fenced"),
    pytest.param(
        [UNFENCED],
        beat(offset=99, fence=True),
        [FENCE],
        status(caught_up=False, fenced=True),
        id="wants-to-be-fenced-though-not-caught-up",
    ),
    pytest.param(
        [UNFENCED], beat(shut_down=True), [LEAVE], status(fenced=True, shut_down=True), id="wants-to-leave"
    ),
    pytest.param(
        [FENCED],
        beat(shut_down=True),
        [changed(fenced=0, leaving=1)],
        status(fenced=True, shut_down=True),
        id="wants-to-leave-while-fenced",
    ),
    pytest.param(
        [UNFENCED, LEAVING],
        beat(shut_down=True),
        [],
        status(fenced=True, shut_down=True),
        id="leaves-already",
    ),
    pytest.param([FENCED], beat(epoch=99), StaleBrokerEpoch, None, id="an-older-epoch"),
    pytest.param([], beat(), StaleBrokerEpoch, None, id="an-unknown-broker"),
]


@table(("history", "request_", "written", "answer"), HEARTBEATS)
def test_heartbeat(
    history: list[MetadataRecord], request_: Heartbeat, written: Any, answer: HeartbeatStatus | None
) -> None:
    view = image(*history)
    if isinstance(written, type):
        with pytest.raises(written):
            decide_heartbeat(view, request_)
        return
    decision = decide_heartbeat(view, request_)
    assert (list(decision.records), decision.response) == (written, answer)
    for record in decision.records:
        replay_record(view, record)
    after = view.get(BROKERS, BrokerId(1))
    assert after is not None
    assert answer is not None
    assert after.fenced == answer.is_fenced, "the answer says what the image says"
    assert after.in_controlled_shutdown == answer.should_shut_down


# -- leaving, and falling silent ---------------------------------------------------------------------------


def test_unregister_removes_the_registration() -> None:
    view = image(KNOWN, registered(2, 101))
    decision = decide_unregister(view, UnregisterBroker(BrokerId(1)))
    assert decision.records == (UnregisterBrokerRecord(broker_id=BrokerId(1), broker_epoch=BrokerEpoch(100)),)
    before = cluster_version.current(view)
    for record in decision.records:
        replay_record(view, record)
    assert [key for key, _ in view.items(BROKERS)] == [2]
    assert cluster_version.current(view) == before + 1, "clients see another cluster"
    with pytest.raises(BrokerIdNotRegistered):
        decide_unregister(view, UnregisterBroker(BrokerId(1)))


@pytest.mark.parametrize("broker_id", [2, -1])
def test_unregister_refuses_a_broker_that_is_not_there(broker_id: int) -> None:
    with pytest.raises(BrokerIdNotRegistered):
        decide_unregister(image(KNOWN), UnregisterBroker(BrokerId(broker_id)))


EXPIRY = [
    pytest.param(UNFENCED, ALIVE, (), id="alive"),
    pytest.param(UNFENCED, SILENT, (1,), id="silent-for-a-session"),
    pytest.param(FENCED, SILENT, (), id="fenced-already"),
    pytest.param(UNFENCED, heartbeats(activated_ms=NOW_MS - SESSION_MS + 1), (), id="failed-over-alive"),
    pytest.param(UNFENCED, heartbeats(activated_ms=NOW_MS - SESSION_MS), (1,), id="failed-over-silent"),
]


@table(("broker", "known", "fenced"), EXPIRY)
def test_expire(broker: RegisterBrokerRecord, known: HeartbeatTracker, fenced: tuple[int, ...]) -> None:
    view = image(broker)
    decision = decide_expire(view, known, NOW_MS)
    assert decision.response == fenced
    assert list(decision.records) == [FENCE] * len(fenced)
    for record in decision.records:
        replay_record(view, record)
    assert decide_expire(view, known, NOW_MS).records == (), "once is enough"


def test_unfencing_ends_a_controlled_shutdown_and_a_new_registration_does_too() -> None:
    view = image(UNFENCED, LEAVING, UNFENCE)
    broker = view.get(BROKERS, BrokerId(1))
    assert broker is not None
    assert (broker.fenced, broker.in_controlled_shutdown) == (False, False)
    view = image(UNFENCED, LEAVING, registered(1, 200))
    broker = view.get(BROKERS, BrokerId(1))
    assert broker is not None
    assert (broker.fenced, broker.in_controlled_shutdown) == (True, False)


@table(("named", "fenced"), [(None, (1, 2)), ((1,), (1,)), ((2, 9), (2,)), ((), ())])
def test_of_these_brokers_those_whose_session_timed_out_are_fenced(
    named: tuple[int, ...] | None, fenced: tuple[int, ...]
) -> None:
    view = image(registered(1, 100, fenced=False), registered(2, 101, fenced=False), registered(3, 102))
    wanted = None if named is None else tuple(map(BrokerId, named))
    decision = decide_expire(view, SILENT, NOW_MS, wanted)
    assert decision.response == fenced
    assert len(decision.records) == len(fenced)
