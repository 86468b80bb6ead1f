"""Identity: from a request's headers and fields to tenant and user. Used by relay and engine."""

from memproxy.auth.browser import ALLOWED_ORIGIN, BrowserGuard
from memproxy.auth.headers import MAX_ID_LENGTH, Headers, clean_id, client_key
from memproxy.auth.identity import (
    administered_user,
    chat_user,
    decode_identity,
    default_user,
    encode_identity,
    require,
    resolve_project,
    resolve_scope,
    resolve_user,
    speaks_for_all,
    who_is_remembered,
)
from memproxy.auth.modes import ANONYMOUS, Authenticator, key_hash, make_authenticator

__all__ = [
    "ALLOWED_ORIGIN",
    "ANONYMOUS",
    "MAX_ID_LENGTH",
    "Authenticator",
    "BrowserGuard",
    "Headers",
    "administered_user",
    "chat_user",
    "clean_id",
    "client_key",
    "decode_identity",
    "default_user",
    "encode_identity",
    "key_hash",
    "make_authenticator",
    "require",
    "resolve_project",
    "resolve_scope",
    "resolve_user",
    "speaks_for_all",
    "who_is_remembered",
]
