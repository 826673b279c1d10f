"""What ``fencepost migrate`` reads beside the log: a live ZooKeeper, and Kafka's log directories."""

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeVar

import structlog

from fencepost.bridge.access import (
    Access,
    ConnectStringInvalid,
    ZooKeeperRefused,
    ZooKeeperUnavailable,
    parse_connect,
)
from fencepost.bridge.live_port import access_of
from fencepost.cli.highest_id import Seen, highest_producer_id
from fencepost.cli.node_config import read_config
from fencepost.cluster import local_cluster
from fencepost.cluster.console import Failed, Unreadable, WrongUsage, progress
from fencepost.records.invariant import CorruptData
from fencepost.settings.config import ConfigError

T = TypeVar("T")

OPERATION_SECONDS: Final = 20.0  # a person waits for a slow ensemble, where a node asks it again


def configured(directory: Path) -> str | None:
    """``zookeeper.connect`` of the local cluster, if there is one."""
    if not local_cluster.exists(directory):
        return None
    return local_cluster.open_cluster(directory).nodes[0].config.zookeeper_connect


def access_to(zookeeper: str | None, config_file: Path | None, directory: Path) -> Access:
    """How to reach it. Raises WrongUsage, Unreadable."""
    config = None
    if config_file is not None:
        config = read_config(config_file)
    elif zookeeper is None or local_cluster.exists(directory):
        config = local_cluster.open_cluster(directory).nodes[0].config
    try:
        if config is not None and config.zookeeper_connect is not None:
            access = replace(access_of(config), operation_timeout_s=OPERATION_SECONDS)
            return access if zookeeper is None else _at(access, zookeeper)
        if zookeeper is None:
            raise WrongUsage("--zookeeper CONNECT: the nodes have no zookeeper.connect")
        return Access(connect=parse_connect(zookeeper), operation_timeout_s=OPERATION_SECONDS)
    except (ConfigError, ConnectStringInvalid) as error:
        raise WrongUsage(f"--zookeeper: {error}") from error


def _at(access: Access, zookeeper: str) -> Access:
    return replace(access, connect=parse_connect(zookeeper))


def with_zookeeper(access: Access, doing: str, converse: Callable[[Any], Awaitable[T]]) -> T:
    """Hold a conversation with ZooKeeper. Raises Unreadable."""
    try:
        from fencepost.bridge.zookeeper import ZooKeeper
    except ModuleNotFoundError as error:
        raise Failed(f"{error}; pip install 'fencepost[zookeeper]'") from error
    silent = structlog.wrap_logger(
        structlog.PrintLogger(sys.stderr),
        wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL),
    )

    async def hold() -> T:
        zookeeper = ZooKeeper(access, silent)
        await zookeeper.start()
        try:
            return await converse(zookeeper)
        finally:
            await zookeeper.stop()

    try:
        with progress() as show:
            show(f"{access.connect}: {doing}")
            return asyncio.run(hold())
    except (ZooKeeperUnavailable, ZooKeeperRefused) as error:
        raise Unreadable(str(error)) from error


def scan(log_dirs: tuple[Path, ...]) -> Seen | None:
    """The highest producer id in Kafka's logs; None if none are named. Raises Unreadable."""
    if not log_dirs:
        return None
    try:
        with progress() as show:
            return highest_producer_id(log_dirs, show)
    except (CorruptData, OSError) as error:
        raise Unreadable(str(error)) from error
