"""Working memory: what agents hand to each other for some minutes, under keys like ``session/abc/notes``. A key's first
two pieces (of two, the first) are its namespace. Who names a session or an agent writes only into its own of the
namespaces ``session/…`` and ``agent/…``, and reads every key of the same user.
"""

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import msgspec

from memproxy.core.scope import Scope

MAX_KEY = 512  # characters of a key
MAX_TTL_S = 31 * 24 * 3600.0  # longest life of an entry, in seconds; what is to stay longer is a memory
SEARCHED = 4_000  # characters of an entry's key, category, tags and texts that a search by words looks at

Place = tuple[str, str]
"""Where an entry stands among others: its key as its store writes it (encrypted, where keys are), and its project."""

_PIECE = re.compile(r"[A-Za-z0-9._~:@+=,-]{1,128}")


class WorkingEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One entry. ``data`` is its JSON, left out in lists; ``size`` is how many bytes it has. ``words``: what a search
    looks at, read by searches alone. ``project`` and ``agent``: of the request that wrote it.
    """

    key: str
    created_at: datetime
    updated_at: datetime
    expires_at: datetime
    size: int
    category: str | None = None
    tags: list[str] = []
    project: str | None = None
    agent: str | None = None
    data: bytes = b""
    words: str = ""

    @property
    def namespace(self) -> str:
        """The namespace of its key."""
        return namespace_of(self.key)


class WorkingPage(msgspec.Struct, frozen=True):
    """Some entries by their keys, where each stands, and the place that the next page is behind; None: no page is."""

    entries: list[WorkingEntry] = []
    places: list[Place] = []
    after: Place | None = None


def check_key(key: str) -> str:
    """The key itself.

    Raises:
        ValueError: it is no path of two pieces or more; the message says what is allowed.
    """
    pieces = key.split("/")
    allowed = all(_PIECE.fullmatch(piece) and piece.strip(".") for piece in pieces)
    if len(key) > MAX_KEY or len(pieces) < 2 or not allowed:
        raise ValueError(
            "must be a path such as session/abc/notes: two pieces or more between slashes, each of 1 to 128 characters "
            f"(letters A-Z, digits, . _ ~ : @ + = , -) and not only dots, {MAX_KEY} characters in all"
        )
    return key


def namespace_of(key: str) -> str:
    """The namespace of a key."""
    return "/".join(key.split("/")[:-1][:2])


def may_write(scope: Scope, key: str) -> bool:
    """Whether this scope may write the key: it is of no other session or agent than those that the scope names."""
    kind, name = key.split("/")[:2]
    own_name = {"session": scope.session, "agent": scope.agent}.get(kind)
    return own_name is None or own_name == name


def words_of(key: str, category: str | None, tags: list[str], data: Any) -> str:
    """The text that a search by words reads."""
    texts = [key.replace("/", " "), category or "", *tags, *_texts(data)]
    return " ".join(text for text in texts if text)[:SEARCHED].replace("\x00", " ")


def _texts(data: Any) -> Iterator[str]:
    """The texts, names and numbers in JSON data, in their order; not deeper than JSON was read."""
    waiting, length = [data], 0
    while waiting and length < SEARCHED:
        value = waiting.pop()
        if isinstance(value, dict):
            waiting += [part for name, held in reversed(value.items()) for part in (held, name)]
        elif isinstance(value, list):
            waiting += reversed(value)
        elif value is not None and not isinstance(value, bool):
            length += len(text := str(value))
            yield text
