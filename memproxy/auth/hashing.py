"""Hashes of proxy keys: scrypt (RFC 7914), with its parameters beside it so that they can be raised later."""

import base64
import binascii
import hashlib
import hmac
import secrets

_COST, _BLOCK, _PARALLEL = 2**14, 8, 1
"""16 MiB and some 40 ms on one core: what OWASP names for scrypt with one lane (Password Storage Cheat Sheet)."""

_SALT_BYTES, _HASH_BYTES = 16, 32
_MOST_COST = 2**20
_MOST_BLOCK = _MOST_PARALLEL = 32
_LEAST_SALT_BYTES = 8


def hashed(key: str) -> str:
    """``scrypt$cost$block$parallel$salt$hash`` of a key, with a new salt."""
    salt = secrets.token_bytes(_SALT_BYTES)
    made = _scrypt(key, salt, _COST, _BLOCK, _PARALLEL)
    return "$".join(("scrypt", str(_COST), str(_BLOCK), str(_PARALLEL), _text(salt), _text(made)))


def matches(key: str, record: str) -> bool:
    """Whether a key has this hash; takes the same time whichever byte differs. Slow on purpose: call it in a thread."""
    try:
        kind, cost, block, parallel, salt, wanted = record.split("$")
        numbers = int(cost), int(block), int(parallel)
        if kind != "scrypt" or numbers[0] > _MOST_COST:
            return False
        made = _scrypt(key, _bytes(salt), *numbers)
    except (ValueError, binascii.Error):
        return False
    return hmac.compare_digest(made, _bytes(wanted))


def is_hash(record: str) -> bool:
    """Whether this is a hash as `hashed` makes them, with whatever parameters: else no key has it."""
    try:
        kind, *numbers, salt, made = record.split("$")
        cost, block, parallel = (int(number) for number in numbers)
        lengths = len(_bytes(salt)), len(_bytes(made))
    except (ValueError, binascii.Error):
        return False
    within = 2 <= cost <= _MOST_COST and 1 <= block <= _MOST_BLOCK and 1 <= parallel <= _MOST_PARALLEL
    is_power = cost & (cost - 1) == 0
    return kind == "scrypt" and within and is_power and lengths[0] >= _LEAST_SALT_BYTES and lengths[1] == _HASH_BYTES


def _scrypt(key: str, salt: bytes, cost: int, block: int, parallel: int) -> bytes:
    memory = 256 * cost * block + 2**20
    return hashlib.scrypt(
        key.encode("utf-8", "surrogatepass"),
        salt=salt,
        n=cost,
        r=block,
        p=parallel,
        maxmem=memory,
        dklen=_HASH_BYTES,
    )


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode()


def _bytes(text: str) -> bytes:
    return base64.urlsafe_b64decode(text)
