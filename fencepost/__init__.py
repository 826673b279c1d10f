"""A Raft-replicated metadata quorum for Kafka's exactly-once control plane.

In the repository this package is a folder of links to the top-level folders; wheels and sdists hold what they
link to. Each folder has this one import name, ``fencepost.FOLDER``, and refuses every other.
"""

from typing import Final

__version__: Final = "0.1.0"
