"""``make audit-faults``: faults by chance, in recorded logs of ours and of Kafka's; each is found once.

One seed    is one audit by the engine in this process: of a fault alone as a rule, of many at once, or of
            what is harmless.
Replay      a failure says its seed and source; ``--first SEED --seeds 1`` is the same again.
Share       of the faults that are planted alone: found by one finding at its place, which names the producer.
"""

import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random

import click

from fencepost.audit.engine.embedded import EmbeddedEngine
from tests.audit.faults import campaign, engine, page
from tests.audit.faults.campaign import Case, Verdict

SHARE_MIN = 0.9


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
    """Exit status 0: at least nine of ten faults were named as they should, and no audit failed."""
    began = time.monotonic()
    home = Path(tempfile.mkdtemp(prefix="fencepost-faults-"))
    sources = {name: root for name, root in page.unpacked(home).items() if source in (None, name)}
    if not sources:
        raise click.UsageError(f"there are no logs called {source}")
    verdicts: Counter[Verdict] = Counter()
    for case in _cases(range(first, first + seeds), sorted(sources), kind, variant):
        copy = home / f"copy-{case.seed}"
        planted = campaign.plant(case, sources[case.source], copy)
        if planted is None:
            continue
        with tempfile.TemporaryDirectory(dir=home) as folder, closing(EmbeddedEngine(folder)) as embedded:
            found, unknown = engine.audit(embedded, copy, deep=planted.is_deep)
        verdict, complaints = campaign.judged(planted, found, unknown)
        if len(planted.seeded) == 1:
            verdicts[verdict] += 1
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
    alone = verdicts.total()
    share = verdicts[Verdict.NAMED] / alone if alone else 1.0
    for verdict in Verdict:
        click.echo(f"{verdict.value:<24} {verdicts[verdict]:>4}")
    click.echo(f"{share:.1%} of {alone} faults, {time.monotonic() - began:.0f} s")
    sys.exit(0 if share >= SHARE_MIN else 1)


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
