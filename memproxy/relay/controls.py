"""What a chat request asks of memory: user, session, whether to recall, inject and capture, and limits.

A name in a header wins over one in the body. Of what memory may do, the least wins: a request that
refuses memory anywhere is not remembered.
"""

import enum
from collections.abc import Mapping

import msgspec

from memproxy.auth.headers import Headers, clean_id
from memproxy.auth.identity import ACT_AS_USER, OUR_USER_FIELD, chat_user, may_name, resolve_project
from memproxy.core.choices import Choices
from memproxy.core.protocol import Identity, RecallLimits
from memproxy.errors import Forbidden, RequestError
from memproxy.wire.request_body import RequestBody


class Mode(enum.StrEnum):
    """What memory does for one request."""

    ON = "on"
    READ = "read"
    WRITE = "write"
    OFF = "off"
    SHADOW = "shadow"

    @property
    def recalls(self) -> bool:
        return self in {Mode.ON, Mode.READ, Mode.SHADOW}

    @property
    def injects(self) -> bool:
        """Whether what is found is put into the request."""
        return self in {Mode.ON, Mode.READ}

    @property
    def captures(self) -> bool:
        """Whether the exchange is kept."""
        return self in {Mode.ON, Mode.WRITE, Mode.SHADOW}


NO_USER = "no_user"
"""Why a request has no memory that names no user, where there is no ``auth.unnamed_user``."""

NOT_ALLOWED = "user_not_allowed"
"""Why a request has no memory that names a user whom its key may not name."""

_MODES = {mode.value: mode for mode in Mode}


class Controls(msgspec.Struct, frozen=True, kw_only=True):
    """The reading of one request. ``user`` None: memory cannot be used, for the reason in ``problem``.
    ``compress_above``: the tokens from which its history is compressed, 0: never, None: as configured. ``memory_tools``
    is ``inject`` or ``none``, None: as configured. ``learns``: models may read what its user says.
    """

    mode: Mode
    tenant: str = ""
    user: str | None = None
    problem: str | None = None
    project: str | None = None
    agent: str | None = None
    session: str | None = None
    limits: RecallLimits = RecallLimits()
    compress_above: int | None = None
    memory_tools: str | None = None
    learns: bool = True


def read_mode(headers: Headers, chat: RequestBody | None) -> Mode:
    """The request's mode: the header's, as far as the body allows it (``chat`` None: it is not read). Raises
    `RequestError` where the header has another value than the five.
    """
    value = headers.single(b"x-memproxy-memory") or Mode.ON
    if (mode := _MODES.get(value.lower())) is None:
        allowed = ", ".join(Mode)
        raise RequestError(f"X-Memproxy-Memory is {value[:40]!r}; allowed are {allowed}.", param="X-Memproxy-Memory")
    if chat is None:
        return mode
    if chat.config.enabled is False:
        return Mode.OFF
    return _bounded(mode, recalls=True, captures=chat.config.auto_store is not False)


def read_controls(headers: Headers, chat: RequestBody, identity: Identity | None) -> Controls:
    """Everything that one request says about memory; ``identity`` None: it is nobody's. With memory off nothing else
    of it counts, and nothing of it is refused that can be read.

    Raises:
        RequestError: a header or field of ours cannot be used; the message names it.
    """
    mode = read_mode(headers, chat)
    if mode is Mode.OFF:
        return Controls(mode=mode)
    chat.config.check_names()
    if identity is None:
        return Controls(mode=mode, problem="no_identity")
    user, problem = _user(identity, chat, user_header_sent=headers.get(b"x-memproxy-user") is not None)
    config, named = chat.config, _field(chat.context.project_id, "memory_context.project_id")
    return Controls(
        mode=mode,
        tenant=identity.tenant,
        user=user,
        problem=problem,
        # the header's before the body's; a key for one project is for no other
        project=resolve_project(identity, named if identity.bound_project else identity.project or named),
        agent=identity.agent or _field(chat.context.agent_id, "memory_context.agent_id"),
        session=identity.session or _field(chat.context.session_id, "memory_context.session_id"),
        limits=RecallLimits(
            memory_types=config.memory_types,
            retrieval_limit=config.retrieval_limit,
            similarity_threshold=config.similarity_threshold,
            max_tokens=config.max_tokens,
        ),
        compress_above=config.compress_above_tokens,
        memory_tools=config.memory_tools,
    )


def user_of(identity: Identity, chat: RequestBody | None) -> str | None:
    """Whom a request is for, None: nobody in particular. ``chat`` None: it is not read. Raises as `read_controls`."""
    if chat is None or identity.bound_user:
        return chat_user(identity, {})
    return _user(identity, chat, user_header_sent=False)[0]


def user_named(identity: Identity, fields: Mapping[str, str | None]) -> tuple[str | None, str | None]:
    """Whose memory it is by the header and these fields (`chat_user`), or None and why it is nobody's. A key for one
    user alone does not speak for another whom the provider's own fields name: neither of the two is remembered.

    Raises:
        Forbidden: our own field names another user than the key is for.
        RequestError: a name cannot be used.
    """
    if identity.bound_user:
        may_name(identity, identity.named_user)
    user = chat_user(identity, fields)
    named = next((value.strip() for value in (identity.named_user, *fields.values()) if value and value.strip()), None)
    if identity.bound_user and ACT_AS_USER not in identity.permissions and named not in {None, user}:
        return None, NOT_ALLOWED
    if user is None:
        return None, NO_USER if named is None else NOT_ALLOWED
    return user, None


def narrow(controls: Controls, choices: Choices) -> Controls:
    """As the user's (agent's) settings allow: a request may ask for less than these, never for more. The number of
    memories is the request's own if it names one.
    """
    limits, above = controls.limits, controls.compress_above
    limit = limits.retrieval_limit if limits.retrieval_limit is not None else choices.limit
    return msgspec.structs.replace(
        controls,
        mode=_bounded(controls.mode, recalls=choices.recalls, captures=choices.captures),
        limits=msgspec.structs.replace(limits, retrieval_limit=limit, rerank=choices.rerank),
        compress_above=above if above is not None else choices.compress_above_tokens,
        memory_tools=controls.memory_tools or choices.memory_tools,
        learns=choices.learns,
    )


def _bounded(mode: Mode, *, recalls: bool, captures: bool) -> Mode:
    recalls, captures = mode.recalls and recalls, mode.captures and captures
    if recalls and captures:
        return mode
    if recalls:
        return Mode.READ if mode.injects else Mode.OFF
    return Mode.WRITE if captures else Mode.OFF


def _user(identity: Identity, chat: RequestBody, *, user_header_sent: bool) -> tuple[str | None, str | None]:
    """``user_header_sent``: the header that names the user is there, though perhaps empty."""
    ours = _field(chat.context.user_id, OUR_USER_FIELD)
    fields = {
        OUR_USER_FIELD: ours,
        "metadata.user_id": chat.metadata_user_id,
        "safety_identifier": chat.safety_identifier,
        "user": chat.user,
    }
    try:
        user, problem = user_named(identity, fields)
    except Forbidden:
        raise
    except RequestError:
        # The provider's own fields may hold anything; what we cannot use as a name must not refuse the request.
        return None, "unusable_user"
    meant = user_header_sent or chat.context.user_id is not None
    if meant and not identity.bound_user and not identity.named_user and not any(fields.values()):
        return None, NO_USER  # who names a user and sends no name has lost it: that is not the default user
    return user, problem


def _field(value: str | None, name: str) -> str | None:
    return clean_id(value.strip(), name) or None if value is not None else None
