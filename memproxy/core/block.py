"""The injected block's delimiters: how text is kept from leaving the block, and how a block is recognised again."""

import hashlib
import re

NAME = "recalled-memory"
OPEN = '<recalled-memory id="{nonce}">'
CLOSE = "</recalled-memory>"

_BLOCK = re.compile(r"<recalled-memory\b[^>]*>.*?(?:</recalled-memory\s*>|\Z)\s*", re.IGNORECASE | re.DOTALL)
_LINE = re.compile(r"^- \[[^\]\n]*\] \([^)\n]*\) (.*) \[m:[^\[\]\n]*\]$", re.MULTILINE)
_DELIMITER = re.compile(r"<(\s*/?\s*recalled-memory)", re.IGNORECASE)


def session_nonce(secret: bytes, tenant: str, user: str, session: str) -> str:
    """The block id of a session: 12 hex digits that nobody can guess without the installation's secret."""
    material = "\x1f".join((tenant, user, session)).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(material, key=secret[:64], digest_size=6, person=b"block").hexdigest()


def quote(text: str) -> str:
    """Text on one line that cannot open or close a block: anything that looks like our delimiter loses its bracket."""
    return _DELIMITER.sub(r"‹\1", " ".join(text.split()))


def shown_texts(text: str) -> list[str]:
    """What the lines of injected blocks in a text say, without date, speaker and citation."""
    if NAME not in text.lower():
        return []
    return [line[1] for found in _BLOCK.finditer(text) for line in _LINE.finditer(found[0])]


def strip_blocks(text: str) -> str:
    """The text without any injected block, however it came back (no echo)."""
    return _BLOCK.sub("", text) if NAME in text.lower() else text
