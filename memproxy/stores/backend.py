"""The few things a vector engine must be able to do; what memories mean is built on them once, in `vector_store`."""

from collections.abc import Collection, Sequence
from itertools import compress
from typing import Any, Literal, Protocol

import msgspec

from memproxy.core.scope import OwnerKey
from memproxy.ports import SparseVector
from memproxy.stores.filters import TELLS_NOTHING, Where

DENSE = "dense"
"""Name of the embedder's vector: a multi-vector, one row for each part of the text, compared by its best part."""

BM25 = "bm25"
"""Name of the sparse vector; the engine weighs it by inverse document frequency."""

KEYWORD_FIELDS = (
    "id",
    "project_id",
    "agent_id",
    "session_id",
    "kind",
    "category",
    "tags",
    "entities",
    "subject",
    "slot",
    "turn_ids",
    "trust",
    "wing",
    "room",
    "closet",
)
OWNER_FIELDS = ("tenant", "user_id")
TIME_FIELDS = ("created_at", "valid_from", "valid_to", "expires_at")
FLAG_FIELDS = ("active", "quarantined", TELLS_NOTHING)
ORDER_FIELD = "created_at"

TOKEN_VECTORS = "token_vectors"  # noqa: S105 - a field's name
"""Payload field of a point's token vectors, base64; not there when it has none."""

SEALED_ONE = "sealed_"
"""How the payload fields begin that hold one field, encrypted."""

NOT_SCROLLED = (TOKEN_VECTORS, f"{SEALED_ONE}{TOKEN_VECTORS}")
"""Fields that only the candidates of a search are read with: longer than all others together, and no part of a memory.
"""


class FoundPoint(msgspec.Struct, frozen=True):
    """A point as it is read: its id and the payload fields that were asked for."""

    id: str
    payload: dict[str, Any]


class Stored(FoundPoint, frozen=True):
    """A whole point, as it is written and read with its vectors; ``dense`` is empty when it has none."""

    dense: list[list[float]]
    bm25: SparseVector


Fields = Sequence[str] | None
"""Names of payload fields to be read; None: the whole payload without `NOT_SCROLLED`."""

Order = Literal["asc", "desc"] | None
"""By ``created_at``, points of one time as they come; None: in the order of the points' ids."""


def by_owner(points: Sequence[Stored]) -> dict[OwnerKey, list[Stored]]:
    """The points of each owner."""
    owners: dict[OwnerKey, list[Stored]] = {}
    for point in points:
        owners.setdefault((str(point.payload.get("tenant")), str(point.payload.get("user_id"))), []).append(point)
    return owners


class Counted(msgspec.Struct):
    """What an engine has counted over the corpus for a search: the IDF of each of ``bm25``'s terms, in order."""

    idf: list[float] | None = None


class Ranking(msgspec.Struct, frozen=True, kw_only=True):
    """One search: the nearest ``limit`` points to ``dense`` or ``bm25`` (one of them is set) within ``where``. IDF is
    counted over ``corpus``; rankings by the same words over it share ``counted``.
    """

    where: Where
    limit: int
    dense: list[float] | None = None
    bm25: SparseVector | None = None
    corpus: Where | None = None
    counted: Counted = msgspec.field(default_factory=Counted)


class Hybrid(msgspec.Struct, frozen=True, kw_only=True):
    """Both searches at once: the nearest ``limit`` points to ``dense`` and to ``bm25`` (None: not asked for) within
    ``where``. ``corpus`` is what IDF is counted over: all that the scope sees of the owner's, or what of it tells
    something, where ``where`` is limited to that as well. ``facts`` and ``background`` as in `ports.HybridQuery`.
    """

    where: Where
    corpus: Where
    limit: int
    facts: int = 0
    dense: list[float] | None = None
    bm25: SparseVector | None = None
    background: bool = False
    counted: Counted = msgspec.field(default_factory=Counted)


class Scores(msgspec.Struct, frozen=True, kw_only=True):
    """Raw scores of everything that either search found, side by side, by ``point_ids``: the best of a side first,
    then what only the other side found. A point without a vector has no ``dense``.
    """

    point_ids: list[str]
    dense: Sequence[float | None]
    bm25: Sequence[float | None]

    def of(self, allowed: Collection[str]) -> "Scores":
        """Those of the points that are ``allowed``."""
        if len(allowed) == len(self.point_ids):
            return self
        is_allowed = [point_id in allowed for point_id in self.point_ids]
        return Scores(
            point_ids=list(compress(self.point_ids, is_allowed)),
            dense=list(compress(self.dense, is_allowed)),
            bm25=list(compress(self.bm25, is_allowed)),
        )


class Backend(Protocol):
    """A vector engine, open and of the right shape. Every call raises `errors.StoreUnavailable` when it fails."""

    async def upsert(self, points: Sequence[Stored]) -> None:
        """Insert or replace whole points."""

    async def set_payload(self, ids: Sequence[str], fields: dict[str, Any]) -> None:
        """Merge payload fields into existing points; null removes a field."""

    async def delete(self, where: Where) -> int:
        """Delete what matches, and answer exactly how many that were."""

    async def scroll(
        self, where: Where, *, limit: int, fields: Fields = None, order: Order = None, after_id: str | None = None
    ) -> list[FoundPoint]:
        """Points that match; in the order of their ids those behind ``after_id``."""

    async def rank(self, rankings: Sequence[Ranking]) -> list[list[tuple[str, float]]]:
        """For each ranking the point ids with their scores, best first."""

    async def scores(self, query: Hybrid) -> Scores | None:
        """Both searches, answered from memory; None where the engine has to be asked (`rank`)."""

    async def retrieve(self, ids: Sequence[str]) -> list[FoundPoint]:
        """These points (at least one), whole payload, in any order; those that are gone are left out."""

    async def stored(self, ids: Sequence[str]) -> list[Stored]:
        """As `retrieve`, with the vectors."""

    async def count(self, where: Where) -> int:
        """Exactly how many match."""
