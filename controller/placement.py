"""On which broker a new partition's one replica is: chosen evenly, or as a request assigns it.

Chosen      round-robin over the unfenced brokers, beginning with those that have the fewest replicas: a
            topic's partitions spread as widely as they can, and all replicas about evenly.
Assigned    the first broker of each partition; all that are named must be registered and unfenced.
Source      Kafka StripedReplicaPlacer, ReplicationControlManager.validateManualPartitionAssignment.
"""

import uuid
from collections.abc import Iterable, Sequence

from fencepost.controller.brokers import BROKERS
from fencepost.controller.errors import InvalidReplicaAssignment, InvalidReplicationFactor, PolicyViolation
from fencepost.controller.topics import HOSTED, Partition, partition_record
from fencepost.controller.view import View
from fencepost.records.schema import PartitionRecord
from fencepost.records.types import BrokerId


class Placement:
    """Places the partitions of one request: what is placed first counts for what is placed later."""

    def __init__(self, view: View, partitions_max: int) -> None:
        """``partitions_max``: how many the cluster may have."""
        hosted = dict(view.items(HOSTED))
        self._partitions_max = partitions_max
        self._partitions = sum(hosted.values())
        self._directories = {
            broker_id: broker.directory_id for broker_id, broker in view.items(BROKERS) if not broker.fenced
        }
        self._loads = {broker_id: hosted.get(broker_id, 0) for broker_id in self._directories}

    def require_room(self, partitions: int) -> None:
        """Raises PolicyViolation: the cluster would have too many partitions."""
        if self._partitions + partitions > self._partitions_max:
            raise PolicyViolation(
                f"{partitions} partitions more would be {self._partitions + partitions} in the cluster, "
                f"which has at most {self._partitions_max}"
            )

    def chosen(self, count: int) -> tuple[BrokerId, ...]:
        """The broker of each of ``count`` partitions. Raises InvalidReplicationFactor: none is there."""
        if not self._loads:
            raise InvalidReplicationFactor(
                "no broker is there to keep a replica: none is registered and unfenced"
            )
        order = sorted(self._loads, key=lambda broker_id: (self._loads[broker_id], broker_id))
        return tuple(order[index % len(order)] for index in range(count))

    def assigned(self, assignments: Iterable[Sequence[int]], first: int = 0) -> tuple[BrokerId, ...]:
        """The broker of each partition, from index ``first`` on. Raises InvalidReplicaAssignment."""
        placed = []
        for index, replicas in enumerate(assignments, first):
            if not replicas or len(set(replicas)) != len(replicas):
                raise InvalidReplicaAssignment(
                    f"partition {index}: expected broker ids, each once; got {replicas}"
                )
            for replica in replicas:
                if replica not in self._directories:
                    raise InvalidReplicaAssignment(
                        f"partition {index}: broker {replica} is not registered and unfenced"
                    )
            placed.append(BrokerId(replicas[0]))
        return tuple(placed)

    def records(
        self, topic_id: uuid.UUID, replicas: Sequence[BrokerId], first: int = 0
    ) -> list[PartitionRecord]:
        """The records that make the partitions, from index ``first`` on; the room they take is taken."""
        self._partitions += len(replicas)
        for replica in replicas:
            self._loads[replica] += 1
        return [
            partition_record(
                topic_id, index, Partition((replica,), replica, 0, (self._directories[replica],))
            )
            for index, replica in enumerate(replicas, first)
        ]
