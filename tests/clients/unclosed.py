"""Sockets that kafka-python leaves unclosed: each that was refused (3.0.12, ``net/inet.py``).

They are freed by the next collection, in the midst of any test, where a warning is an error.
"""

import gc
import warnings
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def freed_sockets() -> Iterator[None]:
    """Around a function, as its decorator: what it left unclosed is freed here, without a warning."""
    try:
        yield
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()
