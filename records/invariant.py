"""Failures that are not recovered from, and bytes that are not trusted.

``InvariantViolation`` is our bug: the process halts. ``CorruptData`` is about bytes from outside: that
connection is closed, that file refused. Expected refusals are ``fencepost.controller.errors.ApiError``.
"""


class InvariantViolation(Exception):
    """A bug of this program; a committed one halts the process."""


class CorruptData(Exception):
    """Bytes of another form than expected. Says what was expected, what came, and where."""


def invariant(holds: bool, claim: str, **facts: object) -> None:
    """Raise InvariantViolation unless ``holds``. Unlike ``assert`` it survives ``python -O``."""
    if not holds:
        said = ", ".join(f"{name}={value!r}" for name, value in facts.items())
        raise InvariantViolation(f"{claim}: {said}" if said else claim)
