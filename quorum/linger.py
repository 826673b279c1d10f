"""Linger: how long an entry waits for more requests before it is proposed.

Clients in a closed loop send their next request as soon as they have a response. Proposing the moment an
entry is applied splits them into two groups that take turns, so every entry carries half of what it could.
Waiting for those just answered, for a few milliseconds at most, makes one group of them: a transaction's
producer sends its next request after it has produced, or after a pause of librdkafka's, a millisecond each.

With many clients two groups are better than one: while the entry of one travels, the other is answered and
sends again. So the wait ends at ``BATCH_TARGET`` requests, the target size of an entry.

A lone client's request is proposed at once: no other is expected. Where those answered do not come back (open
loops, bursts), the wait is given up, for twice as many entries after each miss.

Length   as long as the last entry took from its proposal until it was applied, within bounds. Where entries
         are fast, the wait stays short; where CPU time is short they are slow, clients come back late, and
         an entry with few requests costs most: some millisecond of CPU on three nodes, whatever it holds.
"""

from dataclasses import dataclass
from typing import Final

LINGER_S: Final = 0.003  # and more if entries take longer
LINGER_S_MAX: Final = 0.010
BATCH_TARGET: Final = 64
"""So many are worth an entry of their own: the rest, and those answered meanwhile, fill the next one."""
RESTS_MAX: Final = 256  # entries without waiting, after many misses in a row


@dataclass(slots=True)
class Linger:
    """Decides when enough requests wait. Times are of the caller's clock, in seconds."""

    _expected: int = 0
    _until_s: float = 0.0
    _rests: int = 0  # entries left that are proposed without a wait
    _rests_next: int = 1

    def expect(self, count: int, now_s: float, entry_s: float) -> None:
        """So many requests may be there soon: those that wait and those just answered.

        ``entry_s``   seconds from proposal to apply of the last entry.
        """
        if self._rests:
            self._rests -= 1
            self._expected = 0
        else:
            wait_s = min(max(LINGER_S, entry_s), LINGER_S_MAX)
            self._expected, self._until_s = min(count, BATCH_TARGET), now_s + wait_s

    def is_complete(self, waiting: int) -> bool:
        """Every request expected is there: no other is waited for."""
        return waiting >= self._expected

    def over(self, waiting: int, now_s: float) -> bool:
        """Propose now: every request expected is there, or the time is up."""
        if waiting >= self._expected:
            if self._expected:
                self._rests_next = 1
            self._expected = 0
            return True
        if now_s < self._until_s:
            return False
        if waiting * 2 < self._expected:
            self._rests, self._rests_next = self._rests_next, min(2 * self._rests_next, RESTS_MAX)
        self._expected = 0
        return True
