"""The Python of the pages: each block is run by a test, or it is said why not."""

import re
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = sorted((*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")))
ADDRESS: Final = '"127.0.0.1:9092"'

RUN_BY: Final = {
    ("README.md", 0): "test_plugin.py",
    ("README.md", 1): "test_plugin.py",
    ("CONTRIBUTING.md", 0): "test_plugin.py",
    ("client.md", 0): "test_plugin.py",
    ("how-to-python.md", 0): "test_plugin.py",
    ("how-to-python.md", 1): "test_plugin.py",
    ("how-to-python.md", 2): "test_plugin.py",
    ("how-to-python.md", 3): "test_plugin.py",
    ("how-to-outbox.md", 0): "test_plugin.py",
    ("how-to-outbox.md", 1): "test_plugin.py",
    ("testing.md", 0): "test_plugin.py",
    ("testing.md", 1): "test_plugin.py",
    ("testing.md", 2): "test_plugin.py",
    ("testing.md", 3): "test_plugin.py",
    ("tutorial.md", 0): "test_distribution.py",
    ("tutorial.md", 1): "test_distribution.py",
    ("audit-tables.md", 0): "tests/audit/tables/page.py",
    ("audit.md", 0): "nothing: it needs Spark, and tables of a cluster in OUT",
}
"""By page and number of its block."""

ON_A_CLUSTER: Final = """
import asyncio
from types import SimpleNamespace

import pytest
from confluent_kafka import Producer

orders = [b"one", b"two"]

def send(bootstrap, topic, name="app"):
    producer = Producer({{"bootstrap.servers": bootstrap, "transactional.id": name}})
    producer.init_transactions(30)
    producer.begin_transaction()
    for order in orders:
        producer.produce(topic, order)
    producer.commit_transaction(30)

application = SimpleNamespace(run=lambda bootstrap, topic: send(bootstrap, topic, topic))

def test_producer(fencepost):
    topic = fencepost.topic("orders")
{producer}
    fencepost.assert_exactly_once([b"one"], topic)

{fixture}

def test_client(fencepost):
    topic = fencepost.topic("orders")
    async def block():
{client}
    asyncio.run(block())
    fencepost.assert_exactly_once([b"one"], topic)

def test_fault(fencepost):
    cluster, topic = fencepost.cluster, fencepost.topic("orders")
    application = SimpleNamespace(run=lambda: send(cluster.bootstrap, topic))
{fault}
    fencepost.assert_exactly_once(orders, topic)

def test_journal(fencepost, capsys):
    send(fencepost.bootstrap, fencepost.topic("orders"), fencepost.name("app"))
{journal}
    assert "TransactionStateRecord(" in capsys.readouterr().out
"""


def blocks(page: str) -> list[str]:
    """The Python of a page."""
    (file,) = [each for each in PAGES if each.name == page]
    return re.findall(r"```python\n(.*?)```", file.read_text("utf-8"), re.DOTALL)


def on_a_cluster() -> str:
    """A test file with the blocks that need no cluster of their own, for the fixture ``fencepost``."""

    def block(page: str, number: int, indent: int = 4, others: Mapping[str, str] | None = None) -> str:
        text = blocks(page)[number]
        for before, after in {ADDRESS: "fencepost.bootstrap", '"orders"': "topic", **(others or {})}.items():
            text = text.replace(before, after)
        return textwrap.indent(text, indent * " ")

    store = 'fencepost.cluster.directory / "nodes/1/data/store"'
    return ON_A_CLUSTER.format(
        producer=block("README.md", 0, 4, {'"billing"': 'fencepost.name("billing")'}),
        fixture=blocks("README.md")[1],
        client=block("client.md", 0, 8),
        fault=block("testing.md", 3),
        journal=block("CONTRIBUTING.md", 0, 4, {'Path("/tmp/try/nodes/1/data/store")': store}),
    )


HOW_TO: Final = """

def test_it_is_right_when_a_commits_answer_is_lost(fencepost):
    orders = [b"order-%d" % number for number in range(4)]
    name, topic = fencepost.name("app"), fencepost.topic("orders")
    lost = fencepost.faults.drop_answer("EndTxn", match={"transactional_id": name}, times=1)
    done = send(fencepost.bootstrap, topic, name, orders)
    if asyncio.iscoroutine(done):
        asyncio.run(done)
    assert lost.fired == 1
    fencepost.assert_exactly_once(orders, topic)
"""

COPY: Final = """

def send(bootstrap, topic, name, orders):
    source = topic + "-source"
    producer = Producer({"bootstrap.servers": bootstrap})
    for order in orders:
        producer.produce(source, order)
    producer.flush(30)
    copy(bootstrap, source, topic, name.removesuffix("-0"), len(orders))
"""


def how_tos() -> list[str]:
    """A test file for each block of the how-to page."""
    first, *others = blocks("how-to-python.md")
    copying = HOW_TO.replace('fencepost.name("app")', 'fencepost.name("app") + "-0"').replace(
        "    lost =", '    fencepost.cluster.create_topic(topic + "-source")\n    lost ='
    )
    return [
        "import asyncio\n" + text for text in (first + COPY + copying, *(each + HOW_TO for each in others))
    ]
