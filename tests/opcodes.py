"""How much a call does, whatever the machine does beside it: what it executes of Python's instructions."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, ParamSpec

P = ParamSpec("P")


def opcodes(call: Callable[P, object], *args: P.args, **keywords: P.kwargs) -> int:
    """Instructions of Python that a call executes; what is written in C counts as one each time."""
    count = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call(*args, **keywords)
    finally:
        sys.settrace(before)
    return count
