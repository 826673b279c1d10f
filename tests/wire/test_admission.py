"""Who is admitted, who makes room, and who is closed for time, by connections that are driven by hand."""

from typing import Any

import pytest

from fencepost.wire.admission import LOGIN_SWEEPS, PACE_BYTES, PACE_SWEEPS
from fencepost.wire.auth import MECHANISM, Login, Logins, plain_token
from fencepost.wire.dispatch import Service
from fencepost.wire.k00_produce import PRODUCE
from fencepost.wire.k17_sasl_handshake import SASL_HANDSHAKE, SaslHandshake
from fencepost.wire.k36_sasl_authenticate import SASL_AUTHENTICATE, SaslAuthenticate
from fencepost.wire.limits import ListenerLimits
from fencepost.wire.scram import ScramClient
from fencepost.wire.server_connection import ServerConnection
from tests.together import table
from tests.wire.stage import allocate, framed
from tests.wire.test_listener import BLOCK, Later, Stage, Wire


class House(Stage):
    """A listener whose connections have names."""

    def __init__(self, **options: Any) -> None:
        uploads: Service = {0: (PRODUCE, lambda request, context, reply: None)}
        super().__init__(also=uploads, **options)  # frames of zeros are Produce, the one key of any size
        self.now_s = 0.0
        self.connections = {"a": (self.connection, self.wire)}

    def come(self, *names: str) -> None:
        for name in names:
            self.connections[name] = self.connect()

    def send(self, name: str, raw: bytes) -> None:
        self.connections[name][0].data_received(raw)
        while self.clock.run_soon():  # a slow machine may take several turns
            pass

    def sweep(self, count: int) -> None:
        for _ in range(count):
            self.now_s += 1
            self.listener.sweep(self.now_s)

    @property
    def gone(self) -> str:
        return "".join(
            sorted(name for name, (_, wire) in self.connections.items() if wire.closed or wire.aborted)
        )

    @property
    def reasons(self) -> list[str]:
        return [each["reason"] for each in self.events]


def test_the_longest_idle_connection_makes_room() -> None:
    house = House(limits=ListenerLimits(connections_max=3))
    house.come("b", "c")
    house.send("a", allocate())  # now b is idle for longest
    house.come("d")
    assert house.gone == "b"
    house.come("e")
    assert house.gone == "bc"
    assert len(house.listener.admission) == 3


def test_one_below_the_limit_nobody_makes_room() -> None:
    house = House(limits=ListenerLimits(connections_max=3))
    house.come("b", "c")
    house.connections["b"][0].connection_lost(None)
    house.come("d")
    assert house.gone == ""


def test_a_parked_request_and_a_peer_keep_their_connection() -> None:
    later = Later()
    house = House(endpoint=later, limits=ListenerLimits(connections_max=3))
    house.come("b", "c")
    house.send("a", allocate())  # parked
    house.connections["b"][0]._proof.proved = True
    house.come("d")
    assert house.gone == "c"
    house.send("d", allocate())
    house.come("e")  # all are in use: it is refused
    assert house.gone == "ce"
    later.waiting[0](BLOCK)
    house.come("f")
    assert house.gone == "ace"


@pytest.mark.parametrize(
    ("limit", "gone"),
    [
        pytest.param(None, "", id="no-limit"),
        pytest.param(3, "", id="at-the-limit"),
        pytest.param(2, "c", id="one-past"),
    ],
)
def test_an_address_has_so_many_connections(limit: int | None, gone: str) -> None:
    house = House(limits=ListenerLimits(connections_per_ip_max=limit))
    house.come("b", "c")
    assert house.gone == gone
    house.connections["a"][0].connection_lost(None)
    house.come("d")
    assert house.gone == gone


