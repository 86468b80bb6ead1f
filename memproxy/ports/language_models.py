"""The seams to embedders, chat models, lexical encoders and clocks."""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from memproxy.ports.memory_store import SparseVector

if TYPE_CHECKING:  # the relay passes such by and does without NumPy, a tenth of its start
    import numpy as np
    import numpy.typing as npt


class Question(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A text as it is searched by.

    ``tokens`` holds a vector of length 1 for each of its tokens that has a letter or a digit, 32-bit floats of shape
    [tokens, dimension]; None when the embedder gives none. ``words`` are these tokens' texts, as the model's tokenizer
    writes them (``##ing`` goes on with a word), in the same order. ``unread``: the model's vocabulary lacks so many of
    its words that the vector says nothing of it.
    """

    vector: list[float]
    tokens: "npt.NDArray[np.float32] | None" = None
    words: list[str] = []
    unread: bool = False


class Passage(msgspec.Struct, frozen=True, kw_only=True):
    """A text as it is searched for: a vector for each of its parts (at least one), and its tokens' (or none)."""

    parts: list[list[float]]
    tokens: bytes = b""


class Embedder(Protocol):
    """Turns text into unit vectors of ``dimension`` floats."""

    @property
    def name(self) -> str:
        """Provider and model, as the store remembers it (``fastembed:sentence-transformers/all-MiniLM-L6-v2``)."""

    @property
    def dimension(self) -> int | None:
        """Length of a vector; None while that is not known yet."""

    @property
    def state(self) -> str:
        """``ready``, ``loading``, ``unavailable: why``, or ``off``."""

    async def start(self) -> None:
        """Begin loading in the background; returns at once."""

    async def close(self) -> None:
        """Stop loading, release the model."""

    async def embed_question(self, text: str) -> Question:
        """One query (cached). Raises `errors.EmbedderUnavailable` at once when the model is not there."""

    async def embed_passages(self, texts: Sequence[str]) -> list[Passage]:
        """Texts as they are searched for. Raises `errors.EmbedderUnavailable`."""


class LexicalEncoder(Protocol):
    """Text to BM25 sparse vectors; needs no model."""

    def encode_document(self, text: str) -> SparseVector:
        """Weights with term-frequency saturation and length normalisation."""

    def encode_query(self, text: str) -> SparseVector:
        """Each distinct term with weight 1."""


class Credential(msgspec.Struct, frozen=True, kw_only=True):
    """How to reach a chat model: base URL, key (held in memory only) and model name."""

    base_url: str
    model: str
    api_key: str | None = None


class ModelReply(msgspec.Struct, frozen=True, kw_only=True):
    """A chat model's answer and what it cost. ``truncated``: it ends where the token limit was reached."""

    text: str
    truncated: bool = False
    input_tokens: int = 0
    output_tokens: int = 0


class ChatModel(Protocol):
    """A chat model that answers one prompt (extraction, rewriting, judging)."""

    async def complete(
        self, credential: Credential, *, system: str, user: str, json_mode: bool, schema: dict[str, Any] | None = None
    ) -> ModelReply:
        """Ask once, within the role's own timeout. ``schema`` is the JSON schema of the answer, for providers that
        take one; others are asked for JSON, or in words alone.

        Raises:
            ModelRefused: no key, or 401/403.
            ModelUnavailable: it is away, or takes no more of this account (timeouts, 429, 5xx, connection errors).
            ModelError: what was asked is refused, or cannot be read as an answer.
        """

    async def close(self) -> None:
        """Close connections."""


class RoleModel(Protocol):
    """A chat model in one role, reached as the tenant's requests reach theirs; it counts its tokens."""

    async def ask(self, tenant: str, *, system: str, user: str, json_mode: bool = False) -> str:
        """The model's answer.

        Raises:
            ModelRefused: the way to the model is not known (yet), or the key is refused.
            ModelError: it did not answer in time, it failed, or it failed so often that it is left alone for a while.
        """


class Reranker(Protocol):
    """Says how well texts answer a query, reading both together."""

    async def rerank(self, tenant: str, query: str, texts: Sequence[str]) -> list[float]:
        """One score in [0, 1] for each text, in their order.

        Raises:
            ModelRefused: as for `RoleModel`.
            ModelError: as for `RoleModel`; also when the answer cannot be read.
        """


class OpenModel(Protocol):
    """A model that holds connections, or threads, until it is closed."""

    async def close(self) -> None:
        """Give them up."""


class Clock(Protocol):
    """Wall-clock time; tests bring their own."""

    def now(self) -> datetime:
        """The current instant, aware, in UTC."""
