"""``kafka-configs`` of 4.1 for topics and brokers: it answers the same at a node of Apache Kafka and at ours.

Compared   exit status, what is said of each setting, and the name of the exception that refuses a change.
One node   each: a broker's own settings are its own.
Apart      the settings of a broker that nothing changes while it runs. What a setting is by default is
           compared whatever it is called after: Kafka has one for each unit of time. APART says the rest.
"""

import re
from collections.abc import Callable
from typing import Final

from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from fencepost.controller.broker_configs import CHANGEABLE
from tests.clients import kafka_broker
from tests.clients.java_tools import TOOL_SECONDS_MAX
from tests.clients.kafka_tools import Tools, both, tools
from tests.clients.stories import expect
from tests.harness.nodes import Nodes

TOPIC: Final = "configured-by-tools"
OF_TOPIC: Final = ("--entity-type", "topics", "--entity-name", TOPIC)
NO_TOPIC: Final = ("--entity-type", "topics", "--entity-name", "no-such-topic")
BROKER: Final = ("--entity-type", "brokers", "--entity-name", "1")
BROKERS: Final = ("--entity-type", "brokers", "--entity-default")
NO_BROKER: Final = ("--entity-type", "brokers", "--entity-name", "99")
COMMANDS: Final[tuple[tuple[str, ...], ...]] = (
    ("--describe", *OF_TOPIC, "--all"),
    ("--describe", *BROKER, "--all"),
    ("--alter", *OF_TOPIC, "--add-config", "retention.ms=5000000,cleanup.policy=[compact,delete]"),
    ("--alter", *BROKERS, "--add-config", "log.retention.ms=6000000,message.max.bytes=70000"),
    ("--alter", *BROKER, "--add-config", "log.retention.ms=7000000,log.segment.bytes=2000000"),
    ("--describe", *OF_TOPIC),
    ("--describe", *OF_TOPIC, "--all"),
    ("--describe", *BROKER),
    ("--describe", *BROKER, "--all"),
    ("--describe", *BROKERS),
    ("--alter", *OF_TOPIC, "--add-config", "retention.ms=soon"),
    ("--alter", *OF_TOPIC, "--add-config", "no.such.setting=1"),
    ("--alter", *OF_TOPIC, "--add-config", "min.compaction.lag.ms=7,max.compaction.lag.ms=6"),
    ("--alter", *OF_TOPIC, "--add-config", "compression.gzip.level=10"),
    ("--alter", *BROKERS, "--add-config", "log.retention.ms=soon"),
    ("--alter", *BROKERS, "--add-config", "node.id=7"),
    ("--alter", *NO_BROKER, "--add-config", "log.retention.ms=1"),
    ("--alter", *NO_TOPIC, "--add-config", "retention.ms=1"),
    ("--alter", *OF_TOPIC, "--delete-config", "retention.bytes"),
    ("--alter", *OF_TOPIC, "--delete-config", "cleanup.policy", "--add-config", "retention.ms=8000000"),
    ("--alter", *BROKER, "--delete-config", "log.retention.ms"),
    ("--alter", *OF_TOPIC, "--delete-config", "retention.ms"),
    ("--describe", *OF_TOPIC, "--all"),
    ("--alter", *BROKER, "--delete-config", "log.segment.bytes"),
    ("--alter", *BROKERS, "--delete-config", "log.retention.ms,message.max.bytes"),
    ("--describe", *OF_TOPIC, "--all"),
    ("--describe", *BROKER),
)  # fmt: skip
APART: Final = frozenset({
    "file.delete.delay.ms",  # files of deleted segments go at once
    "min.insync.replicas",  # Kafka 4.1 sets it for all brokers, as eligible leader replicas need it (KIP-966)
})  # fmt: skip
BY_UNIT: Final = frozenset({"log.retention.ms", "log.roll.ms", "log.roll.jitter.ms"})
"""Null at Kafka's brokers while the setting in hours says it."""
_SETTING: Final = re.compile(r"^  (\S+?)=(.*) sensitive=(\w+) synonyms=\{(.*)\}$")
_ERROR: Final = re.compile(r"org\.apache\.kafka\.common\.errors\.(\w+)")
_BY_DEFAULT: Final = "DEFAULT_CONFIG:"
TOOL: Final = "kafka.admin.ConfigCommand"

Said = tuple[int, tuple[str, ...], frozenset[str]]
Scenario = Callable[[Nodes], str]


def same_settings(_: Nodes) -> str:
    """Set, described, refused and removed: of a topic, a broker and all brokers."""
    with tools() as kafka, both() as (ours, theirs):
        for side in (ours, theirs):
            admin = AdminClient({"bootstrap.servers": side.bootstrap, "log_level": 0})
            admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(TOOL_SECONDS_MAX)
        for words in COMMANDS:
            said = [_said(kafka, side.bootstrap, words) for side in (ours, theirs)]
            expect(f"kafka-configs {' '.join(words)}", *said)
    return f"{len(COMMANDS)} commands answer the same"


def _said(kafka: Tools, bootstrap: str, words: tuple[str, ...]) -> Said:
    ended = kafka.run(TOOL, "--bootstrap-server", bootstrap, *words)
    of_all = words[1:] == (*BROKER, "--all")
    lines = (_line(each, of_all=of_all) for each in ended.stdout.splitlines() if "Exception" not in each)
    errors = frozenset(_ERROR.findall(ended.stdout + ended.stderr))
    return ended.status, tuple(sorted(each for each in lines if each)), errors


def _line(line: str, *, of_all: bool) -> str:
    """As it is compared; "" if it is not."""
    found = _SETTING.match(line)
    if found is None:
        return "" if line.startswith("\tat ") else line
    name, value, sensitive, synonyms = found.groups()
    is_set = [each for each in synonyms.split(", ") if each and not each.startswith(_BY_DEFAULT)]
    if name in APART or (of_all and name not in CHANGEABLE) or (name in BY_UNIT and not is_set):
        return ""
    return f"{name}={value} {sensitive} {is_set}"


SCENARIOS: Final[dict[str, tuple[str, Scenario]]] = {
    "kafka-configs: topics and brokers as at Apache Kafka": (kafka_broker.VERSION, same_settings)
}
