"""Where a command's requests go: ``--bootstrap-server`` to any broker, else to the active controller."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from fencepost.cli.target_options import find_brokers, find_target, target_options
from fencepost.cluster.brokers import ask_a_broker
from fencepost.cluster.console import Failed, NotAuthorized, WrongUsage
from fencepost.cluster.controllers import ask, errors_explained
from fencepost.cluster.target import TIMEOUT_SECONDS, Target
from fencepost.controller.errors import ErrorCode
from fencepost.wire.dispatch import Api, Q, R


@dataclass(frozen=True, slots=True)
class Route:
    """Where the command's requests go: to the active controller, or to any of some brokers."""

    target: Target
    to_brokers: bool

    def ask(self, api: Api[Q, R], request: Q) -> R:
        """One answer; what stands in its way becomes an exit status."""
        if not self.to_brokers:
            return ask(self.target, api, request)
        with errors_explained(self.target):
            return ask_a_broker(self.target, api, request, timeout_s=TIMEOUT_SECONDS)


def route_options(command: Callable[..., Any]) -> Any:
    """Add the options that say where the cluster is; the command gets the ``route`` they name."""

    @functools.wraps(command)
    def with_route(
        directory: Path,
        bootstrap_server: str | None,
        bootstrap_controller: str | None,
        command_config: Path | None,
        **options: Any,
    ) -> Any:
        if bootstrap_server is not None and bootstrap_controller is not None:
            raise WrongUsage("expected one of --bootstrap-server and --bootstrap-controller")
        if bootstrap_server is not None:
            route = Route(find_brokers(directory, bootstrap_server, command_config), to_brokers=True)
        else:
            route = Route(find_target(directory, bootstrap_controller, command_config), to_brokers=False)
        return command(route=route, **options)

    server = click.option("--bootstrap-server", help="HOST:PORT[,..] of brokers, instead of --dir.")
    return target_options(server(with_route))


def refused(code: ErrorCode, message: str | None, what: str) -> click.ClickException:
    """What a topic or another resource was refused for, with the exit status that it deserves."""
    text = message or f"{what}: {code.name}"
    return NotAuthorized(text) if code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED else Failed(text)
