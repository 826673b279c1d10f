"""The wall clock of a real node is moved while it runs: by a library that is loaded before the C library.

A process loads it by LD_PRELOAD and maps ``clock.ahead`` of its folder, if there is one: seconds that are
added to what the machine's wall clock says. The machine's clock, and its boot-time clock, stay.
"""

import mmap
import struct
import subprocess
from pathlib import Path
from typing import Final

FILE: Final = "clock.ahead"
_SECONDS: Final = struct.Struct("=q")
_SOURCE: Final = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static volatile long long *ahead;

__attribute__((constructor)) static void begin(void) {
    int fd = open("clock.ahead", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    void *map = mmap(0, sizeof *ahead, PROT_READ, MAP_SHARED, fd, 0);
    if (map != MAP_FAILED) ahead = map;
    close(fd);
}
int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*next)(clockid_t, struct timespec *);
    if (next == 0) next = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int failed = next(clock, now);
    if (clock == CLOCK_REALTIME && ahead != 0) now->tv_sec += *ahead;
    return failed;
}
"""


def compiled(folder: Path) -> Path:
    """The library, made by ``cc``. Raises CalledProcessError, FileNotFoundError."""
    source, library = folder / "moved_clocks.c", folder / "moved_clocks.so"
    source.write_text(_SOURCE)
    words = ["cc", "-O1", "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"]
    subprocess.run(words, check=True, capture_output=True)
    return library


class MovedClock:
    """The wall clock of the process that runs in a folder; made before the process starts."""

    def __init__(self, folder: Path) -> None:
        path = folder / FILE
        path.write_bytes(bytes(_SECONDS.size))
        with path.open("r+b") as file:
            self._seconds = mmap.mmap(file.fileno(), _SECONDS.size)

    def move(self, seconds: int) -> None:
        """It is ahead by so much from now on; below 0: back."""
        self._seconds[:] = _SECONDS.pack(seconds)
