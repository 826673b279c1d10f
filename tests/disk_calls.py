"""What is done to files and directories: flushes, new names, deletions, in their order."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


def watched(monkeypatch: pytest.MonkeyPatch, seen: list[str]) -> list[str]:
    """``seen``, to which each call from now on is appended, with the names of its files."""

    def watch(name: str, says: Callable[..., str]) -> None:
        original = getattr(os, name)

        def call(*words: Any, **named: Any) -> Any:
            outcome = original(*words, **named)
            seen.append(says(*words))
            return outcome

        monkeypatch.setattr(os, name, call)

    watch("fsync", lambda descriptor: f"flush {Path(f'/proc/self/fd/{descriptor}').readlink().name}")
    for rename in ("rename", "replace"):
        watch(rename, lambda old, new: f"{Path(old).name} -> {Path(new).name}")
    watch("unlink", lambda path: f"delete {Path(path).name}")
    return seen
