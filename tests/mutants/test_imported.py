"""A run of mutants is believed only if its tests have imported the broken file."""

from pathlib import Path
from types import ModuleType

import pytest

from tests.mutants.imported import OTHER_CODE, complaints_of
from tests.mutants.mutant import Mutant
from tests.mutants.runner import ROOT, Stale, copied_tree, run_tests
from tests.together import table

TEST = "tests/controller/test_producer_ids.py::test_before_the_first_block_there_is_none"


def module(name: str, file: Path | None) -> ModuleType:
    made = ModuleType(name)
    made.__file__ = None if file is None else str(file)
    return made


@table(
    ("files", "broken_file", "expected"),
    [
        pytest.param({"fencepost.a": "a/b.py"}, "a/b.py", "", id="the-broken-file"),
        pytest.param({"fencepost.a": "a/b.py"}, "", "", id="none-is-broken"),
        pytest.param({"fencepost.a": "fencepost/a/b.py"}, "a/b.py", "", id="through-the-link"),
        pytest.param({"fencepost.a": "a/c.py"}, "a/b.py", "no test has imported it", id="another-file"),
        pytest.param({"json": "a/b.py"}, "a/b.py", "no test has imported it", id="under-a-name-not-ours"),
        pytest.param({"fencepost.a": "../a/b.py"}, "", "expected below", id="another-tree"),
        pytest.param({"tests.a": "../tests/b.py"}, "", "expected below", id="another-tree's-tests"),
        pytest.param({"click": "../site/click.py"}, "", "", id="a-library-lies-where-it-lies"),
        pytest.param({"fencepost.a": None}, "", "", id="a-module-without-a-file"),
    ],
)
def test_complaints(tmp_path: Path, files: dict[str, str | None], broken_file: str, expected: str) -> None:
    root = tmp_path / "root"
    (root / "a").mkdir(parents=True)
    (root / "fencepost").mkdir()
    (root / "fencepost" / "a").symlink_to("../a")
    modules = {name: module(name, None if file is None else root / file) for name, file in files.items()}
    said = "\n".join(complaints_of(modules, root, broken_file))
    assert expected in said
    assert bool(expected) == bool(said)


@pytest.mark.slow
def test_a_copy_whose_links_lead_to_the_checkout_is_refused() -> None:
    with copied_tree() as copy:
        link = copy / "fencepost" / "records"
        assert link.is_symlink(), "links are copied as links"
        link.unlink()
        link.symlink_to(ROOT / "records")
        with pytest.raises(Stale, match=rf"(?s)ended with {OTHER_CODE}.*expected below {copy}"):
            run_tests(copy, [TEST])


@pytest.mark.slow
def test_a_mutant_in_a_file_that_its_tests_do_not_import_is_refused() -> None:
    with copied_tree() as copy:
        assert run_tests(copy, [TEST]) == {TEST: True}
        elsewhere = Mutant("x", "", "bench/demo.py", "LOAD_S", "LOAD", (TEST,))
        with pytest.raises(Stale, match=r"bench/demo\.py is broken, and no test has imported it here"):
            run_tests(copy, [TEST], elsewhere)
