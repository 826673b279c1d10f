"""The files of a real server, and what it answered before it was killed.

``real_files`` are those of a ZooKeeper 3.9.5 that stood alone (the zeros at the end of its logs cut short),
with gzip snapshots: blocks by conditional writes, a transaction of several changes, one that failed,
ephemeral znodes of a session that ended and of one that did not, an access list, a restart, and kill -9.
``EXPECTED`` is what it answered before that.
"""

import os
import struct
from collections.abc import Iterator
from pathlib import Path

from fencepost.bridge.data_tree import Znode, Znodes
from fencepost.bridge.files import ServerFiles, ServerTree, read_server
from fencepost.bridge.znodes import BLOCK_PATH, ZnodeBlock, parse_block

REAL = Path(__file__).parent / "real_files"
OLD_LOG, NEW_LOG, OLD_SNAPSHOT, NEW_SNAPSHOT = "log.1", "log.12", "snapshot.0.gz", "snapshot.11.gz"
LAST_ZXID = 0x16

EXPECTED: Znodes = {
    "/": Znode(b"", 0, 0, 0),
    "/zookeeper": Znode(b"", 0, 0, 0),
    "/zookeeper/config": Znode(b"", 0, 0, 0),
    "/zookeeper/quota": Znode(b"", 0, 0, 0),
    "/brokers": Znode(b"", 0, 3, 3),
    "/brokers/ids": Znode(b"", 0, 4, 4),
    "/brokers/topics": Znode(b"", 0, 5, 5),
    "/controller": Znode(b'{"version":1,"brokerid":1,"timestamp":"5"}', 0, 19, 19, True),
    "/controller_epoch": Znode(b"3", 0, 16, 16),
    "/latest_producer_id_block": Znode(
        b'{"version":1,"broker":0,"block_start":"6000","block_end":"6999"}', 7, 22, 2
    ),
    "/x": Znode(b"x", 0, 12, 12),
}


def read(files: Path) -> ServerTree:
    return read_server(ServerFiles(files))


def block(tree: ServerTree) -> ZnodeBlock:
    znode = tree.znodes[BLOCK_PATH]
    found = parse_block(znode.data, znode.version)
    assert isinstance(found, ZnodeBlock)
    return found


def flips(path: Path, mask: int) -> Iterator[int]:
    """Each position, while the byte there is another."""
    with path.open("r+b", buffering=0) as stream:
        for position, byte in enumerate(stream.readall()):
            os.pwrite(stream.fileno(), bytes([byte ^ mask]), position)
            yield position
            os.pwrite(stream.fileno(), bytes([byte]), position)


def boundaries(content: bytes) -> list[int]:
    """Where transactions begin, and where the last one ends."""
    found = [16]
    while found[-1] + 12 <= len(content):
        (length,) = struct.unpack_from(">i", content, found[-1] + 8)
        if length == 0:
            break
        found.append(found[-1] + 12 + length + 1)
    return found
