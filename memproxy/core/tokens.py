"""How many tokens a text has, without ever going to the network for it."""

import functools
import hashlib
import logging
import math
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from memproxy.core.text import clean, is_unspaced

if TYPE_CHECKING:
    import tiktoken

log = logging.getLogger(__name__)

_RANKS_URL = "https://openaipublic.blob.core.windows.net/encodings/o200k_base.tiktoken"
_RANKS_SHA256 = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"
"""Where tiktoken has its file from and what it must hold: with any other content tiktoken would download it again."""

_PIECE = re.compile(r"[A-Za-z]+|\d+|\s+|.", re.DOTALL)
_LETTERS_PER_TOKEN = 4.5
_DIGITS_PER_TOKEN = 3
_SHORT_WORD = 6


def estimate(text: str) -> int:
    """The tokens of a text: counted by tiktoken's ``o200k_base`` when its file is on this machine
    (``TIKTOKEN_CACHE_DIR``), else estimated, rather too high than too low.
    """
    encoding = _encoding()
    return approximate(text) if encoding is None else len(encoding.encode_ordinary(clean(text)))


def approximate(text: str) -> int:
    """Tokens by the kinds of characters: a word up to six letters is one token, longer ones one per 4.5 letters;
    three digits, one mark, or one character of an unspaced script are one; other letters one per two characters.
    """
    tokens = 0.0
    for piece in _PIECE.findall(text):
        # short words and single spaces, which most pieces are, without a call
        if piece.isascii() and piece.isalpha() and len(piece) <= _SHORT_WORD:
            tokens += 1
        elif piece != " ":
            tokens += _piece(piece)
    return math.ceil(tokens)


def _piece(piece: str) -> float:
    first = piece[0]
    if first.isspace():
        return len(piece) // 8 + piece.count("\n") * 0.5  # one space belongs to the word after it
    if first.isascii():
        if first.isalpha():
            return len(piece) / _LETTERS_PER_TOKEN if len(piece) > _SHORT_WORD else 1
        return math.ceil(len(piece) / _DIGITS_PER_TOKEN)
    if is_unspaced(first) or not first.isalpha():
        return 1 if first < "\U00010000" else 2
    return 0.5


@functools.cache
def _encoding() -> "tiktoken.Encoding | None":
    if not _is_local():
        return None
    import tiktoken  # noqa: PLC0415 - a heavy import that most installations never need

    return tiktoken.get_encoding("o200k_base")


def _is_local() -> bool:
    """Whether tiktoken will find its file, whole, without a download."""
    folder = os.environ.get("TIKTOKEN_CACHE_DIR") or os.environ.get("DATA_GYM_CACHE_DIR")
    if not folder:
        return False
    file = Path(folder) / hashlib.sha1(_RANKS_URL.encode(), usedforsecurity=False).hexdigest()
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest() == _RANKS_SHA256
    except OSError:
        log.debug("tiktoken's file is not in %s; token counts are estimates", folder)
        return False
