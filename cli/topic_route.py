"""Asking any one broker: for the commands about topics, which every broker forwards to the controller."""

import asyncio
from pathlib import Path
from typing import Final

from fencepost.cli.contact import Target, read_credentials
from fencepost.cli.output import WrongUsage
from fencepost.quorum.config import parse_address
from fencepost.wire.client import Connection, NotConnected
from fencepost.wire.dispatch import Api, Q, R

CONNECT_SECONDS: Final = 2.0


def brokers_at(bootstrap_server: str, command_config: Path | None) -> Target:
    """The brokers that ``--bootstrap-server`` names. Raises WrongUsage or Unreadable."""
    sasl = None if command_config is None else read_credentials(command_config)
    try:
        return Target(tuple(parse_address(each.strip()) for each in bootstrap_server.split(",")), sasl)
    except ValueError:
        raise WrongUsage(
            f"--bootstrap-server: expected HOST:PORT[,..] on the loopback interface, got {bootstrap_server!r}"
        ) from None


def ask_a_broker(target: Target, api: Api[Q, R], request: Q, *, timeout_s: float) -> R:
    """The answer of the first broker that can be reached; only that one is asked.

    Raises NotConnected if none can, and what ``Connection.call`` raises.
    """

    async def hold() -> R:
        failure: Exception = NotConnected("no address is given")
        for host, port in target.controllers:
            try:
                connection = await Connection.open(
                    host, port, sasl=target.sasl, timeout_s=CONNECT_SECONDS, client_id="fencepost-cli"
                )
            except NotConnected as error:
                failure = error
                continue
            try:
                return await connection.call(api, request, timeout_s=timeout_s)
            finally:
                connection.close()
        raise failure

    return asyncio.run(hold())
