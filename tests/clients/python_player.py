"""A player for the libraries of Python: ``python_player LIBRARY BOOTSTRAP``. Words: see players.py."""

import sys
from collections.abc import Callable
from importlib.metadata import version

from tests.clients.libraries import LIBRARIES, Producer


def main(library: str, bootstrap: str) -> None:
    """Answer each line of standard input, until it ends."""
    make, read = LIBRARIES[library]
    producers: dict[str, Producer] = {}

    def made(name: str, *settings: str) -> None:
        pairs = (each.split("=", 1) for each in settings)
        producers[name] = make(bootstrap, {key: _typed(value) for key, value in pairs})

    calls: dict[str, Callable[..., list[str] | None]] = {
        "make": made,
        "begin": lambda name: producers[name].begin(),
        "send": lambda name, topic, *values: producers[name].send(topic, *values),
        "commit": lambda name: producers[name].commit(),
        "abort": lambda name: producers[name].abort(),
        "close": lambda name: producers.pop(name).close(),
        "read": lambda topic, count, isolation: read(bootstrap, topic, int(count), isolation),
    }
    _answer("ok", version(library))
    for line in sys.stdin:
        verb, *words = line.rstrip("\n").split("\t")
        try:
            _answer("ok", *(calls[verb](*words) or ()))
        except Exception as error:  # noqa: BLE001  (each library has its own)
            _answer("error", " ".join(repr(error).split()))


def _typed(value: str) -> str | int | bool:
    if value in ("true", "false"):
        return value == "true"
    return int(value) if value.isdigit() else value


def _answer(*words: str) -> None:
    sys.stdout.write("\t".join(words) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
