"""A collection in PostgreSQL with pgvector: how points are stored, and what can be done with them.

A table holds a row for each point: what is filtered by in columns, the whole payload as JSON bytes, the words of BM25
as an array with a GIN index. A second table holds the embedder's vectors, one row for each part of a text. Scores by
words are computed in SQL with the formula of the ranking's own BM25, so that they mean the same in every store.

Row-level security is a second wall: each list, search, count and deletion sets the owner that its `Where` names, and a
row of another one is not there for it, whatever the statement's text says; one that forgets the owner sees nothing. It
does not stand before what is read, written or changed by point ids (they hold a digest of the owner and come from
such a search), nor before a reindex and numbers for metrics.
"""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import Any, LiteralString

import msgspec
import psycopg
from psycopg import AsyncConnection, sql
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from memproxy.errors import RequestError, StoreUnavailable
from memproxy.ports import SparseVector
from memproxy.stores.backend import (
    FLAG_FIELDS,
    KEYWORD_FIELDS,
    NOT_SCROLLED,
    OWNER_FIELDS,
    TIME_FIELDS,
    Found,
    Hybrid,
    Ranking,
    Scores,
    Stored,
    Written,
)
from memproxy.stores.filters import AnyOf, Between, Condition, HasId, Missing, OneOf, Where
from memproxy.stores.rebuild import EVERYBODY

LISTS = ("tags", "entities", "turn_ids")
"""Fields that hold several strings each."""

TEXTS = (*OWNER_FIELDS, *(name for name in KEYWORD_FIELDS if name not in LISTS))
COLUMNS = (*TEXTS, *LISTS, *TIME_FIELDS, *FLAG_FIELDS)

EXACT_UP_TO = 20_000
"""Vectors of an owner up to which all are compared. Beyond, the HNSW index nominates: it finds the nearest of all
owners and leaves out those of others, so that for a small owner it would find too few.
"""

EF_SEARCH = 400
"""Candidates that the HNSW index looks at (pgvector's ``hnsw.ef_search``, 1 to 1000), since filters come after it."""

_ESCAPED = re.compile(r"\\([\\0])")

Row = tuple[Any, ...]
Text = sql.SQL | sql.Composed


class Statement:
    """SQL text in the making, with the values of its places.

    Only constants of this module and quoted identifiers become text; everything else is a value.
    """

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}

    def value(self, value: object, cast_to: LiteralString) -> Text:
        """A place for a value; it may stand in the text several times."""
        name = f"v{len(self.values)}"
        self.values[name] = value
        return sql.Placeholder(name) + sql.SQL("::") + sql.SQL(cast_to)

    def where(self, where: Where) -> Text:
        """The conditions of ``where``, all of which hold."""
        parts = [self._condition(one) for one in where.must]
        parts += [sql.SQL("({}) IS NOT TRUE").format(self._condition(one)) for one in where.must_not]
        return sql.SQL(" AND ").join(parts) if parts else sql.SQL("TRUE")

    def _condition(self, condition: Condition) -> Text:  # noqa: PLR0911 - one case, one answer
        match condition:
            case OneOf(key, values) if key in LISTS:
                return sql.SQL("{} && {}").format(sql.Identifier(key), self.value(_texts(values), "text[]"))
            case OneOf(key, values) if key in FLAG_FIELDS:
                return sql.SQL("{} = ANY({})").format(sql.Identifier(key), self.value(list(values), "bool[]"))
            case OneOf(key, (value,)):
                return sql.SQL("{} = {}").format(sql.Identifier(key), self.value(_text(value), "text"))
            case OneOf(key, values):
                return sql.SQL("{} = ANY({})").format(sql.Identifier(key), self.value(_texts(values), "text[]"))
            case Missing(key):
                return sql.SQL("{} IS NULL").format(sql.Identifier(key))
            case Between():
                return self._between(condition)
            case HasId(ids):
                return sql.SQL("place = ANY({})").format(self.value(list(ids), "uuid[]"))
            case AnyOf(conditions):
                return sql.SQL("({})").format(sql.SQL(" OR ").join([self._condition(one) for one in conditions]))

    def _between(self, between: Between) -> Text:
        bounds: list[tuple[LiteralString, datetime | None]] = [
            (">", between.after),
            (">=", between.at_or_after),
            ("<=", between.at_or_before),
            ("<", between.before),
        ]
        parts = [
            sql.SQL("{} {} {}").format(sql.Identifier(between.key), sql.SQL(sign), self.value(bound, "timestamptz"))
            for sign, bound in bounds
            if bound is not None
        ]
        return sql.SQL("({})").format(sql.SQL(" AND ").join(parts)) if parts else sql.SQL("TRUE")


