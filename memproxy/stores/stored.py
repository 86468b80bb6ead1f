"""The stored form of a memory: written slim, read back with care."""

import logging
from collections.abc import Sequence
from typing import Any

import msgspec

from memproxy.core.memory import Kind, Memory, from_payload, to_payload
from memproxy.core.turn import point_id
from memproxy.errors import RequestError
from memproxy.metrics import metrics
from memproxy.stores.backend import Found

log = logging.getLogger(__name__)


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


def slim_payload(memory: Memory) -> dict[str, Any]:
    """The payload without nulls and empty lists, which read back as the defaults: halves the time to read it.

    Raises:
        RequestError: it cannot be stored.
    """
    encoded(memory)
    return {name: value for name, value in to_payload(memory).items() if value is not None and value not in ([], {})}


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
            # one damaged point must not hide all others; it is counted and named so that somebody looks
            metrics().internal_errors.labels(where="store.payload").inc()
            log.error("the stored point %s is not a memory and is passed over: %s", one.id, error)
    return read


def memories(found: Sequence[Found]) -> list[Memory]:
    """The memories read."""
    return [memory for _, memory in placed(found)]
