"""What is broken on purpose in sockets between voters, the client of the quorum, and limits of requests."""

from typing import Final

from tests.mutants.mutant import Mutant

CLIENT: Final = "tests/wire/test_controller_client.py::"
CLOSING: Final = "tests/quorum/test_links_closing.py::"
DECODERS: Final = "tests/hostile/test_decoders.py::"
REPLIES: Final = "tests/hostile/test_replies.py::"
LIMITS: Final = "tests/wire/test_request_limits.py::"
LINKS_FILE: Final = "quorum/links.py"

HOSTILE: Final = (
    # -- decoders and replies --------------------------------------------------------------------------------
    Mutant(
        "failed-decoder-halts",
        "an exception out of a decoder costs its connection",
        "wire/server_connection.py",
        "            self.close_because(str(self.isolation.failure(self._work, error)))\n",
        "            raise\n",
        (DECODERS + "test_a_decoder_that_fails_costs_its_connection",),
    ),
    Mutant(
        "unsendable-message",
        "a refusal's message is UTF-8, whatever it quotes",
        "wire/errors.py",
        '    return text.encode("utf-8", "replace").decode()\n',
        "    return text\n",
        (REPLIES + "test_a_refusal_always_leaves",),
    ),
    Mutant(
        "large-request-unread",
        "a request that came in pieces is read, however large",
        "wire/server_connection.py",
        " else memoryview(frame).toreadonly()[end:]\n",
        " else memoryview(frame)[end:]\n",
        (DECODERS + "test_the_largest_requests_that_fit_are_read[DeleteTopics]",),
    ),
    # -- the client of the quorum ----------------------------------------------------------------------------
    Mutant(
        "no-backoff",
        "the client of the quorum pauses longer after each attempt",
        "wire/client.py",
        "            backoff_s = min(backoff_s * 2, self._backoff_s_max)\n",
        "",
        (CLIENT + "test_attempts_are_apart_by_a_pause_that_doubles",),
    ),
    Mutant(
        "no-pause",
        "the client of the quorum pauses between attempts",
        "wire/client.py",
        "            await asyncio.sleep(min(self._rng.uniform(backoff_s / 2, backoff_s), left_s))\n",
        "            await asyncio.sleep(0)\n",
        (CLIENT + "test_attempts_are_apart_by_a_pause_that_doubles",),
    ),
    Mutant(
        "first-cause-lost",
        "what first stood in the way of a call is what its caller hears",
        "wire/client.py",
        "                raise unknown or first or self._not_found(timeout_s)\n",
        '                raise unknown or NotConnected(f"no active controller found in {left_s:.3f} s")\n',
        (CLIENT + "test_what_first_stood_in_the_way_is_what_the_caller_hears",),
    ),
    Mutant(
        "bench-without-pauses",
        "a client of the bench pauses where no node grants",
        "bench/load_client.py",
        "        if self._failures > 0:\n            self._pause_and_ask()\n            return\n",
        "",
        ("tests/cli/test_bench_client.py::test_where_no_node_grants_the_pauses_double[hung-up]",),
    ),
    # -- limits of requests ----------------------------------------------------------------------------------
    Mutant(
        "request-limit-off-by-one",
        "a request of one byte more than its key's limit is refused",
        "wire/frame.py",
        "        if size > most:\n",
        "        if size > most + 1:\n",
        (
            LIMITS + "test_a_request_at_its_limit_is_taken_and_one_byte_more_is_not",
            LIMITS + "test_past_its_limit_a_connection_is_closed_before_the_rest_is_sent",
        ),
    ),
    Mutant(
        "request-limit-unchecked",
        "a listener looks at a request's size by its key",
        "wire/server_connection.py",
        "framing.Splitter(bound, listener.key_limits)",
        "framing.Splitter(bound)",
        (LIMITS + "test_past_its_limit_a_connection_is_closed_before_the_rest_is_sent",),
    ),
    Mutant(
        "request-limit-of-whole-frames",
        "a request is refused when its key is here, not when all of it is",
        "wire/frame.py",
        "len(buffer) >= start + _KEY.size:",
        "len(buffer) >= start + size:",
        (LIMITS + "test_a_request_at_its_limit_is_taken_and_one_byte_more_is_not",),
    ),
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
        "wire/accepting.py",
        "        loop.remove_reader(listening.fileno())\n",
        "        listening.fileno()\n",
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
