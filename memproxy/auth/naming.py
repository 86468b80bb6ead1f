"""Whom and what a request names beside its key, as far as the key allows."""

from collections.abc import Set

from memproxy.auth.headers import Headers
from memproxy.core.protocol import Identity
from memproxy.errors import Forbidden
from memproxy.settings import AuthSettings, ServerSettings, is_loopback

ACT_AS_USER = "act_as_user"
ADMIN = "admin"


def default_user(auth: AuthSettings, server: ServerSettings) -> str | None:
    """Whom a request is for that names nobody; None: nobody. A token's user is known to who signs it, so that a
    loopback address names no default for tokens.
    """
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
        told = f"a token names its user in the claim {auth.jwt.claims.user!r}; {otherwise}"
        if auth.jwt.tenant is None:
            told += f"; each needs its tenant in the claim {auth.jwt.claims.tenant!r}, as auth.jwt.tenant is not set"
        return told
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
    """The identity of a caller who is proved: ``user`` and ``project`` are what his key (token) is for. Without a user
    it is for ``default_user``; what that means when a request names somebody, `users` decides.

    Raises:
        Forbidden: the headers name another user than the key's, without ``act_as_user``, or another project.
        RequestError: a header of ours cannot be read.
    """
    named = headers.single(b"x-memproxy-user")
    # whom one who administers names, `users` looks at: some calls are for any user
    if user is not None and named not in (None, user) and permissions.isdisjoint((ACT_AS_USER, ADMIN)):
        raise Forbidden("This key may not name another user: it lacks the permission act_as_user.")
    asked = headers.single(b"x-memproxy-project")
    if project is not None and asked not in (None, project):
        raise Forbidden("This key is bound to another project.")
    return Identity(
        tenant=tenant,
        named_user=named,
        default_user=user or default_user,
        project=project or asked,
        bound_project=project is not None,
        bound_user=user is not None,
        by=by,
        agent=headers.single(b"x-memproxy-agent"),
        session=headers.single(b"x-memproxy-session"),
        permissions=frozenset(permissions),
    )
