"""Models that several calls share: what they take (pydantic checks it), and what they answer (msgspec encodes it)."""

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType
from pydantic import BaseModel, BeforeValidator, ConfigDict, FailFast, Field, WithJsonSchema

from memproxy.api.fields import AnyKind, AsOf, Label, Limit, Name, Phrase, as_list

REF = "#/components/schemas/"

Instant = Annotated[datetime, Meta(tz=True)]
ShownMemory = Annotated[dict[str, Any], Meta(extra_json_schema={"$ref": REF + "Memory"})]
"""A memory as `core.memory.to_public` shows it."""

ShownChange = Annotated[dict[str, Any], Meta(extra_json_schema={"$ref": REF + "ChangedMemory"})]


def one_of(*words: str | None) -> Meta:
    """Says which words an answer's field may hold."""
    return Meta(extra_json_schema={"enum": list(words)})


def _many(item: dict[str, Any]) -> WithJsonSchema:
    return WithJsonSchema({"anyOf": [item, {"type": "array", "items": item}]})


_TEXT = {"type": "string"}
_KINDS = {"enum": ["semantic", "procedural", "episodic", "reflective", "turn"]}
ManyNames = Annotated[list[Name], FailFast(), BeforeValidator(as_list), Field(max_length=200), _many(_TEXT)]
ManyLabels = Annotated[list[Label], FailFast(), BeforeValidator(as_list), Field(max_length=200), _many(_TEXT)]
ManyPhrases = Annotated[list[Phrase], FailFast(), BeforeValidator(as_list), Field(max_length=200), _many(_TEXT)]
ManyKinds = Annotated[list[AnyKind], FailFast(), BeforeValidator(as_list), Field(max_length=10), _many(_KINDS)]
ManyFlags = Annotated[list[bool], FailFast(), BeforeValidator(as_list), Field(max_length=2), _many({"type": "boolean"})]

Cursor = Annotated[str, Field(max_length=2_000)]


class Body(BaseModel):
    """A JSON body or a query string (this one: none): unknown fields are errors, nothing is coerced."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class UserQuery(Body):
    """Calls that only need to know whose it is."""

    user_id: Name | None = None


class PlaceQuery(Body):
    """Whose memories are read, and what a request of which project (agent) sees of them."""

    user_id: Name | None = None
    project_id: Name | None = None
    agent_id: Name | None = None


class PageQuery(Body):
    """Calls that answer a page at a time."""

    limit: Limit = 50
    cursor: Cursor | None = None


class PlacePageQuery(PageQuery, PlaceQuery):
    """The same of what is in a place."""


class OneQuery(PlaceQuery):
    """Calls about one memory; ``session_id`` tells apart two turns of one id."""

    session_id: Name | None = None


class Shown(Body):
    """How memories are written in the answer. ``omit=null`` leaves out the fields that have no value."""

    omit: Annotated[Literal["null"] | None, Field(description="`null`: leave out fields without a value.")] = None


class OneShownQuery(OneQuery, Shown):
    """Calls about one memory that answer with it."""


class Filters(Body):
    """What narrows a list or a search."""

    user_id: Name | None = None
    project_id: ManyNames = []
    agent_id: ManyNames = []
    session_id: ManyNames = []
    kind: ManyKinds = []
    category: Annotated[ManyLabels, Field(description="With a slash at its end: all that is below it.")] = []
    tag: ManyLabels = []
    entity: ManyLabels = []
    wing: ManyPhrases = []
    room: ManyNames = []
    closet: ManyLabels = []
    active: ManyFlags = []
    quarantined: bool | None = None
    as_of: AsOf = None


class ListQuery(PageQuery, Filters, Shown):
    """`GET /v1/memory`."""


class Deleted(msgspec.Struct):
    """How many memories a deletion took; ``queued``: it is done behind."""

    deleted: int
    queued: bool | UnsetType = UNSET


class ChangedMemory(msgspec.Struct):
    """A memory; to a key without memory:read it comes without what it says."""


class ErrorDetail(msgspec.Struct):
    """What is wrong, as OpenAI's clients read it."""

    message: str
    type: str
    param: str | None
    code: str | None


class Error(msgspec.Struct):
    """Every answer that is no success."""

    error: ErrorDetail
