"""Traces: how long each step of a request took, and of learning from it. A span names steps, models, numbers and
outcomes, never a word that somebody wrote, nor who it was. `wiring.open_telemetry` tells them to a collector.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

Attributes = Mapping[str, str | int | float | bool | None]
"""Of a span, by the names of OpenTelemetry's conventions where they have one; None is left out."""

TRACEPARENT = "traceparent"
"""The header that names the caller's span (W3C Trace Context), and the key in a turn's metadata of its request's."""


class Span(Protocol):
    """A step under way."""

    @property
    def is_wanted(self) -> bool:
        """Whether anybody will see it: a sampler, or the caller, may want nothing of a trace."""

    @property
    def name(self) -> str:
        """Its name in the world: the value of `TRACEPARENT` that means it."""

    def note(self, attributes: Attributes) -> None:
        """Add to what it says."""

    def fail(self, error: BaseException | str) -> None:
        """Say that the step failed, and by which kind of error: an error's words may hold others' words."""

    def end(self, at_ns: int | None = None) -> None:
        """It is over, or was at this time (nanoseconds since 1970)."""


class Traces(Protocol):
    """Makes spans. One for a process; nothing that it does waits for anybody."""

    def begin(
        self,
        name: str,
        *,
        kind: str = "internal",
        parent: "Span | Mapping[str, str] | None" = None,
        links: Sequence[str] = (),
        began_ns: int | None = None,
        attributes: Attributes | None = None,
    ) -> Span:
        """A span that begins now, or began then. ``parent`` is a span, or the W3C headers of another process's;
        ``links`` are values of `TRACEPARENT`. ``kind`` is ``server``, ``client``, ``consumer`` or ``internal``.
        """

    async def close(self) -> None:
        """Send what waits, within a bounded time."""


_CURRENT: ContextVar[tuple[Traces, Span] | None] = ContextVar("trace", default=None)
"""The span of what is done just now, in this task."""


@contextmanager
def work(traces: Traces | None, name: str, links: Sequence[str], attributes: Attributes) -> Iterator[Span | None]:
    """A trace of its own around a piece of work, whose every `step` is a span in it; nothing without ``traces``."""
    if traces is None:
        yield None
        return
    span = traces.begin(name, kind="consumer", links=links, attributes=attributes)
    with _current(traces, span):
        yield span


@contextmanager
def step(name: str, attributes: Attributes | None = None, *, kind: str = "internal") -> Iterator[Span | None]:
    """A span around a step of the work that is traced just now; None where none is."""
    around = _CURRENT.get()
    if around is None:
        yield None
        return
    traces, parent = around
    span = traces.begin(name, kind=kind, parent=parent, attributes=attributes)
    with _current(traces, span):
        yield span


@contextmanager
def _current(traces: Traces, span: Span) -> Iterator[None]:
    token = _CURRENT.set((traces, span))
    try:
        yield
    except BaseException as error:
        span.fail(error)
        raise
    finally:
        _CURRENT.reset(token)
        span.end()


def spans_in(metadata: Iterable[Mapping[str, Any]]) -> list[str]:
    """The spans of the requests that brought turns with this metadata, each once; clients may have written anything."""
    names = (one.get(TRACEPARENT) for one in metadata)
    return list(dict.fromkeys(name for name in names if isinstance(name, str)))


def chat_attributes(model: str | None, host: str, **more: Any) -> dict[str, Any]:
    """What the conventions for generative AI ask of the span of a chat model's call."""
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": model,
        "server.address": host,
        **more,
    }


def token_attributes(input_tokens: int, output_tokens: int, cached: int | None = None) -> dict[str, Any]:
    """The tokens of a model's call."""
    return {
        "gen_ai.usage.input_tokens": input_tokens,
        "gen_ai.usage.output_tokens": output_tokens,
        "gen_ai.usage.cache_read.input_tokens": cached,
    }
