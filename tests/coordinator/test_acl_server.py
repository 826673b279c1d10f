"""ACLs on the active controller: what is answered, when a change is in force, and what brokers follow."""

from collections.abc import Callable
from typing import Any, cast

import pytest
from structlog.typing import FilteringBoundLogger

from fencepost.controller import acls, levels
from fencepost.controller.acl_errors import SecurityDisabled
from fencepost.controller.acl_types import Acl, AclFilter, CreateAcls, DeleteAcls, DescribeAclsAnswer
from fencepost.controller.errors import ApiError, ErrorCode, InvalidRequest, NotController, RequestTimedOut
from fencepost.controller.features import FEATURES, FeatureLevel
from fencepost.controller.replay import replay_record
from fencepost.controller.view import Overlay
from fencepost.coordinator import acl_server
from fencepost.coordinator.acl_server import CONFIRMED_S_MAX, PARKED_MS_MAX, AclServer
from fencepost.quorum.port import Decide
from fencepost.records.levels import ACLS
from fencepost.records.schema import BrokerRegistrationChangeRecord
from fencepost.records.types import BrokerEpoch, BrokerId
from fencepost.wire.dispatch import Context, Reply
from fencepost.wire.k20029_follow_acls import FollowAcls, FollowedAcls
from tests.controller.worlds import image, registered
from tests.quorum.clients import Silence

CONTEXT = Context("User:admin", "CONTROLLER", None, "127.0.0.1:1")
READS = Acl(2, 3, "orders", "User:alice", "*", 3, 3)
WRITES = Acl(2, 4, "pay", "User:alice", "*", 4, 3)


class Answers:
    def __init__(self) -> None:
        self.all: list[Any] = []

    def __call__(self, answer: Any, _throttle_ms: int = 0, /) -> None:
        self.all.append(answer)

    def close(self, reason: str, /) -> None:
        raise AssertionError(reason)


class Stage:
    """A controller with unfenced brokers 1 and 2, whose decisions are applied at once."""

    def __init__(self, *, has_authorizer: bool = True) -> None:
        self.image: Overlay = image(registered(1, 100, fenced=False), registered(2, 101, fenced=False))
        self.image.put(FEATURES, levels.LOG_LEVEL, FeatureLevel(ACLS))
        self.now_ms = 0
        self.server = AclServer(
            lambda: self.image,
            self._submit,
            lambda: self.now_ms,
            cast(FilteringBoundLogger, Silence()),
            has_authorizer=has_authorizer,
        )
        self.server.activated(0)

    def _submit(self, decide: Decide[Any], reply: Callable[[Any, int], None], **_how: Any) -> None:
        try:
            decision = decide(Overlay(self.image), 0)
        except ApiError as refusal:
            reply(refusal, 0)
            return
        for record in decision.records:
            replay_record(self.image, record)
        reply(decision.response, 0)

    def ask(self, endpoint: Callable[..., None], request: object) -> list[Any]:
        answers = Answers()
        endpoint(request, CONTEXT, cast(Reply[Any], answers))
        return answers.all

    def create(self, *wanted: Acl) -> list[Any]:
        return self.ask(self.server.create, CreateAcls(wanted))

    def follow(self, broker_id: int, known: int, epoch: int | None = None) -> list[Any]:
        return self.ask(self.server.follow, FollowAcls(broker_id, epoch or 99 + broker_id, known))

    def confirm(self, *broker_ids: int) -> None:
        for each in broker_ids:
            self.follow(each, acls.state(self.image).changes)

    def fence(self, broker_id: int, fenced: int = 1) -> None:
        record = BrokerRegistrationChangeRecord(
            broker_id=BrokerId(broker_id), broker_epoch=BrokerEpoch(99 + broker_id), fenced=fenced
        )
        replay_record(self.image, record)

    def sweep(self, after_ms: int = 0) -> None:
        self.now_ms += after_ms
        self.server.sweep(self.now_ms)


def test_without_an_authorizer_there_are_no_acls() -> None:
    stage = Stage(has_authorizer=False)
    for endpoint, request in (
        (stage.server.create, CreateAcls((READS,))),
        (stage.server.describe, AclFilter()),
        (stage.server.delete, DeleteAcls((AclFilter(),))),
        (stage.server.follow, FollowAcls(1, 100, -1)),
    ):
        with pytest.raises(SecurityDisabled) as refused:
            stage.ask(endpoint, request)
        assert refused.value.code == 54
    assert acls.state(stage.image) == acls.AclState()


def test_a_change_is_answered_when_every_unfenced_broker_decides_by_it() -> None:
    stage = Stage()
    answers = stage.create(READS)
    assert answers == []
    stage.confirm(1)
    assert answers == [], "broker 2 has not said so"
    stage.follow(2, 0)
    assert answers == [], "nor that it has an earlier one"
    stage.confirm(2)
    assert [each.error_code for each in answers[0].results] == [0]


