"""Paths of relayed requests that would lead elsewhere, sent byte for byte; and relayed calls that read what an upstream
keeps of others.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.isolation.calling import Caller
from tests.isolation.people import Person
from tests.isolation.watching import NOT_NOW, Leak

REFUSED = frozenset({"400", "403", "404", "405", "421", "501"})
_ANSWER_S = 60.0

KEPT = (
    ("GET", "/v1/chat/completions"),
    ("GET", "/v1/chat/completions/chatcmpl-1"),
    ("GET", "/v1/chat/completions/chatcmpl-1/messages"),
    ("GET", "/v1/files"),
    ("GET", "/v1/files/file-1/content"),
    ("GET", "/v1/responses/{response}"),
    ("GET", "/v1/responses/{response}/input_items"),
    ("DELETE", "/v1/responses/{response}"),
    ("GET", "/v1/batches"),
    ("GET", "/v1/threads/thread_1/messages"),
    ("GET", "/v1/conversations/conv_1/items"),
)
"""What an upstream keeps for its key, whoever's words they are."""


@asynccontextmanager
async def evil_socket(caught: list[str]) -> AsyncIterator[int]:
    """A listening port that no request may reach; what did is noted in ``caught``."""

    async def reached(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        caught.append((await reader.read(200)).decode("latin-1"))
        writer.close()

    server = await asyncio.start_server(reached, "127.0.0.1", 0)
    async with server:
        yield int(server.sockets[0].getsockname()[1])


def forged_targets(evil: int) -> tuple[str, ...]:
    """Request targets that name another host, or leave ``/v1/``, for whoever joins or decodes them carelessly."""
    host = f"127.0.0.1:{evil}"
    return (
        f"/v1%2f@{host}/x",
        f"/v1%2F@{host}/x",
        f"/v1@{host}/x",
        f"/v1:x@{host}/x",
        f"/v1%40{host}/x",
        f"/%76%31%2f@{host}/x",
        f"/v1%5c@{host}/x",
        f"/v1/../@{host}/x",
        f"/v1/%2e%2e/@{host}/x",
        f"/v1/models/..%2f..%2f@{host}/x",
        "/v1/../healthz/x",
        "/v1/%2e%2e/internal/x",
        "/v1/./models",
        "/v1/models/%2E./x",
        "/V1/models",
        "/%761/models",
        f"//{host}/v1/models",
        f"http://{host}/v1/models",
        f"http://{host}@127.0.0.1/v1/models",
        f"https://{host}/v1/models",
    )


async def raw_path(caller: Caller, person: Person, _victim: Person) -> None:
    """A forged request target: it is refused, and neither the upstream nor the other port sees anything."""
    target = caller.random.choice(forged_targets(caller.watch.evil_port))
    caller.watch.forged.add(mark := f"raw-{caller.random.randrange(10**9)}")
    method = caller.random.choice(["GET", "POST"])
    lines = [f"{method} {target} HTTP/1.1", f"host: {caller.client.base_url.netloc.decode()}", f"x-raw-mark: {mark}"]
    lines += [f"{name}: {value}" for name, value in caller.proof(person)]
    lines += ["content-length: 0", "connection: close", "", ""]
    answer = await _sent(caller, "\r\n".join(lines).encode("latin-1"))
    status = answer.partition(" ")[2][:3]
    caller.watch.statuses[f"raw path {status}"] += 1
    caller.watch.text(f"the answer to {target}", person, answer)
    if status not in REFUSED and status not in {str(one) for one in NOT_NOW}:
        raise Leak(f"{method} {target} is answered {answer[:200]!r}")
    caller.watch.counts["raw paths refused"] += 1


async def _sent(caller: Caller, request: bytes) -> str:
    url = caller.client.base_url
    async with asyncio.timeout(_ANSWER_S):
        reader, writer = await asyncio.open_connection(url.host, url.port)
        writer.write(request)
        await writer.drain()
        answer = await reader.read()
        writer.close()
    return answer.decode("latin-1")


async def kept_upstream(caller: Caller, person: Person, victim: Person) -> None:
    """A relayed call that reads what the upstream keeps: with the operator's key it needs ``upstream:all``."""
    if caller.world.mode == "passthrough":
        return
    method, path = caller.random.choice(KEPT)
    response = caller.random.choice(victim.responses or ["resp_0"])
    answer = await caller.call("kept upstream", person, method, path.replace("{response}", response))
    of_a_response = path.startswith("/v1/responses/")
    # a response that memproxy saw made is its own tenant's and user's; to others it is not there, or not allowed
    if answer.status_code not in ({403, 404} if of_a_response else {403}) | NOT_NOW:
        raise Leak(f"{method} {path} reads what the upstream keeps: {answer.status_code} {answer.text[:200]}")
    caller.watch.counts["kept upstream refused"] += 1
