"""How large logs are: what changes when a file of theirs comes, goes, or has another size."""

import hashlib
from collections.abc import Sequence
from typing import Final

from fencepost.audit.decode.plan import list_files
from fencepost.audit.source.files import ANY

IDLE_SECONDS: Final = 10
"""After so long logs that have not grown are looked at again: time alone makes a transaction hang."""


def state_of(roots: Sequence[str]) -> str:
    """What changes when a file below the roots comes, goes, or has another size."""
    digest = hashlib.sha256()
    for file in list_files(roots, files=ANY):
        digest.update(f"{file.path}\0{file.size}\0{file.fault}\n".encode(errors="surrogateescape"))
    return digest.hexdigest()
