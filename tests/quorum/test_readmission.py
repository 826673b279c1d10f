"""A wiped voter that goes away before it is readmitted."""

from fencepost.records.types import NodeId
from tests.quorum.rig import Rig
from tests.quorum.test_electorate import NEW, bound, lose_directory, readmit


def test_one_that_went_away_is_readmitted_when_it_is_back(three: Rig) -> None:
    lose_directory(three, 2)
    three.connect(2)
    three.settle()
    assert three[1].firewall.learner_match[NodeId(2)] >= three[1].raft.commit_index
    three.disconnect(2)
    for _ in range(5):
        three.maintenance_tick(1)
        three.flow(1, 3)
    assert bound(three, 1) != NEW
    three.connect(2)
    readmit(three)
    assert bound(three, 1) == NEW
