"""Log directories of one Apache Kafka, packed by ``python -m tests.audit.kafka.single --pack [--worn]``."""

import tarfile
from pathlib import Path
from typing import Final

from tests.audit.kafka.broker import HERE, VERSION

PACKED: Final = HERE / f"kafka-{VERSION}.tar.gz"
WORN: Final = HERE / f"kafka-{VERSION}-worn.tar.gz"
PACKED_BYTES_MAX: Final = 300_000


def pack(logs: Path, packed: Path = PACKED) -> None:
    """Every file of ``logs``, in the order of names. Raises ValueError: too much for a repository."""
    with tarfile.open(packed, "w:gz", compresslevel=9) as archive:
        for each in sorted(logs.rglob("*")):
            if each.is_file():
                archive.add(each, each.relative_to(logs), filter=_nobodys)
    if packed.stat().st_size > PACKED_BYTES_MAX:
        raise ValueError(f"{packed} has {packed.stat().st_size} bytes, expected {PACKED_BYTES_MAX} at most")


def unpack(folder: Path, packed: Path = PACKED) -> Path:
    """The ``log.dirs`` that an audit reads, in ``folder``."""
    logs = folder / "kafka-logs"
    with tarfile.open(packed) as archive:
        archive.extractall(logs, filter="data")
    return logs


def _nobodys(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member
