"""Runs files of a Python library's tests with pytest, and reads its report: one result for each test."""

import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from tests.clients.suites.suite import FAILED, NOT_RUN, PASSED, Ran

FILE_SECONDS_MAX: Final = 400.0


class PytestFiles(NamedTuple):
    """Files below ``root``, by their paths, and the tests in them that are left out: ``FILE::TEST``."""

    root: Path
    environment: Mapping[str, str]
    left_out: Iterable[str] = ()
    seconds_max: float = FILE_SECONDS_MAX


def ran(tests: PytestFiles, file: str, folder: Path) -> Iterator[Ran]:
    """Every test of one file, when the last of them has ended. Logs are in ``folder``."""
    name = Path(file).stem
    report, log = folder / f"{name}.xml", folder / f"{name}.log"
    environment = {
        **os.environ,
        **tests.environment,
        "PYTHONPATH": str(tests.root),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    command = [sys.executable, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    command += ["--rootdir", str(tests.root), "-c", os.devnull, f"--junitxml={report}"]
    for test in tests.left_out:
        command += ["--deselect", test]
    with log.open("wb") as output:
        try:
            subprocess.run(
                [*command, file],
                cwd=tests.root,
                env=environment,
                stdout=output,
                stderr=output,
                timeout=tests.seconds_max,
                check=False,
            )
        except subprocess.TimeoutExpired:
            yield Ran(name, FAILED, f"did not end in {tests.seconds_max:.0f} s, see {log}")
            return
    if not report.exists():
        yield Ran(name, FAILED, f"no test ran, see {log}")
        return
    for case in ET.parse(report).iter("testcase"):  # noqa: S314  (pytest wrote it, just now)
        yield of(case)


def of(case: ET.Element) -> Ran:
    """What pytest's report says of one test."""
    name, seconds = case.get("name", "?"), float(case.get("time", "0"))
    for tag, result in (("failure", FAILED), ("error", FAILED), ("skipped", NOT_RUN)):
        found = case.find(tag)
        if found is not None:
            return Ran(name, result, found.get("message", ""), seconds)
    return Ran(name, PASSED, "", seconds)
