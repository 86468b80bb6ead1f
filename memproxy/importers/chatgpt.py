"""ChatGPT: ``conversations.json``, or the archive that holds it.

A conversation is a tree; what led to its last message is taken, what was regenerated or edited away is not. Text of the
user and the assistant becomes turns at their own times; images, files, tools and hidden system texts are left out.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from memproxy.importers.reading import list_of, object_of, objects, text_of, time_of, with_clear_ids, without_none

_ROLES = frozenset({"user", "assistant"})
_TEXT_TYPES = frozenset({"text", "multimodal_text"})
_LONGEST = 100_000
"""Messages of one conversation: a tree that leads in a circle ends somewhere."""

_BATCH = 500
"""Messages in one line."""


def chatgpt_lines(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a ChatGPT export. Raises `errors.ConfigError` when it is none."""
    for _, conversation in objects(path, ("conversations",), member="conversations.json"):
        said = with_clear_ids(line for message in _branch(conversation) if (line := _message(message)) is not None)
        session = text_of(conversation.get("conversation_id") or conversation.get("id"))
        about = without_none({"title": text_of(conversation.get("title"))})
        began = time_of(conversation.get("create_time"))
        for begin in range(0, len(said), _BATCH):
            turns = {"session_id": session, "timestamp": began, "metadata": about}
            yield {"turns": without_none(turns) | {"messages": said[begin : begin + _BATCH]}}


def _branch(conversation: dict[str, Any]) -> list[dict[str, Any]]:
    """The messages from the first to the current one."""
    nodes = conversation.get("mapping")
    if not isinstance(nodes, dict):
        return []
    name = text_of(conversation.get("current_node")) or _newest_leaf(nodes)
    found: list[dict[str, Any]] = []
    while name in nodes and isinstance(nodes[name], dict) and len(found) < _LONGEST:
        node = nodes.pop(name)
        found.append(object_of(node.get("message")))
        name = text_of(node.get("parent"))
    return found[::-1]


def _newest_leaf(nodes: dict[str, Any]) -> str | None:
    leaves = [name for name, node in nodes.items() if isinstance(node, dict) and not node.get("children")]
    return leaves[-1] if leaves else None


def _message(message: dict[str, Any]) -> dict[str, Any] | None:
    author, content = message.get("author"), message.get("content")
    if not isinstance(author, dict) or not isinstance(content, dict):
        return None
    hidden = object_of(message.get("metadata")).get("is_visually_hidden_from_conversation")
    to_a_tool = message.get("recipient") not in (None, "all")
    if (
        text_of(author.get("role")) not in _ROLES
        or text_of(content.get("content_type")) not in _TEXT_TYPES
        or hidden
        or to_a_tool
    ):
        return None
    text = text_of("\n".join(part for part in list_of(content.get("parts")) if isinstance(part, str)))
    if text is None:
        return None
    return without_none(
        {
            "id": text_of(message.get("id")),
            "role": author["role"],
            "content": text,
            "timestamp": time_of(message.get("create_time")),
        }
    )
