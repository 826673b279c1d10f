"""The client listener's service: what real Kafka clients ask any broker.

Answered here from memory: FindCoordinator, DescribeCluster, and InitProducerId of no id and no group.
DescribeQuorum goes to the active controller, whose answer it is (Kafka forwards it, too). Topics are
``topic_requests``', records ``data_plane``'s, transactions the coordinator's, if this node has one.
Source   docs/kafka-notes.md B2, F3, F4; Kafka KafkaApis.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, Final

from structlog.typing import FilteringBoundLogger

from fencepost.broker.cluster_requests import ClusterRequests
from fencepost.broker.data_plane import DataPlane
from fencepost.broker.first_picture import FirstPicture
from fencepost.broker.metadata_cache import MetadataCache
from fencepost.broker.producer_id_source import ProducerIdSource
from fencepost.broker.retry import CALL_FAILURES
from fencepost.broker.topic_requests import TopicRequests
from fencepost.controller.authorization import Operation
from fencepost.controller.errors import (
    ApiError,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    ErrorCode,
    InvalidRequest,
    NotCoordinator,
    RequestTimedOut,
)
from fencepost.controller.feature_updates import UpdateFeatures, UpdateFeaturesAnswer
from fencepost.controller.groups.tables import is_key
from fencepost.records.types import NodeId
from fencepost.wire.client import ControllerClient
from fencepost.wire.dispatch import Api, Context, Endpoint, Q, R, Reply, Service, served
from fencepost.wire.errors import MismatchedEndpointType
from fencepost.wire.k03_metadata import METADATA
from fencepost.wire.k08_offset_commit import OFFSET_COMMIT
from fencepost.wire.k09_offset_fetch import OFFSET_FETCH
from fencepost.wire.k10_find_coordinator import (
    FIND_COORDINATOR,
    GROUP,
    TRANSACTION,
    Coordinator,
    FindCoordinator,
    FindCoordinatorAnswer,
)
from fencepost.wire.k11_join_group import JOIN_GROUP
from fencepost.wire.k12_heartbeat import HEARTBEAT
from fencepost.wire.k13_leave_group import LEAVE_GROUP
from fencepost.wire.k14_sync_group import SYNC_GROUP
from fencepost.wire.k15_describe_groups import DESCRIBE_GROUPS
from fencepost.wire.k16_list_groups import LIST_GROUPS
from fencepost.wire.k22_init_producer_id import (
    INIT_PRODUCER_ID,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    InitProducerId,
    InitProducerIdAnswer,
)
from fencepost.wire.k24_add_partitions_to_txn import ADD_PARTITIONS_TO_TXN
from fencepost.wire.k25_add_offsets_to_txn import ADD_OFFSETS_TO_TXN
from fencepost.wire.k26_end_txn import END_TXN
from fencepost.wire.k28_txn_offset_commit import TXN_OFFSET_COMMIT
from fencepost.wire.k29_describe_acls import DESCRIBE_ACLS
from fencepost.wire.k30_create_acls import CREATE_ACLS
from fencepost.wire.k31_delete_acls import DELETE_ACLS
from fencepost.wire.k42_delete_groups import DELETE_GROUPS
from fencepost.wire.k47_offset_delete import OFFSET_DELETE
from fencepost.wire.k50_describe_user_scram_credentials import DESCRIBE_USER_SCRAM_CREDENTIALS
from fencepost.wire.k51_alter_user_scram_credentials import ALTER_USER_SCRAM_CREDENTIALS
from fencepost.wire.k55_describe_quorum import DESCRIBE_QUORUM, DescribeQuorum, DescribeQuorumAnswer
from fencepost.wire.k57_update_features import UPDATE_FEATURES
from fencepost.wire.k60_describe_cluster import (
    BROKERS,
    DESCRIBE_CLUSTER,
    DescribeCluster,
    DescribeClusterAnswer,
    require_known_type,
)
from fencepost.wire.k64_unregister_broker import UNREGISTER_BROKER
from fencepost.wire.k65_describe_transactions import DESCRIBE_TRANSACTIONS
from fencepost.wire.k66_list_transactions import LIST_TRANSACTIONS

FORWARDED_MAX: Final = 100
"""Requests under way to the controller; one more is refused with 14, which clients retry."""

FORWARD_TIMEOUT_S: Final = 5.0

_COORDINATED: Final[tuple[Api[Any, Any], ...]] = (
    OFFSET_COMMIT,
    OFFSET_FETCH,
    JOIN_GROUP,
    HEARTBEAT,
    LEAVE_GROUP,
    SYNC_GROUP,
    DESCRIBE_GROUPS,
    LIST_GROUPS,
    ADD_PARTITIONS_TO_TXN,
    ADD_OFFSETS_TO_TXN,
    END_TXN,
    TXN_OFFSET_COMMIT,
    DELETE_GROUPS,
    OFFSET_DELETE,
    DESCRIBE_TRANSACTIONS,
    LIST_TRANSACTIONS,
)
"""Served by every node, so that a client which contacts the wrong one learns it, and finds the right one."""

_FORWARDED_WITH: Final[tuple[tuple[Api[Any, Any], Operation], ...]] = (
    (DESCRIBE_USER_SCRAM_CREDENTIALS, Operation.DESCRIBE),
    (ALTER_USER_SCRAM_CREDENTIALS, Operation.ALTER),
    (UNREGISTER_BROKER, Operation.ALTER),
)
"""With what an ACL file must allow."""

_LIST_BROKERS: Final = (METADATA.key, DESCRIBE_CLUSTER.key)


class BrokerServer:
    """Endpoints of the client listener."""

    def __init__(
        self,
        cluster_id: str,
        cache: MetadataCache,
        producer_ids: ProducerIdSource,
        controllers: ControllerClient,
        data: DataPlane,
        *,
        log: FilteringBoundLogger,
        coordinator: Service | None = None,
    ) -> None:
        self._cluster_id = cluster_id
        self._cache = cache
        self._producer_ids = producer_ids
        self._controllers = controllers
        self._data = data
        self._first_picture = FirstPicture(cache)
        self._topic_requests = TopicRequests(
            cluster_id, cache, data.topics, controllers, data.acls, data.own_settings
        )
        self._cluster_requests = ClusterRequests(cache, data.topics, data.acls)
        self._coordinator: Service = coordinator or {}
        self._log = log
        self._forwarded: set[asyncio.Task[None]] = set()

    def service(self) -> Service:
        """By API key. ApiVersions and SASL are the listener's own, transactions the coordinator's."""
        own = (
            served(FIND_COORDINATOR, self._find_coordinator),
            served(INIT_PRODUCER_ID, self._init_producer_id),
            served(DESCRIBE_QUORUM, self._describe_quorum),
            served(UPDATE_FEATURES, self._update_features),
            served(DESCRIBE_CLUSTER, self._describe_cluster),
        )
        forwarded: tuple[Api[Any, Any], ...] = (DESCRIBE_ACLS, CREATE_ACLS, DELETE_ACLS)
        service: dict[int, tuple[Api[Any, Any], Endpoint[Any, Any]]] = {
            **{api.key: (api, self._forwarded_as(api)) for api in forwarded},
            **{api.key: (api, self._forwarded_as(api, needed)) for api, needed in _FORWARDED_WITH},
            **{api.key: (api, _not_coordinator) for api in _COORDINATED},
            **self._coordinator,
            **self._cluster_requests.service(),
            **self._topic_requests.service(),
            **self._data.service(),
            **dict(own),
        }
        for key in _LIST_BROKERS:
            api, endpoint = service[key]
            service[key] = (api, self._first_picture.awaited_by(endpoint))
        return service

    async def stop(self) -> None:
        """Give up what is under way to the controller, or waits to know it."""
        await self._first_picture.stop()
        await self._topic_requests.stop()
        for task in tuple(self._forwarded):
            task.cancel()
        await asyncio.gather(*self._forwarded, return_exceptions=True)

    def _find_coordinator(
        self, request: FindCoordinator, context: Context, reply: Reply[FindCoordinatorAnswer]
    ) -> None:
        if request.key_type not in (GROUP, TRANSACTION):
            raise InvalidRequest(f"key type {request.key_type} has no coordinator here")
        coordinator = self._cache.picture(context.listener).coordinator
        if coordinator is None:
            raise CoordinatorNotAvailable("no active controller is known at the moment")
        where = (coordinator.broker_id, coordinator.host, coordinator.port)
        if not request.by_group:
            reply(FindCoordinatorAnswer(tuple(Coordinator(key, *where) for key in request.keys)))
            return
        if request.key_type != TRANSACTION:
            raise InvalidRequest(f"key type {request.key_type} with the transactions of groups; expected 1")
        reply(FindCoordinatorAnswer(tuple(_of_group(key, where) for key in request.keys)))

    def _init_producer_id(
        self, request: InitProducerId, context: Context, reply: Reply[InitProducerIdAnswer]
    ) -> None:
        """Raises CoordinatorLoadInProgress (14) when no id is at hand: never waits, never says 7."""
        if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
            raise InvalidRequest(
                f"producer id {request.producer_id} with epoch {request.producer_epoch}: both are -1, or none"
            )
        if request.transactional_id is not None or request.member is not None:
            self._ask_coordinator(INIT_PRODUCER_ID.key, request, context, reply)
            return
        reply(InitProducerIdAnswer(self._producer_ids.allocate(), 0))

    def _ask_coordinator(self, key: int, request: Any, context: Context, reply: Reply[Any]) -> None:
        """What concerns a transactional id is the coordinator's: the active controller's node serves it."""
        if key not in self._coordinator:
            _not_coordinator(request, context, reply)
        self._coordinator[key][1](request, context, reply)

    def _describe_cluster(
        self, request: DescribeCluster, context: Context, reply: Reply[DescribeClusterAnswer]
    ) -> None:
        require_known_type(request)
        if request.endpoint_type != BROKERS:
            raise MismatchedEndpointType("this listener knows brokers; a controller's knows controllers")
        picture = self._cache.picture(context.listener)
        reply(
            DescribeClusterAnswer(
                cluster_id=self._cluster_id,
                controller_id=NodeId(picture.controller_id),
                brokers=picture.brokers if request.include_fenced_brokers else picture.visible,
            )
        )

    def _describe_quorum(
        self, request: DescribeQuorum, context: Context, reply: Reply[DescribeQuorumAnswer]
    ) -> None:
        self._forward(DESCRIBE_QUORUM, request, reply)

    def _update_features(
        self, request: UpdateFeatures, context: Context, reply: Reply[UpdateFeaturesAnswer]
    ) -> None:
        self._data.acls.require(context.principal, Operation.ALTER)
        self._forward(UPDATE_FEATURES, request, reply)

    def _forwarded_as(self, api: Api[Q, R], needed: Operation | None = None) -> Endpoint[Q, R]:
        """``needed``: under an ACL file, where it says who may."""

        def forward(request: Q, context: Context, reply: Reply[R]) -> None:
            if needed is not None:
                self._data.acls.require(context.principal, needed)
            self._forward(api, request, reply)

        return forward

    def _forward(self, api: Api[Q, R], request: Q, reply: Reply[R]) -> None:
        if len(self._forwarded) >= FORWARDED_MAX:
            raise CoordinatorLoadInProgress(f"{FORWARDED_MAX} requests are under way to the controller")
        self._spawn(self._forwarding(api, request, reply))

    async def _forwarding(self, api: Api[Q, R], request: Q, reply: Reply[R]) -> None:
        outcome: R | ApiError
        try:
            outcome = await self._controllers.call(api, request, timeout_s=FORWARD_TIMEOUT_S)
        except ApiError as error:
            outcome = error
        except CALL_FAILURES as error:
            outcome = RequestTimedOut(f"the active controller did not answer: {error}")
        reply(outcome)

    def _spawn(self, forwarding: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(forwarding)
        self._forwarded.add(task)
        task.add_done_callback(self._forwarded.discard)


def _of_group(key: str, where: tuple[int, str, int]) -> Coordinator:
    """Where the transactions of a group's members are coordinated; 24 for what no group is named."""
    if not is_key(key):
        return Coordinator(key, error_code=ErrorCode.INVALID_GROUP_ID, error_message="no group has that id")
    return Coordinator(key, *where)


def _not_coordinator(request: Any, context: Context, reply: Reply[Any]) -> None:
    raise NotCoordinator("this node is no controller, so it coordinates no transactions")
