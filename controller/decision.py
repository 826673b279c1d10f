"""A decision: the records to write and the answer to give once they are committed."""

from typing import Generic, TypeVar

import msgspec

from fencepost.records.logged import StateRecord

R_co = TypeVar("R_co", covariant=True)


class Decision(msgspec.Struct, Generic[R_co], frozen=True):
    """What ``decide_*`` returns. Nothing has changed yet; ``response`` leaves after the apply."""

    records: tuple[StateRecord, ...]
    response: R_co
    throttle_ms: int = 0  # the connection is muted for that long
    extra_cost: int = 0  # of replaying the records, beyond what ``records.logged.cost_of`` knows
    ends_entry: bool = False  # what waits is decided for the next entry, when this one is applied
