"""A collection in PostgreSQL with pgvector: how points are stored, and what can be done with them.

A table holds a row for each point: what is filtered by in columns, the payload as JSON bytes, the words of BM25 as an
array with a GIN index. A second table holds a vector for each part of a text. Scores by words are computed in SQL by
the formula of the ranking's own BM25, so that they mean the same in every store.

Row-level security is a second wall: each list, search, count and deletion sets the owner that its `Where` names, and
sees no other rows. It does not stand before point ids (they hold a digest of the owner and come from such a search), a
reindex and numbers for metrics.
"""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

import msgspec
import psycopg
from psycopg import AsyncConnection, AsyncCursor, sql
from psycopg_pool import AsyncConnectionPool

from memproxy.errors import RequestError, StoreUnavailable
from memproxy.ports import SparseVector
from memproxy.stores.backend import (
    FLAG_FIELDS,
    KEYWORD_FIELDS,
    NOT_SCROLLED,
    OWNER_FIELDS,
    TIME_FIELDS,
    Fields,
    FoundPoint,
    Hybrid,
    Order,
    Ranking,
    Scores,
    Stored,
)
from memproxy.stores.filters import AnyOf, Between, Condition, HasId, Missing, OneOf, Where, owner_of
from memproxy.stores.postgres_server import explained
from memproxy.stores.rebuild import EVERYBODY
from memproxy.tasks import cancellations, heed_cancellation

LISTS = ("tags", "entities", "turn_ids")
"""Fields that hold several strings each."""

TEXTS = (*OWNER_FIELDS, *(name for name in KEYWORD_FIELDS if name not in LISTS))
COLUMNS = (*TEXTS, *LISTS, *TIME_FIELDS, *FLAG_FIELDS)

EXACT_UP_TO = 20_000
"""Vectors of an owner up to which all are compared. The index nominates beyond them, and has no others: each vector in
it costs the next write more than all else, and it leaves out other owners' only after it has found the nearest of all.
"""

NOMINATED = 400
"""Vectors that the index nominates (pgvector's ``hnsw.ef_search``, 1 to 1000), since filters come after it."""

LOOKED_UP = 40
"""Words of a question that are looked up in each memory; of more, the memory's words are looked up among them."""

_PAGE = "(tenant, user_id, created_at DESC) INCLUDE (tells_nothing)"
"""The index that pages are read by, and that alone says how many memories IDF is counted over."""

_ESCAPED = re.compile(r"\\([\\0])")

Row = tuple[Any, ...]


