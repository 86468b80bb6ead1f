"""Mode ``jwt``: signed tokens of an identity provider, their claims mapped to tenant, user and permissions.

The algorithms are those of the configuration alone, never the token's choice, and a secret is never taken for a public
key or the reverse (RFC 8725, sections 3.1 and 3.2).
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

import jwt

from memproxy.auth.headers import Headers, clean_id, client_key
from memproxy.auth.jwks_file import JwksFile
from memproxy.auth.jwks_url import JwksUrl
from memproxy.auth.naming import named_identity
from memproxy.core.protocol import Identity
from memproxy.core.proxykey import DEFAULT_PERMISSIONS, PERMISSIONS
from memproxy.errors import AuthUnavailable, ConfigError, RequestError, Unauthenticated
from memproxy.settings import JwtSettings

log = logging.getLogger(__name__)

_REFETCH_SECONDS = 10.0
_MOST_TOKEN = 16_384


class JwtAuthenticator:
    """Recognises tokens."""

    def __init__(self, settings: JwtSettings, *, default_user: str | None, refetch_s: float = _REFETCH_SECONDS) -> None:
        """``default_user`` is whom a token without a user is for, when a request names nobody. Unknown key ids make the
        provider be asked again, three times in three times ``refetch_s`` seconds at most; a JWKS file is looked at
        every ``refetch_s`` seconds, and for every id that is not in it.

        Raises:
            ConfigError: the key or the JWKS file cannot be used with these algorithms.
        """
        self._settings = settings
        self._default_user = default_user
        self._key = _fixed_key(settings)
        self._jwks = JwksFile(settings.jwks_file, look_s=refetch_s) if settings.jwks_file is not None else None
        self._url = JwksUrl(settings.jwks_url, refetch_s=refetch_s) if settings.jwks_url else None

    async def identify(self, headers: Headers) -> Identity:
        """Who calls.

        Raises:
            Unauthenticated: no token, or one that is not valid; the message says what is wrong with it.
            AuthUnavailable: the provider's keys cannot be fetched.
            Forbidden: the token may not name that user or project.
        """
        token = client_key(headers)
        if token is None:
            raise Unauthenticated("No token: send it as `Authorization: Bearer …`.")
        claims = await self._claims(token)
        names = self._settings.claims
        return named_identity(
            headers,
            tenant=_named(claims, names.tenant, self._settings.tenant),
            user=_text(claims, names.user),
            default_user=self._default_user,
            project=_text(claims, names.project),
            permissions=_permissions(claims.get(names.permissions)),
            by=f"jwt:{_text(claims, 'sub') or ''}",
        )

    async def _claims(self, token: str) -> dict[str, Any]:
        if len(token) > _MOST_TOKEN:
            raise Unauthenticated("The token is too long to be one.")
        try:
            key = await self._key_of(token)
            return self._decoded(token, key)
        except jwt.PyJWKClientConnectionError as error:
            raise AuthUnavailable(
                "The keys of the identity provider cannot be fetched (auth.jwt.jwks_url). Try again in a moment."
            ) from error
        except (jwt.InvalidTokenError, jwt.PyJWKClientError, jwt.PyJWKError, ValueError, RecursionError) as error:
            raise Unauthenticated(f"The token is not valid: {_reason(error)}.") from error

    def _decoded(self, token: str, key: Any) -> dict[str, Any]:
        settings = self._settings
        required = ["exp", *(["iss"] if settings.issuer else []), *(["aud"] if settings.audience else [])]
        decoded: dict[str, Any] = jwt.decode(
            token,
            key,
            algorithms=list(settings.algorithms),
            issuer=settings.issuer,
            audience=settings.audience,
            leeway=settings.leeway_s,
            options={"require": required, "verify_aud": settings.audience is not None},
        )
        return decoded

    async def _key_of(self, token: str) -> Any:
        if self._key is not None:
            return self._key
        kid = jwt.get_unverified_header(token).get("kid")
        if self._jwks is not None:
            found = _of_id(await self._jwks.keys(), kid)
            if not found:
                await self._jwks.look()
                found = _of_id(await self._jwks.keys(), kid)
            if len(found) != 1:
                raise jwt.InvalidTokenError("its key id (kid) is not known")
            return found[0].key
        assert self._url is not None, "the settings name one of the three"  # noqa: S101 - checked when they are read
        signing = await asyncio.to_thread(self._url.get_signing_key_from_jwt, token)
        return signing.key


def _of_id(keys: list[jwt.PyJWK], kid: str | None) -> list[jwt.PyJWK]:
    return [key for key in keys if kid is None or key.key_id == kid]


def _fixed_key(settings: JwtSettings) -> str | None:
    key = settings.key.get_secret_value() if settings.key else None
    if settings.key_file is not None:
        try:
            key = settings.key_file.read_text("utf-8").rstrip("\r\n")  # editors and `echo` end a file with these
        except (OSError, ValueError) as error:
            raise ConfigError(f"auth.jwt.key_file: {settings.key_file} cannot be read ({error})") from error
    if key is None:
        return None
    symmetric = all(name.startswith("HS") for name in settings.algorithms)
    if symmetric == ("-----BEGIN" in key):
        raise ConfigError(
            "auth.jwt: HS algorithms take a secret, RS and ES algorithms a public key in PEM; "
            f"the key does not fit {', '.join(settings.algorithms)}"
        )
    if len(key.encode("utf-8", "surrogatepass")) < settings.least_secret_bytes:
        raise ConfigError(f"auth.jwt.key_file: {settings.short_secret}")
    return key


def _named(claims: Mapping[str, Any], name: str, fixed: str | None) -> str:
    tenant = _text(claims, name) or fixed
    if tenant is None:
        raise Unauthenticated(f"The token names no tenant (claim {name!r}), and auth.jwt.tenant is not set.")
    return tenant


def _text(claims: Mapping[str, Any], name: str) -> str | None:
    """A claim that names somebody or something; None when it is not there, or blank. A whole number is a name, too, as
    many directories number their users.

    Raises:
        Unauthenticated: it is of another type. Taken for one that is not there, the token would be somebody else's (the
            default user's, the fixed tenant's) or bound to less than it says.
    """
    value = claims.get(name)
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if value is not None and not isinstance(value, str):
        raise Unauthenticated(f"The token's claim {name!r} cannot be used: it must be a text or a whole number.")
    if value is None or not value.strip():
        return None
    try:
        return clean_id(value.strip(), f"claim {name}")
    except RequestError as error:
        raise Unauthenticated(f"The token's claim {name!r} cannot be used: {error.message}") from error


def _permissions(value: object) -> frozenset[str]:
    """A list, or words in one text (as OAuth's ``scope``); those that we know. No claim: the usual ones."""
    if value is None:
        return DEFAULT_PERMISSIONS
    words = value.split() if isinstance(value, str) else value if isinstance(value, list) else []
    return frozenset(word for word in words if word in PERMISSIONS)


def _reason(error: Exception) -> str:
    text = str(error).strip().rstrip(".")
    return text[:200] or type(error).__name__
