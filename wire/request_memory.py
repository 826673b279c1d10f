"""How many bytes of requests and replies the connections of a node hold, and who must wait or go.

Counted   bytes that have come, not bytes that a frame announces: what waits in a connection's buffer, the
          frames of parked requests above UNCOUNTED_BYTES_MAX, and replies that their client has not read.
Small     frames up to SMALL_FRAME_BYTES_MAX have a reserve of their own, so that stalled uploads never keep
          a heartbeat out. At its end the connection goes whose part of a small frame is the oldest.
Large     a connection with a part of a larger frame is not read past the bound, until there is room. If
          none gets free from one ``relieve`` to the next, those that bring nothing go, then the newest.
Replies   a fetch answers with what there is room for (``reply_room``). Past the bound a client goes that
          has read nothing since the last ``relieve``.
Bound     ``bytes_max`` = ``queued.max.request.bytes``, of all listeners of the node together. It can be
          passed by one read of each connection, at most by OVERSHOOT_BYTES_MAX.
Source    Kafka's SimpleMemoryPool (KIP-72), which counts announced bytes and has one pool for all sizes.
"""

import enum
from collections import OrderedDict
from typing import Final, Protocol

from fencepost.wire.limits import QUEUED_REQUEST_BYTES_MAX

SMALL_FRAME_BYTES_MAX: Final = 64 * 1024
SMALL_RESERVE_BYTES_MAX: Final = 64 * 1024 * 1024
PARKED_BYTES_MAX: Final = 4 * 1024
"""Of a request that is parked while the memory for small frames is full: heartbeats, ends of transactions."""
UNCOUNTED_BYTES_MAX: Final = 512
"""A parked request of so many bytes is not counted, one of each connection."""
REPLIES_BYTES_MAX: Final = 64 * 1024 * 1024
OVERSHOOT_BYTES_MAX: Final = 32 * 1024 * 1024
READ_BYTES_MAX: Final = 256 * 1024  # that uvloop takes from a socket at once
RELIEF_S: Final = 0.9  # a little less than the listeners' sweeps are apart
RELIEF_DIVISOR: Final = 8  # of the large frames' bytes, so many at least are freed when nothing moves


class Part(enum.Enum):
    """What of the next frame has come."""

    NOTHING = enum.auto()
    OF_A_SMALL_FRAME = enum.auto()
    OF_A_LARGE_FRAME = enum.auto()

    @classmethod
    def of(cls, announced: int) -> "Part":
        """Of a frame of that size, by its own word."""
        return cls.OF_A_LARGE_FRAME if announced > SMALL_FRAME_BYTES_MAX else cls.OF_A_SMALL_FRAME


class Holder(Protocol):
    """A connection, as far as the memory knows it."""

    def go_on_reading(self) -> None:
        """Read from the client again: there is room."""

    def cut(self, reason: str) -> None:
        """Close at once and hold nothing any more."""

    def unread_bytes(self) -> int:
        """Bytes of replies that the client has not taken."""


class _Gone:
    """The holder of a connection that has ended: it holds nothing."""

    def go_on_reading(self) -> None:
        """Do nothing: the connection has ended."""

    def cut(self, reason: str) -> None:
        """Do nothing: the connection has ended."""

    def unread_bytes(self) -> int:
        """0: the connection has ended."""
        return 0


_GONE: Final = _Gone()


class Share:
    """What one connection holds. All changes go through its RequestMemory."""

    __slots__ = ("holder", "is_counted", "is_still", "large", "seen_unread", "small", "unread")

    def __init__(self, holder: Holder) -> None:
        self.holder = holder
        self.small = 0
        self.large = 0
        self.is_counted = False
        self.unread = 0
        self.seen_unread = -1  # at the last ``relieve``; -1: none was unread then
        self.is_still = False  # nothing of its large frame has come since the last ``relieve``


