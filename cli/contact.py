"""How commands reach the quorum: by address, or by a local cluster's folder; and what its errors mean here.

Exit status  refused for lack of authorization 4; nobody answered, or nobody knows the outcome 3; any other
             refusal 1.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from fencepost.cli.local_cluster import LocalCluster, open_cluster
from fencepost.cli.output import Command, Failed, NotAuthorized, Unreadable, WrongUsage, dir_option
from fencepost.controller.errors import ApiError, ErrorCode, NotController
from fencepost.quorum.config import SASL_PLAINTEXT, Address, parse_address
from fencepost.wire.client import ConnectionLost, ControllerClient, NotConnected, RequestTimeout
from fencepost.wire.dispatch import Api, Q, R
from fencepost.wire.setting_files import SettingFileError, read_setting_file

T = TypeVar("T")

TIMEOUT_SECONDS: Final = 10.0
_CREDENTIAL_KEYS: Final = ("sasl.username", "sasl.password.file")


@dataclass(frozen=True, slots=True)
class Target:
    """The controllers to ask. ``cluster`` is None if only addresses are known."""

    controllers: tuple[Address, ...]
    sasl: tuple[str, str] | None = None
    cluster: LocalCluster | None = None

    @property
    def name(self) -> str:
        """For messages."""
        return ",".join(str(address) for address in self.controllers)

    def client(self) -> ControllerClient:
        """A client of the active controller; for use on one event loop, and to be closed."""
        return ControllerClient(
            self.controllers, sasl=self.sasl, rng=random.Random(), client_id="fencepost-cli"
        )


def target_options(command: Command) -> Command:
    """Add ``--bootstrap-controller``, ``--command-config`` and ``--dir``; ``find_target`` reads them."""
    for option in (
        dir_option,
        click.option(
            "--bootstrap-controller", help="HOST:PORT[,..] of controller listeners, instead of --dir."
        ),
        click.option(
            "--command-config",
            type=click.Path(path_type=Path),
            help="Properties file with sasl.username and sasl.password.file (a node's own file will do).",
        ),
    ):
        command = option(command)
    return command


def find_target(directory: Path, bootstrap_controller: str | None, command_config: Path | None) -> Target:
    """What the options of ``target_options`` name. Raises WrongUsage or Unreadable."""
    sasl = None if command_config is None else read_credentials(command_config)
    if bootstrap_controller is None:
        found = target_of(open_cluster(directory))
        return found if sasl is None else Target(found.controllers, sasl, found.cluster)
    try:
        return Target(tuple(parse_address(each.strip()) for each in bootstrap_controller.split(",")), sasl)
    except ValueError:
        raise WrongUsage(
            f"--bootstrap-controller: expected HOST:PORT[,..] on the loopback interface, "
            f"got {bootstrap_controller!r}"
        ) from None


def target_of(cluster: LocalCluster) -> Target:
    """The controllers of a local cluster, and the credentials of its brokers if it wants any."""
    for node in cluster.nodes:
        config = node.config
        listener = config.controller_listener
        if listener is None or config.security_protocol(listener.name) != SASL_PLAINTEXT:
            continue
        if config.sasl_username is not None and config.sasl_password_file is not None:
            password = _secret(config.sasl_password_file)
            return Target(cluster.controllers, (config.sasl_username, password), cluster)
    return Target(cluster.controllers, None, cluster)


def read_credentials(file: Path) -> tuple[str, str]:
    """User and password of a ``--command-config``. Raises WrongUsage or Unreadable."""
    pairs = dict(
        line.split("=", 1) for line in _read(file).splitlines() if "=" in line and line[0] not in "#!"
    )
    username, password_file = (pairs.get(key, "").strip() for key in _CREDENTIAL_KEYS)
    if not username or not password_file:
        raise WrongUsage(f"{file}: expected {' and '.join(_CREDENTIAL_KEYS)}")
    return username, _secret(file.absolute().parent / password_file)


def _secret(file: Path) -> str:
    try:
        return read_setting_file("sasl.password.file", file, is_secret=True).strip()
    except SettingFileError as error:
        raise Unreadable(str(error)) from error


def _read(file: Path) -> str:
    try:
        return file.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise Unreadable(f"{file}: {error}") from error


def run(target: Target, conversation: Callable[[ControllerClient], Awaitable[T]]) -> T:
    """Hold a conversation with the active controller; its errors become exit statuses."""

    async def hold() -> T:
        client = target.client()
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


def sentence_of(error: ApiError) -> str:
    """A refusal in words: the other side's, else the name of its code."""
    text = str(error)
    return text if text and text != error.code.name else f"refused with {error.code.name} ({error.code})"


def hint_of(cluster: LocalCluster | None) -> str:
    """A line that names the nodes that do not run; empty if all do, or if that is unknown."""
    if cluster is None:
        return ""
    gone = [str(node.node_id) for node in cluster.nodes if node.status() != "running"]
    if not gone:
        return ""
    return f"\nNot running: node {', '.join(gone)}. Type: fencepost ps --dir {cluster.directory}"


def optional(value: Any, absent: object = "none") -> Any:
    """``value``, or what to print where there is none."""
    return absent if value is None else value
