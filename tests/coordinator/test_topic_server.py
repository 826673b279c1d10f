"""Topics on the controller listener: who may, what Metadata says, and what a node says that does not lead."""

import dataclasses
import uuid
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

import fencepost.coordinator.topic_server
from fencepost.controller.authorization import Acls
from fencepost.controller.errors import (
    ApiError,
    ClusterAuthorizationFailed,
    ErrorCode,
    InvalidRequest,
    NotController,
)
from fencepost.controller.replay import replay_record
from fencepost.controller.restoring import Found, restore
from fencepost.controller.topic_configs import SETTINGS
from fencepost.controller.topic_creation import ROWS_PER_PART_MAX
from fencepost.controller.topics import CreateTopics, DeleteTopics, NewTopic, find
from fencepost.controller.view import Overlay
from fencepost.quorum.port import Decide
from fencepost.records.partition_report import OFFLINE, PartitionReport
from fencepost.records.schema import PartitionChangeRecord
from fencepost.wire.dispatch import Context, Reply
from fencepost.wire.k03_metadata import METADATA, Metadata, MetadataAnswer, TopicQuery
from fencepost.wire.k32_describe_configs import RESOURCES_MAX, ConfigResource, DescribeConfigs
from tests.controller.worlds import HERE, changed, image, registered, reported
from tests.node.bare_server import bare_replica, bare_server
from tests.together import table
from tests.wire.answering import Answering

ACLS = Acls.parse("User:admin CREATE\nUser:admin DELETE\nUser:admin DESCRIBE\nUser:broker CLUSTER_ACTION\n")
NONE_NAMED = uuid.UUID(int=0)  # by a registration of an older version
LIVE = (registered(1, 100, fenced=False), registered(2, 101, fenced=False))


class Stage:
    """A controller whose decisions are made and applied at once, or refused because it does not lead."""

    def __init__(self, *, leads: bool = True, settings: str = "", acls: Acls | None = None) -> None:
        self.image: Overlay = image(*LIVE)
        self.leads = leads
        self.leads_for = 10**6
        self.later: deque[Callable[[], None]] = deque()  # what the loop runs next
        self.decisions = 0
        self.server = bare_server(
            bare_replica(self.image, active=leads),
            self._submit,
            acls=acls or Acls(),
            settings=settings,
            call_later=lambda _seconds, call: self.later.append(call),
        )

    def _submit(self, decide: Decide[Any], reply: Callable[[Any, int], None], **_how: Any) -> None:
        if not self.leads or self.decisions >= self.leads_for:
            reply(NotController("not I"), 0)
            return
        self.decisions += 1
        try:
            decision = decide(Overlay(self.image), 0)
        except ApiError as refusal:
            reply(refusal, 0)
            return
        for record in decision.records:
            replay_record(self.image, record)
        reply(decision.response, 0)

    def ask(self, request: object, principal: str = "User:ANONYMOUS") -> Any:
        answers = self.begin(request, principal)
        while self.later:
            self.later.popleft()()
        (answer,) = answers
        return answer

    def begin(self, request: object, principal: str = "User:ANONYMOUS") -> list[Any]:
        """Where the answer will be."""
        endpoints: dict[type, Callable[[Any, Context, Reply[Any]], None]] = {
            Metadata: self.server.metadata,
            CreateTopics: self.server.topics.create,
            DeleteTopics: self.server.topics.delete,
            DescribeConfigs: self.server.topics.describe_configs,
        }
        answers: list[Any] = []

        def reply(answer: Any, throttle_ms: int = 0) -> None:
            answers.append(answer)

        context = Context(principal, "CONTROLLER", None, "127.0.0.1:1")
        endpoints[type(request)](request, context, Answering(reply))
        return answers


def asked(*names: str, create: bool = False) -> Metadata:
    return Metadata(tuple(TopicQuery(name) for name in names), allow_auto_topic_creation=create)


def test_a_broker_is_told_every_topic_with_its_leaders() -> None:
    stage = Stage()
    stage.ask(CreateTopics((NewTopic("b", 3, 1), NewTopic("a", 1, 1))))
    answer: MetadataAnswer = stage.ask(Metadata(None))
    assert [topic.name for topic in answer.topics] == ["a", "b"]
    assert [[each.leader_id for each in topic.partitions] for topic in answer.topics] == [[2], [1, 2, 1]]
    assert all(topic.topic_id for topic in answer.topics)
    assert (answer.controller_id, answer.error_code) == (1, 0)
    assert METADATA.decode_response(13, METADATA.encode_response(13, answer, 0)) == answer


