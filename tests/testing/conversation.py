"""One client's commit, by an address of a proxy."""

import asyncio
from typing import Final

from fencepost.records.types import ProducerId
from fencepost.wire.connection import Connection
from fencepost.wire.k26_end_txn import END_TXN
from fencepost.wire.requests import EndTxn

COMMIT: Final = EndTxn("app", ProducerId(7), 3, committed=True)

__all__ = ["COMMIT", "END_TXN", "ask"]


def ask(port: int, *, client: str = "c") -> object:
    """The answer to it. Raises ApiError, ConnectionLost."""

    async def once() -> object:
        connection = await Connection.open("127.0.0.1", port, client_id=client, timeout_s=10)
        try:
            return await connection.call(END_TXN, COMMIT, timeout_s=10)
        finally:
            connection.close()

    return asyncio.run(once())
