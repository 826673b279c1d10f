"""100,000 ACLs in a store: written, in a snapshot and its checkpoint, and in memory after a start."""

import time
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
CHECK_US_MAX = 50
LOADED_S_MAX = 10.0  # of CPU; two to three on an idle machine
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
    book, began_s = AclBook(), time.process_time()
    book.follow(again.image)
    assert time.process_time() - began_s < LOADED_S_MAX
    assert (len(book.acls), book.changes) == (COUNT, COUNT)
    began_ns, asked = time.process_time_ns(), 10_000
    for number in range(asked):
        who, resource = f"User:{number % 500}", (ResourceType.TOPIC, f"topic-{number}")
        assert authorize(book, frozenset(), False, who, "10.0.0.1", Operation.READ, resource)
    assert (time.process_time_ns() - began_ns) / asked / 1_000 < CHECK_US_MAX
    again.abandon()
