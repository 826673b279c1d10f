"""Programs with Kafka's Java client, compiled in .clients (ignored by git), once for each text."""

import shutil
import subprocess
from pathlib import Path
from typing import Final

from tests.clients.players import FETCHED, NotHere, java_client, need

COMPILE_S_MAX: Final = 180.0
OPTIONS: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")  # it runs for seconds


def compiled(sources: list[Path], name: str) -> tuple[list[str], Path]:
    """How the first one's class is started, and where. Raises NotHere."""
    need("javac")
    jars = java_client()
    folder = FETCHED / "java-programs" / name
    before = folder / "sources"
    if not all((before / each.name).is_file() for each in sources) or any(
        (before / each.name).read_bytes() != each.read_bytes() for each in sources
    ):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        command = ["javac", "-cp", f"{jars}/*", "-d", str(folder), *map(str, sources)]
        try:
            ended = subprocess.run(
                command, capture_output=True, text=True, timeout=COMPILE_S_MAX, check=False
            )
        except subprocess.TimeoutExpired:
            raise NotHere(f"javac did not end in {COMPILE_S_MAX:.0f} s") from None
        assert ended.returncode == 0, ended.stderr
        before.mkdir()
        for each in sources:
            shutil.copy(each, before)
    return ["java", *OPTIONS, "-cp", f"{folder}:{jars}/*", sources[0].stem], folder
