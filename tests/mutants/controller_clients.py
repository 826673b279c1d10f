"""Mutants of the connections that clients of brokers and controllers open."""

from typing import Final

from tests.mutants.mutant import Mutant

LEFT_OPEN: Final = "tests/client/test_connections.py::"

CONTROLLER_CLIENTS: Final = (
    Mutant(
        "heartbeats-behind-producer-ids",
        "a heartbeat does not wait while the connection that producer ids come on is muted",
        "broker/controller_clients.py",
        "            membership=client(),\n            allocation=client(),\n",
        "            membership=(shared := client()),\n            allocation=shared,\n",
        ("tests/broker/test_controller_clients.py::test_a_mute_for_producer_ids_holds_up_no_heartbeat",),
    ),
    Mutant(
        "a-connection-for-each-call",
        "calls to a broker that overlap open one connection",
        "cluster/brokers.py",
        "        async with self._opening[address]:\n",
        "        async with asyncio.Lock():\n",
        (LEFT_OPEN + "test_calls_to_brokers_that_overlap_open_one_connection",),
    ),
    Mutant(
        "network-opens-when-closed",
        "what a client opened while it was closed is closed",
        "client/network.py",
        "            self._require_open()  # closed meanwhile, without a word to who waits for it\n",
        "            pass\n",
        (LEFT_OPEN + "test_what_opens_while_the_network_closes_is_closed",),
    ),
    Mutant(
        "controller-client-opens-when-closed",
        "what a controller's client opened while it was closed is closed",
        "wire/client.py",
        "                        self._require_open()  # closed meanwhile\n",
        "                        pass\n",
        (LEFT_OPEN + "test_what_opens_while_the_controller_client_closes_is_closed",),
    ),
)
