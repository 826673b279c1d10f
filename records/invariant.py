"""Failures that nobody recovers from, and bytes that nobody trusts.

``InvariantViolation`` is our bug: the process halts. ``CorruptData`` is somebody's bytes: that
connection is closed, that file refused. Expected refusals are ``controller.errors.ApiError``.
"""


class InvariantViolation(Exception):
    """Our bug. Nobody catches it but the place that halts the process."""


class CorruptData(Exception):
    """Bytes that are not what they claim to be. Says what was expected, what came, and where."""


def invariant(holds: bool, claim: str, **facts: object) -> None:
    """Raise InvariantViolation unless ``holds``. Unlike ``assert`` it survives ``python -O``."""
    if not holds:
        said = ", ".join(f"{name}={value!r}" for name, value in facts.items())
        raise InvariantViolation(f"{claim}: {said}" if said else claim)
