"""Mode ``jwt``: signed tokens of an identity provider, their claims mapped to tenant, user and permissions. Algorithms
are the configuration's, never the token's choice; a secret is never taken for a public key (RFC 8725, 3.1 and 3.2).
"""

import base64
import json
import re
import unicodedata
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import jwt

from memproxy.auth.headers import Headers, clean_id, client_key
from memproxy.auth.identity import named_identity
from memproxy.auth.jwks import LOOK_S, UNUSABLE, JwksFile, JwksUrl, SigningKey, choose_key, usable_algorithms
from memproxy.core.audit import BY_JWT
from memproxy.core.protocol import Identity
from memproxy.core.proxykey import DEFAULT_PERMISSIONS, PERMISSIONS
from memproxy.errors import ConfigError, RequestError, Unauthenticated
from memproxy.settings import JwtSettings
from memproxy.tasks import TaskOwner

_MOST_TOKEN = 16_384
_MOST_KID = 1_024
_FORM = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+){2}")
_NOT_UNDERSTOOD = ("crit", "b64", "zip")
"""Header parameters that change what a token means: who understands none must refuse (RFC 7515, 4.1.11)."""
_TIMES = ("exp", "nbf", "iat")
_LAST_TIME = 253_402_300_799  # the end of the year 9999: milliseconds taken for seconds would never end

_NO_NAME = frozenset({"Cc", "Cs", "Zl", "Zp"})
"""Unicode's categories of what no name holds: control characters, lone surrogates, ends of lines."""


_Find = Callable[[str | None, str], Awaitable[SigningKey | None]]  # finds the key of an id that is for an algorithm


class JwtAuthenticator:
    """Recognises tokens."""

    def __init__(
        self, settings: JwtSettings, tasks: TaskOwner | None = None, *, unnamed_user: str | None, look_s: float = LOOK_S
    ) -> None:
        """``unnamed_user`` is whom a token without a user is for, when a request names nobody; ``tasks`` fetch the
        provider's keys (None: tasks of its own); ``look_s`` is the pause between two looks at them (`jwks`).

        Raises:
            ConfigError: the key or the JWKS file cannot be used with these algorithms.
        """
        self._settings = settings
        self._unnamed_user = unnamed_user
        self._find = _finder(settings, tasks or TaskOwner("auth"), look_s)

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
        user, subject = _name(claims, names.user), _name(claims, "sub")
        tenant = _name(claims, names.tenant) or self._settings.tenant
        if tenant is None:
            raise Unauthenticated(
                f"The token names no tenant (claim {names.tenant!r}), and auth.jwt.tenant is not set."
            )
        return named_identity(
            headers,
            tenant=tenant,
            user=user,
            default_user=self._unnamed_user,
            project=_name(claims, names.project),
            permissions=_permissions(claims, names.permissions),
            by=f"{BY_JWT}{user or subject or ''}",
        )

    async def _claims(self, token: str) -> dict[str, Any]:
        try:
            header = _header(token)
        except (jwt.InvalidTokenError, ValueError, RecursionError) as error:
            raise _invalid(error) from error
        key = await self._find(header.get("kid"), header["alg"])
        if key is None:
            raise Unauthenticated(
                "The token is not valid: no key that is known has its key id (kid) and is for its algorithm (alg)."
            )
        try:
            return self._decoded(token, key, header["alg"])
        except UNUSABLE as error:
            raise _invalid(error) from error

    def _decoded(self, token: str, key: SigningKey, algorithm: str) -> dict[str, Any]:
        settings = self._settings
        required = ["exp", *(["iss"] if settings.issuer else []), *(["aud"] if settings.audience else [])]
        jwt.decode(
            token,
            key.key,
            algorithms=[algorithm],
            issuer=settings.issuer,
            audience=settings.audience,
            leeway=settings.leeway_s,
            options={"require": required, "verify_aud": settings.audience is not None, "verify_sub": False},
        )
        claims = _read(token.split(".")[1])
        for name in _TIMES:
            value = claims.get(name)
            if value is None and name != "exp":
                continue
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _LAST_TIME:
                raise jwt.InvalidTokenError(f"its {name} is no time in seconds since 1970")
        return claims


