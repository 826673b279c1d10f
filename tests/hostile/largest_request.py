"""A request of the largest kind, and what makes one: long names, many rows."""

import dataclasses
from typing import Any, Final, NamedTuple

import msgspec

NAME: Final = "n" * 243
ID: Final = "i" * 394
MANY: Final = (1, 500, 5_000, 9_990)
TEXT_SIZES: Final = (249, 400, 401, 31_000, 32_767)
LOOKED_UP: Final = (1, 500, 2_490)  # topics, in requests that look up or name each of them


class Largest(NamedTuple):
    """A request, as the newest version says it or as ``version`` does."""

    title: str
    request: Any
    version: int | None = None


def topic(number: int) -> str:
    """A name of 249 characters."""
    return f"{NAME}{number:06}"


def transactional_id(number: int) -> str:
    """An id of 400 bytes."""
    return f"{ID}{number:06}"


def changed(request: Any, **values: Any) -> Any:
    """The request with other values."""
    if dataclasses.is_dataclass(request) and not isinstance(request, type):
        return dataclasses.replace(request, **values)
    if isinstance(request, msgspec.Struct):
        return msgspec.structs.replace(request, **values)
    return request._replace(**values)
