"""What each principal requests: of each API key, about the resources of one set, with the ids that it has.

Order       what reads comes first, and what deletes last: so all have the same before them.
Harmless    where it can be so, the request cannot be carried out by anyone: rights are looked at before.
"""

import uuid
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final, NamedTuple

from msgspec import structs

from fencepost.controller.config_changes import AlterConfigs, ConfigChange, ResourceChanges
from fencepost.controller.groups.describe import DescribeGroups
from fencepost.controller.groups.syncing import SyncGroup
from fencepost.controller.partition_creation import CreatePartitions, NewPartitions
from fencepost.controller.topics import CreateTopics, DeleteTopics, NewTopic
from fencepost.controller.transactions.add_partitions import AddPartitions, AddPartitionsToTxn
from fencepost.records.transaction_log import TopicPartitions
from fencepost.wire.dispatch import BROKER, CONTROLLER, ListenerKind
from fencepost.wire.k01_fetch import Fetch
from fencepost.wire.k03_metadata import Metadata, TopicQuery
from fencepost.wire.k27_write_txn_markers import TxnMarker, WriteTxnMarkers
from fencepost.wire.k32_describe_configs import TOPIC_RESOURCE, ConfigResource, DescribeConfigs
from fencepost.wire.k60_describe_cluster import DescribeCluster
from fencepost.wire.k75_describe_topic_partitions import DescribeTopicPartitions
from fencepost.wire.registry import APIS
from tests.hostile import insider_requests
from tests.hostile.insider_world import World
from tests.rights.page import NAMES, UNMADE
from tests.wire.sample_messages import SAMPLES

READING: Final = (2, 3, 9, 10, 15, 16, 23, 29, 32, 35, 46, 48, 50, 55, 60, 61, 65, 66, 74, 75)
DELETING: Final = (20, 42)
SAMPLED: Final = (35, 43, 46, 48, 55, 57, 60, 74)  # whose samples change nothing
UNSERVED: Final = frozenset(((CONTROLLER, 50),))
"""Kafka's controllers announce it, and answer nothing to anyone."""
GROUP_RESOURCE, BROKER_RESOURCE = 32, 4
STRANGER: Final = 77  # a broker that is not there
ANY_VERSION: Final = 1 << 15


class Request(NamedTuple):
    """``version_max``: above it the request means something else."""

    kind: ListenerKind
    key: int
    number: int  # among those of its key, to this listener
    value: Any
    version_max: int = ANY_VERSION

    @property
    def name(self) -> str:
        """As a recording names it."""
        return f"{self.kind} {self.key} {APIS[self.key].name} {self.number}"


def of_set(world: World) -> list[Request]:
    """To both listeners."""
    found: list[Request] = []
    of: tuple[tuple[ListenerKind, dict[int, tuple[Any, ...]]], ...]
    of = ((BROKER, _to_brokers(world)), (CONTROLLER, _to_controllers()))
    for kind, some in of:
        for key, values in sorted(some.items(), key=lambda each: (_place(each[0]), each[0])):
            for number, value in enumerate(values):
                if (kind, key) in UNSERVED:
                    continue
                found.append(Request(kind, key, number, value, _version_max(value)))
    return found


def _version_max(value: Any) -> int:
    if isinstance(value, AddPartitionsToTxn) and not value.batched:
        return 3  # later ones are a broker's
    if isinstance(value, Fetch) and value.partitions[0].topic is not None:
        return 12  # later ones have ids
    return ANY_VERSION


def _place(key: int) -> int:
    return -1 if key in READING else int(key in DELETING)


def _joined(*parts: dict[int, tuple[Any, ...]]) -> dict[int, tuple[Any, ...]]:
    found: dict[int, tuple[Any, ...]] = {}
    for part in parts:
        for key, some in part.items():
            found[key] = found.get(key, ()) + some
    return found


def _of_both() -> dict[int, tuple[Any, ...]]:
    """What brokers forward, and controllers serve, too."""
    return _joined(
        insider_requests._of_cluster("kept", "user"),
        {
            19: (CreateTopics((NewTopic(UNMADE, 1, 1),)),),
            32: (DescribeConfigs(tuple(ConfigResource(of, name) for of, name, _ in _configured())),),
            33: tuple(_altered(replaces_all=True)),
            44: tuple(_altered(replaces_all=False)),
            55: (SAMPLES[55][0],),
            57: (SAMPLES[57][0],),
        },
    )


def _configured() -> Iterator[tuple[int, str, ConfigChange]]:
    yield TOPIC_RESOURCE, NAMES.topic, ConfigChange("retention.ms", "77")
    yield GROUP_RESOURCE, NAMES.group, ConfigChange("consumer.session.timeout.ms", "50000")
    yield BROKER_RESOURCE, "1", ConfigChange("log.cleaner.threads", "1")


def _altered(*, replaces_all: bool) -> Iterator[AlterConfigs]:
    for of, name, change in _configured():
        changes = ResourceChanges(of, name, (change,))
        yield AlterConfigs((changes,), validate_only=True, replaces_all=replaces_all)


def _to_brokers(world: World) -> dict[int, tuple[Any, ...]]:
    state, (member, generation) = world.states[0], world.members[0]
    own, pid, epoch = NAMES.transactional_id, *state.transaction[1:]
    topics = (TopicPartitions(NAMES.topic, (0, 1)),)
    verified = AddPartitions(own, pid, epoch, topics, verify_only=True)
    marker = TxnMarker(pid, epoch, False, ((UNMADE, (0,)),), 0)
    of_topic = insider_requests._of_topic(NAMES, state.topic_id, state.end)
    for key in (3, 19, 33, 44):
        del of_topic[key]
    of_topic[20] = of_topic[20][::-1]  # by its id first, while it is there
    return _joined(
        _of_both(),
        of_topic,
        insider_requests._of_group(NAMES, member, generation),
        insider_requests._of_transaction(NAMES, member, pid, epoch),
        {key: (SAMPLES[key][0],) for key in SAMPLED if key not in (55, 57)},
        {
            3: (
                Metadata(None),
                Metadata((TopicQuery(None, state.topic_id),)),
                Metadata((TopicQuery(NAMES.topic),), include_topic_authorized_operations=True),
                Metadata((TopicQuery(UNMADE),), allow_auto_topic_creation=True),
            ),
            14: (SyncGroup(NAMES.group, generation, member, None, "consumer", "range"),),
            15: (DescribeGroups((NAMES.group,), include_authorized_operations=True),),
            24: (AddPartitionsToTxn((verified,), batched=True),),
            27: (WriteTxnMarkers((marker,)),),
            60: (DescribeCluster(include_cluster_authorized_operations=True),),
            64: (replace(SAMPLES[64][0], broker_id=STRANGER),),
            75: (DescribeTopicPartitions((NAMES.topic,)), DescribeTopicPartitions()),
        },
    )


def _to_controllers() -> dict[int, tuple[Any, ...]]:
    registration = SAMPLES[62][0]
    return _joined(
        _of_both(),
        {
            20: (DeleteTopics((UNMADE,), (), 5_000),),
            37: (CreatePartitions((NewPartitions(NAMES.topic, 3),)),),
            60: (DescribeCluster(2, include_cluster_authorized_operations=True),),
            62: (replace(registration, broker_id=STRANGER, cluster_id=str(uuid.UUID(int=1))[:22]),),
            63: (replace(SAMPLES[63][0], broker_id=STRANGER),),
            64: (replace(SAMPLES[64][0], broker_id=STRANGER),),
            67: (structs.replace(SAMPLES[67][0], broker_id=STRANGER),),
        },
    )
