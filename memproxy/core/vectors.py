"""Vectors as bytes: those of a text's tokens, packed small, and how near a question's tokens are to them (late
interaction); and whole vectors, as an export's lines (`core.transfer_lines`) hold them: little-endian 32-bit floats.

For each token of the question the most similar one of the text counts (MaxSim; Khattab and Zaharia, 2020). Of each
number one bit is kept, its sign: 48 bytes a token for 384 numbers; the question is compared in full
(docs/decisions/0017). Packed: the format (one byte), the numbers of a vector (two bytes, little endian), then each
token's bits.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]

_FLOAT_BYTES = 4

MOST_TOKENS = 128
"""Tokens of one text that are kept and compared, the first: 6 KiB with 384 numbers each. In a longer text something is
near to everything (docs/decisions/0017), and what comparing takes is bounded.
"""

_FORMAT = 1
_HEADER_BYTES = 3
_MOST_NUMBERS = 2**16 - 1
_AT_ONCE = 256  # tokens that are unpacked together, into 384 KiB that stay in the processor's cache
_MULTIPLIED = 1_000_000
"""Products of numbers in one product of matrices: of so few OpenBLAS takes them as they lie, and of more it copies both
first, which takes a quarter longer for the 12 to 30 tokens of a question.
"""

_FEWEST = 40  # with fewer tokens than this at once, for a question of 65 tokens, nothing is gained by it

_SIGNS: Vectors = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).astype(np.float32) * 2 - 1
"""The eight numbers that each byte stands for."""


def pack(vectors: Vectors) -> bytes:
    """The token vectors of one text, one row each, as `similarities` reads them; of more than `MOST_TOKENS` the first.

    Raises:
        ValueError: no table of at most 65,535 numbers in a row.
    """
    if vectors.ndim != 2 or vectors.shape[1] > _MOST_NUMBERS:
        raise ValueError(f"token vectors have the shape {vectors.shape}; give one row of numbers for each token")
    if not vectors.size:
        return b""
    bits: NDArray[np.uint8] = np.packbits(vectors[:MOST_TOKENS] > 0, axis=1)
    return bytes([_FORMAT]) + int(vectors.shape[1]).to_bytes(2, "little") + bits.tobytes()


def unpack(packed: bytes) -> Vectors:
    """One text's token vectors: unit vectors of the signs, at most `MOST_TOKENS`; none of another format."""
    numbers = int.from_bytes(packed[1:_HEADER_BYTES], "little")
    if not numbers or not _counts([packed], numbers)[0]:
        return np.zeros((0, numbers), np.float32)
    width = _width(numbers)
    bits = np.frombuffer(packed, np.uint8, offset=_HEADER_BYTES).reshape(-1, width)[:MOST_TOKENS]
    signs: Vectors = _SIGNS[bits].reshape(len(bits), -1)[:, :numbers]  # a copy
    signs /= np.float32(numbers**0.5)
    return signs


def mean_direction(packed: bytes) -> Vectors | None:
    """About the text's one vector, the mean of its tokens', as a unit vector. None without tokens."""
    tokens = unpack(packed)
    if not len(tokens):
        return None
    mean: Vectors = tokens.mean(axis=0)
    return mean / np.float32(max(float(np.linalg.norm(mean)), 1e-9))


def similarities(question: Vectors, packed: Sequence[bytes]) -> NDArray[np.float64]:
    """For each text (row) and each token of the question (column, a unit vector) the cosine of the text's nearest
    token, in [-1, 1]. NaN where a text has no tokens, or those of another format or model.
    """
    result = np.full((len(packed), len(question)), np.nan)
    readable, products, starts, _ = _compared(question, packed)
    if not readable:
        return result
    best = np.maximum.reduceat(products, starts, axis=0)
    if len(readable) == len(packed):
        return best.astype(np.float64)
    result[readable] = best
    return result


