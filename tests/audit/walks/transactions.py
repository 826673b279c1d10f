"""A coordinator and one partition, written together: soundly, unless a test changes one of them."""

from typing import Any

from fencepost.audit.walks.pairs import PAIRS
from tests.audit.walks.feed import Row, feed
from tests.audit.walks.logs import PRODUCER, Log, walked
from tests.audit.walks.states import States, rows_of

_KINDS = {"Abort": 0, "Commit": 1}


class Cluster:
    """Of the partition ``orders-0``; the coordinator's partition is 3."""

    def __init__(self, *, ours: bool = False, topic: str = "orders", **context: Any) -> None:
        self.log = Log(topic, ours=ours)
        self.states = States()
        self.context = context  # of rank 0
        self.entries: list[Row] = []  # of ranks 4 and 5
        self.stopped = True

    def later(self, ms: int) -> None:
        """The clocks of all go on."""
        self.log.clock_ms += ms
        self.states.clock_ms += ms

    def _together(self) -> None:
        self.log.clock_ms = self.states.clock_ms = max(self.log.clock_ms, self.states.clock_ms)

    def begin(
        self, epoch: int = 0, *, producer: int = PRODUCER, name: str = "x", batches: int = 1, count: int = 10
    ) -> None:
        self._together()
        self.states.add("Ongoing", epoch, producer=producer, name=name)
        self._together()
        for _ in range(batches):
            self.log.data(epoch, producer=producer, count=count)

    def end(
        self, epoch: int = 0, outcome: str = "Commit", *, producer: int = PRODUCER, name: str = "x",
        marked: bool = True, complete: bool = True,
    ) -> Row | None:  # fmt: skip
        """Of the marker's epoch. Returns the marker."""
        given: dict[str, Any] = {"producer": producer, "name": name}
        self._together()
        self.states.add(f"Prepare{outcome}", epoch, **given)
        self._together()
        marker = self.log.marker(epoch, _KINDS[outcome], producer=producer) if marked else None
        self._together()
        if complete:
            self.states.add(f"Complete{outcome}", epoch, **given)
        return marker

    def transaction(
        self, epoch: int = 0, outcome: str = "Commit", *, bumps: bool = False, producer: int = PRODUCER,
        name: str = "x", batches: int = 1, marked: bool = True, complete: bool = True,
    ) -> Row | None:  # fmt: skip
        self.begin(epoch, producer=producer, name=name, batches=batches)
        return self.end(
            epoch + bumps, outcome, producer=producer, name=name, marked=marked, complete=complete
        )

    def many(self, *outcomes: str, **given: Any) -> list[Row]:
        """Transactions of these outcomes, with epochs of their own if ``bumps``; their markers."""
        epochs = range(len(outcomes)) if given.get("bumps") else [0] * len(outcomes)
        made = [self.transaction(epoch, each, **given) for epoch, each in zip(epochs, outcomes, strict=True)]
        return [row for row in made if row is not None]

    def markers(self) -> list[Row]:
        return [row for row in self.log.rows if row.get("control_type") is not None]


def paired(cluster: Cluster, sizes: tuple[int, ...] = (1_000_000,)) -> list[Row]:
    """What the three walks find together."""
    log, states = walked(cluster.log), rows_of(cluster.states)
    here = {"topic": cluster.log.topic, "partition": 0}
    row = {
        **here, "producer_id": -1, "rank": 0, "offset": 0, "end_offset": cluster.log.end, "compacted": False,
        "unbroken_offset": 0, "stopped": cluster.stopped, "coordinators": bool(cluster.states.rows),
        "coordinators_whole": True, "coordinators_stopped": cluster.stopped, **cluster.context,
    }  # fmt: skip
    turns = [{**each, "rank": 3} for each in log if each["kind"] == "turn"]
    outcomes = [
        {**each, **here, "rank": 2, "coordinator_partition": each["partition"]}
        for each in states
        if each["kind"] == "outcome" and {"topic": "orders", "partition": 0} in each["partitions"]
    ]
    there = {each["producer_id"] for each in (*turns, *outcomes)}
    producers = [
        {**each, **here, "rank": 1, "coordinator_partition": each["partition"], "stopped": cluster.stopped}
        for each in states
        if each["kind"] == "producer" and each["producer_id"] in there
    ]
    entries = [{**here, "node": 1, **each} for each in cluster.entries]
    found = feed(PAIRS, [row, *producers, *outcomes, *turns, *entries], sizes)
    all_found = [*(each for each in (*log, *states) if each["id"] is not None), *found]
    return list({each["id"]: each for each in all_found}.values())
