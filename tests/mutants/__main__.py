"""``make mutants``: break the code on purpose, one line at a time; a test must notice each.

Prints one line per mutant and test: ``mutant, test, red`` if the test fails with the mutant, ``green`` if it
does not notice. Exit status: 0 every named test fails under its mutant and passes without, 1 one does not,
2 the catalogue is stale (its code or test is gone) or the usage wrong.
"""

import sys

import click

from tests.mutants.catalogue import MUTANTS, Mutant
from tests.mutants.runner import Stale, broken, copied_tree, run_tests


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
    try:
        sys.exit(0 if all_red(chosen) else 1)
    except Stale as stale:
        click.echo(str(stale), err=True)
        sys.exit(2)


def all_red(chosen: list[Mutant]) -> bool:
    """Run them; whether every named test failed under its mutant, and passed without."""
    with copied_tree() as copy:
        sound = run_tests(copy, [test for mutant in chosen for test in mutant.tests])
        failing = [test for test, passed in sound.items() if not passed]
        for test in failing:
            click.echo(f"(sound code), {test}, red")
        green = 0
        for mutant in chosen:
            with broken(copy, mutant):
                for test, passed in run_tests(copy, mutant.tests).items():
                    green += passed
                    click.echo(f"{mutant.name}, {test}, {'green' if passed else 'red'}")
    tests = len({test for mutant in chosen for test in mutant.tests})
    click.echo(f"{len(chosen)} mutants, {tests} tests, {green} green, {len(failing)} fail without any mutant")
    return not green and not failing


if __name__ == "__main__":
    main()
