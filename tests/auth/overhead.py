"""What recognising a caller costs a request, by mode: `python -m tests.auth.overhead`.

Alternating in one process: what the relay does of it on a chat request (who may relay at all, and whose memory it is),
with a key whose record is known. The difference between two modes is what counts; the target is that mode `keys` costs
a request no more than 0.1 ms (p50) over `passthrough`.
"""

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path

import jwt

from memproxy.auth.headers import Headers
from memproxy.auth.modes import Authenticator, make_authenticator
from memproxy.core.proxykey import KeyRecord, hashed, new_key
from memproxy.relay.admission import Admission, MadeResponses
from memproxy.relay.bodies import BodyWork
from memproxy.relay.intake import Intake
from memproxy.relay.request import Request
from memproxy.relay.session_lookup import Sessions
from memproxy.settings import ServerSettings, Settings
from memproxy.stores.sqlite_state import SqliteState
from memproxy.tasks import TaskOwner

ROUNDS = 2_000
SECRET = "a shared secret of at least thirty-two bytes"
OTHERS = [(b"host", b"localhost"), (b"content-type", b"application/json"), (b"user-agent", b"OpenAI/Python")]


async def nobody(_key_id: str) -> KeyRecord | None:
    """The keys are in the configuration."""
    return None


async def unread() -> MutableMapping[str, object]:
    """No body is read."""
    raise AssertionError


async def unsent(_message: MutableMapping[str, object]) -> None:
    """Nothing is answered."""
    raise AssertionError


def caller(auth: dict[str, object], token: str) -> Callable[[], Awaitable[object]]:
    """What a request of this mode costs."""
    settings = Settings.model_validate({"auth": auth})
    known: Authenticator = make_authenticator(settings.auth, settings.server, b"secret", nobody)
    sessions = Sessions(SqliteState(Path("never-opened.db"), sync="normal"))
    admission = Admission(settings, known, MadeResponses(sessions, TaskOwner("overhead")), "upstream")
    raw = [*OTHERS, (b"authorization", f"Bearer {token}".encode())]
    headers, path = Headers(raw), b"/v1/chat/completions"
    intake = Intake(ServerSettings(), BodyWork())
    request = Request({"method": "POST", "raw_path": path, "headers": raw}, unread, unsent, intake)

    async def asked() -> object:
        await admission.admit(request)
        return await known.identify(headers)

    return asked


def modes() -> dict[str, Callable[[], Awaitable[object]]]:
    """The three modes, each with a caller it knows."""
    key, key_id = new_key()
    entry = {"id": key_id, "hash": hashed(key), "tenant": "acme", "user": "ann"}
    claims = {"sub": "ann", "tenant": "acme", "exp": int(time.time()) + 3600}
    token = jwt.encode(claims, SECRET, algorithm="HS256")
    return {
        "passthrough": caller({"mode": "passthrough"}, "sk-1"),
        "keys": caller({"mode": "keys", "keys": [entry]}, key),
        "jwt": caller({"mode": "jwt", "jwt": {"algorithms": ["HS256"], "key": SECRET}}, token),
    }


async def measure(rounds: int = ROUNDS) -> dict[str, list[float]]:
    """Milliseconds of each call, by mode; the first is left out."""
    asked = modes()
    for ask in asked.values():
        await ask()
    took: dict[str, list[float]] = {name: [] for name in asked}
    for _ in range(rounds):
        for name, ask in asked.items():
            began = time.perf_counter()
            await ask()
            took[name].append((time.perf_counter() - began) * 1000)
    return took


def main() -> None:
    """Print a line for each mode."""
    took = asyncio.run(measure())
    base = statistics.median(took["passthrough"])
    for name, times in took.items():
        p50, p99 = statistics.median(times), statistics.quantiles(times, n=100)[98]
        print(f"{name:<12} p50 {p50:.4f} ms   p99 {p99:.4f} ms   over passthrough {p50 - base:+.4f} ms")


if __name__ == "__main__":
    main()
