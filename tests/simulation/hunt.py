"""``make storms``: many short storms of every fault (mixed.py), and some long ones; unseen seeds, resumable.

``make storms ARGS='--short 500 --long 5 --from 20000'``, or ``python -m tests.simulation.hunt`` likewise.
A seed that was survived is a line of ``build/storms/survived.jsonl`` for the product as it is: it is not
run again until a file of the product or of the simulation is another one. A failure is printed whole;
``--seed N`` (``--seconds S``) plays that one again, alone; ``--kind K`` plays seeds of that fault only, and
``--first-failure`` ends with the first that fails.
Exit status: 0 every invariant held and every storm was survived, 1 not, 2 wrong usage.
"""

import hashlib
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from itertools import count, islice
from pathlib import Path
from typing import Final

import click
import msgspec

from tests.modules import FOLDERS
from tests.simulation.mixed import KINDS, STORM_S, kind_of, name_of, weather_the_mixed
from tests.simulation.simulation import Failed

ROOT: Final = Path(__file__).parents[2]
STATE: Final = ROOT / "build" / "storms" / "survived.jsonl"
LONG_S: Final = 200.0
WORKERS: Final = 2


class Storm(msgspec.Struct, frozen=True):
    """One seed, played for so many virtual seconds on the files with this digest; ``failure``: what broke."""

    seed: int
    seconds: float
    digest: str
    name: str
    counts: dict[str, int]
    wall_s: float
    failure: str | None = None


@click.command()
@click.option("--short", default=100, show_default=True, help="Storms of 10 virtual seconds.")
@click.option("--long", default=1, show_default=True, help=f"Storms of {LONG_S:.0f} virtual seconds.")
@click.option("--from", "first", default=0, envvar="FROM", show_default=True, help="The first seed.")
@click.option("--minutes", type=float, help="Begin no other storm after so many.")
@click.option("--kind", "kinds", multiple=True, type=click.Choice(sorted(set(KINDS))), help="Only these.")
@click.option("--first-failure", is_flag=True, help="One storm after the other, until one fails.")
@click.option("--seed", type=int, help="Play this one alone, whatever was survived.")
@click.option("--seconds", type=float, default=STORM_S, show_default=True, help="With --seed.")
def main(
    short: int,
    long: int,
    first: int,
    minutes: float | None,
    kinds: tuple[str, ...],
    first_failure: bool,
    seed: int | None,
    seconds: float,
) -> None:
    """Storms of failing disks, lost writes, clocks and networks around the driver that ships."""
    digest = digest_of_the_files()
    if seed is not None:
        played = play(seed, seconds, digest)
        click.echo("" if played is None else said(played))
        sys.exit(0 if played is not None and played.failure is None else 1)
    seeds = seeds_of(kinds, first)
    if first_failure:
        sys.exit(1 if fails(list(islice(seeds, short)), digest) else 0)
    wanted = [(each, STORM_S) for each in islice(seeds, short)]
    wanted += [(each, LONG_S) for each in islice(seeds, long)]
    wanted.sort(key=lambda each: -each[1])  # the long ones first: two at a time end together
    done = survived(digest)
    began_s = time.monotonic()
    until_s = began_s + 60 * minutes if minutes is not None else float("inf")
    left = [each for each in wanted if each not in done]
    found = [done[each] for each in wanted if each in done]
    click.echo(f"{len(found)} of {len(wanted)} storms were survived before")
    for storm in play_all(left, digest, until_s):
        found.append(storm)
        if storm.failure is not None:
            click.echo(said(storm))
    sys.exit(0 if summed(found, len(wanted), time.monotonic() - began_s) else 1)


def seeds_of(kinds: tuple[str, ...], first: int) -> Iterator[int]:
    """All from there on; if there are ``kinds``, those that are of one of them."""
    return (seed for seed in count(first) if not kinds or kind_of(seed) in kinds)


def fails(seeds: list[int], digest: str) -> bool:
    """Play them in order until one fails; says at which, the how manieth it is."""
    for number, seed in enumerate(seeds, start=1):
        storm = play(seed, STORM_S, digest)
        if storm is not None and storm.failure is not None:
            click.echo(said(storm))
            click.echo(f"failed: seed {seed}, number {number}")
            return True
        click.echo(f"survived: seed {seed}, number {number}")
    click.echo(f"none of {len(seeds)} failed")
    return False


def play_all(left: list[tuple[int, float]], digest: str, until_s: float) -> Iterator[Storm]:
    """Two at a time. What is survived is written down at once."""
    STATE.parent.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(WORKERS) as workers, STATE.open("ab") as lines:
        running = {workers.submit(play, seed, seconds, digest, until_s) for seed, seconds in left}
        for each in as_completed(running):
            storm = each.result()
            if storm is None:
                continue
            if storm.failure is None:
                lines.write(msgspec.json.encode(storm) + b"\n")
                lines.flush()
            yield storm


def play(seed: int, seconds: float, digest: str, until_s: float = float("inf")) -> Storm | None:
    """One storm. None: it is too late to begin."""
    began_s = time.monotonic()
    if began_s > until_s:
        return None
    failure: str | None = None
    counts: dict[str, int] = {}
    try:
        counts = dict(weather_the_mixed(seed, seconds).ledger.counts)
    except Failed as failed:
        failure = str(failed)
    return Storm(seed, seconds, digest, name_of(seed), counts, time.monotonic() - began_s, failure)


def survived(digest: str) -> dict[tuple[int, float], Storm]:
    """By seed and length. A last line that an earlier run did not end is cut off."""
    if not STATE.exists():
        return {}
    whole = [line for line in STATE.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]
    STATE.write_bytes(b"".join(whole))
    storms = (msgspec.json.decode(line, type=Storm) for line in whole)
    return {(storm.seed, storm.seconds): storm for storm in storms if storm.digest == digest}


def digest_of_the_files() -> str:
    """Of the product and the simulation, as they are."""
    hasher = hashlib.sha256()
    for folder in (*FOLDERS, "tests/simulation"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            hasher.update(f"{path.relative_to(ROOT)}\n".encode() + path.read_bytes())
    return hasher.hexdigest()[:16]


def said(storm: Storm) -> str:
    """One line, and the failure below it."""
    outcome = "survived" if storm.failure is None else f"FAILED\n{storm.failure}\n"
    again = f"--seed {storm.seed} --seconds {storm.seconds:g}"
    return f"seed {storm.seed}, {storm.name}, {storm.wall_s:.0f} s ({again}): {outcome}"


def summed(storms: list[Storm], wanted: int, wall_s: float) -> bool:
    """Print the totals; whether all were played and survived."""
    totals: Counter[str] = Counter()
    for storm in storms:
        totals.update(storm.counts)
    kinds = Counter(storm.name for storm in storms)
    for name, number in sorted(kinds.items()):
        click.echo(f"{number:6d} storms: {name}")
    for name, number in sorted(totals.items()):
        click.echo(f"{number:9d} {name}")
    failed = sorted(storm.seed for storm in storms if storm.failure is not None)
    virtual_s = sum(storm.seconds for storm in storms)
    click.echo(
        f"{len(storms)} of {wanted} storms, {virtual_s:.0f} virtual seconds, {wall_s:.0f} s now, "
        f"{len(failed)} failed{': ' if failed else ''}{' '.join(map(str, failed))}"
    )
    return not failed and len(storms) == wanted


if __name__ == "__main__":
    main()
