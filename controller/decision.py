"""A decision: the records to write and the answer to give once they are committed."""

from dataclasses import dataclass, field
from typing import Generic, TypeVar

from records.schema import MetadataRecord

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Decision(Generic[R]):
    """What ``decide_*`` returns. Nothing has changed yet; ``response`` leaves after the apply."""

    records: tuple[MetadataRecord, ...]
    response: R
    throttle_ms: int = field(default=0, kw_only=True)  # the connection is muted for that long