def mutual(text: bytes, texts: Sequence[bytes]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """How near the tokens of a text come to each of the ``texts``, and theirs to it: mean cosines of the nearest
    tokens, without the marks at both ends; 0 for a text without tokens.
    """
    towards, back = np.zeros(len(texts)), np.zeros(len(texts))
    tokens = unpack(text)[1:-1]
    readable, products, starts, counts = _compared(tokens, texts)
    if not readable:
        return towards, back
    towards[readable] = np.maximum.reduceat(products, starts, axis=0).mean(axis=1)
    nearest, last = products.max(axis=1), starts + counts - 1
    inner = np.add.reduceat(nearest, starts) - nearest[starts] - np.where(counts > 1, nearest[last], 0.0)
    back[readable] = inner / np.maximum(counts - 2, 1)
    return towards, back


def _compared(
    tokens: Vectors, packed: Sequence[bytes]
) -> tuple[list[int], Vectors, NDArray[np.intp], NDArray[np.intp]]:
    """The places of the texts that can be compared with these tokens; the cosines of all their tokens (rows), text
    after text, and of those; where each text begins, and how many tokens it has.
    """
    counts = _counts(packed, tokens.shape[1]) if len(tokens) else []
    readable = [index for index, count in enumerate(counts) if count]
    sizes = np.array([counts[index] for index in readable], np.intp)
    if not readable:
        return [], np.zeros((0, 0), np.float32), sizes, sizes
    width = _width(tokens.shape[1])
    # what is beyond `MOST_TOKENS` is cut off; a text with none has nothing beyond its header
    most = _HEADER_BYTES + MOST_TOKENS * width
    bodies = [packed[index][_HEADER_BYTES:most] for index in readable]
    bits = np.frombuffer(b"".join(bodies), np.uint8).reshape(-1, width)
    return readable, _products(bits, tokens), np.cumsum(sizes) - sizes, sizes


def _counts(packed: Sequence[bytes], numbers: int) -> list[int]:
    """How many tokens of each text are compared; 0 where their vectors do not have ``numbers`` numbers."""
    header, width = bytes([_FORMAT]) + numbers.to_bytes(2, "little"), _width(numbers)
    lengths = list(map(len, packed))
    tokens = {
        length: min((length - _HEADER_BYTES) // width, MOST_TOKENS)
        for length in set(lengths)
        if length >= _HEADER_BYTES and (length - _HEADER_BYTES) % width == 0
    }
    return [
        tokens.get(length, 0) if item.startswith(header) else 0 for item, length in zip(packed, lengths, strict=True)
    ]


def _products(bits: NDArray[np.uint8], question: Vectors) -> Vectors:
    """The cosine of every packed token (row) and every token of the question (column)."""
    width = _width(question.shape[1])
    wide = np.zeros((width * 8, len(question)), np.float32)
    wide[: question.shape[1]] = question.T / np.sqrt(question.shape[1])
    cosines = np.empty((len(bits), len(question)), np.float32)
    at_once = min(_AT_ONCE, _MULTIPLIED // wide.size)
    at_once = at_once if at_once >= _FEWEST else _AT_ONCE
    unpacked = np.empty((min(len(bits), at_once), width, 8), np.float32)
    for start in range(0, len(bits), at_once):
        chunk = bits[start : start + at_once]
        # "clip", as "raise" would copy what it writes; a byte is never out of range
        signs = _SIGNS.take(chunk, axis=0, out=unpacked[: len(chunk)], mode="clip")
        np.matmul(signs.reshape(len(chunk), -1), wide, out=cosines[start : start + at_once])
    return cosines


def _width(numbers: int) -> int:
    return -(-numbers // 8)


def packed(vector: Sequence[float]) -> bytes:
    """A vector as the file holds it (its JSON as base64)."""
    return np.asarray(vector, dtype="<f4").tobytes()


def unpacked(packed_bytes: bytes) -> list[float]:
    """Read what `packed` wrote, or what was `checked` when it came in."""
    numbers: list[float] = np.frombuffer(packed_bytes, dtype="<f4").tolist()
    return numbers


def checked(packed_bytes: bytes) -> NDArray[np.float32]:
    """The numbers that these bytes pack.

    Raises:
        ValueError: they are not whole 32-bit floats, or one that is not finite is among them.
    """
    if len(packed_bytes) % _FLOAT_BYTES:
        raise ValueError("must hold 32-bit floats")
    numbers = np.frombuffer(packed_bytes, dtype="<f4")
    # no sum of so few 32-bit numbers leaves the range of 64-bit ones, and what is not finite stays in it
    with np.errstate(invalid="ignore"):  # a signalling NaN raises the processor's flag on its way; it is refused below
        total = np.add.reduce(numbers, dtype=np.float64)
    if not math.isfinite(total):
        raise ValueError("must hold finite numbers")
    return numbers


def length_of(packed_bytes: bytes) -> int:
    """How many numbers a packed vector holds."""
    return len(packed_bytes) // _FLOAT_BYTES
