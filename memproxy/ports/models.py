"""The seams to embedders, chat models, lexical encoders and clocks."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

import msgspec

from memproxy.ports.memory import SparseVector


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

    async def embed_query(self, text: str) -> list[float]:
        """One query (cached). Raises `errors.EmbedderUnavailable` at once when the model is not there."""

    async def embed_texts(self, texts: Sequence[str]) -> list[list[list[float]]]:
        """For each text the vectors of its parts (at least one). Raises `errors.EmbedderUnavailable`."""


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
    """A chat model's answer and what it cost."""

    text: str
    input_tokens: int = 0
    output_tokens: int = 0


class ChatModel(Protocol):
    """A chat model that answers one prompt (extraction, rewriting, judging)."""

    async def complete(self, credential: Credential, *, system: str, user: str, json_mode: bool) -> ModelReply:
        """Ask once, within the role's own timeout.

        Raises:
            ModelRefused: no key, or 401/403.
            ModelError: anything else that may pass (timeouts, 429, 5xx, connection errors).
        """

    async def close(self) -> None:
        """Close connections."""


class Clock(Protocol):
    """Wall-clock time; tests bring their own."""

    def now(self) -> datetime:
        """The current instant, aware, in UTC."""
