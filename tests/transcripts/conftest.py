"""``pytest tests/transcripts --rewrite``."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """The option is known when this folder is named on the command line."""
    parser.addoption("--rewrite", action="store_true", help="write down in the transcripts what happens now")
