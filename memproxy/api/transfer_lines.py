"""The lines of an import, checked: every refusal names the line and the field."""

import io
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal

import msgspec
from pydantic import FailFast, Field, ValidationError

from memproxy.api.fields import AnyKind, Content, Id, Label, Labels, Metadata, OptionalTime, Phrase, Time
from memproxy.api.http import MOST_JSON_BYTES, OFF_LOOP_BYTES, check_names, validate
from memproxy.api.memories import DescribedFields, RelationBody
from memproxy.api.models import Body
from memproxy.api.turns import NewTurns
from memproxy.core.block import strip_blocks
from memproxy.core.memory import Kind, Memory
from memproxy.core.redact import redact, redact_memory
from memproxy.core.transfer import (
    FORMAT,
    MOST_TOKEN_BYTES,
    VERSION,
    GivenVectors,
    Header,
    PalaceRow,
    vector_key,
)
from memproxy.core.turn import name_within
from memproxy.core.vectors import checked
from memproxy.errors import RequestError

MemoryWithVectors = tuple[Memory, GivenVectors | None]
"""A memory of a file with its vectors."""

Count = Annotated[int, Field(ge=0, lt=2**53)]


class MemoryLine(DescribedFields):
    """A memory as an export holds it."""

    # a list that is made costs a fifth of one that is copied, and each line needs four
    tags: Annotated[Labels, Field(default_factory=list)]
    entities: Annotated[Labels, Field(default_factory=list)]
    relations: Annotated[list[RelationBody], FailFast(), Field(max_length=100, default_factory=list)]
    metadata: Annotated[Metadata, Field(default_factory=dict)]
    id: Id
    kind: AnyKind = "semantic"
    content: Content
    created_at: Time
    updated_at: OptionalTime = None
    active: bool = True
    supersedes: Id | None = None
    superseded_by: Id | None = None
    quarantined: bool = False
    source: Literal["conversation", "api", "tool", "dream", "import"] = "import"
    turn_ids: Annotated[list[Id], FailFast(), Field(max_length=10_000, default_factory=list)]
    access_count: Count = 0
    last_accessed_at: OptionalTime = None
    wing: Phrase | None = None
    room: Phrase | None = None
    closet: Phrase | None = None
    pointer: Label | None = None


