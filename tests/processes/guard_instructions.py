"""``make count-guards``: the instructions of the guards of one transaction, alone.

Counted   by valgrind's callgrind, in user mode, of this process: each request's endpoint a thousand times
          without its guard, then with it. Runs differ by less than one in a hundred, on a busy machine, too.
Requests  what guards see of a transaction of one partition by librdkafka, in V1: AddPartitionsToTxn,
          Produce and EndTxn of a principal with ACLs; of nodes, which are super users, the verification of
          its partition and its markers.
Beside    what a whole node executes for a transaction: tests/processes/instructions.py.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

import click
from msgspec import structs

from fencepost.broker.access.door import AuthorizerRules, Door
from fencepost.broker.access.needs import guarded
from fencepost.broker.access.trail import Trail
from fencepost.controller.acl_types import Operation, ResourceType
from fencepost.wire.dispatch import BROKER, Context, Endpoint, Service
from fencepost.wire.registry import APIS
from tests.broker.access.doors import ALICE, HOST, ROOT, allow, book_of
from tests.harness.nodes import wait_for
from tests.wire.sample_messages import SAMPLES

TIMES: Final = 1000
COUNTING: Final = "--counting"
TOTALS: Final = re.compile(r"^totals: (\d+)$", re.MULTILINE)


class Silent:
    """A trail in which nothing is to be written."""

    def write(self, fields: dict[str, Any]) -> None:
        raise AssertionError(f"something is denied: {fields}")


def requests() -> list[tuple[str, int, Any, str]]:
    """(what, API key, request, principal)."""
    produce, added = SAMPLES[0][0], SAMPLES[24][0]
    (transaction,) = added.transactions
    add = structs.replace(added, transactions=(structs.replace(transaction, topics=transaction.topics[:1]),))
    return [
        ("AddPartitionsToTxn", 24, add, ALICE),
        ("Produce", 0, structs.replace(produce, partitions=produce.partitions[:1]), ALICE),
        ("EndTxn", 26, SAMPLES[26][0], ALICE),
        ("AddPartitionsToTxn of a node", 24, structs.replace(add, batched=True), ROOT),
        ("WriteTxnMarkers of a node", 27, SAMPLES[27][0], ROOT),
    ]


def services() -> tuple[Service, Service]:
    """Without guards, and with them."""
    book = book_of(
        [
            allow(Operation.WRITE, ResourceType.TOPIC, "orders"),
            allow(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, "transfers"),
        ]
    )
    door = Door(
        AuthorizerRules(frozenset((ROOT,)), allow_if_no_acl=False, creates_topics=True),
        lambda: book,
        topic_name=lambda _id: None,
        has_topic=lambda _name: True,
        trail=Trail(Silent(), lambda _delay_s, _call: None),
    )
    bare: Service = {key: (APIS[key], served) for _, key, _, _ in requests()}
    return bare, guarded(bare, door, BROKER)


def control(word: str) -> None:
    """A command to callgrind, in which this process runs."""
    subprocess.run(("callgrind_control", word, str(os.getpid())), check=True, capture_output=True)


def total_of(dump: Path) -> int:
    def look() -> int | None:
        found = TOTALS.search(dump.read_text("utf-8")) if dump.exists() else None
        return None if found is None else int(found[1])

    return wait_for("the count is written", look)


def reply(*_: Any) -> None:
    raise AssertionError("a request is refused")


def repeat(endpoint: Endpoint[Any, Any], request: Any, context: Context) -> None:
    for _ in range(TIMES):
        endpoint(request, context, reply)  # type: ignore[arg-type]


def served(*_: Any) -> None:
    """The endpoint behind each guard."""


def count(dumps: Path) -> None:
    """Of the process that runs in callgrind. Every second dump counts: the first has what is done once."""
    control("--instr=on")
    for _, key, request, principal in requests():
        context = Context(principal, "CLIENTS", None, f"{HOST}:40000")
        for service in services():
            endpoint = service[key][1]
            for _ in ("first", "counted"):
                repeat(endpoint, request, context)
                control("--dump")
    control("--instr=off")
    found = [total_of(Path(f"{dumps}.{number}")) / TIMES for number in range(2, 4 * len(requests()) + 1, 2)]
    total = 0.0
    for number, (what, *_) in enumerate(requests()):
        bare, with_guard = found[2 * number : 2 * number + 2]
        total += with_guard - bare
        click.echo(f"{what}: {with_guard:,.0f} with its guard, {bare:,.0f} without")
    click.echo(f"all guards of a transaction: {total:,.0f} instructions")


def main() -> None:
    """Run this module in callgrind."""
    with tempfile.TemporaryDirectory(prefix="guard-instructions-") as folder:
        dumps = Path(folder) / "count"
        words = ("valgrind", "-q", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={dumps}")
        module = (sys.executable, "-m", "tests.processes.guard_instructions", COUNTING, str(dumps))
        subprocess.run((*words, *module), check=True, env=os.environ | {"PYTHONHASHSEED": "0"})


if __name__ == "__main__":
    if sys.argv[1:2] == [COUNTING]:
        count(Path(sys.argv[2]))
    else:
        main()
