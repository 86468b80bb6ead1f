"""How a memory becomes a stored point and back, the same for every engine.

The payload is the memory without nulls, empty lists, and the time when it expires by its tenant's ``ttl_days`` of now.

Where users' texts are encrypted, all that is text, or made of it, goes into one sealed field; what is filtered by keeps
a keyed hash in its place; a change adds a sealed field of each, which counts before the first one. Payloads from before
encryption was switched on are read as they are until `memproxy reindex`.
"""

import base64
import binascii
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Protocol, TypeVar

import msgspec

from memproxy.core.memory import Kind, Memory, from_payload, to_payload
from memproxy.core.scope import OwnerKey
from memproxy.core.telling import tells_nothing
from memproxy.core.turn import point_id_for
from memproxy.errors import RequestError
from memproxy.metrics import metrics
from memproxy.ports import Notes
from memproxy.stores.backend import (
    SEALED_ONE,
    TOKEN_VECTORS,
    Backend,
    Fields,
    FoundPoint,
    Hybrid,
    Order,
    Ranking,
    Scores,
    Stored,
)
from memproxy.stores.filters import TELLS_NOTHING, AnyOf, Condition, OneOf, Where, owner_of
from memproxy.stores.sealing import TOKEN_MARK, DataKey, Unreadable

log = logging.getLogger(__name__)

Found = TypeVar("Found", bound=FoundPoint)

TimeToLive = Callable[[str], timedelta | None]
"""How long a tenant's memories are kept; None: for ever."""

SEALED = "sealed"
"""The payload field with everything that is sealed at once."""

COMPARED = frozenset({"category", "tags", "entities", "subject", "slot", "wing", "closet"})
"""Fields that filters ask for: where they are sealed, a keyed hash stands in their place."""

HIDDEN = COMPARED | {"content", "predicate", "object", "aspect", "stance", "relations", "metadata", TOKEN_VECTORS}
"""Fields that are sealed. A token's vector tells the word."""

_APART = frozenset({TOKEN_VECTORS})
"""Fields that are sealed each on its own from the beginning, so that a memory can be read without them."""

_EXPIRES, _LEARNED = "expires_at", "created_at"


class Keys(Protocol):
    """Where users' keys are."""

    async def data_key(self, owner: OwnerKey, *, make: bool) -> DataKey | None:
        """The owner's key; None when there is none and none is to be made. Raises `errors.StateUnavailable`."""


class Read(msgspec.Struct, gc=False):
    """A point as a search reads it: the memory, its token vectors (empty when it has none), what is made of it
    while it is kept, and whether a search found it lately. Nothing of it refers back to it, so it is never garbage.
    """

    memory: Memory
    tokens: bytes = b""
    notes: Notes = msgspec.field(default_factory=Notes)
    used: bool = False


