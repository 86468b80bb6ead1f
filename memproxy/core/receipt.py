"""Receipts: what memory did for one request, and what was learned from its turn. A receipt comes in parts: what recall
did (`Recalled`), what the relay decided (`Decided`), what learning made of it (`Outcome`). Of texts they hold the
redacted query and a few words of what was rejected; all else are ids, so that a forgotten memory's words are in none.
"""

import os
from datetime import datetime
from typing import Any

import msgspec

from memproxy.core.scope import Scope

REQUEST_ID_HEADER = b"x-memproxy-request-id"  # of every answer that goes to a client
RECEIPT_VERSION = 1  # version of the stored parts, written beside them, for later readers to migrate them


def new_request_id() -> str:
    """A fresh name for a request, which its answer's headers, the log and its receipt have."""
    return f"req_{os.urandom(16).hex()}"


class Cited(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A memory in a block, with its calibrated score in [0, 1]; ``repeated``: an earlier request's receipt has that."""

    memory_id: str
    turn_id: str | None = None
    score: float | None = None
    repeated: bool = False


class Recalled(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What recall did: the gate's ``verdict``, the ``query`` after rewriting, and the candidates, each with its signals
    and why it is in the block or not. ``floor`` is the score that they needed. ``timings`` are milliseconds by stage.
    ``notes`` tell which model recall had to do without, and why.
    """

    result: str
    reason: str | None = None
    verdict: str | None = None
    query: str = ""
    floor: float | None = None
    tokens: int = 0
    memories: list[Cited] = []
    candidates: list[dict[str, Any]] = []
    timings: dict[str, float] = {}
    notes: list[str] = []


class Carried(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a request's conversation was sent otherwise than the client sent it; None: that was not to be done.
    ``replayed`` messages were put before it; ``left_out`` were replaced by a state and ``kept`` not; ``tokens``: about
    its cost before and after; ``left_out_turns``: the first 200 turns left out; ``entries``: keys of working memory
    told of; ``tools``: how many memory tools were offered, ``called`` which were called; ``reasons``: what could not be
    done, and why.
    """

    replayed: int | None = None
    left_out: int | None = None
    kept: int | None = None
    tokens: tuple[int, int] | None = None
    left_out_turns: list[str] = []
    entries: list[str] | None = None
    tools: int | None = None
    called: list[str] = []
    reasons: dict[str, str] = {}

    def header(self) -> str:
        """The value of the header ``X-Memproxy-Context``; empty: nothing is to be told."""
        parts = []
        if self.replayed is not None:
            parts.append(f"replay;turns={self.replayed}")
        if self.left_out is not None and self.tokens is not None:
            old_tokens, new_tokens = self.tokens
            parts.append(f"compress;left_out={self.left_out};kept={self.kept};tokens={old_tokens}-{new_tokens}")
        if self.entries is not None:
            parts.append(f"working;entries={len(self.entries)}")
        if self.tools is not None:
            parts.append(f"tools;offered={self.tools}")
        return ", ".join([*parts, *(f"{part};reason={reason}" for part, reason in self.reasons.items())])


class Decided(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the relay did with a request that it captured. ``result`` and ``reason`` are those of the header
    ``X-Memproxy-Recall``; ``status`` and ``model`` the upstream's, None: it did not answer. ``turn_ids`` are filled in
    when it is indexed. ``is_lost``: its answer was cut short, or could not be read, so nothing of it is kept.
    """

    result: str
    reason: str | None = None
    mode: str | None = None
    tokens: int = 0
    memories: list[Cited] = []
    timings: dict[str, float] = {}
    status: int | None = None
    model: str | None = None
    turn_ids: list[str] = []
    context: Carried | None = None
    is_lost: bool = False


class ReceiptPart(msgspec.Struct, frozen=True, kw_only=True):
    """A part; a later one of its request and kind takes its place. ``at``: when the request came, as far as known."""

    request_id: str
    scope: Scope
    at: datetime
    recalled: Recalled | None = None
    decided: Decided | None = None


class Outcome(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of one candidate of learning, or of a turn that gave none. ``result``: ``stored``, ``superseded`` (it
    took another's place, or landed in the history), ``duplicate`` (``memory_id`` was reinforced), ``retracted`` (it was
    taken back), ``pending`` (taken as replaced or taken back, as ``reason`` says, until its message is learned from),
    ``kept`` (it holds all the same), ``rejected`` (``reason`` says why, ``content`` is its beginning) or ``nothing``.
    ``request_ids``: whose turns it was read from; ``tokens``: input and output by source, of all read together.
    """

    result: str
    request_ids: list[str] = []
    reason: str | None = None
    memory_id: str | None = None
    kind: str | None = None
    turn_id: str | None = None
    supersedes: str | None = None
    superseded_by: str | None = None
    content: str | None = None
    tokens: dict[str, tuple[int, int]] = {}


class Noted(msgspec.Struct, frozen=True, kw_only=True):
    """An outcome as it is stored: when it was noted, and for which place."""

    at: datetime
    scope: Scope
    outcome: Outcome


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """What is stored about one request."""

    request_id: str
    scope: Scope
    at: datetime
    recalled: Recalled | None = None
    decided: Decided | None = None
    outcomes: list[Outcome] = []
