"""A process of the bench: one JSON command per line on its stdin, one JSON answer per line on its stdout.

It ends when its stdin does, so none outlives the command that started it, however that ends. It runs the same
interpreter with ``-P`` and ``-E``: a ``fencepost/`` in the current directory or in PYTHONPATH is not used.
"""

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import msgspec

from fencepost.cluster.console import Failed

T = TypeVar("T")

END_SECONDS_MAX: Final = 5.0


class Answer(msgspec.Struct, frozen=True):
    """``error`` is what went wrong, in words, else null."""

    result: Any = None
    error: str | None = None


class Child:
    """A running process of the bench. Make it with ``child``."""

    def __init__(self, name: str, module: str, *arguments: str) -> None:
        self.name = name
        self._popen = subprocess.Popen(
            [sys.executable, "-E", "-P", "-m", module, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for the command, which ends this one
        )

    @property
    def pid(self) -> int:
        """The operating system's id of the load's process."""
        return self._popen.pid

    def ask(self, command: msgspec.Struct, result: type[T]) -> T:
        """Send a command and wait for its answer. Raises Failed: the process says so, or is gone."""
        self.send(command)
        return self.answer(result)

    def send(self, command: msgspec.Struct) -> None:
        """Send a command; ``answer`` must follow."""
        stdin = self._popen.stdin
        try:
            if stdin is not None:
                stdin.write(msgspec.json.encode(command) + b"\n")
                stdin.flush()
        except BrokenPipeError:
            pass  # ``answer`` says how it ended

    def answer(self, result: type[T]) -> T:
        """The answer to the oldest command that was sent and not answered. Raises Failed."""
        line = b"" if self._popen.stdout is None else self._popen.stdout.readline()
        if not line:
            raise Failed(f"{self.name} (pid {self.pid}) ended with status {self._popen.wait()}")
        answer = msgspec.json.decode(line, type=Answer)
        if answer.error is not None:
            raise Failed(f"{self.name}: {answer.error}")
        return msgspec.convert(answer.result, result)

    def end(self) -> None:
        """Close its stdin, and wait; kill it if it does not end."""
        for pipe in (self._popen.stdin, self._popen.stdout):
            if pipe is not None:
                pipe.close()
        try:
            self._popen.wait(END_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait()


@contextmanager
def child(name: str, module: str, *arguments: str) -> Iterator[Child]:
    """Start a process of the bench; it is ended on leaving. ``name``: what messages call it."""
    started = Child(name, module, *arguments)
    try:
        yield started
    finally:
        started.end()


def serve(commands: Any, execute: Callable[[Any], Any], failures: tuple[type[Exception], ...] = ()) -> None:
    """In a child: execute each line of stdin, one of ``commands`` (a union of Structs), until its end.

    ``failures`` become an answer's error; what else is raised ends the process.
    """
    decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(commands)
    for line in sys.stdin.buffer:
        try:
            write_answer(Answer(execute(decoder.decode(line))))
        except failures as error:
            write_answer(Answer(error=str(error)))


async def serve_async(
    commands: Any, execute: Callable[[Any], Awaitable[Any]], failures: tuple[type[Exception], ...]
) -> None:
    """As ``serve``, on an event loop that goes on between commands. ``failures`` become an answer's error."""
    decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(commands)
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    while line := await reader.readline():
        try:
            write_answer(Answer(await execute(decoder.decode(line))))
        except failures as error:
            write_answer(Answer(error=str(error)))


def write_answer(answer: Answer) -> None:
    """In a child: one line on stdout."""
    sys.stdout.buffer.write(msgspec.json.encode(answer) + b"\n")
    sys.stdout.buffer.flush()
