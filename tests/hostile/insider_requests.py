"""Requests of insiders: what an honest client of a set would send, with parts of it changed."""

import dataclasses
import uuid
from collections.abc import Sequence
from random import Random
from typing import Any, Final

import msgspec

from fencepost.controller.acl_types import (
    Acl,
    AclFilter,
    CreateAcls,
    DeleteAcls,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from fencepost.controller.config_changes import AlterConfigs, ConfigChange, ResourceChanges
from fencepost.controller.groups import offset_messages as offsets
from fencepost.controller.groups.describe import DescribeGroups, ListGroups
from fencepost.controller.groups.heartbeat import HeartbeatGroup
from fencepost.controller.groups.identity import Identity
from fencepost.controller.groups.joining import JoinGroup
from fencepost.controller.groups.leaving import LeaveGroup, Leaver
from fencepost.controller.groups.syncing import SyncGroup
from fencepost.controller.partition_creation import CreatePartitions, NewPartitions
from fencepost.controller.scram_types import AlterScram, DescribeScram, Mechanism, ScramDeletion
from fencepost.controller.topics import CreateTopics, DeleteTopics, NewTopic
from fencepost.controller.transactions.add_partitions import AddPartitions, AddPartitionsToTxn
from fencepost.controller.transactions.describe import DescribeTransactions, ListTransactions
from fencepost.controller.transactions.end_txn import EndTxn
from fencepost.controller.transactions.group_init import MemberAssignment
from fencepost.controller.transactions.init_request import InitProducerId
from fencepost.records.batch import encode_batch
from fencepost.records.transaction_log import TopicPartitions
from fencepost.wire.dispatch import Api
from fencepost.wire.k00_produce import PartitionData, Produce
from fencepost.wire.k01_fetch import Fetch, FetchPartition
from fencepost.wire.k02_list_offsets import ListOffsets, OffsetQuery
from fencepost.wire.k03_metadata import Metadata, TopicQuery
from fencepost.wire.k10_find_coordinator import FindCoordinator
from fencepost.wire.k21_delete_records import DeleteRecords, RecordsToDelete
from fencepost.wire.k23_offset_for_leader_epoch import EpochQuery, OffsetForLeaderEpoch
from fencepost.wire.k32_describe_configs import TOPIC_RESOURCE, ConfigResource, DescribeConfigs
from fencepost.wire.k61_describe_producers import DescribeProducers
from fencepost.wire.k20065_explain_transaction import ExplainTransaction
from tests.hostile.insider_world import (
    KEPT,
    MADE,
    RETENTION,
    SESSION_MS,
    TIMEOUT_MS,
    USER,
    Names,
    World,
    user_of,
)
from tests.hostile.largest import names_of
from tests.hostile.messages import EDGES
from tests.wire.sample_messages import SAMPLES

ALL: Final = Operation.ALL
WAIT_MS: Final = 5
CHANGES: Final = (0, 0, 1, 1, 2, 3)
VERSIONS_TRIED: Final = 3
PLAIN: Final = ("", "*", "kafka-cluster", RETENTION, "consumer", "range", ".*", "1")
STORED: Final = frozenset(
    ("metadata", "instance_id", "protocol_type", "protocol", "protocols", "reason", "value", "configs")
)
"""Fields whose text is shown again to those that may: a mark in it would look as if it were learned."""
RARE: Final = frozenset((20, 42))  # what they delete is not there for the others of a batch
RARELY: Final = 0.9


class Requests:
    """An endless supply, from one seed."""

    def __init__(self, rng: Random, world: World) -> None:
        self._rng = rng
        self._world = world
        marks = (
            (each.topic, each.group, each.idle, each.transactional_id, each.fresh) for each in world.names
        )
        self._texts: Sequence[str] = (*PLAIN, *(name for each in marks for name in each))

    def key_of(self, n: int, keys: Sequence[int]) -> int:
        """One of the keys, mostly one that an honest client of the set sends."""
        honest = self._honest(n)
        some = [key for key in keys if key in honest] if self._rng.random() < 0.7 else keys
        key = self._rng.choice(some or keys)
        return self._rng.choice(some or keys) if key in RARE and self._rng.random() < RARELY else key

    def about(self, n: int, api: Api[Any, Any]) -> tuple[int, Any] | None:
        """A version and a request as the server reads it; None: the API cannot say what was made up."""
        rng = self._rng
        honest = self._honest(n).get(api.key, ())
        request = rng.choice(honest) if honest and rng.random() < 0.8 else SAMPLES[api.key][0]
        for _ in range(rng.choice(CHANGES) if honest else rng.randrange(1, 5)):
            request = self._changed(request)
        for _ in range(VERSIONS_TRIED):
            version = rng.choice(range(max(api.versions[0], api.served_from), api.versions[-1] + 1))
            try:
                body = api.encode_request(version, request)
                return version, api.decode_request(version, memoryview(body))
            except Exception:  # noqa: BLE001, S112 - no bytes say what was made up
                continue
        return None

    def about_the_cluster(self, api: Api[Any, Any]) -> tuple[int, Any]:
        """One of the operator's, as it is: a changed one could end what others are judged by."""
        request = self._rng.choice(_of_cluster(MADE, MADE)[api.key])
        body = api.encode_request(api.versions[-1], request)
        return api.versions[-1], api.decode_request(api.versions[-1], memoryview(body))

    def _changed(self, value: Any, *, stored: bool = False) -> Any:
        """One leaf of a value is another one, or a list is longer or empty. ``stored``: never a mark."""
        rng = self._rng
        if isinstance(value, bool):
            return not value
        if isinstance(value, int):
            return rng.choice((*EDGES, value + 1, value - 1, 3))
        if isinstance(value, str):
            return rng.choice(PLAIN if stored else self._texts)
        if isinstance(value, bytes | memoryview):
            return rng.choice((b"", bytes(value)[: rng.randrange(len(value) + 1)]))
        if isinstance(value, uuid.UUID):
            return rng.choice([each.topic_id or value for each in self._world.states])
        if value is None:
            return rng.choice((None, rng.choice(PLAIN if stored else self._texts)))
        if names := names_of(value):
            name = rng.choice(names)
            changed = {name: self._changed(getattr(value, name), stored=stored or name in STORED)}
            if dataclasses.is_dataclass(value):
                return dataclasses.replace(value, **changed)  # type: ignore[type-var]
            if isinstance(value, tuple):
                return value._replace(**changed)  # type: ignore[attr-defined]
            return msgspec.structs.replace(value, **changed)
        if isinstance(value, tuple):
            if not value or rng.random() < 0.15:
                return rng.choice(((), value + value, None))
            position = rng.randrange(len(value))
            changed_ = self._changed(value[position], stored=stored)
            return (*value[:position], changed_, *value[position + 1 :])
        return value

    def _honest(self, n: int) -> dict[int, tuple[Any, ...]]:
        names, state = self._world.names[n], self._world.states[n]
        member, generation = self._world.members[n]
        found: dict[int, tuple[Any, ...]] = {}
        for part in (
            _of_cluster(KEPT, USER),
            _of_topic(names, state.topic_id, state.end),
            _of_group(names, member, generation),
            _of_transaction(names, member, *state.transaction[1:]),
        ):
            for key, requests in part.items():
                found[key] = found.get(key, ()) + requests
        return found


def _of_cluster(kept: str, user: str) -> dict[int, tuple[Any, ...]]:
    acl = Acl(ResourceType.TOPIC, PatternType.LITERAL, MADE, "User:made", "*", ALL, Permission.ALLOW)
    return {
        29: (AclFilter(),),
        30: (CreateAcls((acl,)),),
        31: (DeleteAcls((AclFilter(name=kept),)),),
        50: (DescribeScram(), DescribeScram((USER,))),
        51: (
            AlterScram((), (user_of(MADE),)),
            AlterScram((ScramDeletion(user, Mechanism.SCRAM_SHA_256),)),
        ),
    }


def _of_topic(names: Names, topic_id: Any, end: int) -> dict[int, tuple[Any, ...]]:
    topic, fresh = names.topic, names.fresh
    batch = encode_batch([(None, b"inside", ())], timestamp_ms=1_790_000_000_000)
    by_name = FetchPartition(topic, None, 0, -1, 0, -1, -1, 1 << 20)
    by_id = dataclasses.replace(by_name, topic=None, topic_id=topic_id)
    fetch = Fetch(-1, WAIT_MS, 1, 1 << 20, 0, 0, -1, (by_name,))
    config = (ConfigChange(RETENTION, "77"),)
    changes = AlterConfigs((ResourceChanges(TOPIC_RESOURCE, topic, config),))
    found: dict[int, tuple[Any, ...]] = {
        0: (Produce(None, -1, 5_000, (PartitionData(topic, 0, batch),)),),
        1: (fetch, dataclasses.replace(fetch, partitions=(by_id,)), dataclasses.replace(fetch, replica_id=1)),
        2: (ListOffsets((OffsetQuery(topic, 0, -1),)),),
        3: (Metadata((TopicQuery(topic),)), Metadata(None), Metadata((TopicQuery(fresh),), True)),
        19: (CreateTopics((NewTopic(fresh, 1, 1),)), CreateTopics((NewTopic(topic, 1, 1),))),
        20: (DeleteTopics((topic,), (), 5_000), DeleteTopics((fresh,), (), 5_000)),
        21: (DeleteRecords((RecordsToDelete(topic, 0, end),)),),
        23: (OffsetForLeaderEpoch((EpochQuery(topic, 0, 0),)),),
        32: (DescribeConfigs((ConfigResource(TOPIC_RESOURCE, topic),)),),
        33: (msgspec.structs.replace(changes, replaces_all=True),),
        37: (CreatePartitions((NewPartitions(topic, 3),)),),
        44: (changes,),
        61: (DescribeProducers(((topic, (0,)),)),),
    }
    if topic_id is not None:
        found[3] += (Metadata((TopicQuery(None, topic_id),)),)
        found[20] += (DeleteTopics((), (topic_id,), 5_000),)
    return found


def _of_group(names: Names, member: str, generation: int) -> dict[int, tuple[Any, ...]]:
    group, of = names.group, ((names.topic, 0),)
    identity = Identity(member, None, generation)
    rows = (offsets.OffsetToCommit(names.topic, 0, 7),)
    return {
        8: (offsets.CommitOffsets(group, rows, identity), offsets.CommitOffsets(names.idle, rows)),
        9: (
            offsets.FetchOffsets((offsets.GroupQuery(group, of),)),
            offsets.FetchOffsets((offsets.GroupQuery(group),)),
        ),
        11: (JoinGroup(group, SESSION_MS, 1_000, member, "consumer", (("range", b"x"),)),),
        12: (HeartbeatGroup(group, generation, member),),
        13: (LeaveGroup(group, (Leaver(member),)),),
        14: (SyncGroup(group, generation, member),),
        15: (DescribeGroups((group,)),),
        16: (ListGroups(),),
        42: (offsets.DeleteGroups((group,)), offsets.DeleteGroups((names.idle,))),
        47: (offsets.DeleteOffsets(group, of), offsets.DeleteOffsets(names.idle, of)),
    }


def _of_transaction(names: Names, member: str, pid: Any, epoch: int) -> dict[int, tuple[Any, ...]]:
    own, group = names.transactional_id, names.group
    init = InitProducerId(own, TIMEOUT_MS)
    topics = (TopicPartitions(names.topic, (0, 1)),)
    rows = (offsets.OffsetToCommit(names.topic, 0, 9),)
    batch = encode_batch(
        [(None, b"inside", ())],
        timestamp_ms=1_790_000_000_000,
        producer_id=pid,
        producer_epoch=epoch,
        base_sequence=0,
        transactional=True,
    )
    return {
        0: (Produce(own, -1, 5_000, (PartitionData(names.topic, 0, batch),)),),
        10: (FindCoordinator(0, (group,)), FindCoordinator(1, (own,))),
        22: (
            init,
            msgspec.structs.replace(init, enables_two_phase=True),
            msgspec.structs.replace(init, member=MemberAssignment(group, 1, member_id=member)),
            InitProducerId(None, TIMEOUT_MS),
        ),
        24: (AddPartitionsToTxn((AddPartitions(own, pid, epoch, topics),)),),
        25: (offsets.AddOffsets(own, pid, epoch, group),),
        26: (EndTxn(own, pid, epoch, True), EndTxn(own, pid, epoch, False)),
        28: (offsets.CommitTransactionOffsets(own, group, pid, epoch, rows),),
        65: (DescribeTransactions((own,)),),
        66: (ListTransactions(),),
        20065: (ExplainTransaction(own),),
    }
