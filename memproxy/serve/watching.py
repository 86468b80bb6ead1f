"""How the supervisor sees that a process hangs, or that a file which it has open was replaced."""

import asyncio
from pathlib import Path

from memproxy.core.protocol import READY_PATH, STATE_PROBE

PROBE_EVERY_S = 5.0
PROBE_TIMEOUT_S = 4.0
HUNG_AFTER_S = 30.0
"""A process that is silent for this long is ended: nothing that it does while it serves takes longer."""

LONGEST_WORK_S = 1800.0
"""How long an engine that announced long work may be silent. Removing deleted text from a store of millions of memories
takes minutes; ending the engine there would only begin the same work again.
"""

LONGEST_START_S = 180.0
"""How long a new engine may be silent: importing its libraries took over 20 s beside twenty other busy processes."""


ENGINE_PROBE = f"GET {READY_PATH} HTTP/1.1\r\nHost: engine\r\nConnection: close\r\n\r\n".encode(), b"HTTP/1.1 200"
STATE_WRITER_PROBE = STATE_PROBE, STATE_PROBE
"""What is sent to a process of ours, and how its answer begins."""


async def answers(path: str | Path, probe: tuple[bytes, bytes]) -> bool:
    """Whether a process of ours answers on its private socket within `PROBE_TIMEOUT_S`."""
    sent, expected = probe
    try:
        async with asyncio.timeout(PROBE_TIMEOUT_S):
            reader, writer = await asyncio.open_unix_connection(str(path))
            try:
                writer.write(sent)
                return await reader.readexactly(len(expected)) == expected
            finally:
                writer.close()
    except (OSError, EOFError, TimeoutError):
        return False


class Silence:
    """How long a process has not answered, counted from its own start, by probes `PROBE_EVERY_S` apart."""

    def __init__(self) -> None:
        self._pid: int | None = None
        self._answered = False
        self.lasts_s = 0.0

    def is_too_long(self, pid: int | None, *, answered: bool, works: bool = False) -> bool:
        """Note a probe of this process; whether it hangs. ``works``: it has said that it works on something long."""
        if pid != self._pid:
            self._pid, self._answered, self.lasts_s = pid, False, 0.0
        self._answered = self._answered or answered
        self.lasts_s = 0.0 if answered else self.lasts_s + PROBE_EVERY_S
        longest = LONGEST_WORK_S if works else HUNG_AFTER_S
        return self.lasts_s >= (longest if self._answered else max(longest, LONGEST_START_S))


class Replaced:
    """Notices that a file or folder was deleted and made anew while a process has the old one open."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._pid: int | None = None
        self._inode: int | None = None

    def since(self, pid: int | None) -> bool:
        """Whether it was replaced since the first call for this process. A missing file counts as not replaced."""
        try:
            now = self.path.stat().st_ino
        except OSError:
            now = None
        if pid != self._pid:
            self._pid, self._inode = pid, now
        self._inode = self._inode if self._inode is not None else now
        return now is not None and now != self._inode
