"""Changes that unguided mutation found and that change nothing a test could notice, each with the reason.

By file and the lines that differ, as ``python -m tests.mutants.unguided`` prints them.
"""

from typing import Final

EQUIVALENT: Final[dict[tuple[str, str], str]] = {
    (
        "broker/log/durability.py",
        "- if end > self.durable_end:\n+ if end >= self.durable_end:",
    ): "what is flushed is flushed once more",
    ("broker/log/segment.py", "- self._open()\n+ pass"): "the write opens the file itself, before it writes",
}
