"""What a broker's properties say, as DescribeConfigs answers it: read-only, and without what is secret.

Source   Kafka ConfigHelper.describeConfigs of a BROKER resource.
"""

from dataclasses import MISSING, Field, fields
from typing import Any, Final, NamedTuple

from fencepost.controller.errors import ErrorCode
from fencepost.controller.topic_configs import SOURCE_DEFAULT, SOURCE_PROPERTIES
from fencepost.controller.topics import TopicConfig
from fencepost.settings.config import NodeConfig
from fencepost.wire.k32_describe_configs import BROKER_RESOURCE, ConfigResource, ConfigsDescribed

OF_EVERY_BROKER: Final = ""  # the name of what is set for all brokers while they run: nothing ever is


class BrokerSettings(NamedTuple):
    """The settings of one broker, by name."""

    broker_id: int
    settings: tuple[TopicConfig, ...]

    def describe(self, resource: ConfigResource) -> ConfigsDescribed:
        """What a broker answers for itself; another broker is to be asked itself."""
        if resource.name == OF_EVERY_BROKER:
            return ConfigsDescribed(BROKER_RESOURCE, resource.name)
        if resource.name != str(self.broker_id):
            text = f"this is broker {self.broker_id}: ask broker {resource.name[:20]!r} for its settings"
            return ConfigsDescribed(BROKER_RESOURCE, resource.name, (), ErrorCode.INVALID_REQUEST, text)
        wanted = resource.keys
        found = tuple(each for each in self.settings if wanted is None or each.name in wanted)
        return ConfigsDescribed(BROKER_RESOURCE, resource.name, found)


def broker_settings(config: NodeConfig) -> BrokerSettings:
    """Every setting of a node, with its default where the properties do not say it."""
    found = (_setting(each, getattr(config, each.name)) for each in fields(config))
    return BrokerSettings(config.node_id, tuple(sorted(found, key=lambda each: each.name)))


def _setting(field: Field[Any], value: Any) -> TopicConfig:
    is_secret = not field.repr
    is_default = field.default is not MISSING and value == field.default
    text = None if value is None or is_secret else field.metadata["kind"].render(value)
    source = SOURCE_DEFAULT if is_default else SOURCE_PROPERTIES
    return TopicConfig(field.metadata["key"], text, source, read_only=True, sensitive=is_secret)
