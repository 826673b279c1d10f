"""Brokers: who they are, in which incarnation, fenced or not.

Invariant   a broker's epoch is the offset of its RegisterBrokerRecord, so no two registrations share one.
Contact     is soft: kept by the active controller, per leadership, never in the log. What is in the
            log is its consequence: registered, fenced, unfenced, unregistered.
Replacing   a new incarnation from the same directory replaces the old one at once (the directory's
            lock proves the old one dead); from another directory it waits for the session to end.
Source      Kafka ClusterControlManager, BrokerHeartbeatManager; docs/kafka-notes.md G5.
"""

import uuid
from dataclasses import dataclass, field
from typing import Final

import msgspec

from fencepost.controller import cluster_version, features
from fencepost.controller.decision import Decision
from fencepost.controller.errors import (
    BrokerIdNotRegistered,
    DuplicateBrokerRegistration,
    InconsistentClusterId,
    InvalidRegistration,
    StaleBrokerEpoch,
)
from fencepost.controller.view import MutableView, Table, View, decode_int_key, encode_int_key
from fencepost.records.invariant import invariant
from fencepost.records.partition_report import PartitionReport
from fencepost.records.schema import (
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    MetadataRecord,
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
)
from fencepost.records.types import BrokerEpoch, BrokerId, Log

BROKERS_MAX: Final = 1000  # registrations kept; bounds every walk over them
ENDPOINTS_MAX: Final = 16
REGISTRATION_FEATURES_MAX: Final = 100  # Kafka's brokers name about ten
NAME_CHARACTERS_MAX: Final = 255  # of a listener, host, feature or rack; a DNS name's own bound
# Together they bound a registration to some 150 KB, so that any number of them fits into Raft entries.
FENCE: Final = 1  # BrokerRegistrationChangeRecord.fenced: Kafka's BrokerRegistrationFencingChange
UNFENCE: Final = -1


class Endpoint(msgspec.Struct, frozen=True, array_like=True):
    """The address of one of a broker's listeners."""

    name: str
    host: str
    port: int
    security_protocol: int = 0  # Kafka SecurityProtocol id: 0 PLAINTEXT, 2 SASL_PLAINTEXT


class Feature(msgspec.Struct, frozen=True, array_like=True):
    """The levels of a feature that a broker supports, both inclusive."""

    name: str
    min_supported_version: int
    max_supported_version: int


class Broker(msgspec.Struct, frozen=True, array_like=True):
    """One registration, as the image keeps it."""

    broker_id: BrokerId
    epoch: BrokerEpoch
    incarnation_id: uuid.UUID
    directory_id: uuid.UUID
    endpoints: tuple[Endpoint, ...]  # the first is the one that brokers use among themselves
    features: tuple[Feature, ...]
    rack: str | None
    fenced: bool
    in_controlled_shutdown: bool


BROKERS: Final[Table[BrokerId, Broker]] = Table(
    "brokers", Broker, encode_int_key, lambda k: BrokerId(decode_int_key(k))
)


@dataclass(frozen=True, slots=True)
class RegisterBroker:
    """API key 62. ``directory_id`` is the first of the request's log directories."""

    broker_id: BrokerId
    cluster_id: str
    incarnation_id: uuid.UUID
    directory_id: uuid.UUID
    endpoints: tuple[Endpoint, ...]
    features: tuple[Feature, ...] = ()
    rack: str | None = None
    previous_epoch: BrokerEpoch = BrokerEpoch(-1)


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A broker's heartbeat (API key 63)."""

    broker_id: BrokerId
    broker_epoch: BrokerEpoch
    current_metadata_offset: int
    want_fence: bool = False
    want_shut_down: bool = False
    reports: tuple[PartitionReport, ...] = ()  # see partition_reports.py


@dataclass(frozen=True, slots=True)
class HeartbeatStatus:
    """The controller's answer to a heartbeat."""

    is_caught_up: bool
    is_fenced: bool
    should_shut_down: bool
    cluster_version: int = -1  # see cluster_version.py; -1 if the controller does not send it
    agreed_ms: int = -1  # what time a majority of voters has, see clocks.py; -1: none has, or it is not sent
    settings_digest: int = -1  # of what is set for the broker, see broker_configs.py; -1: it is not sent


@dataclass(frozen=True, slots=True)
class UnregisterBroker:
    """An operator removes a broker that will not return (API key 64)."""

    broker_id: BrokerId


@dataclass(slots=True)
class HeartbeatTracker:
    """When each broker last sent a request, in milliseconds of this leadership's clock.

    Activation counts as one: a new leader gives every broker one whole session (docs/design.md 2).
    """

    activated_ms: int
    session_timeout_ms: int
    _heartbeats_ms: dict[BrokerId, int] = field(default_factory=dict)

    def record_heartbeat(self, broker_id: BrokerId, now_ms: int) -> None:
        """Note that the broker registered or sent a heartbeat."""
        self._heartbeats_ms[broker_id] = now_ms

    def lives(self, broker_id: BrokerId, now_ms: int) -> bool:
        """Its session has not timed out."""
        heartbeat_ms = self._heartbeats_ms.get(broker_id, self.activated_ms)
        return now_ms - heartbeat_ms < self.session_timeout_ms


