"""Zep: facts and edges of its graph (``facts``, ``edges``, ``relevant_facts``), messages of a thread or session
(``messages``), and threads that hold their messages (``threads``, ``sessions``).

A fact keeps its two clocks: ``valid_at`` and ``invalid_at`` are when it held, ``created_at`` when it came to be known;
one that is over is history. Messages become turns at their own times.
"""

import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from memproxy.importers.reading import list_of, objects, text_of, time_of, with_clear_ids, without_none, written_at

_FACTS = ("facts", "edges", "relevant_facts")
_THREADS = ("threads", "sessions")
_KEYS = (*_FACTS, "messages", *_THREADS)
_NAMESPACE = uuid.UUID("c5d1f7ab-6f0a-5a5b-8f25-2f8f5c7f8f11")
_ROLES = {"human": "user", "ai": "assistant", "norole": "user", "function": "tool"}
_KNOWN_ROLES = frozenset({"user", "assistant", "system", "developer", "tool", "document"})
_BATCH = 500


def zep_lines(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a Zep export. Raises `errors.ConfigError` when it is none."""
    waiting: list[dict[str, Any]] = []
    untimed = written_at(path)
    for key, value in objects(path, _KEYS):
        if key in _THREADS or "messages" in value:
            yield from _thread(value)
        elif "fact" in value:
            yield from _fact(value, untimed)
        else:
            waiting.append(value)
            if len(waiting) >= _BATCH:
                yield from _conversations(waiting)
                waiting = []
    yield from _conversations(waiting)


def _fact(value: dict[str, Any], untimed: str) -> Iterator[dict[str, Any]]:
    content = text_of(value.get("fact"))
    if content is None:
        return
    valid_from = time_of(value.get("valid_at"))
    valid_to = time_of(value.get("invalid_at"), value.get("expired_at"))
    created = time_of(value.get("created_at"), valid_from) or untimed
    if valid_from is not None and valid_to is not None and valid_to < valid_from:
        valid_to = valid_from
    yield {
        "memory": without_none(
            {
                "id": text_of(value.get("uuid")) or str(uuid.uuid5(_NAMESPACE, content)),
                "content": content,
                "created_at": created,
                "valid_from": valid_from,
                "valid_to": valid_to,
                "user_id": text_of(value.get("user_id")),
                "source": "import",
            }
        )
        | {"active": valid_to is None or datetime.fromisoformat(valid_to) > datetime.now(UTC)}
    }


def _thread(value: dict[str, Any]) -> Iterator[dict[str, Any]]:
    session = value.get("thread_id") or value.get("session_id") or value.get("uuid")
    messages = [one for one in list_of(value.get("messages")) if isinstance(one, dict)]
    user = value.get("user_id")
    for begin in range(0, len(messages), _BATCH):
        some = messages[begin : begin + _BATCH]
        yield from _conversations([{"session_id": session, "user_id": user, **one} for one in some])


def _conversations(messages: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Messages by session, each session's as one conversation."""
    groups: dict[tuple[str, str | None], list[dict[str, Any]]] = {}
    for one in messages:
        content = text_of(one.get("content"))
        if content is not None:
            session = text_of(one.get("thread_id") or one.get("session_id")) or "zep"
            groups.setdefault((session, text_of(one.get("user_id"))), []).append(_message(one, content))
    for (session, user), said in groups.items():
        messages = with_clear_ids(said)
        yield {"turns": without_none({"session_id": session[:256], "user_id": user}) | {"messages": messages}}


def _message(one: dict[str, Any], content: str) -> dict[str, Any]:
    """Newer exports say who spoke in ``role`` and ``name``, older ones in ``role_type`` and ``role``."""
    said = text_of(one.get("role_type")) or text_of(one.get("role")) or "user"
    role = _ROLES.get(said, said)
    name = text_of(one.get("name")) or (text_of(one.get("role")) if one.get("role_type") else None)
    return without_none(
        {
            "id": text_of(one.get("uuid")),
            "role": role if role in _KNOWN_ROLES else "document",
            "content": content,
            "name": name[:200] if name else None,
            "timestamp": time_of(one.get("created_at")),
        }
    )
