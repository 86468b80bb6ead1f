"""What names one version of a memory: for ETag and If-Match."""

import hashlib

import msgspec

from memproxy.core.memory import INTERNAL_FIELDS, Memory, to_payload

_NOT_ITS_OWN = INTERNAL_FIELDS | {"access_count", "last_accessed_at"}
"""Being recalled is no change of what a memory says: an editor's If-Match must not fail by it."""


def version_of(memory: Memory) -> str:
    """32 hex digits that change with every public field but the access counts."""
    said = {name: value for name, value in to_payload(memory).items() if name not in _NOT_ITS_OWN}
    return digest(msgspec.json.encode(said, order="deterministic"))


def digest(body: bytes) -> str:
    """32 hex digits that name these bytes."""
    return hashlib.blake2b(body, digest_size=16).hexdigest()
