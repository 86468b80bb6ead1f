"""The user and scope that a request names, as far as its key allows, and how the relay tells the engine."""

import json
from collections.abc import Mapping, Set

import msgspec

from memproxy.auth.headers import Headers, clean_id
from memproxy.core.protocol import Identity
from memproxy.core.scope import Scope
from memproxy.errors import Forbidden, RequestError, Unauthenticated
from memproxy.settings import AuthSettings, ServerSettings, is_loopback

ACT_AS_USER = "act_as_user"
ADMIN = "admin"
OUR_USER_FIELD = "memory_context.user_id"


def default_user(auth: AuthSettings, server: ServerSettings) -> str | None:
    """The user of a request that names none; None: it has no memory. Who signs tokens knows the user: no default."""
    if auth.unnamed_user is None and auth.mode != "jwt" and is_loopback(server.host):
        return "default"
    return auth.unnamed_user


def who_is_remembered(auth: AuthSettings, server: ServerSettings) -> str:
    """Who gets memory with these settings and how, in one sentence for an operator."""
    unnamed = default_user(auth, server)
    if unnamed is not None:
        otherwise = f"without one it is for user {unnamed!r}"
    else:
        otherwise = "without one there is no memory, unless auth.unnamed_user is set"
    if auth.mode == "passthrough":
        return f"a request names its user by X-Memproxy-User or a field such as user; {otherwise}"
    if auth.mode == "jwt":
        sentence = f"a token names its user in the claim {auth.jwt.claims.user!r}; {otherwise}"
        if auth.jwt.tenant is None:
            sentence += (
                f"; each needs its tenant in the claim {auth.jwt.claims.tenant!r}, as auth.jwt.tenant is not set"
            )
        return sentence
    return (
        "a key made with --user is for that user; with the permission act_as_user each request names its user "
        f"(X-Memproxy-User); {otherwise}"
    )


def named_identity(
    headers: Headers,
    *,
    tenant: str,
    user: str | None,
    default_user: str | None,
    project: str | None,
    permissions: Set[str],
    by: str,
) -> Identity:
    """The identity of a caller whose key or token is valid: ``user`` and ``project`` are what it is for. Without a user
    it is for ``default_user``; `resolve_user` and `chat_user` decide what that means when a request names somebody.

    Raises:
        Forbidden: the headers name another user than the key's, without ``act_as_user``, or another project.
        RequestError: a header of ours cannot be read.
    """
    named = headers.single(b"x-memproxy-user")
    # whom an administrator may name depends on the call: see `administered_user`
    if user is not None and named not in (None, user) and permissions.isdisjoint((ACT_AS_USER, ADMIN)):
        raise Forbidden("This key may not name another user: it lacks the permission act_as_user.")
    named_project = headers.single(b"x-memproxy-project")
    if project is not None and named_project not in (None, project):
        raise Forbidden("This key is bound to another project.")
    return Identity(
        tenant=tenant,
        named_user=named,
        default_user=user or default_user,
        project=project or named_project,
        bound_project=project is not None,
        bound_user=user is not None,
        by=by,
        agent=headers.single(b"x-memproxy-agent"),
        session=headers.single(b"x-memproxy-session"),
        permissions=frozenset(permissions),
    )


def resolve_user(identity: Identity, named: str | None) -> str:
    """The user an API call is about: named by header or by the call's ``user_id``, else the default.

    Raises:
        Forbidden: another user is named than the key is for.
        RequestError: both are given and disagree, a name is blank, or nobody is named and there is no default.
    """
    if named is not None and not (named := clean_id(named.strip(), "user_id")):
        raise RequestError("user_id: must not be empty.", param="user_id")  # never taken for the default user
    if named and identity.named_user and named != identity.named_user:
        raise RequestError("user_id and the header X-Memproxy-User disagree: name one user.", param="user_id")
    for name in (named, identity.named_user):
        may_name(identity, name)
    user = identity.named_user or named or identity.default_user
    if user is None:
        raise RequestError(
            "No user is named: give user_id or the header X-Memproxy-User (a command takes --user), or set "
            "auth.unnamed_user.",
            param="user_id",
        )
    return user