class Statement:
    """The values of a statement in the making: only constants of this module and quoted names become its text."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}

    def value(self, value: object, cast_to: str) -> str:
        """A place for a value; it may stand in the text several times."""
        name = f"v{len(self.values)}"
        self.values[name] = value
        return f"%({name})s::{cast_to}"

    def where(self, where: Where) -> str:
        """The conditions of ``where``, all of which hold."""
        parts = [self._condition(condition) for condition in where.must]
        parts += [f"({self._condition(condition)}) IS NOT TRUE" for condition in where.must_not]
        return " AND ".join(parts) or "TRUE"

    def _condition(self, condition: Condition) -> str:  # noqa: PLR0911 - one case, one answer
        if not isinstance(condition, HasId | AnyOf) and condition.key not in COLUMNS:
            raise KeyError(condition.key)  # what becomes text is a column's name
        match condition:
            case OneOf(key, values) if key in LISTS:
                return f"{key} && {self.value(_texts(values), 'text[]')}"
            case OneOf(key, values) if key in FLAG_FIELDS:
                return f"{key} = ANY({self.value(list(values), 'bool[]')})"
            case OneOf(key, (value,)):
                return f"{key} = {self.value(_text(value), 'text')}"
            case OneOf(key, values):
                return f"{key} = ANY({self.value(_texts(values), 'text[]')})"
            case Missing(key):
                return f"{key} IS NULL"
            case Between(key=key):
                bounds = {
                    ">": condition.after,
                    ">=": condition.at_or_after,
                    "<=": condition.at_or_before,
                    "<": condition.before,
                }
                set_bounds = {sign: bound for sign, bound in bounds.items() if bound is not None}
                parts = [f"{key} {sign} {self.value(bound, 'timestamptz')}" for sign, bound in set_bounds.items()]
                return f"({' AND '.join(parts) or 'TRUE'})"
            case HasId(ids):
                return f"place = ANY({self.value(list(ids), 'uuid[]')})"
            case AnyOf(conditions):
                return f"({' OR '.join([self._condition(part) for part in conditions])})"


class NearestIndex(msgspec.Struct, frozen=True):
    """The index that nominates the nearest vectors: HNSW, or IVFFlat with ``lists`` lists, ``probes`` read a search."""

    lists: int | None = None
    probes: int = 1

    @property
    def kind(self) -> str:
        return "hnsw" if self.lists is None else "ivfflat"

    @property
    def options(self) -> list[str] | None:
        """The parameters that the index is made with, as PostgreSQL stores them."""
        return None if self.lists is None else [f"lists={self.lists}"]

    @property
    def width(self) -> str:
        """The statement that sets how far a search looks, within its transaction."""
        if self.lists is None:
            return f"SET LOCAL hnsw.ef_search = {NOMINATED:d}"
        return f"SET LOCAL ivfflat.probes = {self.probes:d}"


class Collection:
    """`backend.Backend` on two tables named after ``name``."""

    def __init__(
        self,
        pool: AsyncConnectionPool[AsyncConnection[Row]],
        name: str,
        location: str,
        *,
        exact_up_to: int = EXACT_UP_TO,
        index: NearestIndex | None = None,
    ) -> None:
        self.name = name
        self._exact_up_to = exact_up_to
        self._index = index or NearestIndex()
        self._pool = pool
        self._location = location
        self._points, self._parts = self._named("points"), self._named("parts")

    def _named(self, part: str) -> str:
        """A table or an index of this collection, quoted."""
        return sql.Identifier(f"{self.name}_{part}").as_string()

    def beside(self, name: str) -> "Collection":
        return Collection(self._pool, name, self._location, exact_up_to=self._exact_up_to, index=self._index)

    @contextlib.asynccontextmanager
    async def connected(
        self, where: Where | None = None, *, at_once: bool = False
    ) -> AsyncIterator[AsyncConnection[Row]]:
        """A connection within one transaction, which sees the rows of the owner whom ``where`` names, and none where it
        forgets to name one; of everybody where it is meant for everybody, asks for points by their ids alone, or is
        None. ``at_once`` sends statements without waiting for the answers of those before. Errors come in our words.
        """
        tenant, user = (owner_of(where) if where is not None else None) or ("", "")
        everybody = "on" if _is_of_everybody(where) else "off"
        try:
            async with contextlib.AsyncExitStack() as stack:
                cancelled = cancellations()
                connection = await stack.enter_async_context(self._pool.connection())
                heed_cancellation(since=cancelled)
                if at_once:
                    await stack.enter_async_context(connection.pipeline())
                await stack.enter_async_context(connection.transaction())
                await connection.execute(
                    "SELECT set_config('memproxy.tenant', %s, true), set_config('memproxy.user_id', %s, true), "
                    "set_config('memproxy.everybody', %s, true)",
                    [_text(tenant), _text(user), everybody],
                )
                yield connection
        except psycopg.errors.DataError as error:
            raise RequestError(f"The {self._location} refused what was to be written ({_cause(error)}).") from error
        except psycopg.Error as error:
            raise StoreUnavailable(f"The {self._location} does not work {explained(error, 'store.url')}") from error

    async def exists(self) -> bool:
        async with self.connected() as connection:
            result = await connection.execute("SELECT to_regclass(%s) IS NOT NULL", [f'"{self.name}_points"'])
            return await result.fetchone() == (True,)

    async def create(self, dimension: int) -> None:
        """Make the tables and their indexes, where they are not there."""
        kinds = ((TEXTS, "text"), (LISTS, "text[]"), (TIME_FIELDS, "timestamptz"), (FLAG_FIELDS, "boolean"))
        columns = ", ".join(f"{name} {kind}" for names, kind in kinds for name in names)
        async with self.connected() as connection:
            await connection.execute(
                f"CREATE TABLE IF NOT EXISTS {self._points} (place uuid PRIMARY KEY, {columns}, "
                "payload bytea NOT NULL, aside bytea, terms bigint[] NOT NULL, weights real[] NOT NULL)"
            )
            await connection.execute(
                f"CREATE TABLE IF NOT EXISTS {self._parts} (place uuid REFERENCES {self._points} ON DELETE CASCADE, "
                f"part smallint, tenant text, user_id text, vector vector({dimension:d}) NOT NULL, "
                "beyond boolean NOT NULL, PRIMARY KEY (place, part))"
            )
            for name, table, of in (
                ("page", self._points, _PAGE),
                ("session", self._points, "(tenant, user_id, session_id, created_at)"),
                ("id", self._points, "(tenant, user_id, id)"),
                ("terms", self._points, "USING gin (terms)"),
                ("owner", self._parts, "(tenant, user_id, beyond)"),
            ):
                await connection.execute(f"CREATE INDEX IF NOT EXISTS {self._named(name)} ON {table} {of}")
            # IVFFlat takes its lists from the vectors that are there, and here are none
            if self._index.kind == "hnsw":
                await connection.execute(self._nearest_made("IF NOT EXISTS"))
            for table in (self._points, self._parts):
                await self._guard(connection, table)

    def _nearest_made(self, how: str) -> str:
        options = f"WITH (lists = {self._index.lists:d})" if self._index.lists is not None else ""
        return (
            f"CREATE INDEX {how} {self._named(self._index.kind)} ON {self._parts} "
            f"USING {self._index.kind} (vector vector_cosine_ops) {options} WHERE beyond"
        )

    async def renew_index(self, connection: AsyncConnection[Row]) -> None:
        """Make the index that is configured where there is another one or none, while others read and write; IVFFlat
        only when there are vectors for it. ``connection`` commits each statement and waits as long as one takes.
        """
        result = await connection.execute(
            "SELECT made.relname, amname, made.reloptions, indisvalid FROM pg_index JOIN pg_class made ON "
            "made.oid = indexrelid JOIN pg_am ON pg_am.oid = made.relam WHERE indrelid = to_regclass(%s) "
            "AND amname IN ('hnsw', 'ivfflat')",
            [f'"{self.name}_parts"'],
        )
        outdated = []
        is_there = False
        for name, kind, options, is_valid in await result.fetchall():
            if is_valid and (kind, options) == (self._index.kind, self._index.options):
                is_there = True
            else:
                outdated.append(name)
        if is_there and not outdated:
            return
        await connection.execute("SELECT set_config('memproxy.everybody', 'on', false)")
        held = await connection.execute(f"SELECT EXISTS (SELECT FROM {self._parts} WHERE beyond)")
        any_held = await held.fetchone() == (True,)
        for name in outdated:
            await connection.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {sql.Identifier(name).as_string()}")
        if not is_there and (any_held or self._index.kind == "hnsw"):
            await connection.execute(self._nearest_made("CONCURRENTLY"))

    async def _guard(self, connection: AsyncConnection[Row], table: str) -> None:
        await connection.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")
        await connection.execute(f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY")
        await connection.execute(f"DROP POLICY IF EXISTS owner ON {table}")
        await connection.execute(
            # each setting is read once a statement, not once a row
            f"CREATE POLICY owner ON {table} USING ((SELECT current_setting('memproxy.everybody', true)) = 'on' OR "
            "(tenant = (SELECT current_setting('memproxy.tenant', true)) AND "
            "user_id = (SELECT current_setting('memproxy.user_id', true))))"
        )

    async def drop(self) -> None:
        async with self.connected() as connection:
            await connection.execute(f"DROP TABLE IF EXISTS {self._parts}, {self._points}")

    async def comment(self) -> str | None:
        """What `set_comment` noted; None: nothing, or there is no such table."""
        async with self.connected() as connection:
            result = await connection.execute("SELECT obj_description(to_regclass(%s))", [f'"{self.name}_points"'])
            row = await result.fetchone()
        return None if row is None else row[0]

    async def set_comment(self, text: str) -> None:
        """Note with the tables what they are made for."""
        async with self.connected() as connection:
            await connection.execute(f"COMMENT ON TABLE {self._points} IS {sql.Literal(text).as_string()}")

    async def upsert(self, points: Sequence[Stored]) -> None:
        # in one order, so that two writers cannot wait for each other
        rows = sorted(points, key=lambda point: point.id)
        async with self.connected(at_once=True) as connection, connection.cursor() as cursor:
            await cursor.executemany(self._insert_point, [_row(point) for point in rows])
            parts = f"DELETE FROM {self._parts} WHERE place = ANY(%s::uuid[])"
            await cursor.execute(parts, [[point.id for point in rows]])
            room = {owner: await self._room(cursor, owner) for owner in {_owner(point) for point in rows}}
            held = []
            for point in rows:
                owner = _owner(point)
                held += [
                    [point.id, number, *owner, _vector(part), room[owner] <= 0]
                    for number, part in enumerate(point.dense)
                ]
                room[owner] -= len(point.dense)
            if held:
                columns = "place, part, tenant, user_id, vector, beyond"
                insert = f"INSERT INTO {self._parts} ({columns}) VALUES (%s, %s, %s, %s, %s, %s)"
                await cursor.executemany(insert, held)

    async def _room(self, cursor: AsyncCursor[Row], owner: tuple[str, str]) -> int:
        """How many more vectors of this owner are to be compared one by one."""
        counted = (
            f"SELECT count(*) FROM (SELECT FROM {self._parts} WHERE tenant = %s AND user_id = %s AND NOT beyond "
            "LIMIT %s) AS held"
        )
        await cursor.execute(counted, [*owner, self._exact_up_to])
        row = await cursor.fetchone()
        return self._exact_up_to - (row[0] if row else 0)

    @cached_property
    def _insert_point(self) -> str:
        names = ("place", *COLUMNS, "payload", "aside", "terms", "weights")
        return (
            f"INSERT INTO {self._points} ({', '.join(names)}) VALUES ({', '.join(['%s'] * len(names))}) "
            f"ON CONFLICT (place) DO UPDATE SET {', '.join(f'{name} = EXCLUDED.{name}' for name in names[1:])}"
        )

    async def set_payload(self, ids: Sequence[str], fields: dict[str, Any]) -> None:
        columns = [name for name in COLUMNS if name in fields]
        changed = ", ".join(f"{name} = %s" for name in ("payload", "aside", *columns))
        update = f"UPDATE {self._points} SET {changed} WHERE place = %s"
        async with self.connected() as connection:
            result = await connection.execute(
                f"SELECT place, payload, aside FROM {self._points} WHERE place = ANY(%s::uuid[]) "
                "ORDER BY place FOR UPDATE",
                [list(ids)],
            )
            rows = []
            for point_id, payload, aside in await result.fetchall():
                merged = {**_payload(payload, aside), **fields}
                present = {name: value for name, value in merged.items() if value is not None}
                rows.append([*_split(present), *(_column(name, fields[name]) for name in columns), point_id])
            if rows:
                async with connection.cursor() as cursor:
                    await cursor.executemany(update, rows)

    async def delete(self, where: Where) -> int:
        statement = Statement()
        text = f"DELETE FROM {self._points} WHERE {statement.where(where)}"
        async with self.connected(where) as connection:
            return (await connection.execute(text, statement.values)).rowcount

    async def scroll(
        self, where: Where, *, limit: int, fields: Fields = None, order: Order = None, after_id: str | None = None
    ) -> list[FoundPoint]:
        statement = Statement()
        few = fields is not None and not set(fields) - {*TEXTS, *TIME_FIELDS, *FLAG_FIELDS}
        selected = ", ".join(["place", *(fields or ())]) if few else "place, payload"
        after = "" if after_id is None else f" AND place > {statement.value(after_id, 'uuid')}"
        by = {"asc": "created_at, place", "desc": "created_at DESC, place", None: "place"}
        text = (
            f"SELECT {selected} FROM {self._points} WHERE {statement.where(where)}{after} "
            f"ORDER BY {by[order]} LIMIT {statement.value(limit, 'bigint')}"
        )
        rows = await self._rows(where, text, statement)
        if few:
            names = list(fields or ())
            by_point = [(str(point_id), zip(names, values, strict=True)) for point_id, *values in rows]
            return [
                FoundPoint(point_id, {name: _read(value) for name, value in pairs if value is not None})
                for point_id, pairs in by_point
            ]
        read = [(str(point_id), msgspec.json.decode(payload)) for point_id, payload in rows]
        return [
            FoundPoint(point_id, payload if fields is None else {n: payload[n] for n in fields if n in payload})
            for point_id, payload in read
        ]

    async def rank(self, rankings: Sequence[Ranking]) -> list[list[tuple[str, float]]]:
        return list(await asyncio.gather(*map(self._ranked, rankings)))

    async def _ranked(self, ranking: Ranking) -> list[tuple[str, float]]:
        owner = owner_of(ranking.where)
        statement = Statement()
        if ranking.bm25 is not None or owner is None:  # single points are compared, whoever has how many
            rows = await self._rows(_named(ranking), self._best(statement, ranking), statement)
            if rows and len(rows[0]) > 2:
                ranking.counted.idf = rows[0][2]
            return _scored_ids(rows)
        text = self._by_vector(statement, ranking, "NOT beyond")
        any_beyond = f"SELECT EXISTS (SELECT FROM {self._parts} WHERE tenant = %s AND user_id = %s AND beyond)"
        async with self.connected(ranking.where, at_once=True) as connection:
            more = await connection.execute(any_beyond, list(map(_text, owner)))
            result = await connection.execute(text, statement.values)
            best, is_all = _scored_ids(await result.fetchall()), await more.fetchone() == (False,)
        if is_all:
            return best
        nominated = await self._nominated(ranking)
        if nominated is None:
            statement = Statement()
            return _scored_ids(await self._rows(ranking.where, self._by_vector(statement, ranking), statement))
        scores = dict(nominated)
        for point_id, score in best:  # the parts of a point may lie on both sides
            scores[point_id] = max(score, scores.get(point_id, score))
        return sorted(scores.items(), key=lambda item: (-item[1], item[0]))[: ranking.limit]

    async def explained(self, ranking: Ranking, *, nominated: bool = False) -> str:
        """PostgreSQL's plan for a search, or for what the index nominates, as text."""
        statement = Statement()
        text = self._near(statement, ranking) if nominated else self._best(statement, ranking)
        return "\n".join(row[0] for row in await self._rows(_named(ranking), f"EXPLAIN {text}", statement))

    def _best(self, statement: Statement, ranking: Ranking) -> str:
        return self._by_words(statement, ranking, ranking.bm25) if ranking.bm25 else self._by_vector(statement, ranking)

    def _by_words(self, statement: Statement, ranking: Ranking, words: SparseVector) -> str:
        """BM25 with the IDF of the corpus: ln(1 + (n - df + .5) / (df + .5)), as Qdrant's and the owner index's. Where
        the words are few, and what they weigh is not known yet, their IDF comes with each row.
        """
        if not 0 < len(words.indices) <= LOOKED_UP:
            return self._by_many_words(statement, ranking, words)
        corpus, matching = statement.where(ranking.corpus or ranking.where), statement.where(ranking.where)
        terms, limit = statement.value(words.indices, "bigint[]"), statement.value(ranking.limit, "bigint")
        numbers = range(1, 1 + len(words.indices))
        weights = {number: f"weights[array_position(terms, ({terms})[{number}])]" for number in numbers}
        if ranking.counted.idf is not None:
            weighed = [weight * idf for weight, idf in zip(words.values, ranking.counted.idf, strict=True)]
            factors = statement.value(weighed, "float8[]")
            score = " + ".join(f"coalesce(({factors})[{number}] * {held}, 0)" for number, held in weights.items())
            return (
                f"SELECT place, {score} AS score FROM {self._points} WHERE {corpus} AND {matching} "
                f"AND terms && {terms} ORDER BY score DESC, place LIMIT {limit}"
            )
        query_weights = statement.value(words.values, "float8[]")
        held = ", ".join(f"{held} AS w{number}" for number, held in weights.items())
        counts = ", ".join(f"count(w{number})" for number in numbers)
        score = " + ".join(
            f"coalesce(({query_weights})[{number}] * idf[{number}] * w{number}, 0)" for number in numbers
        )
        return (
            f"WITH hits AS MATERIALIZED (SELECT place, ({matching}) AS wanted, {held} "
            f"FROM {self._points} WHERE {corpus} AND terms && {terms}), "
            f"counted AS MATERIALIZED (SELECT (SELECT count(*)::float8 FROM {self._points} WHERE {corpus}) AS n, "
            f"ARRAY[{counts}]::float8[] AS df FROM hits), "
            "weighed AS MATERIALIZED (SELECT ARRAY(SELECT ln(1 + (n - each.df + 0.5) / (each.df + 0.5)) "
            "FROM unnest(counted.df) WITH ORDINALITY AS each(df, number) ORDER BY number) AS idf FROM counted) "
            f"SELECT place, {score} AS score, idf FROM hits, weighed WHERE wanted ORDER BY score DESC, place "
            f"LIMIT {limit}"
        )

    def _by_many_words(self, statement: Statement, ranking: Ranking, words: SparseVector) -> str:
        """The same of a text that has more of them than a memory."""
        corpus, terms = statement.where(ranking.corpus or ranking.where), statement.value(words.indices, "bigint[]")
        query_weights = statement.value(words.values, "float8[]")
        return (
            f"WITH corpus AS (SELECT count(*)::float8 AS n FROM {self._points} WHERE {corpus}), "
            f"hits AS MATERIALIZED (SELECT place, ({statement.where(ranking.where)}) AS wanted, held.term, held.weight "
            f"FROM {self._points} CROSS JOIN LATERAL unnest(terms, weights) AS held(term, weight) "
            f"WHERE {corpus} AND terms && {terms} AND held.term = ANY({terms})), "
            "idf AS (SELECT term, ln(1 + (n - count(*) + 0.5) / (count(*) + 0.5)) AS idf FROM hits, corpus "
            "GROUP BY term, n), "
            f"asked AS (SELECT * FROM unnest({terms}, {query_weights}) AS one(term, weight)) "
            "SELECT place, sum(asked.weight * idf * hits.weight) AS score FROM hits JOIN idf USING (term) "
            "JOIN asked USING (term) WHERE hits.wanted GROUP BY place ORDER BY score DESC, place "
            f"LIMIT {statement.value(ranking.limit, 'bigint')}"
        )

    def _by_vector(self, statement: Statement, ranking: Ranking, among: str = "TRUE") -> str:
        """The nearest points, each by its nearest part: all ``among`` an owner's are compared."""
        owner = statement.where(_owner_alone(_named(ranking)))
        vector = statement.value(_vector(ranking.dense or []), "vector")
        return (
            # the distance is worked out where the vector is read, so that only it is grouped and sorted
            f"WITH held AS MATERIALIZED (SELECT place, vector <=> {vector} AS far FROM (SELECT place "
            f"FROM {self._points} WHERE {statement.where(ranking.where)}) AS wanted JOIN (SELECT place, vector "
            f"FROM {self._parts} WHERE {owner} AND {among}) AS owned USING (place)) "
            "SELECT place, 1 - min(far) AS score FROM held GROUP BY place ORDER BY score DESC, place "
            f"LIMIT {statement.value(ranking.limit, 'bigint')}"
        )

    async def _nominated(self, ranking: Ranking) -> list[tuple[str, float]] | None:
        """The nearest beyond `EXACT_UP_TO` by the index; None: there is none, or too few of them are the owner's."""
        statement = Statement()
        text = self._near(statement, ranking)
        async with self.connected(ranking.where, at_once=True) as connection:
            index = await connection.execute(
                "SELECT FROM pg_index WHERE indexrelid = to_regclass(%s) AND indisvalid",
                [f'"{self.name}_{self._index.kind}"'],
            )
            if await index.fetchone() is None:
                return None
            await connection.execute(self._index.width)
            scored = _scored_ids(await (await connection.execute(text, statement.values)).fetchall())
        return scored if len(scored) >= ranking.limit else None

    def _near(self, statement: Statement, ranking: Ranking) -> str:
        vector = statement.value(_vector(ranking.dense or []), "vector")
        return (
            f"WITH near AS MATERIALIZED (SELECT place, vector <=> {vector} AS far FROM {self._parts} "
            f"WHERE beyond AND {statement.where(_owner_alone(ranking.where))} ORDER BY vector <=> {vector} "
            f"LIMIT {NOMINATED:d}) SELECT place, 1 - min(far) AS score FROM near JOIN {self._points} USING (place) "
            f"WHERE {statement.where(ranking.where)} GROUP BY place ORDER BY score DESC, place "
            f"LIMIT {statement.value(ranking.limit, 'bigint')}"
        )

    async def scores(self, query: Hybrid) -> Scores | None:  # noqa: ARG002 - the protocol's
        """The server is asked: others may write to it, too."""
        return None

    async def retrieve(self, ids: Sequence[str]) -> list[FoundPoint]:
        statement = Statement()
        chosen = statement.value(list(ids), "uuid[]")
        text = f"SELECT place, payload, aside FROM {self._points} WHERE place = ANY({chosen})"
        rows = await self._rows(None, text, statement)
        return [FoundPoint(str(point_id), _payload(payload, aside)) for point_id, payload, aside in rows]

    async def stored(self, ids: Sequence[str]) -> list[Stored]:
        statement = Statement()
        chosen = statement.value(list(ids), "uuid[]")
        text = (
            "SELECT place, payload, aside, terms, weights, (SELECT array_agg(vector::real[] ORDER BY part) "
            f"FROM {self._parts} WHERE {self._parts}.place = {self._points}.place) FROM {self._points} "
            f"WHERE place = ANY({chosen})"
        )
        rows = await self._rows(None, text, statement)
        return [
            Stored(str(point_id), _payload(payload, aside), vectors or [], SparseVector(terms, weights))
            for point_id, payload, aside, terms, weights, vectors in rows
        ]

    async def count(self, where: Where) -> int:
        statement = Statement()
        text = f"SELECT count(*) FROM {self._points} WHERE {statement.where(where)}"
        return int((await self._rows(where, text, statement))[0][0])

    async def _rows(self, named: Where | None, text: str, statement: Statement) -> list[Row]:
        """The answer of one statement; it goes to the server together with what opens its transaction."""
        async with self.connected(named, at_once=True) as connection:
            return await (await connection.execute(text, statement.values)).fetchall()


