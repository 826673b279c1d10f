"""``fencepost topics alter --replica-assignment``: which partitions are new, and that none is moved."""

from typing import Any

import pytest

from fencepost.cli.topics_change import new_partitions
from fencepost.cluster.console import Failed
from fencepost.wire.k03_metadata import Metadata, MetadataAnswer, PartitionMetadata, TopicMetadata


class Described:
    """A route to a cluster that has one topic."""

    def __init__(self, *brokers: int) -> None:
        self._partitions = tuple(
            PartitionMetadata(partition_index=index, replica_nodes=(broker,))
            for index, broker in enumerate(brokers)
        )

    def ask(self, _api: object, request: Metadata) -> MetadataAnswer:
        assert not request.allow_auto_topic_creation
        (query,) = request.topics or ()
        topic = TopicMetadata(name=query.name, partitions=self._partitions)
        return MetadataAnswer(cluster_id="cluster", topics=(topic,))


def test_the_list_begins_with_the_partitions_that_are_there() -> None:
    there: Any = Described(1, 2)
    assert new_partitions(there, "orders", ((1,), (2,), (3,), (1, 2))) == ((3,), (1, 2))
    assert new_partitions(there, "orders", ((1,), (2,))) == ()
    assert new_partitions(there, "orders", ((1,),)) == ()
    none: Any = Described()
    assert new_partitions(none, "orders", ((1,),)) == ((1,),)


def test_a_partition_that_is_there_is_not_moved() -> None:
    there: Any = Described(1, 2)
    for wanted in (((1,), (3,), (1,)), ((1, 2), (2,), (1,)), ((2,),)):
        with pytest.raises(
            Failed, match=r"partition [01] is on broker [12], not [123:]+: partitions .* are not moved"
        ):
            new_partitions(there, "orders", wanted)