def _header(token: str) -> dict[str, Any]:
    """A token's header, not verified yet.

    Raises:
        InvalidTokenError, ValueError, RecursionError: it is none that this reader understands.
    """
    if len(token) > _MOST_TOKEN:
        raise jwt.InvalidTokenError("it is too long to be one")
    if not _FORM.fullmatch(token):
        raise jwt.InvalidTokenError("it is not three parts in base64url")
    header = _read(token.partition(".")[0])
    for name in _NOT_UNDERSTOOD:
        if name in header:
            raise jwt.InvalidTokenError(f"its header has {name}, which is not understood here")
    if not isinstance(header.get("alg"), str):
        raise jwt.InvalidTokenError("its header names no algorithm (alg)")
    kid = header.get("kid")
    if "kid" in header and (not isinstance(kid, str) or len(kid) > _MOST_KID):
        raise jwt.InvalidTokenError("its key id (kid) is no text, or too long")
    return header


def _read(part: str) -> dict[str, Any]:
    """A part of a token as JSON. Names that come twice are refused: two readers would see two tokens."""
    raw = base64.urlsafe_b64decode(part + "===")
    decoded = json.loads(raw.decode(), object_pairs_hook=_once, parse_constant=_no_number)
    if not isinstance(decoded, dict):
        raise jwt.InvalidTokenError("a part of it is no JSON object")
    return decoded


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise jwt.InvalidTokenError("a name comes twice in it")
    return fields


def _no_number(name: str) -> None:
    raise jwt.InvalidTokenError(f"{name} is no number in JSON")


def _finder(settings: JwtSettings, tasks: TaskOwner, look_s: float) -> _Find:
    if settings.jwks_file is not None:
        return JwksFile(settings.jwks_file, settings.algorithms, look_s=look_s).find
    if settings.jwks_url:
        return JwksUrl(settings.jwks_url, settings.algorithms, tasks, pause_s=look_s).find
    fixed = _fixed_key(settings)

    async def find(_kid: str | None, algorithm: str) -> SigningKey | None:  # whatever a token calls it
        return choose_key([fixed], None, algorithm)

    return find


def _fixed_key(settings: JwtSettings) -> SigningKey:
    key = settings.key.get_secret_value() if settings.key else ""
    if settings.key_file is not None:
        try:
            key = settings.key_file.read_text("utf-8").rstrip("\r\n")  # editors and `echo` end a file with these
        except (OSError, ValueError) as error:
            raise ConfigError(f"auth.jwt.key_file: {settings.key_file} cannot be read ({error})") from error
    if len(key.encode("utf-8", "surrogatepass")) < settings.least_secret_bytes:
        raise ConfigError(f"auth.jwt.key_file: {settings.short_secret}")
    usable = usable_algorithms(key, settings.algorithms)
    if not usable:
        raise ConfigError(
            "auth.jwt: HS algorithms take a secret, RS and ES algorithms a public key in PEM, of 2048 bits or of the "
            f"algorithm's curve at least; the key does not fit {', '.join(settings.algorithms)}"
        )
    return SigningKey(None, jwt.get_algorithm_by_name(min(usable)).prepare_key(key), usable)  # read once, not per token


def _name(claims: Mapping[str, Any], claim: str) -> str | None:
    """A claim that names somebody or something; None when it is not there, or null. A whole number is a name, too, as
    many directories number their users.

    Raises:
        Unauthenticated: it cannot be a name. Taken for one that is not there, or for one that it resembles, the token
            would be somebody else's or bound to less than it says.
    """
    value = claims.get(claim)
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str):
        raise _unusable(claim, "it must be a text or a whole number.")
    if not value or value != value.strip():
        raise _unusable(claim, "it is empty, or begins or ends with a blank.")
    if any(unicodedata.category(char) in _NO_NAME for char in value):
        raise _unusable(claim, "it holds control characters.")
    try:
        return clean_id(value, f"claim {claim}")
    except RequestError as error:
        raise _unusable(claim, error.message) from error


def _unusable(claim: str, reason: str) -> Unauthenticated:
    return Unauthenticated(f"The token's claim {claim!r} cannot be used: {reason}")


def _permissions(claims: Mapping[str, Any], claim: str | None) -> frozenset[str]:
    """A list, or words in one text; those that we know. The usual ones where no claim is configured, or it is not
    there: what providers put into ``scope`` by themselves says nothing about memproxy.
    """
    value = claims.get(claim) if claim is not None else None
    if value is None:
        return DEFAULT_PERMISSIONS
    words = value.split() if isinstance(value, str) else value if isinstance(value, list) else []
    return frozenset(word for word in words if word in PERMISSIONS)


def _invalid(error: Exception) -> Unauthenticated:
    if isinstance(error, UnicodeDecodeError | json.JSONDecodeError):
        return Unauthenticated("The token is not valid: a part of it is no JSON.")
    reason = str(error).strip().rstrip(".")[:200] or type(error).__name__
    return Unauthenticated(f"The token is not valid: {reason}.")
