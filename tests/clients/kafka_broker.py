"""A real Apache Kafka, KRaft nodes on loopback, from the jars that Maven fetches into .clients, once.

Node        broker and controller in one process. Which settings it has is its caller's choice; listeners,
            voters and directories are added here.
Version     VERSION, or another that its caller names; each has a folder of its own in .clients.
Directory   ``HOME/logs`` is its ``log.dirs``, or holds them if there are several. Its own output is
            ``HOME/broker.log``.
"""

import contextlib
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from confluent_kafka.admin import AdminClient

from tests.clients import players

VERSION: Final = "4.1.1"
HERE: Final = Path(__file__).parent
START_SECONDS_MAX: Final = 90.0
STOP_SECONDS_MAX: Final = 60.0
POLL_SECONDS: Final = 0.1
CLUSTER_ID: Final = "ZmVuY2Vwb3N0LWF1ZGl0MA"
SMALL_JVM: Final = ("-Xmx320m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")

ROLES: Final = """\
process.roles=broker,controller
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
"""

SSL: Final = """\
listener.security.protocol.map=PLAINTEXT:SSL,CONTROLLER:SSL
ssl.keystore.type=PEM
ssl.keystore.location={tls}/node-{node_id}.pem
ssl.truststore.type=PEM
ssl.truststore.location={tls}/ca.pem
ssl.client.auth=required
"""


def class_path(version: str = VERSION) -> str:
    """Of the jars of this version, once they are fetched."""
    return str(_folder(version) / "lib/*")


class Broker:
    """One node. ``launch`` or ``start`` it again after ``stop`` or ``kill``.

    ``controllers``: the port of each voter's controller listener by node id, this node's among them.
    ``jvm``: options of its Java runtime.
    ``clients_port``: of a listener CLIENTS beside PLAINTEXT, whose protocol the settings say;
    ``clients_advertised``: the port that clients of it are given, where that is another one.
    ``tls``: where its certificate and the authority are (``fencepost up --tls``), if all its listeners take
    SSL, from clients with a certificate.
    ``log_dirs``: directories below ``logs`` that share its partitions; none: ``logs`` itself.
    """

    def __init__(
        self,
        home: Path,
        settings: str,
        *,
        node_id: int,
        port: int,
        controllers: Mapping[int, int],
        jvm: Sequence[str] = SMALL_JVM,
        version: str = VERSION,
        log_dirs: Sequence[str] = (),
        clients_port: int | None = None,
        clients_advertised: int | None = None,
        tls: Path | None = None,
    ) -> None:
        self.home = home
        self.logs = home / "logs"
        self.node_id = node_id
        self.port = port
        self._jvm = jvm
        self._class_path = class_path(version)
        self._config = home / "server.properties"
        self._process: subprocess.Popen[bytes] | None = None
        self._access: dict[str, str] = {}
        if tls is not None:
            settings += SSL.format(tls=tls, node_id=node_id)
            own = str(tls / "client.pem")
            self._access = {"security.protocol": "SSL", "ssl.ca.location": str(tls / "ca.pem")}
            self._access |= {"ssl.key.location": own, "ssl.certificate.location": own}
        controller = controllers[node_id]
        voters = ",".join(f"{each}@127.0.0.1:{at}" for each, at in controllers.items())
        directories = ",".join(str(self.logs / each) for each in log_dirs) or str(self.logs)
        named = {"PLAINTEXT": port, "CONTROLLER": controller}
        if clients_port is not None:
            named["CLIENTS"] = clients_port
        listeners = ",".join(f"{name}://127.0.0.1:{at}" for name, at in named.items())
        advertised = listeners
        if clients_advertised is not None:
            advertised = advertised.replace(
                f"CLIENTS://127.0.0.1:{clients_port}", f"CLIENTS://127.0.0.1:{clients_advertised}"
            )
        home.mkdir(parents=True, exist_ok=True)
        self._config.write_text(
            f"{ROLES}{settings}node.id={node_id}\nlog.dirs={directories}\n"
            f"listeners={listeners}\nadvertised.listeners={advertised}\n"
            f"controller.quorum.voters={voters}\n",
            "utf-8",
        )
        self._run("kafka.tools.StorageTool", "format", "-c", str(self._config), "-t", CLUSTER_ID)

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Returns when it answers. Raises RuntimeError with the end of its output."""
        self.launch()
        self.await_brokers(1)

    def launch(self) -> int:
        """Returns its process id at once."""
        command = ["java", *self._jvm, "-cp", self._class_path, "kafka.Kafka", str(self._config)]
        with (self.home / "broker.log").open("ab") as log:
            self._process = subprocess.Popen(
                command,
                cwd=self.home,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for the command, which ends this one
            )
        return self._process.pid

    def await_brokers(self, count: int) -> None:
        """Returns when it shows so many brokers. Raises RuntimeError with the end of its output."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0, **self._access})
        deadline = time.monotonic() + START_SECONDS_MAX
        while True:
            with contextlib.suppress(Exception):
                if len(admin.list_topics(timeout=1).brokers) >= count:
                    return
            if self.has_ended() or time.monotonic() > deadline:
                raise RuntimeError(f"Kafka does not answer: {self._tail()}")
            time.sleep(POLL_SECONDS)

    def has_ended(self) -> bool:
        """Its process is over, or was never launched."""
        return self._process is None or self._process.poll() is not None

    def stop(self) -> None:
        """As an operator does: SIGTERM; it closes its logs and writes that it did."""
        self._end(signal.SIGTERM)

    def terminate(self) -> None:
        """SIGTERM, without waiting for its end."""
        if self._process is not None:
            self._process.terminate()

    def kill(self) -> None:
        """SIGKILL."""
        self._end(signal.SIGKILL)

    def _end(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(STOP_SECONDS_MAX)
            self._process = None

    def _run(self, *arguments: str) -> None:
        ended = subprocess.run(
            ["java", *SMALL_JVM, "-cp", self._class_path, *arguments],
            cwd=self.home, capture_output=True, text=True, timeout=START_SECONDS_MAX, check=False,
        )  # fmt: skip
        if ended.returncode:
            raise RuntimeError(f"{arguments[0]}: status {ended.returncode}: {ended.stdout}{ended.stderr}")

    def _tail(self) -> str:
        return (self.home / "broker.log").read_text("utf-8", "replace")[-3000:]


def fetch(version: str = VERSION) -> None:
    """Raises players.NotHere: no Java, no Maven, or Maven cannot get the jars."""
    players.need("java", "mvn")
    copy = [
        "mvn", "--quiet", "--batch-mode", "dependency:copy-dependencies",
        "-DoutputDirectory=lib", "-DincludeScope=runtime", f"-Dkafka.version={version}",
    ]  # fmt: skip
    players._fetch(_folder(version), HERE / "broker/pom.xml", copy)


def _folder(version: str) -> Path:
    return players.FETCHED / f"broker-{version}"
