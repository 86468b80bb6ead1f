"""The form in which a user's memories leave an installation and come into another: JSON Lines, version 1.

The first line is a `Header`. Every other line is an object with one key: ``memory`` (all public fields; ``vectors``
stand beside it), ``place`` (a number of the palace) or ``turns`` (a conversation that is still to be read, as
``POST /v1/memory/turns`` takes it). Lines stand on their own, so that a file can be cut anywhere between two of them.
"""

import base64
import binascii
import math
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from memproxy.core.memory import Kind, Memory
from memproxy.core.turn import point_id

FORMAT = "memproxy"
VERSION = 1
MEDIA_TYPE = "application/x-ndjson"
MEDIA_TYPES = frozenset({MEDIA_TYPE, "application/jsonl", "application/json-lines"})

MOST_TOKEN_BYTES = 300_000
"""Of one memory's token vectors: 512 tokens of a model whose vectors have 4,096 numbers, and a little more."""

_FLOAT_BYTES = 4


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """What the vectors of the file are made by: the embedder's name (None: by words alone) and the version of the
    lexical encoder. It names nobody and no time, so that what is the same is written the same.
    """

    format: str = FORMAT
    version: int = VERSION
    embedder: str | None = None
    lexical: int = 0


class GivenVectors(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Vectors that come with a memory. ``dense`` holds one vector for each part of its text, each the base64 of its
    little-endian 32-bit floats; empty when it was not embedded. ``indices`` and ``values`` are BM25's half. ``tokens``
    is the base64 of what `tokenvectors.pack` makes of its tokens' vectors; they belong to ``dense``.
    """

    dense: list[str] = []
    indices: list[int] = []
    values: list[float] = []
    tokens: str = ""


class PalaceRow(msgspec.Struct, frozen=True, kw_only=True):
    """One number of a palace (``core.palace``): of which kind, in what, and what has it."""

    kind: str
    parent: str
    name: str
    number: int


def vector_key(memory: Memory) -> str:
    """Names a memory among others of one plan: a turn's id may be used in two sessions."""
    session = memory.session_id if memory.kind is Kind.TURN else None
    return point_id(memory.tenant, memory.user_id, session, memory.id)


def packed(vector: Sequence[float]) -> str:
    """A vector as the file holds it."""
    return base64.b64encode(np.asarray(vector, dtype="<f4").tobytes()).decode()


def unpacked(text: str) -> list[float]:
    """Read what `packed` wrote, or what was `checked` when it came in.

    Raises:
        ValueError: it is not base64 of whole 32-bit floats.
    """
    numbers: list[float] = np.frombuffer(unpacked_bytes(text), dtype="<f4").tolist()
    return numbers


def checked(text: str) -> npt.NDArray[np.float32]:
    """The numbers that a text packs.

    Raises:
        ValueError: it is not base64 of whole 32-bit floats, or holds one that is not finite.
    """
    packed_bytes = unpacked_bytes(text)
    if len(packed_bytes) % _FLOAT_BYTES:
        raise ValueError("must hold 32-bit floats")
    numbers = np.frombuffer(packed_bytes, dtype="<f4")
    # no sum of so few 32-bit numbers leaves the range of 64-bit ones, and what is not finite stays in it
    if not math.isfinite(np.add.reduce(numbers, dtype=np.float64)):
        raise ValueError("must hold finite numbers")
    return numbers


def unpacked_bytes(text: str) -> bytes:
    """The bytes that a text packs.

    Raises:
        ValueError: it is not base64.
    """
    if not text:
        return b""
    try:
        return binascii.a2b_base64(text, strict_mode=True)
    except ValueError as error:  # binascii.Error is one; another is told of text that is not ASCII
        raise ValueError("must be base64") from error


def length_of(text: str) -> int:
    """How many numbers a packed vector holds."""
    return (len(text) * 3 // 4 - text[-2:].count("=")) // _FLOAT_BYTES


def line(value: Any) -> bytes:
    """One line of the file."""
    return msgspec.json.encode(value) + b"\n"
