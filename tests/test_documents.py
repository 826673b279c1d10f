"""The repository's pages name what is there: links, files, names, tests, mutants, commands, make targets.

A page that names something that was moved or renamed fails here. Only text in backquotes and in blocks of
code is checked, prose is not.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Final

import click
import pytest

from fencepost.cli.main import fencepost
from fencepost.settings.environment import PREFIX, SETTINGS, setting_of
from tests.mutants.catalogue import MUTANTS
from tests.together import table

ROOT: Final = Path(__file__).parents[1]
PAGES: Final = tuple(sorted((*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"))))
FOLDERS: Final = tuple(
    sorted(path.name for path in ROOT.iterdir() if path.is_dir() and path.name.isidentifier())
)
HAZARDS: Final = ROOT / "docs" / "raft-hazards.md"
OUTSIDE: Final = re.compile(r"\bDESIGN\b|\bSTYLE(?:\.md|\b \d|\))|\bspec/|\bspec row\b|\breview/")

_FENCE: Final = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_CODE: Final = re.compile(r"`([^`\n]+)`")
_LINK: Final = re.compile(r"\]\(([^)\s]+)\)")
_PATH: Final = re.compile(r"(?P<path>[\w.-]+(?:/[\w.-]+)*/?)(?:::?\s?(?P<names>[\w, ]+))?")
_MEMBER: Final = re.compile(r"([A-Z][a-z]\w*)\.((?!json)[a-z_]+)(?:\(\))?")
_MAKE: Final = re.compile(r"\bmake ([a-z][a-z-]*)")
_MODULE: Final = re.compile(r"-m (tests\.[a-z_.]+)")

INDEX: Final = ROOT / "docs" / "index.md"

every_page = table("page", PAGES, ids=lambda page: page.name)


def code_in(page: Path) -> list[str]:
    """What is in backquotes, and the lines of blocks of code."""
    text = page.read_text("utf-8")
    blocks = [line for block in _FENCE.findall(text) for line in block.splitlines()[1:-1]]
    return [*_CODE.findall(_FENCE.sub("", text)), *blocks]


@cache
def files() -> tuple[str, ...]:
    """Every file of the repository's folders, with ``/`` in front."""
    return tuple(
        f"/{path.relative_to(ROOT).as_posix()}"
        for folder in (*FOLDERS, "docs", ".ci")
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    )


def located(path: str) -> list[Path]:
    """The files and folders that a page may mean: a path from the root, or the end of one."""
    if (ROOT / path).exists():
        return [ROOT / path]
    if path.endswith("/"):
        return [ROOT] if any(f"/{path}" in file for file in files()) else []
    return [ROOT / file[1:] for file in files() if file.endswith(f"/{path}")]


def named_paths(page: Path) -> Iterator[tuple[str, str]]:
    """(path, names in it) for what in backquotes looks like a path of the repository."""
    for code in _CODE.findall(_FENCE.sub("", page.read_text("utf-8"))):
        found = _PATH.fullmatch(code)
        if found is None:
            continue
        path = found["path"]
        first = path.partition("/")[0]
        if ("/" in path and first in (*FOLDERS, "docs", ".ci")) or path.endswith((".py", ".md")):
            yield path, found["names"] or ""


def defines(file: Path, name: str) -> bool:
    """Whether a module defines a function, class or constant of that name, at any depth."""
    define = rf"^\s*(?:(?:async )?def {name}\(|class {name}\b|{name}(?:: [^=\n]+)? = |{name}: )"
    return re.search(define, file.read_text("utf-8"), re.MULTILINE) is not None


@every_page
def test_links_lead_somewhere(page: Path) -> None:
    dead = []
    for target in _LINK.findall(_FENCE.sub("", page.read_text("utf-8"))):
        path, _, anchor = target.partition("#")
        if "://" in target:
            continue
        file = page.parent / path if path else page
        if not file.exists() or (anchor and anchor not in anchors(file)):
            dead.append(target)
    assert not dead


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@every_page
def test_files_and_what_is_named_in_them_are_there(page: Path) -> None:
    missing = []
    for path, names in named_paths(page):
        found = located(path)
        if not found:
            missing.append(path)
        missing.extend(
            f"{path}: {name}"
            for name in filter(None, (each.strip() for each in names.split(",")))
            if not any(file.is_file() and defines(file, name) for file in found)
        )
    assert not missing


