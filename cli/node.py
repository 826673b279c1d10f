"""``fencepost node``: one node in the foreground. The composition root: the only place that knows all parts.

Order       identity, loop, metrics, controller, broker; ended in the opposite order. A broker finds the
            controller over its socket, also the one in this very process.
Ends        SIGTERM: cleanly, status 0 (leadership is handed over). SIGINT: the same, status 130. A part that
            cannot go on: its own status, 4 for a broker that is not authorized. A second signal: at once.
"""

import asyncio
import logging
import os
import resource
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import click
import structlog
import uvloop
from structlog.typing import FilteringBoundLogger

from fencepost.broker.exit_reason import ExitReason
from fencepost.broker.main import Broker
from fencepost.broker.settings import SettingsError
from fencepost.cli.log_file import keep_rotating
from fencepost.cli.output import INTERRUPTED, Failed, WrongUsage
from fencepost.cli.storage import read_config
from fencepost.quorum.active_controller import EXIT_HALTED, Controller
from fencepost.quorum.config import ConfigError, NodeConfig
from fencepost.quorum.metrics import NodeMetrics, watch_loop
from fencepost.quorum.metrics_port import MetricsPort
from fencepost.quorum.node_identity import (
    Identity,
    StorageError,
    id_text,
    read_identity,
    require_identity,
    without_store,
)
from fencepost.records.invariant import InvariantViolation
from fencepost.snapshots.store import STORE_FAILURES, ImageLost, StoreInUse
from fencepost.wire.garbage import spare_long_lived
from fencepost.wire.request_memory import RequestMemory

if TYPE_CHECKING:
    from fencepost.cli.zookeeper_port import LivePort

STOP_SECONDS_MAX: Final = 10.0
NO_AUTHORIZER: Final = (
    "whoever connects may do everything; authorizer.acls.file lists who administers the cluster"
)
LEVELS: Final = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}


class Part(Protocol):
    """A role of a node."""

    @property
    def fatal(self) -> "asyncio.Future[ExitReason]":
        """Done when the part cannot go on."""

    async def start(self) -> None:
        """Returns when the part serves."""

    async def stop(self) -> None:
        """A clean stop."""


@click.command()
@click.option(
    "-c", "--config", "file", type=click.Path(path_type=Path), required=True, help="node.properties"
)
def node(file: Path) -> int:
    """Run one node in the foreground. Its directory must be formatted: see 'fencepost storage format'."""
    config = read_config(file)
    try:
        identity = read_identity(config.directory)
        require_identity(config.directory, identity, cluster_id=None, node_id=config.node_id)
    except StorageError as error:
        raise Failed(str(error)) from error
    return run_node(config, identity)


def run_node(config: NodeConfig, identity: Identity) -> int:
    """Run until a signal ends it. Returns the exit status."""
    log = open_log(config)
    identity = _with_its_store(config, identity, log)
    _raise_files_limit()
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(_run(config, identity, log))
    except (ConfigError, SettingsError) as error:
        raise WrongUsage(str(error)) from error
    except (
        OSError,
        StoreInUse,
        ImageLost,
        StorageError,
    ) as error:  # e.g. a port or a directory that somebody else has
        raise Failed(str(error)) from error


def _with_its_store(config: NodeConfig, identity: Identity, log: FilteringBoundLogger) -> Identity:
    """The identity to start with. A voter whose store was removed forgot its votes: it is a new one.

    Raises Failed where nobody has what it forgot.
    """
    directory = config.directory
    if not (config.is_controller and identity.has_store) or (directory / "store" / "data.mdb").exists():
        return identity
    if len(config.voters) == 1:
        raise Failed(
            f"{directory}: the store of this node is gone (store/ was removed), and it is the only voter. "
            "Put it back, or move the directory away and format a new one: the cluster then begins anew"
        )
    renewed = without_store(directory, identity)
    log.error(
        "store_lost",
        directory=str(directory),
        directory_id=id_text(renewed.directory_id),
        next="does not vote until the others, a majority without it, have sent everything and readmitted it",
    )
    return renewed


def _raise_files_limit() -> None:
    """As many open files as the system allows: a partition takes three, a connection one."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def open_log(config: NodeConfig) -> FilteringBoundLogger:
    """Events on stderr, one line each, the node's id in every one."""
    renderer: structlog.typing.Processor = structlog.processors.JSONRenderer()
    if config.log_format == "console":
        renderer = structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), pad_event_to=0, sort_keys=False)
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.ExceptionRenderer(),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[config.log_level]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    log: FilteringBoundLogger = structlog.get_logger().bind(node_id=config.node_id)
    return log


