"""Of each API key a request as large as its limits let it be, sent to every listener that serves the key.

What the steps of bench/stalls_load.py send is larger in what it looks up; this is larger in what is read,
decided and refused. Whether such a request is refused or its connection closed does not matter: it must not
stall.
"""

import uuid
from collections.abc import Mapping
from typing import Any, Final

from msgspec.structs import replace

from fencepost.controller.acl_types import Acl, AclFilter, CreateAcls, DeleteAcls, PatternType
from fencepost.controller.acls import AclChange
from fencepost.controller.brokers import Endpoint, Feature, Heartbeat, RegisterBroker, UnregisterBroker
from fencepost.controller.config_changes import (
    RESOURCES_PER_REQUEST_MAX,
    AlterConfigs,
    ConfigChange,
    ResourceChanges,
)
from fencepost.controller.feature_updates import UPDATES_MAX, FeatureUpdate, UpdateFeatures
from fencepost.controller.groups import offset_messages as offsets
from fencepost.controller.groups.describe import DescribeGroups, ListGroups
from fencepost.controller.groups.heartbeat import HeartbeatGroup
from fencepost.controller.groups.joining import JoinGroup
from fencepost.controller.groups.leaving import LeaveGroup, Leaver
from fencepost.controller.groups.syncing import SyncGroup
from fencepost.controller.partition_creation import CreatePartitions, NewPartitions
from fencepost.controller.partition_recovery import RecoverPartition
from fencepost.controller.producer_ids import AllocateProducerIds
from fencepost.controller.scram import CHANGES_MAX
from fencepost.controller.scram_types import AlterScram, DescribeScram, ScramUpsertion
from fencepost.controller.topics import TOPIC_RESOURCE, CreateTopics, DeleteTopics, NewTopic
from fencepost.controller.transactions.add_partitions import AddPartitions, AddPartitionsToTxn
from fencepost.controller.transactions.describe import DescribeTransactions, ListTransactions
from fencepost.controller.transactions.end_txn import EndTxn
from fencepost.controller.transactions.group_init import MemberAssignment
from fencepost.controller.transactions.init_request import InitProducerId
from fencepost.records.transaction_log import TopicPartitions
from fencepost.records.types import BrokerEpoch, BrokerId, NodeId, Offset, ProducerId
from fencepost.wire.auth import TOKEN_BYTES_MAX
from fencepost.wire.k00_produce import PartitionData, Produce
from fencepost.wire.k01_fetch import Fetch, FetchPartition
from fencepost.wire.k02_list_offsets import LATEST, ListOffsets, OffsetQuery
from fencepost.wire.k03_metadata import Metadata, TopicQuery
from fencepost.wire.k10_find_coordinator import TRANSACTION, FindCoordinator
from fencepost.wire.k17_sasl_handshake import SaslHandshake
from fencepost.wire.k18_api_versions import ApiVersions
from fencepost.wire.k21_delete_records import DeleteRecords, RecordsToDelete
from fencepost.wire.k23_offset_for_leader_epoch import EpochQuery, OffsetForLeaderEpoch
from fencepost.wire.k27_write_txn_markers import TxnMarker, WriteTxnMarkers
from fencepost.wire.k31_delete_acls import FILTERS_MAX
from fencepost.wire.k32_describe_configs import RESOURCES_MAX, ConfigResource, DescribeConfigs
from fencepost.wire.k35_describe_log_dirs import DescribeLogDirs
from fencepost.wire.k36_sasl_authenticate import SaslAuthenticate
from fencepost.wire.k43_elect_leaders import ElectLeaders
from fencepost.wire.k46_list_partition_reassignments import ListPartitionReassignments
from fencepost.wire.k48_describe_client_quotas import DescribeClientQuotas, QuotaComponent
from fencepost.wire.k55_describe_quorum import DescribeQuorum
from fencepost.wire.k55_describe_quorum import TopicPartitions as QuorumPartitions
from fencepost.wire.k60_describe_cluster import DescribeCluster
from fencepost.wire.k61_describe_producers import DescribeProducers
from fencepost.wire.k74_list_config_resources import ListConfigResources
from fencepost.wire.k75_describe_topic_partitions import DescribeTopicPartitions
from fencepost.wire.k20021_migrate import Migrate
from fencepost.wire.k20024_announce_partitions import Announcement, AnnouncePartitions
from fencepost.wire.k20027_force_markers import ForceMarkers
from fencepost.wire.k20029_follow_acls import FollowAcls
from fencepost.wire.k20037_prove_secret import FIELD_BYTES_MAX, ProveSecret
from fencepost.wire.k20051_follow_scram_users import FollowScramUsers
from fencepost.wire.k20055_move_leader import MoveLeader
from fencepost.wire.k20057_log_levels import AskLogLevels
from fencepost.wire.k20065_explain_transaction import ExplainTransaction
from fencepost.wire.k20066_list_set_aside import ListSetAside

