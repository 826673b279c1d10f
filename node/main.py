"""One node of a cluster, as a process: the composition root, the only place that knows all parts.

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
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Final, Protocol

import structlog
import uvloop
from structlog.typing import FilteringBoundLogger

from fencepost.broker.exit_reason import ExitReason
from fencepost.broker.main import Broker
from fencepost.coordinator.announcer import Here
from fencepost.node.active_controller import EXIT_HALTED, Controller
from fencepost.node.archive_scrub import ArchiveScrub
from fencepost.node.metrics import NodeMetrics, watch_loop
from fencepost.node.metrics_port import MetricsPort
from fencepost.node.readiness import Readiness
from fencepost.records.invariant import InvariantViolation
from fencepost.records.named_errors import described
from fencepost.records.types import BrokerId
from fencepost.settings.config import PLAINTEXT, ConfigError, NodeConfig
from fencepost.settings.credentials import Credentials, read_credentials
from fencepost.settings.log_file import keep_rotating
from fencepost.settings.log_lines import LogLines
from fencepost.settings.node_clock import NodeClock, machine_reader, watch_clock
from fencepost.settings.node_identity import (
    Identity,
    StorageError,
    id_text,
    mended,
    without_store,
)
from fencepost.snapshots.history import ARCHIVE_FOLDER
from fencepost.snapshots.reader import STORE, is_written
from fencepost.snapshots.store import STORE_FAILURES
from fencepost.snapshots.sums import StoreDamaged
from fencepost.wire.descriptors import RESERVE_MIN
from fencepost.wire.garbage import LongLived
from fencepost.wire.registry import load_newest
from fencepost.wire.request_memory import RequestMemory
from fencepost.wire.stalls import Stalls, Watch

if TYPE_CHECKING:
    from fencepost.bridge.live_port import LivePort

STDERR: Final = 2  # the descriptor: what stands for it in Python may be another file
INTERRUPTED: Final = 130
"""Exit status after Ctrl-C."""

STOP_SECONDS_MAX: Final = 10.0
GARBAGE_SECONDS: Final = 1.0
FILES_MIN: Final = 2 * RESERVE_MIN  # half of them for sockets
DAMAGED_STORES_MAX: Final = 100  # kept in one directory: more is a disk to be replaced
NO_AUTHORIZER: Final = (
    "any client that connects may do everything; authorizer.acls.file lists who administers the cluster"
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
        """Stop the part cleanly."""


def run_node(config: NodeConfig, identity: Identity) -> int:
    """Run until a signal ends it. Returns the exit status.

    Raises   ConfigError: the configuration, or a file that it names.
             StorageError, StoreInUse, OSError: the directory, a port, or too few file descriptors.
    """
    log = open_log(config)
    if identity.bootstrap_fault:
        log.error(
            "bootstrap_damaged", reason=identity.bootstrap_fault, next="removed: the store knows what it said"
        )
    if identity.meta_fault:
        log.error("meta_properties_damaged", reason=identity.meta_fault, next="both are written again")
    identity = mended(config.directory, identity)
    _raise_files_limit()
    identity = _with_its_store(config, identity, log)
    try:
        return _run_to_the_end(config, identity, log)
    except StoreDamaged as error:
        identity = _without_damaged_store(config, identity, error, log)
        return _run_to_the_end(config, identity, log)


def _run_to_the_end(config: NodeConfig, identity: Identity, log: FilteringBoundLogger) -> int:
    with asyncio.Runner(loop_factory=_loop_factory(config)) as runner:
        return runner.run(_run(config, identity, log))


def _loop_factory(config: NodeConfig) -> Callable[[], asyncio.AbstractEventLoop]:
    if not config.testing:
        return uvloop.new_event_loop
    from fencepost.wire.cuttable_loop import CuttableLoop

    return CuttableLoop


@asynccontextmanager
async def _clock(config: NodeConfig, log: FilteringBoundLogger) -> AsyncIterator[NodeClock]:
    """The machine's, or one that a test moves. Raises OSError."""
    if not config.testing:
        yield NodeClock(config.directory, log)
        return
    from fencepost.node.testing_port import FaultPort
    from fencepost.wire.cuttable_loop import CuttableLoop

    loop = asyncio.get_running_loop()
    if not isinstance(loop, CuttableLoop):
        raise InvariantViolation("fencepost.testing=true, and the loop is not one that can be cut")
    port = FaultPort(config.directory, loop, machine_reader())
    async with port.listening():
        clock = NodeClock(config.directory, log, read=port.clocks)
        port.moved = clock.moved
        yield clock