def test_the_partition_of_a_fenced_broker_has_no_leader() -> None:
    stage = Stage()
    stage.ask(CreateTopics((NewTopic("b", 2, 1),)))
    assert [each.leader_id for each in stage.ask(Metadata(None)).topics[0].partitions] == [1, 2]
    replay_record(stage.image, changed(1, 100, fenced=1))
    (topic,) = stage.ask(Metadata(None)).topics
    first, second = topic.partitions
    assert (first.error_code, first.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
    assert (first.replica_nodes, first.isr_nodes, first.offline_replicas) == ((1,), (1,), (1,))
    assert (second.error_code, second.leader_id, second.offline_replicas) == (ErrorCode.NONE, 2, ())


def test_a_broker_learns_that_a_partition_was_placed_in_a_directory_it_has_no_more() -> None:
    stage = Stage()
    stage.ask(CreateTopics((NewTopic("b", 2, 1),)))
    for directory, offline in ((uuid.UUID(int=99), (1,)), (NONE_NAMED, ()), (HERE, ())):
        record = dataclasses.replace(registered(1, 200, fenced=False), log_dirs=(directory,))
        replay_record(stage.image, record)
        (topic,) = stage.ask(Metadata(None)).topics
        first, second = topic.partitions
        assert (first.error_code, first.leader_id, first.offline_replicas) == (ErrorCode.NONE, 1, offline)
        assert second.offline_replicas == (), "the other broker's is as it was"


def test_a_partition_that_its_broker_reports_offline_has_no_leader_until_it_says_otherwise() -> None:
    """As in Kafka for the only replica of a partition in a directory that failed."""
    stage = Stage()
    stage.ask(CreateTopics((NewTopic("b", 2, 1),)))
    topic_id = find(stage.image, "b").topic_id  # type: ignore[union-attr]

    def leaders() -> list[tuple[int, ErrorCode]]:
        (topic,) = stage.ask(Metadata(None)).topics
        assert all(each.offline_replicas == () for each in topic.partitions), (
            "they are placed where they were"
        )
        assert stage.ask(asked("b")).topics == (topic,)
        return [(each.leader_id, each.error_code) for each in topic.partitions]

    led, offline = (1, ErrorCode.NONE), (-1, ErrorCode.LEADER_NOT_AVAILABLE)
    other = (2, ErrorCode.NONE)
    assert leaders() == [led, other]
    replay_record(stage.image, reported(PartitionReport(topic_id, 0, OFFLINE)))
    assert leaders() == [offline, other]
    replay_record(stage.image, reported(PartitionReport(topic_id, 0, 5)))
    assert leaders() == [led, other]
    replay_record(stage.image, reported(PartitionReport(topic_id, 0, OFFLINE)))
    assert leaders() == [offline, other]
    replay_record(stage.image, registered(1, 300, fenced=False))
    assert leaders() == [led, other], "its broker has started again"


def test_a_partition_was_started_again_only_in_the_leader_epoch_of_an_operators_word() -> None:
    """A restored image raises every leader epoch: a log that is lost then was given up by no one."""
    stage = Stage()
    stage.ask(CreateTopics((NewTopic("b", 2, 1),)))
    topic_id = find(stage.image, "b").topic_id  # type: ignore[union-attr]
    again = PartitionChangeRecord(partition_id=0, topic_id=topic_id, leader=1, start_offset=500)

    def described() -> list[tuple[int, int]]:
        rows = stage.ask(asked("b")).topics[0].partitions
        return [(each.leader_epoch, each.start_offset) for each in rows]

    assert described() == [(0, -1), (0, -1)]
    replay_record(stage.image, again)
    assert described() == [(1, 500), (0, -1)]
    restore(stage.image, Found(), skip_ids=0, directories={}, now_ms=0)
    assert described() == [(2, -1), (1, -1)]
    replay_record(stage.image, dataclasses.replace(again, start_offset=700))
    assert described() == [(3, 700), (1, -1)]


def test_what_was_said_of_all_topics_is_not_said_again_when_it_is_wrong() -> None:
    """The answer is kept by the cluster's version."""
    stage = Stage()
    stage.ask(CreateTopics((NewTopic("a", 1, 1),)))
    before = stage.ask(Metadata(None)).topics
    assert stage.ask(Metadata(None)).topics is before
    stage.ask(DeleteTopics(("a",)))
    assert stage.ask(Metadata(None)).topics == ()


def test_names_alone_do_not_take_all_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fencepost.coordinator.topic_server, "AUTO_CREATED_PARTITIONS_MAX", 2)
    stage = Stage()
    codes = [each.error_code for each in stage.ask(asked("a", "b", "c", create=True)).topics]
    assert codes == [ErrorCode.NONE, ErrorCode.NONE, ErrorCode.POLICY_VIOLATION]
    assert stage.ask(CreateTopics((NewTopic("c", 1, 1),))).topics[0].error_code == ErrorCode.NONE


UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
AUTO = [
    pytest.param("", asked("new", create=True), "User:broker", ErrorCode.NONE, id="made"),
    pytest.param("", asked("new"), "User:broker", UNKNOWN, id="not-wished"),
    pytest.param("", asked("new", create=True), "User:stranger", UNKNOWN, id="not-allowed"),
    pytest.param(
        "auto.create.topics.enable=false\n",
        asked("new", create=True),
        "User:broker",
        UNKNOWN,
        id="not-enabled",
    ),
    pytest.param(
        "", asked("n/w", create=True), "User:broker", ErrorCode.INVALID_TOPIC_EXCEPTION, id="no-such-name"
    ),
    pytest.param("", asked("n/w"), "User:broker", ErrorCode.INVALID_TOPIC_EXCEPTION, id="never-such-a-name"),
]


@pytest.mark.parametrize(("settings", "request_", "principal", "code"), AUTO)
def test_an_unknown_topic_is_made_if_everybody_wants_it(
    settings: str, request_: Metadata, principal: str, code: ErrorCode
) -> None:
    stage = Stage(settings="num.partitions=3\n" + settings, acls=ACLS)
    (topic,) = stage.ask(request_, principal).topics
    assert topic.error_code == code
    assert len(topic.partitions) == (0 if code else 3)
    assert (find(stage.image, "new") is None) == bool(code)


def test_a_topic_that_no_broker_can_keep_yet_is_asked_for_again() -> None:
    stage = Stage()
    for broker_id, epoch in ((1, 100), (2, 101)):
        replay_record(stage.image, changed(broker_id, epoch, fenced=1))
    (topic,) = stage.ask(asked("new", create=True)).topics
    assert topic.error_code == ErrorCode.LEADER_NOT_AVAILABLE


def test_a_topic_is_found_by_its_id() -> None:
    stage = Stage()
    (made,) = stage.ask(CreateTopics((NewTopic("a", 1, 1),))).topics
    ghost = uuid.UUID(int=9)
    found, lost = stage.ask(Metadata((TopicQuery(None, made.topic_id), TopicQuery(None, ghost)))).topics
    assert (found.name, found.topic_id, found.error_code) == ("a", made.topic_id, 0)
    assert (lost.name, lost.topic_id, lost.error_code) == (None, ghost, ErrorCode.UNKNOWN_TOPIC_ID)


def test_a_node_that_does_not_lead_names_who_does_and_no_topic() -> None:
    """A broker asks in version 13 and goes on; kafka-python asks in an older one, and finds the leader."""
    stage = Stage(leads=False)
    answer: MetadataAnswer = stage.ask(asked("a", create=True))
    assert (answer.error_code, answer.controller_id) == (ErrorCode.NOT_CONTROLLER, 1)
    with pytest.raises(NotController):
        METADATA.decode_response(13, METADATA.encode_response(13, answer, 0))
    older = METADATA.decode_response(8, METADATA.encode_response(8, answer, 0))
    assert [each.node_id for each in older.brokers] == [1]
    assert [each.error_code for each in older.topics] == [ErrorCode.LEADER_NOT_AVAILABLE]
    nothing_asked = stage.ask(Metadata(()))
    assert (nothing_asked.error_code, nothing_asked.controller_id) == (0, 1)


@table(
    ("request_", "allowed"),
    [
        pytest.param(CreateTopics((NewTopic("a", 1, 1),)), {"admin", "broker"}, id="create"),
        pytest.param(DeleteTopics(("a",)), {"admin", "broker"}, id="delete"),
        pytest.param(DescribeConfigs(()), {"admin", "broker"}, id="describe-configs"),
    ],
)
@table("who", ["admin", "broker", "stranger"])
def test_who_may(request_: object, allowed: set[str], who: str) -> None:
    stage = Stage(acls=ACLS)
    if who in allowed:
        stage.ask(request_, f"User:{who}")
    else:
        with pytest.raises(ClusterAuthorizationFailed):
            stage.ask(request_, f"User:{who}")


