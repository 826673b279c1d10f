"""Rows in a database and records in a topic: both or neither, whatever is killed (KIP-939).

Run      python dual_write.py BOOTSTRAP_SERVERS TOPIC [DATABASE [ROWS]]
         DATABASE is a URL of SQLAlchemy's: sqlite:///orders.sqlite, postgresql+psycopg://user@host/name
Step     the records are written and the transaction is prepared; the rows and the prepared state are stored
         in one database transaction; then the transaction commits.
Crash    before the database commits neither is there: the states differ, and the transaction aborts. After
         it both are: the states are equal, and the transaction commits.
Needs    ``transaction.two.phase.commit.enable=true`` on the brokers.
"""

import asyncio
import sys
from collections.abc import Callable

from sqlalchemy import (
    Column,
    Engine,
    Integer,
    MetaData,
    String,
    Table,
    create_engine,
    delete,
    func,
    insert,
    select,
)

from fencepost.client import PreparedTxnState, Producer

METADATA = MetaData()
ORDERS = Table("orders", METADATA, Column("id", Integer, primary_key=True), Column("content", String))
PREPARED = Table(
    "prepared", METADATA, Column("transactional_id", String, primary_key=True), Column("state", String)
)


def open_database(url: str) -> Engine:
    """The database, with its tables."""
    database = create_engine(url)
    METADATA.create_all(database)
    return database


def stored_state(database: Engine, transactional_id: str) -> PreparedTxnState:
    """What was prepared together with the newest rows."""
    query = select(PREPARED.c.state).where(PREPARED.c.transactional_id == transactional_id)
    with database.connect() as connection:
        return PreparedTxnState.parse(connection.scalar(query) or "")


def store(database: Engine, transactional_id: str, state: PreparedTxnState, number: int) -> None:
    """The row and the prepared state, in one database transaction."""
    with database.begin() as connection:
        connection.execute(insert(ORDERS).values(id=number, content=f"order {number}"))
        connection.execute(delete(PREPARED).where(PREPARED.c.transactional_id == transactional_id))
        connection.execute(insert(PREPARED).values(transactional_id=transactional_id, state=str(state)))


def next_number(database: Engine) -> int:
    """The first order that is not in the database."""
    with database.connect() as connection:
        return (connection.scalar(select(func.max(ORDERS.c.id))) or 0) + 1


async def write_orders(
    bootstrap_servers: str, topic: str, url: str, rows: int, at: Callable[[str], None]
) -> None:
    """Write orders until there are ``rows``. ``at`` is called between the steps, by their names."""
    database = open_database(url)
    transactional_id = f"{topic}-orders"
    at("begun")
    async with Producer(
        bootstrap_servers, transactional_id=transactional_id, two_phase=True, keep_prepared=True
    ) as producer:
        at("initialized")
        await producer.complete_transaction(stored_state(database, transactional_id))
        at("recovered")
        while (number := next_number(database)) <= rows:
            producer.begin_transaction()
            await producer.send(topic, b"order %d" % number, key=b"%d" % number)
            at("sent")
            state = await producer.prepare_transaction()
            at("prepared")
            store(database, transactional_id, state, number)
            at("stored")
            await producer.complete_transaction(state)
            at("completed")
    database.dispose()


if __name__ == "__main__":
    url = sys.argv[3] if len(sys.argv) > 3 else "sqlite:///orders.sqlite"
    count = int(sys.argv[4]) if len(sys.argv) > 4 else 10
    asyncio.run(write_orders(sys.argv[1], sys.argv[2], url, count, lambda step: None))
