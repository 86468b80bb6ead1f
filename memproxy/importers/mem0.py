"""mem0: what ``get_all()`` answers (``{"results": […]}`` with ``relations`` beside, or the list itself), or the
platform's export (``{"memories": […]}``).

A memory becomes a statement with its own id, its times, its categories as tags; ``run_id`` is its session, ``agent_id``
its agent. Relations become edges of a memory each.
"""

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from memproxy.importers.reading import list_of, objects, text_of, time_of, without_none, written_at

_KEYS = ("results", "memories", "relations")
_NAMESPACE = uuid.UUID("0a5c2c0e-7a44-5a0b-9a3c-5b1f4b7d6c21")


def mem0_lines(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a mem0 export. Raises `errors.ConfigError` when it is none."""
    untimed = written_at(path)
    for key, value in objects(path, _KEYS):
        line = _relation(value, untimed) if key == "relations" else _memory(value, untimed)
        if line is not None:
            yield {"memory": line}


def _memory(value: dict[str, Any], untimed: str) -> dict[str, Any] | None:
    content = text_of(value.get("memory") or value.get("text") or value.get("data"))
    if content is None:
        return None
    created = time_of(value.get("created_at")) or untimed
    categories = [name for one in list_of(value.get("categories")) if (name := text_of(one)) is not None]
    return without_none(
        {
            "id": _id(value, content),
            "content": content,
            "kind": "procedural" if value.get("memory_type") == "procedural_memory" else "semantic",
            "created_at": created,
            "updated_at": time_of(value.get("updated_at")) or created,
            "expires_at": time_of(value.get("expiration_date")),
            "user_id": text_of(value.get("user_id")),
            "agent_id": text_of(value.get("agent_id")),
            "session_id": text_of(value.get("run_id")),
            "tags": [name[:200] for name in categories][:100],
            "metadata": value.get("metadata") if isinstance(value.get("metadata"), dict) else None,
            "source": "import",
        }
    )


def _id(value: dict[str, Any], content: str) -> str:
    """Its own id; one that was not exported is made of what it says, so that a second import is the same."""
    said = "\x1f".join(str(value.get(name)) for name in ("user_id", "agent_id", "run_id"))
    return text_of(value.get("id")) or str(uuid.uuid5(_NAMESPACE, f"{said}\x1f{content}"))


def _relation(value: dict[str, Any], untimed: str) -> dict[str, Any] | None:
    subject = text_of(value.get("source"))
    predicate = text_of(value.get("relationship") or value.get("relation"))
    target = text_of(value.get("target") or value.get("destination"))
    if subject is None or predicate is None or target is None:
        return None
    edge = {"subject": subject, "predicate": predicate, "object": target}
    content = f"{subject} {predicate.replace('_', ' ')} {target}"
    return without_none(
        {
            "id": _id({**value, "id": None}, content),
            "content": content,
            "created_at": time_of(value.get("created_at")) or untimed,
            "user_id": text_of(value.get("user_id")),
            "entities": [subject[:200], target[:200]],
            "relations": [edge],
            "source": "import",
        }
    )
