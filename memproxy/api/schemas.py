"""What the memory API's calls take: one model each. `/openapi.json` is generated from these."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
)

from memproxy.api.fields import (
    AnyKind,
    Content,
    FactKind,
    Id,
    Label,
    Labels,
    Limit,
    MessageContent,
    Metadata,
    OptionalTime,
    Phrase,
    Query,
    ReadableContent,
    Role,
    Trusted,
    Unit,
    as_list,
)

MAX_MESSAGES = 2_000
RESERVED_METADATA = frozenset({"role", "seq", "name"})
"""Keys of a turn's metadata that are ours."""


def refuse_turn(value: object) -> object:
    """A memory's kind; a turn is not written this way.

    Raises:
        ValueError: it is ``turn``.
    """
    if value == "turn":
        raise ValueError("cannot be turn here: a turn is a verbatim message, send it to POST /v1/memory/turns")
    return value


Kind = Annotated[FactKind, BeforeValidator(refuse_turn)]


def _many(item: dict[str, Any]) -> WithJsonSchema:
    return WithJsonSchema({"anyOf": [item, {"type": "array", "items": item}]})


_TEXT = {"type": "string"}
_KINDS = {"enum": ["semantic", "procedural", "episodic", "reflective", "turn"]}
ManyIds = Annotated[list[Id], BeforeValidator(as_list), Field(max_length=200), _many(_TEXT)]
ManyLabels = Annotated[list[Label], BeforeValidator(as_list), Field(max_length=200), _many(_TEXT)]
ManyPhrases = Annotated[list[Phrase], BeforeValidator(as_list), Field(max_length=200), _many(_TEXT)]
ManyKinds = Annotated[list[AnyKind], BeforeValidator(as_list), Field(max_length=10), _many(_KINDS)]
ManyFlags = Annotated[list[bool], BeforeValidator(as_list), Field(max_length=2), _many({"type": "boolean"})]


Cursor = Annotated[str, Field(max_length=2_000)]


class Body(BaseModel):
    """A JSON body or a query string: unknown fields are errors, nothing is coerced."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class Lenient(Body):
    """A part of somebody else's format: fields that we do not read may be there."""

    model_config = ConfigDict(extra="ignore", strict=True, allow_inf_nan=False)


class RelationBody(Body):
    """An edge of the memory graph, with the interval in which it held."""

    subject: Phrase
    predicate: Phrase
    object: Phrase
    valid_from: OptionalTime = None
    valid_to: OptionalTime = None


class MemoryFields(Body):
    """What a client may say of a memory besides its content."""

    kind: Kind = "semantic"
    category: Label | None = None
    tags: Labels = []
    entities: Labels = []
    subject: Phrase | None = None
    predicate: Phrase | None = None
    object: Phrase | None = None
    aspect: Phrase | None = None
    stance: Phrase | None = None
    confidence: Unit = 1.0
    importance: Unit = 0.5
    trust: Trusted = "user"
    valid_from: OptionalTime = None
    valid_to: OptionalTime = None
    expires_at: OptionalTime = None
    relations: Annotated[list[RelationBody], Field(max_length=100)] = []
    metadata: Metadata = {}
    user_id: Id | None = None
    project_id: Id | None = None
    agent_id: Id | None = None
    session_id: Id | None = None

    @field_validator("valid_to")
    @classmethod
    def _validity_is_an_interval(cls, valid_to: datetime | None, info: ValidationInfo) -> datetime | None:
        valid_from = info.data.get("valid_from")
        if valid_from and valid_to and valid_to < valid_from:
            raise ValueError("must not lie before valid_from")
        return valid_to


class NewMemory(MemoryFields):
    """`POST /v1/memory`."""

    content: Content


class MemoryEdit(MemoryFields):
    """`PATCH /v1/memory/{id}`: only the fields that are given change. ``user_id`` says whose memory it is."""

    content: Content = ""


class MessageBody(Body):
    """One message of a conversation."""

    role: Role
    content: MessageContent
    id: Id | None = None
    name: Label | None = None
    timestamp: OptionalTime = None


