"""``fencepost bench stalls``: what it makes of the nodes' figures, and that each request of it is served."""

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from fencepost.bench import stalls as bench_stalls
from fencepost.bench import stalls_load
from fencepost.bench.own_cluster import own_cluster
from fencepost.bench.stalls import STALL_MS, Stalled, figures, lines
from fencepost.bench.stalls_keys import VERSIONS, worst
from fencepost.bench.stalls_load import SMALL
from fencepost.cluster.console import Failed
from fencepost.wire.registry import APIS
from tests.harness import forked
from tests.harness.command import here
from tests.ports import cluster_port
from tests.together import table
from tests.wire.sample_messages import SAMPLES

FOUND = {1: {"Fetch": 3.0, "turn": 7.0}, 2: {"Fetch": 5.0}, 3: {"turn": 9.0, "received": 4.0}}


@table(
    ("leaders", "rows"),
    [
        pytest.param({1}, {"Fetch": (3, 5), "received": (0, 4), "turn": (7, 9)}, id="one leader"),
        pytest.param({1, 3}, {"Fetch": (3, 5), "received": (4, 0), "turn": (9, 0)}, id="leadership moved"),
        pytest.param({1, 2, 3}, {"Fetch": (5, 0), "received": (4, 0), "turn": (9, 0)}, id="all have led"),
    ],
)
def test_a_row_has_the_longest_of_leaders_and_of_followers(
    leaders: set[int], rows: dict[str, tuple[float, float]]
) -> None:
    document = figures(FOUND, leaders)
    assert document["leaders"] == sorted(leaders)
    assert {row["work"]: (row["leaders_ms"], row["followers_ms"]) for row in document["rows"]} == rows


@table(
    ("leader_ms", "follower_ms", "is_sound"),
    [
        pytest.param(STALL_MS - 0.1, 0.0, True, id="below"),
        pytest.param(STALL_MS, 0.0, False, id="a leader at the limit"),
        pytest.param(0.0, STALL_MS, False, id="a follower at the limit"),
    ],
)
def test_it_fails_at_the_limit(leader_ms: float, follower_ms: float, is_sound: bool) -> None:
    stalled = Stalled(figures({1: {"turn": leader_ms}, 2: {"turn": follower_ms}}, {1}), {})
    assert stalled.is_sound is is_sound
    assert f"{follower_ms:.1f}" in lines(stalled)


def test_its_figures_are_a_document_of_the_schema(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """``here`` holds it against the schema."""
    monkeypatch.setattr("fencepost.cli.bench.own_cluster", lambda *_: nullcontext())
    monkeypatch.setattr(bench_stalls, "measure", lambda *_: Stalled(figures(FOUND, {1}), {}))
    assert here(capsys, "bench", "stalls", "--dir", tmp_path / "c", "--format", "json").status == 0


def test_a_cluster_without_a_leader_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    async def none(cluster: Any) -> None:
        return None

    monkeypatch.setattr(stalls_load, "find_leader", none)
    monkeypatch.setattr(stalls_load, "LEADER_SECONDS", 0.0)
    own = SimpleNamespace(cluster=SimpleNamespace(directory="here", nodes=()))
    with pytest.raises(Failed, match="no leader"):
        bench_stalls.measure(cast(Any, own), lambda _: None)


@pytest.mark.slow
def test_each_request_is_served(tmp_path: Path) -> None:
    with forked.nodes(), own_cluster(tmp_path, 3, cluster_port(), None, ("log.level=warning",)) as own:
        stalled = bench_stalls.measure(own, lambda _: None, SMALL)
    for child in own.children.values():
        child.wait()  # it has ended: reap it
    works = {row["work"] for row in stalled.figures["rows"]}
    assert {"Produce", "record validation"} <= works
    assert not stalled.refused
    assert stalled.sent == {(key, kind) for key, api in APIS.items() for kind in api.listeners}


def test_every_api_has_a_request_that_is_as_large_as_it_may_be() -> None:
    """It is legal on the wire, and larger than the sample unless the API's requests are only numbers."""
    requests = worst("the-cluster")
    assert requests.keys() == APIS.keys(), "a key without its worst request: add one to bench/stalls_keys.py"
    for key, request in requests.items():
        api = APIS[key]
        version = VERSIONS.get(key, api.versions[-1])
        body = api.encode_request(version, request)
        assert len(body) <= api.request_bytes_max, api.name
        api.decode_request(version, memoryview(body))
        sample = api.encode_request(api.versions[-1], SAMPLES[key][0])
        assert len(body) > 8 * len(sample) or key in FIXED, f"{api.name}: {len(body)} bytes"


FIXED = {20021, 20055, 20057, 20066, 60, 63, 64, 67}
"""APIs whose requests hold numbers, or words from a list."""
