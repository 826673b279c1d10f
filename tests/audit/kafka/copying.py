"""A copy of directories in which others write: as an operator makes it, without a snapshot of the volume.

Order    of nodes, directories and files by chance: a coordinator's log may be copied after data logs.
Torn     a file is read once; what is appended meanwhile is cut where the read ended.
Gone     a file that is deleted or renamed between the listing and the read is left out, and counted.
"""

from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import TypeVar

T = TypeVar("T")


def copy_running(sources: Mapping[int, Path], target: Path, random: Random) -> int:
    """Each node's directory below ``target``, by its number. Returns how many files were gone."""
    gone = 0
    for node_id, source in _shuffled([*sources.items()], random):
        folders = [each for each in source.rglob("*") if each.is_dir()] + [source]
        for folder in _shuffled(folders, random):
            gone += _copy(folder, target / str(node_id) / folder.relative_to(source), random)
    return gone


def _copy(folder: Path, target: Path, random: Random) -> int:
    target.mkdir(parents=True, exist_ok=True)
    gone = 0
    try:
        files = sorted(each for each in folder.iterdir() if each.is_file())
    except FileNotFoundError:
        return 1
    for file in _shuffled(files, random):
        try:
            (target / file.name).write_bytes(file.read_bytes())
        except FileNotFoundError:
            gone += 1
    return gone


def _shuffled(items: list[T], random: Random) -> list[T]:
    return random.sample(items, len(items))