def test_a_broker_that_is_fenced_is_not_waited_for() -> None:
    stage = Stage()
    answers = stage.create(READS)
    stage.confirm(1)
    stage.sweep(2_000)
    assert answers == []
    stage.fence(2)
    stage.sweep()
    assert len(answers) == 1


def test_a_confirmation_of_an_earlier_registration_does_not_count() -> None:
    stage = Stage()
    answers = stage.create(READS)
    stage.confirm(1)
    stage.follow(2, 1, epoch=77)
    assert answers == []


def test_a_broker_that_lives_and_does_not_follow_is_named_in_the_end() -> None:
    stage = Stage()
    answers = stage.create(READS)
    stage.confirm(1)
    stage.sweep(CONFIRMED_S_MAX * 1000 - 1)
    assert answers == []
    stage.sweep(1)
    (answer,) = answers
    assert isinstance(answer, RequestTimedOut)
    assert "[2]" in str(answer)


def test_a_change_that_is_none_is_in_force_at_once_if_the_last_one_is() -> None:
    stage = Stage()
    stage.create(READS)
    stage.confirm(1, 2)
    assert len(stage.create(READS)) == 1


def test_a_deposed_controller_says_that_the_outcome_is_unknown() -> None:
    stage = Stage()
    answers, parked = stage.create(READS), stage.follow(1, 1)
    stage.server.deposed()
    assert isinstance(answers[0], RequestTimedOut)
    assert isinstance(parked[0], NotController)


def test_changes_that_wait_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acl_server, "WAITING_MAX", 2)
    stage = Stage()
    stage.create(READS)
    stage.create(WRITES)
    with pytest.raises(RequestTimedOut, match="nothing was written"):
        stage.create(READS)


def test_a_broker_reads_all_and_then_what_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acl_server, "PAGE_ROWS", 1)
    stage = Stage()
    stage.create(READS, WRITES)
    (first,) = stage.follow(1, -1)
    assert first == FollowedAcls(2, (acls.AclChange(READS.acl_id, READS),), has_more=True)
    (last,) = stage.ask(stage.server.follow, FollowAcls(1, 100, -1, first.rows[-1]))
    assert last == FollowedAcls(2, (acls.AclChange(WRITES.acl_id, WRITES),))
    parked = stage.follow(1, 2)
    assert parked == []
    stage.ask(stage.server.delete, DeleteAcls((AclFilter(name="orders"),)))
    assert parked == [FollowedAcls(3, (acls.AclChange(READS.acl_id),))]


def test_news_come_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acl_server, "PAGE_ROWS", 1)
    stage = Stage()
    stage.create(READS, WRITES)
    (part,) = stage.follow(1, 0)
    assert part.changes == 1
    (part,) = stage.follow(1, 1)
    assert (part.changes, [each.added for each in part.rows]) == (2, [WRITES])


def test_a_parked_request_is_answered_after_a_while() -> None:
    stage = Stage()
    parked = stage.follow(1, 0)
    stage.sweep(PARKED_MS_MAX - 1)
    assert parked == []
    stage.sweep(1)
    assert parked == [FollowedAcls(0)]


def test_a_second_request_of_a_broker_answers_its_first() -> None:
    stage = Stage()
    first, second = stage.follow(1, 0), stage.follow(1, 0)
    assert (first, second) == ([FollowedAcls(0)], [])


def test_a_fenced_broker_is_answered_at_once() -> None:
    stage = Stage()
    stage.fence(1)
    assert stage.follow(1, 0) == [FollowedAcls(0)]
    assert stage.follow(77, 0) == [FollowedAcls(0)], "nor is one parked that is not registered"


def test_who_is_too_far_behind_begins_again() -> None:
    stage = Stage()
    assert stage.follow(1, 7) == [FollowedAcls(0, is_lost=True)]


def test_describe_has_what_matches_and_refuses_unknown_numbers() -> None:
    stage = Stage()
    stage.create(READS, WRITES)
    assert stage.ask(stage.server.describe, AclFilter()) == [DescribeAclsAnswer((READS, WRITES))]
    assert stage.ask(stage.server.describe, AclFilter(name="orders")) == [DescribeAclsAnswer((READS,))]
    for unknown in (AclFilter(0), AclFilter(pattern_type=9), AclFilter(operation=0), AclFilter(permission=7)):
        with pytest.raises(InvalidRequest):
            stage.ask(stage.server.describe, unknown)


def test_each_filter_of_a_removal_has_its_own_result() -> None:
    stage = Stage()
    stage.create(READS, WRITES)
    answers = stage.ask(
        stage.server.delete, DeleteAcls((AclFilter(name="orders"), AclFilter(0), AclFilter()))
    )
    stage.confirm(1, 2)
    (answer,) = answers
    assert [each.acls for each in answer.results] == [(READS,), (), (READS, WRITES)]
    assert [each.error_code for each in answer.results] == [0, ErrorCode.INVALID_REQUEST, 0]
    assert acls.state(stage.image) == acls.AclState(4, 0)