async def _run(config: NodeConfig, identity: Identity, log: FilteringBoundLogger) -> int:
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[int] = loop.create_future()
    loop.set_exception_handler(lambda _loop, context: _not_caught(context, log))
    for number, status in ((signal.SIGTERM, 0), (signal.SIGINT, INTERRUPTED)):
        loop.add_signal_handler(number, _end, ended, status)
    if config.acls_file is None:
        listeners = ", ".join(str(each.name) for each in config.listeners)
        log.warning("authorizer_missing", listeners=listeners, next=NO_AUTHORIZER)
    metrics = NodeMetrics(log)
    memory = RequestMemory(config.queued_request_bytes_max)
    async with AsyncExitStack() as stack:
        stack.callback(keep_rotating(loop, config.log_rotate_bytes, config.log_rotate_files))
        stack.callback(watch_loop(loop, metrics))
        if config.metrics_port is not None:
            port = MetricsPort(
                metrics.registry, log=log, limits=config.listener_limits, stalls=metrics.stalls
            )
            await port.start(config.metrics_port)
            stack.push_async_callback(port.stop)
        parts: list[Part] = []
        controller: Controller | None = None
        if config.is_controller:
            zookeeper = await stack.enter_async_context(_zookeeper(config, log))
            controller = Controller(config, identity, log, metrics, zookeeper, memory)
            parts.append(controller)
        if config.is_broker:
            coordinator = None if controller is None else controller.transactions.service
            broker = Broker(
                config,
                identity,
                log,
                metrics,
                coordinator=coordinator,
                stalls=metrics.stalls,
                memory=memory,
                count_failed=metrics.requests_failed_total,
            )
            parts.append(broker)
            if controller is not None:  # clients meet the coordinator here, and its ids are of our block
                controller.transactions.claim = broker.claim_producer_id
        for part in parts:
            part.fatal.add_done_callback(lambda reason: _fail(ended, reason.result(), log))
            stack.push_async_callback(_stop, part, log)
        status = await _serve(parts, ended, log)
    log.info("node_stopped", status=status)
    return status


@asynccontextmanager
async def _zookeeper(config: NodeConfig, log: FilteringBoundLogger) -> AsyncIterator["LivePort | None"]:
    """The ZooKeeper that the node upgrades from, if it does. It need not answer yet."""
    if config.zookeeper_connect is None:
        yield None
        return
    from fencepost.cli.zookeeper_port import LivePort, access_of

    try:
        from fencepost.bridge.zookeeper import ZooKeeper
    except ModuleNotFoundError as error:
        raise ConfigError(f"zookeeper.connect: {error}; pip install 'fencepost[zookeeper]'") from error
    port = LivePort(ZooKeeper(access_of(config), log))
    await port.start()
    try:
        yield port
    finally:
        await port.stop()


async def _serve(parts: list[Part], ended: "asyncio.Future[int]", log: FilteringBoundLogger) -> int:
    """Start the parts and wait for the first reason to end. Returns the exit status."""
    starting = asyncio.get_running_loop().create_task(_start(parts, log))
    either: set[asyncio.Future[Any]] = {starting, ended}
    await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    if starting.done():
        starting.result()
    status = await ended
    starting.cancel()
    return status


async def _start(parts: list[Part], log: FilteringBoundLogger) -> None:
    for part in parts:
        await part.start()
    spare_long_lived()  # a full collection would stall the loop
    log.info("node_started")


async def _stop(part: Part, log: FilteringBoundLogger) -> None:
    try:
        async with asyncio.timeout(STOP_SECONDS_MAX):
            await part.stop()
    except TimeoutError:
        log.warning("stop_cut_short", part=type(part).__name__.lower(), seconds=STOP_SECONDS_MAX)


def _not_caught(context: dict[str, Any], log: FilteringBoundLogger) -> None:
    """An exception that reached the event loop: a broken invariant halts, and so does what the store raises.

    Anything else has cost the connection or task that raised it, which the loop has ended.
    """
    error = context.get("exception")
    if isinstance(error, (InvariantViolation, *STORE_FAILURES)):
        log.critical("node_halted", where="event loop", error=repr(error), exc_info=error)
        os._exit(EXIT_HALTED)
    log.error("exception_not_caught", where=context.get("message"), error=repr(error), exc_info=error)


def _end(ended: "asyncio.Future[int]", status: int) -> None:
    if ended.done():
        sys.exit(status)  # asked twice: at once
    ended.set_result(status)


def _fail(ended: "asyncio.Future[int]", reason: ExitReason, log: FilteringBoundLogger) -> None:
    log.error("node_failed", reason=reason.message)
    if not ended.done():
        ended.set_result(reason.exit_code)