class Points:
    """An engine (`Backend`) whose points are written and read in the clear. ``keys``: it encrypts; ``time_to_live``:
    memories expire by their tenant's time.
    """

    def __init__(self, engine: Backend, keys: Keys | None = None, time_to_live: TimeToLive | None = None) -> None:
        self.engine = engine
        self._keys = keys
        self._time_to_live = time_to_live

    async def upsert(self, points: Sequence[Stored]) -> None:
        await self.engine.upsert([await self._stored_form(point) for point in points])

    async def _stored_form(self, point: Stored) -> Stored:
        payload = point.payload
        if _EXPIRES in payload and payload[_EXPIRES] == msgspec.to_builtins(self._end(payload)):
            payload = {name: value for name, value in payload.items() if name != _EXPIRES}
        if self._keys is not None:
            payload = sealed_payload(await self._key_for_writing(self._keys, _owner(payload)), payload)
        return point if payload is point.payload else msgspec.structs.replace(point, payload=payload)

    async def _key_for_writing(self, keys: Keys, owner: OwnerKey) -> DataKey:
        key = await keys.data_key(owner, make=True)
        assert key is not None  # noqa: S101 - asked to be made
        return key

    async def set_payload(self, ids: Sequence[str], fields: dict[str, Any], owner: OwnerKey) -> None:
        """Merge payload fields into existing points of this owner; null removes a field."""
        if self._keys is not None and HIDDEN & fields.keys():
            fields = sealed_changes(await self._key_for_writing(self._keys, owner), fields)
        await self.engine.set_payload(ids, fields)

    async def delete(self, where: Where) -> int:
        return await self.engine.delete(await self._where(where))

    async def scroll(
        self, where: Where, *, limit: int, fields: Fields = None, order: Order = None, after_id: str | None = None
    ) -> list[FoundPoint]:
        """As `Backend.scroll`; single ``fields`` are answered as they are stored."""
        sealed_where = await self._where(where)
        points = await self.engine.scroll(sealed_where, limit=limit, fields=fields, order=order, after_id=after_id)
        return points if fields is not None else await self._opened(points)

    async def rank(self, rankings: Sequence[Ranking]) -> list[list[tuple[str, float]]]:
        if self._keys is not None:
            rankings = [
                msgspec.structs.replace(ranking, where=await self._where(ranking.where)) for ranking in rankings
            ]
        return await self.engine.rank(rankings)

    async def scores(self, query: Hybrid) -> Scores | None:
        if self._keys is not None:
            query = msgspec.structs.replace(query, where=await self._where(query.where))
        return await self.engine.scores(query)

    async def retrieve(self, ids: Sequence[str]) -> list[FoundPoint]:
        return await self._opened(await self.engine.retrieve(ids)) if ids else []

    async def stored(self, ids: Sequence[str]) -> list[Stored]:
        """As `retrieve`, with the vectors; without those that are still to be sealed, which a reindex writes anew."""
        points = await self.engine.stored(ids) if ids else []
        return await self._opened([point for point in points if self._keys is None or SEALED in point.payload])

    async def count(self, where: Where) -> int:
        return await self.engine.count(await self._where(where))

    async def _where(self, where: Where) -> Where:
        """The same, asking for keyed hashes too: some payloads may not be sealed yet."""
        owner = owner_of(where)
        if self._keys is None or owner is None or not any(map(_compares, (*where.must, *where.must_not))):
            return where
        key = await self._keys.data_key(owner, make=False)
        if key is None:
            return where
        return Where(
            tuple(_sealed_condition(key, condition) for condition in where.must),
            tuple(_sealed_condition(key, condition) for condition in where.must_not),
        )

    async def _opened(self, points: Sequence[Found]) -> list[Found]:
        """Payloads in the clear; what cannot be read (its key was destroyed) stays sealed, and is no memory."""
        opened = []
        for point in points:
            payload = point.payload
            if self._keys is not None and any(name.startswith(SEALED) for name in payload):
                try:
                    key = await self._keys.data_key(_owner(payload), make=False)
                    if key is None:
                        raise Unreadable("its key was destroyed")
                    payload = opened_payload(key, payload)
                except Unreadable as error:
                    metrics().internal_errors.labels(where="store.sealed").inc()
                    log.error("the stored point %s cannot be decrypted: %s", point.id, error)
            if payload.get(_EXPIRES) is None and (end := self._end(payload)) is not None:
                payload = {**payload, _EXPIRES: msgspec.to_builtins(end)}
            opened.append(point if payload is point.payload else msgspec.structs.replace(point, payload=payload))
        return opened

    def _end(self, payload: Mapping[str, Any]) -> datetime | None:
        """When the memory expires by its tenant's time."""
        if self._time_to_live is None:
            return None
        tenant, learned = payload.get("tenant"), payload.get(_LEARNED)
        time_to_live = self._time_to_live(tenant) if isinstance(tenant, str) else None
        if time_to_live is None or not isinstance(learned, str):
            return None
        return msgspec.convert(learned, datetime) + time_to_live


def _owner(payload: Mapping[str, Any]) -> OwnerKey:
    return payload["tenant"], payload["user_id"]


def unstorable() -> RequestError:
    """A memory that no store can hold: trying again would never help."""
    return RequestError(
        "A memory holds something that cannot be stored: numbers must be finite and below 2^64, text must be valid "
        "Unicode (no lone surrogates)."
    )


def encoded(value: Any) -> bytes:
    """As JSON, always the same for the same value. Raises `RequestError`: a text is no valid Unicode."""
    try:
        return msgspec.json.encode(value, order="deterministic")
    except UnicodeEncodeError as error:
        raise unstorable() from error