def require_epoch(view: View, broker_id: BrokerId, sent: BrokerEpoch) -> Broker:
    """The registration that ``sent`` belongs to. Raises StaleBrokerEpoch (77), unknown included."""
    broker = view.get(BROKERS, broker_id) if broker_id >= 0 else None
    if broker is None or broker.epoch != sent:
        current = None if broker is None else broker.epoch
        raise StaleBrokerEpoch(broker_id=broker_id, sent=sent, current=current)
    return broker


def endpoint_on(broker: Broker, listener_name: str) -> tuple[Endpoint, ...]:
    """The broker's endpoint of that listener, or none. "": the one that brokers use among themselves.

    A broker with one endpoint has it on every listener, whatever its name: clients have no other.
    """
    if not listener_name or len(broker.endpoints) == 1:
        return broker.endpoints[:1]
    return tuple(each for each in broker.endpoints if each.name == listener_name)[:1]


def decide_register(
    view: View, request: RegisterBroker, *, cluster_id: str, heartbeats: HeartbeatTracker, now_ms: int
) -> Decision[BrokerEpoch]:
    """Register, or register again. The same incarnation keeps its epoch (a retry writes nothing).

    Raises InconsistentClusterId, InvalidRegistration, UnsupportedVersion, DuplicateBrokerRegistration.
    """
    _require_valid(view, request, cluster_id)
    existing = view.get(BROKERS, request.broker_id)
    if existing is not None:
        if existing.incarnation_id == request.incarnation_id:
            return Decision((), existing.epoch)
        elsewhere = existing.directory_id != request.directory_id
        if elsewhere and heartbeats.lives(request.broker_id, now_ms):
            raise DuplicateBrokerRegistration(
                f"broker {request.broker_id} is alive in directory {existing.directory_id}; a process "
                f"with directory {request.directory_id} must stop, or wait until that session ends"
            )
    epoch = BrokerEpoch(view.header.log_end(Log.METADATA))
    record = RegisterBrokerRecord(
        broker_id=request.broker_id,
        incarnation_id=request.incarnation_id,
        broker_epoch=epoch,
        end_points=tuple(
            BrokerEndpoint(name=e.name, host=e.host, port=e.port, security_protocol=e.security_protocol)
            for e in request.endpoints
        ),
        features=tuple(
            BrokerFeature(
                name=f.name,
                min_supported_version=f.min_supported_version,
                max_supported_version=f.max_supported_version,
            )
            for f in request.features
        ),
        rack=request.rack,
        log_dirs=(request.directory_id,),
    )
    return Decision((record,), epoch)


def _require_valid(view: View, request: RegisterBroker, cluster_id: str) -> None:
    if request.cluster_id != cluster_id:
        raise InconsistentClusterId(
            f"broker {request.broker_id} belongs to cluster {request.cluster_id}, this is {cluster_id}"
        )
    if request.broker_id < 0:
        raise InvalidRegistration(f"broker id {request.broker_id} is negative")
    if not 1 <= len(request.endpoints) <= ENDPOINTS_MAX:
        raise InvalidRegistration(f"{len(request.endpoints)} endpoints; expected 1 to {ENDPOINTS_MAX}")
    if len(request.features) > REGISTRATION_FEATURES_MAX:
        raise InvalidRegistration(
            f"{len(request.features)} features; at most {REGISTRATION_FEATURES_MAX} are kept"
        )
    names = [text for e in request.endpoints for text in (e.name, e.host)]
    names += [request.rack or "", *(f.name for f in request.features)]
    longest = max(map(len, names))
    if longest > NAME_CHARACTERS_MAX:
        raise InvalidRegistration(
            f"a name of {longest} characters; listeners, hosts, features and racks have at most "
            f"{NAME_CHARACTERS_MAX}"
        )
    features.require_supported(
        view, {f.name: (f.min_supported_version, f.max_supported_version) for f in request.features}
    )
    if view.get(BROKERS, request.broker_id) is None and sum(1 for _ in view.items(BROKERS)) >= BROKERS_MAX:
        raise InvalidRegistration(f"{BROKERS_MAX} brokers are registered already; unregister one first")


