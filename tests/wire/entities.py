"""Any message of kio's, from a ``Random``: the values at the ends of each type beside those between them.

``from_type`` of Hypothesis makes them at a hundred times the cost: it records each number, to shrink it.
"""

import dataclasses
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, Final, get_args, get_origin
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.static.primitive import f64

ELEMENTS_MAX: Final = 3
TEXTS: Final = ("", "a", "orders", "é\u202e\U0001f4a3\0", "x" * 127, "x" * 128, "x" * 300)
ERROR_CODES: Final = tuple(ErrorCode)
TIMESTAMP_S_MAX: Final = int(datetime(9999, 12, 31, tzinfo=UTC).timestamp())
MILLISECONDS_MAX: Final = 2**50  # of a long duration: kio reads it through a float


def _integer(first: int, last: int) -> Callable[[Random], int]:
    edges = (first, first + 1, -1, 0, 1, last - 1, last)

    def of(rng: Random) -> int:
        return max(first, rng.choice(edges)) if rng.random() < 0.5 else rng.randint(first, last)

    return of


def _duration(first: int, last: int) -> Callable[[Random], timedelta]:
    milliseconds = _integer(first, last)
    return lambda rng: timedelta(milliseconds=milliseconds(rng))


_seconds = _integer(0, TIMESTAMP_S_MAX)
VALUES: Final[Mapping[str, Callable[[Random], Any]]] = {
    "bool": lambda rng: rng.random() < 0.5,
    "int8": _integer(-(2**7), 2**7 - 1),
    "int16": _integer(-(2**15), 2**15 - 1),
    "int32": _integer(-(2**31), 2**31 - 1),
    "int64": _integer(-(2**63), 2**63 - 1),
    "float64": lambda rng: f64.parse(rng.uniform(-1e9, 1e9)),
    "uint16": _integer(0, 2**16 - 1),
    "string": lambda rng: rng.choice(TEXTS),
    "bytes": lambda rng: rng.randbytes(rng.choice((0, 1, 7, 127, 128, 300))),
    "uuid": lambda rng: rng.choice((None, UUID(bytes=rng.randbytes(16)))),
    "error_code": lambda rng: rng.choice(ERROR_CODES),
    "timedelta_i32": _duration(-(2**31), 2**31 - 1),
    "timedelta_i64": _duration(-MILLISECONDS_MAX, MILLISECONDS_MAX),
    "datetime_i64": lambda rng: datetime.fromtimestamp(_seconds(rng), tz=UTC),
}
"""By the type that a field has in Kafka's schema."""


def any_entity(schema: type[Any], rng: Random) -> Any:
    """A message, or a part of one; lists have up to ``ELEMENTS_MAX``, a tagged field may have its default."""
    return schema(
        **{
            field.name: _any_value(field, rng)
            for field in dataclasses.fields(schema)
            if "tag" not in field.metadata or rng.random() < 0.7
        }
    )


def _any_value(field: Any, rng: Random) -> Any:
    kinds = (field.type, *get_args(field.type))
    array = next((kind for kind in kinds if get_origin(kind) is tuple), None)
    if type(None) in kinds and rng.random() < 0.25:
        return None
    if array is not None:
        return tuple(_any_single(get_args(array)[0], field, rng) for _ in range(rng.randint(0, ELEMENTS_MAX)))
    return _any_single(next(kind for kind in reversed(kinds) if kind is not type(None)), field, rng)


def _any_single(kind: Any, field: Any, rng: Random) -> Any:
    if dataclasses.is_dataclass(kind):
        return any_entity(kind, rng)  # type: ignore[arg-type]
    return VALUES[field.metadata["kafka_type"]](rng)