def slim_payload(memory: Memory, tokens: bytes = b"") -> dict[str, Any]:
    """The payload without nulls and empty lists, which read back as the defaults: halves the time to read it. With its
    token vectors, where it has some, and the flag of what tells nothing. Raises `RequestError`: it cannot be stored.
    """
    encoded(memory)
    # most values are true, which is quick to test
    slim = {
        name: value
        for name, value in to_payload(memory).items()
        if value or (value is not None and value not in ([], {}))
    }
    if tokens:
        slim[TOKEN_VECTORS] = base64.b64encode(tokens).decode()
    if tells_nothing(memory):
        slim[TELLS_NOTHING] = True
    return slim


def point_id_of(memory: Memory) -> str:
    """The point id of a memory; a turn's depends on its session."""
    session = memory.session_id if memory.kind is Kind.TURN else None
    return point_id_for(memory.tenant, memory.user_id, session, memory.id)


def with_point_ids(points: Sequence[FoundPoint]) -> list[tuple[str, Memory]]:
    """The memories read, each with its point id."""
    read = []
    for point in points:
        try:
            read.append((point.id, from_payload(point.payload)))
        except msgspec.ValidationError as error:
            pass_over(point.id, error)
    return read


def pass_over(point_id: str, error: Exception) -> None:
    """One damaged point must not hide all others: it is counted and named, so that somebody looks."""
    metrics().internal_errors.labels(where="store.payload").inc()
    log.error("the stored point %s is not a memory and is passed over: %r", point_id, error)


def memories(points: Sequence[FoundPoint]) -> list[Memory]:
    """The memories read."""
    return [memory for _, memory in with_point_ids(points)]


def tokens_of(point: FoundPoint) -> bytes:
    """The token vectors of a point; empty when it has none (stored before there were any, or without an embedder)."""
    text = point.payload.get(TOKEN_VECTORS) or ""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, TypeError, ValueError) as error:
        # the memory itself can be read, and is found without them
        metrics().internal_errors.labels(where="store.payload").inc()
        log.error("the token vectors of the stored point %s cannot be read: %s", point.id, error)
        return b""


def for_search(points: Sequence[FoundPoint]) -> list[tuple[str, Read]]:
    """The memories read with their token vectors, each with its point id."""
    tokens = {point.id: tokens_of(point) for point in points}
    return [(point_id, Read(memory, tokens[point_id])) for point_id, memory in with_point_ids(points)]


def sealed_payload(key: DataKey, payload: Mapping[str, Any]) -> dict[str, Any]:
    """The payload as it is stored."""
    hidden = {name: value for name, value in payload.items() if name in HIDDEN - _APART}
    shown = {name: value for name, value in payload.items() if name not in HIDDEN}
    tokens = {name: _token(key, name, value) for name, value in hidden.items() if name in COMPARED}
    apart = {f"{SEALED_ONE}{name}": _sealed_json(key, name, payload[name]) for name in _APART & payload.keys()}
    return shown | tokens | apart | {SEALED: _sealed_json(key, SEALED, hidden)}


