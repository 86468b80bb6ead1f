"""Vectors as bytes, as the lines of an export (`core.transfer`) hold them: little-endian 32-bit floats.

Apart from the lines themselves, because only who reads vectors needs NumPy: it takes a tenth of the start of a process.
"""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

_FLOAT_BYTES = 4


def packed(vector: Sequence[float]) -> bytes:
    """A vector as the file holds it (its JSON as base64)."""
    return np.asarray(vector, dtype="<f4").tobytes()


def unpacked(packed_bytes: bytes) -> list[float]:
    """Read what `packed` wrote, or what was `checked` when it came in."""
    numbers: list[float] = np.frombuffer(packed_bytes, dtype="<f4").tolist()
    return numbers


def checked(packed_bytes: bytes) -> npt.NDArray[np.float32]:
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
