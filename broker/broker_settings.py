"""This broker's settings: of its properties, and those that are set for it, or for all, while it runs.

Learned     each heartbeat's answer has a digest of what is set while it runs; another one is asked for. What
            this version does not know is passed over, and named in the log.
Described   without what is secret. What cannot change while a broker runs is read-only. Topics have their
            defaults from here, so what clients read of a topic is completed here.
Source      Kafka DynamicBrokerConfig, ConfigHelper.describeConfigs.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import MISSING, Field, fields
from random import Random
from typing import Any, Final

from structlog.typing import FilteringBoundLogger

from fencepost.broker.partitions import Partitions
from fencepost.broker.retry import CALL_FAILURES, Retry
from fencepost.controller.broker_configs import ALL_BROKERS, CHANGEABLE, digest_of_layers
from fencepost.controller.errors import ErrorCode
from fencepost.controller.topic_configs import (
    SOURCE_BROKERS,
    SOURCE_DEFAULT,
    SOURCE_PROPERTIES,
    SOURCE_TOPIC,
    NodeDefaults,
    in_force,
    with_properties,
)
from fencepost.controller.topics import ConfigSynonym, TopicConfig
from fencepost.settings.config import NodeConfig
from fencepost.settings.topic_defaults import topic_defaults
from fencepost.wire.client import ControllerClient
from fencepost.wire.k32_describe_configs import (
    BROKER_RESOURCE,
    DESCRIBE_CONFIGS,
    ConfigResource,
    ConfigsDescribed,
    DescribeConfigs,
)

CALL_TIMEOUT_S: Final = 2.0
RETRY_S: Final = 1.0
NOT_SENT: Final = -1  # the digest of a cluster whose level keeps no settings of brokers


class BrokerSettings:
    """See the module. On the event loop."""

    def __init__(
        self,
        config: NodeConfig,
        partitions: Partitions,
        controllers: ControllerClient,
        *,
        rng: Random,
        log: FilteringBoundLogger,
    ) -> None:
        self.broker_id = config.node_id
        self._partitions = partitions
        self._controllers = controllers
        self._retry = Retry("ask for this broker's settings", rng=rng, log=log)
        self._log = log
        self._properties = topic_defaults(config)
        self._static = {each.name: each for each in _of_properties(config)}
        self._changed: NodeDefaults = ()
        self._digest: int | None = None  # of what is set while the broker runs, as it was taken last
        self._announced = NOT_SENT
        self._wanted = asyncio.Event()
        self._refreshing = asyncio.Lock()

    # -- what is set while the broker runs ----------------------------------------------------------

    def heartbeat_answered(self, digest: int) -> None:
        """A heartbeat had the digest of what is set for this broker."""
        self._announced = digest
        self._wanted.set()

    async def run(self) -> None:
        """Ask whenever something else is set; forever. A heartbeat may be answered while one is under way."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            if self._announced != self._digest and not await self.refresh():
                await asyncio.sleep(RETRY_S)
                self._wanted.set()

    async def refresh(self) -> bool:
        """Take what is set now. False: the controller did not answer."""
        async with self._refreshing:  # or an older answer would be taken after a newer one
            return await self._refresh()

    async def _refresh(self) -> bool:
        changed: NodeDefaults = ()
        digest = NOT_SENT
        if self._announced != NOT_SENT:
            resource = ConfigResource(BROKER_RESOURCE, str(self.broker_id))
            request = DescribeConfigs((resource,), with_synonyms=True)
            try:
                answer = await self._controllers.call(DESCRIBE_CONFIGS, request, timeout_s=CALL_TIMEOUT_S)
            except CALL_FAILURES as error:
                self._retry.failed(error)
                return False
            (row,) = answer.results
            if row.error_code != ErrorCode.NONE:
                return False  # not registered any more: the next registration has a heartbeat
            layers = tuple((each.name, each.synonyms) for each in row.configs if each.synonyms)
            # What is announced may be older than this answer, or newer: the digest is of what is held.
            digest = digest_of_layers(layers)
            changed = tuple(self._obeyed(layers))
        self._retry.succeeded()
        self._digest = digest
        self._take(changed)
        return True

    def _obeyed(self, layers: NodeDefaults) -> Iterator[tuple[str, tuple[ConfigSynonym, ...]]]:
        """What this version obeys. A newer controller may have settings and values that it does not know."""
        unknown = []
        for name, every in layers:
            setting = CHANGEABLE.get(name)
            known = tuple(each for each in every if setting and setting.accepts(each.value or ""))
            if known != every:
                unknown.append(name)
            if known:
                yield name, known
        if unknown:
            self._log.warning("broker_settings_not_obeyed", unknown_here=unknown)

    def _take(self, changed: NodeDefaults) -> None:
        values = [(name, synonyms[0].value) for name, synonyms in changed]
        self._partitions.set_own(values)
        if changed != self._changed:
            self._changed = changed
            self._log.info("broker_settings_changed", settings=dict(values))

    # -- what clients read --------------------------------------------------------------------------

    def describe(self, resource: ConfigResource) -> ConfigsDescribed:
        """What a broker answers for itself, or for all; another broker is to be asked itself."""
        if resource.name == ALL_BROKERS:
            return _described(resource, self._of_all())
        if resource.name != str(self.broker_id):
            text = f"this is broker {self.broker_id}: ask broker {resource.name[:20]!r} for its settings"
            return ConfigsDescribed(BROKER_RESOURCE, resource.name, (), ErrorCode.INVALID_REQUEST, text)
        return _described(resource, self._of_this())

    def complete(self, topic: ConfigsDescribed, resource: ConfigResource) -> ConfigsDescribed:
        """A topic's settings as this broker has them: what the topic does not set is the broker's."""
        if topic.error_code != ErrorCode.NONE:
            return topic
        own = tuple(
            (each.name, each.value)
            for each in topic.configs
            if each.source == SOURCE_TOPIC and each.value is not None
        )
        return _described(resource, in_force(own, with_properties(self._changed, self._properties)))

    def _of_all(self) -> tuple[TopicConfig, ...]:
        return tuple(
            TopicConfig(name, each.value, each.source, synonyms=(each,), kind=_kind(name))
            for name, synonyms in self._changed
            for each in synonyms
            if each.source == SOURCE_BROKERS
        )

    def _of_this(self) -> tuple[TopicConfig, ...]:
        found = dict(self._static)
        for name, synonyms in self._changed:
            every = (*synonyms, *found[name].synonyms)
            found[name] = TopicConfig(name, every[0].value, every[0].source, synonyms=every, kind=_kind(name))
        return tuple(found[name] for name in sorted(found))


