"""The controller's endpoints of the quorum, API keys 55, 60 and 20055: who leads, votes, and is to lead."""

from collections.abc import Callable

from fencepost.controller import brokers
from fencepost.controller.authorization import Acls, Operation
from fencepost.controller.brokers import Broker, Endpoint
from fencepost.controller.decision import Decision
from fencepost.controller.errors import ApiError, InvalidRequest
from fencepost.controller.view import View
from fencepost.quorum.port import Outcome, Submit
from fencepost.quorum.replica import Replica
from fencepost.records.types import NodeId, Offset, Term
from fencepost.settings.config import NodeConfig
from fencepost.wire.dispatch import Context, Reply, Service, Then, served
from fencepost.wire.k55_describe_quorum import (
    DESCRIBE_QUORUM,
    DescribeQuorum,
    DescribeQuorumAnswer,
    NodeListener,
    QuorumNode,
    QuorumPartition,
    ReplicaState,
)
from fencepost.wire.k60_describe_cluster import (
    CONTROLLERS,
    DESCRIBE_CLUSTER,
    ClusterNode,
    DescribeCluster,
    DescribeClusterAnswer,
    require_known_type,
)
from fencepost.wire.k20055_move_leader import MOVE_LEADER, MoveLeader, MovesLeader


class QuorumServer:
    """See the module."""

    def __init__(
        self,
        config: NodeConfig,
        cluster_id: str,
        replica: Replica,
        submit: Submit,
        acls: Acls,
        controllers: Callable[[], dict[NodeId, tuple[str, int]]],
    ) -> None:
        self._config = config
        self._cluster_id = cluster_id
        self._replica = replica
        self._submit = submit
        self._acls = acls
        self._controllers = controllers

    @property
    def service(self) -> Service:
        """API key to (codec, endpoint)."""
        return dict(
            (
                served(DESCRIBE_QUORUM, self.describe_quorum),
                served(DESCRIBE_CLUSTER, self.describe_cluster),
                served(MOVE_LEADER, self.move_leader),
            )
        )

    def describe_quorum(
        self, request: DescribeQuorum, context: Context, reply: Reply[DescribeQuorumAnswer]
    ) -> None:
        """API key 55. A linearizable read: it rides on an entry, so only a real leader answers."""
        self._acls.require(context.principal, Operation.DESCRIBE)
        self._submit(lambda view, now_ms: Decision((), self._quorum(now_ms)), reply, closing=reply)

    def _quorum(self, now_ms: int) -> DescribeQuorumAnswer:
        """Offsets are Raft indexes, exclusive: the log of this partition is the Raft log itself."""
        replica = self._replica
        own = replica.config.node_id
        directories = replica.electorate.directories
        voters = [
            ReplicaState(own, Offset(replica.journal.last_index + 1), directories.get(own), now_ms, now_ms)
        ]
        voters += [
            ReplicaState(
                peer,
                Offset(replica.raft.match_index(peer) + 1),
                directories.get(peer),
                replica.wall_of(replica.raft.last_contact_s(peer)),
                replica.wall_of(replica.caught_up_s.get(peer)),
            )
            for peer in replica.peers
        ]
        nodes = tuple(
            QuorumNode(node, (NodeListener(self._config.controller_names[0], host, port),))
            for node, (host, port) in sorted(self._controllers().items())
        )
        partition = QuorumPartition(
            leader_id=own,
            leader_epoch=Term(replica.raft.term),
            high_watermark=Offset(replica.raft.commit_index + 1),
            current_voters=tuple(voters),
        )
        return DescribeQuorumAnswer.of(partition, nodes)

    def describe_cluster(
        self, request: DescribeCluster, context: Context, reply: Reply[DescribeClusterAnswer]
    ) -> None:
        """API key 60. Controllers: what this node knows, at once. Brokers: a linearizable read.

        Ours: nothing is required of the principal; brokers are shown, too, as a broker finds the others so
        (Kafka: MISMATCHED_ENDPOINT_TYPE).
        """
        require_known_type(request)
        if request.endpoint_type == CONTROLLERS:
            reply(self._controllers_answer())
        else:
            self._submit(
                lambda view, now_ms: Decision((), self._brokers_answer(view, request)), reply, closing=reply
            )

    def _controllers_answer(self) -> DescribeClusterAnswer:
        leader = self._replica.raft.leader_id
        return DescribeClusterAnswer(
            cluster_id=self._cluster_id,
            controller_id=NodeId(-1) if leader is None else leader,
            brokers=tuple(
                ClusterNode(node, host, port) for node, (host, port) in sorted(self._controllers().items())
            ),
            endpoint_type=CONTROLLERS,
        )

    def _brokers_answer(self, view: View, request: DescribeCluster) -> DescribeClusterAnswer:
        return DescribeClusterAnswer(
            cluster_id=self._cluster_id,
            controller_id=self._replica.config.node_id,
            brokers=tuple(
                _cluster_node(broker, endpoint)
                for _, broker in view.items(brokers.BROKERS)
                if request.include_fenced_brokers or not broker.fenced
                for endpoint in brokers.endpoint_on(broker, request.listener_name)
            ),
            endpoint_type=request.endpoint_type,
        )

    def move_leader(self, request: MoveLeader, context: Context, reply: Reply[MovesLeader]) -> None:
        """API key 20055. After the answer this node hands over, or leads on if no voter takes over."""
        self._acls.require(context.principal, Operation.ALTER)
        to = None if request.to is None else NodeId(request.to)

        def decide(_view: View, _now_ms: int) -> Decision[MovesLeader]:
            self._require_ready(to)
            replica = self._replica
            return Decision((), MovesLeader(replica.config.node_id, replica.raft.term, request.to))

        def answered(outcome: Outcome[MovesLeader], throttle_ms: int) -> None:
            reply(outcome, throttle_ms)
            if not isinstance(outcome, ApiError) and to != self._replica.config.node_id:
                self._replica.succession.move(to)

        self._submit(decide, Then(answered, reply), closing=reply)

    def _require_ready(self, to: NodeId | None) -> None:
        """Raises InvalidRequest: ``to``, or every other voter, could not lead."""
        replica = self._replica
        own, voters = replica.config.node_id, sorted((replica.config.node_id, *replica.peers))
        if to is not None and to not in voters:
            raise InvalidRequest(f"node {to} is no voter; the voters are {', '.join(map(str, voters))}")
        if to == own or any(to in (None, each) for each in replica.succession.successors):
            return
        if not replica.peers:
            raise InvalidRequest(f"node {own} is the only voter")
        which = "no other voter" if to is None else f"node {to}"
        verb = "is" if to is None else "is not"
        raise InvalidRequest(f"{which} {verb} connected with its own store: it could not lead")


def _cluster_node(broker: Broker, endpoint: Endpoint) -> ClusterNode:
    return ClusterNode(broker.broker_id, endpoint.host, endpoint.port, broker.rack, broker.fenced)
