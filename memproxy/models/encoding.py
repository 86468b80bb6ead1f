"""What local and remote embedders have in common. Here no library of a model is imported: that takes half a second."""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from memproxy.ports import Question

TEXT_BATCH = 4
"""Parts embedded in one go when turns are indexed: a query that arrives meanwhile waits for one such batch at most."""

Floats = npt.NDArray[np.float32]
Vectors = list[list[float]]


class Encoder(Protocol):
    """A loaded model: texts to vectors, blocking. Raises whatever the library does."""

    def __call__(self, texts: Sequence[str]) -> list[Question]:
        """For each text its vector, of length 1, and those of its tokens."""


def unit(vector: "np.ndarray[Any, Any]") -> list[float]:
    """The vector at length 1; nothing but zeros stay so."""
    length = float(np.linalg.norm(vector))
    result: list[float] = (vector / length if length else vector).astype(np.float32).tolist()
    return result
