"""Changing settings of topics and brokers: some of them (IncrementalAlterConfigs) or all (AlterConfigs).

Each resource of a request on its own: one refused setting refuses all changes of its resource, no other's.
Checked     what the resource has afterwards, not the change alone.
Records     a ConfigRecord for each setting that becomes another one; a removed one has no value.
Level       of topics written from log level 7 on: brokers of older versions take a changed setting at their
            next start. Of brokers from level 11 on.
Source      Kafka ConfigurationControlManager, ConfigAdminManager.preprocess.
"""

import enum
from collections import Counter
from collections.abc import Mapping
from typing import ClassVar, Final

import msgspec

from fencepost.controller import broker_configs, levels
from fencepost.controller.broker_configs import BROKER_RESOURCE, CHANGEABLE
from fencepost.controller.decision import Decision
from fencepost.controller.errors import ApiError, ErrorCode, InvalidConfig, InvalidRequest, PolicyViolation
from fencepost.controller.topic_configs import SETTINGS, Setting, checked
from fencepost.controller.topic_creation import require_valid_name
from fencepost.controller.topic_deletion import UnknownTopicOrPartition
from fencepost.controller.topics import TOPIC_RESOURCE, Topic, find
from fencepost.controller.view import View
from fencepost.records.schema import ConfigRecord

RESOURCES_PER_REQUEST_MAX: Final = 1_000
CHANGES_PER_REQUEST_MAX: Final = 2_500  # settings in one request: as rows of CreateTopics
CHANGES_PER_PART_MAX: Final = 250  # decided in some 3 ms; a resource alone may have more
LISTS: Final = frozenset({"cleanup.policy", "log.cleanup.policy"})
"""Settings whose value is a list, to which something can be appended."""


