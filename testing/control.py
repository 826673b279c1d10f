"""A cluster of the kit under the control of other processes, over a socket: ``fencepost fault``.

Line      one JSON object is a request, one is the answer: ``{"said": ...}`` or ``{"error": a sentence}``.
Socket    mode 0600, in a folder that is its owner's alone (tempfile.mkdtemp).
Faults    have numbers from 1 on, in the order in which they were armed.
"""

import contextlib
import json
import socketserver
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from fencepost.settings.short_path import short_path
from fencepost.testing.asking import QUESTION_BYTES_MAX, ask
from fencepost.testing.cluster_failed import ClusterFailed
from fencepost.testing.faults import Fault
from fencepost.testing.running import RunningCluster, Which

SOCKET: Final = "faults.sock"
VARIABLE: Final = "FENCEPOST_FAULTS"
"""Names the socket, for commands of the tests that ``fencepost fault run`` starts."""

ANSWER_S_MAX: Final = 600.0  # above what any verb waits for


class Control:
    """``with Control(cluster, path): ...``: requests are carried out until its end."""

    def __init__(self, cluster: RunningCluster, path: Path) -> None:
        self.path: Final = path
        self._cluster = cluster
        self._armed: dict[int, Fault] = {}
        self._turn = threading.Lock()  # verbs that change the cluster come one after the other

    def __enter__(self) -> "Control":
        """Listen."""
        control = self

        class Connection(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                with contextlib.suppress(OSError):  # it left
                    line = self.rfile.readline(QUESTION_BYTES_MAX)
                    self.wfile.write(control.answer(line) + b"\n")

        class Server(socketserver.ThreadingUnixStreamServer):
            daemon_threads = True

        with short_path(self.path) as path:
            self._server = Server(path, Connection)
        self.path.chmod(0o600)
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.05,), name="fencepost-control", daemon=True
        )
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Listen no more."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        self.path.unlink(missing_ok=True)

    def answer(self, line: bytes) -> bytes:
        """The answer to a request, without its end of line."""
        try:
            request = json.loads(line)
            said = self._wait(**request["with"]) if request["verb"] == "wait" else self._do(request)
            return json.dumps({"said": said}).encode()
        except ClusterFailed as error:
            return json.dumps({"error": str(error)}).encode()
        except (ValueError, KeyError, TypeError) as error:
            return json.dumps({"error": f"this is no request: {error!r}"}).encode()

    def _do(self, request: Mapping[str, Any]) -> object:
        verbs: dict[str, Callable[..., object]] = {
            "arm": self._arm,
            "list": self._list,
            "clear": self._clear,
            "nodes": self._nodes,
        }
        with self._turn:
            return verbs[request["verb"]](**request["with"])

    def _arm(self, action: str, api: str, match: Mapping[str, str], times: int | None, **more: Any) -> object:
        faults = self._cluster.faults
        arms: dict[str, Callable[..., Fault]] = {
            "delay": faults.delay,
            "fail": faults.fail,
            "drop_answer": faults.drop_answer,
            "disconnect": faults.disconnect,
        }
        number = len(self._armed) + 1
        self._armed[number] = arms[action](api, *more.values(), match=match, times=times)
        return self._row(number)

    def _list(self) -> object:
        return [self._row(number) for number in self._armed]

    def _clear(self, number: int | None) -> object:
        chosen = [*self._armed] if number is None else [number]
        left = [each for each in chosen if self._fault(each).is_armed]
        for each in chosen:
            self._fault(each).clear()
        return [self._row(each) for each in left]

    def _wait(self, number: int, count: int, timeout_s: float) -> object:
        self._fault(number).wait_fired(count, timeout_s=timeout_s)
        return self._row(number)

    def _nodes(
        self, do: str, which: Which | None = None, others: list[int] | None = None, **more: Any
    ) -> object:
        cluster = self._cluster
        match do:
            case "kill" | "pause" | "isolate" if which is not None:
                getattr(cluster, do)(which)
            case "start" | "resume":
                getattr(cluster, do)(*(others or ()))
            case "cut":
                cluster.cut(*(others or ()))
            case "heal":
                cluster.heal()
            case "advance_clock":
                cluster.advance_clock(float(more["seconds"]))
            case "look":
                pass
            case _:
                raise KeyError(do)
        return [{"node_id": each, "status": cluster.status(each)} for each in cluster.node_ids]

    def _fault(self, number: int) -> Fault:
        if number not in self._armed:
            raise ClusterFailed(f"no fault has number {number}; armed were {[*self._armed] or 'none'}")
        return self._armed[number]

    def _row(self, number: int) -> dict[str, object]:
        fault = self._armed[number]
        return {
            "number": number,
            "action": fault.action,
            "api": fault.api.name,
            "match": dict(fault.match),
            "times": fault.times,
            "fired": fault.fired,
            "is_armed": fault.is_armed,
            "text": str(fault),
        }


def request(path: Path, verb: str, **words: object) -> Any:
    """What the control at ``path`` says. Raises ClusterFailed: it refused; OSError: none is there."""
    return ask(path, verb, words, ANSWER_S_MAX)
