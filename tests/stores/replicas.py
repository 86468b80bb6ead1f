"""Replicas on one state in PostgreSQL, killed and started again while they work, and so is the server.

``python -m tests.stores.replicas --turns 150`` prints what came of it: turns lost, handled out of order, handled again.
"""

import argparse
import asyncio
import random
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

from memproxy.core.scope import Scope
from memproxy.errors import StateUnavailable
from memproxy.ports import JournalEntry, JournalKind, JournalRow
from memproxy.stores.postgres_state import PostgresState
from tests.support.postgres import PostgresServer, postgres_server

USERS = 200
CLOCKS_S = (0, 300, -300)
"""How far each replica's clock is off."""

KILLED_EVERY_S, STOPPED_EVERY_S = 3.0, 20.0
_LEASE = timedelta(seconds=4)
_WORK_S = 0.01
_AGAIN_S = 0.2


async def replica(url: str, log: Path, off_s: float) -> None:
    """Claim rows and handle them until killed; each that was handled is a line of the log."""

    def now() -> datetime:
        return datetime.now(UTC) + timedelta(seconds=off_s)

    state = PostgresState(url, log.with_suffix(".db"), sync="normal", lease=_LEASE, now=now)
    recovered = opened = False
    with log.open("a", buffering=1) as lines:

        async def handle(rows: list[JournalRow]) -> None:
            for row in rows:
                await asyncio.sleep(random.random() * _WORK_S)
                scope, body = row.entry.scope, row.entry.body.decode()
                lines.write(f"{time.monotonic_ns()} {scope.user} {body} {row.number}\n")
                await state.finish(row.number)

        while True:
            try:
                if not opened:
                    await state.open()
                    opened = True
                if not recovered:
                    await state.recover(max_attempts=1_000_000, now=now())
                    recovered = True
                rows = await state.claim("index", limit=16, now=now(), run=4)
                by_user: dict[str, list[JournalRow]] = defaultdict(list)
                for row in rows:
                    by_user[row.entry.scope.user].append(row)
                ends = await asyncio.gather(*map(handle, by_user.values()), return_exceptions=True)
                if errors := [end for end in ends if end is not None]:
                    raise errors[0]
                await asyncio.sleep(0 if rows else 0.05)
            except StateUnavailable:  # what it had claimed is its own still: it takes that up again
                recovered = False
                await asyncio.sleep(_AGAIN_S)


class Soak:
    """Sends turns of many users while replicas and the server die."""

    def __init__(self, server: PostgresServer, folder: Path, turns: int) -> None:
        self._server = server
        self._url = server.database()
        self._folder = folder
        self._turns = turns
        self._names = count()
        self._random = random.Random(5)
        self.kills = self.stops = 0
        self.acknowledged: dict[str, list[int]] = defaultdict(list)

    async def run(self, longest_s: float) -> None:
        """Until all that was sent is handled."""
        state = PostgresState(self._url, self._folder / "sender.db", sync="normal")
        await state.open()
        replicas = [self._spawn(place) for place in range(len(CLOCKS_S))]
        senders = [asyncio.get_running_loop().create_task(self._send(state, f"u{n}")) for n in range(USERS)]
        killed = stopped = began = time.monotonic()
        try:
            while not (self.kills and all(sender.done() for sender in senders) and await self._is_empty(state)):
                await asyncio.sleep(0.5)
                now = time.monotonic()
                assert now - began < longest_s, "not all is handled in time"
                if now - killed > KILLED_EVERY_S:
                    killed, place = now, self._random.randrange(len(replicas))
                    replicas[place].kill()
                    replicas[place].wait()
                    replicas[place] = self._spawn(place)
                    self.kills += 1
                if now - stopped > STOPPED_EVERY_S:
                    await asyncio.to_thread(self._server.stop, "immediate" if self.stops % 2 else "fast")
                    await asyncio.sleep(1.5)
                    await asyncio.to_thread(self._server.start)
                    stopped = time.monotonic()
                    self.stops += 1
        finally:
            for one in replicas:
                one.kill()
                one.wait()
            await state.close()

    def _spawn(self, place: int) -> subprocess.Popen[bytes]:
        log = self._folder / f"handled-{next(self._names)}"
        command = [
            sys.executable,
            "-m",
            "tests.stores.replicas",
            "--replica",
            self._url,
            str(log),
            str(CLOCKS_S[place]),
        ]
        return subprocess.Popen(command, stderr=subprocess.DEVNULL)

    async def _send(self, state: PostgresState, user: str) -> None:
        scope = Scope(tenant="t", user=user)
        while (number := len(self.acknowledged[user])) < self._turns:
            turn = JournalEntry(
                kind=JournalKind.TURNS, scope=scope, body=str(number).encode(), captured_at=datetime.now(UTC)
            )
            try:
                await state.append(turn)
                self.acknowledged[user].append(number)
            except StateUnavailable:
                await asyncio.sleep(_AGAIN_S)

    async def _is_empty(self, state: PostgresState) -> bool:
        try:
            return not sum((await state.queue_sizes())["index"].values())
        except StateUnavailable:
            return False

    def faults(self) -> dict[str, int]:
        logs = [log.read_text(encoding="utf-8") for log in self._folder.glob("handled-*") if not log.suffix]
        lines = [line.split() for log in logs for line in log.splitlines()]
        handled = sorted((int(at), user, int(turn), int(number)) for at, user, turn, number in lines)
        last: dict[str, int] = defaultdict(lambda: -1)
        out_of_order = 0
        for _, user, turn, _ in handled:
            out_of_order += turn > last[user] + 1
            last[user] = max(last[user], turn)
        there = {(user, turn) for _, user, turn, _ in handled}
        sent = {(user, turn) for user, turns in self.acknowledged.items() for turn in turns}
        numbers = {number for *_, number in handled}
        return {
            "acknowledged": len(sent),
            "lost": len(sent - there),
            "out of order": out_of_order,
            "written twice": len(numbers) - len(there),
            "handled again after a death": len(handled) - len(numbers),
        }


async def soak(turns: int, longest_s: float = 1800.0) -> dict[str, int]:
    """Run it; what came of it."""
    with postgres_server() as server, tempfile.TemporaryDirectory() as folder:
        one = Soak(server, Path(folder), turns)
        await one.run(longest_s)
        return {**one.faults(), "kills": one.kills, "stops of the server": one.stops}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=20, help="turns of each user")
    parser.add_argument("--replica", nargs=3, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.replica:
        url, log, off_s = asked.replica
        asyncio.run(replica(url, Path(log), float(off_s)))
    else:
        print(asyncio.run(soak(asked.turns)))


if __name__ == "__main__":
    main()