class ConfigOperation(enum.IntEnum):
    """What is done to a setting (Kafka AlterConfigOp.OpType)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigChange(msgspec.Struct, frozen=True):
    """One change. ``operation``: a ConfigOperation, or any number from the wire."""

    name: str
    value: str | None
    operation: int = ConfigOperation.SET


class ResourceChanges(msgspec.Struct, frozen=True):
    """The changes of one resource, by its Kafka type (2 topic, 4 broker) and name."""

    resource_type: int
    name: str
    changes: tuple[ConfigChange, ...]


class AlterConfigs(msgspec.Struct, frozen=True):
    """API keys 33 and 44. ``replaces_all``: settings that are not named are removed (33)."""

    timeout_ms: ClassVar[int] = 30_000  # none is in the request; Kafka's default.api.timeout.ms is longer

    resources: tuple[ResourceChanges, ...]
    validate_only: bool = False
    replaces_all: bool = False


class ConfigsAltered(msgspec.Struct, frozen=True):
    """What became of one resource."""

    resource_type: int
    name: str
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None


class AlterConfigsAnswer(msgspec.Struct, frozen=True):
    """One for each resource of the request, in its order."""

    resources: tuple[ConfigsAltered, ...]


def require_count(request: AlterConfigs) -> frozenset[tuple[int, str]]:
    """The resources that the request has more than once. Raises PolicyViolation if it is too large."""
    if len(request.resources) > RESOURCES_PER_REQUEST_MAX:
        raise PolicyViolation(
            f"{len(request.resources)} resources in one request, at most {RESOURCES_PER_REQUEST_MAX}"
        )
    changes = sum(len(each.changes) for each in request.resources)
    if changes > CHANGES_PER_REQUEST_MAX:
        raise PolicyViolation(f"{changes} settings in one request, at most {CHANGES_PER_REQUEST_MAX}")
    times = Counter((each.resource_type, each.name) for each in request.resources)
    return frozenset(resource for resource, count in times.items() if count > 1)


def alteration_parts(request: AlterConfigs) -> tuple[AlterConfigs, ...]:
    """The request cut where CHANGES_PER_PART_MAX is passed, to be decided one after the other."""
    parts: list[AlterConfigs] = []
    resources: list[ResourceChanges] = []
    rows = 0
    for each in request.resources:
        own = 1 + (max(len(each.changes), len(SETTINGS)) if request.replaces_all else len(each.changes))
        if resources and rows + own > CHANGES_PER_PART_MAX:
            parts.append(msgspec.structs.replace(request, resources=tuple(resources)))
            resources, rows = [], 0
        resources.append(each)
        rows += own
    parts.append(msgspec.structs.replace(request, resources=tuple(resources)))
    return tuple(parts)


def decide_alter(
    view: View, request: AlterConfigs, twice: frozenset[tuple[int, str]]
) -> Decision[AlterConfigsAnswer]:
    """Change what can be changed; each refused resource is answered with its own error.

    ``twice``: what ``require_count`` returned of the whole request. Raises UnsupportedVersion.
    """
    levels.require_changed_topics(view)
    records: list[ConfigRecord] = []
    answers: list[ConfigsAltered] = []
    for each in request.resources:
        try:
            if (each.resource_type, each.name) in twice:
                raise InvalidRequest("each resource must appear at most once")
            records += _records(view, each, replaces_all=request.replaces_all)
        except ApiError as refusal:
            answers.append(ConfigsAltered(each.resource_type, each.name, refusal.code, str(refusal)))
        else:
            answers.append(ConfigsAltered(each.resource_type, each.name))
    return Decision(() if request.validate_only else tuple(records), AlterConfigsAnswer(tuple(answers)))


def _records(view: View, wanted: ResourceChanges, *, replaces_all: bool) -> list[ConfigRecord]:
    """Raises the refusal of this resource, whatever it is."""
    _require_sound(wanted)
    of_broker = wanted.resource_type == BROKER_RESOURCE
    before = dict(_broker_configs(view, wanted.name) if of_broker else _topic(view, wanted).configs)
    after = {} if replaces_all else dict(before)
    known = CHANGEABLE if of_broker else SETTINGS
    for change in wanted.changes:
        _apply(after, change, known)
    if of_broker:
        after = dict(broker_configs.checked(after))
    else:
        after = dict(checked(tuple(after.items()), levels.in_force(view)))
    return [
        ConfigRecord(
            resource_type=wanted.resource_type, resource_name=wanted.name, name=name, value=after.get(name)
        )
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
    ]


def _require_sound(wanted: ResourceChanges) -> None:
    """Raises InvalidRequest for what no resource could be asked, whatever it has."""
    if wanted.resource_type not in (TOPIC_RESOURCE, BROKER_RESOURCE):
        raise InvalidRequest(
            f"resource type {wanted.resource_type} has no settings here; expected 2 (topic) or 4 (broker)"
        )
    times = Counter(each.name for each in wanted.changes)
    twice = sorted(name for name, count in times.items() if count > 1)
    if twice:
        raise InvalidRequest(f"setting {twice[0][:200]} is in the request twice")
    for each in wanted.changes:
        if each.operation not in set(ConfigOperation):
            raise InvalidRequest(
                f"{each.name[:200]}: operation {each.operation}; expected 0 (set), 1 (delete), 2 (append) or "
                f"3 (subtract)"
            )
        if each.value is None and each.operation != ConfigOperation.DELETE:
            raise InvalidRequest(f"{each.name[:200]}: null is no value; delete it to have the default")


def _broker_configs(view: View, name: str) -> broker_configs.Configs:
    """Raises UnsupportedVersion, InvalidRequest, BrokerIdNotRegistered."""
    levels.require_broker_configs(view)
    broker_configs.require_resource(view, name)
    return broker_configs.find(view, name)


def _topic(view: View, wanted: ResourceChanges) -> Topic:
    if not wanted.name:
        raise InvalidRequest("settings of all topics cannot be set at once; expected the name of a topic")
    topic = find(view, wanted.name)
    if topic is None:
        require_valid_name(wanted.name)
        raise UnknownTopicOrPartition(f"no topic is named {wanted.name!r}")
    return topic


def _apply(configs: dict[str, str], change: ConfigChange, known: Mapping[str, Setting]) -> None:
    """Raises InvalidConfig: something is appended to what is no list."""
    if change.operation == ConfigOperation.DELETE:
        configs.pop(change.name, None)
        return
    value = change.value or ""
    if change.operation == ConfigOperation.SET:
        configs[change.name] = value
        return
    operation = ConfigOperation(change.operation).name
    setting = known.get(change.name)
    if setting is None or change.name not in LISTS:
        raise InvalidConfig(f"{change.name[:200]}: {operation} needs a setting whose value is a list")
    parts = [each for each in configs.get(change.name, setting.default).split(",") if each]
    for each in value.split(","):
        if change.operation == ConfigOperation.APPEND and each not in parts:
            parts.append(each)
        elif change.operation == ConfigOperation.SUBTRACT and each in parts:
            parts.remove(each)
    configs[change.name] = ",".join(parts)
