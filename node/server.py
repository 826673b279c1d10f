"""The controller listener's service: Kafka requests in, decisions of the active controller out.

Each endpoint checks the principal, then submits a decision; its answer leaves when the entry of its
batch is applied (quorum/proposer.py). What is answered at once does not depend on the image: a
refused principal, and who leads as far as this node knows (DescribeCluster of controllers).
"""

from __future__ import annotations  # or each request computes those of the functions made for it

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from random import Random
from typing import Final

from structlog.typing import FilteringBoundLogger

from fencepost.bridge.migrator import Migrator
from fencepost.bridge.zookeeper_port import ZookeeperPort
from fencepost.controller import broker_configs, brokers, cluster_version, partition_reports, producer_ids
from fencepost.controller.authorization import Acls, Operation
from fencepost.controller.brokers import (
    Heartbeat,
    HeartbeatStatus,
    HeartbeatTracker,
    RegisterBroker,
    UnregisterBroker,
)
from fencepost.controller.decision import Decision
from fencepost.controller.errors import ApiError, ErrorCode, NotController
from fencepost.controller.partition_reports import EndTimes
from fencepost.controller.producer_ids import AllocateProducerIds, ProducerIdBlock
from fencepost.controller.quota import AllocationQuota
from fencepost.controller.view import View
from fencepost.coordinator.marker_sender import CallLater
from fencepost.coordinator.topic_descriptions import TopicDescriptions
from fencepost.coordinator.topic_server import TopicServer
from fencepost.node.feature_server import FeatureServer
from fencepost.node.metrics import OUTCOMES, NodeMetrics
from fencepost.node.quorum_server import QuorumServer
from fencepost.quorum.crash_points import Reach
from fencepost.quorum.port import Outcome, Submit
from fencepost.quorum.replica import Replica
from fencepost.quorum.sweep import Sweep
from fencepost.records.schema import MetadataRecord
from fencepost.records.types import BrokerEpoch, BrokerId, NodeId
from fencepost.settings.config import NodeConfig
from fencepost.wire.dispatch import Context, Reply, Service, Then, served
from fencepost.wire.k03_metadata import METADATA, BrokerNode, Metadata, MetadataAnswer, TopicMetadata
from fencepost.wire.k62_broker_registration import BROKER_REGISTRATION
from fencepost.wire.k63_broker_heartbeat import BROKER_HEARTBEAT
from fencepost.wire.k64_unregister_broker import UNREGISTER_BROKER
from fencepost.wire.k67_allocate_producer_ids import ALLOCATE_PRODUCER_IDS
from fencepost.wire.k20021_migrate import MIGRATE, Migrate, Migrated

STALL_MS: Final = 2_000  # between two calls of ``sweep``, which come twice a second


