"""Recordings of whole clusters: what ``make audit-kafka --pack`` makes, and the tests open.

Name      kafka-VERSION-stopped, kafka-VERSION-running (copied while it ran), fencepost-stopped.
Inside    each node's ``log.dirs``, below its number. Replicas lie side by side: two of three cost little.
"""

import tarfile
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent
PACKED_BYTES_MAX: Final = 2_000_000
_NOT_PACKED: Final = frozenset({".lock", "lock", "log.txt", "node.properties", "pid.json"})


def names() -> list[str]:
    """Of every recording."""
    return sorted(each.name.removesuffix(".tar.xz") for each in HERE.glob("*.tar.xz"))


def pack(folder: Path, name: str) -> Path:
    """Returns the file. Raises ValueError: too much for a repository."""
    packed = HERE / f"{name}.tar.xz"
    files = [each for each in folder.rglob("*") if each.is_file() and each.name not in _NOT_PACKED]
    files.sort(key=lambda file: (file.parent.name, file.name, file))
    with tarfile.open(packed, "w:xz", preset=6) as archive:
        for each in files:
            archive.add(each, each.relative_to(folder), filter=_of_root)
    if packed.stat().st_size > PACKED_BYTES_MAX:
        raise ValueError(f"{packed} has {packed.stat().st_size} bytes, expected {PACKED_BYTES_MAX} at most")
    return packed


def unpack(folder: Path, name: str) -> Path:
    """The directories of the cluster, in ``folder``."""
    root = folder / name
    with tarfile.open(HERE / f"{name}.tar.xz") as archive:
        archive.extractall(root, filter="data")
    return root


def _of_root(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mode = 0o644
    return member
