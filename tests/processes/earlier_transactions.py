"""A program for an earlier version's source: its own code ends what a log of transactions holds open.

Run     ``versions.python(tree, PROGRAM, FOLDER)``; FOLDER has segments of ``__transaction_state-0``.
Prints  for each transactional id how its last transaction ends, as JSON: an ``Ended`` by its fields.
Reader  kio finds the records in their batches. What a record means, which markers are written and the state
        after them is the earlier version's to say. What is open is committed by the pair that the record
        names as its producer's.
"""

import json
from pathlib import Path
from typing import Final, NamedTuple

from tests.processes import versions
from tests.processes.txn_client import Pair

PROGRAM: Final = """
import json, sys
from pathlib import Path
import msgspec
from kio.records.readers import read_batch
from fencepost.controller.replay import replay_record
from fencepost.controller.transactions.end_txn import EndTxn, decide_end_txn
from fencepost.controller.transactions.markers import decide_complete, marker_of
from fencepost.controller.transactions.states import PREPARED_STATES, TRANSACTIONS, State
from fencepost.controller.view import EmptyView, Overlay
from fencepost.records.transaction_log import decode_transaction

view, now_ms = Overlay(EmptyView()), 0

def apply(records):
    for record in records:
        replay_record(view, record)
    view.header = msgspec.structs.replace(view.header, version=view.header.version + 1)

for segment in sorted(Path(sys.argv[1]).glob("*.log")):
    content, position = segment.read_bytes(), 0
    while position < len(content):
        size = 12 + int.from_bytes(content[position + 8 : position + 12], "big")
        batch, _ = read_batch(content[position : position + size], 0)
        apply([decode_transaction(each.key, each.value) for each in batch.records])
        position += size

ended = {}
for name, row in list(view.items(TRANSACTIONS)):
    was = row.state.wire_name
    if row.state is State.ONGOING:
        request = EndTxn(name, row.producer_id, row.producer_epoch, True)
        apply(decide_end_txn(view, request, now_ms=now_ms).records)
    marker = marker_of(view, name)
    if marker is None:
        continue
    apply(decide_complete(view, name, marker.version, now_ms=now_ms).records)
    after = view.get(TRANSACTIONS, name)
    partitions = sum(len(each.partition_ids) for each in marker.partitions)
    ended[name] = [was, [marker.producer_id, marker.producer_epoch], marker.committed, partitions,
                   after.state.wire_name, [after.producer_id, after.producer_epoch]]
print(json.dumps(ended))
"""


class Ended(NamedTuple):
    """The state that was found, the markers that are written, and the id after them."""

    was: str
    marker: Pair
    committed: bool
    partitions: int
    state: str
    pair: Pair


def ended_by(tree: Path, archive: Path) -> dict[str, Ended]:
    """By transactional id: what the earlier version makes of the archive of a node."""
    said = json.loads(versions.python(tree, PROGRAM, str(archive)))
    return {
        name: Ended(was, (marker[0], marker[1]), committed, partitions, state, (pair[0], pair[1]))
        for name, (was, marker, committed, partitions, state, pair) in said.items()
    }
