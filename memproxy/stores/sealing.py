"""Encryption of what a user said: one data key for each user, wrapped by the installation's master key. Without that
row nothing of the user can be read any more, wherever copies may be: destroying it is erasure at once.
"""

import base64
import binascii
import hashlib
import hmac
import os
from collections.abc import Sequence

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, AESSIV
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from memproxy.errors import ConfigError, StateUnavailable

MASTER_KEY = "MEMPROXY_MASTER_KEY"
"""Environment variable with the master key; several, separated by commas: the first one wraps, all unwrap."""

KEY_BYTES = 32
_NONCE_BYTES = 12
_ID_BYTES = 8
_TOKEN_BYTES = 16
_VERSION = b"\x01"
_BY_MASTER = b"\x02"
_HEAD = len(_VERSION) + _ID_BYTES + _NONCE_BYTES

TEXT_MARK = "enc1:"

NAME_MARK = "siv1:"
"""How a sealed name begins: always the same for the same name of one user, so that it can be looked up."""

TOKEN_MARK = "mac1:"  # noqa: S105 - no secret

HOW_TO_MAKE_ONE = "memproxy keys master"


class Unreadable(Exception):
    """Something sealed cannot be opened: its key was destroyed, or it was changed."""


class MasterKeys:
    """The master keys of this process."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        """The first one wraps. Each has `KEY_BYTES` bytes."""
        self._keys = {_master_id(key): AESGCM(key) for key in keys}
        self.current = _master_id(keys[0])
        """Id of the key that wraps: not secret, says nothing of the key."""

    @classmethod
    def read(cls, text: str | None) -> "MasterKeys":
        """The keys in `MASTER_KEY`. Raises `ConfigError`: there is none, or one is not 32 bytes in base64."""
        written = [part.strip() for part in (text or "").split(",") if part.strip()]
        if not written:
            raise ConfigError(
                f"privacy.encrypt: the environment variable {MASTER_KEY} is not set. Make a key with "
                f"`{HOW_TO_MAKE_ONE}` and keep it apart from the data and its backups: without it nothing that is "
                "stored can be read."
            )
        return cls([_key_of(part, number) for number, part in enumerate(written, 1)])

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(self._keys)

    def wrap(self, key: bytes, owner: tuple[str, str]) -> bytes:
        """A data key under the current master key."""
        nonce = os.urandom(_NONCE_BYTES)
        return nonce + self._keys[self.current].encrypt(nonce, key, _about(owner, "data-key"))

    def unwrap(self, master: str, wrapped: bytes, owner: tuple[str, str]) -> bytes:
        """The data key that this master key wrapped. Raises `Unreadable`: it is not here, or another one."""
        try:
            nonce, sealed = wrapped[:_NONCE_BYTES], wrapped[_NONCE_BYTES:]
            return self._keys[master].decrypt(nonce, sealed, _about(owner, "data-key"))
        except (KeyError, InvalidTag) as error:
            raise Unreadable(f"no master key of id {master} opens it") from error

    def seal(self, plain: bytes, owner: tuple[str, str], label: str) -> bytes:
        """``plain`` under the current master key, where a data key cannot be read or made; bound as `DataKey`'s."""
        nonce, name = os.urandom(_NONCE_BYTES), self.current.encode()
        head = _BY_MASTER + bytes([len(name)]) + name + nonce
        return head + self._keys[self.current].encrypt(nonce, plain, _about(owner, label))

    def open(self, sealed: bytes, owner: tuple[str, str], label: str) -> bytes:
        """What was sealed by `seal`. Raises `StateUnavailable`: that master key is not here, or it was changed."""
        end = 2 + sealed[1]
        name, nonce = sealed[2:end].decode("ascii", "replace"), sealed[end : end + _NONCE_BYTES]
        try:
            return self._keys[name].decrypt(nonce, sealed[end + _NONCE_BYTES :], _about(owner, label))
        except (KeyError, InvalidTag) as error:
            raise StateUnavailable(
                f"What is sealed by master key {name} cannot be read: add that one to {MASTER_KEY}."
            ) from error


