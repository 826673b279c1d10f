"""The controller's endpoints of features and log levels: API keys 57 and 20057, and what ApiVersions says."""

from collections.abc import Callable

from fencepost.controller import feature_updates, features, levels
from fencepost.controller.authorization import Acls, Operation
from fencepost.controller.decision import Decision
from fencepost.controller.errors import ClusterAuthorizationFailed
from fencepost.controller.feature_updates import UpdateFeatures, UpdateFeaturesAnswer
from fencepost.controller.levels import LogLevels
from fencepost.controller.view import View
from fencepost.quorum.port import Submit
from fencepost.quorum.replica import Replica
from fencepost.records.types import NodeId
from fencepost.snapshots.row_ranges import RowsChanged
from fencepost.wire.dispatch import Context, Reply, Service, served
from fencepost.wire.k18_api_versions import SUPPORTED_FEATURES, Features, FinalizedFeature
from fencepost.wire.k57_update_features import UPDATE_FEATURES
from fencepost.wire.k20057_log_levels import LOG_LEVELS, AskLogLevels


class FeatureServer:
    """See the module."""

    def __init__(self, node_id: NodeId, replica: Replica, submit: Submit, acls: Acls) -> None:
        self._node_id = node_id
        self._replica = replica
        self._submit = submit
        self._acls = acls

    @property
    def service(self) -> Service:
        """API key to (codec, endpoint)."""
        return dict((served(UPDATE_FEATURES, self.update), served(LOG_LEVELS, self.log_levels)))

    def update(self, request: UpdateFeatures, context: Context, reply: Reply[UpdateFeaturesAnswer]) -> None:
        """Raise or lower finalized features (API key 57). Brokers forward what they allowed."""
        try:
            self._acls.require(context.principal, Operation.ALTER)
        except ClusterAuthorizationFailed:
            self._acls.require(context.principal, Operation.CLUSTER_ACTION)

        def decide(view: View, _now_ms: int) -> Decision[UpdateFeaturesAnswer]:
            return feature_updates.decide_update_features(view, request)

        self._submit(decide, reply, closing=reply)

    def log_levels(self, request: AskLogLevels, context: Context, reply: Reply[LogLevels]) -> None:
        """API key 20057: the log level in force, and raising it."""
        wanted, own = request.log_level, self._node_id
        self._acls.require(context.principal, Operation.DESCRIBE if wanted is None else Operation.ALTER)

        def decide(view: View, _now_ms: int) -> Decision[LogLevels]:
            highest = self._replica.highest_levels
            if wanted is None:
                return levels.decide_describe(view, own, highest)
            return levels.decide_upgrade(view, wanted, own, highest)

        self._submit(decide, reply, closing=reply)


def features_of(image: Callable[[], View]) -> Callable[[], Features]:
    """What a controller's ApiVersions says. The epoch is the image's version: it rises, as Kafka's does.

    Of an image in which rows beside them changed on the disk: what was said last.
    """
    last: Features | None = None

    def said() -> Features:
        nonlocal last
        view = image()
        try:
            finalized = tuple([FinalizedFeature(*each) for each in features.finalized(view)])
        except RowsChanged:
            if last is None:
                raise
            return last
        last = Features(SUPPORTED_FEATURES, finalized, view.header.version)
        return last

    return said
