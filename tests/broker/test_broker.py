"""A whole broker between a scripted controller and clients on its listener."""

import asyncio
import socket
import uuid
from pathlib import Path
from typing import Any

import pytest

from fencepost.broker.exit_reason import ExitReason
from fencepost.broker.server import FORWARDED_MAX
from fencepost.controller.errors import (
    ApiError,
    ClusterAuthorizationFailed,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    ErrorCode,
    InconsistentClusterId,
    InvalidRequest,
    NotController,
    NotCoordinator,
    RequestTimedOut,
)
from fencepost.controller.transactions.group_init import MemberAssignment
from fencepost.records.types import ProducerId
from fencepost.wire.auth import Login
from fencepost.wire.errors import SaslAuthenticationFailed
from fencepost.wire.k03_metadata import METADATA, BrokerNode, Metadata, TopicQuery
from fencepost.wire.k10_find_coordinator import FIND_COORDINATOR, GROUP, TRANSACTION, FindCoordinator
from fencepost.wire.k22_init_producer_id import INIT_PRODUCER_ID, InitProducerId
from fencepost.wire.k55_describe_quorum import DESCRIBE_QUORUM, DescribeQuorum
from fencepost.wire.k60_describe_cluster import CONTROLLERS, DESCRIBE_CLUSTER, ClusterNode, DescribeCluster
from fencepost.wire.k62_broker_registration import BROKER_REGISTRATION
from fencepost.wire.k63_broker_heartbeat import BROKER_HEARTBEAT
from fencepost.wire.k67_allocate_producer_ids import ALLOCATE_PRODUCER_IDS
from tests.broker.fake_controller import CLUSTER_ID, SILENCE, FakeController, play
from tests.broker.whole_broker import DIRECTORY_ID, Stage, config_for, stage
from tests.secret_files import write_secret
from tests.together import table

MEMBER = MemberAssignment("bill", generation=3)
IDEMPOTENT = InitProducerId(transactional_id=None, transaction_timeout_ms=-1)


def test_a_broker_registers_with_what_its_configuration_and_directory_say() -> None:
    async def story() -> None:
        controller = FakeController()
        async with stage(controller) as on:
            await on.broker.ready()
            (request,) = controller.asked[62]
            assert (request.broker_id, request.cluster_id) == (1, CLUSTER_ID)
            assert request.directory_id == DIRECTORY_ID
            (endpoint,) = request.endpoints
            assert (endpoint.name, endpoint.host, endpoint.port) == ("PLAINTEXT", "127.0.0.1", on.port)
            assert endpoint.security_protocol == 0
            assert request.incarnation_id.int != 0

    play(story)


def test_every_start_is_a_new_incarnation(tmp_path: Path) -> None:
    async def story() -> None:
        controller = FakeController()
        async with controller:
            for _ in range(2):
                staged = Stage(controller, config_for(controller, tmp_path))
                await staged.broker.start()
                await staged.broker.ready()
                await staged.broker.stop()
            first, second = controller.asked[62]
            assert first.incarnation_id != second.incarnation_id

    play(story)


