"""``python -m tests.audit.faults --seeds N``: faults by chance, in our logs and Kafka's; each is found once.

One seed    is an audit of each source: of what is harmless, of one fault alone, or of many at once.
Replay      a failure says its seed and source; ``--first SEED --seeds 1 --source SOURCE`` is the same again.
"""

import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import click

from tests.audit.faults import campaign, engine
from tests.audit.faults.campaign import Case
from tests.audit.faults.cluster import GROUPS, unpacked
from tests.audit.kafka import fixture


@click.command()
@click.option("--seeds", default=30, show_default=True)
@click.option("--first", default=0, show_default=True, help="The first seed.")
@click.option(
    "--source", type=click.Choice(["fencepost", "kafka", "worn kafka", "groups"]), help="Of these logs only."
)
@click.option("--kind", help="Only this kind of fault, alone.")
@click.option("--variant", help="Only this variant of --kind.")
@click.option("--many", is_flag=True, help="Many faults at once, each time.")
@click.option("--keep", is_flag=True, help="Leave the copies with which something is wrong.")
def main(
    seeds: int, first: int, source: str | None, kind: str | None, variant: str | None, many: bool, keep: bool
) -> None:
    """Exit status 0: nothing was missed, and nothing found that was not planted."""
    from fencepost.audit.source.session import session

    began = time.monotonic()
    settings = {**engine.QUICK, "spark.default.parallelism": "1"}
    os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    spark = session("fencepost faults", master="local[2]", memory="1g", settings=settings)
    spark.sparkContext.setLogLevel("ERROR")
    home = Path(tempfile.mkdtemp(prefix="fencepost-faults-"))
    sources = {"fencepost": unpacked(home / "fencepost"), "kafka": fixture.unpack(home / "kafka")}
    sources["groups"] = unpacked(home / "groups", GROUPS)
    sources["worn kafka"] = fixture.unpack(home / "worn", fixture.WORN)
    tried: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    chosen = [source] if source else ["fencepost", "kafka"]
    for case in _cases(range(first, first + seeds), chosen, kind, variant, many):
        copy = home / f"{case.source}-{case.seed}"
        planted = campaign.plant(case, sources[case.source], copy)
        if planted is None:
            continue
        found, _ = engine.audit(spark, copy)
        complaints = campaign.complaints(planted, found)
        for name in planted.names:
            tried[name] += 1
            wrong[name] += bool(complaints)
        click.echo(f"{case.source} {case.seed}: {len(planted.names)} planted, {len(found)} found", err=True)
        if complaints:
            click.echo(f"seed {case.seed}, {case.source}: {copy if keep else ''}")
            for said in planted.said:
                click.echo(f"  planted: {said}")
            for each in complaints:
                click.echo(f"  {each}")
        if not (keep and complaints):
            campaign.remove(copy)
    for name, count in sorted(tried.items()):
        click.echo(f"{name:<44} {count:>4} times, in an audit with something wrong {wrong[name]:>4}")
    click.echo(f"{time.monotonic() - began:.0f} s")
    if not keep:
        campaign.remove(home)
    sys.exit(1 if wrong else 0)


def _cases(
    seeds: range, sources: list[str], kind: str | None, variant: str | None, many: bool
) -> Iterator[Case]:
    for seed in seeds:
        for source in sources:
            if kind is None:
                yield campaign.by_chance(seed * 4 + 1 if many else seed, source)
            else:
                variants = [variant] if variant else [*campaign.variants(kind)]
                yield Case(seed, source, faults=((kind, Random(seed).choice(variants)),))


if __name__ == "__main__":
    main()
