"""Mutants of the import names: a folder that can be imported by its own, a program that is imported again."""

from typing import Final

from tests.mutants.mutant import Mutant

TESTS: Final = "tests/package/test_one_name.py"

NAMES: Final = (
    Mutant(
        "any-name",
        "a folder is importable as fencepost.FOLDER only",
        "records/__init__.py",
        'if __name__ != "fencepost.records":',
        "if not __name__:",
        (f"{TESTS}::test_a_folder_has_no_name_of_its_own_where_python_finds_it",),
    ),
    Mutant(
        "main-again",
        "what runs as a program is not imported by what it imports",
        "cluster/node_process.py",
        "from fencepost.settings.log_file import",
        "import fencepost.cli.main\nfrom fencepost.settings.log_file import",
        (f"{TESTS}::test_no_file_is_loaded_twice_by_a_program[every-command]",),
    ),
    Mutant(
        "a-path-of-its-own",
        "no path is made from a module's file",
        "cluster/local_cluster.py",
        'CONFIG: Final = "node.properties"',
        'CONFIG: Final = "node.properties"\nHERE = Path(__file__).parents[1]',
        (f"{TESTS}::test_no_path_is_made_from_a_modules_file",),
    ),
)