@every_page
def test_members_of_classes_are_there(page: Path) -> None:
    sources = [ROOT / file[1:] for file in files() if file.endswith(".py") and not file.startswith("/tests/")]
    missing = []
    for code in code_in(page):
        found = _MEMBER.fullmatch(code)
        if found and not any(defines(s, found[1]) and defines(s, found[2]) for s in sources):
            missing.append(code)
    assert not missing


@every_page
def test_commands_and_their_options_are_there(page: Path) -> None:
    unknown: list[str] = []
    for code in code_in(page):
        for words in re.findall(r"(?:^|[$|(] ?|/)fencepost ([^`#]*)", code):
            unknown.extend(f"fencepost {wrong}" for wrong in unknown_words(words))
    assert not unknown


def unknown_words(words: str) -> list[str]:
    """The subcommands and options of one command line that ``--help`` does not name."""
    words = words.partition(" -- ")[0]  # behind it is another program's
    command: click.Command = fencepost
    so_far: list[str] = []
    wrong = []
    line = ["", *re.sub(r"\.\.\.|[\[\]()]", "", words).split(), ""]
    for before, word, after in zip(line, line[1:], line[2:], strict=False):
        if word in {"|", "&&", ">", "<"} and not isinstance(command, click.Group):
            break
        if word.startswith("--"):
            name = word.partition("=")[0].rstrip(",;:.")
            if name not in {*(each for p in command.params for each in p.opts), "--help", "--version"}:
                wrong.append(" ".join((*so_far, name)))
        elif isinstance(command, click.Group) and re.fullmatch(r"[a-z][a-z-]*", word):
            found = command.get_command(click.Context(command), word)
            if found is None:
                wrong.append(" ".join((*so_far, word)))
            elif "|" not in {before, after}:  # of `topics create | list` each is one of the group's
                command = found
                so_far.append(word)
    return wrong


@table(
    ("words", "expected"),
    [
        pytest.param("topics create --topic x", [], id="a-command"),
        pytest.param("topics create | list | describe", [], id="alternatives"),
        pytest.param("topics create | lost", ["topics lost"], id="an-alternative-that-is-not-there"),
        pytest.param("topic create", ["topic", "create"], id="a-command-that-is-not-there"),
        pytest.param("up --voters", ["up --voters"], id="an-option-that-is-not-there"),
        pytest.param("produce --topic x | grep --color", [], id="another-program-after-it"),
    ],
)
def test_what_help_does_not_name_is_found(words: str, expected: list[str]) -> None:
    assert unknown_words(words) == expected


@every_page
def test_targets_and_modules_are_there(page: Path) -> None:
    targets = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    code = "\n".join(code_in(page))
    assert not set(_MAKE.findall(code)) - targets
    assert not [name for name in _MODULE.findall(code) if find_spec(name) is None]


