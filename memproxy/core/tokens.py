"""How many tokens a text has, estimated: no model family's table is needed, and none fits all of them."""

import math
import re

from memproxy.core.text import is_unspaced

_PIECE = re.compile(r"[A-Za-z]+|\d+|\s+|.", re.DOTALL)
_LETTERS_PER_TOKEN = 4.5
_DIGITS_PER_TOKEN = 3
_SHORT_WORD = 6


def estimate(text: str) -> int:
    """The tokens of a text, rather too many than too few, by the kinds of characters: a word up to six letters is one,
    longer ones one per 4.5 letters; three digits, one mark, or one character of an unspaced script are one; other
    letters one per two characters.
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
