"""Other products' exports, read as lines of our own form (`core.transfer_lines`), with the times that they tell.

- mem0: what ``get_all()`` answers (``{"results": […]}`` with ``relations`` beside, or the list itself), or the
  export of its platform (``{"memories": […]}``).
- Zep: facts and edges of its graph (``facts``, ``edges``, ``relevant_facts``), messages of a thread or session
  (``messages``), and threads that hold their messages (``threads``, ``sessions``).
- ChatGPT: ``conversations.json``, or the archive that holds it.

Large files are read piece by piece, and a value may be anything. A memory without a text becomes a line without one,
which the import tells of.
"""

import uuid
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import IO, Any
from zipfile import BadZipFile, ZipFile

import ijson
from ijson.common import JSONError

from memproxy.errors import ConfigError

MOST_TEXT = 100_000
"""Characters of one memory or message that the API takes; what is longer is cut."""

MOST_BRANCH = 100_000
"""Messages of one ChatGPT conversation: a tree that leads in a circle ends somewhere."""

BATCH = 500
"""Messages in one line."""

_MEM0_LISTS = ("results", "memories", "relations")
_MEM0_IDS = uuid.UUID("0a5c2c0e-7a44-5a0b-9a3c-5b1f4b7d6c21")
_ZEP_THREADS = ("threads", "sessions")
_ZEP_LISTS = ("facts", "edges", "relevant_facts", "messages", *_ZEP_THREADS)
_ZEP_IDS = uuid.UUID("c5d1f7ab-6f0a-5a5b-8f25-2f8f5c7f8f11")
_ZEP_ROLES = {"human": "user", "ai": "assistant", "norole": "user", "function": "tool"}
_KNOWN_ROLES = frozenset({"user", "assistant", "system", "developer", "tool", "document"})
_CHATGPT_IDS = uuid.UUID("5d0c6d7e-3b0f-5c44-9a51-7e1f0c9b2a68")
_MESSAGE_IDS = uuid.UUID("b1a7e0c2-94d3-5f0e-8d6a-2f4c7b9e1d35")
_CHATGPT_ROLES = frozenset({"user", "assistant"})
_CHATGPT_TEXTS = frozenset({"text", "multimodal_text"})


