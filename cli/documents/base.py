"""What all documents have in common, and the one of a failure."""

from typing import Literal

import msgspec


class Part(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """An object inside a document."""


class Document(Part):
    """A document, with the version of all of them (cli/output.py)."""

    schema_version: Literal[1]


class Error(Part):
    """Why a command failed. ``exit_status`` as docs/commands.md lists them."""

    message: str
    exit_status: int


class Failure(Document):
    """The last line of stderr, when a command fails."""

    error: Error


class SetAside(Part):
    """A row that a coordinator set aside: a wedged transaction, or one whose timer fails."""

    kind: str
    concern: str
    key: str
    topic: str | None
    partition: int | None
    error_code: int | None
    reason: str
    since_ms: int