def sealed_changes(key: DataKey, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Changed fields as they are stored; null removes what a field is compared by, and is sealed as null."""
    changes: dict[str, Any] = {}
    for name, value in fields.items():
        if name not in HIDDEN:
            changes[name] = value
            continue
        changes[f"{SEALED_ONE}{name}"] = _sealed_json(key, name, value)
        if name in COMPARED:
            changes[name] = _token(key, name, value)
    return changes


def opened_payload(key: DataKey, payload: Mapping[str, Any]) -> dict[str, Any]:
    """The payload in the clear. Raises `Unreadable`."""
    shown = {
        name: value
        for name, value in payload.items()
        if name != SEALED and not name.startswith(SEALED_ONE) and not (name in COMPARED and _is_token(value))
    }
    if SEALED in payload:
        shown |= _opened_json(key, SEALED, payload[SEALED])
    changed = {
        name.removeprefix(SEALED_ONE): _opened_json(key, name.removeprefix(SEALED_ONE), value)
        for name, value in payload.items()
        if name.startswith(SEALED_ONE)
    }
    gone = {name for name, value in changed.items() if value is None}
    return {name: value for name, value in (shown | changed).items() if name not in gone}


def _sealed_json(key: DataKey, field: str, value: Any) -> str:
    return key.seal_text(msgspec.json.encode(value).decode(), f"payload.{field}")


def _opened_json(key: DataKey, field: str, sealed: str) -> Any:
    return msgspec.json.decode(key.open_text(sealed, f"payload.{field}"))


def _token(key: DataKey, field: str, value: Any) -> Any:
    if value is None:
        return None
    return [key.token(item, field) for item in value] if isinstance(value, list) else key.token(value, field)


def _is_token(value: Any) -> bool:
    first = value[0] if isinstance(value, list) and value else value
    return isinstance(first, str) and first.startswith(TOKEN_MARK)


def _compares(condition: Condition) -> bool:
    if isinstance(condition, AnyOf):
        return any(_compares(part) for part in condition.conditions)
    return isinstance(condition, OneOf) and condition.key in COMPARED


def _sealed_condition(key: DataKey, condition: Condition) -> Condition:
    if isinstance(condition, AnyOf):
        return AnyOf(tuple(_sealed_condition(key, part) for part in condition.conditions))
    if isinstance(condition, OneOf) and condition.key in COMPARED:
        tokens = tuple(key.token(str(value), condition.key) for value in condition.values)
        return OneOf(condition.key, (*condition.values, *tokens))
    return condition


MOST_MEMORIES = 10_000
MOST_CHARACTERS = 48_000_000
"""Of text and bytes of token vectors, all together; with what ranking makes of 10,000 memories (`ports.Notes`: 1.6 KB
each) at most about 100 MB (docs/decisions/0018).
"""


class RecentMemories:
    """Memories that were read lately, so that the next search of the same person does not decode them again.

    Only for stores that this process alone writes to: whatever it writes is forgotten here at once, and what was read
    while something was written is not kept. By point id; one that was used since its last turn to go stays for another
    round, which costs less than keeping all in the order of their use.
    """

    def __init__(self, *, most: int = MOST_MEMORIES, most_characters: int = MOST_CHARACTERS) -> None:
        self._most = most
        self._most_characters = most_characters
        self._reads: OrderedDict[str, Read] = OrderedDict()
        self._characters = 0
        self.writes = 0
        """Changes so far: what is read is kept only if there were none since the reading began."""

    def has_room(self, count: int) -> bool:
        """Whether ``count`` more fit without evicting any: a tenth of the characters is left free."""
        return len(self._reads) + count <= self._most and self._characters <= 0.9 * self._most_characters

    def get(self, point_ids: Iterable[str]) -> dict[str, Read]:
        ids = list(point_ids)
        reads = {
            point_id: read for point_id, read in zip(ids, map(self._reads.get, ids), strict=True) if read is not None
        }
        for read in reads.values():
            read.used = True
        return reads

    def all_of(self, point_ids: Iterable[str]) -> list[Read] | None:
        """What was read of each of these points; None where one of them is not known."""
        reads = list(map(self._reads.get, point_ids))
        present = [read for read in reads if read is not None]
        if len(present) < len(reads):
            return None
        for read in present:
            read.used = True
        return present

    def add(self, read: Sequence[tuple[str, Read]], *, writes: int) -> None:
        """Keep what was read while the number of writes was ``writes``; nothing where there were more since."""
        if writes != self.writes:
            return
        for point_id, entry in read:
            self._drop(point_id)
            self._reads[point_id] = entry
            self._characters += _size(entry)
        while self._reads and (len(self._reads) > self._most or self._characters > self._most_characters):
            point_id, entry = self._reads.popitem(last=False)
            if entry.used:  # since it was last here: it stays for another round
                entry.used = False
                self._reads[point_id] = entry
            else:
                self._characters -= _size(entry)

    def forget(self, point_ids: Iterable[str]) -> None:
        self.writes += 1
        for point_id in point_ids:
            self._drop(point_id)

    def clear(self) -> None:
        """Anything may have been written."""
        self.writes += 1
        self._reads.clear()
        self._characters = 0

    def _drop(self, point_id: str) -> None:
        entry = self._reads.pop(point_id, None)
        if entry is not None:
            self._characters -= _size(entry)


def _size(read: Read) -> int:
    return len(read.memory.content) + len(read.tokens)
