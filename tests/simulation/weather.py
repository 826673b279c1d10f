"""Which faults a storm has, and how often. Probabilities are per frame, rates per second and cluster."""

import random
from dataclasses import dataclass, replace
from random import Random
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Weather:
    """All zero: a calm day. Spans are (shortest, longest) in seconds."""

    # frames
    drop: float = 0.0  # lost, and the connection stays
    duplicate: float = 0.0
    reorder: float = (
        0.0  # overtakes others of its own connection (TCP never does; the firewall must not care)
    )
    slow: float = 0.0  # takes ``slow_s`` and holds up what is behind it
    latency_s: tuple[float, float] = (0.0002, 0.003)
    slow_s: tuple[float, float] = (0.02, 0.6)
    # connections
    cuts: float = 0.0  # one connection is closed, what is on it lost
    partitions: float = 0.0  # nodes stop hearing others, in both directions or in one; connections stay
    partition_s: tuple[float, float] = (0.2, 4.0)
    pair_cuts: float = 0.0  # two nodes do not hear each other, and all others hear both
    silences: float = 0.0  # a connection stays, and no frame comes through it until the storm ends
    # clients
    lost_answers: float = 0.0  # share of answers that never come: what was requested is done, or is not
    # processes
    crashes: float = 0.0  # kill -9 with loss of what was not flushed, then a restart
    crash_in_send: float = 0.0  # per frame: dies between two frames of one turn
    crash_in_flush: float = 0.0  # per flush: dies just before it or just after it
    downtime_s: tuple[float, float] = (0.05, 3.0)
    stops: float = 0.0  # SIGSTOP, later SIGCONT
    stop_s: tuple[float, float] = (0.1, 3.0)
    wipes: float = 0.0  # killed, directory lost, formatted again with a new directory id
    hand_overs: float = 0.0  # clean stop of a leader: it asks a successor to campaign
    # clocks and disks
    skew_ms: int = 0  # every wall clock is off by up to so much, and jumps again and again
    jumps: float = 0.0  # a wall clock, or all of them by as much, jump by days
    drift: float = 0.0  # each monotonic clock is fast or slow by up to so much, as a share of it
    flush_s: tuple[float, float] = (0.0002, 0.002)
    slow_flush: float = 0.0  # share of flushes that take up to ``slow_flush_s``
    slow_flush_s: float = 0.4
    fills: float = 0.0  # a disk's free space becomes another: below what its node needs every other time
    bad_flush: float = 0.0  # share of flushes that fail: the process halts, and is started again
    bad_write: float = 0.0  # likewise, of entries appended and of turns that write the archive
    bad_work: float = 0.0  # share of snapshots that cannot be written, for want of room
    power_loss: float = 0.0  # share of crashes that also take what of the archive was not synced
    changes: float = 0.0  # a row of a running process's image changes, in memory or in its store (flips.py)
    flips: float = 0.0  # killed, and something of its store is not what was written (flips.py)
    tears: float = 0.0  # killed, and some values of its store are those of an earlier flush (lost_writes.py)
    lost_flushes: float = 0.0  # killed, and the whole store is as an earlier flush left it (lost_writes.py)
    file_flips: float = 0.0  # killed, and a file of its archive or snapshots is not as written (files.py)
    lost_names: float = 0.0  # share of power losses that take names of files that were not synced
    bad_calls: float = 0.0  # share of calls of files and tables that fail: EIO or ENOSPC (disk_calls.py)

    def one_flush_s(self, rng: Random) -> float:
        """How long a flush takes."""
        slow = rng.random() < self.slow_flush
        return rng.uniform(*self.flush_s) + (self.slow_flush_s if slow else 0.0)

    def calmed(self) -> "Weather":
        """The same network and disk without faults."""
        return replace(
            self,
            drop=0.0,
            duplicate=0.0,
            reorder=0.0,
            slow=0.0,
            cuts=0.0,
            partitions=0.0,
            crashes=0.0,
            crash_in_send=0.0,
            crash_in_flush=0.0,
            stops=0.0,
            wipes=0.0,
            flips=0.0,
            tears=0.0,
            lost_flushes=0.0,
            file_flips=0.0,
            bad_calls=0.0,
            pair_cuts=0.0,
            silences=0.0,
            lost_answers=0.0,
            jumps=0.0,
            changes=0.0,
            hand_overs=0.0,
            slow_flush=0.0,
            fills=0.0,
            bad_flush=0.0,
            bad_write=0.0,
            bad_work=0.0,
        )


HOUR_MS: Final = 3_600_000

