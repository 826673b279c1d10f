"""Operators who change one setting each, of all brokers or of a topic, and read it, while everything goes on.

Each value is set once, so what is read tells which request it is of. What was acknowledged is in force until
another request is; one without an answer may be applied at any time later, once; a refused one never is.
"""

import random
from collections.abc import Mapping
from typing import Any, Final

from fencepost.controller import broker_configs
from fencepost.controller.broker_configs import ALL_BROKERS, BROKER_RESOURCE
from fencepost.controller.config_changes import (
    AlterConfigs,
    AlterConfigsAnswer,
    ConfigChange,
    ConfigOperation,
    ResourceChanges,
)
from fencepost.controller.errors import ApiError, ErrorCode, RequestTimedOut, UnsupportedVersion
from fencepost.controller.topics import TOPIC_RESOURCE, CreateTopics, NewTopic, find
from fencepost.controller.view import View
from fencepost.records.types import NodeId
from tests.simulation.agenda import Agenda
from tests.simulation.clients import CONTEXT
from tests.simulation.invariants import require
from tests.simulation.ledger import Ledger
from tests.simulation.operators import Operator
from tests.simulation.process import Process
from tests.wire.answering import Answering

OF_ALL_BROKERS: Final = (BROKER_RESOURCE, ALL_BROKERS, "log.retention.ms")
OF_A_TOPIC: Final = (TOPIC_RESOURCE, "configured", "retention.ms")


class SettingOperator(Operator):
    """See the module."""

    def __init__(
        self,
        resource: tuple[int, str, str],
        agenda: Agenda,
        rng: random.Random,
        ledger: Ledger,
        processes: Mapping[NodeId, Process],
    ) -> None:
        self.looks = 0
        self._kind, self._resource, self._setting = resource
        self._is_there = self._kind == BROKER_RESOURCE
        self._last_value = 0
        self._in_force: str | None = None
        self._perhaps: list[str | None] = []  # of requests without an answer that were not seen in force
        super().__init__(agenda, rng, ledger, processes)

    def _act(self) -> None:
        chance = self._rng.random()
        if not self._is_there:
            self._create()
        elif chance < 0.5:
            self._read(self._configs, self._looked)
        else:
            self._change(None if chance < 0.65 else self._next_value())

    def _create(self) -> None:
        def done(answer: Any) -> None:
            code = answer.topics[0].error_code
            self._is_there = code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)

        request = CreateTopics((NewTopic(self._resource, 1, 1),))
        self._send(
            lambda node, reply: node.controller.topics.create(request, CONTEXT, Answering(reply)), done
        )

    def _next_value(self) -> str:
        self._last_value += 1
        return str(self._last_value)

    def _change(self, value: str | None) -> None:
        operation = ConfigOperation.DELETE if value is None else ConfigOperation.SET
        changes = (ConfigChange(self._setting, value, operation),)
        request = AlterConfigs((ResourceChanges(self._kind, self._resource, changes),))
        self._perhaps.append(value)

        def done(answer: AlterConfigsAnswer) -> None:
            (row,) = answer.resources
            require(row.error_code == ErrorCode.NONE, "I2: a sound setting is refused", answer=row)
            self._settle(value)
            self._ledger.count("settings changed")

        def refused(error: ApiError) -> None:
            if isinstance(error, RequestTimedOut):
                return
            self._perhaps.remove(value)
            if isinstance(error, UnsupportedVersion):
                self._ledger.count("settings below their level")

        self._send(
            lambda node, reply: node.controller.topics.alter_configs(request, CONTEXT, Answering(reply)),
            done,
            refused,
        )

    def _settle(self, value: str | None) -> None:
        self._perhaps.remove(value)
        self._in_force = value

    def _configs(self, view: View) -> tuple[tuple[str, str], ...] | None:
        if self._kind == BROKER_RESOURCE:
            return broker_configs.find(view, self._resource)
        topic = find(view, self._resource)
        return None if topic is None else topic.configs

    def _looked(self, configs: tuple[tuple[str, str], ...] | None) -> None:
        self.looks += 1
        if self._ledger.changed:
            return  # perhaps the leader's row: see mixed.py
        require(configs is not None, "I2: an acknowledged topic is gone", name=self._resource)
        value = dict(configs or ()).get(self._setting)
        if value != self._in_force:
            require(
                value in self._perhaps,
                "I2: a setting is neither what was acknowledged last nor what may have come later",
                resource=self._resource,
                value=value,
                acknowledged=self._in_force,
                perhaps=self._perhaps,
            )
            self._settle(value)
        self._ledger.count("settings read")
