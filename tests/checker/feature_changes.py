"""``transaction.version`` is lowered and raised while transactions run, by an operator's commands."""

import threading
from types import TracebackType
from typing import Final

from tests.checker.findings import Finding
from tests.checker.history import History
from tests.harness.nodes import Nodes

VERSIONS: Final = (0, 2)
TRIES_MAX: Final = 40
RETRY_SECONDS: Final = 0.5  # there may be no leader, or a voter is not up yet


class FeatureChanges:
    """``with`` starts it; at its end the version is 2 again. Without an interval nothing is changed."""

    def __init__(self, nodes: Nodes | None, history: History, every_seconds: float) -> None:
        self._nodes = nodes if every_seconds else None
        self._history = history
        self._every_seconds = every_seconds
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.findings: list[Finding] = []

    def __enter__(self) -> "FeatureChanges":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        if self._nodes is None:
            return
        changed = 0
        while not self._over.wait(self._every_seconds):
            self._change(self._nodes, VERSIONS[changed % 2])
            changed += 1
        if changed % 2:
            self._change(self._nodes, VERSIONS[1])

    def _change(self, nodes: Nodes, version: int) -> None:
        verb = "upgrade" if version else "downgrade"
        words = ("features", verb, "--feature", f"transaction.version={version}")
        failure = ""
        for _ in range(TRIES_MAX):
            try:
                nodes.run(*words)
            except AssertionError as failed:
                failure = str(failed)
                self._over.wait(RETRY_SECONDS)
            else:
                self._history.write("transaction_version", version=version)
                return
        self.findings.append(
            Finding("stuck", f"transaction.version did not become {version}: {failure[-300:]}")
        )