CALM: Final = Weather()
CRASHES: Final = Weather(
    crashes=0.4,
    crash_in_send=0.0005,
    crash_in_flush=0.002,
    downtime_s=(0.02, 1.5),
    skew_ms=HOUR_MS,
    power_loss=0.5,
    slow_flush=0.01,
    bad_flush=0.001,
    bad_write=0.0005,
    bad_work=0.1,
)
NETWORK: Final = Weather(
    drop=0.02,
    duplicate=0.05,
    reorder=0.1,
    slow=0.03,
    cuts=0.4,
    partitions=0.35,
    skew_ms=HOUR_MS,
    drift=0.05,
)
STALLS: Final = Weather(
    stops=0.5,
    slow=0.02,
    slow_flush=0.05,
    cuts=0.2,
    crashes=0.1,
    hand_overs=0.3,
    fills=0.2,
    skew_ms=HOUR_MS,
    drift=0.05,
)
WIPES: Final = Weather(
    wipes=0.25, crashes=0.2, cuts=0.2, partitions=0.1, drop=0.005, power_loss=0.3, skew_ms=HOUR_MS
)
ELECTIONS: Final = Weather(
    duplicate=0.4,
    reorder=0.3,
    slow=0.25,
    slow_s=(0.02, 1.5),
    drop=0.02,
    partitions=0.6,
    stops=0.4,
    skew_ms=HOUR_MS,
    drift=0.1,
)
DUPLICATES: Final = Weather(duplicate=0.5, reorder=0.4, slow=0.2, drop=0.02)
DEATHS: Final = Weather(
    crashes=1.5,
    crash_in_flush=0.02,
    crash_in_send=0.005,
    downtime_s=(0.01, 0.3),
    slow=0.05,
    slow_s=(0.01, 0.1),
)
EVERYTHING: Final = Weather(
    drop=0.01,
    duplicate=0.03,
    reorder=0.05,
    slow=0.02,
    cuts=0.25,
    partitions=0.25,
    crashes=0.25,
    crash_in_send=0.0003,
    crash_in_flush=0.0005,
    stops=0.2,
    wipes=0.08,
    hand_overs=0.1,
    skew_ms=HOUR_MS,
    drift=0.1,
    slow_flush=0.02,
    fills=0.2,
    power_loss=0.3,
    bad_flush=0.0005,
    bad_write=0.0002,
    bad_work=0.1,
)
FLIPS: Final = Weather(
    flips=0.6, crashes=0.2, hand_overs=0.1, cuts=0.2, downtime_s=(0.02, 0.8), power_loss=0.3, skew_ms=HOUR_MS
)
JUMPS: Final = Weather(jumps=0.6, crashes=0.1, hand_overs=1.0, cuts=0.2, downtime_s=(0.02, 0.4), drift=0.05)
CHANGES: Final = replace(FLIPS, flips=0.1, changes=1.0)
FULL: Final = Weather(fills=2.0, crashes=0.2, hand_overs=0.2, cuts=0.2, slow=0.01, skew_ms=HOUR_MS)
BAD_DISKS: Final = Weather(bad_flush=0.01, bad_write=0.003, bad_work=0.3, downtime_s=(0.02, 0.5), cuts=0.1)

KINDS: Final = {
    "crashes": CRASHES,
    "network": NETWORK,
    "stalls": STALLS,
    "wipes": WIPES,
    "everything": EVERYTHING,
    "elections": ELECTIONS,
    "duplicates": DUPLICATES,
    "deaths": DEATHS,
}


MILD: Final = Weather(crashes=0.25, cuts=0.2, hand_overs=0.1, downtime_s=(0.02, 0.8), power_loss=0.5)
"""Beside each fault alone: processes start again, and leaders change."""
ALONE: Final = {
    "flips": replace(MILD, flips=0.5),
    "tears": replace(MILD, tears=0.8),
    "lost flushes": replace(MILD, lost_flushes=0.8),
    "file flips": replace(MILD, file_flips=0.7),
    "lost names": replace(MILD, crashes=1.2, power_loss=1.0, lost_names=1.0),
    "bad calls": replace(MILD, bad_calls=0.0004),
    "changed rows": replace(MILD, changes=0.8),
    "drift and jumps": replace(MILD, drift=0.1, jumps=0.4, skew_ms=HOUR_MS),
    "pair cuts": replace(MILD, pair_cuts=0.6, partition_s=(0.5, 4.0), drift=0.05),
    "silences": replace(MILD, silences=0.3, lost_answers=0.2),
}
"""The faults that a mixed storm has (mixed.py), each by itself."""
MIXED: Final = replace(
    EVERYTHING,
    wipes=0.04,
    flips=0.06,
    tears=0.06,
    lost_flushes=0.06,
    file_flips=0.15,
    lost_names=0.3,
    bad_calls=0.0001,
    changes=0.1,
    jumps=0.05,
    pair_cuts=0.15,
    silences=0.05,
    lost_answers=0.05,
)


def weather_of(seed: int) -> tuple[str, Weather]:
    """A kind of weather for a seed, milder or rougher by up to a factor of two."""
    names = tuple(KINDS)
    name = names[seed % len(names)]
    return name, scaled(KINDS[name], random.Random(f"weather {seed}"))


def scaled(weather: Weather, rng: Random) -> Weather:
    """Milder or rougher by up to a factor of two."""
    factor = rng.choice((0.5, 1.0, 2.0))
    rates = ("drop", "cuts", "partitions", "crashes", "stops", "wipes", "hand_overs")
    return replace(weather, **{rate: getattr(weather, rate) * factor for rate in rates})
