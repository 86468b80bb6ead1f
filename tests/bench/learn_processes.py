"""The proxies of `bench.learn` as processes: one is stopped while the other is asked; their processor time."""

import contextlib
import os
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Self

import msgspec

from tests.bench.instance import Instance


@contextlib.contextmanager
def stopped(instance: Instance) -> Iterator[None]:
    """Within the block none of its processes runs."""
    group = os.getpgid(instance.engine_pids[0])
    os.killpg(group, signal.SIGSTOP)
    try:
        yield
    finally:
        os.killpg(group, signal.SIGCONT)


class Processor(msgspec.Struct, frozen=True):
    """Seconds that the threads of some processes ran, and that they could have run and did not, because others did; 0
    where the system does not tell (Linux does).
    """

    pids: Sequence[int]
    used_s: float
    waited_s: float

    @classmethod
    def of(cls, pids: Sequence[int]) -> Self:
        """From their beginning until now."""
        used = waited = 0
        for pid in pids:
            # a thread that just ended takes its figures with it
            with contextlib.suppress(OSError):
                for thread in Path(f"/proc/{pid}/task").iterdir():
                    fields = (thread / "schedstat").read_text("utf-8").split()
                    used, waited = used + int(fields[0]), waited + int(fields[1])
        return cls(pids, used / 1e9, waited / 1e9)

    def since(self) -> Self:
        """From this one's moment until now."""
        now = type(self).of(self.pids)
        return type(self)(self.pids, now.used_s - self.used_s, now.waited_s - self.waited_s)