LOOKED_UP: Final = 2_490  # topics with a partition each, of requests that look each of them up
LISTED: Final = 4_990  # names alone, of such requests
ID_BYTES: Final = 394
SUBSCRIPTION_BYTES: Final = 50_000
PRODUCER: Final = ProducerId(1 << 40)
SALTED: Final = bytes(32)
STRANGER: Final = BrokerId(1_000_000)  # a broker that no cluster has

NEVER_ANSWERED: Final = frozenset((20024,))


def topic(number: int) -> str:
    """A name of 249 characters that no topic has."""
    return f"{number:06}".ljust(249, "n")


def transactional_id(number: int) -> str:
    """An id of 400 bytes that none has."""
    return f"{number:06}".ljust(ID_BYTES + 6, "i")


def worst(cluster_id: str) -> Mapping[int, Any]:
    """A request by API key; one of each."""
    return {**_of_clients(), **_of_groups(), **_of_nodes(cluster_id)}


def _of_clients() -> dict[int, Any]:
    topics = tuple(map(topic, range(LISTED)))
    looked_up = topics[:LOOKED_UP]
    ids = tuple(map(transactional_id, range(LISTED)))
    added = tuple(TopicPartitions(each, (0, 1, 2, 3, 4, 5)) for each in looked_up)
    text = "x" * 32_000
    return {
        0: Produce(None, -1, 1_000, tuple(PartitionData(each, 0, b"") for each in topics)),
        1: Fetch(
            -1, 0, 1, 1, 0, 0, -1,
            tuple(FetchPartition(each, None, 0, -1, 0, -1, -1, 1) for each in looked_up),
        ),
        2: ListOffsets(tuple(OffsetQuery(each, 0, LATEST) for each in looked_up)),
        3: Metadata(tuple(map(TopicQuery, topics)), allow_auto_topic_creation=False),
        10: FindCoordinator(TRANSACTION, ids),
        17: SaslHandshake(text),
        18: ApiVersions(text, text),
        19: CreateTopics(tuple(NewTopic(each, 4, 1) for each in looked_up)),
        20: DeleteTopics(looked_up),
        21: DeleteRecords(tuple(RecordsToDelete(each, 0, -1) for each in looked_up)),
        22: InitProducerId(
            ids[0],
            600_000,
            init_version=6,
            member=MemberAssignment("bill", 1, tuple(TopicPartitions(each, (0,)) for each in looked_up)),
        ),
        23: OffsetForLeaderEpoch(tuple(EpochQuery(each, 0, 0) for each in looked_up)),
        24: AddPartitionsToTxn((AddPartitions(ids[0], PRODUCER, 0, added),), batched=False),
        26: EndTxn(ids[0], PRODUCER, 0, committed=True),
        27: WriteTxnMarkers(
            tuple(
                TxnMarker(PRODUCER + each, 0, False, ((name, (0,)),), 0) for each, name in enumerate(topics)
            )
        ),
        32: DescribeConfigs(
            tuple(ConfigResource(TOPIC_RESOURCE, each) for each in topics[:RESOURCES_MAX])
        ),
        33: replace(_altered(topics), replaces_all=True),
        29: AclFilter(name="t" * 30_000, pattern_type=PatternType.MATCH),
        30: CreateAcls(tuple(Acl(2, 3, each, "User:nobody", "*", 3, 3) for each in looked_up)),
        31: DeleteAcls(tuple(AclFilter(name=each) for each in topics[:FILTERS_MAX])),
        35: DescribeLogDirs(tuple((each, (0,)) for each in topics)),
        48: DescribeClientQuotas((QuotaComponent("user", 0, "u" * 40),) * 1_000),
        50: DescribeScram(tuple(each for each in looked_up)),
        51: AlterScram(
            (), tuple(ScramUpsertion(each[-40:], 1, 4096, SALTED, SALTED) for each in topics[:CHANGES_MAX])
        ),
        36: SaslAuthenticate(bytes(TOKEN_BYTES_MAX)),
        37: CreatePartitions(tuple(NewPartitions(each, 4, ((1,), (1,))) for each in topics[:1_900])),
        46: ListPartitionReassignments(tuple((each, (0,)) for each in topics)),
        43: ElectLeaders(tuple((each, 0) for each in looked_up)),
        74: ListConfigResources((2, 4) * 490),
        75: DescribeTopicPartitions(looked_up),
        44: _altered(topics),
        61: DescribeProducers(tuple((each, (0,)) for each in looked_up)),
        65: DescribeTransactions(ids),
        66: ListTransactions((), tuple(map(ProducerId, range(19_000)))),
    }  # fmt: skip


