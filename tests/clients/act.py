"""One library plays one story against a cluster and prints what it saw, as JSON.

Arguments   LIBRARY STORY BOOTSTRAP TOPIC

In a process of its own, so that a library's threads and its warnings are its own, too.
"""

import json
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from tests.clients.libraries import LIBRARIES, PARTITION, TIMEOUT_S, Make, Producer, Read

PRODUCED = 50
TRANSACTIONS = 6
MESSAGES = 10
TIMEOUT_MS = 2_000  # of a transaction, and so of librdkafka's messages: the next one must be done in it
READ_MAX = 1_000
POLL_S = 0.05

UNCOMMITTED = "read_uncommitted"
COMMITTED = "read_committed"


def plain(make: Make, read: Read, bootstrap: str, topic: str) -> Any:
    """An idempotent producer and one that is not, then a reader of both."""
    for idempotent in (True, False):
        producer = make(bootstrap, {"enable.idempotence": idempotent})
        producer.send(topic, *(f"{idempotent}-{number}" for number in range(PRODUCED)))
        producer.close()
    return {"read": read(bootstrap, topic, 2 * PRODUCED, UNCOMMITTED)}


def transactions(make: Make, read: Read, bootstrap: str, topic: str) -> Any:
    """Every other transaction is committed, the rest are aborted; all were acknowledged before."""
    producer = make(bootstrap, {"transactional.id": topic})
    for number in range(TRANSACTIONS):
        producer.begin()
        producer.send(topic, *(f"{number}-{message}" for message in range(MESSAGES)))
        if number % 2:
            producer.commit()
        else:
            producer.abort()
    producer.close()
    return reads(make, read, bootstrap, topic)


def reads(make: Make, read: Read, bootstrap: str, topic: str) -> Any:
    """What another library has written there."""
    return {
        "committed": read(bootstrap, topic, READ_MAX, COMMITTED),
        "all": read(bootstrap, topic, READ_MAX, UNCOMMITTED),
    }


def reread(make: Make, read: Read, bootstrap: str, topic: str) -> Any:
    """What is committed there, and then one transaction more."""
    before = read(bootstrap, topic, READ_MAX, COMMITTED)
    producer = make(bootstrap, {"transactional.id": topic})
    _next(producer, topic)
    producer.close()
    return {"before": before, "after": read(bootstrap, topic, READ_MAX, COMMITTED)}


def fenced(make: Make, read: Read, bootstrap: str, topic: str) -> Any:
    """A second instance takes the id over, while the first has a transaction open."""
    first = make(bootstrap, {"transactional.id": topic})
    first.begin()
    first.send(topic, "first-committed")
    first.commit()
    first.begin()
    first.send(topic, "first-open")
    second = make(bootstrap, {"transactional.id": topic})
    error = error_of(lambda: _go_on(first, topic))
    again = error_of(lambda: _next(first, topic))
    second.begin()
    second.send(topic, "second-committed")
    second.commit()
    second.close()
    return {"error": error, "again": again, "committed": read(bootstrap, topic, READ_MAX, COMMITTED)}


def timed_out(make: Make, read: Read, bootstrap: str, topic: str) -> Any:
    """A transaction stands open for longer than its timeout. Then the producer goes on, or a new one does."""
    settings = {"transactional.id": topic, "transaction.timeout.ms": TIMEOUT_MS}
    producer = make(bootstrap, settings)
    producer.begin()
    producer.send(topic, "late")
    wait_for_marker(bootstrap, topic)
    sys.stdout.write("timed out\n")
    sys.stdout.flush()
    first = sys.stdin.readline().strip()  # whoever plays with the nodes meanwhile says when to go on, and how
    error = error_of(lambda: FIRSTS[first](producer, topic))
    stopped = error_of(producer.abort) or error_of(lambda: _next(producer, topic))
    if stopped is not None:
        producer = make(bootstrap, settings)
        _next(producer, topic)
    return {"error": error, "stopped": stopped, "committed": read(bootstrap, topic, READ_MAX, COMMITTED)}


def wait_for_marker(bootstrap: str, topic: str) -> None:
    """Until the coordinator has ended the one transaction: its record and its marker are in the log."""
    import confluent_kafka

    settings = {"bootstrap.servers": bootstrap, "group.id": "unused", "isolation.level": UNCOMMITTED}
    consumer = confluent_kafka.Consumer(settings)
    partition = confluent_kafka.TopicPartition(topic, PARTITION)
    deadline = time.monotonic() + TIMEOUT_S
    try:
        while consumer.get_watermark_offsets(partition, timeout=TIMEOUT_S)[1] < 2:
            if time.monotonic() > deadline:
                raise TimeoutError("the transaction was not aborted")
            time.sleep(POLL_S)
    finally:
        consumer.close()


def _go_on(producer: Producer, topic: str) -> None:
    producer.send(topic, "too-late")
    producer.commit()


def _go_on_elsewhere(producer: Producer, topic: str) -> None:
    producer.send(f"{topic}-elsewhere", "too-late")
    producer.commit()


FIRSTS: Mapping[str, Callable[[Producer, str], None]] = {
    "produce-first": _go_on,
    "commit-first": lambda producer, topic: producer.commit(),
    "new-partition-first": _go_on_elsewhere,
}


def _next(producer: Producer, topic: str) -> None:
    producer.begin()
    producer.send(topic, "next")
    producer.commit()


def error_of(attempt: Callable[[], Any]) -> str | None:
    """What the library says; None if it worked."""
    try:
        attempt()
    except Exception as error:  # noqa: BLE001  (each library has its own)
        return repr(error)
    return None


STORIES = {each.__name__: each for each in (plain, transactions, reads, reread, fenced, timed_out)}

if __name__ == "__main__":
    library, story, *where = sys.argv[1:]
    sys.stdout.write(json.dumps(STORIES[story](*LIBRARIES[library], *where)))
