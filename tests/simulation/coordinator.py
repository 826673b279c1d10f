"""A voter that coordinates transactions: the product's server, marker sender and timers under virtual time.

Requests come by the post, and so do answers; a stopped or busy process takes them when it is free. One
that dies forgets what it held. Producer ids come from a counter: blocks of them are other storms' matter.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from fencepost.controller.authorization import Acls
from fencepost.controller.errors import ApiError
from fencepost.controller.transactions.add_partitions import AddPartitionsToTxn
from fencepost.controller.transactions.describe import DescribeTransactions
from fencepost.controller.transactions.end_txn import EndTxn
from fencepost.controller.transactions.init_request import InitProducerId
from fencepost.coordinator.transaction_server import TransactionServer
from fencepost.coordinator.transaction_timers import TransactionTimes
from fencepost.node.driver import Service
from fencepost.records.types import BrokerId, ProducerId
from fencepost.wire.dispatch import Context, Endpoint
from fencepost.wire.k27_write_txn_markers import WriteTxnMarkers
from fencepost.wire.k20024_announce_partitions import AnnouncePartitions
from fencepost.wire.k20027_force_markers import ForceMarkers
from tests.simulation.broker import Broker
from tests.simulation.post import Post
from tests.simulation.process import Process
from tests.wire.answering import Answering

Request = InitProducerId | AddPartitionsToTxn | EndTxn
Told = Callable[[Any], None]

TIMES: Final = TransactionTimes(
    timeout_ms_max=60_000, timeouts_interval_ms=300, expiration_ms=4_000, expiry_interval_ms=1_000
)
MARKERS_PATIENCE_S: Final = 1.0
_CLIENT: Final = Context("User:ANONYMOUS", "PLAINTEXT", "simulated", "127.0.0.1:1")


class Coordinator(Process):
    """See the module."""

    post: Post
    brokers: Mapping[BrokerId, Broker]
    fresh: Callable[[], ProducerId]
    transactional_ids: tuple[str, ...] = ()
    server: TransactionServer

    def _services(self, life: int) -> tuple[Service, ...]:
        replica, driver = self.replica, self.driver
        assert replica is not None
        assert driver is not None
        self.server = TransactionServer(
            TIMES,
            replica,
            self.submit,
            Acls(),
            send=partial(self._send_markers, life),
            send_announcements=partial(self._send_announcements, life),
            call_later=lambda seconds, call: self._carry_out(driver.call_later(seconds, call)),
            background=lambda work, done: self._carry_out(driver.background(work, done)),
            clock=self.clock,
            may_expire=self.wall.may_delete,
            log=self._log,
            serves_two_phase=True,
        )
        self.server.allocate_producer_id = self.fresh
        return (*super()._services(life), self.server)

    def ask(self, request: Request, told: Told) -> None:
        """A request arrives. A dead process is silent: its client's patience ends."""
        if self.up:
            self.run(self._serve, self.life, request, told)

    def describe(self, told: Told) -> None:
        """DescribeTransactions of every id, as a broker asks about a foreign marker."""
        request = DescribeTransactions(self.transactional_ids)
        self._ask_server(self.server.describe if self.up else None, request, told)

    def force_all(self) -> None:
        """What an operator does who looks at ``find-hanging``: force-terminate of all that is wedged."""
        if not self.up:
            return
        wedged = {each.key for each in self.server.markers.wedges.rows()}
        for transactional_id in sorted(wedged):
            self._ask_server(self.server.set_aside.force, ForceMarkers(transactional_id), _nobody)

    def _ask_server(self, endpoint: Endpoint[Any, Any] | None, request: Any, told: Told) -> None:
        life = self.life

        def answered(answer: Any, _throttle_ms: int = 0) -> None:
            told(answer)

        def serve() -> None:
            if self._lives(life) and endpoint is not None:
                try:
                    endpoint(request, _CLIENT, Answering(answered))
                except ApiError as refusal:
                    told(refusal)

        if self.up:
            self.run(serve)

    def _serve(self, life: int, request: Request, told: Told) -> None:
        def answered(answer: Any, _throttle_ms: int = 0) -> None:
            told(answer)

        reply = Answering(answered)

        if not self._lives(life):
            return
        server = self.server
        try:
            if isinstance(request, InitProducerId):
                server.init_producer_id(request, _CLIENT, reply)
            elif isinstance(request, EndTxn):
                server.end_txn(request, _CLIENT, reply)
            else:
                server.add_partitions(request, _CLIENT, reply)
        except ApiError as refusal:
            told(refusal)

    def _send_markers(
        self, life: int, broker: BrokerId, _host: str, _port: int, request: WriteTxnMarkers, done: Told
    ) -> None:
        self._send_to_broker(life, broker, lambda to, told: to.write_markers(request, told), done)

    def _send_announcements(
        self, _life: int, broker_id: BrokerId, _host: str, _port: int, request: AnnouncePartitions
    ) -> None:
        """As coordinator/marker_links.py: nobody hears what becomes of it."""
        broker = self.brokers.get(broker_id)
        if broker is not None:
            self.post.carry(partial(broker.announce, request, _nobody))

    def _send_to_broker(
        self, life: int, broker_id: BrokerId, deliver: Callable[[Broker, Told], None], done: Told
    ) -> None:
        """As coordinator/marker_links.py: one answer or one failure. What was given up may still arrive."""
        waiting = [True]

        def tell(outcome: Any) -> None:
            if waiting[0] and self.driver is not None:
                waiting[0] = False
                self._run_in(life, self.driver.resume, done, outcome)

        def answered(outcome: Any) -> None:
            self.post.carry(partial(tell, outcome))

        self._agenda.after(MARKERS_PATIENCE_S, tell, TimeoutError("no answer"))
        broker = self.brokers.get(broker_id)
        if broker is None:
            self._agenda.after(0.001, tell, ConnectionRefusedError("nobody listens"))
        else:
            self.post.carry(partial(deliver, broker, answered))


def _nobody(_outcome: Any) -> None:
    """Who waits for the answer to an announcement."""
