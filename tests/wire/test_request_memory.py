"""Bytes that connections hold: what is counted, who waits, who goes. By hand, and by chance over many."""

from random import Random
from typing import Any

import pytest

from fencepost.wire.frame import Splitter, raw_frame
from fencepost.wire.limits import QUEUED_REQUEST_BYTES_MAX
from fencepost.wire.request_memory import (
    OVERSHOOT_BYTES_MAX,
    SMALL_FRAME_BYTES_MAX,
    UNCOUNTED_BYTES_MAX,
    Part,
    RequestMemory,
    Share,
)
from tests.together import table
from tests.wire.stage import allocate
from tests.wire.test_admission import House
from tests.wire.test_listener import BLOCK, Later, Stage

MIB = 1024 * 1024
LARGE = (90 * MIB).to_bytes(4, "big")
"""The length of a frame that never ends."""


def house(mib: int = 4, **options: Any) -> House:
    """A listener with so much memory: of 4 MiB one for small frames, one for replies, two for large ones."""
    return House(memory=RequestMemory(mib * MIB), **options)


@pytest.mark.parametrize("mib", [1, 4, 256, 1024])
def test_the_parts_are_the_whole(mib: int) -> None:
    memory = RequestMemory(mib * MIB)
    assert memory.small_bytes_max + memory.replies_bytes_max + memory.large_bytes_max == mib * MIB
    assert memory.large_bytes_max >= mib * MIB // 2


def test_bytes_count_when_they_come_not_when_they_are_announced() -> None:
    stage = house()
    memory = stage.listener.memory
    stage.send("a", LARGE)
    assert (memory.small, memory.large) == (0, 4)
    stage.send("a", bytes(MIB))
    assert (memory.small, memory.large) == (0, MIB + 4)
    stage.connection.connection_lost(None)
    assert (memory.small, memory.large) == (0, 0)


@pytest.mark.parametrize(
    ("size", "small", "large"),
    [
        pytest.param(SMALL_FRAME_BYTES_MAX, 1004, 0, id="the-largest-small-one"),
        pytest.param(SMALL_FRAME_BYTES_MAX + 1, 0, 1004, id="the-smallest-large-one"),
    ],
)
def test_small_frames_have_their_own_reserve(size: int, small: int, large: int) -> None:
    stage = house()
    stage.send("a", size.to_bytes(4, "big") + bytes(1000))
    assert (stage.listener.memory.small, stage.listener.memory.large) == (small, large)


def parked(size: int) -> bytes:
    """A request of so many bytes, most of them its client id."""
    frame = allocate()[4:]
    assert frame[8:14] == b"\0\x04test"
    wide = size - len(frame) + len(b"test")
    return raw_frame(frame[:8] + wide.to_bytes(2, "big") + b"c" * wide + frame[14:])


@pytest.mark.parametrize(("size", "counted"), [(UNCOUNTED_BYTES_MAX, 0), (UNCOUNTED_BYTES_MAX + 1, 513)])
def test_a_parked_request_counts_until_it_is_answered(size: int, counted: int) -> None:
    later = Later()
    stage = house(endpoint=later)
    stage.send("a", parked(size))
    assert stage.listener.memory.small == counted
    later.waiting[0](BLOCK)
    assert stage.listener.memory.small == 0


def test_what_is_read_ahead_counts() -> None:
    later = Later()
    stage = house(endpoint=later)
    stage.send("a", parked(600) + bytes(1000))
    assert stage.listener.memory.small == 600 + 1000


def test_past_the_bound_a_large_frame_is_not_read_and_a_small_one_is_served() -> None:
    stage = house()
    stage.come("b", "c")
    stage.send("a", LARGE + bytes(2 * MIB - 4))
    assert stage.wire.reading  # at the bound
    stage.send("b", LARGE)
    assert not stage.connections["b"][1].reading  # past it
    stage.send("c", allocate(7))
    assert stage.connections["c"][1].correlation_ids == [7]
    stage.connection.connection_lost(None)
    assert stage.connections["b"][1].reading


