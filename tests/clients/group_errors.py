"""``kafka-consumer-groups`` on our cluster and on a broker of Apache Kafka: the same texts and exit statuses.

Groups      one with a member, one with offsets alone, one that is not there; made by the same client.
Compared    exit status, stdout and stderr of what fails and what works; no stack traces, clocks and ids.
"""

import re
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import confluent_kafka
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from tests.audit.kafka import broker
from tests.clients.dump_log import Scenario
from tests.clients.group_commands import commit_all
from tests.clients.group_tools import Said, Tools
from tests.clients.offsets_world import CALL_SECONDS, PARTITIONS, produce
from tests.clients.stories import expect
from tests.harness.nodes import Nodes, wait_for

TOPIC: Final = "texts"
BUSY, IDLE, NONE = "texts-busy", "texts-idle", "texts-none"
RESET: Final = ("--reset-offsets", "--dry-run", "--group")
DELETE: Final = ("--delete-offsets", "--group")
COMMANDS: Final[tuple[tuple[str, ...], ...]] = (
    ("--describe", "--group", NONE),
    ("--describe", "--group", NONE, "--members"),
    ("--describe", "--group", NONE, "--state"),
    ("--describe", "--group", IDLE),
    ("--describe", "--group", IDLE, "--members"),
    ("--describe", "--group", IDLE, "--state"),
    ("--describe", "--group", IDLE, "--group", NONE),
    (*RESET, BUSY, "--topic", TOPIC, "--to-latest"),
    (*RESET, IDLE, "--topic", "none", "--to-latest"),
    (*RESET, IDLE, "--topic", f"{TOPIC}:9", "--to-latest"),
    (*RESET, IDLE, "--topic", f"{TOPIC}:2", "--shift-by", "1"),
    (*RESET, IDLE, "--topic", TOPIC, "--to-datetime", "2100-01-01T00:00:00.000"),
    (*RESET, IDLE, "--topic", TOPIC, "--to-datetime", "soon"),
    (*RESET, NONE, "--all-topics", "--to-latest"),
    (*RESET, NONE, "--topic", f"{TOPIC}:0", "--to-latest"),
    ("--delete", "--group", BUSY),
    ("--delete", "--group", NONE),
    ("--delete", "--group", NONE, "--group", BUSY),
    (*DELETE, BUSY, "--topic", TOPIC),
    (*DELETE, BUSY, "--topic", f"{TOPIC}:0"),
    (*DELETE, NONE, "--topic", TOPIC),
    (*DELETE, IDLE, "--topic", "none"),
    (*DELETE, IDLE, "--topic", f"{TOPIC}:9"),
    (*DELETE, IDLE, "--topic", f"{TOPIC}:0"),
    (*DELETE, IDLE, "--topic", f"{TOPIC}:0"),
    ("--describe", "--group", IDLE),
    ("--delete", "--group", IDLE),
    ("--describe", "--group", IDLE),
)
TIMEOUT: Final = ("--timeout", "4000")  # of what is tried again until then: a partition that is not there

_TRACE: Final = re.compile(r"^(\tat |\t\.\.\. |Caused by: ).*\n", re.MULTILINE)
_VARIES: Final = (
    (re.compile(r"127\.0\.0\.1:\d+ +\(\d+\)"), "COORDINATOR"),
    (re.compile(r"(deadlineMs=|nextAllowedTryMs=|tries=|timed out at )\d+"), r"\1N"),
    (re.compile(r"after \d+ attempt"), "after N attempt"),
    (re.compile(r"appid-[0-9a-f-]{36}"), "MEMBER"),
    (re.compile(r" +"), " "),
)


def same_texts(cluster: Nodes) -> str:
    """Raises NotHere, StoryFailed."""
    tools = Tools()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        kafka = stack.enter_context(broker.running(folder / "kafka"))
        servers = (cluster.bootstrap, kafka.bootstrap)
        for bootstrap in servers:
            stack.enter_context(groups(bootstrap))
        for words in COMMANDS:
            ours, theirs = (said(tools.groups(each, *words, *TIMEOUT)) for each in servers)
            expect(" ".join(words), ours, theirs)
    return f"{len(COMMANDS)} commands, the same texts and statuses"


@contextmanager
def groups(bootstrap: str) -> Iterator[None]:
    """The groups, and a topic with records."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    (created,) = admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)]).values()
    created.result(CALL_SECONDS)
    produce(bootstrap, TOPIC)
    wait_for("the coordinator takes a commit", lambda: _commits(bootstrap))
    settings = {"bootstrap.servers": bootstrap, "group.id": BUSY, "client.id": "appid", "log_level": 0}
    member: Any = confluent_kafka.Consumer(settings)
    try:
        member.subscribe([TOPIC])
        wait_for("the member has partitions", lambda: member.poll(0.1) or member.assignment())
        yield
    finally:
        member.close()


def _commits(bootstrap: str) -> bool:
    """False while a broker that has just begun makes its own topic."""
    try:
        commit_all(bootstrap, IDLE, [TopicPartition(TOPIC, each, 3) for each in range(2)])
    except confluent_kafka.KafkaException:
        return False
    return True


def said(found: Said) -> tuple[int, str, str]:
    """Exit status and texts, without what differs from run to run."""
    return found.status, _settled(found.stdout), _settled(found.stderr)


def _settled(text: str) -> str:
    text = _TRACE.sub("", text)
    for pattern, name in _VARIES:
        text = pattern.sub(name, text)
    return "\n".join(sorted(each.strip() for each in text.splitlines() if each.strip()))


SCENARIOS: Final[dict[str, tuple[str, Scenario]]] = {
    "kafka-consumer-groups: texts and statuses, as of a broker of Kafka": (broker.VERSION, same_texts),
}
