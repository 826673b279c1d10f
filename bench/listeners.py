"""Which process of this machine listens on a port, from /proc.

Source   proc(5): /proc/net/tcp has each socket's local address in hex, its state and its inode;
         /proc/PID/fd links to ``socket:[inode]``.
"""

from pathlib import Path
from typing import Final

LISTEN: Final = "0A"
TABLES: Final = ("tcp", "tcp6")
_ADDRESS, _STATE, _INODE = 1, 3, 9  # columns


def pid_listening(port: int, proc: Path = Path("/proc")) -> int | None:
    """The process that listens on ``port``; None: no such process, or another user's."""
    inodes = _inodes(port, proc)
    if not inodes:
        return None
    links = {f"socket:[{inode}]" for inode in inodes}
    for directory in proc.iterdir():
        if directory.name.isdecimal() and _holds(directory / "fd", links):
            return int(directory.name)
    return None


def _inodes(port: int, proc: Path) -> set[str]:
    found = set()
    for name in TABLES:
        try:
            rows = (proc / "net" / name).read_text("ascii").splitlines()[1:]
        except OSError:
            continue
        for row in rows:
            columns = row.split()
            local_port = int(columns[_ADDRESS].rpartition(":")[2], 16)
            if columns[_STATE] == LISTEN and local_port == port:
                found.add(columns[_INODE])
    return found


def _holds(descriptors: Path, links: set[str]) -> bool:
    try:
        for each in descriptors.iterdir():
            try:
                if str(each.readlink()) in links:
                    return True
            except OSError:
                continue  # closed meanwhile
    except OSError:
        pass  # ended meanwhile, or another user's
    return False
