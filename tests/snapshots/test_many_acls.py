"""100,000 ACLs in a store: written, in a snapshot and its checkpoint, and in memory after a start."""

from pathlib import Path

import pytest

from fencepost.controller import acls
from fencepost.controller.acl_book import AclBook, authorize
from fencepost.controller.acl_types import Acl, Operation, ResourceType
from fencepost.controller.replay import replay_record
from fencepost.controller.view import ImageHeader
from fencepost.records.types import ImageVersion, LogIndex, NodeId, Term
from fencepost.snapshots import snapshot
from fencepost.snapshots.store import Store

pytestmark = pytest.mark.slow

COUNT = 100_000
RAFT = (LogIndex(5), Term(1))


def acl(number: int) -> Acl:
    return Acl(2, 3, f"topic-{number}", f"User:{number % 500}", "*", 3, 3)


def test_a_start_and_a_snapshot_with_100_000_acls(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "store", sync=False)
    for number in range(COUNT):
        one = acl(number)
        replay_record(store.image, acls._record(one.acl_id, one))
    store.image.header = ImageHeader(ImageVersion(8), Term(1), NodeId(1), (COUNT, 0, 0))
    store.flush()
    with store.reader() as reader:
        made = snapshot.write(reader, tmp_path, cluster_id="c", raft=RAFT, now_ms=1)
        assert sum(1 for _ in acls.records_of(reader)) == COUNT
    _, rows = snapshot.load(made)
    assert sum(1 for table, _, _ in rows if table == acls.ACLS.name) == COUNT
    assert sum(1 for table, _, _ in rows if table == acls.ACL_CHANGES.name) == acls.CHANGES_KEPT
    store.close()

    again = Store.open(tmp_path / "store", sync=False)
    book = AclBook()
    book.follow(again.image)
    assert (len(book.acls), book.changes) == (COUNT, COUNT)
    for number in range(0, COUNT, 100):
        who, resource = f"User:{number % 500}", (ResourceType.TOPIC, f"topic-{number}")
        assert authorize(book, frozenset(), False, who, "10.0.0.1", Operation.READ, resource)
    again.abandon()
