"""All walks one after the other, from batches and states to findings with causes: what an engine does."""

from typing import Any

from fencepost.audit.walks.causes import grouped
from fencepost.audit.walks.copies import COPIES
from fencepost.audit.walks.copy import COPY
from fencepost.audit.walks.log import LOG
from fencepost.audit.walks.pairs import PAIRS
from fencepost.audit.walks.story import STORY
from tests.audit.walks.feed import Row, feed
from tests.audit.walks.transactions import Cluster

STATES = "__transaction_state"


class Chain:
    """A cluster's two logs as directories hold them; faults are planted into ``batches`` and ``states``."""

    def __init__(self, cluster: Cluster, *, copies: int = 1) -> None:
        self.cluster = cluster
        self.states = [dict(row) for row in cluster.states.rows]
        for row in self.states:
            row["path"] = f"/n1/{STATES}-3/{0:020}.log"
        self.batches = [
            *(_batch(row) for row in cluster.log.rows),
            *(_batch(_state_batch(row)) for row in self.states),
        ]
        self.facts: list[Row] = []
        self.entries: list[Row] = []
        self.others: list[Row] = []  # findings of checks that are joins
        for copy in sorted({row["copy"] for row in self.batches}):
            self.fact(copy, "stopped")
        for node in range(2, copies + 1):
            self.batches += [_on(row, node) for row in self.batches if row["node"] == 1]
            self.facts += [_on(row, node) for row in self.facts if row["node"] == 1]

    def fact(self, copy: str, item: str, first: int | None = None) -> None:
        topic, _, partition = copy.rpartition("/")[2].rpartition("-")
        self.facts.append({
            "topic": topic, "partition": int(partition), "copy": copy, "rank": 0, "path": "", "node": 1,
            "position": len(self.facts), "item": item, "first": first,
        })  # fmt: skip

    def data(self, node: int = 1) -> list[Row]:
        return [row for row in self.batches if row["topic"] != STATES and row["node"] == node]

    def markers(self) -> list[Row]:
        return [row for row in self.data() if row.get("control_type") is not None]

    def take_out(self, row: Row) -> None:
        self.batches.remove(row)
        self.states = [
            each for each in self.states if (each["path"], each["position"]) != (row["path"], row["position"])
        ]


def _batch(row: Row) -> Row:
    base = row["base_offset"]
    return {
        "rank": 1, "leader_epoch": 1, "crc": 31 * base + len(row["path"]), "base_timestamp_ms": 1,
        "record_count": row["last_offset"] - base + 1, **row, "flags": None,
        "copy": row["path"].rpartition("/")[0],
    }  # fmt: skip


def _state_batch(row: Row) -> Row:
    where = {name: row[name] for name in ("topic", "partition", "node", "path", "position")}
    return {**where, "size": 100, "base_offset": row["offset"], "last_offset": row["offset"], "attributes": 0,
            "max_timestamp_ms": row["timestamp_ms"], "producer_id": -1, "producer_epoch": -1,
            "base_sequence": -1}  # fmt: skip


def _on(row: Row, node: int) -> Row:
    moved = {name: row[name].replace("/n1/", f"/n{node}/") for name in ("path", "copy")}
    return {**row, **moved, "node": node}


def audited(chain: Chain, sizes: tuple[int, ...] = (1_000_000,)) -> list[Row]:
    """Everything that is found."""
    placed = feed(COPY, [*chain.facts, *chain.batches], sizes)
    copies = feed(COPIES, placed, sizes)
    logs = {(row["topic"], row["partition"]): row for row in copies if row["kind"] == "log"}
    batches = [row for row in copies if row["kind"] == "batch"]
    latest = max(row["at_ms"] or 0 for row in logs.values())
    places = {(row["path"], row["position"]): row for row in batches if row["topic"] == STATES}
    states = [
        {**row, "flags": places[row["path"], row["position"]]["flags"], "now_ms": latest}
        | _of_log(logs[STATES, 3])
        for row in chain.states
        if (row["path"], row["position"]) in places
    ]
    turns, stories = feed(LOG, batches, sizes), feed(STORY, states, sizes)
    pairs = feed(PAIRS, _sources(chain, copies, logs, turns, stories), sizes)
    found = [row for row in (*copies, *turns, *stories, *pairs) if row["id"] is not None]
    return grouped([*found, *chain.others], [row for row in copies if row["kind"] == "copy"])


def _of_log(row: Row) -> Row:
    return {"unbroken_offset": row["unbroken_offset"], "log_ms": row["at_ms"], "stopped": row["stopped"]}


def _sources(
    chain: Chain, copies: list[Row], logs: dict[tuple[str, int], Row], turns: list[Row], stories: list[Row]
) -> list[Row]:
    coordinator = logs.get((STATES, 3))
    here = {"topic": "orders", "partition": 0}
    rows: list[Row] = []
    log = logs.get(("orders", 0))
    if log is not None:
        rows.append({
            **log, "rank": 0, "producer_id": -1, "coordinators": coordinator is not None,
            "coordinators_whole": coordinator is not None and coordinator["unbroken_offset"] == 0,
            "coordinators_stopped": coordinator is not None and coordinator["stopped"],
            "coordinators_ms": None if coordinator is None else coordinator["first_ms"],
        })  # fmt: skip
    rows += [{**row, "rank": 3} for row in turns if row["kind"] == "turn"]
    outcomes: list[Row] = [
        {**row, **here, "rank": 2, "coordinator_partition": 3}
        for row in stories
        if row["kind"] == "outcome" and here in row["partitions"]
    ]
    there = {row["producer_id"] for row in (*rows, *outcomes)}
    stopped: dict[str, Any] = {"stopped": coordinator is not None and coordinator["stopped"]}
    rows += outcomes
    rows += [
        {**row, **here, **stopped, "rank": 1, "coordinator_partition": 3}
        for row in stories
        if row["kind"] == "producer" and row["producer_id"] in there
    ]
    rows += [
        {**row, "rank": 1, "producer_id": -1, "copy": row["path"]}
        for row in copies
        if row["kind"] == "copy" and row["topic"] == "orders"
    ]
    return [*rows, *({**here, "node": 1, **each} for each in chain.entries)]


def roots(rows: list[Row]) -> list[str]:
    """``check.rule`` of each finding that no other explains."""
    return sorted(
        f"{row['check']}.{row['rule']}" for row in rows if row["kind"] == "finding" and not row["cause"]
    )