def mem0_lines(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a mem0 export: a memory becomes a statement with its own id, its times, its categories as tags;
    ``run_id`` is its session, ``agent_id`` its agent. Relations become edges of a memory each.
    """
    untimed = written_at(path)
    for key, value in objects(path, _MEM0_LISTS):
        line = _mem0_relation(value, untimed) if key == "relations" else _mem0_memory(value, untimed)
        if line is not None:
            yield {"memory": line}


def _mem0_memory(value: dict[str, Any], untimed: str) -> dict[str, Any]:
    content = text_of(value.get("memory") or value.get("text") or value.get("data"))
    created = time_of(value.get("created_at")) or untimed
    categories = [name for category in list_of(value.get("categories")) if (name := text_of(category)) is not None]
    return without_none(
        {
            "id": _mem0_id(value, content),
            "content": content,
            "kind": "procedural" if value.get("memory_type") == "procedural_memory" else "semantic",
            "created_at": created,
            "updated_at": time_of(value.get("updated_at")) or created,
            "expires_at": time_of(value.get("expiration_date")),
            "user_id": text_of(value.get("user_id")),
            "agent_id": text_of(value.get("agent_id")),
            "session_id": text_of(value.get("run_id")),
            "tags": [name[:200] for name in categories][:100],
            "metadata": object_of(value.get("metadata")),
            "source": "import",
        }
    )


def _mem0_id(value: dict[str, Any], content: str | None) -> str:
    """Its own id; one that was not exported is made of what it says, so that a second import is the same."""
    origin = "\x1f".join(str(value.get(name)) for name in ("user_id", "agent_id", "run_id"))
    return text_of(value.get("id")) or str(uuid.uuid5(_MEM0_IDS, f"{origin}\x1f{content}"))


def _mem0_relation(value: dict[str, Any], untimed: str) -> dict[str, Any] | None:
    subject = text_of(value.get("source"))
    predicate = text_of(value.get("relationship") or value.get("relation"))
    target = text_of(value.get("target") or value.get("destination"))
    if subject is None or predicate is None or target is None:
        return None
    content = f"{subject} {predicate.replace('_', ' ')} {target}"
    return without_none(
        {
            "id": _mem0_id({**value, "id": None}, content),
            "content": content,
            "created_at": time_of(value.get("created_at")) or untimed,
            "user_id": text_of(value.get("user_id")),
            "entities": [subject[:200], target[:200]],
            "relations": [{"subject": subject, "predicate": predicate, "object": target}],
            "source": "import",
        }
    )


def zep_lines(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a Zep export. A fact keeps its two clocks: ``valid_at`` and ``invalid_at`` are when it held,
    ``created_at`` when it came to be known; one that is over is history. Messages become turns at their own times.
    """
    waiting: list[dict[str, Any]] = []
    untimed = written_at(path)
    for key, value in objects(path, _ZEP_LISTS):
        if key in _ZEP_THREADS or "messages" in value:
            messages = [message for message in list_of(value.get("messages")) if isinstance(message, dict)]
            named = (text_of(value.get(name)) for name in ("thread_id", "session_id", "uuid"))
            session = next(filter(None, named), None) or _zep_session({**value, **(messages[0] if messages else {})})
            messages = [{"session_id": session, "user_id": value.get("user_id")} | message for message in messages]
            for begin in range(0, len(messages), BATCH):
                yield from _zep_conversations(messages[begin : begin + BATCH], untimed)
        elif "fact" in value:
            yield {"memory": _zep_fact(value, untimed)}
        else:
            waiting.append(value)
            if len(waiting) >= BATCH:
                yield from _zep_conversations(waiting, untimed)
                waiting = []
    yield from _zep_conversations(waiting, untimed)


def _zep_session(began: dict[str, Any]) -> str:
    """The name of a thread that was exported without one: made of its first message, as ChatGPT's are."""
    first = (text_of(began.get("uuid")), time_of(began.get("created_at")), text_of(began.get("content")))
    return str(uuid.uuid5(_ZEP_IDS, "\x1f".join(map(str, first))))


def _zep_fact(value: dict[str, Any], untimed: str) -> dict[str, Any]:
    content = text_of(value.get("fact"))
    valid_from = time_of(value.get("valid_at"))
    valid_to = time_of(value.get("invalid_at"), value.get("expired_at"))
    created = time_of(value.get("created_at"), valid_from) or untimed
    if valid_from is not None and valid_to is not None and valid_to < valid_from:
        valid_to = valid_from
    memory = {
        "id": text_of(value.get("uuid")) or str(uuid.uuid5(_ZEP_IDS, str(content))),
        "content": content,
        "created_at": created,
        "valid_from": valid_from,
        "valid_to": valid_to,
        "user_id": text_of(value.get("user_id")),
        "source": "import",
        "active": valid_to is None or datetime.fromisoformat(valid_to) > datetime.now(UTC),
    }
    return without_none(memory)


def _zep_conversations(messages: list[dict[str, Any]], untimed: str) -> Iterator[dict[str, Any]]:
    """Messages by session, each session's as one conversation; one without a time of its own is of ``untimed``."""
    groups: dict[tuple[str, str | None], list[dict[str, Any]]] = {}
    for message in messages:
        content = text_of(message.get("content"))
        if content is not None:
            session = text_of(message.get("thread_id") or message.get("session_id")) or "zep"
            groups.setdefault((session, text_of(message.get("user_id"))), []).append(_zep_message(message, content))
    for (session, user), written in groups.items():
        turns = {"session_id": session[:256], "user_id": user, "timestamp": untimed}
        yield {"turns": without_none(turns) | {"messages": with_ids(written, session)}}


def _zep_message(message: dict[str, Any], content: str) -> dict[str, Any]:
    """Newer exports say who spoke in ``role`` and ``name``, older ones in ``role_type`` and ``role``."""
    speaker = text_of(message.get("role_type")) or text_of(message.get("role")) or "user"
    role = _ZEP_ROLES.get(speaker, speaker)
    name = text_of(message.get("name")) or (text_of(message.get("role")) if message.get("role_type") else None)
    return without_none(
        {
            "id": text_of(message.get("uuid")),
            "role": role if role in _KNOWN_ROLES else "document",
            "content": content,
            "name": name[:200] if name else None,
            "timestamp": time_of(message.get("created_at")),
        }
    )


def chatgpt_lines(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a ChatGPT export. A conversation is a tree; what led to its last message is taken, what was
    regenerated or edited away is not. Text of the user and the assistant becomes turns at their own times; images,
    files, tools and hidden system texts are left out.
    """
    untimed = written_at(path)
    for _, conversation in objects(path, ("conversations",), member="conversations.json"):
        messages = [line for message in _branch(conversation) if (line := _chatgpt_message(message)) is not None]
        if not messages:
            continue
        began = time_of(conversation.get("create_time"))
        session = text_of(conversation.get("conversation_id") or conversation.get("id"))
        if session is None:
            # one that was exported without an id is named after how it began, so that a second import, and one of a
            # later export in which it goes on, is the same conversation
            first = messages[0]
            begun = "\x1f".join(str(part) for part in (began, first.get("id"), first["role"], first["content"]))
            session = str(uuid.uuid5(_CHATGPT_IDS, begun))
        with_all_ids = with_ids(messages, session)
        about = without_none({"title": text_of(conversation.get("title"))})
        for begin in range(0, len(with_all_ids), BATCH):
            turns = {"session_id": session, "timestamp": began or untimed, "metadata": about}
            yield {"turns": without_none(turns) | {"messages": with_all_ids[begin : begin + BATCH]}}


def _branch(conversation: dict[str, Any]) -> list[dict[str, Any]]:
    """The messages from the first to the current one, or to the newest that none answers."""
    nodes = object_of(conversation.get("mapping"))
    leaves = [name for name, node in nodes.items() if isinstance(node, dict) and not node.get("children")]
    name = text_of(conversation.get("current_node")) or (leaves[-1] if leaves else None)
    branch: list[dict[str, Any]] = []
    while name in nodes and isinstance(nodes[name], dict) and len(branch) < MOST_BRANCH:
        node = nodes.pop(name)
        branch.append(object_of(node.get("message")))
        name = text_of(node.get("parent"))
    return branch[::-1]


def _chatgpt_message(message: dict[str, Any]) -> dict[str, Any] | None:
    role, content = object_of(message.get("author")).get("role"), object_of(message.get("content"))
    hidden = object_of(message.get("metadata")).get("is_visually_hidden_from_conversation")
    to_a_tool = message.get("recipient") not in (None, "all")
    is_text = text_of(role) in _CHATGPT_ROLES and text_of(content.get("content_type")) in _CHATGPT_TEXTS
    text = text_of("\n".join(part for part in list_of(content.get("parts")) if isinstance(part, str)))
    if not is_text or hidden or to_a_tool or text is None:
        return None
    return without_none(
        {
            "id": text_of(message.get("id")),
            "role": role,
            "content": text,
            "timestamp": time_of(message.get("create_time")),
        }
    )


@contextmanager
def opened(path: Path, member: str | None = None) -> Iterator[IO[bytes]]:
    """The file, or the member of that name where it is a ZIP archive.

    Raises:
        ConfigError: it cannot be read.
    """
    try:
        with path.open("rb") as file:
            begin = file.read(4)
            if begin != b"PK\x03\x04" or member is None:
                file.seek(len(BOM_UTF8) if begin.startswith(BOM_UTF8) else 0)
                yield file
                return
        with ZipFile(path) as archive:
            name = next((name for name in archive.namelist() if name.split("/")[-1] == member), None)
            if name is None:
                raise ConfigError(f"{path} holds no {member}. Is it the right archive?")
            with archive.open(name) as file:
                yield file
    except (OSError, BadZipFile, RuntimeError) as error:  # the last: encrypted, or packed by an unknown method
        raise ConfigError(f"{path} cannot be read: {error}.") from error


def objects(path: Path, keys: Sequence[str], *, member: str | None = None) -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects of the list that the file is (under the name ""), or of its lists of these names, one at a time.

    Raises:
        ConfigError: it is no JSON, or has none of these lists.
    """
    is_found = False
    try:
        with opened(path, member) as file:
            while (begin := file.read(1)).isspace():
                pass
        for key in [""] if begin == b"[" else keys:
            with opened(path, member) as file:
                for value in ijson.items(file, f"{key}.item" if key else "item"):
                    is_found = True
                    if isinstance(value, dict):
                        yield key, _with_floats(value)
    except JSONError as error:
        raise ConfigError(f"{path} is no JSON: {error}. Is the file complete?") from error
    if not is_found and begin != b"[":
        raise ConfigError(f"{path} has none of the lists {', '.join(keys)}. Is it the right format?")


def _with_floats(value: Any) -> Any:
    """The parser reads fractions as decimals, which keeps it from refusing integers of more than 64 bits."""
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, dict):
        return {name: _with_floats(inner) for name, inner in value.items()}
    return [_with_floats(inner) for inner in value] if isinstance(value, list) else value


def text_of(value: object) -> str | None:
    """A text that says something, without characters that cannot be kept; None for anything else."""
    if not isinstance(value, str):
        return None
    cleaned = value.replace("\x00", "").encode("utf-8", "replace").decode().strip()
    return cleaned[:MOST_TEXT] or None


def time_of(*values: object) -> str | None:
    """The first of these that is a time (text or Unix seconds), as RFC 3339 in UTC."""
    for value in values:
        try:
            if isinstance(value, int | float) and not isinstance(value, bool):
                return datetime.fromtimestamp(value, UTC).isoformat()
            if isinstance(value, str) and value:
                read = datetime.fromisoformat(value)
                return (read if read.tzinfo else read.replace(tzinfo=UTC)).astimezone(UTC).isoformat()
        except (ValueError, OverflowError, OSError):
            continue
    return None


def written_at(path: Path) -> str:
    """When the file was written, as RFC 3339 in UTC: what it holds without a time is no later, and a second import of
    it is the same.

    Raises:
        ConfigError: it cannot be read.
    """
    try:
        return datetime.fromtimestamp(path.stat().st_mtime, UTC).isoformat()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error}.") from error


