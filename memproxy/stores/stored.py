"""The stored form of a memory: written slim, read back with care."""

import base64
import binascii
import logging
from collections.abc import Sequence
from typing import Any

import msgspec

from memproxy.core.memory import Kind, Memory, from_payload, to_payload
from memproxy.core.telling import tells_nothing
from memproxy.core.turn import point_id
from memproxy.errors import RequestError
from memproxy.metrics import metrics
from memproxy.ports import Notes
from memproxy.stores.backend import TOKEN_VECTORS, Found
from memproxy.stores.filters import TELLS_NOTHING

log = logging.getLogger(__name__)


class Read(msgspec.Struct, gc=False):
    """What is read of a point for a search: the memory, its token vectors (empty when it has none), what is made of it
    while it is kept, and whether a search found it lately. Nothing of it refers back to it, so that Python need not
    look it through for garbage.
    """

    memory: Memory
    tokens: bytes = b""
    notes: Notes = msgspec.field(default_factory=Notes)
    used: bool = False


def unstorable() -> RequestError:
    """A memory that no store can hold: trying again would never help."""
    return RequestError(
        "A memory holds something that cannot be stored: numbers must be finite and below 2^64, text must be valid "
        "Unicode (no lone surrogates)."
    )


def encoded(value: Any) -> bytes:
    """The value as JSON, always the same for the same value.

    Raises:
        RequestError: some text is no valid Unicode (a lone surrogate).
    """
    try:
        return msgspec.json.encode(value, order="deterministic")
    except UnicodeEncodeError as error:
        raise unstorable() from error


def slim_payload(memory: Memory, tokens: bytes = b"") -> dict[str, Any]:
    """The payload without nulls and empty lists, which read back as the defaults: halves the time to read it. With its
    token vectors, where it has some, and the flag of what tells nothing.

    Raises:
        RequestError: it cannot be stored.
    """
    encoded(memory)
    # what is true is told at once: most values are
    slim = {
        name: value
        for name, value in to_payload(memory).items()
        if value or (value is not None and value not in ([], {}))
    }
    if tokens:
        slim[TOKEN_VECTORS] = base64.b64encode(tokens).decode()
    if tells_nothing(memory):
        slim[TELLS_NOTHING] = True
    return slim


def place_of(memory: Memory) -> str:
    """The point id of a memory; a turn's depends on its session."""
    session = memory.session_id if memory.kind is Kind.TURN else None
    return point_id(memory.tenant, memory.user_id, session, memory.id)


def placed(found: Sequence[Found]) -> list[tuple[str, Memory]]:
    """The memories read, each with its point id."""
    read = []
    for one in found:
        try:
            read.append((one.id, from_payload(one.payload)))
        except msgspec.ValidationError as error:
            pass_over(one.id, error)
    return read


def pass_over(place: str, error: Exception) -> None:
    """One damaged point must not hide all others: it is counted and named, so that somebody looks."""
    metrics().internal_errors.labels(where="store.payload").inc()
    log.error("the stored point %s is not a memory and is passed over: %r", place, error)


def memories(found: Sequence[Found]) -> list[Memory]:
    """The memories read."""
    return [memory for _, memory in placed(found)]


def tokens_of(found: Found) -> bytes:
    """The token vectors of a point; empty when it has none (stored before there were any, or without an embedder)."""
    text = found.payload.get(TOKEN_VECTORS) or ""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, TypeError, ValueError) as error:
        # the memory itself can be read, and is found without them
        metrics().internal_errors.labels(where="store.payload").inc()
        log.error("the token vectors of the stored point %s cannot be read: %s", found.id, error)
        return b""


def for_search(found: Sequence[Found]) -> list[tuple[str, Read]]:
    """The memories read with their token vectors, each with its point id."""
    tokens = {one.id: tokens_of(one) for one in found}
    return [(place, Read(memory, tokens[place])) for place, memory in placed(found)]
