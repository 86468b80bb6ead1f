"""A vector engine whose payloads are encrypted: between `vector_store` and the engine.

Everything that is text, or made of it, goes into one sealed field. What is filtered by keeps a keyed hash in its place.
A change of single fields adds a sealed field of each, which counts before the first one; token vectors always have one
of their own. Payloads that are not sealed (written before encryption was switched on) are read as they are and stay so
until `memproxy reindex`.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec

from memproxy.metrics import metrics
from memproxy.stores.backend import SEALED_ONE, TOKEN_VECTORS, Backend, Found, Hybrid, Ranking, Scores, Stored, Written
from memproxy.stores.filters import AnyOf, Condition, OneOf, Where
from memproxy.stores.sealing import TOKEN_MARK, DataKey, Unreadable

log = logging.getLogger(__name__)

SEALED = "sealed"
"""The payload field with everything that is sealed at once."""

COMPARED = frozenset({"category", "tags", "entities", "subject", "slot", "wing", "closet"})
"""Fields that filters ask for: a keyed hash stands in their place."""

HIDDEN = COMPARED | {"content", "predicate", "object", "aspect", "stance", "relations", "metadata", TOKEN_VECTORS}
"""Fields that are sealed. A token's vector tells the word."""

_APART = frozenset({TOKEN_VECTORS})
"""Fields that are sealed each on its own from the beginning, so that a memory can be read without them."""


class Keys(Protocol):
    """Where users' keys are."""

    async def data_key(self, owner: tuple[str, str], *, make: bool) -> DataKey | None:
        """The owner's key; None when there is none and none is to be made. Raises `errors.StateUnavailable`."""


class SealedBackend:
    """`backend.Backend` over another one, which sees no text."""

    def __init__(self, inner: Backend, keys: Keys) -> None:
        self._inner = inner
        self._keys = keys

    async def upsert(self, points: Sequence[Written]) -> None:
        await self._inner.upsert([await self._sealed(point) for point in points])

    async def _sealed(self, point: Written) -> Written:
        key = await self._made(point.payload)
        return msgspec.structs.replace(point, payload=sealed_payload(key, point.payload))

    async def _made(self, payload: Mapping[str, Any]) -> DataKey:
        key = await self._keys.data_key((payload["tenant"], payload["user_id"]), make=True)
        assert key is not None  # noqa: S101 - asked to be made
        return key

    async def set_payload(self, ids: Sequence[str], fields: dict[str, Any]) -> None:
        if not HIDDEN & fields.keys():
            await self._inner.set_payload(ids, fields)
            return
        # one call is about one owner, as every call of a store is
        found = await self._inner.retrieve(list(ids[:1]))
        if found:
            await self._inner.set_payload(ids, sealed_changes(await self._made(found[0].payload), fields))

    async def delete(self, where: Where) -> int:
        return await self._inner.delete(await self._where(where))

    async def scroll(
        self,
        where: Where,
        *,
        limit: int,
        fields: Sequence[str] | None = None,
        order: str | None = None,
        after_id: str | None = None,
    ) -> list[Found]:
        asked = await self._where(where)
        found = await self._inner.scroll(asked, limit=limit, fields=fields, order=order, after_id=after_id)
        return found if fields is not None else await self._opened(found)

    async def rank(self, rankings: Sequence[Ranking]) -> list[list[tuple[str, float]]]:
        asked = [msgspec.structs.replace(one, where=await self._where(one.where)) for one in rankings]
        return await self._inner.rank(asked)

    async def scores(self, asked: Hybrid) -> Scores | None:
        return await self._inner.scores(msgspec.structs.replace(asked, where=await self._where(asked.where)))

    async def retrieve(self, ids: Sequence[str]) -> list[Found]:
        return await self._opened(await self._inner.retrieve(ids))

    async def stored(self, ids: Sequence[str]) -> list[Stored]:
        """As the port says; those that are not sealed yet are left out, so that a reindex writes them anew."""
        there = [one for one in await self._inner.stored(ids) if SEALED in one.found.payload]
        opened = {one.id: one for one in await self._opened([one.found for one in there])}
        return [msgspec.structs.replace(one, found=opened[one.id]) for one in there if one.id in opened]

    async def count(self, where: Where) -> int:
        return await self._inner.count(await self._where(where))

    async def _where(self, where: Where) -> Where:
        """The same, asking for keyed hashes too: some payloads may not be sealed yet."""
        owner = _owner_of(where)
        if owner is None or not any(_compares(one) for one in (*where.must, *where.must_not)):
            return where
        key = await self._keys.data_key(owner, make=False)
        if key is None:
            return where
        return Where(
            tuple(_translated(key, one) for one in where.must), tuple(_translated(key, one) for one in where.must_not)
        )

    async def _opened(self, found: Sequence[Found]) -> list[Found]:
        """Payloads in the clear; what cannot be read (its key was destroyed) stays sealed, and is no memory."""
        opened = []
        for one in found:
            if not any(name.startswith(SEALED) for name in one.payload):
                opened.append(one)
                continue
            key = await self._keys.data_key((one.payload["tenant"], one.payload["user_id"]), make=False)
            try:
                if key is None:
                    raise Unreadable("its key was destroyed")
                opened.append(Found(one.id, opened_payload(key, one.payload)))
            except Unreadable as error:
                metrics().internal_errors.labels(where="store.sealed").inc()
                log.error("the stored point %s cannot be decrypted: %s", one.id, error)
                opened.append(one)
        return opened


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


def _sealed_json(key: DataKey, what: str, value: Any) -> str:
    return key.seal_text(msgspec.json.encode(value).decode(), f"payload.{what}")


def _opened_json(key: DataKey, what: str, sealed: str) -> Any:
    return msgspec.json.decode(key.open_text(sealed, f"payload.{what}"))


def _token(key: DataKey, field: str, value: Any) -> Any:
    if value is None:
        return None
    return [key.token(one, field) for one in value] if isinstance(value, list) else key.token(value, field)


def _is_token(value: Any) -> bool:
    first = value[0] if isinstance(value, list) and value else value
    return isinstance(first, str) and first.startswith(TOKEN_MARK)


def _owner_of(where: Where) -> tuple[str, str] | None:
    named = {one.key: one.values for one in where.must if isinstance(one, OneOf)}
    tenant, user = named.get("tenant"), named.get("user_id")
    return (str(tenant[0]), str(user[0])) if tenant and user else None


def _compares(condition: Condition) -> bool:
    if isinstance(condition, AnyOf):
        return any(_compares(one) for one in condition.conditions)
    return isinstance(condition, OneOf) and condition.key in COMPARED


def _translated(key: DataKey, condition: Condition) -> Condition:
    if isinstance(condition, AnyOf):
        return AnyOf(tuple(_translated(key, one) for one in condition.conditions))
    if isinstance(condition, OneOf) and condition.key in COMPARED:
        tokens = tuple(key.token(str(value), condition.key) for value in condition.values)
        return OneOf(condition.key, (*condition.values, *tokens))
    return condition
