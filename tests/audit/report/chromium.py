"""Open a report in headless Chromium: no console message, no exception, no request; and take a picture.

Not part of ``make test``: it needs a browser. ``python -m tests.audit.report.chromium PAGE [--chromium PATH]
[--screenshot FILE.png] [--dark] [--width N]``. Without a PAGE it opens one with hostile text in every part.
Exit status  0 all is well, 1 the browser had something to say, 2 there is no browser.
Source       the DevTools protocol over --remote-debugging-pipe: NUL-ended JSON on descriptors 3 and 4.
"""

import base64
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import click

from tests.audit.report.pages import full_page
from tests.audit.report.verdicts import HOSTILE

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome-headless-shell")
TIMEOUT_S = 60
HEIGHT_MAX = 6_000  # pixels of a screenshot
FLAGS = (
    "--headless",
    "--no-sandbox",  # a page of our own, as root in a container
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--no-zygote",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)
FAULTS = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")


class Browser:
    """One tab, driven by the DevTools protocol. ``events``: what was heard while waiting for answers."""

    def __init__(self, commands: IO[bytes], answers: IO[bytes]) -> None:
        self._commands = commands
        self._answers = answers
        self._number = 0
        self.session: str | None = None
        self.events: list[dict[str, Any]] = []

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The result of one command. Raises RuntimeError if the browser refuses it or ends."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self.session is not None:
            message["sessionId"] = self.session
        self._commands.write(json.dumps(message).encode() + b"\0")
        self._commands.flush()
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                result: dict[str, Any] = answer["result"]
                return result
            self.events.append(answer)

    def wait_for(self, event: str) -> None:
        """Until it was heard."""
        while not any(each.get("method") == event for each in self.events):
            self.events.append(self._next())

    def _next(self) -> dict[str, Any]:
        raw = bytearray()
        while (byte := self._answers.read(1)) != b"\0":
            if not byte:
                raise RuntimeError("the browser ended")
            raw += byte
        message: dict[str, Any] = json.loads(raw)
        return message


@contextlib.contextmanager
def started(executable: str) -> Iterator[Browser]:
    """A browser with a profile of its own, ended with the block."""
    command_read, command_write = os.pipe()
    answer_read, answer_write = os.pipe()
    shell = f'exec "$0" "$@" 3<&{command_read} 4>&{answer_write}'
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        process = subprocess.Popen(
            ["/bin/bash", "-c", shell, executable, *FLAGS, f"--user-data-dir={profile}", "about:blank"],
            pass_fds=(command_read, answer_write),
            stderr=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(command_read)
        os.close(answer_write)
        signal.alarm(TIMEOUT_S)  # a browser that says nothing: this process ends, and its pipe with it
        try:
            with open(command_write, "wb") as commands, open(answer_read, "rb", buffering=1 << 16) as answers:
                yield Browser(commands, answers)
        finally:
            signal.alarm(0)
            process.kill()
            process.wait()


def look(browser: Browser, page: Path, *, width: int, dark: bool, height_max: int) -> tuple[bytes, list[str]]:
    """A picture of the page, and what is wrong with it."""
    target = browser.call("Target.createTarget", url="about:blank")["targetId"]
    browser.session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
    for domain in ("Page", "Runtime", "Log", "Network", "Accessibility"):
        browser.call(f"{domain}.enable")
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    browser.call("Emulation.setEmulatedMedia", features=[scheme])
    browser.call(
        "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False
    )
    browser.events.clear()
    browser.call("Page.navigate", url=page.absolute().as_uri())
    browser.wait_for("Page.loadEventFired")
    size = browser.call("Page.getLayoutMetrics")["cssContentSize"]
    wrong = []
    if size["width"] > width:
        wrong.append(f"the page is {size['width']} wide on a screen of {width}")
    clip = {"x": 0, "y": 0, "width": width, "height": min(size["height"], height_max), "scale": 1}
    picture = browser.call("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)["data"]
    nodes = browser.call("Accessibility.getFullAXTree")["nodes"]
    images = [node for node in nodes if node.get("role", {}).get("value") in {"image", "img"}]
    wrong += ["an image has no name" for node in images if not node.get("name", {}).get("value")]
    return base64.b64decode(picture), wrong + _heard(browser.events, page.absolute().as_uri())


def _heard(events: list[dict[str, Any]], own: str) -> list[str]:
    wrong = []
    for event in events:
        if event.get("method") in FAULTS:
            wrong.append(f"{event['method']}: {json.dumps(event['params'])[:300]}")
        elif event.get("method") == "Network.requestWillBeSent":
            url = event["params"]["request"]["url"]
            if url != own and not url.startswith("data:"):
                wrong.append(f"it asked for {url}")
    return wrong


@click.command()
@click.argument("page", required=False, type=click.Path(exists=True, path_type=Path))
@click.option("--chromium", "executable", envvar="CHROMIUM", help="The browser. [default: one on PATH]")
@click.option("--screenshot", type=click.Path(path_type=Path))
@click.option("--dark", is_flag=True)
@click.option("--width", type=int, default=1120, show_default=True)
@click.option("--height", type=int, default=HEIGHT_MAX, show_default=True, help="At most.")
def main(
    page: Path | None, executable: str | None, screenshot: Path | None, dark: bool, width: int, height: int
) -> None:
    """Open PAGE and say what the browser complains about."""
    executable = executable or next(filter(None, map(shutil.which, NAMES)), None)
    if executable is None:
        raise click.UsageError("no Chromium on PATH: name one with --chromium")
    with tempfile.TemporaryDirectory() as folder, started(executable) as browser:
        if page is None:
            page = Path(folder) / "hostile.html"
            page.write_text(full_page(HOSTILE), "utf-8")
        picture, wrong = look(browser, page, width=width, dark=dark, height_max=height)
    if screenshot is not None:
        screenshot.write_bytes(picture)
    for each in wrong:
        click.echo(each)
    click.echo(f"{page.name}: {'nothing' if not wrong else len(wrong)} to complain about")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
