"""Digests of images that nodes report, and what a majority says. No effects.

A node is in the wrong if a majority of all voters, itself not counted, reports one other digest at one
version. With less neither is: two nodes that differ do not say which of them has changed bytes.
"""

from collections import Counter
from itertools import islice, takewhile
from typing import Final

from fencepost.records.types import NodeId

REPORTS_MAX: Final = 256  # versions kept of each node: a node that is further behind is compared later


class Reports:
    """By node the digests at its last versions, by version."""

    def __init__(self, node_id: NodeId, voters: frozenset[NodeId]) -> None:
        self._node_id = node_id
        self._majority = len(voters) // 2 + 1
        self._of: dict[NodeId, dict[int, bytes]] = {node: {} for node in sorted(voters)}

    def is_new(self, node: NodeId, version: int, digest: bytes) -> bool:
        """It is not known: nine of ten acks repeat the last one."""
        of_node = self._of.get(node)
        return of_node is not None and of_node.get(version) != digest

    def add(self, node: NodeId, version: int, digest: bytes) -> bool:
        """False if it is known, too old to be kept, or of no voter.

        Another digest than before: the node applies those entries again, and what it said of later ones is of
        no image that it has.
        """
        if not self.is_new(node, version, digest):
            return False
        of_node = self._of[node]
        if version in of_node:
            of_node = {each: known for each, known in of_node.items() if each < version}
        is_late = bool(of_node) and version < next(reversed(of_node))
        of_node[version] = digest
        if is_late:
            of_node = dict(sorted(of_node.items()))
        if len(of_node) > REPORTS_MAX:
            del of_node[next(iter(of_node))]
        self._of[node] = of_node
        return version in of_node

    def forget(self, node: NodeId) -> None:
        """Its image is another one from now on, or not to be believed."""
        self._of[node].clear()

    def last(self, node: NodeId) -> tuple[int, bytes] | None:
        """The last report of a node."""
        of_node = self._of[node]
        return next(reversed(of_node.items())) if of_node else None

    def newer(self, node: NodeId, than: int, number_max: int) -> list[tuple[int, bytes]]:
        """What a node reported of versions after ``than``, the last ones of them, oldest first."""
        after = takewhile(lambda report: report[0] > than, reversed(self._of[node].items()))
        return list(islice(after, number_max))[::-1]

    def newest(self) -> list[tuple[int, int, bytes]]:
        """(node, version, digest) of the last report of each node that has one."""
        found = [(node, self.last(node)) for node in self._of]
        return [(node, *report) for node, report in found if report is not None]

    def at(self, version: int) -> dict[NodeId, bytes]:
        """The digests at a version, by node."""
        return {node: reports[version] for node, reports in self._of.items() if version in reports}

    def majority_at(self, version: int) -> bytes | None:
        """The digest that a majority of all voters has at a version."""
        counted = Counter(self.at(version).values()).most_common(1)
        return counted[0][0] if counted and counted[0][1] >= self._majority else None

    def refutes(self, version: int) -> bool:
        """A majority of voters has one other digest there than this node."""
        own = self._of[self._node_id].get(version)
        return own is not None and self.majority_at(version) not in (None, own)

    def is_split(self, version: int) -> bool:
        """Digests there differ, and none is that of a majority."""
        return len(set(self.at(version).values())) > 1 and self.majority_at(version) is None

    def confirmed(self, node: NodeId) -> int | None:
        """The last version that a node reported and a majority agrees on, if it agrees with the node."""
        for version, digest in reversed(self._of[node].items()):
            agreed = self.majority_at(version)
            if agreed is not None:
                return version if agreed == digest else None
        return None
