"""Two-phase commit at the coordinator's endpoints: who may begin it, and what never times out."""

import dataclasses

import pytest

from fencepost.controller.authorization import Acls
from fencepost.controller.decision import Decision
from fencepost.controller.errors import ErrorCode
from fencepost.controller.levels import LOG_LEVEL
from fencepost.controller.transactions.init_request import InitProducerId
from fencepost.records.levels import LEVEL_MAX
from fencepost.records.schema import FeatureLevelRecord
from tests.coordinator.bench import Bench
from tests.coordinator.coordinator_node import CLIENT
from tests.node.conftest import MakeStage

ACLS = Acls.parse("User:xa TWO_PHASE_COMMIT\nUser:broker CLUSTER_ACTION\nUser:admin ALTER\n", ["User:root"])
REFUSED = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def raise_level(bench: Bench) -> None:
    record = FeatureLevelRecord(name=LOG_LEVEL, feature_level=LEVEL_MAX)
    bench.decide(lambda view, now_ms: Decision((record,), None))


def request(*, enables: bool, keeps: bool) -> InitProducerId:
    return InitProducerId("alice", 1000, init_version=6, enables_two_phase=enables, keeps_prepared=keeps)


@pytest.mark.row("939.6")
@pytest.mark.parametrize("keeps", [False, True], ids=["begins", "keeps"])
@pytest.mark.parametrize(
    ("served", "acls", "principal", "code"),
    [
        pytest.param(False, Acls(), "User:xa", REFUSED, id="the-setting-is-off"),
        pytest.param(False, ACLS, "User:root", REFUSED, id="off-for-super-users-too"),
        pytest.param(True, Acls(), "User:anyone", None, id="on-and-no-authorizer"),
        pytest.param(True, ACLS, "User:xa", None, id="on-and-allowed"),
        pytest.param(True, ACLS, "User:root", None, id="on-and-a-super-user"),
        pytest.param(True, ACLS, "User:broker", REFUSED, id="cluster-action-implies-it-not"),
        pytest.param(True, ACLS, "User:admin", REFUSED, id="alter-implies-it-not"),
        pytest.param(True, ACLS, "User:anyone", REFUSED, id="on-and-not-allowed"),
    ],
)
def test_it_needs_the_setting_and_the_permission(
    make_stage: MakeStage, served: bool, acls: Acls, principal: str, code: ErrorCode | None, keeps: bool
) -> None:
    bench = Bench(make_stage(), acls=acls, serves_two_phase=served)
    bench.elect()
    raise_level(bench)
    context = dataclasses.replace(CLIENT, principal=principal)
    asked = bench.ask(bench.server.init_producer_id, request(enables=True, keeps=keeps), context)
    bench.settle()
    if code is not None:
        assert asked.answered() == code
    else:
        assert (asked.answered().producer_epoch, bench.row("alice").is_two_phase) == (0, True)


@pytest.mark.row("939.1")
def test_keeping_needs_neither(make_stage: MakeStage) -> None:
    bench = Bench(make_stage(), acls=ACLS)
    bench.elect()
    raise_level(bench)
    asked = bench.ask(bench.server.init_producer_id, request(enables=False, keeps=True))
    bench.settle()
    assert (asked.answered().producer_epoch, bench.row("alice").is_two_phase) == (0, False)


def test_below_its_log_level_it_is_refused(make_stage: MakeStage) -> None:
    bench = Bench(make_stage(), serves_two_phase=True)
    bench.elect()
    for enables, keeps in ((True, False), (False, True)):
        asked = bench.ask(bench.server.init_producer_id, request(enables=enables, keeps=keeps))
        bench.settle()
        assert asked.answered() == ErrorCode.UNSUPPORTED_VERSION
