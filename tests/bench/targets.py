"""What is measured side by side: the upstream itself, nginx, the bare relay, memproxy with memory off and on."""

from collections.abc import Iterator
from itertools import islice

import msgspec

from tests.bench import nginx, payloads
from tests.bench.children import family
from tests.bench.instance import Instance
from tests.bench.stage import Stage

WORDS, VECTORS = "words only", "fastembed"
"""What a proxy searches by: BM25 alone, or a local embedding model too."""

USER = "benchmark"
"""Whose memory is searched."""

STRANGER = "stranger"
STRANGER_MEMORIES = 1_000
"""Another user, who asks for what was never said; their memories stay apart, for their questions are captured."""

_SAME = 4
"""Questions that are repeated where the query's vector is to come from the cache."""


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the tables: what requests are sent to, and what memory does for them (``mode`` None: there is none)."""

    name: str
    embedder: str | None = None
    mode: str | None = None
    asks: str = "known"
    """For what was told (``known``), for what was not (``stranger``), or for the same few things again (``same``)."""
    streams: bool = False
    """Whether it is measured with streams too."""

    @property
    def remembers(self) -> bool:
        return self.mode in {"on", "read"}

    @property
    def captures(self) -> bool:
        """Whether exchanges are kept."""
        return self.mode == "on"

    @property
    def expected(self) -> str | None:
        """What ``X-Memproxy-Recall`` says when all goes well."""
        if not self.remembers:
            return self.mode
        return "empty" if self.asks == "stranger" else "injected"


DIRECT = Kind(name="direct", streams=True)
NGINX = Kind(name="nginx", streams=True)
BARE = Kind(name="bare relay", streams=True)
OURS = (
    Kind(name="memory off", embedder=WORDS, mode="off", streams=True),
    Kind(name="on, nothing found", embedder=WORDS, mode="on", asks="stranger"),
    Kind(name="read, injected", embedder=WORDS, mode="read"),
    Kind(name="on, injected", embedder=WORDS, mode="on", streams=True),
    Kind(name="read, injected, cached vector", embedder=VECTORS, mode="read", asks="same"),
    Kind(name="read, injected, new vector", embedder=VECTORS, mode="read"),
    Kind(name="on, injected, new vector", embedder=VECTORS, mode="on"),
)


def kinds(*, with_model: bool) -> list[Kind]:
    """Those that this run can measure."""
    baselines = [DIRECT, NGINX, BARE] if nginx.find() else [DIRECT, BARE]
    return [*baselines, *(kind for kind in OURS if with_model or kind.embedder != VECTORS)]


class Target(msgspec.Struct, kw_only=True):
    kind: Kind
    port: int
    questions: Iterator[str]
    user: str = USER
    relay_pids: list[int] = []
    instance: Instance | None = None

    @property
    def name(self) -> str:
        """As in the tables."""
        return self.kind.name

    @property
    def headers(self) -> dict[str, str]:
        """What each request carries besides its body."""
        if self.kind.mode is None:
            return {"authorization": f"Bearer {payloads.KEY}"}
        return payloads.headers(self.user, self.kind.mode)

    def take(self, count: int) -> list[str]:
        """The next questions."""
        return list(islice(self.questions, count))


def of_instance(instance: Instance, embedder: str, memories: int) -> list[Target]:
    """All that are measured on a proxy that searches in this way; ``memories`` is how many facts `USER` told."""
    chosen = [kind for kind in OURS if kind.embedder == embedder]
    return [
        Target(
            kind=kind,
            port=instance.port,
            # Each begins elsewhere, so that none asks what another one's exchanges already hold.
            questions=_questions(kind, memories, memories * number // len(chosen)),
            user=STRANGER if kind.asks == "stranger" else USER,
            relay_pids=instance.relay_pids,
            instance=instance,
        )
        for number, kind in enumerate(chosen)
    ]


def _questions(kind: Kind, memories: int, start: int) -> Iterator[str]:
    if kind.asks == "stranger":
        return (payloads.stranger(number) for number in payloads.numbers(0, 2**22))
    bound = _SAME if kind.asks == "same" else memories
    return (payloads.question(number) for number in payloads.numbers(start % bound, bound))


async def start_baselines(stage: Stage, memories: int) -> tuple[list[Target], list[str]]:
    """Direct, nginx if it is installed, and the bare relay; and what to say about what is missing.

    Raises:
        ConfigError: one of them did not start.
    """
    upstream = stage.upstream_port
    running: list[tuple[Kind, int, list[int]]] = [(DIRECT, upstream, [])]
    skipped = []
    if (program := nginx.find()) is not None:
        server, port = await nginx.start(program, stage.nursery, stage.folder, upstream)
        running.append((NGINX, port, [each.pid for each in family(server.pid)]))
    else:
        skipped.append("nginx is not installed: its baseline was skipped (Debian: apt-get install nginx).")
    bare, port = await stage.nursery.start_server("bare", f"http://127.0.0.1:{upstream}")
    running.append((BARE, port, [bare.pid]))
    for _, _, pids in running:
        stage.pinning.pin_relay(pids)
    return [
        Target(kind=kind, port=port, questions=_questions(kind, memories, 0), relay_pids=pids)
        for kind, port, pids in running
    ], skipped