class Collection:
    """`backend.Backend` on two tables named after ``name``."""

    def __init__(
        self,
        pool: AsyncConnectionPool[AsyncConnection[Row]],
        name: str,
        place: str,
        *,
        exact_up_to: int = EXACT_UP_TO,
    ) -> None:
        self.name = name
        self._exact_up_to = exact_up_to
        self._pool = pool
        self._place = place
        self._points = sql.Identifier(f"{name}_points")
        self._parts = sql.Identifier(f"{name}_parts")

    def beside(self, name: str) -> "Collection":
        """Another collection of the same database."""
        return Collection(self._pool, name, self._place, exact_up_to=self._exact_up_to)

    @contextlib.asynccontextmanager
    async def connected(
        self, where: Where | None = None, *, at_once: bool = False
    ) -> AsyncIterator[AsyncConnection[Row]]:
        """A connection within one transaction, which sees the rows of the owner whom ``where`` names, and none where it
        forgets to name one; of everybody where it is meant for everybody, asks for points by their ids alone, or is
        None. ``at_once`` sends statements without waiting for the answers of those before. Errors come in our words.
        """
        tenant, user = _owner_of(where) or ("", "")
        everybody = "on" if _is_of_everybody(where) else "off"
        try:
            async with contextlib.AsyncExitStack() as stack:
                connection = await stack.enter_async_context(self._pool.connection())
                if at_once:
                    await stack.enter_async_context(connection.pipeline())
                await stack.enter_async_context(connection.transaction())
                await connection.execute(
                    "SELECT set_config('memproxy.tenant', %s, true), set_config('memproxy.user_id', %s, true), "
                    "set_config('memproxy.everybody', %s, true)",
                    [_text(tenant), _text(user), everybody],
                )
                yield connection
        except PoolTimeout as error:
            raise StoreUnavailable(f"The {self._place} cannot be reached. Check that PostgreSQL runs.") from error
        except psycopg.errors.DataError as error:
            raise RequestError(f"The {self._place} refused what was to be written ({_cause(error)}).") from error
        except psycopg.Error as error:
            raise StoreUnavailable(
                f"The {self._place} failed ({_cause(error)}). Look into PostgreSQL's log."
            ) from error

    async def exists(self) -> bool:
        """Whether its tables are there."""
        async with self.connected() as connection:
            found = await connection.execute("SELECT to_regclass(%s)", [f'"{self.name}_points"'])
            row = await found.fetchone()
        return row is not None and row[0] is not None

    async def create(self, dimension: int) -> None:
        """Make the tables and their indexes, where they are not there."""
        texts = sql.SQL(", ").join(sql.SQL("{} text").format(sql.Identifier(name)) for name in TEXTS)
        lists = sql.SQL(", ").join(sql.SQL("{} text[]").format(sql.Identifier(name)) for name in LISTS)
        times = sql.SQL(", ").join(sql.SQL("{} timestamptz").format(sql.Identifier(name)) for name in TIME_FIELDS)
        flags = sql.SQL(", ").join(sql.SQL("{} boolean").format(sql.Identifier(name)) for name in FLAG_FIELDS)
        async with self.connected() as connection:
            await connection.execute(
                sql.SQL(
                    "CREATE TABLE IF NOT EXISTS {} (place uuid PRIMARY KEY, {}, {}, {}, {}, payload bytea NOT NULL, "
                    "aside bytea, terms bigint[] NOT NULL, weights real[] NOT NULL)"
                ).format(self._points, texts, lists, times, flags)
            )
            await connection.execute(
                sql.SQL(
                    "CREATE TABLE IF NOT EXISTS {} (place uuid REFERENCES {} ON DELETE CASCADE, part smallint, "
                    "tenant text, user_id text, vector vector({}) NOT NULL, PRIMARY KEY (place, part))"
                ).format(self._parts, self._points, sql.Literal(dimension))
            )
            for made in self._indexes():
                await connection.execute(made)
            for table in (self._points, self._parts):
                await self._guard(connection, table)

    def _indexes(self) -> list[Text]:
        points, parts = self._points, self._parts
        named: list[tuple[LiteralString, sql.Identifier, LiteralString]] = [
            ("page", points, "(tenant, user_id, created_at DESC)"),
            ("session", points, "(tenant, user_id, session_id, created_at)"),
            ("id", points, "(tenant, user_id, id)"),
            ("terms", points, "USING gin (terms)"),
            ("owner", parts, "(tenant, user_id)"),
            ("hnsw", parts, "USING hnsw (vector vector_cosine_ops)"),
        ]
        return [
            sql.SQL("CREATE INDEX IF NOT EXISTS {} ON {} ").format(sql.Identifier(f"{self.name}_{name}"), table)
            + sql.SQL(columns)
            for name, table, columns in named
        ]

    async def _guard(self, connection: AsyncConnection[Row], table: sql.Identifier) -> None:
        await connection.execute(sql.SQL("ALTER TABLE {} ENABLE ROW LEVEL SECURITY").format(table))
        await connection.execute(sql.SQL("ALTER TABLE {} FORCE ROW LEVEL SECURITY").format(table))
        await connection.execute(sql.SQL("DROP POLICY IF EXISTS owner ON {}").format(table))
        await connection.execute(
            sql.SQL(
                # each setting is read once a statement, not once a row
                "CREATE POLICY owner ON {} USING ((SELECT current_setting('memproxy.everybody', true)) = 'on' OR "
                "(tenant = (SELECT current_setting('memproxy.tenant', true)) AND "
                "user_id = (SELECT current_setting('memproxy.user_id', true))))"
            ).format(table)
        )

    async def drop(self) -> None:
        """Remove it with all that it holds."""
        async with self.connected() as connection:
            await connection.execute(sql.SQL("DROP TABLE IF EXISTS {}, {}").format(self._parts, self._points))

    async def comment(self) -> str | None:
        """What `set_comment` noted; None: nothing, or there is no such table."""
        async with self.connected() as connection:
            found = await connection.execute("SELECT obj_description(to_regclass(%s))", [f'"{self.name}_points"'])
            row = await found.fetchone()
        return None if row is None else row[0]

    async def set_comment(self, text: str) -> None:
        """Note with the tables what they are made for."""
        async with self.connected() as connection:
            await connection.execute(sql.SQL("COMMENT ON TABLE {} IS {}").format(self._points, sql.Literal(text)))

    async def upsert(self, points: Sequence[Written]) -> None:
        names = sql.SQL(", ").join(map(sql.Identifier, ("place", *COLUMNS, "payload", "aside", "terms", "weights")))
        places = sql.SQL(", ").join(sql.Placeholder() * (len(COLUMNS) + 5))
        changed = sql.SQL(", ").join(
            sql.SQL("{0} = EXCLUDED.{0}").format(sql.Identifier(name))
            for name in (*COLUMNS, "payload", "aside", "terms", "weights")
        )
        insert = sql.SQL("INSERT INTO {} ({}) VALUES ({}) ON CONFLICT (place) DO UPDATE SET {}").format(
            self._points, names, places, changed
        )
        part = sql.SQL("INSERT INTO {} (place, part, tenant, user_id, vector) VALUES (%s, %s, %s, %s, %s)").format(
            self._parts
        )
        rows = sorted(points, key=lambda one: one.id)  # in one order, so that two writers cannot wait for each other
        async with self.connected() as connection, connection.cursor() as cursor:
            await cursor.executemany(insert, [_row(point) for point in rows])
            await cursor.execute(
                sql.SQL("DELETE FROM {} WHERE place = ANY(%s::uuid[])").format(self._parts), [[one.id for one in rows]]
            )
            if parts := [row for point in rows for row in _part_rows(point)]:
                await cursor.executemany(part, parts)

    async def set_payload(self, ids: Sequence[str], fields: dict[str, Any]) -> None:
        columns = [name for name in COLUMNS if name in fields]
        update = sql.SQL("UPDATE {} SET {} WHERE place = %s").format(
            self._points,
            sql.SQL(", ").join(
                sql.SQL("{} = %s").format(sql.Identifier(one)) for one in ("payload", "aside", *columns)
            ),
        )
        async with self.connected() as connection:
            found = await connection.execute(
                sql.SQL(
                    "SELECT place, payload, aside FROM {} WHERE place = ANY(%s::uuid[]) ORDER BY place FOR UPDATE"
                ).format(self._points),
                [list(ids)],
            )
            rows = []
            for place, payload, aside in await found.fetchall():
                merged = {**_payload(payload, aside), **fields}
                kept = {name: value for name, value in merged.items() if value is not None}
                rows.append([*_split(kept), *(_column(name, fields[name]) for name in columns), place])
            if rows:
                async with connection.cursor() as cursor:
                    await cursor.executemany(update, rows)

    async def delete(self, where: Where) -> int:
        statement = Statement()
        text = sql.SQL("DELETE FROM {} WHERE {}").format(self._points, statement.where(where))
        async with self.connected(where) as connection:
            return (await connection.execute(text, statement.values)).rowcount

    async def scroll(
        self,
        where: Where,
        *,
        limit: int,
        fields: Sequence[str] | None = None,
        order: str | None = None,
        after_id: str | None = None,
    ) -> list[Found]:
        statement = Statement()
        few = fields is not None and all(name in TEXTS or name in FLAG_FIELDS for name in fields)
        selected = [sql.Identifier(name) for name in fields or ()] if few else [sql.Identifier("payload")]
        conditions = [statement.where(where)]
        if after_id is not None:
            conditions.append(sql.SQL("place > {}").format(statement.value(after_id, "uuid")))
        by = {"asc": sql.SQL("created_at, place"), "desc": sql.SQL("created_at DESC, place")}
        text = sql.SQL("SELECT {} FROM {} WHERE {} ORDER BY {} LIMIT {}").format(
            sql.SQL(", ").join([sql.Identifier("place"), *selected]),
            self._points,
            sql.SQL(" AND ").join(conditions),
            by.get(order or "", sql.SQL("place")),
            statement.value(limit, "bigint"),
        )
        rows = await self._rows(where, text, statement)
        if few:
            names = list(fields or ())
            return [Found(str(row[0]), _fields(names, row[1:])) for row in rows]
        read = [Found(str(place), msgspec.json.decode(payload)) for place, payload in rows]
        if fields is None:
            return read
        return [Found(one.id, {name: one.payload[name] for name in fields if name in one.payload}) for one in read]

    async def rank(self, rankings: Sequence[Ranking]) -> list[list[tuple[str, float]]]:
        return list(await asyncio.gather(*map(self._ranked, rankings)))

    async def _ranked(self, ranking: Ranking) -> list[tuple[str, float]]:
        nominated = await self._nominated(ranking)
        if nominated is None:
            statement = Statement()
            rows = await self._rows(_named(ranking), self._best(statement, ranking), statement)
        else:
            rows = nominated
        return [(str(place), float(score)) for place, score in rows]

    async def explained(self, ranking: Ranking) -> str:
        """PostgreSQL's plan for a search, as text."""
        statement = Statement()
        text = sql.SQL("EXPLAIN ") + self._best(statement, ranking)
        return "\n".join(row[0] for row in await self._rows(_named(ranking), text, statement))

    def _best(self, statement: Statement, ranking: Ranking) -> Text:
        return self._by_words(statement, ranking, ranking.bm25) if ranking.bm25 else self._by_vector(statement, ranking)

    def _by_words(self, statement: Statement, ranking: Ranking, words: SparseVector) -> Text:
        """BM25 with the IDF of the corpus: ln(1 + (n - df + .5) / (df + .5)), as Qdrant's and the owner index's."""
        corpus = statement.where(ranking.corpus or ranking.where)
        return sql.SQL(
            "WITH corpus AS (SELECT count(*)::float8 AS n FROM {points} WHERE {corpus}), "
            "hits AS MATERIALIZED (SELECT place, ({wanted}) AS wanted, held.term, held.weight FROM {points} "
            "CROSS JOIN LATERAL unnest(terms, weights) AS held(term, weight) "
            "WHERE {corpus} AND terms && {terms} AND held.term = ANY({terms})), "
            "idf AS (SELECT term, ln(1 + (n - count(*) + 0.5) / (count(*) + 0.5)) AS idf FROM hits, corpus "
            "GROUP BY term, n), "
            "asked AS (SELECT * FROM unnest({terms}, {weights}) AS one(term, weight)) "
            "SELECT place, sum(asked.weight * idf * hits.weight) AS score FROM hits JOIN idf USING (term) "
            "JOIN asked USING (term) WHERE hits.wanted GROUP BY place ORDER BY score DESC, place LIMIT {limit}"
        ).format(
            points=self._points,
            corpus=corpus,
            wanted=statement.where(ranking.where),
            terms=statement.value(words.indices, "bigint[]"),
            weights=statement.value(words.values, "float8[]"),
            limit=statement.value(ranking.limit, "bigint"),
        )

    def _by_vector(self, statement: Statement, ranking: Ranking) -> Text:
        """The nearest points, each by its nearest part: all of an owner's are compared."""
        return sql.SQL(
            "SELECT place, 1 - min(vector <=> {vector}) AS score FROM (SELECT place FROM {points} WHERE {where}) AS "
            "wanted JOIN (SELECT place, vector FROM {parts} WHERE {owner}) AS held USING (place) "
            "GROUP BY place ORDER BY score DESC, place LIMIT {limit}"
        ).format(
            owner=statement.where(Where(_naming(_named(ranking)))),
            vector=statement.value(_vector(ranking.dense or []), "vector"),
            parts=self._parts,
            points=self._points,
            where=statement.where(ranking.where),
            limit=statement.value(ranking.limit, "bigint"),
        )

    async def _nominated(self, ranking: Ranking) -> list[Row] | None:
        """As `_by_vector`, of those that the HNSW index nominates. None where all are to be compared: they are few, or
        too few of the nominated ones are the owner's.
        """
        searched = ranking.dense is not None and _owner_of(ranking.where) is not None
        if not searched or await self._vectors(ranking.where) <= self._exact_up_to:
            return None
        statement = Statement()
        text = sql.SQL(
            "WITH near AS MATERIALIZED (SELECT place, vector <=> {vector} AS far FROM {parts} ORDER BY vector <=> "
            "{vector} LIMIT {most}) SELECT place, 1 - min(far) AS score FROM near JOIN {points} USING (place) "
            "WHERE {where} GROUP BY place ORDER BY score DESC, place LIMIT {limit}"
        ).format(
            vector=statement.value(_vector(ranking.dense or []), "vector"),
            parts=self._parts,
            points=self._points,
            where=statement.where(ranking.where),
            limit=statement.value(ranking.limit, "bigint"),
            most=sql.Literal(EF_SEARCH),
        )
        async with self.connected(ranking.where) as connection:
            await connection.execute(sql.SQL("SET LOCAL hnsw.ef_search = {}").format(sql.Literal(EF_SEARCH)))
            found = await (await connection.execute(text, statement.values)).fetchall()
        return found if len(found) >= ranking.limit else None

    async def _vectors(self, where: Where) -> int:
        """How many vectors the owner has; what are more than are all compared counts as one more."""
        statement = Statement()
        text = sql.SQL("SELECT count(*) FROM (SELECT 1 FROM {} WHERE {} LIMIT {}) AS counted").format(
            self._parts, statement.where(Where(_naming(where))), sql.Literal(self._exact_up_to + 1)
        )
        return int((await self._rows(where, text, statement))[0][0])

    async def scores(self, asked: Hybrid) -> Scores | None:  # noqa: ARG002 - the protocol's
        """The server is asked: others may write to it, too."""
        return None

    async def retrieve(self, ids: Sequence[str]) -> list[Found]:
        if not ids:
            return []
        statement = Statement()
        text = sql.SQL("SELECT place, payload, aside FROM {} WHERE {}").format(
            self._points, statement.where(Where((HasId(tuple(ids)),)))
        )
        rows = await self._rows(None, text, statement)
        return [Found(str(place), _payload(payload, aside)) for place, payload, aside in rows]

    async def stored(self, ids: Sequence[str]) -> list[Stored]:
        if not ids:
            return []
        statement = Statement()
        text = sql.SQL(
            "SELECT place, payload, aside, terms, weights, (SELECT array_agg(vector::real[] ORDER BY part) "
            "FROM {parts} WHERE {parts}.place = {points}.place) FROM {points} WHERE {where}"
        ).format(parts=self._parts, points=self._points, where=statement.where(Where((HasId(tuple(ids)),))))
        rows = await self._rows(None, text, statement)
        return [
            Stored(
                found=Found(str(place), _payload(payload, aside)),
                bm25=SparseVector(terms, weights),
                dense=[list(one) for one in vectors or ()],
            )
            for place, payload, aside, terms, weights, vectors in rows
        ]

    async def count(self, where: Where) -> int:
        statement = Statement()
        text = sql.SQL("SELECT count(*) FROM {} WHERE {}").format(self._points, statement.where(where))
        return int((await self._rows(where, text, statement))[0][0])

    async def _rows(self, named: Where | None, text: Text, statement: Statement) -> list[Row]:
        """The answer of one statement; it goes to the server together with what opens its transaction."""
        async with self.connected(named, at_once=True) as connection:
            return await (await connection.execute(text, statement.values)).fetchall()