def _scored_ids(rows: list[Row]) -> list[tuple[str, float]]:
    return [(str(point_id), float(score)) for point_id, score, *_ in rows]


def _named(ranking: Ranking) -> Where:
    """What names the ranking's owner: a search of single points names him in its corpus."""
    return ranking.where if owner_of(ranking.where) is not None or ranking.corpus is None else ranking.corpus


def _is_of_everybody(where: Where | None) -> bool:
    """Whether it is not meant for one owner: a reindex, a tenant's number of memories, and points that are asked for by
    the ids that a search of their owner's has found.
    """
    if where is None or where == EVERYBODY:
        return True
    if all(isinstance(condition, HasId) for condition in where.must) and not where.must_not:
        return bool(where.must)
    return len(where.must) == 1 and isinstance(condition := where.must[0], OneOf) and condition.key == "tenant"


def _owner_alone(where: Where) -> Where:
    """The conditions of ``where`` that name the owner."""
    return Where(tuple(rule for rule in where.must if isinstance(rule, OneOf) and rule.key in OWNER_FIELDS))


def _text(value: object) -> str:
    """A text as a column holds it: PostgreSQL knows no NUL in one."""
    return str(value).replace("\\", "\\\\").replace("\x00", "\\0")


def _texts(values: Sequence[object]) -> list[str]:
    return [_text(value) for value in values]