def _with_its_store(config: NodeConfig, identity: Identity, log: FilteringBoundLogger) -> Identity:
    """The identity to start with. A voter whose store is gone, or empty, forgot its votes: it is a new one.

    Raises StorageError where no other voter has what it forgot.
    """
    directory = config.directory
    if not (config.is_controller and identity.has_store) or is_written(directory / STORE):
        return identity
    if len(config.voters) == 1:
        raise StorageError(
            f"{directory}: the store of this node is gone (store/data.mdb is missing or empty), and it is "
            "the only voter. Put it back, or move the directory away and format a new one: the cluster then "
            "begins anew"
        )
    renewed = without_store(directory, identity)
    log.error(
        "store_lost",
        directory=str(directory),
        voter_id=id_text(renewed.voter_id),
        next="does not vote until the others, a majority without it, have sent everything and readmitted it",
    )
    return renewed


def _without_damaged_store(
    config: NodeConfig, identity: Identity, error: StoreDamaged, log: FilteringBoundLogger
) -> Identity:
    """Put a store aside that was changed behind our back: the others send everything, to a new voter.

    Raises StorageError where no other voter has it.
    """
    store = config.directory / STORE
    if len(config.voters) == 1:
        raise StorageError(
            f"{store}: {error}. This node is the only voter, so nothing was changed. Put a whole copy of "
            "the folder back, or move it away and format a new node: the cluster then begins anew"
        ) from error
    places = (store.with_name(f"store.damaged-{number}") for number in range(1, DAMAGED_STORES_MAX + 1))
    kept = next((each for each in places if not each.exists()), None)
    if kept is None:
        raise StorageError(
            f"{store}: {error}. {DAMAGED_STORES_MAX} damaged stores are there already"
        ) from error
    store.rename(kept)
    log.error("store_damaged", reason=str(error), kept=str(kept))
    return _with_its_store(config, identity, log)


def _raise_files_limit() -> None:
    """As many open files as the system allows: a partition takes three, a connection one. Raises OSError."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < FILES_MIN:
        raise OSError(
            f"a node needs {FILES_MIN} file descriptors, and may have {hard}: raise the hard limit "
            "(RLIMIT_NOFILE, 'ulimit -Hn')"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def open_log(config: NodeConfig) -> FilteringBoundLogger:
    """Events on stderr, one line each, the node's id in every one."""
    renderer: structlog.typing.Processor = structlog.processors.JSONRenderer()
    if config.log_format == "console":
        renderer = structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), pad_event_to=0, sort_keys=False)
    lines = LogLines(STDERR)
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.ExceptionRenderer(),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[config.log_level]),
        logger_factory=lambda *names: lines,
        cache_logger_on_first_use=True,
    )
    log: FilteringBoundLogger = structlog.get_logger().bind(node_id=config.node_id)
    lines.on_lost = lambda count, reason: log.warning("log_lines_lost", lines=count, reason=reason)
    return log


async def _run(config: NodeConfig, identity: Identity, log: FilteringBoundLogger) -> int:
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[int] = loop.create_future()
    loop.set_exception_handler(
        lambda _loop, context: _not_caught(context["message"], context.get("exception"), log)
    )
    for number, status in ((signal.SIGTERM, 0), (signal.SIGINT, INTERRUPTED)):
        loop.add_signal_handler(number, _end, ended, status)
    if config.acls_file is None and not config.has_authorizer:
        listeners = ", ".join(str(each.name) for each in config.listeners)
        log.warning("authorizer_missing", listeners=listeners, next=NO_AUTHORIZER)
    metrics = NodeMetrics(log)
    credentials = read_credentials(config, identity.cluster_id, log)
    memory, readiness = RequestMemory(config.queued_request_bytes_max), Readiness()
    async with AsyncExitStack() as stack:
        stack.callback(keep_rotating(loop, config.log_rotate_bytes, config.log_rotate_files))
        stack.callback(watch_loop(loop, metrics))
        if config.metrics_port is not None:
            port = _metrics_port(config, metrics, credentials, log, readiness)
            await port.start(config.metrics_host, config.metrics_port)
            stack.push_async_callback(port.stop)
        clock = await stack.enter_async_context(_clock(config, log))
        stack.callback(watch_clock(loop, clock))
        parts: list[Part] = []
        controller: Controller | None = None
        if config.is_controller:
            zookeeper = await stack.enter_async_context(_zookeeper(config, log))
            controller = Controller(config, identity, credentials, log, metrics, zookeeper, memory, clock)
            credentials.look_up_recorded(controller.coordinators.recorded)
            parts += [
                controller,
                ArchiveScrub(config.directory / ARCHIVE_FOLDER, identity.cluster_id, log=log),
            ]
        if config.is_broker:
            coordinator = None if controller is None else controller.coordinators.client_service
            broker = Broker(
                config,
                identity,
                credentials,
                log,
                metrics,
                coordinator=coordinator,
                stalls=metrics.stalls,
                memory=memory,
                count_failed=metrics.requests_failed_total,
                clock=clock,
            )
            parts.append(broker)
            readiness.broker = broker
            if controller is not None:  # clients meet the coordinator here, and its ids are of our block
                controller.transactions.allocate_producer_id = broker.allocate_producer_id
                controller.transactions.announcer.here = Here(
                    BrokerId(config.node_id), broker.take_announcements
                )
        for part in parts:
            part.fatal.add_done_callback(lambda reason: _fail(ended, reason.result(), log))
            stack.push_async_callback(_stop, part, log)
        status = await _serve(parts, ended, log, metrics.stalls, readiness)
    log.info("node_stopped", status=status)
    return status


