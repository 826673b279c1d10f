"""The coordinators of a voter's node: of transactions, and of groups. The active controller's answer.

Listeners   clients of the node reach all of them; the controller listener has the transactions' alone, as the
            message schemas of Kafka say, the ACLs, and users' credentials.
"""

import uuid
from collections.abc import Callable
from itertools import chain
from random import Random

from structlog.typing import FilteringBoundLogger

from fencepost.broker.access.door import Door, rules_of
from fencepost.broker.access.needs import guarded
from fencepost.broker.access.trail import trail_of
from fencepost.broker.access.unguarded import open_to_all
from fencepost.controller import scram, topics
from fencepost.controller.authorization import Acls
from fencepost.controller.groups.joining import GroupLimits
from fencepost.controller.groups.offsets import OffsetRules
from fencepost.controller.scram_types import Mechanism, StoredCredential
from fencepost.coordinator.acl_server import AclServer
from fencepost.coordinator.announcer import Send as SendAnnouncements
from fencepost.coordinator.coordinator_errors import CoordinatorErrors
from fencepost.coordinator.groups.group_counts import GroupCounts
from fencepost.coordinator.groups.group_server import GroupServer, GroupTimes
from fencepost.coordinator.groups.offset_server import OffsetServer
from fencepost.coordinator.groups.offset_timers import OffsetTimers, OffsetTimes
from fencepost.coordinator.marker_sender import CallLater, Send
from fencepost.coordinator.scram_server import ScramServer
from fencepost.coordinator.transaction_server import TransactionServer
from fencepost.coordinator.transaction_timers import TransactionTimes
from fencepost.node.driver import Service as DrivenService
from fencepost.quorum.port import Background, Submit
from fencepost.quorum.replica import Replica
from fencepost.settings.config import NodeConfig
from fencepost.wire.dispatch import CONTROLLER, Service


class Coordinators:
    """See the module. ``driven`` are activated, deposed and given their timers by the driver."""

    def __init__(
        self,
        config: NodeConfig,
        replica: Replica,
        submit: Submit,
        acls: Acls,
        *,
        send: Send,
        send_announcements: SendAnnouncements,
        call_later: CallLater,
        background: Background,
        clock: Callable[[], float],
        may_expire: Callable[[], bool],
        rng: Random,
        log: FilteringBoundLogger,
    ) -> None:
        self.transactions = TransactionServer(
            _transaction_times(config),
            replica,
            submit,
            acls,
            send=send,
            send_announcements=send_announcements,
            call_later=call_later,
            background=background,
            clock=clock,
            may_expire=may_expire,
            serves_two_phase=config.two_phase,
            log=log,
        )
        self.groups = GroupServer(
            _group_times(config), replica, submit, call_later=call_later, clock=clock, rng=rng, log=log
        )
        self.offsets = OffsetServer(
            _rules(config),
            submit,
            CoordinatorErrors(replica),
            self.transactions.requests,
            self.groups.operations.is_preparing,
        )
        offset_timers = OffsetTimers(
            OffsetTimes(
                retention_ms=config.offsets_retention_minutes * 60_000,
                check_interval_ms=config.offsets_retention_check_interval_ms,
            ),
            lambda: replica.image,
            submit,
            call_later,
            quarantine=replica.quarantine,
            clock=clock,
            now_ms=replica.proposer.now_ms,
            slowest_ms=replica.slowest_ms,
            may_expire=may_expire,
            log=log,
        )
        self.offsets.on_committed = self.groups.touch
        self.acls, self._door = _authorizer(config, replica, submit, log)
        self.scram = ScramServer(submit, acls)
        self._replica, self._has_no_acls = replica, acls.allowed is None
        self.driven: tuple[DrivenService, ...] = (self.transactions, self.groups, offset_timers, self.acls)

    def recorded(self, user: str, mechanism: Mechanism) -> StoredCredential | None:
        """The SCRAM credential of a user, as of the node's image."""
        return scram.find(self._replica.image, user, mechanism)

    def group_counts(self) -> GroupCounts:
        """What the coordinator of groups counted since its numbers were last taken."""
        counts = self.groups.counts
        counts.offset_commits, self.offsets.commits = self.offsets.commits, 0
        counts.active = len(self.groups.operations.groups)
        counts.states = self.groups.census.states
        return counts

    def flush_trail(self) -> None:
        """Write what was denied in the last second."""
        if self._door is not None and self._door.trail is not None:
            self._door.trail.flush()

    def controller_service(self, service: Service) -> Service:
        """What the node's controller listener serves: ``service``, and what of the coordinators is for it."""
        every = {**service, **self.transactions.service, **self.acls.service, **self.scram.service}
        if self._door is not None:
            return guarded(every, self._door, CONTROLLER)
        return open_to_all(every) if self._has_no_acls else every

    @property
    def client_service(self) -> Service:
        """What the node's client listener serves."""
        services = (self.transactions.service, self.offsets.service, self.groups.service)
        return dict(chain.from_iterable(each.items() for each in services))


def _authorizer(
    config: NodeConfig, replica: Replica, submit: Submit, log: FilteringBoundLogger
) -> tuple[AclServer, Door | None]:
    now_ms, has_authorizer = replica.proposer.now_ms, config.has_authorizer
    acls = AclServer(lambda: replica.image, submit, now_ms, log, has_authorizer=has_authorizer)
    return acls, _door(config, replica, acls, log)


def _door(config: NodeConfig, replica: Replica, acls: AclServer, log: FilteringBoundLogger) -> Door | None:
    """The controller listener's: it decides by the node's own image. None without an authorizer."""
    rules = rules_of(config)
    if rules is None:
        return None

    def topic_name(topic_id: uuid.UUID) -> str | None:
        topic = topics.find_by_id(replica.image, topic_id)
        return None if topic is None else topic.name

    return Door(
        rules,
        acls.followed,
        topic_name=topic_name,
        has_topic=lambda name: topics.find(replica.image, name) is not None,
        trail=trail_of(config, log),
    )


def _rules(config: NodeConfig) -> OffsetRules:
    return OffsetRules(
        metadata_characters_max=config.offset_metadata_characters_max,
        parks_old_clients=config.unstable_offsets_park_old_clients,
        refuses_all_without_identity=config.group_strict_identity == "all",
    )


def _transaction_times(config: NodeConfig) -> TransactionTimes:
    return TransactionTimes(
        timeout_ms_max=config.transaction_timeout_ms_max,
        timeouts_interval_ms=config.transaction_timeouts_interval_ms,
        expiration_ms=config.transactional_id_expiration_ms,
        expiry_interval_ms=config.transactional_id_expiry_interval_ms,
    )


def _group_times(config: NodeConfig) -> GroupTimes:
    limits = GroupLimits(
        session_timeout_ms_min=config.group_session_timeout_ms_min,
        session_timeout_ms_max=config.group_session_timeout_ms_max,
        members_max=config.group_members_max,
    )
    return GroupTimes(limits=limits, initial_delay_ms=config.group_initial_rebalance_delay_ms)