def defined_in(module: str) -> set[str]:
    """Names at the top of a module of ours, read and not imported: what it imports may not be installed."""
    path = ROOT.joinpath(*module.split(".")[1:])
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    found: set[str] = set()
    tree = ast.parse(file.read_text("utf-8"))
    for node in chain(tree.body, *(each.body for each in tree.body if isinstance(each, ast.If))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found |= {each.asname or each.name for each in node.names}
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            found |= {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
    return found


@every_page
def test_what_python_in_a_page_imports_is_there(page: Path) -> None:
    for block in re.findall(r"^```python\n(.*?)^```", page.read_text("utf-8"), re.MULTILINE | re.DOTALL):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("fencepost."):
                assert {each.name for each in node.names} <= defined_in(str(node.module))


@every_page
def test_no_page_speaks_of_one_that_is_not_here(page: Path) -> None:
    assert not OUTSIDE.findall(page.read_text("utf-8"))


OTHERS_NAMES: Final = {
    *("PYSPARK_DRIVER_PYTHON", "rdkafka_txnmgr", "read_json"),
    *("stored_files", "stored_record_batches"),  # that an example of SQL names itself
    *("test_each_order_arrives_once", "test_each_order_is_in_the_topic_once"),  # as does one of a test
    *("bash_source", "child_process", "zsh_source", "fish_source"),  # of click
    "as_text",  # of Flask
    "KAFKA_HEAP_OPTS",  # of a JVM
    "job_name",  # of Prometheus
    "scrape_configs",
    "static_configs",
    "log_end_offset",  # a head of Kafka's, in JSON
}


@cache
def names() -> frozenset[str]:
    """Every name in the code, fields of formats in strings and docstrings included."""
    return frozenset(
        name
        for file in files()
        if file.endswith((".py", ".tsv"))
        for name in re.findall(r"\w+", (ROOT / file[1:]).read_text("utf-8"))
    )


@every_page
def test_names_of_functions_constants_and_fields_are_there(page: Path) -> None:
    snake = re.compile(r"(?<![\w./-])(_?[a-z]+(?:_[a-z0-9]+)+|[A-Z]+(?:_[A-Z]+)+)\b")
    named = {name for code in code_in(page) for name in snake.findall(code)}
    variables = {each for each in named if each.startswith(PREFIX) and setting_of(each) in SETTINGS}
    assert not named - names() - OTHERS_NAMES - variables


# -- what modules cite ---------------------------------------------------------------------------------------

MODULES: Final = tuple(
    file[1:] for file in files() if file.endswith(".py") and file != "/tests/test_documents.py"
)
_CITATION: Final = re.compile(r"\bdocs/([\w-]+)\.md((?:,? (?:and |to )?[A-Z]?\d+\b|-[A-Z]?\d+\b)*)")
_SECTIONS: Final = re.compile(r"([A-Z]?)(\d+)(?:(?: to |-)[A-Z]?(\d+))?")


def cited() -> Iterator[tuple[str, str, str]]:
    """(module, page, section or "") for each page that a module names."""
    for module in MODULES:
        for page, sections in _CITATION.findall((ROOT / module).read_text("utf-8")):
            yield module, page, ""
            for letter, first, last in _SECTIONS.findall(sections):
                for number in range(int(first), int(last or first) + 1):
                    yield module, page, f"{letter}{number}"


def sections_of(page: str) -> set[str]:
    """The letters and numbers with which the headings of a page begin."""
    text = (ROOT / "docs" / f"{page}.md").read_text("utf-8")
    return set(re.findall(r"^##+ ([A-Z]?\d+)[.:]", text, re.MULTILINE))


def test_pages_and_sections_that_modules_cite_are_there() -> None:
    pages = {page.stem for page in PAGES}
    assert not [(module, page) for module, page, _ in cited() if page not in pages]
    assert not [each for each in cited() if each[2] and each[2] not in sections_of(each[1])]


def test_each_note_on_kafka_is_cited() -> None:
    assert not sections_of("kafka-notes") - {section for _, page, section in cited() if page == "kafka-notes"}


def test_no_module_speaks_of_a_page_that_is_not_here() -> None:
    assert not [module for module in MODULES if OUTSIDE.search((ROOT / module).read_text("utf-8"))]


# -- the hazards ---------------------------------------------------------------------------------------------


def hazard(letter: str) -> str:
    """What the page says of one hazard."""
    text = HAZARDS.read_text("utf-8")
    found = re.search(rf"^### {letter}: .*?(?=^##)", text, re.MULTILINE | re.DOTALL)
    assert found, f"{HAZARDS.name} does not have {letter}"
    return found[0]


@table("letter", [f"H{number}" for number in range(1, 17)])
def test_each_hazard_has_a_test_and_a_mutant_that_makes_it_fail(letter: str) -> None:
    said = hazard(letter)
    assert re.findall(r"^- (pysyncobj|Lost|Prevented|Tests|Mutants):", said, re.MULTILINE) == [
        "pysyncobj", "Lost", "Prevented", "Tests", "Mutants",
    ]  # fmt: skip
    tests = set(re.findall(r"`(tests/\S+::\w+)`", said))
    named = re.findall(r"`([a-z-]+)`", said.partition("- Mutants:")[2])
    mutants = {mutant.name: {test.partition("[")[0] for test in mutant.tests} for mutant in MUTANTS}
    assert tests
    assert named
    assert not [name for name in named if not mutants.get(name, set()) & tests]


def test_the_index_leads_to_every_page() -> None:
    listed = {
        (INDEX.parent / f"{line}.md").resolve()
        for block in _FENCE.findall(INDEX.read_text("utf-8"))
        for line in block.splitlines()[1:-1]
        if line and not line.startswith(":")
    }
    assert listed == {*PAGES} - {INDEX}
