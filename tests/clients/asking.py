"""Requests to a real cluster, one at a time, with every field as the test says."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from fencepost.cluster.brokers import Brokers
from fencepost.cluster.target import brokers_of
from fencepost.controller.errors import ApiError, ErrorCode
from fencepost.controller.transactions.init_request import InitProducerId
from fencepost.records.types import ProducerId
from fencepost.wire.dispatch import Api
from tests.harness.nodes import Nodes

TIMEOUT_MS = 60_000
PATIENCE_S = 30.0
NO_NODE = ProducerId(-1)


def outcome_of(cluster: Nodes, transactional_id: str, api: Api[Any, Any], request: Any) -> Any:
    """The coordinator's answer, or the code of its refusal. What passes is waited for."""

    async def ask(brokers: Brokers) -> Any:
        _, answer = await brokers.ask_coordinator(transactional_id, api, request)
        return answer

    return _with_retries(cluster, ask)


def outcome_of_leader(cluster: Nodes, topic: str, index: int, api: Api[Any, Any], request: Any) -> Any:
    """The answer of a partition's leader. What passes is waited for."""
    return _with_retries(cluster, lambda brokers: brokers.ask_leader(topic, index, api, request))


def _with_retries(cluster: Nodes, ask: Callable[[Brokers], Awaitable[Any]]) -> Any:
    async def hold() -> Any | ErrorCode:
        brokers = Brokers(brokers_of(cluster.cluster), timeout_s=PATIENCE_S)
        try:
            return await brokers.with_retries(lambda: ask(brokers))
        except ApiError as error:
            return error.code
        finally:
            brokers.close()

    return asyncio.run(hold())


def init(producer_id: ProducerId = NO_NODE, epoch: int = -1, *, of: str) -> InitProducerId:
    """InitProducerId of a transactional id, as a new instance or with the pair that it has."""
    return InitProducerId(of, TIMEOUT_MS, producer_id, epoch)
