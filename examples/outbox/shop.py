"""A shop that takes orders over HTTP, and its outbox: an order and its record in a topic, both or neither.

Web      flask --app 'shop:web("shop.sqlite")' run
Relay    python shop.py BOOTSTRAP_SERVERS TOPIC shop.sqlite
Step     a request stores the order, and what is to be sent of it, in one transaction of the database. The
         relay sends it later, with its own position in the outbox in the same transaction of Kafka.
"""

import contextlib
import sqlite3
import sys
import time

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from flask import Flask, request

TABLES = """
CREATE TABLE IF NOT EXISTS orders (key TEXT PRIMARY KEY, content TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS outbox (id INTEGER PRIMARY KEY AUTOINCREMENT, content TEXT NOT NULL);
"""


def opened(database: str) -> contextlib.closing[sqlite3.Connection]:
    """The database, with its tables."""
    connection = sqlite3.connect(database)
    connection.executescript(TABLES)
    return contextlib.closing(connection)


def web(database: str) -> Flask:
    """POST /orders with an Idempotency-Key: 201, or 200 for an order that is there already."""
    app = Flask("shop")

    @app.post("/orders")
    def order() -> tuple[str, int]:
        key, content = request.headers["Idempotency-Key"], request.get_data(as_text=True)
        with opened(database) as connection, connection:
            row = connection.execute("INSERT OR IGNORE INTO orders VALUES (?, ?)", (key, content))
            if row.rowcount == 0:
                return "", 200  # a client that had no answer sends it again
            connection.execute("INSERT INTO outbox (content) VALUES (?)", (content,))
        return "", 201

    return app


class Relay:
    """Sends what is in the outbox, each row once. One that starts fences the one before it."""

    def __init__(self, bootstrap: str, topic: str, database: str) -> None:
        self.database, self.topic = database, topic
        settings = {"bootstrap.servers": bootstrap}
        self.producer = Producer({**settings, "transactional.id": f"{topic}-outbox"})
        self.producer.init_transactions(30)  # and aborts what the one before had open
        self.group = Consumer({**settings, "group.id": f"{topic}-outbox"})
        (position,) = self.group.committed([TopicPartition(topic, 0)], 30)
        self.sent = max(position.offset, 0)
        self.forget()

    def forward(self) -> int:
        """Send up to 100 rows. Returns how many there were."""
        with opened(self.database) as connection:
            query = "SELECT id, content FROM outbox WHERE id > ? ORDER BY id LIMIT 100"
            rows = connection.execute(query, (self.sent,)).fetchall()
        if rows:
            self.producer.begin_transaction()
            for _id, content in rows:
                self.producer.produce(self.topic, content)
            last = TopicPartition(self.topic, 0, rows[-1][0])
            self.producer.send_offsets_to_transaction([last], self.group.consumer_group_metadata(), 30)
            while not self.committed():
                pass
            self.sent = rows[-1][0]
            self.forget()
        return len(rows)

    def committed(self) -> bool:
        """Commit; False if there was no answer."""
        try:
            self.producer.commit_transaction(5)
        except KafkaException as error:
            if not error.args[0].retriable():
                raise  # fenced, or to be aborted: end, and start again
            return False
        return True

    def forget(self) -> None:
        """Rows that were sent are not needed any more. That they were sent is in Kafka."""
        with opened(self.database) as connection, connection:
            connection.execute("DELETE FROM outbox WHERE id <= ?", (self.sent,))


if __name__ == "__main__":
    relay = Relay(*sys.argv[1:4])
    while True:
        if not relay.forward():
            time.sleep(0.1)
