"""The one error of the kit, but for NotExactlyOnce."""


class ClusterFailed(RuntimeError):
    """The cluster did not do what was asked of it. Says which node, and the end of its log if it died."""