@table("version", range(6), ids="v{}".format)
def test_producer_ids_are_distinct_over_blocks_and_clients(version: int) -> None:
    async def story() -> None:
        controller = FakeController()
        async with stage(controller) as on:
            await on.until(INIT_PRODUCER_ID, IDEMPOTENT, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            clients = [await on.client() for _ in range(3)]
            claimed: list[int] = []
            while len(claimed) < 45:
                try:
                    answer = await clients[len(claimed) % 3].call(
                        INIT_PRODUCER_ID, IDEMPOTENT, version=version
                    )
                except CoordinatorLoadInProgress:
                    continue
                assert answer.producer_epoch == 0
                claimed.append(answer.producer_id)
            assert claimed == list(range(1, 46))
            for client in clients:
                client.close()

    play(story)


def test_without_a_block_init_producer_id_answers_14_at_once() -> None:
    async def story() -> None:
        controller = FakeController()
        controller.script(ALLOCATE_PRODUCER_IDS, *[SILENCE] * 1000)
        async with stage(controller) as on:
            await controller.count(ALLOCATE_PRODUCER_IDS, 1)
            for _ in range(3):
                with pytest.raises(CoordinatorLoadInProgress):
                    await on.call(INIT_PRODUCER_ID, IDEMPOTENT)

    play(story)


REFUSED_INITS = [
    pytest.param(InitProducerId("orders", 60_000), NotCoordinator, id="no-coordinator-is-mounted"),
    pytest.param(
        InitProducerId(None, 60_000, member=MEMBER), NotCoordinator, id="a-groups-member-without-an-id"
    ),
    pytest.param(InitProducerId(None, -1, ProducerId(7), -1), InvalidRequest, id="an-id-without-an-epoch"),
    pytest.param(InitProducerId(None, -1, ProducerId(-1), 3), InvalidRequest, id="an-epoch-without-an-id"),
]


@pytest.mark.parametrize(("request_", "refusal"), REFUSED_INITS)
def test_init_producer_id_refuses(request_: InitProducerId, refusal: type[ApiError]) -> None:
    async def story() -> None:
        async with stage(FakeController()) as on:
            with pytest.raises(refusal):
                await on.call(INIT_PRODUCER_ID, request_)

    play(story)


def test_an_idempotent_producer_that_goes_on_gets_a_new_id() -> None:
    """A null transactional id: what the producer says of itself is ignored (spec B2, row 1)."""

    async def story() -> None:
        async with stage(FakeController()) as on:
            again = InitProducerId(None, -1, ProducerId(4711), 5)
            answer = await on.until(INIT_PRODUCER_ID, again, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            assert (answer.producer_id, answer.producer_epoch) == (0, 0)

    play(story)


@table("version", range(14), ids="v{}".format)
def test_metadata_names_the_visible_brokers_and_the_controller(version: int) -> None:
    async def story() -> None:
        controller = FakeController()
        async with stage(controller) as on:
            fenced = ClusterNode(3, "127.0.0.1", 9, is_fenced=True)
            controller.brokers = (fenced, ClusterNode(2, "127.0.0.1", 8), on.itself)
            answer = await on.call(METADATA, Metadata(None), version)
            while len(answer.brokers) != 2 or (version >= 1 and answer.controller_id != 1):
                answer = await on.call(METADATA, Metadata(None), version)
            assert answer.brokers == (BrokerNode(1, "127.0.0.1", on.port), BrokerNode(2, "127.0.0.1", 8))
            assert answer.cluster_id == (CLUSTER_ID if version >= 2 else None)
            assert answer.topics == ()

    play(story)


def test_no_topic_exists() -> None:
    async def story() -> None:
        async with stage(FakeController()) as on:
            topic_id = uuid.UUID(int=5)
            topics = (TopicQuery("orders"), TopicQuery(None, topic_id))
            by_name, by_id = (await on.call(METADATA, Metadata(topics))).topics
            assert (by_name.name, by_name.error_code) == ("orders", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            assert (by_id.topic_id, by_id.error_code) == (topic_id, ErrorCode.UNKNOWN_TOPIC_ID)

    play(story)


@table("version", range(7), ids="v{}".format)
def test_the_coordinator_of_everything_is_the_active_controllers_broker(version: int) -> None:
    async def story() -> None:
        controller = FakeController(node_id=2)
        controller.brokers = (ClusterNode(2, "127.0.0.1", 4242),)
        async with stage(controller) as on:
            key_type = TRANSACTION if version >= 1 else GROUP
            keys = ("a", "b") if version >= 4 else ("a",)
            find = FindCoordinator(key_type, keys)
            while True:
                try:
                    answer = await on.call(FIND_COORDINATOR, find, version)
                except CoordinatorNotAvailable:
                    continue
                if answer.coordinators[0].error_code == 0:
                    break
            assert [(c.node_id, c.host, c.port) for c in answer.coordinators] == [
                (2, "127.0.0.1", 4242) for _ in keys
            ]

    play(story)


def test_without_an_active_controller_there_is_no_coordinator() -> None:
    async def story() -> None:
        controller = FakeController()
        controller.script(DESCRIBE_CLUSTER, *[NotController("no node leads")] * 100_000)
        async with stage(controller) as on:
            with pytest.raises(CoordinatorNotAvailable):
                await on.call(FIND_COORDINATOR, FindCoordinator(GROUP, ("a",)), 3)
            (row,) = (await on.call(FIND_COORDINATOR, FindCoordinator(GROUP, ("a",)))).coordinators
            assert (row.error_code, row.key) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, "a")

    play(story)


def test_share_groups_have_no_coordinator_here() -> None:
    async def story() -> None:
        async with stage(FakeController()) as on:
            (row,) = (await on.call(FIND_COORDINATOR, FindCoordinator(2, ("a",)))).coordinators
            assert row.error_code == ErrorCode.INVALID_REQUEST

    play(story)


def test_describe_cluster_shows_fenced_brokers_only_to_those_who_ask() -> None:
    async def story() -> None:
        controller = FakeController()
        async with stage(controller) as on:
            fenced = ClusterNode(3, "127.0.0.1", 9, is_fenced=True)
            controller.brokers = (fenced, on.itself)
            everything = DescribeCluster(include_fenced_brokers=True)
            while len((answer := await on.call(DESCRIBE_CLUSTER, everything)).brokers) < 2:
                await asyncio.sleep(0.001)
            assert answer.cluster_id == CLUSTER_ID
            assert answer.brokers == (on.itself, fenced)
            assert (await on.call(DESCRIBE_CLUSTER, DescribeCluster())).brokers == (on.itself,)
            for endpoint_type, code in ((CONTROLLERS, 114), (0, 115), (3, 115), (-1, 115)):
                with pytest.raises(ApiError) as refused:
                    await on.call(DESCRIBE_CLUSTER, DescribeCluster(endpoint_type))
                assert refused.value.code == code, "as Kafka's brokers answer it"

    play(story)


def test_describe_quorum_is_the_active_controllers_answer() -> None:
    async def story() -> None:
        controller = FakeController()
        async with stage(controller) as on:
            answer = await on.call(DESCRIBE_QUORUM, DescribeQuorum())
            assert answer.partition is not None
            assert answer.partition.leader_id == 1
            controller.script(DESCRIBE_QUORUM, RequestTimedOut("who knows"))
            with pytest.raises(RequestTimedOut):
                await on.call(DESCRIBE_QUORUM, DescribeQuorum())

    play(story)


def test_requests_to_the_controller_are_bounded_and_one_more_is_told_to_come_back() -> None:
    async def story() -> None:
        controller = FakeController()
        async with stage(controller) as on:
            await on.broker.ready()
            controller.script(DESCRIBE_QUORUM, *[SILENCE] * 100_000)
            clients = [await on.client() for _ in range(FORWARDED_MAX + 1)]
            waiting = [asyncio.create_task(each.call(DESCRIBE_QUORUM, DescribeQuorum())) for each in clients]
            done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            (refused,) = done
            assert isinstance(refused.exception(), CoordinatorLoadInProgress)
            for each in clients:
                each.close()
            await asyncio.gather(*waiting, return_exceptions=True)

    play(story)


def test_a_client_that_waits_for_the_controller_does_not_hold_up_a_stop() -> None:
    async def story() -> None:
        controller = FakeController()
        async with stage(controller) as on:
            controller.script(DESCRIBE_QUORUM, *[SILENCE] * 100)
            waiting = asyncio.create_task(on.call(DESCRIBE_QUORUM, DescribeQuorum()))
            await controller.count(DESCRIBE_QUORUM, 1)
        await asyncio.gather(waiting, return_exceptions=True)

    play(story)


FATAL = [
    pytest.param(
        BROKER_REGISTRATION,
        ClusterAuthorizationFailed(principal="User:x", operation="CLUSTER_ACTION"),
        4,
        "User:ANONYMOUS lacks CLUSTER_ACTION",
        id="registration-denied",
    ),
    pytest.param(
        BROKER_HEARTBEAT,
        ClusterAuthorizationFailed(principal="User:x", operation="CLUSTER_ACTION"),
        4,
        "User:ANONYMOUS lacks CLUSTER_ACTION",
        id="heartbeat-denied",
    ),
    pytest.param(
        ALLOCATE_PRODUCER_IDS,
        ClusterAuthorizationFailed(principal="User:x", operation="CLUSTER_ACTION"),
        4,
        "User:ANONYMOUS lacks CLUSTER_ACTION",
        id="allocation-denied",
    ),
    pytest.param(BROKER_REGISTRATION, InconsistentClusterId(), 1, CLUSTER_ID, id="another-cluster"),
]


@pytest.mark.parametrize(("api", "refusal", "exit_code", "words"), FATAL)
def test_a_refusal_that_no_retry_cures_is_fatal(
    api: Any, refusal: ApiError, exit_code: int, words: str
) -> None:
    async def story() -> None:
        controller = FakeController()
        controller.script(api, refusal)
        async with stage(controller) as on:
            reason = await on.broker.fatal
            assert isinstance(reason, ExitReason)
            assert reason.exit_code == exit_code
            assert words in reason.message

    play(story)


def test_a_task_that_fails_by_a_bug_is_fatal_and_not_silent() -> None:
    async def story() -> None:
        controller = FakeController()
        async with stage(controller) as on:
            on.broker._cache.refresh = None  # type: ignore[assignment, method-assign]
            on.broker._registration._on_heartbeat = None  # type: ignore[assignment]
            reason = await on.broker.fatal
            assert reason.exit_code == 1
            assert "TypeError" in reason.message
            assert on.events("broker_task_failed")

    play(story)


def test_a_stop_takes_leave_and_the_registration_stays() -> None:
    async def story() -> None:
        controller = FakeController()
        async with stage(controller) as on:
            await on.broker.ready()
        assert controller.asked[63][-1].want_shut_down
        assert len(controller.asked[62]) == 1

    play(story)


def test_a_stop_without_controllers_ends_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fencepost.broker.main.LEAVE_S_MAX", 0.05)

    async def story() -> None:
        controller = FakeController()
        async with stage(controller) as on:
            await on.broker.ready()
            await controller.stop()
        assert on.events("broker_left_unnoticed")

    play(story)


def test_a_taken_port_is_an_oserror_at_start(tmp_path: Path) -> None:
    async def story() -> None:
        controller = FakeController()
        async with controller:
            config = config_for(controller, tmp_path)
            with socket.socket() as taken:
                assert config.client_listener is not None
                taken.bind(config.client_listener.address)
                taken.listen()
                staged = Stage(controller, config)
                with pytest.raises(OSError, match="in use"):
                    await staged.broker.start()
                await staged.broker.stop()

    play(story)


def test_a_broker_speaks_as_its_own_principal_and_asks_its_clients_for_theirs(tmp_path: Path) -> None:
    async def story() -> None:
        write_secret(tmp_path / "password", "hunter2\n")
        write_secret(tmp_path / "users", "# who may\nalice=secret\n")
        controller = FakeController(credentials={"broker-1": "hunter2"})
        settings: dict[str, Any] = {
            "sasl_username": "broker-1",
            "sasl_password_file": tmp_path / "password",
            "sasl_users_file": tmp_path / "users",
            "security_protocols": (("PLAINTEXT", "SASL_PLAINTEXT"),),
        }
        async with stage(controller, **settings) as on:
            await on.broker.ready()
            assert {context.principal for context in controller.contexts[62]} == {"User:broker-1"}
            assert controller.asked[62][0].endpoints[0].security_protocol == 2
            (await on.client(Login("alice", "secret"))).close()
            with pytest.raises(SaslAuthenticationFailed):
                await on.client(Login("alice", "wrong"))

    play(story)