def _altered(topics: tuple[str, ...]) -> AlterConfigs:
    changes = (ConfigChange("retention.ms", "1"), ConfigChange("segment.bytes", "1048576"))
    names = topics[:RESOURCES_PER_REQUEST_MAX]
    return AlterConfigs(tuple(ResourceChanges(TOPIC_RESOURCE, each, changes) for each in names))


def _of_groups() -> dict[int, Any]:
    topics = tuple(map(topic, range(LISTED)))
    parts = tuple((each, 0) for each in topics[:LOOKED_UP])
    committed = tuple(offsets.OffsetToCommit(each, 0, 1, metadata="m" * 1_300) for each in topics[:LOOKED_UP])
    return {
        8: offsets.CommitOffsets("group", committed),
        9: offsets.FetchOffsets((offsets.GroupQuery("group", parts),)),
        11: JoinGroup("group", 6_000, 6_000, "", "consumer", (("range", bytes(SUBSCRIPTION_BYTES)),)),
        12: HeartbeatGroup("g" * ID_BYTES, 1, "m" * ID_BYTES),
        13: LeaveGroup("group", tuple(Leaver(each) for each in topics)),
        14: SyncGroup("group", 1, "member", None, "consumer", "range", tuple((each, b"") for each in topics)),
        15: DescribeGroups(topics),
        16: ListGroups(topics[:200]),
        25: offsets.AddOffsets(transactional_id(0), PRODUCER, 0, "g" * ID_BYTES),
        28: offsets.CommitTransactionOffsets(transactional_id(0), "group", PRODUCER, 0, committed),
        42: offsets.DeleteGroups(topics),
        47: offsets.DeleteOffsets("group", parts),
    }


def _of_nodes(cluster_id: str) -> dict[int, Any]:
    topics = tuple(map(topic, range(LISTED)))
    endpoints = tuple(Endpoint(f"E{number}", "h" * 255, 9092) for number in range(16))
    features = tuple(Feature(f"{number}".ljust(250, "f"), 0, 1) for number in range(100))
    return {
        55: DescribeQuorum((QuorumPartitions("__cluster_metadata", tuple(range(10_000))),)),
        60: DescribeCluster(include_fenced_brokers=True),
        62: RegisterBroker(
            broker_id=STRANGER,
            cluster_id=cluster_id,
            incarnation_id=uuid.uuid4(),
            directory_id=uuid.uuid4(),
            endpoints=endpoints,
            features=features,
        ),
        63: Heartbeat(STRANGER, BrokerEpoch(1), current_metadata_offset=Offset(0)),
        64: UnregisterBroker(STRANGER),
        67: AllocateProducerIds(STRANGER, BrokerEpoch(1)),
        20021: Migrate(command="status"),
        20024: AnnouncePartitions(
            tuple(Announcement(PRODUCER, 0, 1, ((each, (0,)),)) for each in topics)
        ),
        20027: ForceMarkers(transactional_id(0)),
        20037: ProveSecret(
            NodeId(1), "c" * FIELD_BYTES_MAX, "r" * FIELD_BYTES_MAX, bytes(FIELD_BYTES_MAX), b""
        ),
        57: UpdateFeatures(tuple(FeatureUpdate(f"{number:03}", 2**14) for number in range(UPDATES_MAX))),
        20029: FollowAcls(
            STRANGER, 0, -1, AclChange(uuid.UUID(int=1), Acl(2, 3, "t" * 60_000, "User:nobody", "*", 3, 3))
        ),
        20043: RecoverPartition("t" * 60_000, 0, 0),
        20051: FollowScramUsers(-1, "u" * 10_000, 1),
        20055: MoveLeader(to=2**31),
        20057: AskLogLevels(log_level=2**15),
        20065: ExplainTransaction(transactional_id(0)),
        20066: ListSetAside(),
    }  # fmt: skip


VERSIONS: Final[Mapping[int, int]] = {0: 11, 1: 12, 24: 3}
"""Where the newest version cannot say the request: topics by name, one transaction of a client."""
