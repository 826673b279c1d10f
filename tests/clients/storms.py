"""What must not hang: producers of old ids after a restart of all nodes, and a minute of killed leaders."""

import threading
import time
from collections.abc import Callable
from typing import Any, Final

import confluent_kafka

from fencepost.bench.demo_transactions import PARTITIONS, TOPIC, Writers, check
from fencepost.client.transactional_producer import Outcome
from fencepost.cluster.target import brokers_of
from tests.clients.players import CONFLUENT
from tests.clients.stories import Killed, StoryFailed
from tests.harness.nodes import Nodes

PRODUCERS: Final = 8
INIT_SECONDS_MAX: Final = 15.0  # an application's start; it takes about one
STORM_SECONDS: Final = 60.0
KILL_EVERY_SECONDS: Final = 4.0
DEAD_SECONDS: Final = 1.0
SILENCE_SECONDS_MAX: Final = 20.0
POLL_S: Final = 0.1

Scenario = Callable[[Nodes], str]


def old_ids_after_restart(cluster: Nodes) -> str:
    """Half of the producers leave a transaction open. All nodes go down, and come back."""
    bootstrap = cluster.bootstrap
    old = [_producer(bootstrap, number) for number in range(PRODUCERS)]
    for number, each in enumerate(old):
        each.init_transactions(INIT_SECONDS_MAX)
        for value in (b"committed", b"open"):
            each.begin_transaction()
            each.produce(f"restarted-{number % 3}", value, partition=0)
            each.flush(INIT_SECONDS_MAX)
            if value == b"committed" or number % 2:
                each.commit_transaction(INIT_SECONDS_MAX)
    cluster.run("down")
    cluster.up()
    took: dict[int, float] = {}
    failed: list[str] = []

    def begin_again(number: int) -> None:
        began = time.monotonic()
        producer = _producer(bootstrap, number)
        try:
            producer.init_transactions(INIT_SECONDS_MAX)
            producer.begin_transaction()
            producer.produce(f"restarted-{number % 3}", b"again", partition=0)
            producer.commit_transaction(INIT_SECONDS_MAX)
        except confluent_kafka.KafkaException as error:
            failed.append(f"producer {number}: {error.args[0].str()}")
        took[number] = time.monotonic() - began

    threads = [threading.Thread(target=begin_again, args=(number,)) for number in range(PRODUCERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise StoryFailed("; ".join(failed))
    return f"{PRODUCERS} producers, the slowest after {max(took.values()):.1f} s"


def killed_leaders(cluster: Nodes) -> str:
    """Every few seconds the leader is killed, and started again; then committed is what is seen."""
    cluster.run("topics", "create", "--topic", TOPIC, "--partitions", str(PARTITIONS))
    target = brokers_of(cluster.cluster)
    kills = 0
    longest = 0.0
    with Writers(target) as writers:
        ends = time.monotonic() + STORM_SECONDS
        while time.monotonic() < ends:
            killed = Killed(cluster)
            before, began = writers.count()[Outcome.COMMITTED], time.monotonic()
            kills += 1
            time.sleep(DEAD_SECONDS)
            killed.restart()
            while writers.count()[Outcome.COMMITTED] == before:
                if time.monotonic() > began + SILENCE_SECONDS_MAX:
                    raise StoryFailed(
                        f"nothing is committed for {SILENCE_SECONDS_MAX:.0f} s after kill {kills}"
                    )
                time.sleep(POLL_S)
            longest = max(longest, time.monotonic() - began)
            time.sleep(KILL_EVERY_SECONDS - DEAD_SECONDS)
        writers.stop()
    verdict = check(target, writers.outcomes)
    if verdict.faults:
        raise StoryFailed("; ".join(verdict.faults[:5]))
    ended = ", ".join(f"{count} {outcome}" for outcome, count in verdict.ended.items())
    return f"{kills} kills, a commit within {longest:.1f} s of each; {ended}; committed = seen"


def _producer(bootstrap: str, number: int) -> Any:
    return confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": f"restarted-{number}", "log_level": 0}
    )


SCENARIOS: Final[dict[str, tuple[str, Scenario]]] = {
    "old ids after a restart of the cluster": (CONFLUENT, old_ids_after_restart),
    "a minute of killed leaders": (CONFLUENT, killed_leaders),
}
