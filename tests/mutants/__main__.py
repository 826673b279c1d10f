"""``make mutants``: break the code on purpose, one line at a time; a test must notice each.

Prints one line per mutant and test: ``mutant, test, red`` if the test fails with the mutant, ``green`` if it
does not notice. Mutants whose tests need Spark are NOT RUN where pyspark is not. Exit status: 0 every named
test fails under its mutant and passes without, 1 one does not, 2 the catalogue is stale (its code or test is
gone) or the usage wrong, 3 the tests of a mutant were ended (tests/mutants/limited.py), which says nothing.
"""

import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, nullcontext
from importlib.util import find_spec
from pathlib import Path
from queue import SimpleQueue
from typing import Final

import click

from tests.mutants.catalogue import MUTANTS
from tests.mutants.limited import Ended
from tests.mutants.mutant import Mutant
from tests.mutants.runner import Stale, apart, broken, copied_tree, run_tests

WORKERS: Final = 2


@click.command()
@click.option("--list", "list_only", is_flag=True, help="Say what there is, run nothing.")
@click.option("--only", multiple=True, metavar="NAME", help="Only this mutant; may be repeated.")
def main(list_only: bool, only: tuple[str, ...]) -> None:
    """Break product code in a copy of the tree and run the tests that must notice."""
    chosen = [mutant for mutant in MUTANTS if not only or mutant.name in only]
    unknown = sorted(set(only) - {mutant.name for mutant in chosen})
    if unknown:
        raise click.UsageError(f"no mutant is called {', '.join(unknown)}; --list names them")
    if list_only:
        for mutant in chosen:
            click.echo(f"{mutant.name}: not true any more in {mutant.file}: {mutant.breaks}")
        return
    if find_spec("pyspark") is None:
        left_out = [mutant.name for mutant in chosen if mutant.needs_spark]
        chosen = [mutant for mutant in chosen if not mutant.needs_spark]
        if left_out:
            click.echo(f"NOT RUN, for pyspark is not here (`make mutants` gets it): {', '.join(left_out)}")
    try:
        sys.exit(0 if all_red(chosen) else 1)
    except Stale as stale:
        click.echo(str(stale), err=True)
        sys.exit(2)
    except Ended as ended:
        click.echo(str(ended), err=True)
        sys.exit(3)


def all_red(chosen: list[Mutant]) -> bool:
    """Run them, two at a time; whether every named test failed under its mutant, and passed without.

    Raises at the end Stale, for all that are; else Ended, for all whose tests were, if the rest is well.
    """
    tests = list(dict.fromkeys(test for mutant in chosen for test in mutant.tests))
    with ExitStack() as copies, ThreadPoolExecutor(WORKERS) as workers:
        free: SimpleQueue[Path] = SimpleQueue()
        for _ in range(WORKERS):
            free.put(copies.enter_context(copied_tree()))

        def outcomes(mutant: Mutant | None, tests: Iterable[str]) -> dict[str, bool]:
            copy = free.get()
            try:
                with broken(copy, mutant) if mutant else nullcontext():
                    return run_tests(copy, tests, mutant)
            finally:
                free.put(copy)

        sound = [workers.submit(outcomes, None, group) for group in apart(tests)]
        running = [(mutant, workers.submit(outcomes, mutant, mutant.tests)) for mutant in chosen]
        green = 0
        stale: list[str] = []
        ended: list[str] = []
        for mutant, run in running:
            try:
                outcome = run.result()
            except Stale as found:
                stale.append(str(found))
                click.echo(f"{mutant.name}: stale")
                continue
            except Ended as found:
                ended.append(f"{mutant.name}: {found}")
                click.echo(ended[-1])
                continue
            for test, passed in outcome.items():
                green += passed
                click.echo(f"{mutant.name}, {test}, {'green' if passed else 'red'}")
        failing = [test for run in sound for test, passed in run.result().items() if not passed]
        for test in failing:
            click.echo(f"(sound code), {test}, red")
    click.echo(
        f"{len(chosen)} mutants, {len(tests)} tests, {green} green, {len(failing)} fail without a mutant"
    )
    if stale:
        raise Stale("\n".join(stale))
    if ended and not green and not failing:
        raise Ended("\n".join(ended))
    return not green and not failing


if __name__ == "__main__":
    main()
