"""Applications in Node: each is a program beside this module, started for one topic.

Fetched   kafkajs by npm, into .clients, once. Only ``make kit-corpus`` runs these; where something is missing
          it says NOT RUN.
"""

import subprocess
from pathlib import Path
from typing import ClassVar, Final

from tests.clients.players import installed_kafkajs
from tests.testing.corpus.world import ORDERS, Case, World

HERE: Final = Path(__file__).parent
RUN_S_MAX: Final = 50.0
KAFKAJS: Final = "kafkajs"


class NodeOrders:
    """Writes each order and its invoice in a transaction; one whose work fails is aborted and done again."""

    how: ClassVar = "right"

    def run(self, world: World, topic: str) -> None:
        """To its end, with all orders. Raises NotHere, RuntimeError."""
        folder = installed_kafkajs()
        ended = subprocess.run(
            ["node", str(HERE / "orders.js"), world.bootstrap, topic, world.name("orders"), self.how],
            input=b"\n".join(ORDERS),
            cwd=folder,
            capture_output=True,
            timeout=RUN_S_MAX,
            check=False,
        )
        if ended.returncode:
            raise RuntimeError(ended.stderr.decode(errors="replace")[-2000:])


class PlainProducer(NodeOrders):
    """Inside the transaction records are sent by another, plain producer."""

    how = "plain-producer"


class Catches(NodeOrders):
    """An exception is caught inside the transaction, which commits what was written before it."""

    how = "catches"


def work_fails_once(world: World, kind: type[NodeOrders]) -> None:
    """The work of one order fails once."""
    topic = world.topic("orders")
    kind().run(world, topic)
    world.check([each for order in ORDERS for each in (order, order + b"-invoice")], topic)


OTHER_LANGUAGES: Final = (
    Case("node-plain-producer", KAFKAJS, PlainProducer, NodeOrders, work_fails_once),
    Case("node-catches", KAFKAJS, Catches, NodeOrders, work_fails_once),
)