class RequestMemory:
    """The memory that requests of one node may take, shared by its connections."""

    def __init__(self, bytes_max: int = QUEUED_REQUEST_BYTES_MAX) -> None:
        self.bytes_max = bytes_max
        self.small_bytes_max = min(SMALL_RESERVE_BYTES_MAX, bytes_max // 4)
        self.replies_bytes_max = min(REPLIES_BYTES_MAX, bytes_max // 4)
        self.large_bytes_max = bytes_max - self.small_bytes_max - self.replies_bytes_max
        self.small = 0
        self.large = 0
        self.replies = 0
        self._parts: OrderedDict[Share, None] = OrderedDict()  # of small frames, the oldest first
        self._large_parts: OrderedDict[Share, None] = OrderedDict()  # the one that got bytes last is last
        self._waiting: OrderedDict[Share, None] = OrderedDict()  # of those, who are not read
        self._unread: OrderedDict[Share, None] = OrderedDict()
        self._freed = 0  # bytes of large frames since the last ``relieve``
        self._relieved_s = -RELIEF_S

    @property
    def small_is_full(self) -> bool:
        """The reserve of small frames is used up: larger ones of them are not parked any more."""
        return self.small >= self.small_bytes_max

    def reply_room(self) -> int:
        """How many bytes of replies may be added. At least 0."""
        return max(0, self.replies_bytes_max - self.replies)

    def park(self, size: int) -> None:
        """A request of so many bytes is in process, and waits for something."""
        if size > SMALL_FRAME_BYTES_MAX:
            self.large += size
        else:
            self.small += size

    def unpark(self, size: int) -> None:
        """It has its answer, or lost its connection."""
        if size > SMALL_FRAME_BYTES_MAX:
            self.large -= size
            self._freed += size
            self._wake()
        else:
            self.small -= size

    def hold(self, share: Share, buffered: int, part: Part) -> bool:
        """So much waits in a connection's buffer. True: do not read it until ``go_on_reading``."""
        small, large = (0, buffered) if part is Part.OF_A_LARGE_FRAME else (buffered, 0)
        self.small += small - share.small
        self.large += large - share.large
        grew, freed = large > share.large, max(0, share.large - large)
        share.small, share.large = small, large
        share.is_counted = buffered > 0
        self._enlist(share, part, grew=grew)
        if freed:
            self._freed += freed
            self._wake()
        if part is Part.OF_A_LARGE_FRAME and self.large > self.large_bytes_max:
            return self._is_to_wait(share)
        while self.small > self.small_bytes_max and self._parts:
            oldest = next(iter(self._parts))
            oldest.holder.cut("request memory is full, and this part of a small frame is the oldest")
        return False

    def hold_unread(self, share: Share, unread: int) -> None:
        """Of its replies, the client has not read so many bytes."""
        self.replies += unread - share.unread
        share.unread = unread
        if unread:
            self._unread[share] = None
        else:
            self._unread.pop(share, None)
            share.seen_unread = -1

    def release(self, share: Share) -> None:
        """The connection is gone, and no longer in a cycle with its share."""
        self.hold_unread(share, 0)
        self.hold(share, 0, Part.NOTHING)
        share.holder = _GONE

    def relieve(self, now_s: float) -> None:
        """Make room where some wait in vain. Every listener calls it; it acts each RELIEF_S."""
        if now_s - self._relieved_s < RELIEF_S:
            return
        self._relieved_s = now_s
        if self._waiting and not self._freed:
            self._cut_large()
        self._freed = 0
        for share in self._large_parts:
            share.is_still = share not in self._waiting
        is_full = self.replies >= self.replies_bytes_max
        for share in tuple(self._unread):
            left = share.holder.unread_bytes()
            if is_full and left >= share.seen_unread >= 0:
                share.holder.cut(f"the memory for replies is full, and {left} bytes wait to be read")
            else:
                self.hold_unread(share, left)
                share.seen_unread = left or -1

    def _enlist(self, share: Share, part: Part, *, grew: bool) -> None:
        if part is Part.OF_A_SMALL_FRAME:
            self._parts.setdefault(share)
        else:
            self._parts.pop(share, None)
        if part is Part.OF_A_LARGE_FRAME:
            self._large_parts[share] = None
            if grew:
                share.is_still = False
                self._large_parts.move_to_end(share)
        else:
            self._large_parts.pop(share, None)
            self._waiting.pop(share, None)

    def _is_to_wait(self, share: Share) -> bool:
        if self.large > self.large_bytes_max + OVERSHOOT_BYTES_MAX:
            share.holder.cut("request memory is full; come again")
            return False
        self._waiting[share] = None
        return True

    def _wake(self) -> None:
        """Let those read on, the longest waiting first, for whom there is room now."""
        room = self.large_bytes_max - self.large
        while room > 0 and self._waiting:
            share, _ = self._waiting.popitem(last=False)
            room -= READ_BYTES_MAX
            share.holder.go_on_reading()

    def _cut_large(self) -> None:
        wanted = self.large_bytes_max // RELIEF_DIVISOR
        still = [share for share in self._large_parts if share.is_still]
        newest = list(reversed(self._waiting))[:-1]
        for share in (*still, *newest):
            if self._freed >= wanted:
                return
            share.holder.cut("request memory is full, and this frame is not coming on")
