"""What the load client is asked to do, and what it answers: one line of JSON each."""

from typing import Any

import msgspec

from tests.bench import payloads

RECALL_HEADER = b"x-memproxy-recall"
TIMING_HEADER = b"server-timing"


class Job(msgspec.Struct, kw_only=True):
    """A closed loop: ``concurrency`` connections, each of which waits for its answer before it asks again.

    A request's body is ``prefix + question + suffix``; the questions are taken in turn. First every connection sends
    ``warmup`` requests that are not measured, then all together send ``count``, or as many as ``seconds`` allow.
    """

    port: int
    path: str
    prefix: str
    suffix: str
    questions: list[str]
    headers: dict[str, str] = {}
    warmup_headers: dict[str, str] = {}
    """What the headers of the warm-up have in place of, or besides, ``headers``."""
    concurrency: int = 1
    warmup: int = 3
    count: int = 1_000_000
    seconds: float = 10.0
    connect_s: float = 10.0
    """All connections together are open by then, or the job is given up; one that replaces another has as long."""
    stagger_s: float = 0.0
    """Connection k begins its measured part k times this late, as independent clients would."""


def chat_job(
    port: int,
    questions: list[str],
    headers: dict[str, str],
    *,
    body_bytes: int = 2_000,
    stream: bool = False,
    **more: Any,
) -> Job:
    """Chat requests of about so many bytes; ``more`` are other fields of the job."""
    prefix, suffix = payloads.chat_template(body_bytes, stream=stream)
    path = "/v1/chat/completions"
    return Job(port=port, path=path, prefix=prefix, suffix=suffix, questions=questions, headers=headers, **more)


class Result(msgspec.Struct, kw_only=True):
    """What came back. Times are in milliseconds; one entry per measured request, in the order of their ends."""

    total_ms: list[float] = []
    """From the request's first byte written to the answer's last byte read."""
    first_ms: list[float] = []
    """To the first byte of the answer's body."""
    elapsed_s: float = 0.0
    """From the first measured request to the end of the last."""
    answered: int = 0
    """All answers, warm-up included."""
    pieces: int = 0
    """Parts of bodies as they were read, warm-up included."""
    errors: dict[str, int] = {}
    outcomes: dict[str, int] = {}
    """How often each value of ``X-Memproxy-Recall`` was seen, among the measured."""
    stages: dict[str, list[float]] = {}
    """Milliseconds by stage, from ``Server-Timing``."""
