"""Hashes of proxy keys: BLAKE2b (RFC 7693) with a salt.

A key has 256 random bits, so nobody finds it from its hash by trying, however fast the hash is: stretching, which
passwords need, would only let whoever knows a key's id make the relay compute. Checking costs microseconds, so every
request is checked and no key is kept.
"""

import base64
import binascii
import hashlib
import hmac
import secrets

_SALT_BYTES, _HASH_BYTES = 16, 32


def hashed(key: str) -> str:
    """``blake2b$salt$hash`` of a key, with a new salt."""
    salt = secrets.token_bytes(_SALT_BYTES)
    return "$".join(("blake2b", _text(salt), _text(_digest(key, salt))))


def matches(key: str, record: str) -> bool:
    """Whether a key has this hash; takes the same time whichever byte differs."""
    parts = _parts(record)
    return parts is not None and hmac.compare_digest(_digest(key, parts[0]), parts[1])


def is_hash(record: str) -> bool:
    """Whether this is a hash as `hashed` makes them: else no key has it."""
    return _parts(record) is not None


def _parts(record: str) -> tuple[bytes, bytes] | None:
    """Salt and hash."""
    try:
        kind, *parts = record.split("$")
        salt, made = (base64.b64decode(part, altchars=b"-_", validate=True) for part in parts)
    except (ValueError, binascii.Error):
        return None
    return (salt, made) if (kind, len(salt), len(made)) == ("blake2b", _SALT_BYTES, _HASH_BYTES) else None


def _digest(key: str, salt: bytes) -> bytes:
    material = key.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(material, salt=salt, person=b"memproxy key", digest_size=_HASH_BYTES).digest()


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode()