def _metrics_port(
    config: NodeConfig,
    metrics: NodeMetrics,
    credentials: Credentials,
    log: FilteringBoundLogger,
    readiness: Readiness,
) -> MetricsPort:
    return MetricsPort(
        metrics.registry,
        log=log,
        limits=config.limits(),
        stalls=metrics.stalls,
        tls=None if config.metrics_protocol == PLAINTEXT else credentials.tls,
        why_not_ready=readiness.reason,
    )


@asynccontextmanager
async def _zookeeper(config: NodeConfig, log: FilteringBoundLogger) -> AsyncIterator["LivePort | None"]:
    """The ZooKeeper that the node upgrades from, if it does. It need not answer yet."""
    if config.zookeeper_connect is None:
        yield None
        return
    from fencepost.bridge.live_port import LivePort, access_of

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


async def _serve(
    parts: list[Part],
    ended: "asyncio.Future[int]",
    log: FilteringBoundLogger,
    stalls: Stalls,
    readiness: Readiness,
) -> int:
    """Start the parts and wait for the first reason to end. Returns the exit status."""
    starting = asyncio.get_running_loop().create_task(_start(parts, log, stalls, readiness))
    either: set[asyncio.Future[None] | asyncio.Future[int]] = {starting, ended}
    await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    if starting.done():
        starting.result()
    status = await ended
    readiness.is_leaving = True
    starting.cancel()
    return status


async def _start(parts: list[Part], log: FilteringBoundLogger, stalls: Stalls, readiness: Readiness) -> None:
    load_newest()  # or the first request of each key would import it
    for part in parts:
        await part.start()
    _collect_garbage(LongLived(), stalls.watch("garbage collection"))
    readiness.is_started = True
    log.info("node_started")


def _collect_garbage(garbage: LongLived, watch: Watch) -> None:
    """Look every GARBAGE_SECONDS whether all garbage must be collected, which stalls the loop."""
    with watch:
        garbage.collect_if_due()
    asyncio.get_running_loop().call_later(GARBAGE_SECONDS, _collect_garbage, garbage, watch)


async def _stop(part: Part, log: FilteringBoundLogger) -> None:
    try:
        async with asyncio.timeout(STOP_SECONDS_MAX):
            await part.stop()
    except TimeoutError:
        log.warning("stop_cut_short", part=type(part).__name__.lower(), seconds=STOP_SECONDS_MAX)


def _not_caught(message: str, error: BaseException | None, log: FilteringBoundLogger) -> None:
    """An exception that reached the event loop: a broken invariant halts, and so does what the store raises.

    Anything else has cost the connection or task that raised it, which the loop has ended.
    """
    if isinstance(error, (InvariantViolation, *STORE_FAILURES)):
        log.critical("node_halted", where="event loop", error=described(error), exc_info=error)
        os._exit(EXIT_HALTED)
    log.error("exception_not_caught", where=message, error=repr(error), exc_info=error)


def _end(ended: "asyncio.Future[int]", status: int) -> None:
    if ended.done():
        sys.exit(status)  # a second signal: end at once
    ended.set_result(status)


def _fail(ended: "asyncio.Future[int]", reason: ExitReason, log: FilteringBoundLogger) -> None:
    log.error("node_failed", reason=reason.message)
    if not ended.done():
        ended.set_result(reason.exit_code)
