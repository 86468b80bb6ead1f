"""The memory object: what is stored, found, injected, corrected and erased."""

import enum
import hashlib
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

SCHEMA_VERSION = 1  # version of the stored form, written beside every memory, for later readers to migrate it


class Kind(enum.StrEnum):
    """What a memory is: facts, ways of doing, episodes, reflections, or one verbatim message (``turn``)."""

    SEMANTIC = "semantic"
    PROCEDURAL = "procedural"
    EPISODIC = "episodic"
    REFLECTIVE = "reflective"
    TURN = "turn"


FACTS = tuple(kind for kind in Kind if kind is not Kind.TURN)  # all kinds but verbatim messages


class Trust(enum.StrEnum):
    """Who said it. Trust follows the source through everything that is derived from it."""

    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"
    DOCUMENT = "document"

    @property
    def level(self) -> int:
        """Higher is more trusted: user 3, assistant 2, tool 1, document 0."""
        return _TRUST_LEVELS[self.value]


_TRUST_LEVELS = {"user": 3, "assistant": 2, "tool": 1, "document": 0}


class Source(enum.StrEnum):
    """By which way a memory came in."""

    CONVERSATION = "conversation"
    API = "api"
    TOOL = "tool"
    DREAM = "dream"
    IMPORT = "import"


class Relation(msgspec.Struct, frozen=True, kw_only=True):
    """An edge of the memory graph, with the interval in which it held."""

    subject: str
    predicate: str
    object: str
    valid_from: datetime | None = None
    valid_to: datetime | None = None


class Memory(msgspec.Struct, kw_only=True):
    """One statement (or one verbatim turn) of one user: the public fields, and three that the API does not show:
    ``tenant``, ``slot`` (which at most one active memory of a scope may hold; `core.slots`) and ``schema``. Times are
    aware, in UTC; ``confidence`` and ``importance`` lie in [0, 1]. An id names one statement for ever.
    ``valid_from``/``valid_to`` say when it held, ``created_at`` when we learned it (for a turn: when it was said).
    """

    id: str
    tenant: str
    user_id: str
    kind: Kind
    content: str
    created_at: datetime
    updated_at: datetime
    project_id: str | None = None
    agent_id: str | None = None
    session_id: str | None = None
    category: str | None = None
    tags: list[str] = []
    entities: list[str] = []
    subject: str | None = None
    predicate: str | None = None
    object: str | None = None
    aspect: str | None = None
    stance: str | None = None
    slot: str | None = None
    confidence: float = 1.0
    importance: float = 0.5
    trust: Trust = Trust.USER
    quarantined: bool = False
    source: Source = Source.CONVERSATION
    turn_ids: list[str] = []
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    active: bool = True
    supersedes: str | None = None
    superseded_by: str | None = None
    access_count: int = 0
    last_accessed_at: datetime | None = None
    expires_at: datetime | None = None
    relations: list[Relation] = []
    wing: str | None = None
    room: str | None = None
    closet: str | None = None
    pointer: str | None = None
    metadata: dict[str, Any] = {}
    schema: int = SCHEMA_VERSION

    @property
    def place(self) -> tuple[str | None, str | None]:
        """The project and agent that it is of."""
        return self.project_id, self.agent_id

    def meets(self, other: "Memory") -> bool:
        """Whether somebody may see both: of each of project and agent both have the same, or one has none."""
        return all(None in (mine, its) or mine == its for mine, its in zip(self.place, other.place, strict=True))


TEXT_FIELDS = frozenset(
    {"content", "category", "tags", "entities", "subject", "predicate", "object", "aspect", "stance", "relations"}
    | {"wing", "closet", "metadata"}
)
"""Fields that hold what somebody wrote, or are named after it; the others are ids, times, numbers and fixed words."""

PLANTED = "planted"
"""Key in the metadata of a turn that gives instructions to a model, as injections do. Recall gives it to nobody, unless
the user said it himself; the name is also that reason in a receipt.
"""

SOURCES = "sources"  # name in ``metadata``: the ids of the memories that a dream made this one of
ASKED = "asked"  # key in a user's turn's metadata: whether a model found nothing told in it (`core.telling.only_asks`)
INTERNAL_FIELDS = frozenset({"tenant", "slot", "schema"})  # fields of the stored form that no API answer shows


def without(metadata: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Metadata without what has these names."""
    return {name: value for name, value in metadata.items() if name not in names}


def to_payload(memory: Memory) -> dict[str, Any]:
    """The stored form: JSON types only, every field present, times as RFC 3339 strings ending in ``Z``."""
    payload: dict[str, Any] = msgspec.to_builtins(memory)
    return payload


def from_payload(payload: dict[str, Any]) -> Memory:
    """Read a stored form back, of this or an older schema version.

    Raises:
        msgspec.ValidationError: the payload is not a memory (damaged, or written by a newer version).
    """
    return msgspec.convert(payload, Memory)


def to_public(memory: Memory, *, nulls: bool = True) -> dict[str, Any]:
    """The fields that the API shows; without ``nulls`` only those with a value (``metadata`` stays as it is)."""
    shown = {name: value for name, value in to_payload(memory).items() if name not in INTERNAL_FIELDS}
    if nulls:
        return shown
    shown["relations"] = [_without_nulls(relation) for relation in shown["relations"]]
    return _without_nulls(shown)


def _without_nulls(shown: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in shown.items() if value is not None}


_NOT_ITS_OWN = INTERNAL_FIELDS | {"access_count", "last_accessed_at"}
"""Being recalled is no change of what a memory says: an editor's If-Match must not fail by it."""


def noted_id(metadata: Mapping[str, Any], name: str) -> str | None:
    """A text, mostly an id, that memproxy notes in metadata under this name; what a client wrote there may be none."""
    value = metadata.get(name)
    return value if isinstance(value, str) else None


def noted_ids(metadata: Mapping[str, Any], name: str) -> list[str]:
    """The ids listed under this name in a memory's metadata."""
    value = metadata.get(name)
    return [text for text in value if isinstance(text, str)] if isinstance(value, list) else []


def is_told(memory: Memory) -> bool:
    """Whether a memory holds and may be recalled."""
    return memory.active and not memory.quarantined and memory.superseded_by is None


def version_of(memory: Memory) -> str:
    """32 hex digits that change with every public field but the access counts."""
    fields = {name: value for name, value in to_payload(memory).items() if name not in _NOT_ITS_OWN}
    return digest(msgspec.json.encode(fields, order="deterministic"))


def digest(body: bytes) -> str:
    """32 hex digits that name these bytes."""
    return hashlib.blake2b(body, digest_size=16).hexdigest()


MADE_HERE = "mem_"  # how the ids of memories begin that are stored by a call
SHORT_ID = 8


def short_id(memory_id: str) -> str:
    """Eight plain characters that stand for a memory where it is cited (ids of turns may be any text)."""
    return _plain(memory_id.removeprefix(MADE_HERE))[:SHORT_ID]


def is_cited_by(memory_id: str, cited: str) -> bool:
    """Whether ``cited`` is the memory's short id, or a longer beginning of the id. Fewer than eight
    characters stand for nothing but an id that has no more: of a longer one they are a part.
    """
    # blocks of earlier versions cite the whole; people paste an id as it is written
    forms = (_plain(memory_id.removeprefix(MADE_HERE)), _plain(memory_id), memory_id)
    return any(form == cited or (len(cited) >= SHORT_ID and form.startswith(cited)) for form in forms)


def _plain(memory_id: str) -> str:
    return "".join(c for c in memory_id if c.isascii() and c.isalnum())
