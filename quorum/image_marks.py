"""What a store's meta says of a bad image, and the operator's word about it."""

from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from fencepost.records.types import NodeId
from fencepost.snapshots import snapshot
from fencepost.snapshots.store import Store

BAD: Final = "image.bad"  # while the image is bad: a Mark
TRUST: Final = "image.trust"  # the node whose image an operator trusts


class Mark(NamedTuple):
    """What is known of a bad image."""

    reason: str
    version: int  # a node is confirmed by a digest at this version or a later one
    may_ack: bool


def trust(root: Path, node: NodeId, own: NodeId) -> None:
    """The operator's word, in the directory of a stopped node ``own``: the image of ``node`` is right.

    Another node's: this one's image is bad, and a snapshot from that node takes its place once it leads. Its
    own: it goes on with its image. Raises StoreInUse, StoreDamaged.
    """
    store = Store.open(root / "store")
    try:
        store.verify_image()  # or the seal would not be of what is written here
        if node == own:
            store.meta_delete(BAD)
            store.meta_delete(TRUST)
        else:
            mark = Mark(f"an operator trusts the image of node {node}", 0, may_ack=True)
            store.meta_put(BAD, msgspec.msgpack.encode(mark))
            store.meta_put(TRUST, msgspec.msgpack.encode(int(node)))
            for directory in snapshot.listed(root / "snapshots"):
                snapshot.set_aside(directory)
    finally:
        store.close()
