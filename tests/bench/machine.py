"""The machine: what it is, how busy it is, which processor runs what. Linux tells all; elsewhere some is unknown."""

import contextlib
import importlib.metadata
import os
import platform
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from memproxy import __version__

BUSY_LOAD = 0.25
"""Load average per processor above which figures are likely to be worse than they need be."""

LIBRARIES = ("aiohttp", "fastembed", "httptools", "msgspec", "onnxruntime", "qdrant-edge-py", "uvicorn", "uvloop")


class Machine(msgspec.Struct, kw_only=True):
    """Where and when a run was made."""

    date: str
    system: str
    processor: str
    processors: int
    pinned: bool
    """Whether the relay under test had a processor of its own."""
    load_average_at_start: tuple[float, float, float]
    others_share: float | None = None
    """Part of the machine's time that other work used while the run was on; None where it cannot be told."""
    versions: dict[str, str]


def describe(*, pinned: bool) -> Machine:
    return Machine(
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        system=f"{platform.system()} {platform.release()}",
        processor=_processor(),
        processors=os.cpu_count() or 1,
        pinned=pinned,
        load_average_at_start=os.getloadavg(),
        versions=_versions(),
    )


def _processor() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return platform.processor() or platform.machine()


def _versions() -> dict[str, str]:
    versions = {"memproxy": __version__, "python": platform.python_version()}
    for name in LIBRARIES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    return versions


class Pinning:
    """Gives the relay under test the last processor and everything else the others; does nothing where it cannot."""

    def __init__(self, *, wanted: bool) -> None:
        self._all: set[int] = os.sched_getaffinity(0) if sys.platform == "linux" else set()
        self.active = wanted and len(self._all) > 1

    def pin_relay(self, pids: Iterable[int]) -> None:
        """These processes, all their threads, and what they start from now on."""
        self._pin(pids, {max(self._all, default=0)})

    def pin_rest(self, pids: Iterable[int]) -> None:
        """The same, for everything else."""
        self._pin(pids, self._all - {max(self._all, default=0)})

    def _pin(self, pids: Iterable[int], processors: set[int]) -> None:
        if not self.active or sys.platform != "linux":
            return
        for pid in pids:
            # A process or thread that just ended needs no processor.
            with contextlib.suppress(ProcessLookupError, FileNotFoundError):
                for thread in Path(f"/proc/{pid}/task").iterdir():
                    os.sched_setaffinity(int(thread.name), processors)


def cpu_seconds(pids: Iterable[int]) -> float | None:
    """Processor time that the threads of these processes have used so far, in seconds; None where it cannot be told."""
    if not Path("/proc/self/schedstat").exists():
        return None
    nanoseconds = 0
    for pid in pids:
        # A thread that just ended takes its time with it.
        with contextlib.suppress(OSError):
            for thread in Path(f"/proc/{pid}/task").iterdir():
                nanoseconds += int((thread / "schedstat").read_text("utf-8").split()[0])
    return nanoseconds / 1e9


class OthersWatch:
    """Tells what part of the machine's time processes that are not ours used."""

    def __init__(self) -> None:
        self._start = _machine_seconds()
        self._own = _own_seconds()

    def share(self) -> float | None:
        """Since the start, once the processes of the run have ended: only then their time is known."""
        if self._start is None or (end := _machine_seconds()) is None:
            return None
        busy, total = end[0] - self._start[0], end[1] - self._start[1]
        ours = _own_seconds() - self._own
        return round(max(0.0, busy - ours) / total, 3) if total > 0 else None


def _machine_seconds() -> tuple[float, float] | None:
    """Busy and total processor time of the machine since it started."""
    try:
        first = Path("/proc/stat").read_text("utf-8").splitlines()[0]
    except OSError:
        return None
    # user nice system idle iowait irq softirq steal (proc(5)); what follows is contained in user.
    values = [int(value) / os.sysconf("SC_CLK_TCK") for value in first.split()[1:9]]
    return sum(values) - values[3] - values[4], sum(values)


def _own_seconds() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