def test_settings_say_where_they_come_from() -> None:
    stage = Stage(settings="log.segment.bytes=4096\n")
    stage.ask(CreateTopics((NewTopic("a", 1, 1, configs=(("retention.ms", "5"),)),)))
    asked_for = DescribeConfigs(
        (
            ConfigResource(2, "a", ("retention.ms", "segment.bytes", "cleanup.policy", "x")),
            ConfigResource(2, "a"),
            ConfigResource(2, "ghost"),
            ConfigResource(4, "1"),
            ConfigResource(4, "99"),
            ConfigResource(8, "1"),
        )
    )
    some, every, ghost, *others = stage.ask(asked_for).results
    assert [(each.name, each.value, each.source) for each in some.configs] == [
        ("cleanup.policy", "delete", 5),
        ("retention.ms", "5", 1),
        ("segment.bytes", "4096", 4),
    ]
    assert len(every.configs) == len(SETTINGS)
    assert [each.error_code for each in (ghost, *others)] == [
        UNKNOWN,
        ErrorCode.NONE,
        ErrorCode.BROKER_ID_NOT_REGISTERED,
        ErrorCode.INVALID_REQUEST,
    ]
    resources = tuple(ConfigResource(2, "a") for _ in range(RESOURCES_MAX + 1))
    with pytest.raises(InvalidRequest):
        stage.ask(DescribeConfigs(resources))
    assert len(stage.ask(DescribeConfigs(resources[1:])).results) == RESOURCES_MAX


def test_the_topics_are_served() -> None:
    assert {3, 19, 20, 32} <= set(Stage().server.service)


# -- requests that are decided in parts ----------------------------------------------------------------------


def many(rows: int) -> CreateTopics:
    """Topics of ten rows each."""
    return CreateTopics(tuple(NewTopic(f"t{each}", 9, 1) for each in range(rows // 10)))


@pytest.mark.parametrize(
    ("request_", "decisions"),
    [
        pytest.param(many(ROWS_PER_PART_MAX), 1, id="at-the-bound"),
        pytest.param(many(ROWS_PER_PART_MAX + 10), 2, id="one-past"),
        pytest.param(many(1000), 4, id="several"),
        pytest.param(CreateTopics((NewTopic("wide", 1999, 1), NewTopic("b", 1, 1))), 2, id="one-is-wide"),
        pytest.param(CreateTopics(()), 1, id="none"),
        pytest.param(replace(many(1000), validate_only=True), 1, id="only-validated"),
    ],
)
def test_many_topics_are_made_a_few_at_a_time(request_: CreateTopics, decisions: int) -> None:
    stage = Stage()
    answer = stage.ask(request_)
    assert [(each.name, each.error_code) for each in answer.topics] == [
        (each.name, ErrorCode.NONE) for each in request_.topics
    ]
    assert stage.decisions == decisions
    made = [each.name for each in request_.topics if find(stage.image, each.name) is not None]
    assert len(made) == (0 if request_.validate_only else len(request_.topics))


def test_the_parts_of_a_request_are_bounded_together() -> None:
    stage = Stage()
    fits = 2000 // 9  # partitions of one request
    codes = [each.error_code for each in stage.ask(many(10 * (fits + 2))).topics]
    assert codes == [ErrorCode.NONE] * fits + [ErrorCode.POLICY_VIOLATION] * 2


def test_a_topic_that_is_refused_by_itself_leaves_room_for_the_others() -> None:
    stage = Stage()
    topics = (NewTopic("huge", 2**31 - 1, 1), *many(1000).topics)
    first, *others = stage.ask(CreateTopics(topics)).topics
    assert first.error_code == ErrorCode.POLICY_VIOLATION
    assert {each.error_code for each in others} == {ErrorCode.NONE}


def test_a_name_that_is_there_twice_is_refused_in_both_parts() -> None:
    stage = Stage()
    twice = NewTopic("twice", 1, 1)
    answer = stage.ask(CreateTopics((twice, *many(1000).topics, twice)))
    (row,) = [each for each in answer.topics if each.name == "twice"][:1]
    assert row.error_code == ErrorCode.INVALID_REQUEST
    assert find(stage.image, "twice") is None


@pytest.mark.parametrize("decided", [0, 2])
def test_what_is_not_decided_says_so_and_the_rest_is_done(decided: int) -> None:
    """Leadership moves between two entries of a request."""
    stage = Stage()
    stage.leads_for = decided
    answer = stage.ask(many(1000))
    if not decided:
        assert isinstance(answer, NotController)
        return
    done = decided * (ROWS_PER_PART_MAX // 10)
    codes = [each.error_code for each in answer.topics]
    assert codes == [ErrorCode.NONE] * done + [ErrorCode.NOT_CONTROLLER] * (100 - done)
