"""What is broken on purpose where a login ends (KIP-368), or the trust in an authority."""

from typing import Final

from tests.mutants.mutant import Mutant

ORDERS: Final = "tests/wire/test_reauthentication.py::test_orders_of_a_login_that_ends"
ANSWERED: Final = "tests/wire/test_reauthentication.py::test_a_client_is_answered_how_long_its_login_counts"
MECHANISM: Final = (
    "tests/wire/test_reauthentication.py::test_another_mechanism_renews_no_login_though_the_password_is_right"
)
RETIRED: Final = "tests/wire/test_reauthentication.py::test_our_own_connections_are_retired_in_time"

PEERS: Final = "tests/wire/test_tls_peers.py::"

SESSIONS: Final = (
    Mutant(
        "failed-logins-take-places",
        "logins that fail take no place from a client that is served",
        "wire/admission.py",
        "        if len(self._logins) > max(1, len(self.by_activity) // LOGIN_SHARE):\n",
        "        if False:\n",
        ("tests/wire/test_admission.py::test_a_storm_of_failed_logins_takes_the_places_of_no_one_else",),
    ),
    Mutant(
        "login-without-end",
        "a connection whose login is over is closed by its next request",
        "wire/session.py",
        "        elif now_s >= self._end_s:\n",
        "        elif False:\n",
        (ORDERS,),
    ),
    Mutant(
        "login-again-as-another",
        "who logs in again is who was logged in",
        "wire/auth.py",
        '            if self._before is not None and principal != f"User:{user}":\n',
        "            if False:\n",
        (ORDERS,),
    ),
    Mutant(
        "login-again-by-another-mechanism",
        "a login is renewed by its own mechanism",
        "wire/auth.py",
        "        if self._before is not None and self.mechanism != mechanism:\n",
        "        if False:\n",
        (MECHANISM,),
    ),
    Mutant(
        "login-again-at-any-time",
        "a login is renewed once a second at most",
        "wire/session.py",
        "        if key == SASL_HANDSHAKE.key and now_s - self._again_s >= AGAIN_S:\n",
        "        if key == SASL_HANDSHAKE.key:\n",
        (ORDERS,),
    ),
    Mutant(
        "login-time-not-answered",
        "clients learn how long their login counts",
        "wire/auth.py",
        "        return self._session_ms(self.mechanism) if self.expects is Expects.NOTHING else 0\n",
        "        return 0\n",
        (ANSWERED,),
    ),
    Mutant(
        "own-login-used-past-its-end",
        "a connection of ours sends nothing in the last part of its login's time",
        "wire/connection.py",
        "            if answer.lifetime_ms:\n",
        "            if False:\n",
        (RETIRED,),
    ),
    Mutant(
        "peers-of-a-removed-authority-go-on",
        "a connection is closed when its authority is trusted no more",
        "wire/tls.py",
        "        closed = self._peers.close_others(trusted) if self._trusted - trusted else 0\n",
        "        closed = 0\n",
        (
            PEERS + "test_connections_of_an_authority_that_is_removed_are_closed",
            PEERS + "test_who_dialled_closes_too",
        ),
    ),
    Mutant(
        "peers-of-another-authority-closed",
        "a connection goes on while its authority is trusted",
        "wire/tls_peers.py",
        "        others = [each for each, anchor in self._anchors.items() if anchor not in trusted]\n",
        "        others = list(self._anchors)\n",
        (PEERS + "test_connections_of_an_authority_that_is_removed_are_closed",),
    ),
    Mutant(
        "peers-looked-for-by-listeners-alone",
        "a link, which has no listener's sweep, is closed when its authority is trusted no more",
        "wire/tls.py",
        "        if len(self._peers) and self._watched_by is not loop:\n",
        "        if False:\n",
        (
            "tests/quorum/test_link_authorities.py::test_a_link_ends_with_its_authority_and_is_made_again_with_another_key",
        ),
    ),
    Mutant(
        "peers-whose-handshake-was-under-way-go-on",
        "a handshake that ends after its authority was removed ends in nothing",
        "wire/tls.py",
        "        is_late = self.settings.has_trusted and context not in self._contexts.values()\n",
        "        is_late = False\n",
        (PEERS + "test_a_handshake_that_began_before_its_authority_was_removed_ends_in_nothing",),
    ),
    Mutant(
        "peers-that-resumed-closed-by-an-addition",
        "a resumed session is closed when an authority is removed, not when one is added",
        "wire/tls.py",
        "        closed = self._peers.close_others(trusted) if self._trusted - trusted else 0\n",
        "        closed = 0 if trusted == self._trusted else self._peers.close_others(trusted)\n",
        (PEERS + "test_a_session_that_is_resumed_goes_on_until_an_authority_is_removed",),
    ),
    Mutant(
        "peers-kept-for-ever",
        "a connection that is closed is forgotten",
        "wire/tls.py",
        "        self._peers.forget_closed()\n",
        "",
        (PEERS + "test_what_is_closed_is_forgotten",),
    ),
)
