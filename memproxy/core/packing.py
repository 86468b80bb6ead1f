"""Vectors as text, as the lines of an export (`core.transfer`) hold them: the base64 of little-endian 32-bit floats.

Apart from the lines themselves, because only who reads vectors needs NumPy: it takes a tenth of the start of a process.
"""

import base64
import binascii
import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

_FLOAT_BYTES = 4


def packed(vector: Sequence[float]) -> str:
    """A vector as the file holds it."""
    return base64.b64encode(np.asarray(vector, dtype="<f4").tobytes()).decode()


def unpacked(text: str) -> list[float]:
    """Read what `packed` wrote, or what was `checked` when it came in.

    Raises:
        ValueError: it is not base64 of whole 32-bit floats.
    """
    numbers: list[float] = np.frombuffer(unpacked_bytes(text), dtype="<f4").tolist()
    return numbers


def checked(text: str) -> npt.NDArray[np.float32]:
    """The numbers that a text packs.

    Raises:
        ValueError: it is not base64 of whole 32-bit floats, or holds one that is not finite.
    """
    packed_bytes = unpacked_bytes(text)
    if len(packed_bytes) % _FLOAT_BYTES:
        raise ValueError("must hold 32-bit floats")
    numbers = np.frombuffer(packed_bytes, dtype="<f4")
    # no sum of so few 32-bit numbers leaves the range of 64-bit ones, and what is not finite stays in it
    if not math.isfinite(np.add.reduce(numbers, dtype=np.float64)):
        raise ValueError("must hold finite numbers")
    return numbers


def unpacked_bytes(text: str) -> bytes:
    """The bytes that a text packs.

    Raises:
        ValueError: it is not base64.
    """
    if not text:
        return b""
    try:
        return binascii.a2b_base64(text, strict_mode=True)
    except ValueError as error:  # binascii.Error is one; another is told of text that is not ASCII
        raise ValueError("must be base64") from error


def length_of(text: str) -> int:
    """How many numbers a packed vector holds."""
    return (len(text) * 3 // 4 - text[-2:].count("=")) // _FLOAT_BYTES