def list_of(value: object) -> list[Any]:
    """The list; an empty one for anything else."""
    return value if isinstance(value, list) else []


def object_of(value: object) -> dict[str, Any]:
    """The object; an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def without_none(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields that have a value."""
    return {name: value for name, value in fields.items() if value not in (None, [], {})}


def with_ids(messages: Iterable[dict[str, Any]], session: str) -> list[dict[str, Any]]:
    """The messages of this conversation. One that was exported without an id and without a time gets an id made of what
    it says: it takes the time of the file, which a copy of the file does not share, and is to be the same there. One
    without a time, after one that has a time, was said then: with the time of the file it would be the last. One whose
    id another one before it has, which says something else, goes without: the API would refuse both, and it is told
    apart by what it says then.
    """
    counts: Counter[tuple[str, str]] = Counter()
    first: dict[str, tuple[str, str]] = {}
    named: list[dict[str, Any]] = []
    timed: dict[str, Any] = {}
    for message in messages:
        words = (message["role"], message["content"])
        counts[words] += 1
        timed = {"timestamp": message["timestamp"]} if "timestamp" in message else timed
        complete = {**timed, **message}
        if "id" not in message and "timestamp" not in message:
            complete["id"] = str(uuid.uuid5(_MESSAGE_IDS, "\x1f".join((session, *words, str(counts[words])))))
        if "id" in complete and first.setdefault(complete["id"], words) != words:
            del complete["id"]
        named.append(complete)
    return named


IMPORTERS: dict[str, Callable[[Path], Iterator[dict[str, Any]]]] = {
    "mem0": mem0_lines,
    "zep": zep_lines,
    "chatgpt": chatgpt_lines,
}
"""By the format's name. Each yields ``{"memory": …}`` and ``{"turns": …}``, and raises `errors.ConfigError` for a file
that is none of its own."""
