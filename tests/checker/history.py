"""A process's part of the history: a file of JSON lines, each written before the next thing happens."""

import json
import os
import time
from pathlib import Path
from typing import Any


class History:
    """One file per process: a line that SIGKILL cuts short is its last one."""

    def __init__(self, folder: Path, name: str) -> None:
        self._file = os.open(folder / f"{name}.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def write(self, event: str, **fields: Any) -> None:
        """Is in the file when this returns, and survives the process."""
        line = json.dumps({"at": time.monotonic(), "event": event, **fields}, separators=(",", ":"))
        os.write(self._file, line.encode() + b"\n")


class Tail:
    """The events of all files of a folder, as they are written."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._places: dict[Path, int] = {}

    def new(self) -> list[dict[str, Any]]:
        """Those since the last call, file by file."""
        found = []
        for file in sorted(self._folder.glob("*.jsonl")):
            with file.open("rb") as stream:
                stream.seek(self._places.get(file, 0))
                raw = stream.read()
            raw = raw[: raw.rfind(b"\n") + 1]
            self._places[file] = self._places.get(file, 0) + len(raw)
            found += [json.loads(line) for line in raw.splitlines()]
        return found