def _column(name: str, value: Any) -> Any:
    """A payload's field as its column holds it; None where there is nothing."""
    if value is None or value == []:
        return None
    if name in LISTS:
        return _texts(value)
    return _text(value) if name in TEXTS else value


def _read(value: Any) -> Any:
    """A column's value as the payload holds it."""
    if isinstance(value, datetime):
        return msgspec.to_builtins(value.astimezone(UTC))
    if isinstance(value, str):
        return _ESCAPED.sub(lambda match: "\x00" if match[1] == "0" else "\\", value)
    return value


def _split(payload: dict[str, Any]) -> tuple[bytes, bytes | None]:
    """The payload's JSON, and that of the long fields that only a search reads."""
    aside = {name: payload[name] for name in NOT_SCROLLED if name in payload}
    main = {name: value for name, value in payload.items() if name not in aside}
    return msgspec.json.encode(main), msgspec.json.encode(aside) if aside else None


def _payload(payload: bytes, aside: bytes | None) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.json.decode(payload)
    return fields | msgspec.json.decode(aside) if aside else fields


def _row(point: Stored) -> list[Any]:
    columns = [_column(name, point.payload.get(name)) for name in COLUMNS]
    return [point.id, *columns, *_split(point.payload), point.bm25.indices, point.bm25.values]


def _owner(point: Stored) -> tuple[str, str]:
    return _text(point.payload["tenant"]), _text(point.payload["user_id"])


def _vector(numbers: Sequence[float]) -> str:
    return msgspec.json.encode(numbers).decode()


def _cause(error: psycopg.Error) -> str:
    """PostgreSQL's message without its details, which may quote values of a row."""
    primary = error.diag.message_primary
    return (primary or str(error) or type(error).__name__).splitlines()[0][:200]