class ControllerServer:
    """Endpoints of one node. Soft state (contacts, quota) is of one leadership: ``activated`` starts anew."""

    def __init__(
        self,
        config: NodeConfig,
        cluster_id: str,
        replica: Replica,
        submit: Submit,
        metrics: NodeMetrics,
        acls: Acls,
        controllers: Callable[[], dict[NodeId, tuple[str, int]]],
        *,
        call_later: CallLater,
        zookeeper: ZookeeperPort | None,
        clock: Callable[[], float],
        reach: Reach,
        rng: Random,
        log: FilteringBoundLogger,
    ) -> None:
        descriptions = TopicDescriptions(
            lambda: replica.image, lambda: replica.proposer.active, submit, call_later
        )
        self.topics = TopicServer(config, submit, acls, rng, descriptions)
        self.features = FeatureServer(config.node_id, replica, submit, acls)
        self.quorum = QuorumServer(config, cluster_id, replica, submit, acls, controllers)
        self._config = config
        self._cluster_id = cluster_id
        self._replica = replica
        self._submit = submit
        self._metrics = metrics
        self._acls = acls
        self._controllers = controllers
        self._blocks = dict.fromkeys(OUTCOMES, 0)
        self._sessions = Sweep("broker session", self._decide_expire, submit, replica.quarantine, log)
        self._begin(0)
        self.migrator = Migrator(
            cluster_id,
            zookeeper,
            lambda: replica.image,
            submit,
            charge=self._charge,
            clock=clock,
            reach=reach,
            log=log,
        )

    def activated(self, now_ms: int) -> None:
        """A new leadership: every broker has a whole session, every quota is full."""
        self._begin(now_ms)
        self.migrator.activated()

    def deposed(self) -> None:
        """This node's leadership is over: the migrator stops."""
        self.migrator.deposed()

    def _begin(self, now_ms: int) -> None:
        config = self._config
        self.heartbeats = HeartbeatTracker(now_ms, config.broker_session_timeout_ms)
        self._end_times = EndTimes()
        self._expired_ms = now_ms
        self._quota = AllocationQuota(config.producer_id_allocation_rate, config.producer_id_allocation_burst)

    @property
    def service(self) -> Service:
        """API key to (codec, endpoint)."""
        own = (
            served(ALLOCATE_PRODUCER_IDS, self.allocate),
            served(BROKER_REGISTRATION, self.register),
            served(BROKER_HEARTBEAT, self.heartbeat),
            served(UNREGISTER_BROKER, self.unregister),
            served(METADATA, self.metadata),
            served(MIGRATE, self.migrate),
        )
        return {**dict(own), **self.topics.service, **self.features.service, **self.quorum.service}

    # -- producer ids -------------------------------------------------------------------------------

    def allocate(self, request: AllocateProducerIds, context: Context, reply: Reply[ProducerIdBlock]) -> None:
        """Allocate a block of producer ids (API key 67)."""
        self._acls.require(context.principal, Operation.CLUSTER_ACTION)
        bridged = self.migrator.is_bridge

        def counted(outcome: Outcome[ProducerIdBlock], throttle_ms: int) -> None:
            if isinstance(outcome, ProducerIdBlock):
                self._blocks["throttled" if throttle_ms else "granted"] += 1
            elif bridged:
                self._blocks["refused"] += 1
            reply(outcome, throttle_ms)

        if bridged:
            self.migrator.allocate(request, self._config.producer_id_block_size, counted)
        else:
            self._submit(partial(self._decide_allocate, request), counted, closing=reply)

    def _decide_allocate(
        self, request: AllocateProducerIds, view: View, now_ms: int
    ) -> Decision[ProducerIdBlock]:
        try:
            decided = producer_ids.decide_allocate(view, request, self._config.producer_id_block_size)
        except ApiError:
            self._blocks["refused"] += 1
            raise
        if not self._quota.rate:
            return decided
        throttle_ms = self._quota.charge(request.broker_id, now_ms)
        if not throttle_ms:
            return decided
        return Decision(decided.records, decided.response, throttle_ms=throttle_ms)

    def _charge(self, broker_id: BrokerId, now_ms: int) -> int:
        return self._quota.charge(broker_id, now_ms) if self._quota.rate else 0

    def migrate(self, request: Migrate, context: Context, reply: Reply[Migrated]) -> None:
        """API key 20021: the upgrade from ZooKeeper."""
        looks = request.command == "status"
        self._acls.require(context.principal, Operation.DESCRIBE if looks else Operation.ALTER)
        self.migrator.command(request, reply)

    def publish(self) -> None:
        """Add what was counted to the metrics: once per maintenance tick, not once per request."""
        proposer = self._replica.proposer
        if proposer.violations:
            violations, proposer.violations = proposer.violations, Counter()
            for concern, count in violations.items():
                self._metrics.decisions_failed_total(concern, count)
        if proposer.answers_failed:
            failed, proposer.answers_failed = proposer.answers_failed, 0
            self._metrics.answers_failed_total(failed)
        self._metrics.quarantined_rows(len(self._replica.quarantine))
        for outcome, count in self._blocks.items():
            if count:
                self._metrics.producer_id_blocks_total(outcome, count)
        self._blocks = dict.fromkeys(OUTCOMES, 0)

    # -- brokers ------------------------------------------------------------------------------------

    def register(self, request: RegisterBroker, context: Context, reply: Reply[BrokerEpoch]) -> None:
        """Register a broker (API key 62)."""
        self._acls.require(context.principal, Operation.CLUSTER_ACTION)

        def decide(view: View, now_ms: int) -> Decision[BrokerEpoch]:
            decided = brokers.decide_register(
                view, request, cluster_id=self._cluster_id, heartbeats=self.heartbeats, now_ms=now_ms
            )
            self.heartbeats.record_heartbeat(request.broker_id, now_ms)
            return decided

        self._submit(decide, reply, closing=reply)

    def heartbeat(self, request: Heartbeat, context: Context, reply: Reply[HeartbeatStatus]) -> None:
        """Take a broker's heartbeat (API key 63)."""
        self._acls.require(context.principal, Operation.CLUSTER_ACTION)

        def decide(view: View, now_ms: int) -> Decision[HeartbeatStatus]:
            decided = brokers.decide_heartbeat(view, request)
            self.heartbeats.record_heartbeat(request.broker_id, now_ms)
            reported = self._reported(view, request, now_ms)
            clocks = self._replica.firewall.clocks
            agreed_ms = None if clocks is None else clocks.agreed_ms()
            status = replace(
                decided.response,
                cluster_version=cluster_version.current(view),
                agreed_ms=-1 if agreed_ms is None else agreed_ms,
                settings_digest=broker_configs.digest_of(view, request.broker_id),
            )
            return Decision((*decided.records, *reported), status)

        self._submit(decide, reply, closing=reply)

    def _reported(self, view: View, request: Heartbeat, now_ms: int) -> tuple[MetadataRecord, ...]:
        are_due = self._end_times.are_due(request, now_ms)
        records = partition_reports.records_of(view, request, ends_are_due=are_due)
        if records and are_due:
            self._end_times.note(request, now_ms)
        return records

    def unregister(self, request: UnregisterBroker, context: Context, reply: Reply[None]) -> None:
        """Unregister a broker (API key 64)."""
        self._acls.require(context.principal, Operation.ALTER)
        self._submit(lambda view, now_ms: brokers.decide_unregister(view, request), reply, closing=reply)

    def maintain(self, _now_ms: int) -> None:
        """See driver.Service: nothing of it is as urgent as that."""

    def sweep(self, now_ms: int) -> None:
        """Fence brokers whose session timed out. Proposes only when there are any.

        A call that comes late says that this node stood still, not that brokers were silent: what they sent
        may still wait to be read. So all have a whole session again, as after an activation.
        """
        late, self._expired_ms = now_ms - self._expired_ms > STALL_MS, now_ms
        if late:
            self.heartbeats = HeartbeatTracker(now_ms, self._config.broker_session_timeout_ms)
            return
        passed_by = self._sessions.passed_by()
        silent = brokers.silent(self._replica.image, self.heartbeats, now_ms)
        due = tuple(broker_id for broker_id in silent if str(broker_id) not in passed_by)
        if due:
            self._sessions.run(due, lambda _outcomes: None)

    def _decide_expire(
        self, view: View, now_ms: int, broker_ids: tuple[BrokerId, ...]
    ) -> Decision[tuple[BrokerId, ...]]:
        return brokers.decide_expire(view, self.heartbeats, now_ms, broker_ids)

    def metadata(self, request: Metadata, context: Context, reply: Reply[MetadataAnswer]) -> None:
        """API key 3, which Kafka's controllers lack: topics for brokers, and who leads for Kafka's clients.

        kafka-python's admin is one that finds its way by nothing else: only the leader is named, as only
        the leader can answer what follows, and any node names it. Topics are a linearizable read.
        """
        if request.topics == ():
            reply(self._metadata_answer(()))
            return

        def described(outcome: Outcome[tuple[TopicMetadata, ...]], throttle_ms: int) -> None:
            if isinstance(outcome, NotController):
                requested = tuple(
                    TopicMetadata(
                        name=each.name, topic_id=each.topic_id, error_code=ErrorCode.LEADER_NOT_AVAILABLE
                    )
                    for each in request.topics or ()
                )
                reply(self._metadata_answer(requested, outcome.code), throttle_ms)
            elif isinstance(outcome, ApiError):
                reply(outcome, throttle_ms)
            else:
                reply(self._metadata_answer(outcome), throttle_ms)

        self.topics.describe(request, context, Then(described, reply))

    def _metadata_answer(self, topics: tuple[TopicMetadata, ...], error_code: int = 0) -> MetadataAnswer:
        leader = self._replica.raft.leader_id
        known = self._controllers()
        return MetadataAnswer(
            cluster_id=self._cluster_id,
            controller_id=leader if leader in known else -1,
            brokers=(BrokerNode(leader, *known[leader]),) if leader in known else (),
            topics=topics,
            error_code=error_code,
        )
