"""For embedders that give one vector for a text and none for its tokens."""

from collections.abc import Sequence
from typing import Protocol

from memproxy.ports import Passage, Question


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