def _described(resource: ConfigResource, found: tuple[TopicConfig, ...]) -> ConfigsDescribed:
    wanted = resource.keys
    return ConfigsDescribed(
        resource.resource_type,
        resource.name,
        found if wanted is None else tuple(each for each in found if each.name in wanted),
    )


def _kind(name: str) -> int:
    return CHANGEABLE[name].kind if name in CHANGEABLE else 0


def _of_properties(config: NodeConfig) -> Iterator[TopicConfig]:
    """Every setting of a node, with its default where the properties do not say it."""
    named = set()
    for each in fields(config):
        setting = _setting(each, getattr(config, each.name))
        named.add(setting.name)
        yield setting
    for name, setting_ in CHANGEABLE.items():
        if name not in named:
            default = ConfigSynonym(name, setting_.default, SOURCE_DEFAULT)
            yield TopicConfig(name, setting_.default, SOURCE_DEFAULT, synonyms=(default,), kind=setting_.kind)


def _setting(field: Field[Any], value: Any) -> TopicConfig:
    name, is_secret = field.metadata["key"], not field.repr
    is_default = field.default is not MISSING and value == field.default
    text = _text(field, value)
    source = SOURCE_DEFAULT if is_default else SOURCE_PROPERTIES
    synonyms = () if is_default else (ConfigSynonym(name, text, SOURCE_PROPERTIES),)
    if field.default is not MISSING and field.default is not None:
        synonyms = (*synonyms, ConfigSynonym(name, _text(field, field.default), SOURCE_DEFAULT))
    return TopicConfig(name, text, source, name not in CHANGEABLE, is_secret, synonyms, _kind(name))


def _text(field: Field[Any], value: Any) -> str | None:
    text: str = field.metadata["kind"].render(value) if value is not None else ""
    return None if value is None or not field.repr else text