class NewTurns(Body):
    """`POST /v1/memory/turns`. ``timestamp`` is the time of the messages that have none of their own."""

    session_id: Id | None = None
    user_id: Id | None = None
    project_id: Id | None = None
    agent_id: Id | None = None
    messages: Annotated[list[MessageBody], Field(min_length=1, max_length=MAX_MESSAGES)]
    timestamp: OptionalTime = None
    metadata: Metadata = {}

    @field_validator("metadata")
    @classmethod
    def _metadata_is_theirs(cls, metadata: dict[str, Any]) -> dict[str, Any]:
        if taken := sorted(RESERVED_METADATA & metadata.keys()):
            raise ValueError(f"must not set {', '.join(taken)}: these say who spoke and in which order")
        return metadata


class Filters(Body):
    """What narrows a list or a search."""

    user_id: Id | None = None
    project_id: ManyIds = []
    agent_id: ManyIds = []
    session_id: ManyIds = []
    kind: ManyKinds = []
    category: ManyLabels = []
    tag: ManyLabels = []
    entity: ManyLabels = []
    wing: ManyPhrases = []
    room: ManyIds = []
    closet: ManyLabels = []
    active: ManyFlags = []
    as_of: OptionalTime = None


class ListQuery(Filters):
    """`GET /v1/memory`."""

    limit: Limit = 50
    cursor: Cursor | None = None


class SearchBody(Filters):
    """`POST /v1/memory/search`."""

    query: Query
    limit: Limit = 10
    explain: bool = False


class ChatMessage(Lenient):
    """A message of the chat request for which memory is recalled."""

    role: str
    content: ReadableContent = ""


class RecallBody(Body):
    """`POST /v1/memory/recall`."""

    query: Query
    messages: Annotated[list[ChatMessage], Field(max_length=MAX_MESSAGES)] = []
    session_id: Id | None = None
    user_id: Id | None = None
    project_id: Id | None = None
    agent_id: Id | None = None
    max_tokens: Annotated[int, Field(ge=0, le=100_000)] | None = None
    explain: bool = False


class OneQuery(Body):
    """The query string of a call about one memory: whose it is."""

    user_id: Id | None = None
    project_id: Id | None = None
    agent_id: Id | None = None
    session_id: Id | None = None


class ScopeQuery(Body):
    """`DELETE /v1/memory`: at least one of these."""

    user_id: Id | None = None
    project_id: Id | None = None
    session_id: Id | None = None


class SessionQuery(Body):
    """The query string of a call that only needs to know whose it is."""

    user_id: Id | None = None


class LearnQuery(Body):
    """The query string of `POST /v1/memory/sessions/{id}/end` and `/mine`: whose, and whether to wait."""

    user_id: Id | None = None
    wait: bool = False


class LearnScope(Body):
    """The body of `POST /v1/memory/sessions/{id}/end` and `/mine`; it may be left out."""

    user_id: Id | None = None
    project_id: Id | None = None
    agent_id: Id | None = None


class PlaceQuery(Body):
    """Whose memories are counted."""

    user_id: Id | None = None
    project_id: Id | None = None
    agent_id: Id | None = None


class PalaceQuery(PlaceQuery):
    """`GET /v1/memory/palace`: one level below the place that is given. Names or pointers."""

    wing: Phrase | None = None
    room: Id | None = None
    closet: Label | None = None
    limit: Limit = 50
    cursor: Cursor | None = None


class EntitiesQuery(PlaceQuery):
    """`GET /v1/memory/entities`."""

    type: Literal["person", "place", "event", "item", "time"] | None = None
    prefix: Phrase | None = None
    limit: Limit = 50
    cursor: Cursor | None = None


class TimelineQuery(PlaceQuery):
    """`GET /v1/memory/entities/{name}/timeline`."""

    limit: Limit = 50
    cursor: Cursor | None = None


class ActivityQuery(Body):
    """`GET /v1/memory/activity`: whose, of one session or all."""

    user_id: Id | None = None
    session_id: Id | None = None
    limit: Limit = 50


class TurnsQuery(Body):
    """The query string of `POST /v1/memory/turns`."""

    wait: bool = False


class NoQuery(Body):
    """Calls without a query string."""
