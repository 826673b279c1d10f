"""Calls to the system that fail in a real node: by a library that is loaded before the C library.

A process loads it by LD_PRELOAD and maps ``faults`` of its folder, if there is one: which call, on which
path, fails with which errno, and how often. The node's code is the one that ships.
"""

import mmap
import os
import struct
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Final

FILE: Final = "faults"
CALLS: Final = ("open", "create", "read", "write", "sync", "rename", "truncate", "unlink", "mkdir")
FOREVER: Final = 2**31 - 1

_NUMBERS: Final = struct.Struct("=iiiiii")  # armed, calls, errno, skipped, left, hits
_PATH_BYTES: Final = 512
_SIZE: Final = _NUMBERS.size + 2 * _PATH_BYTES

_SOURCE: Final = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { OPEN = 1, CREATE = 2, READ = 4, WRITE = 8, SYNC = 16, RENAME = 32,
       TRUNCATE = 64, UNLINK = 128, MKDIR = 256 };
static struct control { int armed, calls, error, skipped, left, hits; char part[512], hit[512]; } *control;
#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

__attribute__((constructor)) static void begin(void) {
    int fd = NEXT(open)("faults", O_RDWR | O_CLOEXEC);
    if (fd < 0) return;
    void *map = mmap(0, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map != MAP_FAILED) control = map;
    close(fd);
}
static int fails(int call, const char *path) {
    volatile struct control *now = control;
    if (!now || !now->armed || !(now->calls & call) || !strstr(path, (char *)now->part)) return 0;
    if (__sync_fetch_and_sub(&control->skipped, 1) > 0) return 0;
    if (__sync_fetch_and_sub(&control->left, 1) <= 0) return 0;
    if (__sync_fetch_and_add(&control->hits, 1) == 0) strncpy(control->hit, path, sizeof control->hit - 1);
    errno = now->error;
    return 1;
}
static int fails_at(int call, int fd) {
    char link[64], path[1024];
    if (!control || !control->armed || !(control->calls & call)) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, path, sizeof path - 1);
    if (size <= 0) return 0;
    path[size] = 0;
    return fails(call, path);
}
static int opens(int flags) { return flags & O_CREAT ? OPEN | CREATE : OPEN; }
#define OPENS(name) int name(const char *path, int flags, ...) { \
    va_list rest; va_start(rest, flags); mode_t mode = va_arg(rest, int); va_end(rest); \
    return fails(opens(flags), path) ? -1 : NEXT(name)(path, flags, mode); }
#define OPENS_AT(name) int name(int at, const char *path, int flags, ...) { \
    va_list rest; va_start(rest, flags); mode_t mode = va_arg(rest, int); va_end(rest); \
    return fails(opens(flags), path) ? -1 : NEXT(name)(at, path, flags, mode); }
OPENS(open) OPENS(open64) OPENS_AT(openat) OPENS_AT(openat64)
#define BYTES(name, call, constant) ssize_t name(int fd, constant void *bytes, size_t size) { \
    return fails_at(call, fd) ? -1 : NEXT(name)(fd, bytes, size); }
#define PLACED(name, call, constant) ssize_t name(int fd, constant void *bytes, size_t size, off_t at) { \
    return fails_at(call, fd) ? -1 : NEXT(name)(fd, bytes, size, at); }
BYTES(read, READ, ) BYTES(write, WRITE, const) PLACED(pread, READ, ) PLACED(pread64, READ, )
PLACED(pwrite, WRITE, const) PLACED(pwrite64, WRITE, const)
ssize_t writev(int fd, const struct iovec *parts, int count) {
    return fails_at(WRITE, fd) ? -1 : NEXT(writev)(fd, parts, count); }
ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t at) {
    return fails_at(WRITE, fd) ? -1 : NEXT(pwritev)(fd, parts, count, at); }
int fsync(int fd) { return fails_at(SYNC, fd) ? -1 : NEXT(fsync)(fd); }
int fdatasync(int fd) { return fails_at(SYNC, fd) ? -1 : NEXT(fdatasync)(fd); }
int ftruncate(int fd, off_t size) { return fails_at(TRUNCATE, fd) ? -1 : NEXT(ftruncate)(fd, size); }
int ftruncate64(int fd, off64_t size) { return fails_at(TRUNCATE, fd) ? -1 : NEXT(ftruncate64)(fd, size); }
int truncate(const char *path, off_t size) { return fails(TRUNCATE, path) ? -1 : NEXT(truncate)(path, size); }
int truncate64(const char *path, off64_t size) {
    return fails(TRUNCATE, path) ? -1 : NEXT(truncate64)(path, size); }
int rename(const char *old, const char *new) { return fails(RENAME, new) ? -1 : NEXT(rename)(old, new); }
int unlink(const char *path) { return fails(UNLINK, path) ? -1 : NEXT(unlink)(path); }
int mkdir(const char *path, mode_t mode) { return fails(MKDIR, path) ? -1 : NEXT(mkdir)(path, mode); }
"""


def compiled(folder: Path) -> Path:
    """The library, made by ``cc``. Raises CalledProcessError, FileNotFoundError."""
    source, library = folder / "failing_calls.c", folder / "failing_calls.so"
    source.write_text(_SOURCE)
    words = ["cc", "-O1", "-shared", "-fPIC", "-w", "-o", str(library), str(source), "-ldl"]
    subprocess.run(words, check=True, capture_output=True)
    return library


class Faults:
    """What fails in the process that runs in a folder; made before the process starts."""

    def __init__(self, folder: Path) -> None:
        path = folder / FILE
        path.write_bytes(bytes(_SIZE))
        with path.open("r+b") as file:
            self._control = mmap.mmap(file.fileno(), _SIZE)

    def arm(
        self, call: str | Iterable[str], part: str, error: int, *, skipped: int = 0, count: int = FOREVER
    ) -> None:
        """This call, or these, fail on each path with ``part`` in it, after ``skipped``, ``count`` times."""
        calls = [call] if isinstance(call, str) else call
        bits = sum(1 << CALLS.index(each) for each in calls)
        self.disarm()
        self._control[_NUMBERS.size :] = part.encode().ljust(2 * _PATH_BYTES, b"\0")
        self._control[: _NUMBERS.size] = _NUMBERS.pack(1, bits, error, skipped, count, 0)

    def disarm(self) -> None:
        """Nothing fails any more."""
        self._control[:4] = bytes(4)

    @property
    def hits(self) -> int:
        """How often a call failed since ``arm``."""
        return int(_NUMBERS.unpack_from(self._control)[5])

    @property
    def path(self) -> str:
        """The first path that failed."""
        at = _NUMBERS.size + _PATH_BYTES
        return os.fsdecode(self._control[at : at + _PATH_BYTES].rstrip(b"\0"))
