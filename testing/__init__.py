"""The kit for tests of applications: real clusters that can be broken, and a check of exactly-once.

``from fencepost.testing import Cluster``. What is named here is loaded when it is used: the pytest plugin of
this package is loaded by every run of pytest in its environment.
"""

import importlib
from typing import TYPE_CHECKING, Any

if __name__ != "fencepost.testing":
    raise ImportError(f"import fencepost.testing, not {__name__}: no class may exist twice")

if TYPE_CHECKING:
    from fencepost.testing.async_cluster import AsyncCluster
    from fencepost.testing.cluster import Cluster
    from fencepost.testing.cluster_failed import ClusterFailed
    from fencepost.testing.exactly_once import NotExactlyOnce, assert_exactly_once
    from fencepost.testing.running import RunningCluster

_HOMES = {
    "AsyncCluster": "async_cluster",
    "Cluster": "cluster",
    "ClusterFailed": "cluster_failed",
    "NotExactlyOnce": "exactly_once",
    "RunningCluster": "running",
    "assert_exactly_once": "exactly_once",
}

__all__ = [
    "AsyncCluster",
    "Cluster",
    "ClusterFailed",
    "NotExactlyOnce",
    "RunningCluster",
    "assert_exactly_once",
]


def __getattr__(name: str) -> Any:
    """What ``__all__`` names, out of its module."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'fencepost.testing' has no attribute {name!r}")
    return getattr(importlib.import_module(f"fencepost.testing.{home}"), name)
