"""Plain words: pages, and docstrings, comments and messages of modules, avoid a list of words.

Names are free: text in backquotes is skipped, and so are strings of one word that are no log events.
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.together import table

ROOT: Final = Path(__file__).parents[1]
PAGES: Final = tuple(sorted((*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"))))
SHIPPED: Final = tuple(
    sorted(
        path.name
        for path in ROOT.iterdir()
        if path.is_dir() and path.name.isidentifier() and path.name not in {"tests", "docs", "fencepost"}
    )
)
PLAIN_TESTS: Final = tuple(
    f"tests/{name}"
    for name in (
        "audit", "broker", "controller", "coordinator", "harness", "hostile", "node", "package", "quorum",
        "records", "settings", "snapshots", "wire",
    )
)  # fmt: skip
"""Folders of tests whose docstrings, comments and messages are plain as well; the others are still to be."""

_WORDS: Final = (
    r"\b(told|(?:no|any|some|every)body|whoever|patien(?:t|ce)|orphans?|crowd(?:s|ed)?|fates?|beats?|guests?"
    r"|gather(?:s|ed|ing)?|claim(?:s|ed|ing)?%s)\b"
)
AVOIDED: Final = re.compile(
    _WORDS % r"(?= (?:an? |the )?(?:epoch|leadership|ids?|producer)\b)", re.IGNORECASE
)
"""Words that have a plainer or more exact one; see CONTRIBUTING.md."""

_SUSPECT: Final = re.compile(_WORDS % "", re.IGNORECASE)
"""A module without any of these has no avoided word, and need not be taken apart."""

LOGGED: Final = frozenset({"debug", "info", "warning", "error", "critical", "exception"})

_FENCE: Final = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_NAMED: Final = re.compile(r"(`+)[^`]*?\1|[\w/]+\.py\b")


def avoided(text: str) -> list[str]:
    """The avoided words of a text, those in backquotes and in names of files left out."""
    return AVOIDED.findall(_NAMED.sub("", text))


def comments(source: str) -> Iterator[tuple[int, str]]:
    """(line, text) of each comment."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def texts(source: str) -> Iterator[tuple[int, str]]:
    """(line, text) of each docstring, of each string with a space in it, and of each log event, as words."""
    tree = ast.parse(source)
    standing = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if " " in node.value or id(node) in standing:
                yield node.lineno, node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in LOGGED:
            for argument in node.args[:1]:
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                    yield argument.lineno, argument.value.replace("_", " ")


def found_in(source: str) -> list[tuple[int, str]]:
    """(line, word) for each avoided word of a module."""
    if not _SUSPECT.search(source.replace("_", " ")):
        return []
    return [
        (line, word) for line, text in sorted((*comments(source), *texts(source))) for word in avoided(text)
    ]


@table("page", PAGES, ids=lambda page: page.name)
def test_the_words_of_a_page_are_plain(page: Path) -> None:
    assert not avoided(_FENCE.sub("", page.read_text("utf-8")))


@pytest.mark.parametrize("folder", [*SHIPPED, *PLAIN_TESTS])
def test_the_words_of_a_module_are_plain(folder: str) -> None:
    found = [
        (str(module.relative_to(ROOT)), *each)
        for module in sorted((ROOT / folder).rglob("*.py"))
        for each in found_in(module.read_text("utf-8"))
    ]
    assert not found


@table(
    ("source", "expected"),
    [
        pytest.param('"""One line.\n\nThe client is told."""\n', ["told"], id="a-module's-second-paragraph"),
        pytest.param('def _f():\n    """Nobody asks."""\n', ["Nobody"], id="a-private-docstring"),
        pytest.param('MAX = 1\n"""Of a crowd."""\n', ["crowd"], id="the-docstring-of-a-constant"),
        pytest.param("x = 1  # whoever leads\n", ["whoever"], id="a-comment"),
        pytest.param('raise E(f"{x} has a guest")\n', ["guest"], id="a-message-with-values"),
        pytest.param('log.info("request_told", why=1)\n', ["told"], id="a-log-event"),
        pytest.param('log.info("request_sent")\nlog.info(event)\n', [], id="log-events-that-are-plain"),
        pytest.param('told = f(told=1)["told"]\n', [], id="names-and-keys"),
        pytest.param('"""Calls ``told`` and `beat` once."""\n', [], id="names-in-backquotes"),
        pytest.param("x = 1  # see folder/gather.py\n", [], id="names-of-files"),
        pytest.param('"""Claims the epoch, gathers requests."""\n', ["Claims", "gathers"], id="terms"),
        pytest.param('f("a frame claims 5 bytes")\n', [], id="what-a-length-field-claims"),
    ],
)
def test_avoided_words_are_found(source: str, expected: list[str]) -> None:
    assert [word for _, word in found_in(source)] == expected