class DataKey:
    """The key of one user: seals texts, makes names and tokens of them."""

    def __init__(self, key_id: bytes, key: bytes, owner: tuple[str, str]) -> None:
        self.id = key_id
        self.owner = owner
        derivation = HKDF(algorithm=SHA256(), length=3 * KEY_BYTES + KEY_BYTES, salt=None, info=b"memproxy/data-key/1")
        parts = derivation.derive(key)
        self._texts = AESGCM(parts[:KEY_BYTES])
        self._names = AESSIV(parts[KEY_BYTES : 3 * KEY_BYTES])
        self._tokens = parts[3 * KEY_BYTES :]

    def seal(self, plain: bytes, label: str) -> bytes:
        """``plain`` encrypted and bound to its owner and to its ``label``; never the same twice."""
        nonce = os.urandom(_NONCE_BYTES)
        return _VERSION + self.id + nonce + self._texts.encrypt(nonce, plain, _about(self.owner, label))

    def open(self, sealed: bytes, label: str) -> bytes:
        """What was sealed as ``label``. Raises `Unreadable`: it was not, or not by this key."""
        if len(sealed) < _HEAD or sealed[:1] != _VERSION or sealed[1 : 1 + _ID_BYTES] != self.id:
            raise Unreadable("sealed by a key that is not there any more")
        nonce = sealed[1 + _ID_BYTES : _HEAD]
        try:
            return self._texts.decrypt(nonce, sealed[_HEAD:], _about(self.owner, label))
        except InvalidTag as error:
            raise Unreadable("it was changed, or is something else") from error

    def seal_text(self, plain: str, label: str) -> str:
        return TEXT_MARK + _encoded(self.seal(_bytes(plain), label))

    def open_text(self, text: str, label: str) -> str:
        """As `open`; text that is not sealed is answered as it is. Raises `Unreadable`."""
        if not text.startswith(TEXT_MARK):
            return text
        return _text(self.open(_read(text.removeprefix(TEXT_MARK)), label))

    def name(self, plain: str) -> str:
        """The name, encrypted, always the same: equal names of one user can be told, nothing else."""
        return NAME_MARK + _encoded(self._names.encrypt(_VERSION + _bytes(plain), None))

    def plain_name(self, name: str) -> str:
        """The name behind `name`; one that is not sealed is answered as it is. Raises `Unreadable`."""
        if not name.startswith(NAME_MARK):
            return name
        try:
            return _text(self._names.decrypt(_read(name.removeprefix(NAME_MARK)), None)[len(_VERSION) :])
        except InvalidTag as error:
            raise Unreadable("a name of a key that is not there any more") from error

    def token(self, plain: str, label: str) -> str:
        """A keyed hash of a value, for comparing: equal values of one user and field have equal tokens."""
        material = _bytes(f"{label}\x1f{plain}")
        return TOKEN_MARK + _encoded(hmac.digest(self._tokens, material, "sha256")[:_TOKEN_BYTES])


def is_sealed_by_master(sealed: bytes) -> bool:
    """Whether `MasterKeys.seal` made it; nothing that is JSON begins so."""
    return sealed.startswith(_BY_MASTER)


def is_sealed_by_data_key(sealed: bytes) -> bool:
    """Whether `DataKey.seal` made it; nothing that is JSON begins so."""
    return sealed.startswith(_VERSION)


def new_master_key() -> str:
    """A master key, as `MASTER_KEY` holds it."""
    return base64.urlsafe_b64encode(os.urandom(KEY_BYTES)).decode()


def new_data_key() -> tuple[bytes, bytes]:
    """The id and the bytes of a new data key."""
    return os.urandom(_ID_BYTES), os.urandom(KEY_BYTES)


def _key_of(written: str, number: int) -> bytes:
    try:
        key = base64.b64decode(written + "=" * (-len(written) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != KEY_BYTES:
        raise ConfigError(
            f"{MASTER_KEY}: key {number} is not {KEY_BYTES} bytes in URL-safe base64. Make one with "
            f"`{HOW_TO_MAKE_ONE}`."
        )
    return key


def _master_id(key: bytes) -> str:
    return hashlib.sha256(b"memproxy/master-key-id\x1f" + key).hexdigest()[:12]


def _about(owner: tuple[str, str], label: str) -> bytes:
    return _bytes("\x1f".join((*owner, label)))


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _read(text: str) -> bytes:
    try:
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except (binascii.Error, ValueError) as error:
        raise Unreadable("it is not in the form of something sealed") from error
