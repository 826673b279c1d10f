"""Settings of brokers that change while they run: of one broker, or of all of them.

Which       those that are the default of a topic's setting. All others are read-only: they are in the
            properties of each node.
Named       by the broker's id; "" is all brokers. What is set for one broker counts before what is for all.
Known       a broker learns with each heartbeat whether it has other settings (``digest_of``), and asks then.
Source      Kafka DynamicBrokerConfig, ConfigurationControlManager; KIP-226.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from fencepost.controller import cluster_version, levels
from fencepost.controller.brokers import BROKERS
from fencepost.controller.errors import BrokerIdNotRegistered, InvalidRequest
from fencepost.controller.topic_configs import (
    INT64_MAX,
    MIN_INSYNC_REPLICAS,
    SETTINGS,
    SOURCE_BROKER,
    SOURCE_BROKERS,
    NodeDefaults,
    Setting,
)
from fencepost.controller.topics import ConfigSynonym, configs_digest
from fencepost.controller.view import MutableView, Table, View
from fencepost.records.invariant import invariant
from fencepost.records.schema import ConfigRecord
from fencepost.records.types import BrokerId

BROKER_RESOURCE: Final = 4  # ConfigRecord.resource_type of a broker
ALL_BROKERS: Final = ""
_ID_CHARACTERS_MAX: Final = 10  # of an int32

Configs = tuple[tuple[str, str], ...]

BROKER_CONFIGS: Final[Table[str, Configs]] = Table(
    "broker_configs", Configs, lambda name: name.encode(), lambda key: key.decode()
)
"""By the name of the resource, ordered by the setting; no row where none is set."""

CHANGEABLE: Final[Mapping[str, Setting]] = {
    each.of_broker: each
    for name, each in SETTINGS.items()
    if each.of_broker and not each.is_fixed and name != MIN_INSYNC_REPLICAS
}
"""By the broker's names. A partition has one replica: nothing of them can change."""


def find(view: View, name: str) -> Configs:
    """What is set for that resource."""
    return view.get(BROKER_CONFIGS, name) or ()


def digest_of(view: View, broker_id: BrokerId) -> int:
    """A number, not negative, that other settings of the broker do not have; 0: none are set.

    -1 below the log level that keeps them.
    """
    return digest_of_layers(layers(view, broker_id)) if levels.keeps_broker_configs(view) else -1


def digest_of_layers(found: NodeDefaults) -> int:
    """As ``digest_of``, of what a broker read of its settings."""
    one, every = _of_source(found, SOURCE_BROKER), _of_source(found, SOURCE_BROKERS)
    return configs_digest((*one, *(("", ""), *every))) & INT64_MAX if one or every else 0


def _of_source(found: NodeDefaults, source: int) -> tuple[tuple[str, str | None], ...]:
    return tuple((name, each.value) for name, every in found for each in every if each.source == source)


def layers(view: View, broker_id: BrokerId | None) -> NodeDefaults:
    """What is set for a broker, or for all of them (None), by the broker's setting."""
    found: dict[str, tuple[ConfigSynonym, ...]] = {}
    if broker_id is not None:
        for name, value in find(view, str(broker_id)):
            found[name] = (ConfigSynonym(name, value, SOURCE_BROKER),)
    for name, value in find(view, ALL_BROKERS):
        found[name] = (*found.get(name, ()), ConfigSynonym(name, value, SOURCE_BROKERS))
    return tuple(sorted(found.items()))


def require_resource(view: View, name: str) -> None:
    """Raises InvalidRequest, BrokerIdNotRegistered: no broker has that name."""
    if name == ALL_BROKERS:
        return
    if not (name.isascii() and name.isdigit() and len(name) <= _ID_CHARACTERS_MAX and str(int(name)) == name):
        raise InvalidRequest(
            f"{name[:20]!r} is no broker: expected a broker's id, or nothing for all brokers"
        )
    if view.get(BROKERS, BrokerId(int(name))) is None:
        raise BrokerIdNotRegistered(f"no broker has id {name}")


def checked(configs: Mapping[str, str]) -> Configs:
    """The settings as they are kept, ordered by name. Raises InvalidRequest, for a value too, as Kafka."""
    fixed = sorted(configs.keys() - CHANGEABLE.keys())
    if fixed:
        raise InvalidRequest(
            f"cannot be changed while a broker runs: {', '.join(fixed)[:200]}; a node's properties have it. "
            f"What can be changed: {', '.join(CHANGEABLE)}"
        )
    kept = []
    for name, value in sorted(configs.items()):
        setting, text = CHANGEABLE[name], value.strip()
        if not setting.accepts(text):
            raise InvalidRequest(f"{name}: expected {setting.expected}; got {value[:200]!r}")
        kept.append((name, text))
    return tuple(kept)


def records_of(view: View) -> Iterator[ConfigRecord]:
    """The records that make the settings."""
    for resource, configs in view.scan(BROKER_CONFIGS):
        for name, value in configs:
            yield ConfigRecord(resource_type=BROKER_RESOURCE, resource_name=resource, name=name, value=value)


def replay(view: MutableView, record: ConfigRecord) -> None:
    """Total."""
    invariant(record.resource_type == BROKER_RESOURCE, "a setting of no broker", record=record)
    cluster_version.advance(view)
    configs = dict(find(view, record.resource_name))
    if record.value is None:
        configs.pop(record.name, None)
    else:
        configs[record.name] = record.value
    if configs:
        view.put(BROKER_CONFIGS, record.resource_name, tuple(sorted(configs.items())))
    elif view.get(BROKER_CONFIGS, record.resource_name) is not None:
        view.delete(BROKER_CONFIGS, record.resource_name)
