"""The form in which a user's memories leave an installation and come into another: JSON Lines, version 1. The first
line is a `Header`, every other an object with one key: ``memory`` (all public fields; ``vectors`` beside it), ``place``
(a number of the palace) or ``turns`` (to be read, as ``POST /v1/memory/turns`` takes it). Lines stand on their own, so
that a file can be cut between any two.
"""

from typing import Any

import msgspec

from memproxy.core.memory import Kind, Memory
from memproxy.core.turn import point_id_for

FORMAT = "memproxy"
VERSION = 1
MEDIA_TYPE = "application/x-ndjson"
MEDIA_TYPES = frozenset({MEDIA_TYPE, "application/jsonl", "application/json-lines"})

MOST_TOKEN_BYTES = 300_000  # of one memory's token vectors: 512 tokens of 4,096 numbers, and a little more


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """What the vectors of the file are made by: the embedder's name (None: by words alone) and the version of the
    lexical encoder. It names nobody and no time, so that what is the same is written the same.
    """

    format: str = FORMAT
    version: int = VERSION
    embedder: str | None = None
    lexical: int = 0


class GivenVectors(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Vectors that come with a memory. ``dense`` holds one vector for each part of its text, each its little-endian
    32-bit floats (`core.vectors`); empty when it was not embedded. ``indices`` and ``values`` are BM25's half.
    ``tokens`` is what `vectors.pack` makes of its tokens' vectors; they belong to ``dense``. Bytes are base64 in JSON.
    """

    dense: list[bytes] = []
    indices: list[int] = []
    values: list[float] = []
    tokens: bytes = b""


class PalaceRow(msgspec.Struct, frozen=True, kw_only=True):
    """One numbered place of a palace (``core.palace``): its kind, the place that it is in, its name and its number."""

    kind: str
    parent: str
    name: str
    number: int


def vector_key(memory: Memory) -> str:
    """Names a memory among others of one plan: a turn's id may be used in two sessions."""
    session = memory.session_id if memory.kind is Kind.TURN else None
    return point_id_for(memory.tenant, memory.user_id, session, memory.id)


def line(value: Any) -> bytes:
    """One line of the file."""
    return msgspec.json.encode(value) + b"\n"
