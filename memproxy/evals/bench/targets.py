"""What is measured side by side: the upstream itself, nginx, the bare relay, memproxy with memory off and on."""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice

import msgspec

from memproxy.evals.bench import nginx, payloads
from memproxy.evals.bench.children import family
from memproxy.evals.bench.instance import Instance
from memproxy.evals.bench.stage import Stage

DIRECT = "direct"
BARE = "bare relay"
NGINX = "nginx"
OFF = "memory off"

USER = "benchmark"
"""Whose memory is searched."""

STRANGER = "stranger"
STRANGER_MEMORIES = 1_000
"""Another user, who asks for what was never said; their memories stay apart, for their questions are captured."""

_SAME = 4
"""Questions that are repeated where the query's vector is to come from the cache."""


class Target(msgspec.Struct, kw_only=True):
    """One thing that requests can be sent to, and what kind of requests."""

    name: str
    port: int
    questions: Iterator[str]
    headers: dict[str, str] = {}
    relay_pids: list[int] = []
    instance: Instance | None = None
    remembers: bool = False
    """Whether memory is searched: such slices have a bounded count, so that no question comes twice."""
    captures: bool = False
    streams: bool = False
    """Whether it is measured with streams too."""

    def take(self, count: int) -> list[str]:
        """The next questions."""
        return list(islice(self.questions, count))


def _asking(ask: Callable[[int], str], bound: int, start: int = 0) -> Iterator[str]:
    return (ask(number) for number in payloads.numbers(start, bound))


def of_server(name: str, port: int, pids: Sequence[int], memories: int) -> Target:
    """A target that knows nothing of memory: the same requests."""
    questions = _asking(payloads.question, memories)
    return Target(name=name, port=port, questions=questions, relay_pids=list(pids), headers=_key(), streams=True)


def _key() -> dict[str, str]:
    return {"authorization": f"Bearer {payloads.KEY}"}


def of_words(instance: Instance, memories: int) -> list[Target]:
    """Those of a proxy without an embedder: memory off, nothing found, found and injected, the same with capture."""
    return [
        _memproxy(instance, OFF, "off", _asking(payloads.question, memories), streams=True),
        _memproxy(instance, "on, nothing found", "on", _asking(payloads.stranger, 2**30), user=STRANGER),
        _memproxy(instance, "read, injected", "read", _asking(payloads.question, memories, memories // 3)),
        _memproxy(instance, "on, injected", "on", _asking(payloads.question, memories), streams=True),
    ]


def of_vectors(instance: Instance, memories: int) -> list[Target]:
    """Those of a proxy with the real embedding model: the query's vector cached, new, and new with capture."""
    same = (payloads.question(number % _SAME) for number in payloads.numbers(0, _SAME))
    return [
        _memproxy(instance, "read, injected, cached vector", "read", same),
        _memproxy(instance, "read, injected, new vector", "read", _asking(payloads.question, memories, memories // 3)),
        _memproxy(instance, "on, injected, new vector", "on", _asking(payloads.question, memories, memories // 2)),
    ]


def _memproxy(
    instance: Instance, name: str, mode: str, questions: Iterator[str], *, user: str = USER, streams: bool = False
) -> Target:
    return Target(
        name=name,
        port=instance.port,
        questions=questions,
        headers={**_key(), "x-memproxy-user": user, "x-memproxy-memory": mode},
        relay_pids=instance.relay_pids,
        instance=instance,
        remembers=mode != "off",
        captures=mode == "on",
        streams=streams,
    )


async def start_baselines(stage: Stage, memories: int) -> tuple[list[Target], list[str]]:
    """Direct, nginx if it is installed, and the bare relay; and what to say about what is missing.

    Raises:
        ConfigError: one of them did not start.
    """
    found = [of_server(DIRECT, stage.upstream_port, [], memories)]
    skipped = []
    if (program := nginx.find()) is not None:
        server, port = await nginx.start(program, stage.nursery, stage.folder, stage.upstream_port)
        found.append(of_server(NGINX, port, [each.pid for each in family(server.pid)], memories))
    else:
        skipped.append("nginx is not installed: its baseline was skipped (Debian: apt-get install nginx).")
    bare, port = await stage.nursery.start_server("bare", f"http://127.0.0.1:{stage.upstream_port}")
    found.append(of_server(BARE, port, [bare.pid], memories))
    for target in found:
        stage.pinning.pin_relay(target.relay_pids)
    return found, skipped


def count(*, with_model: bool, stream: bool) -> int:
    """How many targets take part."""
    baselines = 3 if nginx.find() else 2
    return baselines + (2 if stream else 7 if with_model else 4)
