"""What is broken on purpose in sockets between voters, the client of the quorum, and limits of requests."""

from typing import Final

from tests.mutants.mutant import Mutant

CLOSING: Final = "tests/quorum/test_links_closing.py::"
LINKS_FILE: Final = "quorum/links.py"

HOSTILE: Final = (
    # -- sockets between voters ------------------------------------------------------------------------------
    Mutant(
        "stop-returns-at-once",
        "stop returns when every socket is closed",
        LINKS_FILE,
        "        await asyncio.gather(*(connection.closed.wait() for connection in self.open))\n",
        "",
        (CLOSING + "test_a_peer_that_reads_nothing_does_not_hold_a_stop[asyncio]",),
    ),
    Mutant(
        "lingers-for-ever",
        "a socket whose peer does not read is cut off",
        LINKS_FILE,
        "call_later(LINGER_S, transport.abort)",
        "call_later(1000 * LINGER_S, transport.abort)",
        (CLOSING + "test_a_peer_that_reads_nothing_does_not_hold_a_stop[uvloop]",),
    ),
    Mutant(
        "accepted-and-forgotten",
        "what asyncio accepts while its server closes is not forgotten",
        LINKS_FILE,
        "            asyncio.get_running_loop().remove_reader(listening.fileno())\n",
        "            listening.fileno()\n",
        (CLOSING + "test_dialled_while_it_stops_no_socket_is_left[asyncio]",),
    ),
    Mutant(
        "dialled-and-forgotten",
        "a connection whose dialling is cancelled is not waited for",
        LINKS_FILE,
        "                        connection.connection_lost(None)",
        "                        pass",
        (CLOSING + "test_stopped_at_any_moment_no_socket_is_left[uvloop]",),
    ),
)
