"""``python -m tests.processes.namespace_client BOOTSTRAP WRITES``: what a client sees there, as JSON."""

import asyncio
import json
import sys
from typing import Any, Final

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from fencepost.wire.connection import Connection
from fencepost.wire.k03_metadata import METADATA, Metadata
from fencepost.wire.k10_find_coordinator import FIND_COORDINATOR, TRANSACTION, FindCoordinator

TOPIC: Final = "outside"
PARTITIONS: Final = 6
NODES: Final = 3
WAIT_S: Final = 15.0
CONNECT_S: Final = 5.0


async def seen(host: str, port: int) -> dict[str, Any]:
    """Addresses, and the coordinator's id."""
    async with asyncio.timeout(CONNECT_S):
        connection = await Connection.open(host, port)
        try:
            metadata = await connection.call(METADATA, Metadata(topics=()))
            wanted = FindCoordinator(key_type=TRANSACTION, keys=("t",))
            (found,) = (await connection.call(FIND_COORDINATOR, wanted)).coordinators
        finally:
            connection.close()
    brokers = sorted([each.host, each.port] for each in metadata.brokers)
    return {"brokers": brokers, "coordinator": found.node_id}


def committed(bootstrap: str) -> list[int]:
    """The partitions that a transaction's records were read from, one in each."""
    settings: dict[str, str | int | float | bool] = {"bootstrap.servers": bootstrap, "log_level": 0}
    admin = AdminClient(settings)
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(WAIT_S)
    producer = Producer({**settings, "transactional.id": TOPIC})
    producer.init_transactions(WAIT_S)
    producer.begin_transaction()
    for partition in range(PARTITIONS):
        producer.produce(TOPIC, b"value", partition=partition)
    producer.commit_transaction(WAIT_S)
    consumer = Consumer({**settings, "group.id": TOPIC, "auto.offset.reset": "earliest"})
    consumer.subscribe([TOPIC])
    found: set[int] = set()
    while len(found) < PARTITIONS and (message := consumer.poll(WAIT_S)) is not None:
        if message.error() is None:
            found.add(message.partition() or 0)
    consumer.close()
    return sorted(found)


def main(bootstrap: str, writes: bool) -> dict[str, Any]:
    """An ``error`` where there is no cluster of three brokers yet."""
    host, _, port = bootstrap.rpartition(":")
    try:
        found = asyncio.run(seen(host, int(port)))
    except Exception as error:  # noqa: BLE001 - whatever it is, it is said
        return {"error": repr(error)}
    if writes and (len(found["brokers"]) < NODES or found["coordinator"] < 0):
        return {"error": f"not all of it: {found}"}
    return {**found, "read": committed(bootstrap) if writes else []}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], sys.argv[2] == "1")))  # noqa: T201
