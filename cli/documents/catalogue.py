"""What each command prints with ``--format json``, as types and as JSON Schema (``fencepost schema``).

Fields    are required, but for those with a default, which may be left out; null is what is not known.
Streams   are one document a line.
Integers  are of 64 bits, as Kafka's are: above 2^53 a reader in JavaScript rounds them.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from fencepost.cli.documents.base import Failure
from fencepost.cli.documents.faults import FAULTS
from fencepost.cli.documents.live import LIVE
from fencepost.cli.documents.measured import MEASURED
from fencepost.cli.documents.storage import STORAGE
from fencepost.cli.documents.topics import TOPICS
from fencepost.cli.documents.transactions import TRANSACTIONS

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
FAILURE: Final = "error"
STREAMS: Final = frozenset({"consume", "logs", "audit watch"})

DOCUMENTS: Final[Mapping[str, Any]] = {**LIVE, **TOPICS, **FAULTS, **TRANSACTIONS, **STORAGE, **MEASURED}
"""By the words of the command."""


def schema_of(command: str) -> dict[str, Any]:
    """The JSON Schema of one command's documents. Raises KeyError."""
    return {"$schema": DIALECT, **msgspec.json.schema(DOCUMENTS[command])}


def schema() -> dict[str, Any]:
    """One JSON Schema: ``$defs`` has the types, ``commands`` says which is whose; FAILURE is of stderr."""
    kinds = [*dict.fromkeys(DOCUMENTS.values()), Failure]
    references, definitions = msgspec.json.schema_components(kinds, ref_template="#/$defs/{name}")
    of_kind = dict(zip(kinds, references, strict=True))
    return {
        "$schema": DIALECT,
        "title": "Documents of fencepost --format json",
        "anyOf": list(references),
        "commands": {name: of_kind[kind] for name, kind in sorted(DOCUMENTS.items())},
        FAILURE: of_kind[Failure],
        "$defs": definitions,
    }
