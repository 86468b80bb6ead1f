"""Keys that tokens are signed with, each with the algorithms that it is for.

What a key is for is decided when it is read, from its own members (RFC 7517: ``kty``, ``crv``, ``use``, ``key_ops``,
``alg``). So a token's header only chooses among keys that fit its algorithm, and no key of another type is ever tried.
"""

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jwt
import msgspec
from cryptography.exceptions import UnsupportedAlgorithm

log = logging.getLogger(__name__)

MOST_JWKS_BYTES = 1024 * 1024
"""Providers publish a few kilobytes."""

UNUSABLE = (
    jwt.PyJWTError,
    UnsupportedAlgorithm,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    RecursionError,
)
"""What PyJWT and cryptography raise for keys and tokens made by somebody hostile or careless."""

_CURVES = {"ES256": "P-256", "ES384": "P-384"}
_TYPES = {"RS": "RSA", "ES": "EC", "HS": "oct"}
_PUBLIC = frozenset({"kty", "crv", "n", "e", "x", "y", "k"})
"""Members that make the key that signatures are checked with. A private key that was published is not read as one."""


class SigningKey(msgspec.Struct, frozen=True):
    """A key, and which algorithms' signatures it may prove. ``id`` is its ``kid``."""

    id: str | None
    key: Any
    algorithms: frozenset[str]


def chosen(keys: Iterable[SigningKey], kid: str | None, algorithm: str) -> SigningKey | None:
    """The one key that fits; None where there is none, or more than one: nobody guesses which."""
    fitting = [one for one in keys if algorithm in one.algorithms and (kid is None or one.id == kid)]
    return fitting[0] if len(fitting) == 1 else None


def usable_algorithms(key: object, algorithms: Sequence[str]) -> frozenset[str]:
    """The algorithms for which PyJWT takes this key (a secret, PEM or a key object), and finds it long enough."""
    return frozenset(name for name in algorithms if _takes(name, key))


def _takes(algorithm: str, key: object) -> bool:
    made = jwt.get_algorithm_by_name(algorithm)
    try:
        return made.check_key_length(made.prepare_key(key)) is None
    except UNUSABLE:
        return False


def keys_of(jwks: bytes, algorithms: Sequence[str]) -> tuple[SigningKey, ...]:
    """The keys of a JWKS that may prove one of these algorithms' signatures. Those that cannot are passed over: a
    provider may publish keys for encryption, and of types that nobody here asked for.

    Raises:
        ValueError: it is no JWKS, or none of its keys can be used.
    """
    if len(jwks) > MOST_JWKS_BYTES:
        raise ValueError(f"it has more than {MOST_JWKS_BYTES} bytes")
    try:
        read = json.loads(jwks)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is not JSON: {error}") from error
    entries = read.get("keys") if isinstance(read, dict) else None
    if not isinstance(entries, list):
        raise ValueError("it has no list `keys`")
    keys = tuple(key for entry in entries if isinstance(entry, dict) and (key := _key_of(entry, algorithms)))
    if not keys:
        raise ValueError(f"none of its {len(entries)} keys is for signatures by {', '.join(algorithms)}")
    return keys


def _key_of(entry: Mapping[str, Any], algorithms: Sequence[str]) -> SigningKey | None:
    kid, use, operations = entry.get("kid"), entry.get("use"), entry.get("key_ops")
    is_for_signatures = use in (None, "sig") and (operations is None or _may_verify(operations))
    own = [name for name in algorithms if _is_of_type(entry, name) and entry.get("alg") in (None, name)]
    if not own or not is_for_signatures or not isinstance(kid, str | None):
        return None
    try:
        key = jwt.PyJWK({name: entry[name] for name in _PUBLIC & entry.keys()}, own[0]).key
    except UNUSABLE as error:
        log.warning("a key of the identity provider cannot be used: %s (kid %.80r)", type(error).__name__, kid)
        return None
    usable = usable_algorithms(key, own)
    return SigningKey(kid, key, usable) if usable else None


def _is_of_type(entry: Mapping[str, Any], algorithm: str) -> bool:
    return entry.get("kty") == _TYPES[algorithm[:2]] and entry.get("crv") == _CURVES.get(algorithm)


def _may_verify(operations: object) -> bool:
    return isinstance(operations, list) and "verify" in operations