class PlaceLine(Body):
    """A number of the palace."""

    user_id: Id | None = None
    kind: Literal["wing", "alias", "home", "room", "closet", "last"]
    parent: Annotated[str, Field(max_length=8_000)]
    name: Annotated[str, Field(max_length=1_000)]
    number: Annotated[int, Field(ge=0, lt=2**31)]

    def row(self, redacted: frozenset[str]) -> PalaceRow:
        """As the state keeps it; a room's name is its session's id."""
        name = self.name if self.kind == "room" else redact(self.name, redacted)
        return PalaceRow(kind=self.kind, parent=self.parent, name=name, number=self.number)


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One line read: its number, and what it holds; ``error`` says what is wrong with it."""

    number: int
    memory: MemoryLine | None = None
    vectors: GivenVectors | None = None
    place: PlaceLine | None = None
    turns: NewTurns | None = None
    header: Header | None = None
    error: str | None = None


_PARTS: dict[str, type[Body]] = {"memory": MemoryLine, "place": PlaceLine, "turns": NewTurns}


def read_lines(body: bytes) -> Iterator[Line]:
    """The lines of a file or a part of it; empty ones are passed over."""
    for number, raw in enumerate(io.BytesIO(body), start=1):
        if raw.strip():
            try:
                yield _line(number, raw)
            except RequestError as error:
                yield Line(number=number, error=error.message)


def _line(number: int, raw: bytes) -> Line:
    if len(raw) > MOST_JSON_BYTES:
        raise RequestError(f"is longer than {MOST_JSON_BYTES} bytes: send a conversation in parts")
    if len(raw) > OFF_LOOP_BYTES:
        check_names(raw)
    try:
        value = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RequestError(f"not JSON that can be read: {error}") from error
    if not isinstance(value, dict):
        raise RequestError("must be a JSON object")
    if "format" in value:
        return Line(number=number, header=_header(value))
    given = value.pop("vectors", None)
    if len(value) != 1 or not value.keys() <= _PARTS.keys():
        raise RequestError('must hold one of "memory", "place", "turns", or be the header')
    name, part = value.popitem()
    if not isinstance(part, dict):
        raise RequestError("must hold a JSON object")
    vectors = _vectors(given) if given is not None and name == "memory" else None
    return msgspec.structs.replace(Line(number=number, vectors=vectors), **{name: validate(_PARTS[name], part)})


def _header(value: dict[str, Any]) -> Header:
    try:
        header = msgspec.convert(value, Header)
    except msgspec.ValidationError as error:
        raise RequestError(f"the header cannot be read: {error}") from error
    if header.format != FORMAT:
        raise RequestError(f"the format is {header.format[:50]!r}; memproxy import --format converts others")
    if header.version > VERSION:
        raise RequestError(f"the file has version {header.version}; this memproxy reads up to {VERSION}")
    return header


def _vectors(value: object) -> GivenVectors:
    try:
        vectors = msgspec.convert(value, GivenVectors)
        for part in vectors.dense:
            checked(part)
    except ValueError as error:  # msgspec's are, too
        raise RequestError(f"vectors: {'must be base64' if 'base64' in str(error) else error}") from error
    if len(vectors.tokens) > MOST_TOKEN_BYTES:
        raise RequestError(f"vectors: tokens must be at most {MOST_TOKEN_BYTES} bytes")
    within = not vectors.indices or (min(vectors.indices) >= 0 and max(vectors.indices) < 2**32)
    if len(vectors.indices) != len(vectors.values) or not within:
        raise RequestError("vectors: indices must be 32-bit numbers, as many as values")
    return vectors


def memory_of(line: MemoryLine, tenant: str, user: str, redacted: frozenset[str]) -> Memory:
    """The memory of a line, as its owner's; texts redacted as everywhere before the journal.

    Raises:
        RequestError: a field does not fit.
    """
    fields = redact_memory(vars(line) | {"relations": [vars(one) for one in line.relations]}, redacted)
    if line.kind == Kind.TURN.value:
        fields["content"] = strip_blocks(fields["content"])
    if (fields["subject"], fields["category"]) != (line.subject, line.category):
        fields |= dict.fromkeys(("wing", "room", "closet", "pointer"))  # named after what is not kept: placed anew
    fields |= {"tenant": tenant, "user_id": user, "updated_at": line.updated_at or line.created_at}
    try:
        return msgspec.convert(fields, Memory, from_attributes=True)
    except (msgspec.ValidationError, ValidationError) as error:
        raise RequestError(str(error)) from error


def references(memory: Memory) -> list[str]:
    """The ids of others that a memory names."""
    return [*memory.turn_ids, *(name for name in (memory.supersedes, memory.superseded_by) if name is not None)]


def renamed_for_project(
    project: str, taken: Sequence[MemoryWithVectors], own: Sequence[Memory]
) -> list[MemoryWithVectors]:
    """The memories under names of the project's own (`name_within`), but for those that are among its ``own``."""
    keys, ids = {vector_key(memory) for memory in own}, {memory.id for memory in own}

    def named(name: str) -> str:
        return name if name in ids else name_within(project, name)

    def renamed(memory: Memory) -> Memory:
        return msgspec.structs.replace(
            memory,
            id=memory.id if vector_key(memory) in keys else name_within(project, memory.id),
            supersedes=named(memory.supersedes) if memory.supersedes is not None else None,
            superseded_by=named(memory.superseded_by) if memory.superseded_by is not None else None,
            turn_ids=[named(name) for name in memory.turn_ids],
        )

    return [(renamed(memory), given) for memory, given in taken]


def is_another_turn(memory: Memory, there: Memory) -> bool:
    """Whether it is a turn with another text (or role) than the one stored under its id, which stays."""
    said = [(one.metadata.get("role"), one.content) for one in (memory, there)]
    return memory.kind is Kind.TURN and said[0] != said[1]
