"""Processes whose clock is off: a library that is loaded before all others answers the time by another amount."""

import shutil
import subprocess
from pathlib import Path

_SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static long off(void) {
    const char *given = getenv("TEST_CLOCK_OFF_S");
    return given ? atol(given) : 0;
}

int clock_gettime(clockid_t which, struct timespec *at) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int failed = real(which, at);
    if (!failed && which == CLOCK_REALTIME) at->tv_sec += off();
    return failed;
}

int gettimeofday(struct timeval *at, void *zone) {
    static int (*real)(struct timeval *, void *);
    if (!real) real = dlsym(RTLD_NEXT, "gettimeofday");
    int failed = real(at, zone);
    if (!failed) at->tv_sec += off();
    return failed;
}

time_t time(time_t *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at) *at = now.tv_sec;
    return now.tv_sec;
}
"""


def clock_off(folder: Path, seconds: int) -> dict[str, str]:
    """The environment of a process whose clock is off by so much; empty where no compiler of C can make one."""
    compiler = shutil.which("cc")
    if compiler is None:
        return {}
    library = folder / "clock.so"
    if not library.exists():
        source = folder / "clock.c"
        source.write_text(_SOURCE)
        subprocess.run([compiler, "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"], check=True)
    return {"LD_PRELOAD": str(library), "TEST_CLOCK_OFF_S": str(seconds)}
