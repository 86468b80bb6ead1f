"""What the memory API's calls take in their query strings, but `GET /v1/memory` (`schemas.ListQuery`)."""

from typing import Literal

from memproxy.api.fields import Id, Label, Limit, Phrase
from memproxy.api.schemas import Body, Cursor, Shown


class OneQuery(Body):
    """The query string of a call about one memory: whose it is."""

    user_id: Id | None = None
    project_id: Id | None = None
    agent_id: Id | None = None
    session_id: Id | None = None


class OneShownQuery(OneQuery, Shown):
    """The same of a call that answers with the memory."""


class ScopeQuery(Body):
    """`DELETE /v1/memory`: at least one of these."""

    user_id: Id | None = None
    project_id: Id | None = None
    session_id: Id | None = None


class SessionQuery(Body):
    """The query string of a call that only needs to know whose it is."""

    user_id: Id | None = None


class FeedbackQuery(SessionQuery, Shown):
    """The query string of `POST /v1/memory/feedback`."""


class LearnQuery(Body):
    """The query string of `POST /v1/memory/sessions/{id}/end` and `/mine`: whose, and whether to wait."""

    user_id: Id | None = None
    wait: bool = False


class PlaceQuery(Body):
    """Whose memories are counted."""

    user_id: Id | None = None
    project_id: Id | None = None
    agent_id: Id | None = None


class CategoriesQuery(PlaceQuery):
    """`GET /v1/memory/categories`: the largest ``limit``, by default all."""

    limit: Limit | None = None


class SessionsQuery(PlaceQuery):
    """`GET /v1/memory/sessions`."""

    limit: Limit = 50
    cursor: Cursor | None = None


class PalaceQuery(PlaceQuery, Shown):
    """`GET /v1/memory/palace`: one level below the place that is given. Names or pointers; beside its ``wing`` a room
    may also be given by its pointer's last part (``R-01``).
    """

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


class ExportQuery(Shown):
    """`GET /v1/memory/export`: whose memories, and whether with their vectors (which saves embedding them again).

    With ``limit``, so many memories at a time: the header ``x-memproxy-next-cursor`` is the next call's ``cursor``.
    """

    user_id: Id | None = None
    vectors: bool = False
    limit: Limit | None = None
    cursor: Cursor | None = None


class ImportQuery(Body):
    """`POST /v1/memory/import`. ``user_id``: whose all of it becomes (default: as each line says). ``dry_run`` checks
    and counts, and writes nothing.
    """

    user_id: Id | None = None
    dry_run: bool = False


class SettingsQuery(Body):
    """`GET /v1/memory/settings`: whose, and of which agent."""

    user_id: Id | None = None
    agent_id: Id | None = None


class AuditQuery(Body):
    """`GET /v1/memory/audit`."""

    limit: Limit = 50
    cursor: Cursor | None = None


class TurnsQuery(Body):
    """The query string of `POST /v1/memory/turns`."""

    wait: bool = False


class NoQuery(Body):
    """Calls without a query string."""
