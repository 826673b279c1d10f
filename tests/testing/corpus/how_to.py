"""The how-to pages of Java, Go and Node, as a reader follows them."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.clients.go_programs import built
from tests.clients.players import FETCHED, ROOT, installed_kafkajs, java_client, need

RUN_S_MAX: Final = 120.0
FILE: Final = re.compile(r"\*\*([\w.]+)\*\*[^`]*(?:`[^`\n]+`[^`]*)*\n```\w+\n(.*?)```", re.DOTALL)


@dataclass(frozen=True)
class HowTo:
    """A page; ``prepare`` puts into the folder what the page has a package manager fetch. Raises NotHere."""

    name: str
    library: str
    prepare: Callable[[Path], None]

    @property
    def text(self) -> str:
        """The page."""
        return (ROOT / "docs" / f"{self.name}.md").read_text("utf-8")

    @property
    def files(self) -> dict[str, str]:
        """By name."""
        return dict(FILE.findall(self.text))

    @property
    def command(self) -> str:
        """What runs the test."""
        (command,) = re.findall(r"^\$ (fencepost fault run .*)$", self.text, re.MULTILINE)
        return str(command)

    def run(self) -> float:
        """How many seconds it took. Raises NotHere, AssertionError."""
        with tempfile.TemporaryDirectory(prefix="fencepost-how-to-") as named:
            folder = Path(named)
            self.prepare(folder)
            for file, text in self.files.items():
                (folder / file).write_text(text)
            began = time.monotonic()
            ended = subprocess.run(
                ["sh", "-c", self.command],
                cwd=folder,
                env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
                capture_output=True,
                text=True,
                timeout=RUN_S_MAX,
                check=False,
            )
            assert ended.returncode == 0, ended.stdout[-3000:] + ended.stderr[-3000:]
            return time.monotonic() - began


def java(folder: Path) -> None:
    """What ``mvn dependency:copy-dependencies`` copies."""
    need("javac")
    (folder / "lib").symlink_to(java_client())


def go(folder: Path) -> None:
    """What ``go get`` writes."""
    built("orders")
    for file in ("go.mod", "go.sum"):
        shutil.copy(FETCHED / "sarama" / file, folder)


def node(folder: Path) -> None:
    """What ``npm install`` installs."""
    (folder / "node_modules").symlink_to(installed_kafkajs() / "node_modules")


HOW_TOS: Final = (
    HowTo("how-to-java", "java", java),
    HowTo("how-to-go", "sarama", go),
    HowTo("how-to-node", "kafkajs", node),
)
