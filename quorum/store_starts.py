"""How often a store was opened, in the store and beside it: an older copy was opened less often.

Order       the store has the number first, on disk, then the file ``store-starts``: what a process votes and
            acknowledges comes behind both. So a file that is ahead of its store is an older store's, which
            forgot votes; a process that was killed between them leaves it one behind.
File        the voter's id, the number, and the CRC-32C of both. Of another voter, missing, or not as it was
            written: it says nothing, and this start writes it again.
Outside     of what can be seen: an older store beside a file that is as old.
"""

from pathlib import Path
from typing import Final, NamedTuple

from crc32c import crc32c
from structlog.typing import FilteringBoundLogger

from fencepost.records.named_errors import naming
from fencepost.settings.durable_file import write_durably
from fencepost.settings.node_identity import Identity, id_text
from fencepost.snapshots.store import Store
from fencepost.snapshots.sums import StoreDamaged

STARTS_FILE: Final = "store-starts"
FILE_BYTES_MAX: Final = 256
_STARTS: Final = "starts"  # in meta: ASCII digits


class Beside(NamedTuple):
    """What the file says. ``wrong``: that it is not as it was written."""

    voter_id: str
    number: int
    wrong: str = ""


def read_beside(directory: Path) -> Beside:
    """Of a node's directory. Raises OSError."""
    file = directory / STARTS_FILE
    try:
        with naming(file), open(file, "rb") as stream:
            raw = stream.read(FILE_BYTES_MAX)
    except FileNotFoundError:
        return Beside("", 0)
    said, _, check = raw.removesuffix(b"\n").rpartition(b" ")
    voter, _, number = said.partition(b" ")
    if check != f"{crc32c(said):08x}".encode() or not number.isdigit():
        return Beside("", 0, f"{file} is not as it was written: its checksum is another one")
    return Beside(voter.decode(errors="replace"), int(number))


def require_latest(store: Store, directory: Path, identity: Identity) -> None:
    """Raises StoreDamaged, OSError."""
    inside, beside = _inside(store), read_beside(directory)
    if inside < beside.number and beside.voter_id == id_text(identity.voter_id):
        raise StoreDamaged(
            f"the store is older than {directory / STARTS_FILE}: it was opened {inside} times, and that file "
            f"was written at its start number {beside.number}"
        )


def count_start(store: Store) -> None:
    """One more, with the next flush; then comes ``remember_start``."""
    store.meta_put(_STARTS, str(_inside(store) + 1).encode())


def remember_start(store: Store, directory: Path, identity: Identity, log: FilteringBoundLogger) -> None:
    """Beside the store, durably. A full disk is no reason not to start."""
    said = f"{id_text(identity.voter_id)} {_inside(store)}"
    try:
        if wrong := read_beside(directory).wrong:
            log.warning("store_starts_damaged", reason=wrong, next="nothing: it is written again")
        write_durably(directory / STARTS_FILE, f"{said} {crc32c(said.encode()):08x}\n")
    except OSError as error:
        log.warning("store_starts_not_kept", reason=str(error), next="nothing: the next start writes it")


def _inside(store: Store) -> int:
    raw = store.meta_get(_STARTS)
    return int(raw) if raw is not None and raw.isdigit() else 0
