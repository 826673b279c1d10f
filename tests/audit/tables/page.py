"""The page of the tables' columns, made of ``audit/decode/columns.py``: ``python -m tests.audit.tables.page``
writes it.

The comments beside and above a column there are what the page says of it.
"""

import re
from pathlib import Path
from typing import Final

import pyarrow as pa

from fencepost.audit.decode import columns
from fencepost.audit.tables.layout import STORED

PAGE: Final = Path(__file__).parents[3] / "docs" / "audit-tables.md"
SOURCE: Final = Path(columns.__file__)
_HEAD: Final = re.compile(r"^## Columns$\n", re.MULTILINE)
_SCHEMA: Final = re.compile(r"^([A-Z_]+): Final = pa\.schema\($")
_MORE: Final = {
    "first_ingest": "rows of this log file in ingests below it do not count",
    "is_last_sound": "the last batch that was read has no fault",
    "is_opened": "the records of all that was read of it were opened (`--deep`, or the control plane's)",
    "mark": "of the first and the last bytes that were read: with another one it is another file",
}


def comments() -> dict[str, dict[str, str]]:
    """By table and column, what the source says of it."""
    found: dict[str, dict[str, str]] = {}
    table, above = "", list[str]()
    for line in SOURCE.read_text().splitlines():
        begun = _SCHEMA.match(line)
        if begun:
            table, above = begun[1].lower(), []
            found[table] = {}
        elif line.startswith("_WHERE"):
            table, above = "_where", []
            found[table] = {}
        elif not line.startswith(" "):
            above = []
        elif line.strip().startswith("#") and re.match(r"^ {4,8}#", line):
            above.append(line.strip()[1:].strip())
        else:
            matched = re.match(r'^ {4,12}\(?"([a-z_]+)",', line)
            if matched and table:
                beside = line.partition("  # ")[2].strip()
                if matched[1] not in found[table]:
                    found[table][matched[1]] = " ".join([*above, beside]).strip()
            above = []
    return found


def type_name(kind: pa.DataType) -> str:
    """As the page writes it."""
    if pa.types.is_list(kind):
        return f"list of {type_name(kind.value_type)}"
    if pa.types.is_struct(kind):
        return "(" + ", ".join(f"{each.name} {type_name(each.type)}" for each in kind) + ")"
    return {"bool": "boolean", "int16": "short", "int32": "int", "int64": "long"}.get(str(kind), str(kind))


def made() -> str:
    """The part of the page from its columns on."""
    said = comments()
    text = ["## Columns\n"]
    for name, schema in STORED.items():
        text += [f"### {name}\n", "| column | type | |", "|---|---|---|"]
        where = said["_where"] if name != "files" else {}
        for column in schema:
            about = (
                said.get(name, {}).get(column.name) or where.get(column.name) or _MORE.get(column.name, "")
            )
            text.append(f"| `{column.name}` | {type_name(column.type)} | {about.replace('``', '`')} |")
        text.append("")
    return "\n".join(text)


def whole() -> str:
    """The page: its head as it is, its columns as they are now."""
    text = PAGE.read_text()
    return text[: _HEAD.search(text).start()] + made()  # type: ignore[union-attr]


if __name__ == "__main__":
    PAGE.write_text(whole())
