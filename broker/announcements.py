"""AnnouncePartitions: the coordinator announces who writes where, which no broker then has to verify.

A partition takes it as the answer to the question that it would ask, or has asked (broker/verification.py),
unless it has seen what came later: a marker that is not older, a newer epoch. What is not hosted here is
passed over, and so is all that comes on a connection without a proof of the cluster's secret: then the
partition verifies.

One without partitions says that topics or brokers have changed, and wants a heartbeat now.
"""

from collections.abc import Callable, Sequence

from fencepost.broker.partitions import Partitions
from fencepost.broker.verification import Verifier
from fencepost.controller.authorization import Acls, Operation
from fencepost.records.types import ImageVersion, ProducerId
from fencepost.wire.dispatch import Context, Reply
from fencepost.wire.k20024_announce_partitions import Announcement, AnnouncePartitions


class AnnouncementsEndpoint:
    """The endpoint of AnnouncePartitions (API key 20024)."""

    def __init__(
        self, partitions: Partitions, verifier: Verifier, acls: Acls, on_change: Callable[[], None]
    ) -> None:
        self._partitions = partitions
        self._verifier = verifier
        self._acls = acls
        self._on_change = on_change

    def announce(self, request: AnnouncePartitions, context: Context, reply: Reply[None]) -> None:
        """Serve AnnouncePartitions. Raises ClusterAuthorizationFailed."""
        self._acls.require(context.principal, Operation.CLUSTER_ACTION)
        if context.proved:
            self.take(request.announcements)
        reply(None)

    def take(self, announcements: Sequence[Announcement]) -> None:
        """Of a coordinator that is one: of a proved connection, or of this process."""
        if not announcements:
            self._on_change()
        for each in announcements:
            whose, version = ProducerId(each.producer_id), ImageVersion(each.image_version)
            for topic, indexes in each.topics:
                for index in indexes:
                    partition = self._partitions.find(topic, index)
                    if partition is None or not partition.is_open:
                        continue
                    partition.log.announce(whose, each.producer_epoch, version)
                    if partition.log.is_announced(whose, each.producer_epoch):
                        self._verifier.announced(whose, each.producer_epoch, topic, index)
