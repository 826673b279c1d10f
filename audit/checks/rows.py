"""The rows that a check answers with, as SQL: findings, and what the logs that are left cannot decide.

Passed      no finding and nothing unknown. Unknown is neither: it is printed, and it is no fault.
One fault   gives one finding, by the check that knows it best: see the precedence in
            ``fencepost.audit.checks``.
Null        a column that does not apply.
"""

import re
from typing import Final

import pyarrow as pa

from fencepost.audit.walks.columns import FINDING, FOUND

ERROR: Final = "error"
WARNING: Final = "warning"  # a state to look into, not a broken log: a transaction open past its timeout

FINDINGS: Final = pa.schema([("severity", pa.string()), *FOUND])
"""As walks find them. ``id`` and ``cause`` of findings that are no walk's are set where all are known."""

UNKNOWN: Final = pa.schema(
    [
        ("check", pa.string()),
        ("rule", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("path", pa.string()),
        ("first_offset", pa.int64()),
        ("end_offset", pa.int64()),  # exclusive; null: up to the end of the log
        ("detail", pa.string()),  # what could not be decided, and why
    ]
)

_SQL_TYPES: Final = {pa.string(): "STRING", pa.int16(): "SMALLINT", pa.int32(): "INT", pa.int64(): "BIGINT"}
_PLACEHOLDER: Final = re.compile(r"\{([^}]*)\}")


def sentence(template: str) -> str:
    """``template`` as a SQL expression of text: what stands in braces is an expression. NULL if one of them
    is."""
    parts = []
    for index, part in enumerate(_PLACEHOLDER.split(template)):
        if index % 2:
            parts.append(f"CAST({part} AS STRING)")
        elif part:
            parts.append(quoted(part))
    return " || ".join(parts)


def findings(
    check: str,
    rule: str | None,
    source: str,
    has: str,
    *,
    subject: str,
    detail: str,
    severity: str = ERROR,
    **named: str,
) -> str:
    """A SELECT of FINDINGS.

    rule     None: the source has a column of that name.
    source   what follows FROM.
    has      the columns of FINDINGS that it has, by blanks. ``named``: expressions of others.
    subject, detail   templates: see ``sentence``.
    """
    given = {"kind": quoted(FINDING), "check": quoted(check), "severity": quoted(severity), **_rule(rule)}
    texts = {"subject": sentence(subject), "detail": sentence(detail)}
    return _shaped(FINDINGS, source, has, {**given, **texts, **named})


def unknown(check: str, rule: str | None, source: str, has: str, *, detail: str, **named: str) -> str:
    """A SELECT of UNKNOWN: see ``findings``."""
    given = {"check": quoted(check), "detail": sentence(detail), **_rule(rule)}
    return _shaped(UNKNOWN, source, has, {**given, **named})


def _rule(rule: str | None) -> dict[str, str]:
    return {} if rule is None else {"rule": quoted(rule)}


def union(*texts: str) -> str:
    """All their rows."""
    return "\nUNION ALL\n".join(texts)


def _shaped(shape: pa.Schema, source: str, has: str, given: dict[str, str]) -> str:
    there = set(has.split())
    columns = []
    for field in shape:
        value = given.get(field.name, f'"{field.name}"' if field.name in there else "NULL")
        columns.append(f'CAST({value} AS {_SQL_TYPES[field.type]}) AS "{field.name}"')
    return "SELECT " + ",\n  ".join(columns) + f"\nFROM {source}"


def quoted(text: str) -> str:
    """A text as a SQL literal."""
    return "'" + text.replace("'", "''") + "'"
