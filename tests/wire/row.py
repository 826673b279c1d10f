"""The shape of a row: one API's request and answer, and what of them its versions can say."""

import dataclasses
import uuid
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from fencepost.wire.dispatch import Api

Visible = Callable[[int, Any], Any]

ID_A = uuid.UUID("6ba7b810-9dad-11d1-80b4-00c04fd430c8")
NO_ID = uuid.UUID(int=0)


def everything(version: int, said: Any) -> Any:
    """A version that can say it all."""
    return said


class Row(NamedTuple):
    """``flat_*`` makes ours of kio's entity, where the two are not alike field by field."""

    api: Api[Any, Any]
    request: Any
    response: Any
    visible_request: Visible = everything
    visible_response: Visible = everything
    flat_request: Visible | None = None
    flat_response: Visible | None = None

    @property
    def versions(self) -> range:
        """Those that are served."""
        return range(max(self.api.versions[0], self.api.served_from), self.api.versions[-1] + 1)


def codes_in(entity: Any) -> Iterator[int]:
    """Every error code in a message of kio's, wherever it stands."""
    for field in dataclasses.fields(entity):
        value = getattr(entity, field.name)
        if field.name in ("error_code", "partition_error_code"):
            yield value.value
        elif isinstance(value, tuple):
            for each in value:
                if dataclasses.is_dataclass(each):
                    yield from codes_in(each)


def ms(value: timedelta | datetime | None) -> int:
    """kio's durations and times, as we have them."""
    if value is None:
        return -1
    if isinstance(value, datetime):
        return round(value.timestamp() * 1000)
    return value // timedelta(milliseconds=1)
