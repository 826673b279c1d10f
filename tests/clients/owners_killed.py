"""Two members of a group copy a topic in transactions while the leader is killed: each output is there once.

One transactional id per input partition, initialized before the offset is fetched; a member whose library
gives up is started again, as a supervisor does.
"""

import os
from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.clients.libraries import confluent_read
from tests.clients.owners import COMMANDS, PARTITION, Owner, Scenario, fill
from tests.clients.stories import Killed, StoryFailed
from tests.harness.nodes import Nodes, wait_for

PARTITIONS: Final = 2
RECORDS: Final = 24  # of each partition
KILLS: Final = (8, 24)  # once so many records are committed
MEMBERS: Final = ("first", "second")
SECONDS_MAX: Final = 150.0
STARTS_MAX: Final = 20  # five were seen: each kill may end a member or two
CALL_SECONDS_MAX: Final = 10.0
LINES: Final = 1_000  # commits that a member may make


def copied_once(library: str, cluster: Nodes, logs: Path) -> str:
    """Play it. Raises StoryFailed, NotHere."""
    command, folder = COMMANDS[library]()
    group = f"{library}-killed-{os.urandom(3).hex()}"
    source, target = f"{group}-in", f"{group}-out"
    cluster.run("topics", "create", "--topic", source, "--partitions", PARTITIONS)
    cluster.run("topics", "create", "--topic", target, "--partitions", "1")
    values = [[f"{partition}-{number}" for number in range(RECORDS)] for partition in range(PARTITIONS)]
    for partition, of in enumerate(values):
        fill(cluster, source, partition, of)
    kills = list(KILLS)
    started: list[tuple[str, Owner]] = []
    with ExitStack() as stack:

        def start(name: str) -> None:
            if len(started) == STARTS_MAX:
                raise StoryFailed(f"members of {group} end again and again, see {logs}")
            words = [cluster.bootstrap, group, source, target, f"{group}-{name}", PARTITION]
            owner = Owner(command, words, folder, logs / f"{group}-{name}-{len(started)}.out")
            stack.callback(owner.end)
            owner.go_on(LINES)
            started.append((name, owner))

        def look() -> bool:
            running = {name for name, owner in started if owner.process.poll() is None}
            for name in MEMBERS:
                if name not in running:
                    start(name)
            if kills and sum(len(owner.said("committed")) for _, owner in started) >= kills[0]:
                kills.pop(0)
                Killed(cluster).restart()
            return not kills and committed(cluster, group, source) == [RECORDS] * PARTITIONS

        wait_for(f"{group} has committed every record", look, SECONDS_MAX)
    expected = sorted(value for of in values for value in of)
    found = sorted(confluent_read(cluster.bootstrap, target, len(expected) + 1, "read_committed"))
    if found != expected:
        missing, twice = set(expected) - set(found), {each for each in found if found.count(each) > 1}
        raise StoryFailed(f"{group}: missing {sorted(missing)}, twice {sorted(twice)}")
    return f"{len(expected)} records once; members were started {len(started)} times"


def committed(cluster: Nodes, group: str, topic: str) -> list[int]:
    """The group's offsets, partition by partition; [] if no coordinator answers now."""
    asking = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group})
    partitions = [TopicPartition(topic, each) for each in range(PARTITIONS)]
    try:
        return [each.offset for each in asking.committed(partitions, timeout=CALL_SECONDS_MAX)]
    except KafkaException:
        return []
    finally:
        asking.close()


SCENARIO: Final = "two owners copy while the leader is killed"
SCENARIOS: Final[Mapping[str, Scenario]] = {library: partial(copied_once, library) for library in COMMANDS}
