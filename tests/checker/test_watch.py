"""A call that hangs ends its process, once it is reported; one that returns does not."""

import json
import subprocess
import sys

CALLS = """
import json, threading, time
from tests.checker import watch
from tests.checker.library_log import Requests
watch.TICK_SECONDS, watch.QUIET_SECONDS, watch.HUNG_SECONDS, watch.SEEN_SECONDS = 0.02, 0.1, 0.3, 0.02
report = lambda event, **fields: print(json.dumps({"event": event, **fields}), flush=True)
watched = watch.Watch(Requests(), report)
for number in range(40):
    with watched.call("short", number):
        time.sleep(0.02)
with watched.call("endless", 40):
    threading.Event().wait()
"""


def test_a_call_that_hangs_is_reported_and_ends_its_process() -> None:
    done = subprocess.run([sys.executable, "-c", CALLS], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    (event,) = map(json.loads, done.stdout.splitlines())
    assert (event["event"], event["call"], event["number"]) == ("call_hung", "endless", 40)
    assert (event["verdict"], event["open"], event["last"]) == ("library", [], [])
