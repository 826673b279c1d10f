"""Laws of pairing: any sound history has no finding, one fault in it is one."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.audit.walks.feed import said
from tests.audit.walks.transactions import Cluster, paired


@given(
    outcomes=st.lists(st.sampled_from(["Commit", "Abort"]), max_size=12),
    bumps=st.booleans(),
    is_ours=st.booleans(),
    open_at_the_end=st.booleans(),
)
@settings(deadline=None, max_examples=25)
def test_a_sound_history_has_no_finding(
    outcomes: list[str], bumps: bool, is_ours: bool, open_at_the_end: bool
) -> None:
    cluster = Cluster(ours=is_ours)
    cluster.many(*outcomes, bumps=bumps)
    if open_at_the_end:
        cluster.begin(len(outcomes) if bumps else 0)
    assert said(paired(cluster)) == []


@given(
    outcomes=st.lists(st.sampled_from(["Commit", "Abort"]), min_size=2, max_size=12),
    at=st.integers(0, 100),
    bumps=st.booleans(),
    is_ours=st.booleans(),
)
@settings(deadline=None, max_examples=25)
def test_a_marker_that_is_gone_is_one_finding(
    outcomes: list[str], at: int, bumps: bool, is_ours: bool
) -> None:
    cluster = Cluster(ours=is_ours)
    markers = cluster.many(*outcomes, bumps=bumps)
    cluster.log.squeeze_out(markers[at % len(markers)])
    assert [each for each in said(paired(cluster)) if not each.startswith("note")] == ["markers.missing"]


@given(
    outcomes=st.lists(st.sampled_from(["Commit", "Abort"]), min_size=1, max_size=12),
    at=st.integers(0, 100),
    bumps=st.booleans(),
    is_ours=st.booleans(),
)
@settings(deadline=None, max_examples=25)
def test_a_marker_with_the_other_outcome_is_one_finding(
    outcomes: list[str], at: int, bumps: bool, is_ours: bool
) -> None:
    cluster = Cluster(ours=is_ours)
    markers = cluster.many(*outcomes, bumps=bumps)
    marker = markers[at % len(markers)]
    marker["control_type"] = 1 - marker["control_type"]
    found = [row for row in paired(cluster) if row["kind"] == "finding"]
    assert [(row["rule"], row["offset"]) for row in found] == [("wrong_outcome", marker["base_offset"])]