def decide_heartbeat(view: View, request: Heartbeat) -> Decision[HeartbeatStatus]:
    """Unfence a broker that is caught up, fence one that requests it. Raises StaleBrokerEpoch.

    The caller notes the heartbeat's time. Caught up: the broker saw its own registration's offset.
    """
    broker = require_epoch(view, request.broker_id, request.broker_epoch)
    caught_up = request.current_metadata_offset >= broker.epoch
    if request.want_shut_down:
        leaving: tuple[MetadataRecord, ...] = ()
        if not (broker.fenced and broker.in_controlled_shutdown):
            leaving = (_change(broker, 0 if broker.fenced else FENCE, in_controlled_shutdown=1),)
        return Decision(leaving, HeartbeatStatus(caught_up, is_fenced=True, should_shut_down=True))
    if request.want_fence or not caught_up:
        fencing: tuple[MetadataRecord, ...] = ()
        if request.want_fence and not broker.fenced:
            fencing = (_change(broker, FENCE),)
        fenced = broker.fenced or request.want_fence
        return Decision(fencing, HeartbeatStatus(caught_up, fenced, should_shut_down=False))
    unfencing = (_change(broker, UNFENCE),) if broker.fenced else ()
    return Decision(unfencing, HeartbeatStatus(caught_up, is_fenced=False, should_shut_down=False))


def decide_unregister(view: View, request: UnregisterBroker) -> Decision[None]:
    """Remove a registration. Raises BrokerIdNotRegistered."""
    broker = view.get(BROKERS, request.broker_id) if request.broker_id >= 0 else None
    if broker is None:
        raise BrokerIdNotRegistered(f"broker {request.broker_id} is not registered")
    record = UnregisterBrokerRecord(broker_id=broker.broker_id, broker_epoch=broker.epoch)
    return Decision((record,), None)


def silent(view: View, heartbeats: HeartbeatTracker, now_ms: int) -> tuple[BrokerId, ...]:
    """The unfenced brokers whose session timed out."""
    return tuple(
        broker_id
        for broker_id, broker in view.items(BROKERS)
        if not broker.fenced and not heartbeats.lives(broker_id, now_ms)
    )


def decide_expire(
    view: View, heartbeats: HeartbeatTracker, now_ms: int, broker_ids: tuple[BrokerId, ...] | None = None
) -> Decision[tuple[BrokerId, ...]]:
    """Fence every unfenced broker whose session timed out, of these or of all; the response names them."""
    fenced = [
        broker
        for broker_id in silent(view, heartbeats, now_ms)
        if (broker_ids is None or broker_id in broker_ids) and (broker := view.get(BROKERS, broker_id))
    ]
    return Decision(tuple(_change(b, FENCE) for b in fenced), tuple(b.broker_id for b in fenced))


def _change(
    broker: Broker, fenced: int, *, in_controlled_shutdown: int = 0
) -> BrokerRegistrationChangeRecord:
    return BrokerRegistrationChangeRecord(
        broker_id=broker.broker_id,
        broker_epoch=broker.epoch,
        fenced=fenced,
        in_controlled_shutdown=in_controlled_shutdown,
    )


def replay_register(view: MutableView, record: RegisterBrokerRecord) -> None:
    """Total. The registration replaces any earlier one of the same broker id."""
    cluster_version.advance(view)
    view.put(
        BROKERS,
        record.broker_id,
        Broker(
            broker_id=record.broker_id,
            epoch=record.broker_epoch,
            incarnation_id=record.incarnation_id,
            directory_id=(record.log_dirs[0] if record.log_dirs else None) or uuid.UUID(int=0),
            endpoints=tuple(Endpoint(e.name, e.host, e.port, e.security_protocol) for e in record.end_points),
            features=tuple(
                Feature(f.name, f.min_supported_version, f.max_supported_version) for f in record.features
            ),
            rack=record.rack,
            fenced=record.fenced,
            in_controlled_shutdown=record.in_controlled_shutdown,
        ),
    )


def replay_change(view: MutableView, record: BrokerRegistrationChangeRecord) -> None:
    """Total. Kafka's rule: the epoch must be the current one."""
    if not record.partition_reports:  # which change no registration
        cluster_version.advance(view)
    broker = view.get(BROKERS, record.broker_id)
    invariant(
        broker is not None and broker.epoch == record.broker_epoch,
        "a change for a broker or epoch that is not registered",
        record=record,
        broker=broker,
    )
    if broker is None:
        return
    fenced = broker.fenced if record.fenced == 0 else record.fenced == FENCE
    leaving = broker.in_controlled_shutdown if record.in_controlled_shutdown == 0 else True
    changed = msgspec.structs.replace(broker, fenced=fenced, in_controlled_shutdown=leaving and fenced)
    view.put(BROKERS, record.broker_id, changed)


def replay_unregister(view: MutableView, record: UnregisterBrokerRecord) -> None:
    """Remove the broker. Total: a committed record always applies."""
    cluster_version.advance(view)
    broker = view.get(BROKERS, record.broker_id)
    invariant(
        broker is not None and broker.epoch == record.broker_epoch,
        "an unregistration for a broker or epoch that is not registered",
        record=record,
        broker=broker,
    )
    view.delete(BROKERS, record.broker_id)