def _named(ranking: Ranking) -> Where:
    """What names the ranking's owner: a search of single points names him in its corpus."""
    return ranking.where if _owner_of(ranking.where) is not None or ranking.corpus is None else ranking.corpus


def _is_of_everybody(where: Where | None) -> bool:
    """Whether it is not meant for one owner: a reindex, a tenant's number of memories, and points that are asked for by
    the ids that a search of their owner's has found.
    """
    if where is None or where == EVERYBODY:
        return True
    if all(isinstance(one, HasId) for one in where.must) and not where.must_not:
        return bool(where.must)
    return len(where.must) == 1 and isinstance(one := where.must[0], OneOf) and one.key == "tenant"


def _naming(where: Where | None) -> tuple[OneOf, ...]:
    """The conditions of ``where`` that name one tenant and one user."""
    must = where.must if where is not None else ()
    return tuple(one for one in must if isinstance(one, OneOf) and one.key in OWNER_FIELDS and len(one.values) == 1)


def _owner_of(where: Where | None) -> tuple[str, str] | None:
    """Tenant and user whom ``where`` names; None: it is not limited to one owner."""
    named = {one.key: str(one.values[0]) for one in _naming(where)}
    return (named["tenant"], named["user_id"]) if len(named) == len(OWNER_FIELDS) else None


