"""JSON of a known shape: each field is read by name and type, and fields that were not read are refused.

Why      Kafka's own parser takes numbers for strings, forgives missing fields and keeps the last of two equal
         keys. What decides where producer ids go on must be exactly what Kafka wrote, or be refused.
Errors   ``Misshaped`` says where in which document, what was expected and what was found.
"""

import json
from collections.abc import Callable
from typing import Final, TypeVar

from fencepost.records.invariant import CorruptData

T = TypeVar("T")

INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1
SHOWN_CHARACTERS_MAX: Final = 200  # of what was found, in an error


class Misshaped(CorruptData):
    """A document of another shape than expected. ``source`` is a znode's path or a file's name."""

    def __init__(self, source: str, expected: str, found: str) -> None:
        super().__init__(f"{source}: expected {expected}, found {found}")
        self.source = source
        self.expected = expected
        self.found = found


def shown(value: object) -> str:
    """A value for an error message: its JSON, or its Python form, cut to a length a terminal bears."""
    try:
        text = json.dumps(value)
    except (TypeError, ValueError):
        text = repr(value)
    return (
        text
        if len(text) <= SHOWN_CHARACTERS_MAX
        else f"{text[:SHOWN_CHARACTERS_MAX]}... ({len(text)} characters)"
    )


def parse_object(source: str, content: bytes) -> "Fields":
    """The fields of a document that is one JSON object, UTF-8, no key twice. Raises Misshaped."""
    try:
        value: object = json.loads(content.decode(), object_pairs_hook=_once, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        found = f"{error}: {shown(content.decode('utf-8', 'replace'))}"
        raise Misshaped(source, "a JSON object", found) from error
    return Fields(source, "", value)


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the key {max(names, key=names.count)!r} stands more than once")
    for name in found:
        if not _is_unicode(name):
            raise ValueError(f"the key {name!r} is no Unicode")
    return found


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is no JSON")


class Fields:
    """An object's fields, each to be taken once; ``end`` refuses those that were not taken."""

    def __init__(self, source: str, where: str, value: object) -> None:
        """Raises Misshaped if ``value`` is no object. ``where`` is its place in the document."""
        self._source = source
        self._where = where
        if not isinstance(value, dict):
            raise Misshaped(source, f"{where or 'the document'} to be an object", shown(value))
        self._left: dict[str, object] = dict(value)

    def names(self) -> list[str]:
        """The fields that are not taken yet."""
        return list(self._left)

    def has(self, name: str) -> bool:
        """Whether the field is there and was not taken yet."""
        return name in self._left

    def integer(self, name: str, first: int = 0, last: int = INT32_MAX) -> int:
        """A JSON number without a fraction, from ``first`` to ``last``."""
        value = self._take(name)
        if type(value) is not int or not first <= value <= last:
            raise self.refused(name, f"a number from {first} to {last}", value)
        return value

    def text(self, name: str) -> str:
        """A JSON string that is valid Unicode."""
        value = self._take(name)
        if not isinstance(value, str) or not _is_unicode(value):
            raise self.refused(name, "a string", value)
        return value

    def optional_text(self, name: str) -> str | None:
        """As ``text``; None if the field is null."""
        if self._left.get(name, "") is None:
            del self._left[name]
            return None
        return self.text(name)

    def decimal(self, name: str, first: int = 0, last: int = INT64_MAX) -> int:
        """A JSON string that holds a number, as Kafka writes longs: canonical, from ``first`` to ``last``."""
        value = self._take(name)
        number = _canonical(value)
        if number is None or not first <= number <= last:
            raise self.refused(name, f"a string with a decimal number from {first} to {last}", value)
        return number

    def boolean(self, name: str) -> bool:
        """A field that is true or false."""
        value = self._take(name)
        if not isinstance(value, bool):
            raise self.refused(name, "true or false", value)
        return value

    def integers(self, name: str, first: int = 0, last: int = INT32_MAX) -> tuple[int, ...]:
        """An array of numbers, each from ``first`` to ``last``."""
        return self._array(
            name,
            f"an array of numbers from {first} to {last}",
            lambda item: item if type(item) is int and first <= item <= last else None,
        )

    def texts(self, name: str) -> tuple[str, ...]:
        """A field that is an array of strings."""
        return self._array(
            name,
            "an array of strings",
            lambda item: item if isinstance(item, str) and _is_unicode(item) else None,
        )

    def fields(self, name: str) -> "Fields":
        """A field that is an object."""
        return Fields(self._source, self._name(name), self._take(name))

    def end(self) -> None:
        """Raises Misshaped if a field is left."""
        if self._left:
            name = min(self._left)
            raise Misshaped(self._source, f"no field {self._name(name)}", shown(self._left[name]))

    def refused(self, name: str, expected: str, value: object) -> Misshaped:
        """The error to raise for a field's value."""
        return Misshaped(self._source, f"{self._name(name)} to be {expected}", shown(value))

    def _take(self, name: str) -> object:
        if name not in self._left:
            found = ", ".join(sorted(self._left)) or "nothing else"
            raise Misshaped(self._source, f"a field {self._name(name)}", shown(found))
        return self._left.pop(name)

    def _array(self, name: str, expected: str, item: Callable[[object], T | None]) -> tuple[T, ...]:
        value = self._take(name)
        if isinstance(value, list):
            items = [item(each) for each in value]
            taken = tuple(each for each in items if each is not None)
            if len(taken) == len(value):
                return taken
        raise self.refused(name, expected, value)

    def _name(self, name: str) -> str:
        return ".".join(part for part in (self._where, name) if part)


def _canonical(value: object) -> int | None:
    """The number that a string is the canonical decimal form of; None if it is none."""
    if not isinstance(value, str) or len(value) > len(str(-INT64_MAX)) or not value.isascii():
        return None
    try:
        number = int(value)
    except ValueError:
        return None
    return number if str(number) == value else None


def _is_unicode(text: str) -> bool:
    """Whether it can be written as UTF-8: a JSON escape can name half a character."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
