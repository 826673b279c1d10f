"""Workers without an engine: tasks run here, one after another."""

from collections.abc import Callable, Sequence

from fencepost.audit.engine.protocol import Done, Task


class Here:
    """Implements ``fencepost.audit.engine.protocol.Workers``. Two, so that there is something to divide."""

    workers = 2

    def spread(
        self, work: Callable[[Task], Done], tasks: Sequence[Task], show: Callable[[str], None]
    ) -> list[Done]:
        return [work(each) for each in tasks]
