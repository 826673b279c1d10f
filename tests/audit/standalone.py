"""A standalone Spark cluster, or a server of Spark Connect: processes on loopback, ended by their ids."""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from tests.ports import free_port

STARTED_SECONDS_MAX: Final = 120
LOOPBACK: Final = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
"""Settings of a driver whose master is not local."""
_MASTER: Final = "org.apache.spark.deploy.master.Master"
_WORKER: Final = "org.apache.spark.deploy.worker.Worker"
_CONNECT: Final = "org.apache.spark.sql.connect.service.SparkConnectServer"


class Cluster:
    """``url`` of the master, and the workers' processes."""

    def __init__(self, url: str, workers: list["subprocess.Popen[bytes]"]) -> None:
        self.url = url
        self.workers = workers


@contextlib.contextmanager
def cluster(folder: Path, *, workers: int = 2, memory: str = "2g") -> Iterator[Cluster]:
    """A master and workers of one core each, ended at the end."""
    port = free_port()
    with contextlib.ExitStack() as stack:
        where = ("--host", "127.0.0.1", "--port", str(port), "--webui-port", "0")
        stack.enter_context(_started(folder / "master", _MASTER, where, "I have been elected leader"))
        url = f"spark://127.0.0.1:{port}"
        each = ("--host", "127.0.0.1", "--webui-port", "0", "--cores", "1", "--memory", memory)
        running = [
            stack.enter_context(
                _started(
                    folder / f"worker-{number}",
                    _WORKER,
                    (*each, "--work-dir", str(folder / f"work-{number}"), url),
                    "Successfully registered with master",
                )
            )
            for number in range(workers)
        ]
        yield Cluster(url, running)


@contextlib.contextmanager
def connect_server(folder: Path) -> Iterator[str]:
    """The URL of a server of Spark Connect, ended at the end."""
    port = free_port()
    command = (
        "--class",
        _CONNECT,
        "--master",
        "local[2]",
        "--conf",
        f"spark.connect.grpc.binding.port={port}",
    )
    loopback = ("--conf", "spark.connect.grpc.binding.address=127.0.0.1", "--conf", "spark.ui.enabled=false")
    with _started(
        folder / "connect",
        "org.apache.spark.deploy.SparkSubmit",
        (*command, *loopback, "spark-internal"),
        "Spark Connect server started",
    ):
        yield f"sc://127.0.0.1:{port}"


@contextlib.contextmanager
def _started(
    log: Path, program: str, arguments: Sequence[str], started: str
) -> Iterator["subprocess.Popen[bytes]"]:
    import pyspark

    from fencepost.audit.source import java

    log.parent.mkdir(parents=True, exist_ok=True)
    home = Path(pyspark.__file__).parent
    environment = {
        **os.environ,
        "JAVA_HOME": str(java.wrapped_home()),
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONSAFEPATH": "1",
    }
    with open(log, "wb") as output:
        process = subprocess.Popen(
            [home / "bin" / "spark-class", program, *arguments], stdout=output, stderr=output, env=environment
        )
    try:
        _await(log, started, process)
        yield process
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(20)
        process.kill()
        process.wait()


def _await(log: Path, text: str, process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + STARTED_SECONDS_MAX
    while text.encode() not in log.read_bytes():
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"{log.name} did not start:\n{log.read_text()[-2000:]}")
        time.sleep(0.2)
