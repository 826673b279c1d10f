"""The path of a file in an OSError that a descriptor raised: the system names only what was opened."""

from collections.abc import Iterator
from contextlib import contextmanager


def named(error: OSError, path: object) -> None:
    """The error says the path, unless it says another one."""
    if error.errno is not None and error.filename is None:
        error.filename = str(path)


@contextmanager
def naming(path: object) -> Iterator[None]:
    """An OSError raised inside says the path."""
    try:
        yield
    except OSError as error:
        named(error, path)
        raise


def why(error: Exception) -> str:
    """What it says, beside a path that is said already."""
    return error.strerror if isinstance(error, OSError) and error.strerror else str(error)


def sentence(error: OSError) -> str:
    """What cannot be used, and why, in a line."""
    path = error.filename
    if path is None or error.strerror is None:
        return str(error)
    if isinstance(path, bytes):
        path = path.decode(errors="surrogateescape")
    return f"{path} cannot be used: {error.strerror.lower()}"


def described(error: BaseException) -> str:
    """Its kind and what it says; ``repr`` of an OSError leaves out the path."""
    return f"{type(error).__name__}: {error}"