def administered_user(identity: Identity, named: str | None) -> str:
    """As `resolve_user`, for calls that show none of a user's words: ``admin`` may name any user of its tenant.

    Raises:
        Forbidden, RequestError: as `resolve_user`.
    """
    if ADMIN in identity.permissions:
        identity = msgspec.structs.replace(identity, permissions=identity.permissions | {ACT_AS_USER})
    return resolve_user(identity, named)


def may_name(identity: Identity, user: str | None) -> None:
    """Refuse a caller who may not speak for this user.

    Raises:
        Forbidden: the key is for its own user alone.
    """
    if user not in (None, identity.default_user) and ACT_AS_USER not in identity.permissions:
        raise Forbidden("This key may not name another user: it lacks the permission act_as_user.", param="user_id")


def speaks_for_all(identity: Identity) -> bool:
    """Whether the caller may see sums over all users of the tenant: an administrator, or one who may name any user."""
    return bool(identity.permissions & {ADMIN, ACT_AS_USER})


def resolve_scope(
    identity: Identity,
    *,
    user: str | None = None,
    project: str | None = None,
    agent: str | None = None,
    session: str | None = None,
) -> Scope:
    """The scope of an API call. Its session's field comes before the header; otherwise the two may not disagree.

    Raises:
        RequestError: as `resolve_user`; or an id is not usable.
    """
    return Scope(
        tenant=identity.tenant,
        user=resolve_user(identity, user),
        project=resolve_project(identity, project),
        agent=_agreed(agent, identity.agent, "agent_id", "X-Memproxy-Agent"),
        session=clean_id(session, "session_id") if session else identity.session,
    )


def resolve_project(identity: Identity, named: str | None) -> str | None:
    """The project a call is about: the one its key is for, else what it or its header names.

    Raises:
        Forbidden: the key is for another project.
        RequestError: it is no usable name, or the header names another.
    """
    if identity.bound_project and named and named != identity.project:
        raise Forbidden("This key is bound to another project.", param="project_id")
    return _agreed(named, identity.project, "project_id", "X-Memproxy-Project")


def _agreed(field: str | None, header: str | None, name: str, header_name: str) -> str | None:
    if field and header and field != header:
        raise RequestError(f"{name} and the header {header_name} disagree: name one.", param=name)
    return clean_id(field, name) if field else header


def require(identity: Identity, permission: str) -> None:
    """Refuse a caller without this permission.

    Raises:
        Forbidden: the key does not allow it.
    """
    if permission not in identity.permissions:
        raise Forbidden(f"This key does not allow {permission}.")


def chat_user(identity: Identity, fields: Mapping[str, str | None]) -> str | None:
    """The user of a chat request: the header, else the body's fields (``memory_context.user_id``, ``metadata.user_id``,
    ``safety_identifier``, ``user``, in that order), else the default. A key for one user is for him whatever the
    provider's own fields say; our own must not name another. A key for nobody in particular that may not name users
    serves the default user alone: who names anyone else has no memory, for it would be mixed with the others'. None: it
    has no memory, also when nobody is named and there is no default.

    Raises:
        Forbidden: our own field names another user than the key is for.
        RequestError: a name cannot be used.
    """
    named = [value.strip() for value in (identity.named_user, *fields.values()) if value and value.strip()]
    if ACT_AS_USER in identity.permissions:
        return clean_id(named[0], "user") if named else identity.default_user
    if identity.bound_user:
        may_name(identity, (fields.get(OUR_USER_FIELD) or "").strip() or None)
        return identity.default_user
    return identity.default_user if set(named) <= {identity.default_user} else None


def encode_identity(identity: Identity) -> str:
    """The identity as the private header's value (ASCII JSON)."""
    return json.dumps(msgspec.to_builtins(identity))


def decode_identity(value: str | None) -> Identity:
    """The identity that the relay put into the private header.

    Raises:
        Unauthenticated: it is missing or unreadable.
    """
    try:
        return msgspec.json.decode(value or "", type=Identity)
    except msgspec.DecodeError as error:
        raise Unauthenticated("This call carries no identity.") from error
