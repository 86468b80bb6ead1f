"""Whom and what a request names beside its key, as far as the key allows."""

from collections.abc import Set

from memproxy.auth.headers import Headers
from memproxy.core.protocol import Identity
from memproxy.errors import Forbidden

ACT_AS_USER = "act_as_user"
ADMIN = "admin"


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
