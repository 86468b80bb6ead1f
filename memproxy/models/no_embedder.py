"""The embedder of a deployment that has none."""

from collections.abc import Sequence

from memproxy.errors import EmbedderUnavailable
from memproxy.models.encoding import Vectors
from memproxy.models.plain import WithoutTokens


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
