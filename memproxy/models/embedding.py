"""What all embedders have in common, and the embedder of a deployment that has none. Here no library of a model is
imported: that takes half a second.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from memproxy.errors import EmbedderUnavailable
from memproxy.ports import Passage, Question

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


class _Plain(Protocol):
    async def embed_query(self, text: str) -> list[float]: ...

    async def embed_texts(self, texts: Sequence[str]) -> list[list[list[float]]]: ...


class WithoutTokens:
    """The two calls of `ports.Embedder` that would give the vectors of tokens, made of the two that do not."""

    async def embed_question(self: _Plain, text: str) -> Question:
        """As `embed_query`."""
        return Question(vector=await self.embed_query(text))

    async def embed_passages(self: _Plain, texts: Sequence[str]) -> list[Passage]:
        """As `embed_texts`."""
        return [Passage(parts=parts) for parts in await self.embed_texts(texts)]


class NoEmbedder(WithoutTokens):
    """`ports.Embedder` that has none: recall by words alone, as configured (``embedding.provider: none``)."""

    name = "none"
    state = "off"

    def __init__(self, dimension: int | None = None) -> None:
        self._dimension = dimension

    @property
    def dimension(self) -> int | None:
        return self._dimension

    async def start(self) -> None:
        """Nothing to load."""

    async def close(self) -> None:
        """Nothing to release."""

    async def embed_query(self, text: str) -> list[float]:  # noqa: ARG002 - the port's signature
        raise EmbedderUnavailable("embedding.provider is none: recall goes by words")

    async def embed_texts(self, texts: Sequence[str]) -> list[Vectors]:  # noqa: ARG002 - the port's signature
        raise EmbedderUnavailable("embedding.provider is none: recall goes by words")
