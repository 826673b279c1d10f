"""All clocks of a process run slower, by a library that is loaded before the C library.

For      a node whose instructions are counted: that makes it fifty times slower, and its timers must not be
         due fifty times as often for each request.
Clocks   the monotonic, the boot-time and the wall clock, from the moment on that ``environment`` was made, so
         that processes that get the same environment agree.
Waits    epoll, poll, sleeps, condition variables and semaphores: what Python and libuv wait by.
"""

import subprocess
import time
from pathlib import Path
from typing import Final

FROM: Final = "SLOW_CLOCKS_FROM"
_CLOCKS: Final = (time.CLOCK_REALTIME, time.CLOCK_MONOTONIC, time.CLOCK_BOOTTIME)
_SOURCE: Final = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <time.h>

#define NEXT(result, name, ...) \
    static result (*next)(__VA_ARGS__); \
    if (next == 0) next = (result (*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

static long long factor = 1, begin_real, begin_monotonic, begin_boot;

__attribute__((constructor)) static void read_begin(void) {
    char *text = getenv("SLOW_CLOCKS_FROM");
    if (text) sscanf(text, "%lld:%lld:%lld:%lld", &factor, &begin_real, &begin_monotonic, &begin_boot);
}
static long long begin_of(clockid_t clock) {
    if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) return begin_real;
    if (clock == CLOCK_BOOTTIME) return begin_boot;
    if (clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_COARSE) return begin_monotonic;
    return 0;
}
static long long ns_of(const struct timespec *at) { return at->tv_sec * 1000000000LL + at->tv_nsec; }
static struct timespec timespec_of(long long ns) {
    struct timespec at = {ns / 1000000000LL, ns % 1000000000LL};
    return at;
}
static struct timespec longer(const struct timespec *span) { return timespec_of(ns_of(span) * factor); }
static struct timespec machines(clockid_t clock, const struct timespec *at) {
    long long begin = begin_of(clock);
    return begin ? timespec_of(begin + (ns_of(at) - begin) * factor) : *at;
}
static int longer_ms(int ms) {
    if (ms <= 0) return ms;
    return ms > 2000000000LL / factor ? 2000000000 : (int)(ms * factor);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    NEXT(int, "clock_gettime", clockid_t, struct timespec *);
    int failed = next(clock, now);
    long long begin = begin_of(clock);
    if (!failed && begin) *now = timespec_of(begin + (ns_of(now) - begin) / factor);
    return failed;
}
int clock_nanosleep(clockid_t clock, int flags, const struct timespec *span, struct timespec *left) {
    NEXT(int, "clock_nanosleep", clockid_t, int, const struct timespec *, struct timespec *);
    struct timespec until = flags & TIMER_ABSTIME ? machines(clock, span) : longer(span);
    return next(clock, flags, &until, left);
}
int nanosleep(const struct timespec *span, struct timespec *left) {
    NEXT(int, "nanosleep", const struct timespec *, struct timespec *);
    struct timespec more = longer(span);
    return next(&more, left);
}
int epoll_wait(int fd, struct epoll_event *events, int max, int ms) {
    NEXT(int, "epoll_wait", int, struct epoll_event *, int, int);
    return next(fd, events, max, longer_ms(ms));
}
int epoll_pwait(int fd, struct epoll_event *events, int max, int ms, const sigset_t *mask) {
    NEXT(int, "epoll_pwait", int, struct epoll_event *, int, int, const sigset_t *);
    return next(fd, events, max, longer_ms(ms), mask);
}
int poll(struct pollfd *fds, nfds_t count, int ms) {
    NEXT(int, "poll", struct pollfd *, nfds_t, int);
    return next(fds, count, longer_ms(ms));
}
int pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *until) {
    NEXT(int, "pthread_cond_timedwait", pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
    clockid_t clock = ns_of(until) > begin_real / 2 ? CLOCK_REALTIME : CLOCK_MONOTONIC;
    struct timespec at = machines(clock, until);
    return next(cond, mutex, &at);
}
int pthread_cond_clockwait(
    pthread_cond_t *cond, pthread_mutex_t *mutex, clockid_t clock, const struct timespec *until) {
    NEXT(int, "pthread_cond_clockwait",
         pthread_cond_t *, pthread_mutex_t *, clockid_t, const struct timespec *);
    struct timespec at = machines(clock, until);
    return next(cond, mutex, clock, &at);
}
int sem_timedwait(sem_t *sem, const struct timespec *until) {
    NEXT(int, "sem_timedwait", sem_t *, const struct timespec *);
    struct timespec at = machines(CLOCK_REALTIME, until);
    return next(sem, &at);
}
int sem_clockwait(sem_t *sem, clockid_t clock, const struct timespec *until) {
    NEXT(int, "sem_clockwait", sem_t *, clockid_t, const struct timespec *);
    struct timespec at = machines(clock, until);
    return next(sem, clock, &at);
}
"""


def compiled(folder: Path) -> Path:
    """The library, made by ``cc``. Raises CalledProcessError, FileNotFoundError."""
    source, library = folder / "slow_clocks.c", folder / "slow_clocks.so"
    source.write_text(_SOURCE)
    words = ["cc", "-O1", "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"]
    subprocess.run(words, check=True, capture_output=True)
    return library


def environment(library: Path, factor: int) -> dict[str, str]:
    """Of processes whose clocks run ``factor`` times slower from now on."""
    begin = ":".join(str(time.clock_gettime_ns(clock)) for clock in _CLOCKS)
    return {"LD_PRELOAD": str(library), FROM: f"{factor}:{begin}"}
