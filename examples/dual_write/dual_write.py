"""Rows in a database and records in a topic: both or neither, whatever is killed (KIP-939).

Run      python dual_write.py BOOTSTRAP_SERVERS TOPIC DATABASE [ROWS]
Step     the records are written and the transaction is prepared; the rows and the prepared state are stored
         in one database transaction; then the transaction commits.
Crash    before the database commits neither is there: the states differ, and the transaction aborts. After
         it both are: the states are equal, and the transaction commits.
Needs    ``transaction.two.phase.commit.enable=true`` on the brokers; the database is SQLite's file.
"""

import asyncio
import sqlite3
import sys
from collections.abc import Callable

from fencepost.client import PreparedTxnState, Producer

SCHEMA = """
CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, content TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS prepared (transactional_id TEXT PRIMARY KEY, state TEXT NOT NULL);
"""


def open_database(path: str) -> sqlite3.Connection:
    """The database, with its tables."""
    database = sqlite3.connect(path)
    database.executescript(SCHEMA)
    return database


def stored_state(database: sqlite3.Connection, transactional_id: str) -> PreparedTxnState:
    """What was prepared together with the newest rows."""
    query = "SELECT state FROM prepared WHERE transactional_id = ?"
    row = database.execute(query, (transactional_id,)).fetchone()
    return PreparedTxnState.parse(row[0] if row else "")


def store(database: sqlite3.Connection, transactional_id: str, state: PreparedTxnState, number: int) -> None:
    """The row and the prepared state, in one database transaction."""
    with database:
        database.execute("INSERT INTO orders VALUES (?, ?)", (number, f"order {number}"))
        database.execute("REPLACE INTO prepared VALUES (?, ?)", (transactional_id, str(state)))


def next_number(database: sqlite3.Connection) -> int:
    """The first order that is not in the database."""
    found: int = database.execute("SELECT COALESCE(MAX(id), 0) FROM orders").fetchone()[0]
    return found + 1


async def write_orders(
    bootstrap_servers: str, topic: str, path: str, rows: int, at: Callable[[str], None]
) -> None:
    """Write orders until there are ``rows``. ``at`` is called between the steps, by their names."""
    database = open_database(path)
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
    database.close()


if __name__ == "__main__":
    count = int(sys.argv[4]) if len(sys.argv) > 4 else 10
    asyncio.run(write_orders(sys.argv[1], sys.argv[2], sys.argv[3], count, lambda step: None))
