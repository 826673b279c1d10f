"""Mutants of a broker's connections to the controller."""

from typing import Final

from tests.mutants.mutant import Mutant

CONTROLLER_CLIENTS: Final = (
    Mutant(
        "heartbeats-behind-producer-ids",
        "a heartbeat does not wait while the connection that producer ids come on is muted",
        "broker/controller_clients.py",
        "            membership=client(),\n            allocation=client(),\n",
        "            membership=(shared := client()),\n            allocation=shared,\n",
        ("tests/broker/test_controller_clients.py::test_a_mute_for_producer_ids_holds_up_no_heartbeat",),
    ),
)
