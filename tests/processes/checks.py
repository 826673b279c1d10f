"""I1 to I5, from what the clients were told and what the nodes' archives hold. Nothing else is believed.

I1   no two blocks overlap, as half-open ranges: neither those handed out nor those in the log.
I2   every acknowledged block is in the archive, under the broker and epoch that got it.
     A refused request is nowhere in it; an unknown one at most once, after everything its broker was told.
I3   images are equal at equal versions: ``Nodes.await_equal_images``.
I4   one leader per epoch, in the log and in the nodes' own metrics; no node's high watermark goes back.
I5   the archives of all nodes are one log: ``archive_reader.merged`` compares them byte by byte.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise

from tests.harness.nodes import Nodes, wait_for
from tests.processes import archive_reader
from tests.processes.archive_reader import Allocation
from tests.processes.load import Attempt, Load, Sight


def check_run(nodes: Nodes, load: Load, since: int, other: Load | None = None) -> list[Allocation]:
    """Everything above, after a load or two, every node running. The log's blocks from offset ``since``."""
    assert load.done(), "no block was ever allocated"
    loads = [load] if other is None else [load, other]
    nodes.await_equal_images()
    await_equal_archives(nodes)
    log = archive_reader.merged([nodes.home(node_id) for node_id in nodes.node_ids], since)
    blocks = list(archive_reader.allocations(log))
    check_blocks([attempt for each in loads for attempt in each.history], blocks)
    leaders: dict[int, int] = {}
    for change in archive_reader.leader_changes(log):
        known = leaders.setdefault(change.epoch, change.leader_id)
        assert known == change.leader_id, f"epoch {change.epoch} has two leaders: {known}, {change.leader_id}"
    for each in loads:
        check_sights(each.sights, leaders)
    return blocks


def check_blocks(history: Sequence[Attempt], log: Sequence[Allocation]) -> None:
    """I1 and I2 for the attempts whose records are at or after the log's first."""
    handed_out = sorted((a.first, a.end) for a in history if a.outcome == "done")
    assert all(first < end for first, end in handed_out)
    for before, after in pairwise(handed_out):
        assert before[1] <= after[0], f"blocks {before} and {after} overlap"
    for earlier, later in pairwise(log):
        assert earlier.end < later.end, f"the log gives out ids twice: {earlier}, {later}"
    starts = {later.end: earlier.end for earlier, later in pairwise(log)}

    recorded: dict[tuple[int, int], list[int]] = defaultdict(list)
    for block in log:
        recorded[block.broker_id, block.broker_epoch].append(block.end)
    asked: dict[tuple[int, int], list[Attempt]] = defaultdict(list)
    for attempt in history:
        asked[attempt.broker_id, attempt.broker_epoch].append(attempt)
    for identity, attempts in asked.items():
        told = [a for a in attempts if a.outcome == "done"]
        for attempt in told:
            assert starts.get(attempt.end, attempt.first) == attempt.first, (
                f"starts at {starts[attempt.end]} in the log: {attempt}"
            )
        unknown = [a for a in attempts if a.outcome == "unknown"]
        assert len(unknown) <= 1, "the clients' own rule"
        found = recorded[identity]
        assert found[: len(told)] == [a.end for a in told], f"acknowledged, not archived: {identity}"
        rest = found[len(told) :]
        assert len(rest) <= len(unknown), f"refused, and done: {identity}, {rest}, {attempts[-3:]}"


def check_sights(sights: Iterable[Sight], leaders: dict[int, int]) -> None:
    """I4 as the nodes' metrics show it. ``leaders``: by epoch, from the log."""
    claimed = dict(leaders)
    watermarks: dict[tuple[int, int], int] = {}
    latest: dict[int, Sight] = {}
    for sight in sights:
        last = latest.get(sight.node_id)
        latest[sight.node_id] = sight
        # Seen twice: role and epoch are two numbers, which a scrape may catch one after the other.
        if sight.leads and last is not None and last.leads and last.epoch == sight.epoch:
            known = claimed.setdefault(sight.epoch, sight.node_id)
            assert known == sight.node_id, f"epoch {sight.epoch} is led by {known} and {sight.node_id}"
        before = watermarks.get((sight.node_id, sight.pid), 0)
        assert sight.high_watermark >= before, f"a high watermark went back from {before}: {sight}"
        watermarks[sight.node_id, sight.pid] = sight.high_watermark


def await_equal_archives(nodes: Nodes) -> None:
    """All archives end at one offset: what follows compares whole logs."""
    homes = [nodes.home(node_id) for node_id in nodes.node_ids]
    wait_for("the archives end alike", lambda: len({archive_reader.end_offset(home) for home in homes}) == 1)
