"""``fencepost bench stalls --groups``: its load, and what it makes of the figures."""

from pathlib import Path
from typing import Any

import pytest

from fencepost.bench.group_fill import Count, Fill, FirstCommit, Where
from fencepost.bench.group_subjects import Own, bootstrap_of
from fencepost.bench.loop_load import Create
from fencepost.bench.own_cluster import own_cluster
from fencepost.bench.process import child
from fencepost.bench.stalls import STALL_MS
from fencepost.bench.stalls_groups import is_sound, lines
from fencepost.cluster.state import leader_id
from tests.harness import forked
from tests.ports import cluster_port


def figures(turn_ms: float) -> dict[str, Any]:
    """As ``measure`` makes them."""
    return {
        "takeovers": [{"groups": 10, "takeover_ms": 210.4, "takeovers_ms": [180.0, 210.4, 300.0]}],
        "members": {
            "members": 1000,
            "cold_ms": 4000.0,
            "member_killed_ms": 3100.0,
            "leader_killed_ms": 1500.0,
        },
        "expiry": {"groups": 100_000, "seconds": 90.0},
        "stalls_ms": {"turn": turn_ms, "JoinGroup": 3.0},
    }


@pytest.mark.parametrize(
    ("turn_ms", "sound"),
    [
        pytest.param(STALL_MS - 0.1, True, id="below"),
        pytest.param(STALL_MS, False, id="at the limit"),
    ],
)
def test_it_fails_at_the_limit(turn_ms: float, sound: bool) -> None:
    found = figures(turn_ms)
    assert is_sound(found) is sound
    shown = lines(found)
    for each in ("180, 210, 300", "3100", "100000 groups were forgotten in 90 s", f"{turn_ms:.1f}"):
        assert each in shown
    assert shown.index("turn") < shown.index("JoinGroup"), "the longest first"


@pytest.mark.slow
def test_groups_are_there_and_their_offsets_go_on_after_a_kill(tmp_path: Path) -> None:
    with forked.nodes(), own_cluster(tmp_path, 3, cluster_port(), None, ("log.level=warning",)) as started:
        own = Own(started, lambda _: None)
        where = Where(bootstrap=own.addresses, prefix="many", topic="t", partitions=2)
        with child("topics", "fencepost.bench.loop_load") as topics:
            topics.ask(Create(bootstrap_of(own), "t", 2), type(None))
        with child("groups", "fencepost.bench.group_fill") as load:
            load.ask(Fill(where, 0, 70), type(None))
            load.ask(Fill(where, 70, 150), type(None))
            assert load.ask(Count(where), int) == 150
            leader = leader_id(started.cluster)
            assert leader is not None
            before_ns = own.kill(leader)
            assert load.ask(FirstCommit(where, 60.0), int) > before_ns
            own.restore(leader)
            assert load.ask(Count(where), int) == 150
    for node in started.children.values():
        node.wait()  # it has ended: reap it
