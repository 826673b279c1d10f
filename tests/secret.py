"""A cluster's secret for tests: one file of this process, of mode 0600, and what a node proves with it."""

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Final

from fencepost.wire.secret_proof import ClusterSecret

SECRET: Final = b"the secret of the tests"


@cache
def secret_file() -> Path:
    """The file, made when it is asked for first and removed with the process."""
    folder = Path(tempfile.mkdtemp(prefix="fencepost-secret."))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    file = folder / "secret"
    file.touch(mode=0o600)
    file.write_bytes(SECRET)
    return file


def known_secret(node_id: int = 1, cluster_id: str = "cluster", secret: bytes = SECRET) -> ClusterSecret:
    """What a node of the cluster proves."""
    return ClusterSecret(secret=secret, cluster_id=cluster_id, node_id=node_id)