def _text(value: object) -> str:
    """A text as a column holds it: PostgreSQL knows no NUL in one."""
    return str(value).replace("\\", "\\\\").replace("\x00", "\\0")


def _texts(values: Sequence[object]) -> list[str]:
    return [_text(one) for one in values]


def _as_it_was(text: str) -> str:
    return _ESCAPED.sub(lambda found: "\x00" if found[1] == "0" else "\\", text)


def _column(name: str, value: Any) -> Any:
    """A payload's field as its column holds it; None where there is nothing."""
    if value is None or value == []:
        return None
    if name in LISTS:
        return _texts(value)
    return _text(value) if name in TEXTS else value


def _fields(names: Sequence[str], row: Sequence[Any]) -> dict[str, Any]:
    pairs = zip(names, row, strict=True)
    return {name: _as_it_was(value) if isinstance(value, str) else value for name, value in pairs if value is not None}


def _split(payload: dict[str, Any]) -> tuple[bytes, bytes | None]:
    """The payload's JSON, and that of the long fields that only a search reads."""
    aside = {name: payload[name] for name in NOT_SCROLLED if name in payload}
    main = {name: value for name, value in payload.items() if name not in aside}
    return msgspec.json.encode(main), msgspec.json.encode(aside) if aside else None


def _payload(payload: bytes, aside: bytes | None) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(payload)
    return found | msgspec.json.decode(aside) if aside else found


def _row(point: Written) -> list[Any]:
    columns = [_column(name, point.payload.get(name)) for name in COLUMNS]
    return [point.id, *columns, *_split(point.payload), point.bm25.indices, point.bm25.values]


def _part_rows(point: Written) -> list[list[Any]]:
    owner = [_text(point.payload[name]) for name in OWNER_FIELDS]
    return [[point.id, number, *owner, _vector(part)] for number, part in enumerate(point.dense)]


def _vector(numbers: Sequence[float]) -> str:
    """A vector in pgvector's own text form."""
    return f"[{','.join(map(repr, map(float, numbers)))}]"


def _cause(error: psycopg.Error) -> str:
    """What PostgreSQL said, without the values of a row, which its details may quote."""
    primary = error.diag.message_primary
    return (primary or str(error) or type(error).__name__).splitlines()[0][:200]
