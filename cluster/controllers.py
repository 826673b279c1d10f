"""How commands reach the active controller, and what its errors mean to them.

Exit status  refused for lack of authorization 4; no controller answered, or the outcome is unknown 3; any
             other refusal 1.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from fencepost.cluster.console import Failed, NotAuthorized, Unreadable
from fencepost.cluster.target import TIMEOUT_SECONDS, Target, hint_of, sentence_of
from fencepost.controller.errors import ApiError, ErrorCode, NotController
from fencepost.wire.client import (
    BACKOFF_S_MAX,
    ConnectionLost,
    ControllerClient,
    NotConnected,
    RequestTimeout,
)
from fencepost.wire.dispatch import Api, Q, R

T = TypeVar("T")


def client_of(target: Target, *, backoff_s_max: float = BACKOFF_S_MAX) -> ControllerClient:
    """A client of the active controller; for one event loop, and to be closed."""
    return ControllerClient(
        target.addresses,
        sasl=target.sasl,
        tls=target.tls,
        rng=random.Random(),
        client_id="fencepost-cli",
        backoff_s_max=backoff_s_max,
    )


def run(target: Target, conversation: Callable[[ControllerClient], Awaitable[T]]) -> T:
    """Hold a conversation with the active controller; its errors become exit statuses."""

    async def hold() -> T:
        client = client_of(target)
        try:
            return await conversation(client)
        finally:
            await client.close()

    with errors_explained(target):
        return asyncio.run(hold())


def ask(target: Target, api: Api[Q, R], request: Q, *, timeout_s: float = TIMEOUT_SECONDS) -> R:
    """One request to the active controller."""
    return run(target, lambda client: client.call(api, request, timeout_s=timeout_s))


@contextmanager
def errors_explained(target: Target) -> Iterator[None]:
    """What a conversation may raise, as the exit status and sentence it deserves."""
    try:
        yield
    except (NotConnected, NotController) as error:
        raise Unreadable(
            f"no active controller at {target.name}: {error}{hint_of(target.cluster)}"
        ) from error
    except (ConnectionLost, RequestTimeout) as error:
        raise Unreadable(
            f"the outcome is unknown, it may have been done: {error}{hint_of(target.cluster)}"
        ) from error
    except ApiError as error:
        if error.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            raise NotAuthorized(sentence_of(error)) from error
        raise Failed(sentence_of(error)) from error
