"""What stands in the place of kafka-python's test/integration/fixtures.py: a broker that is there already.

Copied beside the library's tests by kafka_python.py; it says which cluster with BOOTSTRAP. The names and
parameters are those that the tests and their conftest.py use.
"""

import os
from collections.abc import Iterable
from typing import Any

from kafka import KafkaAdminClient

PARTITIONS = 4
REPLICAS = 1


class KafkaFixture:
    """A cluster that runs, behind the face of a broker that the tests would start."""

    partitions = PARTITIONS
    replicas = REPLICAS
    zookeeper = None

    @classmethod
    def instance(cls, *_: object, **__: object) -> "KafkaFixture":
        return cls()

    def close(self) -> None:
        """It goes on."""

    def client_params(self) -> dict[str, Any]:
        """What a client needs to find it."""
        return {"bootstrap_servers": os.environ["BOOTSTRAP"].split(","), "security_protocol": "PLAINTEXT"}


class ZookeeperFixture:
    """Named by conftest.py, and used by no test that is run."""


def client_params(broker: KafkaFixture, client_id: str = "client", **overrides: Any) -> dict[str, Any]:
    """A client's settings: the cluster's, then the test's."""
    return {"client_id": client_id, **broker.client_params(), **overrides}


def create_topics(
    broker: KafkaFixture,
    topic_names: Iterable[str],
    num_partitions: int = PARTITIONS,
    replication_factor: int = REPLICAS,
) -> None:
    """Returns when every broker names them."""
    shape = {"num_partitions": num_partitions, "replication_factor": replication_factor}
    with KafkaAdminClient(**client_params(broker, "topic_creator")) as admin:
        admin.create_topics(dict.fromkeys(topic_names, shape), wait_for_metadata=True)
