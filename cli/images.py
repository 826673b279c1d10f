"""The images of a local cluster's nodes, read from their stores while they run or not.

As of        each store's last flush: a committed record is on disk on a majority before anybody is answered,
             so the newest image of a majority holds everything that was ever acknowledged.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from cli.local_cluster import LocalCluster, LocalNode
from cli.output import Unreadable
from records.invariant import CorruptData
from snapshots.reader import Reader, read_store

T = TypeVar("T")

STORE: Final = "store"  # below log.dirs: the LMDB environment
SNAPSHOTS: Final = "snapshots"


def read_image(directory: Path, look: Callable[[Reader], T]) -> T | None:
    """What ``look`` sees in the image of one node's directory; None if the node never started."""
    try:
        with read_store(directory / STORE) as reader:
            return look(reader)
    except FileNotFoundError:
        return None
    except CorruptData as error:
        raise Unreadable(str(error)) from error


def newest_image(cluster: LocalCluster, look: Callable[[Reader], T]) -> tuple[LocalNode, T]:
    """What ``look`` sees in the image with the highest version, and whose it is. Raises Unreadable."""
    versions = []
    for node in cluster.nodes:
        version = read_image(node.config.directory, lambda reader: reader.header.version)
        if version is not None:
            versions.append((version, node.node_id, node))
    if not versions:
        raise Unreadable(f"no node of {cluster.directory} has ever started")
    _, _, node = max(versions)
    seen = read_image(node.config.directory, lambda reader: (look(reader),))
    if seen is None:
        raise Unreadable(f"the store of node {node.node_id} is gone")
    return node, seen[0]
