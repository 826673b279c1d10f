"""Programs in Go, with sarama and with franz-go's kfake, built in .clients (ignored by git)."""

import shutil
from pathlib import Path
from typing import Final

from tests.clients.players import FETCHED, HERE, ROOT, need
from tests.clients.suites.franz_go import go

SARAMA_VERSION: Final = "1.61.1"
KFAKE: Final = "kfake"
SOURCES: Final = {
    "owner": HERE / "sarama/main.go",
    "member": HERE / "sarama/member/main.go",
    "orders": ROOT / "tests/testing/corpus/orders.go",
    KFAKE: HERE / "kfake/main.go",
}


def built(name: str) -> tuple[list[str], Path]:
    """The program and the folder that it runs in; built again if its source is another. Raises NotHere."""
    need("go")
    module = "kfake" if name == KFAKE else "sarama"
    folder = FETCHED / module
    folder.mkdir(parents=True, exist_ok=True)
    source = SOURCES[name]
    program, before = folder / name, folder / f"{name}.built.go"
    if not program.exists() or not before.exists() or before.read_bytes() != source.read_bytes():
        (folder / f"{name}.d").mkdir(exist_ok=True)
        shutil.copy(HERE / module / "go.mod", folder)
        shutil.copy(source, folder / f"{name}.d/main.go")
        go("build", "-mod=mod", "-o", str(program), f"./{name}.d", cwd=folder)
        shutil.copy(source, before)
    return [str(program)], folder
