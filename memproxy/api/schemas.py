"""What the memory API's calls take: one model each. `/openapi.json` is generated from these."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    FailFast,
    Field,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
)

from memproxy.api.fields import (
    AnyKind,
    AsOf,
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
    TurnId,
    Unit,
    as_list,
    parse_content,
)
from memproxy.errors import RequestError

MAX_MESSAGES = 2_000
MAX_SAID = 10_000
"""Characters of a remark or a correction."""

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


def read_switch(value: object) -> object:
    """``on`` and ``off`` stand for true and false."""
    return {"on": True, "off": False}.get(value, value) if isinstance(value, str) else value


Switch = Annotated[
    bool,
    BeforeValidator(read_switch),
    WithJsonSchema({"anyOf": [{"type": "boolean"}, {"enum": ["on", "off"]}]}),
]
Kind = Annotated[FactKind, BeforeValidator(refuse_turn)]


def _many(item: dict[str, Any]) -> WithJsonSchema:
    return WithJsonSchema({"anyOf": [item, {"type": "array", "items": item}]})


_TEXT = {"type": "string"}
_KINDS = {"enum": ["semantic", "procedural", "episodic", "reflective", "turn"]}
ManyIds = Annotated[list[Id], FailFast(), BeforeValidator(as_list), Field(max_length=200), _many(_TEXT)]
ManyLabels = Annotated[list[Label], FailFast(), BeforeValidator(as_list), Field(max_length=200), _many(_TEXT)]
ManyPhrases = Annotated[list[Phrase], FailFast(), BeforeValidator(as_list), Field(max_length=200), _many(_TEXT)]
ManyKinds = Annotated[list[AnyKind], FailFast(), BeforeValidator(as_list), Field(max_length=10), _many(_KINDS)]
ManyFlags = Annotated[list[bool], FailFast(), BeforeValidator(as_list), Field(max_length=2), _many({"type": "boolean"})]


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


class DescribedFields(Body):
    """What can be said of any memory besides its content."""

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
    relations: Annotated[list[RelationBody], FailFast(), Field(max_length=100)] = []
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


class MemoryFields(DescribedFields):
    """What a client may say of a memory besides its content."""

    kind: Kind = "semantic"


class NewMemory(MemoryFields):
    """`POST /v1/memory`."""

    content: Content


class MemoryEdit(MemoryFields):
    """`PATCH /v1/memory/{id}`: only the fields that are given change. ``user_id`` says whose memory it is."""

    content: Content = ""


_INSTEAD = ("tool_calls", "tool_call_id", "function_call", "refusal", "audio")
"""What a message without text may hold instead; a tool may also have answered nothing."""

Unread = Annotated[Any, Field(description="Taken, as chat takes it, and not kept.")]


class MessageBody(Body):
    """One message of a conversation, as chat takes it and answers it: beside what it says, what it calls is not kept. A
    message without text (it only calls tools, or shows a picture) is no turn.
    """

    role: Role
    id: TurnId | None = None
    name: Label | None = None
    timestamp: OptionalTime = None
    tool_calls: Unread = None
    tool_call_id: Unread = None
    function_call: Unread = None
    refusal: Unread = None
    audio: Unread = None
    annotations: Unread = None
    reasoning: Unread = None
    reasoning_content: Unread = None
    content: MessageContent = Field("", validate_default=True)

    @field_validator("content", mode="before")
    @classmethod
    def _says_or_calls(cls, content: object, info: ValidationInfo) -> object:
        """Only what stands for something else may be without text; any other message is a mistake."""
        return parse_content(content, silent=any(info.data.get(name) for name in _INSTEAD))


class NewTurns(Body):
    """`POST /v1/memory/turns`. ``timestamp`` is the time of the messages that have none of their own."""

    session_id: Id | None = None
    user_id: Id | None = None
    project_id: Id | None = None
    agent_id: Id | None = None
    messages: Annotated[list[MessageBody], FailFast(), Field(min_length=1, max_length=MAX_MESSAGES)]
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
    as_of: AsOf = None


class Shown(Body):
    """How memories are written in the answer. ``omit=null`` leaves out the fields that have no value."""

    omit: Annotated[Literal["null"] | None, Field(description="`null`: leave out fields without a value.")] = None

    @property
    def nulls(self) -> bool:
        """Whether fields without a value are written, too."""
        return self.omit is None


class ListQuery(Filters, Shown):
    """`GET /v1/memory`."""

    limit: Limit = 50
    cursor: Cursor | None = None


class SearchBody(Filters, Shown):
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
    messages: Annotated[list[ChatMessage], FailFast(), Field(max_length=MAX_MESSAGES)] = []
    session_id: Id | None = None
    user_id: Id | None = None
    project_id: Id | None = None
    agent_id: Id | None = None
    max_tokens: Annotated[int, Field(ge=0, le=100_000)] | None = None
    explain: bool = False


class LearnScope(Body):
    """The body of `POST /v1/memory/sessions/{id}/end` and `/mine`; it may be left out."""

    user_id: Id | None = None
    project_id: Id | None = None
    agent_id: Id | None = None


class PruneBody(Body):
    """The body of `POST /v1/memory/prune`; it may be left out. ``dry_run``: tell what would go, and change nothing."""

    user_id: Id | None = None
    dry_run: bool = False


class SettingsBody(Body):
    """`PUT /v1/memory/settings`: what is left out or null comes from the wider place (agent, user, configuration)."""

    user_id: Id | None = None
    agent_id: Id | None = None
    mode: Literal["on", "read", "write", "off"] | None = None
    limit: Limit | None = None
    rerank: Switch | None = None
    learning: Switch | None = None


class FeedbackBody(Body):
    """`POST /v1/memory/feedback`: about a memory, or about all that a request was given. A ``correction`` has the text
    that is right; with the other signals a text is a remark.
    """

    signal: Literal["helpful", "wrong", "correction"]
    memory_id: Annotated[Id | None, Field(description="The id, or the short one that a block cites.")] = None
    request_id: Id | None = None
    text: Annotated[Content, Field(max_length=MAX_SAID)] | None = None
    user_id: Id | None = None
    project_id: Id | None = None
    agent_id: Id | None = None

    def check(self) -> None:
        """What each field allows alone, but not together.

        Raises:
            RequestError: naming the field.
        """
        if (self.memory_id is None) == (self.request_id is None):
            raise RequestError("memory_id: give this or request_id, one of the two.", param="memory_id")
        if self.signal == "correction" and self.text is None:
            raise RequestError("text: is required, a correction says what is right.", param="text")