def test_those_that_bring_nothing_go_first_then_the_newest() -> None:
    stage = house()
    stage.come("b", "c", "d")
    stage.send("a", LARGE + bytes(MIB))  # brings nothing any more
    for name in "bcd":
        stage.send(name, LARGE + bytes(MIB // 2))
    assert [stage.connections[name][1].reading for name in "abcd"] == [True, True, False, False]
    stage.sweep(1)  # nothing was freed, and nothing is known of who brings something
    assert stage.gone == "d"
    stage.send("b", bytes(10))
    stage.sweep(1)
    assert stage.gone == "ad"
    assert stage.connections["c"][1].reading


def test_honest_uploads_that_fill_the_memory_together_come_to_an_end() -> None:
    """Each is smaller than the memory, all together are larger: no deadlock."""
    stage = house(mib=8)
    names = "abcdef"
    stage.come(*names[1:])
    left = {name: (1_500_000).to_bytes(4, "big") + bytes(1_500_000) for name in names}
    for _ in range(200):
        for name in names:
            connection, wire = stage.connections[name]
            if left[name] and wire.reading and not wire.aborted:
                connection.data_received(left[name][:100_000])
                left[name] = left[name][100_000:]
        stage.sweep(1)
    done = [name for name in names if not left[name]]
    assert len(done) >= 2
    assert all(not left[name] or stage.connections[name][1].aborted for name in names)
    assert stage.listener.memory.large == 0


def test_a_first_read_past_the_slack_closes() -> None:
    memory = RequestMemory(4 * MIB)
    stage = House(memory=memory)
    stage.come("b")
    memory.large = memory.large_bytes_max + OVERSHOOT_BYTES_MAX
    stage.send("a", LARGE[:3])
    assert stage.gone == ""
    stage.send("b", LARGE + bytes(100))
    assert stage.gone == "b"


def test_at_the_end_of_the_small_reserve_the_oldest_part_goes() -> None:
    stage = house()
    part = (60_000).to_bytes(4, "big") + bytes(50_000)
    count = stage.listener.memory.small_bytes_max // len(part)
    names = [f"c{number:03}" for number in range(count + 2)]
    stage.come(*names)
    for name in names[:count]:
        stage.send(name, part)
    assert stage.gone == ""
    stage.send(names[count], part)
    assert stage.gone == names[0]
    stage.send(names[count + 1], allocate(3))
    assert stage.connections[names[count + 1]][1].correlation_ids == [3]


def test_requests_in_process_are_bounded_and_the_smallest_still_served() -> None:
    later = Later()
    stage = house(endpoint=later)
    stage.come("b", "c")
    stage.listener.memory.small = stage.listener.memory.small_bytes_max
    body = allocate()[4:]
    stage.send("b", raw_frame(body + bytes(5000)))
    stage.send("c", raw_frame(body))
    assert (stage.gone, len(later.waiting)) == ("b", 2)


def test_a_client_that_reads_nothing_goes_when_the_memory_for_replies_is_full() -> None:
    stage = house()
    memory = stage.listener.memory
    stage.come("b")
    for name in "ab":
        connection, wire = stage.connections[name]
        wire.unread = MIB // 2
        connection.pause_writing()
        connection.answer(b"reply", 0)
    assert (memory.replies, memory.reply_room()) == (MIB, 0)
    stage.sweep(1)  # it was looked at for the first time
    assert stage.gone == ""
    stage.connections["b"][1].unread -= 1  # it reads
    stage.sweep(1)
    assert stage.gone == "a"
    assert memory.reply_room() == MIB // 2 + 1
    stage.sweep(5)
    assert stage.gone == "a"  # as long as there is room, a client may be as slow as it likes


def test_two_listeners_share_the_memory_and_count_one_second_once() -> None:
    memory = RequestMemory(4 * MIB)
    one, other = House(memory=memory), House(memory=memory)
    one.send("a", LARGE + bytes(2 * MIB))
    other.send("a", LARGE + bytes(100))
    assert (one.wire.reading, other.wire.reading) == (False, False)
    one.listener.sweep(1.0)
    other.listener.sweep(1.1)
    other.listener.sweep(1.2)
    assert (one.gone, other.gone) == ("", "a")


@table("seed", range(20))
def test_nothing_is_counted_that_is_not_held_and_the_bound_holds(seed: int) -> None:
    """A random walk: bytes come in pieces, requests are parked and answered, connections are lost."""
    rng = Random(seed)
    later = Later()
    memory = RequestMemory(2 * MIB)
    stage = House(endpoint=later, memory=memory)
    names = [f"{number}" for number in range(20)]
    stage.come(*names)
    for _ in range(600):
        name = rng.choice(names)
        connection, wire = stage.connections[name]
        if wire.aborted or wire.closed or rng.random() < 0.02:
            connection.connection_lost(None)
            stage.come(name)
        elif wire.reading:
            whole = rng.choice((allocate(), raw_frame(allocate()[4:] + bytes(rng.randrange(200_000)))))
            connection.data_received(whole[: rng.choice((3, 100, len(whole)))])
        if later.waiting and rng.random() < 0.3:
            later.waiting.pop(rng.randrange(len(later.waiting)))(BLOCK)
        if rng.random() < 0.1:
            stage.sweep(1)
        held = sum(
            each._splitter.buffered + each._parked_bytes
            for each, wire in stage.connections.values()
            if not (wire.aborted or wire.closed)
        )
        assert memory.small + memory.large == held
        assert memory.large <= memory.large_bytes_max + OVERSHOOT_BYTES_MAX + SMALL_FRAME_BYTES_MAX
    for connection, _ in stage.connections.values():
        connection.connection_lost(None)
    assert (memory.small, memory.large, memory.replies) == (0, 0, 0)
    assert not memory._parts
    assert not memory._large_parts
    assert not memory._waiting


def test_a_large_frame_is_given_out_without_a_second_copy() -> None:
    splitter = Splitter()
    splitter.feed((1_000_000).to_bytes(4, "big"))
    for _ in range(10):
        splitter.feed(bytes(100_000))
    splitter.feed(b"next")
    gathered = splitter.pending
    frame = splitter.next_frame()
    assert frame is gathered
    assert (len(frame), splitter.buffered) == (1_000_000, 4)


def test_an_idle_connection_keeps_nothing_of_what_it_was_served() -> None:
    stage = Stage()
    stage.receive(*(allocate(number) for number in range(1000)), b"\0")
    assert len(stage.connection._splitter.pending) == 1
    stage.receive(allocate()[1:])
    assert len(stage.connection._splitter.pending) == 0


def test_the_default_is_as_documented() -> None:
    assert RequestMemory().bytes_max == QUEUED_REQUEST_BYTES_MAX == 256 * MIB
    assert Share(Stage().connection).unread == 0
    assert Part.of(0) is Part.OF_A_SMALL_FRAME
