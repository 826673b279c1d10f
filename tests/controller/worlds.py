"""Images in memory, built by the very records that build them in life."""

import uuid
from collections.abc import Callable, Iterable
from random import Random

from hypothesis import strategies as st

from fencepost.controller import brokers, producer_ids
from fencepost.controller.brokers import (
    Endpoint,
    Feature,
    Heartbeat,
    HeartbeatTracker,
    RegisterBroker,
    UnregisterBroker,
)
from fencepost.controller.decision import Decision
from fencepost.controller.errors import ApiError
from fencepost.controller.producer_ids import AllocateProducerIds
from fencepost.controller.replay import replay_record
from fencepost.controller.topic_creation import TopicRules, decide_create
from fencepost.controller.topic_deletion import decide_delete
from fencepost.controller.topics import CreateTopics, DeleteTopics, NewTopic
from fencepost.controller.view import EmptyView, ImageHeader, MutableView, Overlay, View
from fencepost.records.logged import StateRecord
from fencepost.records.partition_report import PartitionReport, encode_reports
from fencepost.records.schema import (
    AllocateProducerIdsRecord,
    BrokerRegistrationChangeRecord,
    FeatureLevelRecord,
    MetadataRecord,
    RegisterBrokerRecord,
)
from fencepost.records.types import BrokerEpoch, BrokerId, ImageVersion, Log, NodeId, ProducerId, Term
from fencepost.snapshots.rows import TABLES

CLUSTER = "the-cluster"
HERE, ELSEWHERE = uuid.UUID(int=0x1), uuid.UUID(int=0x2)
FIRST_LIFE, SECOND_LIFE = uuid.UUID(int=0xA1), uuid.UUID(int=0xA2)
ENDPOINT = Endpoint("PLAINTEXT", "127.0.0.1", 9092)


def image(*records: MetadataRecord, log_end: int = 0) -> Overlay:
    """The image after these records. ``log_end`` is the next offset of the metadata log."""
    view = Overlay(EmptyView())
    view.header = ImageHeader(ImageVersion(len(records)), Term(1), NodeId(1), (log_end, 0, 0))
    for record in records:
        replay_record(view, record)
    return view


def registered(
    broker_id: int = 1, epoch: int = 100, *, incarnation: uuid.UUID = FIRST_LIFE, fenced: bool = True
) -> RegisterBrokerRecord:
    """A broker registered from directory HERE."""
    return RegisterBrokerRecord(
        broker_id=BrokerId(broker_id),
        incarnation_id=incarnation,
        broker_epoch=BrokerEpoch(epoch),
        end_points=(),
        features=(),
        fenced=fenced,
        log_dirs=(HERE,),
    )


def changed(broker_id: int = 1, epoch: int = 100, *, fenced: int = 0, leaving: int = 0) -> MetadataRecord:
    """A broker was fenced (1), unfenced (-1), or began to shut down."""
    return BrokerRegistrationChangeRecord(
        broker_id=BrokerId(broker_id),
        broker_epoch=BrokerEpoch(epoch),
        fenced=fenced,
        in_controlled_shutdown=leaving,
    )


def reported(
    *reports: PartitionReport, broker_id: int = 1, epoch: int = 100
) -> BrokerRegistrationChangeRecord:
    """A broker reported on partitions."""
    return BrokerRegistrationChangeRecord(
        broker_id=BrokerId(broker_id),
        broker_epoch=BrokerEpoch(epoch),
        partition_reports=encode_reports(reports),
    )


def allocated(end: int, broker_id: int = 1, epoch: int = 100) -> AllocateProducerIdsRecord:
    """Everything below ``end`` is handed out."""
    return AllocateProducerIdsRecord(
        broker_id=BrokerId(broker_id), broker_epoch=BrokerEpoch(epoch), producer_id_end=ProducerId(end)
    )


def level(name: str, number: int) -> FeatureLevelRecord:
    """A feature was finalized."""
    return FeatureLevelRecord(name=name, feature_level=number)


def registration(
    broker_id: int = 1,
    *,
    cluster_id: str = CLUSTER,
    incarnation: uuid.UUID = SECOND_LIFE,
    directory: uuid.UUID = HERE,
    endpoints: tuple[Endpoint, ...] = (ENDPOINT,),
    features: tuple[Feature, ...] = (),
    rack: str | None = None,
) -> RegisterBroker:
    """A request to register."""
    return RegisterBroker(BrokerId(broker_id), cluster_id, incarnation, directory, endpoints, features, rack)