class Numbered(Wire):
    """A transport whose socket has a descriptor."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number

    def get_extra_info(self, name: str) -> Any:
        return self if name == "socket" else super().get_extra_info(name)

    def fileno(self) -> int:
        return self.number


def test_a_socket_of_the_reserve_makes_the_longest_idle_go() -> None:
    house = House()
    end = house.listener.admission._sockets_end
    for number, gone in ((end - 1, ""), (end, "a")):
        wire = Numbered(number)
        connection = ServerConnection(house.listener, house.clock)  # type: ignore[arg-type]
        connection.connection_made(wire)  # type: ignore[arg-type]
        assert house.gone == gone
        assert not wire.closed


@pytest.mark.parametrize(
    ("sweeps", "gone"), [pytest.param(2, "", id="at-the-limit"), pytest.param(3, "b", id="past-it")]
)
def test_an_idle_connection_is_closed(sweeps: int, gone: str) -> None:
    house = House(limits=ListenerLimits(idle_ms_max=3000))
    house.come("b")
    for _ in range(sweeps):
        house.send("a", allocate())
        house.sweep(1)
    assert house.gone == gone


def test_a_parked_request_is_no_idleness() -> None:
    later = Later()
    house = House(endpoint=later, limits=ListenerLimits(idle_ms_max=3000))
    house.come("b")
    house.send("a", allocate())
    house.sweep(20)
    assert house.gone == "b"
    later.waiting[0](BLOCK)
    house.sweep(2)
    assert house.gone == "b"
    house.sweep(2)
    assert house.gone == "ab"


@table(
    ("first", "then", "gone"),
    [
        pytest.param(allocate()[:3], b"", "a", id="part-of-a-length"),
        pytest.param(allocate()[:-1], b"", "a", id="all-but-a-byte"),
        pytest.param(allocate()[:-1], allocate()[-1:], "", id="completed"),
        pytest.param(allocate() + allocate()[:-1], b"", "a", id="behind-a-whole-one"),
        pytest.param(b"\5\0\0\0" + bytes(1000), bytes(PACE_BYTES - 1), "a", id="one-byte-too-slow"),
        pytest.param(b"\5\0\0\0" + bytes(1000), bytes(PACE_BYTES), "", id="fast-enough"),
    ],
)
def test_a_frame_comes_at_some_pace(first: bytes, then: bytes, gone: str) -> None:
    house = House()
    house.send("a", first)
    house.sweep(PACE_SWEEPS - 1)
    house.send("a", then)
    assert house.gone == ""
    house.sweep(1)
    assert house.gone == gone


def test_each_ten_seconds_of_a_frame_have_their_own_pace() -> None:
    """A client that sends 90 MB at once and then nothing is as slow as any."""
    house = House()
    house.send("a", b"\5\0\0\0" + bytes(20 * PACE_BYTES))
    house.sweep(PACE_SWEEPS)
    assert house.gone == "a"


def test_a_frame_that_waits_for_us_is_not_slow() -> None:
    later = Later()
    house = House(endpoint=later)
    house.send("a", allocate(1) + allocate(2)[:-1])
    house.sweep(3 * PACE_SWEEPS)
    assert house.gone == ""
    later.waiting[0](BLOCK)
    house.sweep(PACE_SWEEPS)
    assert house.gone == "a"


SASL = {"security_protocol": "SASL_PLAINTEXT", "logins": Logins({"alice": "secret"})}


def login(token: bytes) -> bytes:
    handshake = SASL_HANDSHAKE.encode_request(1, SaslHandshake("PLAIN"))
    return framed(17, 1, handshake, flexible=False) + framed(
        36, 2, SASL_AUTHENTICATE.encode_request(2, SaslAuthenticate(token))
    )


def test_a_login_has_its_time() -> None:
    house = House(**SASL)
    house.come("b")
    house.send("b", login(b"\0alice\0secret"))
    house.sweep(LOGIN_SWEEPS - 1)
    assert house.gone == ""
    house.sweep(1)
    assert house.gone == "a"
    house.sweep(2 * LOGIN_SWEEPS)
    assert house.gone == "a"


def test_a_failed_login_waits_for_its_answer_and_holds_nothing() -> None:
    house = House(limits=ListenerLimits(failed_authentication_delay_ms=250, connections_max=1), **SASL)
    house.send("a", login(b"\0alice\0guess") + allocate())
    assert (len(house.wire.written), house.wire.reading, house.gone) == (1, False, "")
    assert (house.connection.received_bytes(), house.listener.memory.small) == (0, 0)
    assert house.clock.fire() == 0.25
    assert (len(house.wire.written), house.gone) == (2, "a")


def test_a_failed_login_makes_room_while_it_waits() -> None:
    house = House(limits=ListenerLimits(connections_max=1), **SASL)
    house.send("a", login(b"\0alice\0guess"))
    house.come("b")
    assert house.gone == "a"
    assert house.clock.timers[0][2].cancelled


def log_in(house: House, name: str, who: Login) -> None:
    """To its end; the proof of SCRAM is of the password that ``who`` has."""
    handshake = SASL_HANDSHAKE.encode_request(1, SaslHandshake(who.mechanism))
    house.send(name, framed(17, 1, handshake, flexible=False))
    if who.mechanism == MECHANISM:
        house.send(name, authenticate(plain_token(who.user, who.password)))
        return
    client = ScramClient(who.mechanism, who.user, who.password, "nonce")
    house.send(name, authenticate(client.first()))
    answer = memoryview(house.connections[name][1].written[-1])[9:]  # its length, correlation id, no tags
    house.send(name, authenticate(client.final(SASL_AUTHENTICATE.decode_response(2, answer).token)))


def authenticate(token: bytes) -> bytes:
    return framed(36, 2, SASL_AUTHENTICATE.encode_request(2, SaslAuthenticate(token)))


@pytest.mark.parametrize("mechanism", [MECHANISM, "SCRAM-SHA-512"])
def test_a_storm_of_failed_logins_takes_the_places_of_no_one_else(
    mechanism: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each by another name: nothing of it stays, and the listener hashes no password."""
    logins = Logins.of({"alice": "secret"}, (mechanism,), b"salts")
    house = House(
        security_protocol="SASL_PLAINTEXT", logins=logins, limits=ListenerLimits(connections_max=20)
    )
    log_in(house, "a", Login("alice", "secret", mechanism))
    hashed: list[str] = []

    def salted(_mechanism: str, password: str, _salt: bytes, _iterations: int) -> bytes:
        hashed.append(password)
        return b"s" * 64

    monkeypatch.setattr("fencepost.wire.scram._salted", salted)
    for number in range(1_000):
        name = f"{number}-"
        house.come(name)
        log_in(house, name, Login(f"user-{number}", f"guess-{number}", mechanism))
        assert len(house.listener.admission) <= 20
        assert house.listener.memory.small == 0
    assert len(hashed) == (0 if mechanism == MECHANISM else 1_000), "the clients' own alone"
    assert "a" not in house.gone
    house.send("a", allocate(99))
    assert house.connections["a"][0]._context.principal == "User:alice"
    assert house.connections["a"][1].correlation_ids[-1] == 99, "it is served"


def test_logins_under_way_are_not_closed_for_each_other_while_they_are_few() -> None:
    """Two that begin at the limit would close each other again and again, while others are idle for hours."""
    house = House(limits=ListenerLimits(connections_max=8), **SASL)
    house.come("b", "c", "d", "e", "f")
    for name in "abcdef":
        house.send(name, login(b"\0alice\0secret"))
    house.come("g", "h", "i")
    assert house.gone == "a", "two of eight have not logged in: the longest idle one"
    house.come("j")
    assert house.gone == "ag", "three of eight: the oldest of them"


def test_lines_about_refused_connections_are_few() -> None:
    later = Later()
    house = House(endpoint=later, limits=ListenerLimits(connections_max=1))
    house.send("a", allocate())
    for _ in range(1000):
        house.connect()
    assert len(house.events) <= 10
    house.listener.log.close()
    assert house.events[-1]["event"] == "log_lines_suppressed"
    assert house.events[-1]["lines"] == 990


def test_a_line_says_what_to_look_at() -> None:
    house = House(limits=ListenerLimits(connections_max=1))
    house.come("b")
    assert house.reasons == ["the longest idle one made room: 1 connections (max.connections)"]
