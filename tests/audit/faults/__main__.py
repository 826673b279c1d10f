"""``make audit-faults``: faults by chance, in recorded logs of ours and of Kafka's; each is found once.

One seed    is one audit by the engine in this process: of a fault alone as a rule, of many at once, or of
            what is harmless.
Replay      a failure says its seed and source; ``--first SEED --seeds 1`` is the same again.
Share       of the faults that are planted alone: found by one finding at its place, which names the producer.
Others      of several faults at once each is found, and of what is harmless nothing: without exception.
"""

import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random

import click

from fencepost.audit.engine.embedded import EmbeddedEngine
from tests.audit.faults import campaign, engine, page
from tests.audit.faults.campaign import Case, Tally, Verdict


@click.command()
@click.option("--seeds", default=30, show_default=True)
@click.option("--first", default=0, show_default=True, help="The first seed.")
@click.option("--source", help="Of these logs only: fencepost, groups, kafka, or a recording.")
@click.option("--kind", help="Only this kind of fault, alone.")
@click.option("--variant", help="Only this variant of --kind.")
@click.option("--keep", is_flag=True, help="Leave the copies with which something is wrong.")
def main(
    seeds: int, first: int, source: str | None, kind: str | None, variant: str | None, keep: bool
) -> None:
    """Exit status 0: nine of ten faults that were alone were named as they should, and all else was right."""
    began = time.monotonic()
    home = Path(tempfile.mkdtemp(prefix="fencepost-faults-"))
    sources = {name: root for name, root in page.unpacked(home).items() if source in (None, name)}
    if not sources:
        raise click.UsageError(f"there are no logs called {source}")
    tally = Tally()
    for case in _cases(range(first, first + seeds), sorted(sources), kind, variant):
        copy = home / f"copy-{case.seed}"
        planted = campaign.plant(case, sources[case.source], copy)
        if planted is None:
            tally.no_place += 1
            continue
        with tempfile.TemporaryDirectory(dir=home) as folder, closing(EmbeddedEngine(folder)) as embedded:
            found, unknown = engine.audit(embedded, copy, deep=planted.is_deep)
        verdict, complaints = campaign.judged(planted, found, unknown)
        tally.add(case.seed, planted, verdict, complaints)
        if complaints:
            click.echo(f"seed {case.seed}, {case.source}: {verdict.value} {copy if keep else ''}")
            for said in planted.said:
                click.echo(f"  planted: {said}")
            for each in complaints:
                click.echo(f"  {each}")
        if not (keep and complaints):
            campaign.remove(copy)
    if not keep:
        campaign.remove(home)
    for name in Verdict:
        click.echo(f"{name.value:<24} {tally.alone[name]:>4}")
    click.echo(f"{tally.share:.1%} of {tally.alone.total()} faults, {time.monotonic() - began:.0f} s")
    click.echo(
        f"{tally.others} of several faults or none, wrong: {', '.join(map(str, tally.wrong)) or 'none'}"
    )
    click.echo(f"{tally.no_place} had no place")
    sys.exit(0 if tally.is_right else 1)


def _cases(seeds: range, sources: list[str], kind: str | None, variant: str | None) -> Iterator[Case]:
    for seed in seeds:
        random = Random(seed)
        name = random.choice(sources)
        if kind is None:
            yield campaign.any_case(seed, name)
        else:
            variants = [variant] if variant else [*campaign.variants(kind)]
            yield Case(seed, name, faults=((kind, random.choice(variants)),))


if __name__ == "__main__":
    main()
