"""The version of what clients see of the cluster: brokers, topics, partitions, leaders.

Invariant   every record that changes one of them adds one; nothing else does. Equal versions, equal sight.
Use         a broker that has a version requests its partitions again only when the version changes.
"""

from typing import Final

from fencepost.controller.view import MutableView, Table, View, decode_int_key, encode_int_key

CLUSTER_VERSION: Final[Table[int, int]] = Table("cluster_version", int, encode_int_key, decode_int_key)


def current(view: View) -> int:
    """0 before the first broker."""
    return view.get(CLUSTER_VERSION, 0) or 0


def advance(view: MutableView) -> None:
    """Something that clients see has changed."""
    view.put(CLUSTER_VERSION, 0, current(view) + 1)