# -- any history -----------------------------------------------------------------------------------------

Step = Callable[[View, int], Decision[object]]

broker_ids = st.integers(1, 3).map(BrokerId)
lives = st.integers(1, 4).map(lambda number: uuid.UUID(int=number))


def _register(broker_id: BrokerId, incarnation: uuid.UUID, directory: uuid.UUID) -> Step:
    heartbeats = HeartbeatTracker(0, 1)  # no broker lives: any directory may take over

    def decide(view: View, now_ms: int) -> Decision[object]:
        request = registration(broker_id, incarnation=incarnation, directory=directory)
        decided = brokers.decide_register(
            view, request, cluster_id=CLUSTER, heartbeats=heartbeats, now_ms=now_ms + 10
        )
        return Decision(decided.records, decided.response)

    return decide


def _epoch(view: View, broker_id: BrokerId) -> BrokerEpoch:
    broker = view.get(brokers.BROKERS, broker_id)
    return BrokerEpoch(-1) if broker is None else broker.epoch


def _allocate(broker_id: BrokerId, length: int) -> Step:
    def decide(view: View, _now_ms: int) -> Decision[object]:
        request = AllocateProducerIds(broker_id, _epoch(view, broker_id))
        decided = producer_ids.decide_allocate(view, request, length)
        return Decision(decided.records, decided.response)

    return decide


def _heartbeat(broker_id: BrokerId, want_fence: bool, want_shut_down: bool) -> Step:
    def decide(view: View, _now_ms: int) -> Decision[object]:
        epoch = _epoch(view, broker_id)
        decided = brokers.decide_heartbeat(
            view, Heartbeat(broker_id, epoch, epoch, want_fence, want_shut_down)
        )
        return Decision(decided.records, decided.response)

    return decide


def _unregister(broker_id: BrokerId) -> Step:
    def decide(view: View, _now_ms: int) -> Decision[object]:
        decided = brokers.decide_unregister(view, UnregisterBroker(broker_id))
        return Decision(decided.records, decided.response)

    return decide


def _create_topic(name: str, partition_count: int, seed: int) -> Step:
    def decide(view: View, _now_ms: int) -> Decision[object]:
        new = NewTopic(name, partition_count, 1, configs=(("retention.ms", str(seed)),))
        decided = decide_create(view, CreateTopics((new,)), TopicRules(), Random(seed))
        return Decision(decided.records, decided.response)

    return decide


def _delete_topic(name: str) -> Step:
    def decide(view: View, _now_ms: int) -> Decision[object]:
        decided = decide_delete(view, DeleteTopics((name,)), TopicRules())
        return Decision(decided.records, decided.response)

    return decide


topic_names = st.sampled_from(["a", "b.c", "b_c", "d"])
steps: st.SearchStrategy[Step] = st.one_of(
    st.builds(_register, broker_ids, lives, st.sampled_from([HERE, ELSEWHERE])),
    st.builds(_allocate, broker_ids, st.integers(1, 5000)),
    st.builds(_heartbeat, broker_ids, st.booleans(), st.booleans()),
    st.builds(_unregister, broker_ids),
    st.builds(_create_topic, topic_names, st.integers(1, 4), st.integers(0, 2**32)),
    st.builds(_delete_topic, topic_names),
)
histories = st.lists(steps, max_size=30)


def live_through(view: MutableView, history: Iterable[Step]) -> list[StateRecord]:
    """Decide and replay one step after another; the records that came of it. Refusals write nothing."""
    written: list[StateRecord] = []
    for now_ms, step in enumerate(history):
        try:
            decided = step(view, now_ms)
        except ApiError:
            continue
        for record in decided.records:
            replay_record(view, record)
        written += decided.records
        header = view.header
        end = header.log_end(Log.METADATA) + len(decided.records)
        version = ImageVersion(header.version + 1)
        view.header = ImageHeader(version, header.controller_epoch, header.leader_id, (end, 0, 0))
    return written


def rows(view: View) -> dict[str, list[tuple[object, object]]]:
    """Every row of every table."""
    return {name: list(view.items(table)) for name, table in TABLES.items()}
