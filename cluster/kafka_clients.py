"""Our client (``fencepost.client``) as commands use it: its settings by Kafka's names, its errors' meaning.

Settings   have the names and units of Kafka's ProducerConfig and ConsumerConfig.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, TypeVar

import click

from fencepost.client import (
    AuthorizationFailed,
    ClientError,
    Consumer,
    DeliveryTimedOut,
    InvalidSetting,
    NotReachable,
    OutcomeUnknown,
    Producer,
    RequestTimedOut,
)
from fencepost.cluster.console import Failed, NotAuthorized, Unreadable, WrongUsage
from fencepost.cluster.target import Target, hint_of

T = TypeVar("T")

CALL_SECONDS: Final = 10.0
"""Of one call of the client, the first one that reaches the cluster included."""

CLIENT_ID: Final = "fencepost-cli"


class Setting(NamedTuple):
    """``argument`` of the client, and how its text is read. Without one: ``only`` is what it always is."""

    argument: str = ""
    read: Callable[[str], Any] = str
    only: tuple[str, ...] = ()


def _names(text: str) -> tuple[str, ...]:
    return tuple(each.strip() for each in text.split(","))


PRODUCER_SETTINGS: Final[Mapping[str, Setting]] = {
    "acks": Setting(only=("all", "-1", "1", "0")),  # who wants less than all of them has that, too
    "batch.size": Setting("batch_size", int),
    "buffer.memory": Setting("buffer_memory", int),
    "client.id": Setting("client_id"),
    "compression.type": Setting("compression"),
    "delivery.timeout.ms": Setting("delivery_timeout_ms", int),
    "enable.idempotence": Setting(only=("true",)),
    "linger.ms": Setting("linger_ms", float),
    "max.block.ms": Setting("max_block_ms", int),
    "max.request.size": Setting("max_request_size", int),
    "request.timeout.ms": Setting("request_timeout_ms", int),
    "transaction.timeout.ms": Setting("transaction_timeout_ms", int),
    "transactional.id": Setting("transactional_id"),
}
CONSUMER_SETTINGS: Final[Mapping[str, Setting]] = {
    "auto.offset.reset": Setting("auto_offset_reset"),
    "client.id": Setting("client_id"),
    "default.api.timeout.ms": Setting("api_timeout_ms", int),
    "fetch.max.bytes": Setting("fetch_max_bytes", int),
    "fetch.max.wait.ms": Setting("fetch_max_wait_ms", int),
    "fetch.min.bytes": Setting("fetch_min_bytes", int),
    "group.id": Setting("group_id"),
    "group.instance.id": Setting("group_instance_id"),
    "heartbeat.interval.ms": Setting("heartbeat_interval_ms", int),
    "isolation.level": Setting("isolation_level"),
    "max.partition.fetch.bytes": Setting("max_partition_fetch_bytes", int),
    "max.poll.interval.ms": Setting("max_poll_interval_ms", int),
    "partition.assignment.strategy": Setting("assignors", _names),
    "request.timeout.ms": Setting("request_timeout_ms", int),
    "session.timeout.ms": Setting("session_timeout_ms", int),
}


def producer_of(target: Target, settings: Mapping[str, str]) -> Producer:
    """A producer that is not started. Raises WrongUsage, which names the setting."""
    return _client(Producer, target, _arguments(settings, PRODUCER_SETTINGS), "max_block_ms")


def consumer_of(target: Target, settings: Mapping[str, str]) -> Consumer:
    """A consumer that is not started. Raises WrongUsage, which names the setting."""
    return _client(Consumer, target, _arguments(settings, CONSUMER_SETTINGS), "api_timeout_ms")


def _client(kind: Callable[..., T], target: Target, arguments: dict[str, Any], longest: str) -> T:
    """``longest`` is the setting of how long a call may take; ``arguments`` go before it."""
    usual = {"client_id": CLIENT_ID, longest: round(CALL_SECONDS * 1000)}
    try:
        return kind(target.name, sasl=target.sasl, tls=target.tls, **(usual | arguments))
    except InvalidSetting as error:
        raise WrongUsage(str(error)) from error


def _arguments(settings: Mapping[str, str], known: Mapping[str, Setting]) -> dict[str, Any]:
    arguments: dict[str, Any] = {}
    for key, text in settings.items():
        setting = known.get(key)
        if setting is None:
            raise WrongUsage(f"{key} is no setting of this client; it has {', '.join(known)}")
        if not setting.argument:
            if text not in setting.only:
                raise WrongUsage(f"{key}: expected {' or '.join(setting.only)}, got {text!r}")
            continue
        try:
            arguments[setting.argument] = setting.read(text)
        except ValueError:
            raise WrongUsage(f"{key}: expected a number, got {text!r}") from None
    return arguments


def run(target: Target, conversation: Coroutine[Any, Any, T]) -> T:
    """Run what uses clients of ``target``; their errors become exit statuses. Ctrl-C cancels it first."""
    with errors_explained(target):
        return asyncio.run(conversation)


@contextmanager
def errors_explained(target: Target) -> Iterator[None]:
    """What the client raises, as the exit status and sentence it deserves."""
    try:
        yield
    except ClientError as error:
        raise explained(error, target) from error


def explained(error: ClientError, target: Target) -> click.ClickException:
    """An error of the client, with the exit status it deserves."""
    if isinstance(error, AuthorizationFailed):
        return NotAuthorized(str(error))
    if isinstance(error, NotReachable | RequestTimedOut | DeliveryTimedOut | OutcomeUnknown):
        return Unreadable(f"{target.name}: {error}{hint_of(target.cluster)}")
    return Failed(str(error))
